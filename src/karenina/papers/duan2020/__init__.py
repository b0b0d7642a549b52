"""Duan et al. (2020), "Unsupervised model selection for variational disentangled representation learning": UDR.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 3, equation 1: VAE              karenina.models.objectives.vae
Section 4, steps 1 to 4, equation 2     karenina.selection.udr(similarity="lasso" or "spearman", all_to_all=, partners=)
Section 4, A.5, figure 5: R of two      karenina.selection.similarity_matrix
Section 4, equation 3: active latents   karenina.selection._inputs.check_kl; KL > 0.01, here > ACTIVE_KL (0.05)
Equation 2, two readings                tables.equation_2: UDR with inactive latents set to 0, or kept
Section 5, A.6: supervised metrics      karenina.metrics.z_diff, karenina.metrics.z_min_variance, karenina.metrics.mig,
                                        karenina.metrics.dci
Table 1, figure 6                       tables.table_1, tables.figure_6: versions of UDR with MIG, and with all metrics
Table 2, figure 8                       tables.table_2, tables.figure_8: how many partners
Table 3: property of each metric        karenina.metrics.registry.METRICS
Table 4: network                        karenina.models.networks.NETWORKS (conv64)
Tables 5, 6a: strengths, training       preset.toml
Tables 6b, 6c: discriminator            karenina.training.methods.DISCRIMINATOR
Table 7                                 tables.table_7: the versions of UDR compared
Figures 1, 3                            pictures.figure_1, pictures.figure_3: traversals of models by rank
Figures 2, 7                            tables.figure_2, tables.figure_7: scores of each setting
Figures 9, 10                           pictures.figure_9 (UDR against DCI), pictures.figure_10 (best and worst)
A.2                                     tables.appendix_a2: UDR by the entropies of DCI
A.3: data sets                          karenina.load: dsprites, shapes3d, cars3d
A.4, equations 4, 9: beta-VAE           karenina.models.objectives.beta_vae
A.4, equations 5, 10: CCI-VAE           karenina.models.objectives.annealed_vae
A.4, equations 6, 7, 11: FactorVAE      karenina.models.objectives.factor_vae
A.4, equations 6, 7: TC-VAE             karenina.models.objectives.beta_tcvae, karenina.models.objectives.decompose
A.4, equations 8, 12, 13: DIP-VAE       karenina.models.objectives.dip_vae_i, karenina.models.objectives.dip_vae_ii
A.5: all to all among 10 seeds          karenina.studies.plan.Selection (a2a_seeds)
A.8, figure 11: fairness, an agent      tables.figure_11; karenina.tasks.fairness; clustering.study.ClusteringStudy
   its world, vision and agent          clustering.world.Environment, clustering.monet.MONet, clustering.agent.learn
A.9, figures 12 to 14: photographs      pictures.figure_12, pictures.figure_13, pictures.figure_14; preset.toml
A.10: latents switched off              tables.appendix_a10
A.10, figures 15 to 17                  pictures.figure_15, pictures.figure_16, pictures.figure_17: bands of UDR
Figure 4: a drawing                     none
======================================  ==================================================================
"""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
