"""Locatello et al. (2019), "Challenging common assumptions": the study of 12,000 models and its library.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Theorem 1: impossible without biases    karenina.theory.entangle
Section 4: methods (appendix B)         karenina.train; karenina.models.objectives
Section 4: metrics (appendix C)         karenina.score(protocol="locatello")
Section 5.2, figures 1, 8, 9, 24-27     tables.figure_1 ...: total correlation of mean and sampled codes
Section 5.3, figures 2, 12              tables.figure_2: how metrics agree
Section 5.4, figures 3, 13, table 5     tables.figure_3, tables.table_5: method, strength and chance
Section 5.5, figures 4, 15-18, table 1  tables.figure_4, tables.table_1: choosing models
Section 5.6, figures 5, 6, 19-23        tasks.figure_5 ...: downstream tasks and their efficiency
Figure 7: reconstructions               tasks.figure_7
Appendix: hyperparameters, networks     preset.toml; karenina.models.networks (conv64)
Data sets                               karenina.load: dsprites, color_dsprites, ..., shapes3d
======================================  ==================================================================
"""
