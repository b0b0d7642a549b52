"""What papers measured beside metrics: regression with an error for each factor, zero-shot inference, wrong labels,
shifts, reasoning."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina import _plugins
from karenina._words import hint
from karenina.data.naming import join_name, split_name

if TYPE_CHECKING:
    from karenina.data import DataSet
    from karenina.training import Run

Row = tuple[str, str, str, str, float, float]  # metric, family, property, factor, value, std

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
        return [size is None for size in self.data.factor_sizes]


def has_gap(name: str) -> bool:
    """Whether a data set leaves out a corner of its factors, which models of it never see.

    >>> has_gap("teapots:gap=exclude"), has_gap("dsprites")
    (True, False)
    """
    return bool(split_name(name)[1].get("gap") == "exclude")


def more_rows(names: Sequence[str], measured: Measured) -> list[Row]:
    """Return the rows of these measures."""
    unknown = [name for name in names if name not in measures()]
    if unknown:
        raise ValueError(f"nothing called {unknown[0]!r} can be measured also; {hint(unknown[0], measures())}")
    return [row for name in names for row in (MORE.get(name) or _plugins.load("measures", name))(measured)]


def measures() -> tuple[str, ...]:
    """Return the names of what can be measured also: ours, and those of the entry points "karenina.measures"."""
    return (*MORE, *_plugins.found("measures"))


def regression(measured: Measured) -> list[Row]:
    """DCI as Eastwood & Williams (2018) print it: D of each code, C and NRMSE of each factor, lasso and forest.

    All factors are taken as numbers. Tables 1, 3 and 4. "forest" takes the decrease of impurity as importance, as
    scikit-learn has it, "forest_splits" the share of splits, as the text does (section 4.3).
    """
    from karenina.metrics import dci, dci_from_importance

    rows: list[Row] = []
    whole_forest: Any = None
    for how in (*MODELS, "forest_splits"):
        if how == "forest_splits":  # the same forest, and so the same errors
            splits = dci_from_importance(whole_forest.details["importances"]["splits"])
            found = replace(
                whole_forest,
                disentanglement=splits.disentanglement,
                completeness=splits.completeness,
                per_code=splits.per_code,
                per_factor=splits.per_factor,
            )
        else:
            given: dict[str, Any] = {"informativeness": "nrmse", "continuous": True, "seed": measured.seed}
            found = whole_forest = dci(measured.codes, measured.factors, model=how, **given)
        codes = [f"code {i}" for i in range(len(found.per_code))]
        for part, whole, each, names in (
            ("disentanglement", found.disentanglement, found.per_code, codes),
            ("completeness", found.completeness, found.per_factor, measured.data.factor_names),
            ("nrmse", found.informativeness, found.per_factor_informativeness, measured.data.factor_names),
        ):
            values = [("", whole), *zip(names, each)]
            rows += [(f"regression_{how}", REGRESSION, part, of, float(value), float("nan")) for of, value in values]
    return rows


def zero_shot(measured: Measured) -> list[Row]:
    """NRMSE inside the corner that the data set leaves out. Eastwood & Williams (2018), B.2, Table 5."""
    from karenina.data import load
    from karenina.evaluation.data import inputs
    from karenina.tasks import zero_shot as task

    if not has_gap(measured.data.name):
        raise ValueError(f"zero_shot needs data with a gap, such as teapots:gap=exclude; got {measured.data.name}")
    name, options = split_name(measured.data.name)
    images, unseen = inputs(load(join_name(name, {**options, "gap": "only"})), len(measured.codes) // 2, measured.seed)
    codes = np.concatenate([measured.codes, measured.run.encode(images)[0]])
    factors = np.concatenate([measured.factors, unseen])
    inside = np.arange(len(codes)) >= len(measured.codes)
    rows: list[Row] = []
    for model in MODELS:
        found = task(codes, factors, inside, model=model, seed=measured.seed)
        for where, errors in (("inside", found.inside), ("outside", found.outside)):
            values = [("", float(np.nanmean(errors))), *zip(measured.data.factor_names, errors)]
            metric = f"zero_shot_{model}_{where}"
            rows += [(metric, "task", "generalisation", of, float(value), float("nan")) for of, value in values]
    return rows


def label_noise(measured: Measured) -> list[Row]:
    """Scores with wrong labels, three regimes; all from the encoded rows, whose labels are all that is known.

    A metric that fixes a factor looks at that factor's label alone. Holtz et al. (2022), section 4, Tables 2 and 3.
    """
    return noise_rows(measured.codes, measured.factors, measured.protocol, measured.seed, measured.continuous)


def noise_rows(
    codes: ArrayLike,
    factors: ArrayLike,
    protocol: str | None = None,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
) -> list[Row]:
    """`label_noise` of codes (n, d) and factors (n, k).

    >>> v = np.random.default_rng(0).integers(5, size=(600, 3))
    >>> scores = {row[0]: row[4] for row in noise_rows(v, v)}
    >>> scores["mig_noise_0"] > 0.95 > scores["mig_noise_1"] > scores["mig_noise_3"]
    True
    """
    from karenina.metrics import scoring
    from karenina.tasks import label_noise as perturb

    rows: list[Row] = []
    for regime in NOISE_REGIMES:
        labels = perturb(factors, regime, seed=seed) if regime else factors
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said once already of the true labels
            table = scoring.score(codes, labels, NOISED, protocol, 1, seed, continuous=continuous)
        rows += [
            (f"{row.metric}_noise_{regime}", NOISE, row.property, "", row.value, float("nan")) for row in table.rows
        ]
    return rows


def shift(measured: Measured) -> list[Row]:
    """Prediction on combinations of two factors that the predictors did not see: a corner, and off a correlation.

    Dittadi et al. (2021) and Traeuble et al. (2021).
    """
    from karenina.tasks import shift as task

    rows: list[Row] = []
    for kind in ("corner", "correlated"):
        found = task(measured.codes, measured.factors, kind=kind, continuous=measured.continuous, seed=measured.seed)
        for model, seen, unseen in zip(found.models, found.seen, found.unseen):
            for where, each in (("seen", seen), ("unseen", unseen)):
                values = [("", float(np.nanmean(each))), *zip(measured.data.factor_names, each)]
                name = f"shift_{kind}_{model}_{where}"
                rows += [(name, "task", "generalisation", of, float(value), float("nan")) for of, value in values]
    return rows


MORE: dict[str, Callable[[Measured], list[Row]]] = {
    "regression": regression,
    "zero_shot": zero_shot,
    "label_noise": label_noise,
    "shift": shift,
}
