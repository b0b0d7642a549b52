"""Eastwood & Williams (2018), "A framework for the quantitative evaluation of disentangled representations": DCI.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 2: D, C and I                   karenina.metrics.dci
Section 2: importances of lasso, forest karenina.metrics.dci(model="lasso" or "forest")
Section 4.1: teapots                    teapots.teapots, or karenina.load("teapots")
Section 4.2: PCA, VAE, beta-VAE,        karenina.train, preset.toml
InfoGAN
Table 1                                 tables.table_1: averages
Tables 3, 4                             tables.table_3, tables.table_4: each code, each factor
Section 5, table 5: zero-shot           tables.table_5; karenina.tasks.zero_shot
Appendix B.2: the corner left out       teapots.in_gap, karenina.load("teapots:gap=exclude")
Figures 2, 4                            tables.figure_2, tables.figure_4: samples
Figure 3                                tables.figure_3: Hinton diagrams
Figures 5, 6                            tables.figure_5, tables.figure_6: codes and traversals
======================================  ==================================================================
"""
