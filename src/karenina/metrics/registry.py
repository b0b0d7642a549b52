"""All metrics in one place: what each measures, where it lives, and its parameters under each protocol."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]

PROTOCOLS = ("locatello", "carbonneau")


@dataclass(frozen=True)
class Metric:
    """One line of the registry.

    home: "module:function" in karenina.metrics. properties: attribute of the result -> the property that it measures.
    ours, locatello, carbonneau: parameters where they differ from the function's defaults; None where the protocol
    does not have the metric. tables: the function reads information tables, which several metrics share.
    codes_only: needs no factors. random: takes a seed. samples: takes a sampler. tests: takes rows to test on.
    """

    home: str
    family: str
    properties: Mapping[str, str]
    ours: Settings | None = None
    locatello: Settings | None = None
    carbonneau: Settings | None = None
    tables: bool = False
    codes_only: bool = False
    random: bool = False
    samples: bool = False
    tests: bool = False

    def settings(self, protocol: str | None) -> Settings | None:
        return getattr(self, protocol or "ours")

    def function(self) -> Callable[..., Any]:
        module, name = self.home.split(":")
        function: Callable[..., Any] = getattr(importlib.import_module(f"karenina.metrics.{module}"), name)
        return function


# Parameters that belong to the information tables; the rest go to the function that reads them.
TABLE_SETTINGS = ("bins", "binning", "limits", "estimator", "neighbours", "factor_bins")

_DCI = {"disentanglement": "modularity", "completeness": "compactness", "informativeness": "explicitness"}
# Locatello et al. (2019), appendix C: 10,000 rows to train and 5,000 to test, or of fewer rows two thirds and one.
_ROWS = {"rows": 15_000, "test_fraction": 1 / 3}
_TEN = {"bins": 10, "factor_bins": 10}
# The guess error of the text of Carbonneau et al. is 1/6; that of their release and of the numbers they print 1/12.
_CARBONNEAU_DCI = {"continuous": True, "folds": 10, "guess_error": 1 / 12}
_PENALTIES = (1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4, 0.8, 1)
_VOTES = {"batch": 200, "train": 800, "evaluate": 800, "threshold": 0.02**2, "replace": False, "rescale": True}

METRICS: dict[str, Metric] = {
    "z_diff": Metric(
        "interventions:z_diff",
        "intervention",
        {"value": "modularity"},
        ours={},
        locatello={"per_pair": False, "standardise": False},
        carbonneau={"batch": 200, "standardise": False, "rescale": True},
        random=True,
        samples=True,
    ),
    "z_min_variance": Metric(
        "interventions:z_min_variance",
        "intervention",
        {"value": "modularity"},
        ours={},
        locatello={"threshold": 0.05},
        carbonneau=_VOTES,
        random=True,
        samples=True,
    ),
    "z_max_variance": Metric(
        "interventions:z_max_variance",
        "intervention",
        {"value": "modularity"},
        ours={},
        carbonneau=_VOTES,
        random=True,
        samples=True,
    ),
    "irs": Metric(
        "irs:irs",
        "intervention",
        {"value": "holistic"},
        ours={},
        locatello={"quantile": 0.99, "factor_bins": 20, "bin_labels": True, "code_weights": "deviation"},
        carbonneau={"quantile": 1.0, "factor_bins": 10, "code_weights": "deviation"},
    ),
    "dci_lasso": Metric(
        "dci:dci",
        "predictor",
        _DCI,
        ours={"model": "lasso"},
        carbonneau={"model": "lasso", "scale": "range", "alphas": _PENALTIES, **_CARBONNEAU_DCI},
        random=True,
        tests=True,
    ),
    "dci_forest": Metric(
        "dci:dci",
        "predictor",
        _DCI,
        ours={"model": "forest"},
        carbonneau={
            "model": "forest",
            "depths": (8, 16, 32, 64, 128),
            "max_features": (0.2, 0.4, 0.8, 1.0),
            **_CARBONNEAU_DCI,
        },
        random=True,
        tests=True,
    ),
    "dci_boosted": Metric(
        "dci:dci",
        "predictor",
        _DCI,
        ours={"model": "boosted"},
        locatello={"model": "boosted", "completeness": "weighted", "continuous": False, **_ROWS},
        random=True,
        tests=True,
    ),
    "dci_aligned": Metric(
        "alignment:aligned_dci",
        "predictor",
        {f"aligned.{part}": prop for part, prop in _DCI.items()},
        ours={},
        random=True,
    ),
    "explicitness": Metric(
        "explicitness:explicitness",
        "predictor",
        {"value": "explicitness"},
        ours={},
        locatello={"classifier": "multinomial", "balanced": False, **_ROWS},
        carbonneau={"scale": "range", "rescale": True, "in_sample": True},
        random=True,
        tests=True,
    ),
    "sap": Metric(
        "sap:sap",
        "predictor",
        {"value": "compactness"},
        ours={},
        locatello={"standardise": False, "c": 0.01, **_ROWS},
        carbonneau={"classifier": "tree"},
        random=True,
        tests=True,
    ),
    "mig": Metric(
        "information:mig_of",
        "information",
        {"value": "compactness"},
        ours={},
        locatello={},
        carbonneau={**_TEN, "normaliser": "code"},
        tables=True,
    ),
    "mig_sup": Metric(
        "information:mig_sup_of",
        "information",
        {"value": "modularity"},
        ours={},
        carbonneau={**_TEN, "normaliser": "code", "weight": "all"},
        tables=True,
    ),
    "mig_sup_weighted": Metric(
        "information:mig_sup_of",
        "information",
        {"value": "modularity"},
        ours={"weight": "information"},
        tables=True,
    ),
    "jemmig": Metric(
        "information:jemmig_of",
        "information",
        {"value": "holistic"},
        ours={},
        carbonneau=_TEN,
        tables=True,
    ),
    "modularity": Metric(
        "information:modularity_of",
        "information",
        {"value": "modularity"},
        ours={},
        locatello={"weight": "all"},
        carbonneau={**_TEN, "weight": "all"},
        tables=True,
    ),
    "modularity_weighted": Metric(
        "information:modularity_of",
        "information",
        {"value": "modularity"},
        ours={"weight": "information"},
        tables=True,
    ),
    "dcimig": Metric(
        "information:dcimig_of",
        "information",
        {"value": "holistic"},
        ours={},
        carbonneau=_TEN,
        tables=True,
    ),
    "total_correlation": Metric(
        "label_free:gaussian_total_correlation",
        "label-free",
        {"value": "independence"},
        ours={},
        locatello={},
        codes_only=True,
    ),
    "wasserstein_correlation": Metric(
        "label_free:gaussian_wasserstein_correlation",
        "label-free",
        {"value": "independence"},
        ours={"normalised": True},
        locatello={},
        codes_only=True,
    ),
    "mutual_information": Metric(
        "label_free:mutual_information",
        "label-free",
        {"value": "independence"},
        ours={},
        locatello={},
        codes_only=True,
    ),
}
