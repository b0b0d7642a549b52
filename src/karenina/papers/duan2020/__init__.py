"""Duan et al. (2020), "Unsupervised model selection for variational disentangled representation learning": UDR.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 3, equation 2: UDR              karenina.selection.udr
Section 3: R by lasso, by Spearman      karenina.selection.udr(preset="udr_lasso" or "udr_spearman")
Section 3: active latents, KL > 0.01    karenina.selection.active_units, kl_threshold
Table 1, figure 6                       tables.table_1, tables.figure_6: versions of UDR with MIG
Table 2, figure 8                       tables.table_2, tables.figure_8: how many partners
Tables 3 and 5: networks, strengths     karenina.models.networks (conv64), preset.toml
Figure 1, 3                             pictures.figure_1, pictures.figure_3: traversals
Figure 2, 7                             tables.figure_2, tables.figure_7: scores of each setting
A.2: UDR by entropies                   tables.appendix_a2
A.5: all to all among some seeds        karenina.studies.plan.Selection (a2a_seeds)
A.8, figure 11: fairness, an agent      tables.figure_11; clustering: the sprite world, MONet and the agent
A.9, figure 12: photographs             preset.toml (duan2020_photos), pictures.figure_12
A.10: latents switched off              tables.appendix_a10
Table 7                                 tables.table_7: the versions compared
Figures 9, 10, 13 to 17                 pictures.figure_9 ...: models that are ranked high and low
======================================  ==================================================================
"""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
