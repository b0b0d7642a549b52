"""Eastwood & Williams (2018), "A framework for the quantitative evaluation of disentangled representations": DCI.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 2: D, C and I                   karenina.metrics.dci; D and C alone: karenina.metrics.dci_from_importance
Section 3, equation 1: Yang and Amari   karenina.metrics.yang_amari_error
Section 4.1: teapots                    teapots.teapots, or karenina.load("teapots")
Section 4.2: PCA, VAE, beta-VAE         karenina.models.pca.fit_pca; karenina.models.objectives: vae, beta_vae
Section 4.2: InfoGAN                    karenina.models.infogan.build, karenina.models.infogan.critic_terms; preset.toml
Section 4.3: lasso, random forest       karenina.metrics.Lasso, karenina.metrics.Trees
Section 4.4, table 1                    tables.table_1: averages
Appendix A: training                    preset.toml
Table 2: network                        karenina.models.networks.NETWORKS (resnet)
Appendix B.1, tables 3, 4               tables.table_3, tables.table_4: each code, each factor
Appendix B.2, table 5: zero-shot        tables.table_5; karenina.tasks.zero_shot
Appendix B.2: the corner left out       teapots.in_gap, karenina.load("teapots:gap=exclude")
Figures 2, 4                            tables.figure_2, tables.figure_4: samples of the data, and of the corner
Figure 3                                tables.figure_3: Hinton diagrams
Appendix C, figure 5                    tables.figure_5: factors against their most important codes
Appendix D, figure 6                    tables.figure_6: traversals
Figure 1: a drawing                     none
======================================  ==================================================================
"""
