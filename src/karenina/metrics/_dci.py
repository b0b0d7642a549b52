"""DCI and DCI-ES: from what each code tells a predictor of each factor, disentanglement, completeness, informativeness
(DCI), and how large the predictor must be and the code is (ES).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._inputs import Bools, Continuous, Floats, Inputs, Ints, Test, mean_of_known, metric, split
from karenina.numerics import lasso
from karenina.numerics.checks import one_of, positive_integer
from karenina.numerics.columns import range_unit, scale_of
from karenina.numerics.trees import Sorted, boost, choose, forest

Fitted = tuple[Floats, Floats, dict[str, Any]]
MEASURES = ("accuracy", "explicitness", "nrmse")
# Boosting grows a tree per class and round. Rows times classes that take it about half a minute.
SLOW = 5_000_000

# What follows is of DCI-ES.
CAPACITIES = (16, 32, 64, 128, 256, 512)
# The scale of the frequencies of the features times sqrt(d): small, so that few features already hold every linear map.
GAIN = 0.5
_RIDGE = 1e-10  # A share of the mean square of a feature, against rounding only.
_TRAINED = 10_000  # The most rows that probes are fitted to.
_SHAPLEY_ROWS = 1_000

Lowest = Literal["zero", "reached"]


@dataclass(frozen=True, eq=False)
class DCI:
    """Three properties, kept apart. `float(result)` and `.value` are the disentanglement.

    Attributes
    ----------
    disentanglement, completeness, informativeness : float
    importance : (d, k)
        Columns in the order of the factors given, NaN for a constant one; `.matrix` is its transpose (k, d).
    per_code : (d,)
        Disentanglement D_i, NaN for codes of no importance.
    per_factor, per_factor_informativeness : (k,)
        Completeness C_j and informativeness I_j.
    details : the measures of informativeness (None for a constant factor), and what the model chose
    """

    disentanglement: float
    completeness: float
    informativeness: float
    importance: Floats
    per_code: Floats
    per_factor: Floats
    per_factor_informativeness: Floats
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.disentanglement

    @property
    def matrix(self) -> Floats:
        return self.importance.T

    @property
    def by_property(self) -> Mapping[str, Floats | None]:
        """Map each property to its values per factor (k,)."""
        return {"compactness": self.per_factor, "explicitness": self.per_factor_informativeness}

    def __float__(self) -> float:
        return float(self.disentanglement)


@dataclass(frozen=True)
class Lasso:
    """Importance |w| of a lasso on all codes. Labels are taken as numbers.

    Parameters
    ----------
    scale : {"standard", "range"}
        Codes and factors in standard deviations, or on their range [0, 1].
    alphas : penalties to choose from; None: the grid of scikit-learn's LassoCV
    folds : int
        Of the cross-validation that chooses the penalty.
    """

    scale: Literal["standard", "range"] = "standard"
    alphas: Sequence[float] | None = None
    folds: int = 10

    def __post_init__(self) -> None:
        one_of("scale", self.scale, ("standard", "range"))
        positive_integer(self.folds, "folds", 2)

    def labelled(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Return which factors are predicted as labels."""
        return np.zeros(len(inputs.kept), bool)

    def fit(self, inputs: Inputs, train: Ints, test: Ints, rng: np.random.Generator) -> Fitted:
        """Return importance (d, k), predictions of the test rows (m, k), and details."""
        x, y = inputs.codes[train], inputs.factors[train]
        fitted = lasso.fit(x, y, alphas=self.alphas, folds=self.folds, scale=self.scale)
        details = {"alpha": inputs.among_given(fitted.alpha)}
        return np.abs(fitted.weights), fitted.predict(inputs.codes[test]), details


