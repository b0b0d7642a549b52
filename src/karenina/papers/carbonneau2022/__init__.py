"""Carbonneau et al. (2022), "Measuring disentanglement: a review of metrics", with its controlled experiments.

What stands where in the paper, and the function that is it here:

======================================  ==================================================================
Section 2: properties                   karenina.metrics.registry.METRICS: family and property of each metric
Section 4: thirteen metrics             karenina.score(protocol="carbonneau")
Sections 4.2.1, 4.2.2                   karenina.metrics.z_diff, karenina.metrics.z_min_variance
Section 4.2.3                           karenina.metrics.z_max_variance
Section 4.2.4: IRS                      karenina.metrics.irs
Section 4.3.1: DCI                      karenina.metrics.dci(model="lasso" or "forest")
Section 4.3.2: explicitness score       karenina.metrics.explicitness
Section 4.3.3, equation 1: SAP          karenina.metrics.sap
Section 4.4, equation 2: information    karenina.numerics.histograms.information
Section 4.4.1, equation 3: MIG          karenina.metrics.mig
Section 4.4.2, equations 4, 5: JEMMIG   karenina.metrics.jemmig
Section 4.4.3, equation 6: MIG-sup      karenina.metrics.mig_sup
Section 4.4.4, equation 7               karenina.metrics.modularity
Section 4.4.5, equation 8: DCIMIG       karenina.metrics.dcimig
Section 5.1, figure 3                   tables.figure_3: how metrics rank the models of preset.toml
Section 5.2, equation 9, figure 4       karenina.audit.EXPERIMENTS (noise), tables.figure_4
Section 5.3, figure 5                   karenina.audit.EXPERIMENTS (mixing), tables.figure_5
Section 5.4, table 1                    karenina.audit.EXPERIMENTS (redundancy), tables.table_1
Section 5.5, equation 10, figures 6, 7  karenina.audit.EXPERIMENTS (nonlinear), tables.figure_6, tables.figure_7
Section 5.6, figure 8: some factors     karenina.audit.EXPERIMENTS (measured), tables.figure_8
Section 5.7, figure 9: how many rows    karenina.audit.EXPERIMENTS (samples), tables.figure_9
Section 6, table 2                      tables.table_2: which metric has which virtue, by karenina.audit.rules
Figures 1, 2: drawings                  none
======================================  ==================================================================
"""
