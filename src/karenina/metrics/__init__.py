"""Metrics of disentanglement: pure functions of codes (n, d) and factors (n, k).

`karenina.metrics.mig(codes, factors)` and so on each give a result with `value` (also `float(result)`), and where they
exist `per_factor`, `per_code` and `matrix`. `karenina.score` computes them. `METRICS` says what each measures.
"""

from karenina._plugins import lazy_modules
from karenina.drawing.charts import hinton
from karenina.metrics._dci import DCI, DCIES, Lasso, Trees, dci, dci_es, dci_from_importance
from karenina.metrics._explicitness import explicitness
from karenina.metrics._infomec import InfoMEC, infomec
from karenina.metrics._inputs import Metric, Result
from karenina.metrics._sap import sap
from karenina.metrics.alignment import AlignedDCI, aligned_dci
from karenina.metrics.files import read_codes
from karenina.metrics.identifiability import linearity, mcc, r2_affine, yang_amari_error
from karenina.metrics.information import Binning, dcimig, jemmig, mig, mig_sup, modularity
from karenina.metrics.interventions import irs, z_diff, z_max_variance, z_min_variance
from karenina.metrics.label_free import (
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    mutual_information,
)
from karenina.metrics.registry import METRICS, PROTOCOLS
from karenina.metrics.scoring import Table, plot_scores, score

__all__ = [
    "DCI",
    "DCIES",
    "METRICS",
    "PROTOCOLS",
    "AlignedDCI",
    "Binning",
    "InfoMEC",
    "Lasso",
    "Metric",
    "Result",
    "Table",
    "Trees",
    "aligned_dci",
    "dci",
    "dci_es",
    "dci_from_importance",
    "dcimig",
    "explicitness",
    "gaussian_total_correlation",
    "gaussian_wasserstein_correlation",
    "hinton",
    "infomec",
    "irs",
    "jemmig",
    "linearity",
    "mcc",
    "mig",
    "mig_sup",
    "modularity",
    "mutual_information",
    "plot_scores",
    "r2_affine",
    "read_codes",
    "sap",
    "score",
    "yang_amari_error",
    "z_diff",
    "z_max_variance",
    "z_min_variance",
]

__getattr__ = lazy_modules(__name__)