@dataclass(frozen=True)
class Trees:
    """Importance of trees: classifiers for labels, regressors for numbers.

    Parameters
    ----------
    kind : {"forest", "boosted"}
        A random forest of 10 trees, or gradient boosting with the defaults of scikit-learn.
    depths : depths of a forest's trees to choose from
    max_features : share of the codes tried at a split, or several to choose from
        The square root that scikit-learn has for labels makes trees split on codes that say nothing (identity codes of
        three factors: D = 0.6).
    folds : int
        Of the cross-validation that chooses.
    backend : {"fast", "sklearn"}
        Of boosting: our compilation of the same algorithm, which differs by how ties fall (D and C by less than 0.01),
        or scikit-learn itself.
    importance : {"impurity", "splits"}
        Of a code: the mean decrease of impurity, or the share of a forest's splits that it has (Eastwood and Williams
        2018, section 4.3). Splits count alike near the root and near the leaves, where noise decides.
    """

    kind: Literal["forest", "boosted"] = "forest"
    depths: Sequence[int] = (2, 4, 8, 16, 32)
    max_features: float | Sequence[float] = 1.0
    folds: int = 10
    backend: Literal["fast", "sklearn"] = "fast"
    importance: Literal["impurity", "splits"] = "impurity"

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("forest", "boosted"))
        one_of("backend", self.backend, ("fast", "sklearn"))
        one_of("importance", self.importance, ("impurity", "splits"))
        if self.importance == "splits" and self.kind == "boosted":
            raise ValueError("importance='splits' is for forests: boosted trees are too shallow to count their splits")
        positive_integer(self.folds, "folds", 2)
        for depth in self.depths:
            positive_integer(depth, "each of depths")
        if not self._shares or not all(0 < share <= 1 for share in self._shares):
            raise ValueError(
                f"max_features is {self.max_features!r}, expected shares of the codes, above 0 and up to 1"
            )

    @property
    def _shares(self) -> list[float]:
        return list(self.max_features) if isinstance(self.max_features, Sequence) else [self.max_features]

    def labelled(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Return which factors are predicted as labels."""
        return ~inputs.continuous

    def fit(self, inputs: Inputs, train: Ints, test: Ints, rng: np.random.Generator) -> Fitted:
        """Return importance (d, k), predictions of the test rows (m, k), and details."""
        x, held = inputs.codes[train], inputs.codes[test]
        whole = Sorted.of(x)
        depths = sorted(int(depth) for depth in self.depths)
        folds = self._folds(x) if self.kind == "forest" and (len(depths) > 1 or len(self._shares) > 1) else []
        importance, predicted = np.zeros((x.shape[1], len(inputs.kept))), np.empty((len(held), len(inputs.kept)))
        splits = importance.copy()
        chosen = []
        for j, column in enumerate(inputs.factors[train].T):
            target, values, classes, offset, unit = _target(column, bool(inputs.continuous[j]))
            if self.kind == "forest":
                depth, share = choose(folds, target, classes, rng, depths=depths, max_features=self._shares)
                grown = forest(whole, held, target, classes, rng, depths=[depth], max_features=share)
                importance[:, j], leaves, splits[:, j] = grown
                predicted[:, j] = values[leaves[0].argmax(axis=1)] if classes else offset + unit * leaves[0, :, 0]
                chosen.append(depth)
            elif classes == 1:
                predicted[:, j] = values[0]
            else:
                if self.backend == "sklearn":
                    importance[:, j], guess = _boost_by_scikit_learn(x, held, target, classes, rng)
                else:
                    fitted = boost(whole, target, classes, rng)
                    importance[:, j], guess = fitted.importance, fitted.predict(held)
                predicted[:, j] = values[guess] if classes else offset + unit * guess
        if self.kind == "forest":
            both = {"impurity": importance, "splits": splits}
            per_kind = {name: inputs.among_given(values.T).T for name, values in both.items()}
            details = {"depth": inputs.among_given(np.array(chosen, np.float64)), "importances": per_kind}
            return both[self.importance], predicted, details
        return importance, predicted, {"backend": self.backend}

    def _folds(self, x: Floats) -> list[tuple[Sorted, Floats, Ints, Ints]]:
        everyone = np.arange(len(x))
        parts = []
        for left in np.array_split(everyone, min(self.folds, len(x))):
            rows = np.delete(everyone, left)
            parts.append((Sorted.of(x[rows]), x[left], rows, left))
        return parts


MODELS: dict[str, Lasso | Trees] = {"lasso": Lasso(), "forest": Trees("forest"), "boosted": Trees("boosted")}


@metric
def dci(
    inputs: Inputs,
    *,
    model: str | Lasso | Trees = "lasso",
    completeness: str = "mean",
    informativeness: str | None = None,
    guess_error: float = 1 / 6,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    test: Test = None,
    continuous: Continuous = None,
    seed: int | np.random.Generator = 0,
) -> DCI:
    """Predict every factor from all codes; ask which codes each prediction used, and how good it is.

    A model gives R (d, k), the importance of code i for factor j. `dci_from_importance` has the equations of
    disentanglement D and completeness C; informativeness I_j is the quality of the prediction on rows that the model
    has not seen. Eastwood and Williams (2018), section 2; Carbonneau et al. (2022), section 4.3.1; Locatello et al.
    (2019), appendix C.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    model : {"lasso", "forest", "boosted"}, or `Lasso` or `Trees` with other parameters
    completeness : {"mean", "weighted"}
        The mean over factors, or weighted by their share of R (Locatello et al.).
    informativeness : {"accuracy", "explicitness", "nrmse"}, optional
        Accuracy, on classes that training rows have (the default for predicted labels); max(0, 1 - MSE / guess_error)
        of factors on [0, 1] (for numbers); or RMSE / standard deviation, an error.
    guess_error : float
        1/6, the error of an independent uniform guess, as the text of Carbonneau et al. has it; their code, and the
        numbers that they print, have 1/12, the error of predicting the mean.
    test_fraction : float
        Share of the rows held out for testing.
    rows : int, optional
        How many of the rows train and test together; with `test`, how many train.
    test : (test_codes (m, d), test_factors (m, k)), optional
        Other rows to test on, instead of held-out ones.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.
    seed : int or numpy Generator

    Returns
    -------
    DCI

    Notes
    -----
    The lasso sees only linear relations, drops all but one of redundant codes, and gives noise high disentanglement.
    Trees need data: 0.03 off at 10,000 rows. Rotated codes score low: see `aligned_dci`. 10,000 x 10 codes and dSprites
    factors take the lasso 10 ms, a forest a few seconds, boosting 15 s (scikit-learn ten minutes).

    Examples
    --------
    >>> v = np.random.default_rng(0).uniform(size=(300, 3))
    >>> result = dci(v, v)
    >>> round(result.disentanglement, 3), round(result.completeness, 3), round(result.informativeness, 3)
    (1.0, 1.0, 1.0)
    >>> round(dci(v, v, model=Trees("forest", depths=(4, 8), folds=3)).disentanglement, 2)
    1.0
    """
    one_of("completeness", completeness, ("mean", "weighted"))
    one_of("informativeness", informativeness, (None, *MEASURES))
    if isinstance(model, str):
        one_of("model", model, MODELS)
    predictor = MODELS[model] if isinstance(model, str) else model
    if informativeness == "accuracy" and isinstance(predictor, Lasso):
        raise ValueError("informativeness='accuracy' needs predicted labels, and the lasso predicts numbers")
    rng = np.random.default_rng(seed)
    inputs, train, held = split(inputs, test_fraction, rows, rng)
    if isinstance(predictor, Trees) and predictor.kind == "boosted":
        warn_of_many_classes(inputs)
    importance, predicted, chosen = predictor.fit(inputs, train, held, rng)

    measures = [informativeness or ("accuracy" if labels else "explicitness") for labels in predictor.labelled(inputs)]
    columns = zip(measures, inputs.factors.T, predicted.T)
    quality = [_quality(measure, v, train, held, guess, guess_error) for measure, v, guess in columns]
    unknown = [name for name, value in zip(inputs.names, quality) if np.isnan(value)]
    if unknown:
        why = "training and test rows share none of its values"
        warnings.warn(f"no informativeness of {', '.join(unknown)}: {why}", stacklevel=3)
    result = dci_from_importance(importance, completeness=completeness)
    measure_of = dict(zip(inputs.kept.tolist(), measures))
    of_given = tuple(measure_of.get(j) for j in range(len(inputs.declared)))
    return replace(
        result,
        informativeness=mean_of_known(quality),
        importance=inputs.among_given(importance.T).T,
        per_factor=inputs.among_given(result.per_factor),
        per_factor_informativeness=inputs.among_given(np.array(quality)),
        details={"model": model if isinstance(model, str) else repr(model), "measures": of_given, **chosen},
    )


def dci_from_importance(importance: ArrayLike, *, completeness: str = "mean") -> DCI:
    """Disentanglement and completeness of importances R (d, k) >= 0; informativeness is NaN.

    A column of NaN, as a constant factor has it, does not count.

    With P_ij = R_ij / sum_j R_ij and Q_ij = R_ij / sum_i R_ij, and entropies of base k and d,

        D_i = 1 - H_k(P_i.),    D = sum_i rho_i D_i,    rho_i = sum_j R_ij / sum_ij R_ij,
        C_j = 1 - H_d(Q_.j),    C = mean of C_j, or "weighted" by sum_i R_ij / sum_ij R_ij:

    Eastwood and Williams (2018), section 2. With k = 1 or d = 1 an entry scores 1. All importances 0: D = C = 0.

    Parameters
    ----------
    importance : (d, k)
    completeness : {"mean", "weighted"}

    Returns
    -------
    DCI

    Examples
    --------
    >>> result = dci_from_importance(np.vstack([5 * np.eye(5), 5 * np.eye(5)]))
    >>> result.disentanglement, round(result.completeness, 6)  # 1 - ln 2 / ln 10
    (1.0, 0.69897)
    """
    one_of("completeness", completeness, ("mean", "weighted"))
    r = np.asarray(importance, np.float64)
    kept = np.flatnonzero(~np.isnan(r).all(axis=0)) if r.ndim == 2 else np.empty(0, np.int64)
    if 0 < len(kept) < r.shape[1]:
        part = dci_from_importance(r[:, kept], completeness=completeness)
        nothing = np.full(r.shape[1], np.nan)
        per_factor = nothing.copy()
        per_factor[kept] = part.per_factor
        return replace(part, importance=r, per_factor=per_factor, per_factor_informativeness=nothing)
    if r.ndim != 2 or 0 in r.shape or not np.isfinite(r).all() or (r < 0).any():
        raise ValueError(f"importance must be finite and not negative, of shape (d, k); got shape {r.shape}")
    r = r / r.max() if r.max() > 0 else r
    codes, factors = r.sum(axis=1), r.sum(axis=0)
    per_code = np.where(codes > 0, _concentration(r), np.nan)
    per_factor = np.where(factors > 0, _concentration(r.T), 0.0)
    total = r.sum()
    shares = factors / total if total > 0 and completeness == "weighted" else np.full(len(factors), 1 / len(factors))
    return DCI(
        disentanglement=float(np.nansum(per_code * codes) / total) if total > 0 else 0.0,
        completeness=float(shares @ per_factor),
        informativeness=float("nan"),
        importance=np.asarray(importance, np.float64),
        per_code=per_code,
        per_factor=per_factor,
        per_factor_informativeness=np.full(r.shape[1], np.nan),
    )


def warn_of_many_classes(inputs: Inputs) -> None:
    """Warn of factors with so many classes that boosting takes minutes, and say what to do instead."""
    for name, labels, number in zip(inputs.names, inputs.labels.T, inputs.continuous):
        classes = int(labels.max()) + 1
        if not number and len(labels) * classes > SLOW:
            warnings.warn(
                f"boosted trees of {name} with its {classes:,} classes can take minutes: declare it continuous, or "
                "use dci_forest or dci_lasso",
                stacklevel=3,
            )


def _concentration(r: Floats) -> Floats:
    """Return 1 minus the entropy of each row, in units of its largest possible value; 1 where a row has one entry."""
    if r.shape[1] == 1:
        return np.ones(len(r))
    total = r.sum(axis=1, keepdims=True)
    p = r / np.where(total > 0, total, 1.0)
    return 1 + (p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1) / np.log(r.shape[1])


def _quality(measure: str, column: Floats, train: Ints, test: Ints, predicted: Floats, guess_error: float) -> float:
    truth = column[test]
    if measure == "accuracy":
        shared = np.isin(truth, column[train])
        return float((predicted == truth)[shared].mean()) if shared.any() else float("nan")
    unit = range_unit(column)
    error = float((((predicted - truth) / unit) ** 2).mean())
    if measure == "nrmse":
        deviation = float((column[train] / unit).std())
        return float(np.sqrt(error)) / deviation if deviation > 0 else float("nan")
    return max(0.0, 1 - error / ((column.max() - column.min()) / unit) ** 2 / guess_error)


def _target(column: Floats, continuous: bool) -> tuple[NDArray[Any], Floats, int, float, float]:
    """Return the training target, the value of each class, the number of classes (0 for a number), offset and unit.

    Numbers are standardised: trees stop splitting, and lose digits, on a scale of their own.
    """
    if continuous:
        (offset,), (unit,) = scale_of(column[:, None], "standard")
        return (column - offset) / unit, column[:0], 0, float(offset), float(unit)
    values, labels = np.unique(column, return_inverse=True)
    return labels, values, len(values), 0.0, 1.0


def _boost_by_scikit_learn(
    x: Floats, held: Floats, target: NDArray[Any], classes: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[Any]]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    kind = GradientBoostingClassifier if classes else GradientBoostingRegressor
    fitted = kind(random_state=int(rng.integers(2**31))).fit(x, target)
    return fitted.feature_importances_, fitted.predict(held)


@dataclass(frozen=True, eq=False)
class DCIES:
    """Five properties, kept apart. `float(result)` and `.value` are the explicitness E.

    Attributes
    ----------
    disentanglement, completeness, informativeness, explicitness, size : float
        D, C, I, E and S.
    importance : (d, k)
        `.matrix` is its transpose (k, d).
    per_code : (d,)
        D of each code.
    per_factor, per_factor_informativeness : (k,)
        E and I of each factor. `per_factor` is E, unlike in `DCI`, where it is completeness.
    curves : (capacities, k)
        Loss of each factor at each capacity: 1 - R2 of a continuous factor, the error rate of a categorical one on
        the values that training rows have.
    details : capacities (c,), baseline (k,), completeness (k,)
    """

    disentanglement: float
    completeness: float
    informativeness: float
    explicitness: float
    size: float
    importance: Floats
    per_code: Floats
    per_factor: Floats
    per_factor_informativeness: Floats
    curves: Floats
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.explicitness

    @property
    def matrix(self) -> Floats:
        return self.importance.T

    @property
    def by_property(self) -> Mapping[str, Floats | None]:
        """Map each property to its values per factor (k,)."""
        return {
            "compactness": self.details.get("completeness"),
            "explicitness": self.per_factor_informativeness,
            "ease of use": self.per_factor,
        }

    def __float__(self) -> float:
        return self.explicitness


@metric
def dci_es(
    inputs: Inputs,
    *,
    capacities: Sequence[int] = CAPACITIES,
    lowest: Lowest = "zero",
    orderings: int = 8,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    test: Test = None,
    continuous: Continuous = None,
    seed: int = 0,
) -> DCIES:
    """Predict factors by ever larger probes: E is high when small ones do as well as large ones.

    A probe of capacity c is a linear read-out of c random Fourier features of all codes. With the smallest loss l_c
    that a probe of capacity c or less, or a guess, has on rows it was not fitted on, the guess's l_b, and x = log c,

        E_j = 1 - 2 area(l_c - min l_c) / ((x_max - x_min) (l_b - l*)),

    1 when the smallest probe is the best, 0 when the loss falls along a straight line from the baseline to 0, and -1 at
    worst; E is the mean over factors. S = factors / codes. D, C and I are those of DCI for the best probe of each
    factor, whose importances are Shapley values of its loss over codes that are replaced by those of other rows.
    Eastwood et al. (2023), as released for l* = 0.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    capacities : numbers of features
        Those above half of the training rows are left out.
    lowest : {"zero", "reached"}
        l*: 0, as in their experiments, or the smallest loss of the largest probes.
    orderings : int
        Of the codes, for the Shapley values; half of them are others turned round.
    test_fraction, rows, test, continuous
        As in `dci`.
    seed : int

    Returns
    -------
    DCIES

    Notes
    -----
    E is about how the information that is there can be used, not about how much there is: noise, of which chance tells
    a little, has a flat curve and E near 1. Read it beside I. A factor that no probe tells better than a guess has E =
    0, as with constant codes. E depends on the family of probes. The release counts the weights of a probe, which are
    those of c features and an intercept, so that its x differs from ours by next to a constant; it takes D and C from
    the one probe that is best for all factors together. 10,000 x 10 codes and dSprites factors take 3 s.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.uniform(-1, 1, size=(600, 2))
    >>> waves = np.column_stack([v[:, 0], np.sin(7 * v[:, 1])])
    >>> easy, hard = dci_es(v, v), dci_es(v, waves)
    >>> round(easy.explicitness, 1), easy.explicitness > hard.explicitness, easy.size
    (1.0, True, 1.0)
    """
    one_of("lowest", lowest, get_args(Lowest))
    orderings = positive_integer(orderings, "orderings")
    grid = np.unique([positive_integer(capacity, "each of capacities") for capacity in capacities])
    if len(grid) < 2:
        raise ValueError(f"capacities must have two numbers or more, got {list(capacities)}")
    rng = np.random.default_rng(seed)
    inputs, train, held = split(inputs, test_fraction, rows, rng)
    train = train[:_TRAINED]
    small = grid[grid <= max(len(train) // 2, 1)]
    grid = small if len(small) > 1 else grid[:2]
    targets = _targets(inputs, train, held)
    offset, unit = scale_of(inputs.codes[train], "standard")
    z = (inputs.codes - offset) / unit
    probes = Probes.fit(z[train], [target.numbers for target in targets], grid, rng)
    curves = probes.losses(z[held], targets)
    baseline = np.array([target.baseline for target in targets])
    best = np.minimum.accumulate(np.minimum(curves, baseline), axis=0)
    x = np.log(grid)
    floor = best[-1]
    area = (((best[:-1] + best[1:]) / 2 - floor) * np.diff(x)[:, None]).sum(axis=0)
    whole = (x[-1] - x[0]) * (baseline - (0.0 if lowest == "zero" else floor)) / 2
    gain = np.divide(baseline - floor, baseline, out=np.zeros_like(floor), where=baseline > 0)
    explicit = np.where(gain > 0, 1 - np.divide(area, whole, out=np.zeros_like(area), where=whole > 0), 0.0)
    unknown = np.isnan(baseline)
    explicit[unknown] = np.nan
    informativeness = np.where(inputs.continuous, gain, 1 - floor)
    chosen = np.where(gain > 0, curves.argmin(axis=0), -1)
    importance = probes.shapley(z[held[:_SHAPLEY_ROWS]], targets, chosen, inputs.live, orderings, rng)
    parts = dci_from_importance(importance)
    if unknown.any():
        which = ", ".join(name for name, gone in zip(inputs.names, unknown) if gone)
        warnings.warn(f"no explicitness of {which}: training and test rows share none of its values", stacklevel=3)
    return DCIES(
        disentanglement=parts.disentanglement,
        completeness=parts.completeness,
        informativeness=mean_of_known(informativeness),
        explicitness=mean_of_known(explicit),
        size=len(inputs.kept) / inputs.codes.shape[1],
        importance=inputs.among_given(importance.T).T,
        per_code=parts.per_code,
        per_factor=inputs.among_given(explicit),
        per_factor_informativeness=inputs.among_given(informativeness),
        curves=inputs.among_given(curves.T).T,
        details={
            "capacities": grid,
            "baseline": inputs.among_given(baseline),
            "completeness": inputs.among_given(parts.per_factor),
        },
    )


@dataclass(frozen=True, eq=False)
class _ProbeTarget:
    """A factor: numbers (train, outputs) to fit, one column per value if it is categorical; truth (held,).

    known (held,): whether training rows have the label, too; other rows are not scored. baseline: the loss of a guess,
    NaN if no label is known.
    """

    numbers: Floats
    truth: NDArray[Any]
    known: Bools
    scale: float
    categorical: bool
    baseline: float

    def loss(self, guess: Floats, rows: Ints | slice = slice(None)) -> float:
        """Return the loss of outputs (m, outputs) for these of the held rows."""
        truth = self.truth[rows]
        if self.categorical:
            wrong = (guess.argmax(axis=1) != truth)[self.known[rows]]
            return float(wrong.mean()) if len(wrong) else 0.0
        return float(((guess[:, 0] - truth) ** 2).mean()) / self.scale


def _targets(inputs: Inputs, train: Ints, held: Ints) -> list[_ProbeTarget]:
    found = []
    for j, column in enumerate(inputs.factors.T):
        if inputs.continuous[j]:
            column = column / range_unit(column)
            truth = column[held]
            variance = float(truth.var())
            known, baseline = np.ones(len(truth), bool), 1.0 if variance else 0.0
            found.append(_ProbeTarget(column[train][:, None], truth, known, variance or 1.0, False, baseline))
        else:
            label = inputs.labels[:, j]
            numbers = np.eye(int(label.max()) + 1)[label[train]]
            guess = int(numbers.sum(axis=0).argmax())
            known = np.isin(label[held], label[train])
            baseline = float((label[held] != guess)[known].mean()) if known.any() else float("nan")
            found.append(_ProbeTarget(numbers, label[held], known, 1.0, True, baseline))
    return found


@dataclass(frozen=True, eq=False)
class Probes:
    """Read-outs of the first c of the features cos(z W + b), for each capacity c.

    W (d, C), b (C,). weights: for each capacity the read-outs (c + 1, outputs) of all factors side by side, the
    intercept last; `columns` are those of each factor.
    """

    frequency: Floats
    phase: Floats
    weights: list[Floats]
    columns: list[slice]

    @classmethod
    def fit(cls, z: Floats, numbers: list[Floats], grid: Ints, rng: np.random.Generator) -> "Probes":
        d, most = z.shape[1], int(grid[-1])
        frequency = rng.normal(scale=GAIN / np.sqrt(d), size=(d, most))
        phase = rng.uniform(0, 2 * np.pi, size=most)
        features = np.cos(z @ frequency + phase)
        mean, y = features.mean(axis=0), np.hstack(numbers)
        features -= mean
        gram, with_y = features.T @ features, features.T @ (y - y.mean(axis=0))
        gram[np.diag_indices(most)] += _RIDGE * len(z)
        weights = []
        for c in grid:
            # The first c features of all: one product of the columns serves every capacity.
            read = np.linalg.solve(gram[:c, :c], with_y[:c])
            weights.append(np.vstack([read, y.mean(axis=0) - mean[:c] @ read]))
        ends = np.cumsum([0, *(part.shape[1] for part in numbers)])
        return cls(frequency, phase, weights, [slice(a, b) for a, b in pairwise(ends.tolist())])

    def losses(self, z: Floats, targets: list[_ProbeTarget]) -> Floats:
        """Return the losses (capacities, k) on held rows z."""
        features = np.cos(z @ self.frequency + self.phase)
        found = np.empty((len(self.weights), len(targets)))
        for i, weights in enumerate(self.weights):
            guess = features[:, : len(weights) - 1] @ weights[:-1] + weights[-1]
            found[i] = [target.loss(guess[:, columns]) for target, columns in zip(targets, self.columns)]
        return found

    def shapley(
        self, z: Floats, targets: list[_ProbeTarget], chosen: Ints, live: Any, orderings: int, rng: np.random.Generator
    ) -> Floats:
        """Return how much each code lowers the loss of each factor's chosen probe, (d, k): the mean over orderings in
        which codes come to be known, those that are not yet known being replaced by those of other rows.

        chosen (k,): which capacity; -1 for a factor of which nothing is known.
        """
        d, k = z.shape[1], len(targets)
        importance = np.zeros((d, k))
        codes, known = np.flatnonzero(live), np.flatnonzero(chosen >= 0)
        if not len(codes) or not len(known):
            return importance
        most = max(len(self.weights[chosen[j]]) for j in known) - 1
        read = np.zeros((most + 1, self.weights[0].shape[1]))
        for j in known:
            weights = self.weights[chosen[j]][:, self.columns[j]]
            read[: len(weights) - 1, self.columns[j]] = weights[:-1]
            read[-1, self.columns[j]] = weights[-1]
        rows = slice(0, len(z))

        def losses(projected: Floats) -> Floats:
            """Return the losses (capacities, k) on held rows z."""
            guess = np.cos(projected) @ read[:-1] + read[-1]
            return np.array([targets[j].loss(guess[:, self.columns[j]], rows) for j in known])

        order = rng.permutation(codes)
        for turn in range(orderings):
            order = order[::-1] if turn % 2 else rng.permutation(codes)
            other = z[rng.permutation(len(z))]
            projected = other @ self.frequency[:, :most] + self.phase[:most]
            before = losses(projected)
            for code in order:
                projected += np.outer(z[:, code] - other[:, code], self.frequency[code, :most])
                after = losses(projected)
                importance[code, known] += before - after
                before = after
        return np.maximum(importance / orderings, 0.0)
