"""Locatello et al. (2019), "Challenging common assumptions": the study of 12,000 models and its library.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 3, appendix A: Theorem 1        karenina.theory.entangle, karenina.theory.entanglement
Section 4, appendix B: methods          karenina.models.objectives: vae (equation 1), beta_vae, annealed_vae,
                                        factor_vae, beta_tcvae, dip_vae_i, dip_vae_ii
Section 4, appendix C: metrics          karenina.score(protocol="locatello")
Appendix C: total correlation           karenina.metrics.gaussian_total_correlation
Appendix C: downstream tasks            karenina.tasks.downstream
Appendix H: data sets                   karenina.load: dsprites, color_dsprites, noisy_dsprites, scream_dsprites,
                                        cars3d, smallnorb, shapes3d
Appendix F, table 2: network            karenina.models.networks.NETWORKS (conv64)
Tables 4b, 4c: discriminator            karenina.training.methods.DISCRIMINATOR
Appendix G, tables 3, 4a: settings      preset.toml
I.1, figure 7: reconstructions          tasks.figure_7
Section 5.1, I.2, figures 1, 8, 9       tables.figure_1, tables.figure_8, tables.figure_9: total correlation by strength
I.2, figure 10                          tables.figure_10: total correlation of mean against sampled codes
Section 5.2, I.3, figures 2, 11, 12     tables.figure_2, tables.figure_11, tables.figure_12: how metrics agree
Section 5.3, I.4, figures 3, 13, 14     tables.figure_3, tables.figure_13, tables.figure_14: method, strength and chance
I.4, table 5                            tables.table_5: the variance that method and strength explain
Section 5.4, I.5, figures 4, 15 to 18   tables.figure_4; tables.figure_15, tables.figure_16, tables.figure_17,
                                        tables.figure_18: choosing models
Section 5.4, tables 1, 6                tables.table_1, tables.table_6: choosing against a random model
Section 5.5, I.6, figures 5, 19         tasks.figure_5, tasks.figure_19: metrics and downstream tasks
Section 5.5, I.6, figures 6, 20, 21     tasks.figure_6, tasks.figure_20, tasks.figure_21: efficiency with few rows
I.6, figures 22, 23                     tasks.figure_22, tasks.figure_23: three groups of models
Appendix J, figures 24 to 27            tables.figure_24, tables.figure_25: total correlation; tables.figure_26,
                                        tables.figure_27: mutual information
======================================  ==================================================================
"""
