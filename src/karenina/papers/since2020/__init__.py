"""Papers since 2020 (and one of 2019) whose main comparison can be run here.

======================================  ==================================================================
Locatello et al. (2020), pairs          preset.toml (locatello2020_pairs), tables.pairs; method "ada_gvae"
Locatello et al. (2020), few labels     preset.toml (locatello2020_few_labels), tables.few_labels; supervised=
Träuble et al. (2021)                   preset.toml (traeuble2021), tables.correlated; correlate= of data
Hsu et al. (2023)                       preset.toml (hsu2023), tables.quantised; method "qlae", metric infomec
van Steenkiste et al. (2019)            reasoning: matrices, WReN, karenina.evaluate(also=["reasoning"])
======================================  ==================================================================
"""
