"""Holtz et al. (2022), "Evaluating disentanglement in generative models without knowledge of latent factors": dynamics.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 2.1, equations 1 to 3           karenina.models.objectives.vae, karenina.models.objectives.beta_vae
Section 2.2: supervised metrics         karenina.metrics.z_diff (BetaVAE), karenina.metrics.z_min_variance (FactorVAE),
                                        karenina.metrics.mig
Section 3.1: a trace of the decoder     karenina.train(trace=True)
Section 3.1: multislice kernel          karenina.selection._dynamics.random_walk
Section 3.1: joint embedding of seeds   karenina.selection.joint_embedding
Section 3.2, definition 3.1: MMD        karenina.selection._dynamics.mmd
Section 3.3, steps 1 to 4               karenina.selection.dynamics, from the traces of all seeds of all settings
Section 4: 5 x 5 settings, 25 seeds     preset.toml
Section 4: noisy-dSprites               karenina.tasks.label_noise, karenina.tasks.robustness
Section 4: unfairness                   karenina.tasks.fairness, karenina.tasks.total_variation
Section 4: an agent                     karenina.papers.duan2020.clustering
Table 1                                 tables.table_1: rank correlation with the metrics, by number of seeds
Tables 2, 3: wrong labels               tables.table_2, tables.table_3
Table 4: unfairness, steps of an agent  tables.table_4
Figure 1                                tables.figure_1: samples from the prior, by strength
Figure 2: a drawing                     none
Figure 3                                tables.figure_3: embeddings of single seeds, and of all jointly
Figure 4                                tables.figure_4: mean MMD by number of latents, joint embeddings
======================================  ==================================================================
"""
