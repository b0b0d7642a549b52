"""Carbonneau et al. (2022), "Measuring disentanglement: a review of metrics", with its controlled experiments.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 3: thirteen metrics             karenina.score(protocol="carbonneau"), karenina.metrics
Section 4: modularity, compactness, ..  karenina.metrics.registry.METRICS: family and property of each
Section 5.1, figure 3                   tables.figure_3: how metrics rank the models of preset.toml
Section 5.2, figure 4: noise            karenina.audit (noise), tables.figure_4
Section 5.2, table 1: redundancy        karenina.audit (redundancy), tables.table_1
Section 5.2, figure 5: mixing           karenina.audit (mixing), tables.figure_5
Section 5.2, figures 6, 7: non-linear   karenina.audit (nonlinear), tables.figure_6, tables.figure_7
Section 5.2, figure 8: some factors     karenina.audit (measured), tables.figure_8
Figure 9: how many rows                 karenina.audit (samples), tables.figure_9
Table 2: which metric has which virtue  tables.table_2
======================================  ==================================================================
"""
