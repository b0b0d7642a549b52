"""Papers since 2020 (and one of 2019) whose main comparison can be run here.

======================================  ==================================================================
Locatello et al. (2020), pairs          tables.pairs; preset.toml (locatello2020_pairs); method "ada_gvae"
   averaged posteriors of a pair        karenina.models.objectives.share_posteriors
Locatello et al. (2020), few labels     tables.few_labels; preset.toml (locatello2020_few_labels); train(supervised=)
   a term for images with labels        karenina.models.objectives.supervised
Träuble et al. (2021)                   tables.correlated; preset.toml (traeuble2021); correlate= of data sets
   a data set with correlated factors   karenina.data.sampling.biased
Hsu et al. (2023)                       tables.quantised; preset.toml (hsu2023); method "qlae", metric infomec
   objective, and the metric            karenina.models.objectives.qlae, karenina.metrics.infomec
van Steenkiste et al. (2019)            reasoning.reasoning, as karenina.evaluate(also=["reasoning"])
   matrices, WReN                       reasoning.reasoning_matrices, reasoning.WReN, reasoning.learn_matrices
======================================  ==================================================================
"""
