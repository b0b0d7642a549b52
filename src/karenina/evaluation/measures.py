"""Measures beside metrics, as papers report them: regression with an error for each factor, zero-shot inference, wrong
labels, shifts; and those of plug-ins."""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina import _plugins, tasks
from karenina._words import hint
from karenina.data import join_name, load, split_name
from karenina.evaluation.data import inputs
from karenina.metrics import dci, dci_from_importance, scoring

if TYPE_CHECKING:
    from karenina.data import DataSet
    from karenina.training import Run

MeasureRow = tuple[str, str, str, str, float, float]  # metric, family, property, factor, value, std

# Families of rows that are no metrics of their own: analyses of metrics leave them out.
NOISE = "label noise"
REGRESSION = "regression"
# Holtz et al. (2022), Table 3: the metrics that are computed with wrong labels. Regime 0 has the true ones.
NOISED = ("z_diff", "z_min_variance", "mig")
NOISE_REGIMES = (0, 1, 2, 3)
MODELS = ("lasso", "forest")


@dataclass(frozen=True, eq=False)
class Measured:
    """A run and what was encoded of its data. codes: (n, d). factors: (n, k)."""

    run: "Run"
    data: "DataSet"
    codes: NDArray[np.float32]
    factors: NDArray[Any]
    protocol: str | None
    seed: int

    @property
    def continuous(self) -> list[bool]:
        """Return which factors are continuous."""
        return [size is None for size in self.data.factor_sizes]


def has_gap(name: str) -> bool:
    """Return whether a data set leaves out a corner of its factors, which models of it never see.

    >>> has_gap("teapots:gap=exclude"), has_gap("dsprites")
    (True, False)
    """
    return bool(split_name(name)[1].get("gap") == "exclude")


def measures() -> tuple[str, ...]:
    """Return the names of all measures: ours, and those of the entry points "karenina.measures"."""
    return (*MEASURES, *_plugins.found("measures"))


def measure(names: Sequence[str], measured: Measured) -> list[MeasureRow]:
    """Return the rows of these measures."""
    unknown = [name for name in names if name not in measures()]
    if unknown:
        raise ValueError(f"nothing called {unknown[0]!r} can be measured also; {hint(unknown[0], measures())}")
    return [row for name in names for row in (MEASURES.get(name) or _plugins.load("measures", name))(measured)]


def _rows(
    metric: str, family: str, prop: str, whole: float, names: Iterable[str], each: Iterable[float]
) -> list[MeasureRow]:
    """Return a row for the whole, and one for each factor or code."""
    return [(metric, family, prop, of, float(value), math.nan) for of, value in [("", whole), *zip(names, each)]]


def regression(measured: Measured) -> list[MeasureRow]:
    """Return DCI as Eastwood & Williams (2018) print it: D of each code, C and NRMSE of each factor, lasso and forest.

    All factors are taken as numbers. Tables 1, 3 and 4. "forest" takes the decrease of impurity as importance, as
    scikit-learn has it, "forest_splits" the share of splits, as the text does (section 4.3).
    """
    options: dict[str, Any] = {"informativeness": "nrmse", "continuous": True, "seed": measured.seed}
    found = {model: dci(measured.codes, measured.factors, model=model, **options) for model in MODELS}
    splits = dci_from_importance(found["forest"].details["importances"]["splits"])
    found["forest_splits"] = replace(  # the same forest, and so the same errors
        found["forest"],
        disentanglement=splits.disentanglement,
        completeness=splits.completeness,
        per_code=splits.per_code,
        per_factor=splits.per_factor,
    )
    rows: list[MeasureRow] = []
    factors = measured.data.factor_names
    for model, one in found.items():
        codes = [f"code {i}" for i in range(len(one.per_code))]
        for part, whole, names, each in (
            ("disentanglement", one.disentanglement, codes, one.per_code),
            ("completeness", one.completeness, factors, one.per_factor),
            ("nrmse", one.informativeness, factors, one.per_factor_informativeness),
        ):
            rows += _rows(f"regression_{model}", REGRESSION, part, whole, names, each)
    return rows


def zero_shot(measured: Measured) -> list[MeasureRow]:
    """Return the NRMSE inside the corner that the data set leaves out. Eastwood & Williams (2018), B.2, Table 5."""
    if not has_gap(measured.data.name):
        raise ValueError(f"zero_shot needs data with a gap, such as teapots:gap=exclude; got {measured.data.name}")
    name, options = split_name(measured.data.name)
    images, unseen = inputs(load(join_name(name, {**options, "gap": "only"})), len(measured.codes) // 2, measured.seed)
    codes = np.concatenate([measured.codes, measured.run.encode(images)[0]])
    factors = np.concatenate([measured.factors, unseen])
    inside = np.arange(len(codes)) >= len(measured.codes)
    rows: list[MeasureRow] = []
    for model in MODELS:
        found = tasks.zero_shot(codes, factors, inside, model=model, seed=measured.seed)
        for where, errors in (("inside", found.inside), ("outside", found.outside)):
            metric, whole = f"zero_shot_{model}_{where}", float(np.nanmean(errors))
            rows += _rows(metric, "task", "generalisation", whole, measured.data.factor_names, errors)
    return rows


def label_noise(measured: Measured) -> list[MeasureRow]:
    """Return scores with wrong labels, three regimes; all from the encoded rows, whose labels are all that is known.

    A metric that fixes a factor looks at that factor's label alone. Holtz et al. (2022), section 4, Tables 2 and 3.
    """
    return noise_rows(measured.codes, measured.factors, measured.protocol, measured.seed, measured.continuous)


def noise_rows(
    codes: ArrayLike,
    factors: ArrayLike,
    protocol: str | None = None,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
) -> list[MeasureRow]:
    """Return `label_noise` of codes (n, d) and factors (n, k).

    >>> v = np.random.default_rng(0).integers(5, size=(600, 3))
    >>> scores = {row[0]: row[4] for row in noise_rows(v, v)}
    >>> scores["mig_noise_0"] > 0.95 > scores["mig_noise_1"] > scores["mig_noise_3"]
    True
    """
    rows: list[MeasureRow] = []
    for regime in NOISE_REGIMES:
        labels = tasks.label_noise(factors, regime, seed=seed) if regime else factors
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said once already of the true labels
            table = scoring.score(codes, labels, NOISED, protocol, 1, seed, continuous=continuous)
        rows += [(f"{row.metric}_noise_{regime}", NOISE, row.property, "", row.value, math.nan) for row in table.rows]
    return rows


def shift(measured: Measured) -> list[MeasureRow]:
    """Return predictions on combinations of two factors that were not seen: a corner, and off a correlation.

    Dittadi et al. (2021) and Traeuble et al. (2021).
    """
    rows: list[MeasureRow] = []
    for kind in ("corner", "correlated"):
        found = tasks.shift(
            measured.codes, measured.factors, kind=kind, continuous=measured.continuous, seed=measured.seed
        )
        for model, seen, unseen in zip(found.models, found.seen, found.unseen):
            for where, each in (("seen", seen), ("unseen", unseen)):
                metric, whole = f"shift_{kind}_{model}_{where}", float(np.nanmean(each))
                rows += _rows(metric, "task", "generalisation", whole, measured.data.factor_names, each)
    return rows


MEASURES: dict[str, Callable[[Measured], list[MeasureRow]]] = {
    "regression": regression,
    "zero_shot": zero_shot,
    "label_noise": label_noise,
    "shift": shift,
}
