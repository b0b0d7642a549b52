"""All metrics in one place: what each measures, its function, and its parameters under each protocol.

A package registers a metric under a name of its choice by an entry point of the group "karenina.metrics": a function of
codes (n, d) and factors (n, k) that returns a number, or a `Metric`. `karenina.score` and studies then know it by name.
"""

from karenina.metrics._dci import Lasso, Trees, dci, dci_es
from karenina.metrics._explicitness import explicitness
from karenina.metrics._infomec import infomec
from karenina.metrics._inputs import Metric
from karenina.metrics._sap import sap
from karenina.metrics.alignment import aligned_dci
from karenina.metrics.identifiability import mcc, r2_affine
from karenina.metrics.information import Binning, dcimig, jemmig, mig, mig_sup, modularity
from karenina.metrics.interventions import irs, z_diff, z_max_variance, z_min_variance
from karenina.metrics.label_free import (
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    mutual_information,
)

PROTOCOLS = ("locatello", "carbonneau")

# DCI's names of the three properties.
DCI_PARTS = {"modularity": "disentanglement", "compactness": "completeness", "explicitness": "informativeness"}
_DCI = {part: measured for measured, part in DCI_PARTS.items()}
# Locatello et al. (2019), appendix C: 10,000 rows to train and 5,000 to test, or of fewer rows two thirds and one.
_ROWS = {"rows": 15_000, "test_fraction": 1 / 3}
_TEN_BINS = {"binning": Binning(bins=10, factor_bins=10)}
# The guess error of the text of Carbonneau et al. is 1/6; that of their release and of the numbers they print 1/12.
_CARBONNEAU_DCI = {"continuous": True, "guess_error": 1 / 12}
_CARBONNEAU_LASSO = Lasso(scale="range", alphas=(1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4, 0.8, 1))
_CARBONNEAU_FOREST = Trees("forest", depths=(8, 16, 32, 64, 128), max_features=(0.2, 0.4, 0.8, 1.0))
_CARBONNEAU_VOTES = {
    "batch": 200,
    "train": 800,
    "evaluate": 800,
    "threshold": 0.02**2,
    "replace": False,
    "rescale": True,
}

METRICS: dict[str, Metric] = {
    "z_diff": Metric(
        z_diff,
        "intervention",
        "modularity",
        locatello={"per_pair": False, "standardise": False},
        carbonneau={"batch": 200, "standardise": False, "rescale": True},
    ),
    "z_min_variance": Metric(
        z_min_variance, "intervention", "modularity", locatello={"threshold": 0.05}, carbonneau=_CARBONNEAU_VOTES
    ),
    "z_max_variance": Metric(z_max_variance, "intervention", "modularity", carbonneau=_CARBONNEAU_VOTES),
    "irs": Metric(
        irs,
        "intervention",
        "holistic",
        locatello={"quantile": 0.99, "factor_bins": 20, "bin_labels": True, "code_weights": "deviation"},
        carbonneau={"quantile": 1.0, "factor_bins": 10, "code_weights": "deviation"},
    ),
    "dci_lasso": Metric(
        dci, "predictor", _DCI, {"model": "lasso"}, carbonneau={"model": _CARBONNEAU_LASSO, **_CARBONNEAU_DCI}
    ),
    "dci_forest": Metric(
        dci, "predictor", _DCI, {"model": "forest"}, carbonneau={"model": _CARBONNEAU_FOREST, **_CARBONNEAU_DCI}
    ),
    "dci_boosted": Metric(
        dci,
        "predictor",
        _DCI,
        {"model": "boosted"},
        locatello={"model": "boosted", "completeness": "weighted", "continuous": False, **_ROWS},
    ),
    "dci_aligned": Metric(aligned_dci, "predictor", {f"aligned.{part}": measured for part, measured in _DCI.items()}),
    "explicitness": Metric(
        explicitness,
        "predictor",
        "explicitness",
        locatello={"classifier": "multinomial", "balanced": False, **_ROWS},
        carbonneau={"scale": "range", "rescale": True, "test_fraction": 0},
    ),
    "sap": Metric(
        sap,
        "predictor",
        "compactness",
        locatello={"standardise": False, "c": 0.01, **_ROWS},
        carbonneau={"classifier": "tree"},
    ),
    "mig": Metric(mig, "information", "compactness", locatello={}, carbonneau={**_TEN_BINS, "normaliser": "code"}),
    "mig_sup": Metric(
        mig_sup, "information", "modularity", carbonneau={**_TEN_BINS, "normaliser": "code", "weight": "all"}
    ),
    "mig_sup_weighted": Metric(mig_sup, "information", "modularity", {"weight": "information"}),
    "jemmig": Metric(jemmig, "information", "holistic", carbonneau=_TEN_BINS),
    "modularity": Metric(
        modularity,
        "information",
        "modularity",
        locatello={"weight": "all"},
        carbonneau={**_TEN_BINS, "weight": "all"},
    ),
    "modularity_weighted": Metric(modularity, "information", "modularity", {"weight": "information"}),
    "dcimig": Metric(dcimig, "information", "holistic", carbonneau=_TEN_BINS),
    "total_correlation": Metric(gaussian_total_correlation, "label-free", "independence", locatello={}),
    "wasserstein_correlation": Metric(
        gaussian_wasserstein_correlation, "label-free", "independence", {"normalised": True}, locatello={}
    ),
    "mutual_information": Metric(mutual_information, "label-free", "independence", locatello={}),
    "infomec": Metric(
        infomec,
        "mixed",
        {"modularity": "modularity", "compactness": "compactness", "explicitness": "explicitness"},
        on_request=True,
    ),
    "dci_es": Metric(
        dci_es,
        "predictor",
        {
            "disentanglement": "modularity",
            "completeness": "compactness",
            "informativeness": "explicitness",
            "explicitness": "ease of use",
            "size": "size",
        },
        on_request=True,
    ),
    "mcc": Metric(mcc, "identifiability", "holistic", on_request=True),
    "mcc_rank": Metric(mcc, "identifiability", "holistic", {"correlation": "rank"}, on_request=True),
    "r2_affine": Metric(r2_affine, "identifiability", "explicitness", on_request=True),
    "irs_robust": Metric(irs, "intervention", "holistic", {"robust": True}, on_request=True),
}


def score_name(metric: str, measured: str, *, several: bool = False) -> str:
    """Return what a score is called: the metric, followed by the part where it is DCI.

    Where it is not, by the property if it measures several, which `several` says of metrics of others.

    >>> score_name("dci_lasso", "modularity"), score_name("mig", "compactness"), score_name("mine", "x", several=True)
    ('dci_lasso disentanglement', 'mig', 'mine x')
    >>> score_name("infomec", "modularity")
    'infomec modularity'
    """
    if metric.split("_")[0] == "dci":
        return f"{metric} {DCI_PARTS.get(measured, measured)}".strip()
    several = several or (metric in METRICS and len(METRICS[metric].properties) > 1)
    return f"{metric} {measured}".strip() if several else metric
