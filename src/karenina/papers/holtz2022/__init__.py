"""Holtz et al. (2022), "Evaluating disentanglement in generative models without knowledge of latent factors": dynamics.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 3: codes along training         karenina.train(trace=True)
Section 3: a geometry of the traces     karenina.selection.dynamics: kernels, diffusion, MMD between seeds
Table 1                                 tables.table_1: the score with the metrics, by number of seeds
Table 2, 3: wrong labels                tables.table_2, tables.table_3; karenina.tasks.label_noise
Table 4: an agent                       tables.table_4, from karenina.papers.duan2020.clustering
Figure 1, 3                             tables.figure_1, tables.figure_3: traces
Figure 4                                tables.figure_4: embedded traces of all seeds
Experiments: 5 x 5 settings, 25 seeds   preset.toml
======================================  ==================================================================
"""
