"""DCI: disentanglement, completeness and informativeness, from what each code tells a predictor of each factor."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._inputs import Inputs
from karenina.metrics._rows import Rows, split
from karenina.numerics import lasso
from karenina.numerics.boosting import Sorted, boost
from karenina.numerics.forests import choose, forest

Array = NDArray[np.float64]
MEASURES = ("accuracy", "explicitness", "nrmse")
# Boosting grows a tree per class and round. Rows times classes that take it about half a minute.
SLOW = 5_000_000


@dataclass(frozen=True, eq=False)
class DCI:
    """Three properties, kept apart. `float(result)` and `.value` are the disentanglement.

    importance: (d, k), columns in the order of the factors given (NaN for a dropped constant one); `.matrix` is its
    transpose (k, d). per_code: (d,) disentanglement D_i, NaN for codes of no importance. per_factor: (k,) completeness
    C_j. per_factor_informativeness: (k,). details: which measure was used, and what the model chose.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    importance: Array
    per_code: Array
    per_factor: Array
    per_factor_informativeness: Array
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.disentanglement

    @property
    def matrix(self) -> Array:
        return self.importance.T

    def __float__(self) -> float:
        return float(self.disentanglement)


def dci(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    model: str = "lasso",
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    continuous: bool | Sequence[bool] | None = None,
    completeness: str = "mean",
    informativeness: str | None = None,
    guess_error: float = 1 / 6,
    scale: str = "standard",
    alphas: Sequence[float] | None = None,
    folds: int = 10,
    depths: Sequence[int] = (2, 4, 8, 16, 32),
    max_features: float | Sequence[float] = 1.0,
    backend: str = "fast",
    seed: int | np.random.Generator = 0,
) -> DCI:
    """Predict every factor from all codes; ask which codes each prediction used, and how good it is.

    With R (d, k) the importance of code i for factor j: disentanglement D_i = 1 - H_k(R_i / sum_j R_ij), averaged with
    weights rho_i = sum_j R_ij / sum R (a code's modularity; dead codes do not count); completeness C_j = 1 - H_d(R_.j /
    sum_i R_ij), the plain mean over factors, or `completeness="weighted"` by their share of R (compactness). Entropies
    have base k and d; with k = 1 or d = 1 a used code or predicted factor scores 1. All importances 0: 0.

    model, each fitted on the training rows:
    - "lasso": |w| of a lasso on standardised codes and factors (`scale="range"`: on their [0, 1] range), its penalty
      from LassoCV's grid or from `alphas` by cross-validation in `folds`. Labels are taken as numbers.
    - "forest": random forest of 10 trees, mean decrease of impurity; a classifier for labels, a regressor for numbers.
      Depth among `depths`, and `max_features` if several are given, by cross-validation in `folds`. All codes are
      tried at a split by default: scikit-learn's square root for labels makes trees split on codes that say nothing
      (identity codes of three factors: D = 0.6).
    - "boosted": gradient boosting with scikit-learn's defaults, mean decrease of squared error; kinds as above.
      backend "fast" is our own compilation of the same algorithm and differs by how ties fall (D and C by less than
      0.01 on the reference cases); backend "sklearn" is scikit-learn itself.

    informativeness, measured on rows the model has not seen (the release of Carbonneau et al. takes the training rows):
    "accuracy" (default for labels, on classes that training rows have), "explicitness" = max(0, 1 - MSE / guess_error)
    with factors on [0, 1] (default for numbers), or "nrmse" (RMSE / standard deviation: an error, 0 is best).
    guess_error 1/6 is the error of an independent uniform guess (Carbonneau et al., 4.3.1); their released code, and
    the numbers in their Table 1, have 1/12.

    Test rows: `test_codes` and `test_factors` if given, else a random `test_fraction` of the rows. `rows` limits how
    many of the table's rows train and test together.

    Assumes: the model finds the relation, and reports what it used. Fails (Carbonneau et al.): the lasso sees only
    linear relations (5.5, Figure 7), drops all but one of redundant codes and so calls them complete (5.4, Table 1: 1.0
    for fourfold codes, where the forest says 0.4), and gives noise codes more than 0.3 (5.2, Figure 4). Trees need
    data: an estimate is good to 0.03 at 10,000 rows (5.7), and overfitted depth lowers D and C (6.2). A rotated code
    scores low though it is factorised (6.1): see `aligned_dci`. Cost, 10,000 x 10 codes and dSprites factors: lasso
    10 ms, forest a few seconds, boosted about 15 s (scikit-learn: ten minutes).

    locatello: model="boosted", continuous=False, completeness="weighted", rows=15_000 (10,000 to train, 5,000 to test).
    carbonneau: continuous=True, folds=10, guess_error=1/12, and for the lasso scale="range", alphas=(1e-4, 1e-3, 0.01,
    0.1, 0.2, 0.4, 0.8, 1), for the forest depths=(8, 16, 32, 64, 128), max_features=(0.2, 0.4, 0.8, 1.0). Not
    reproduced: its modularity stops at the first dead code, and its informativeness is that of the training rows.
    Eastwood and Williams 2018, section 2; Carbonneau et al. (2022), 4.3.1; Locatello et al. (2019), appendix C.

    >>> v = np.random.default_rng(0).uniform(size=(300, 3))
    >>> result = dci(v, v)
    >>> round(result.disentanglement, 3), round(result.completeness, 3), round(result.informativeness, 3)
    (1.0, 1.0, 1.0)
    """
    _known("model", model, MODELS)
    _known("completeness", completeness, ("mean", "weighted"))
    _known("informativeness", informativeness, (None, *MEASURES))
    _known("scale", scale, ("standard", "range"))
    _known("backend", backend, ("fast", "sklearn"))
    if informativeness == "accuracy" and model == "lasso":
        raise ValueError("informativeness='accuracy' needs predicted labels, and the lasso predicts numbers")
    for name, number in (("folds", folds), *(("depths", depth) for depth in depths)):
        if number != int(number) or number < (2 if name == "folds" else 1):
            raise ValueError(f"{name} has {number}, expected integers of {2 if name == 'folds' else 1} or more")
    shares = list(max_features) if isinstance(max_features, Sequence) else [max_features]
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"max_features is {max_features!r}, expected shares of the codes, above 0 and up to 1")
    rng = np.random.default_rng(seed)
    given = (codes, factors, test_codes, test_factors)
    inputs, train, test = split(*given, test_fraction, continuous, rng, rows=rows)
    if model == "boosted":
        warn_of_many_classes(inputs)
    options: dict[str, Any] = {"scale": scale, "alphas": alphas, "folds": folds, "backend": backend}
    options |= {"depths": sorted(int(depth) for depth in depths), "max_features": shares}
    importance, predicted, chosen = MODELS[model](inputs, train, test, options, rng)

    labelled = np.zeros(len(inputs.kept), bool) if model == "lasso" else ~inputs.continuous
    measures = [informativeness or ("accuracy" if labelled[j] else "explicitness") for j in range(len(labelled))]
    columns = zip(measures, inputs.factors.T, predicted.T)
    quality = [_quality(measure, v, train, test, guess, guess_error) for measure, v, guess in columns]
    unknown = [name for name, value in zip(inputs.names, quality) if np.isnan(value)]
    if unknown:
        why = "training and test rows share none of its values"
        warnings.warn(f"no informativeness of {', '.join(unknown)}: {why}", stacklevel=2)
    result = dci_from_importance(importance, completeness=completeness)
    return replace(
        result,
        informativeness=float(np.nanmean(quality)) if np.isfinite(quality).any() else float("nan"),
        importance=inputs.spread(importance.T).T,
        per_factor=inputs.spread(result.per_factor),
        per_factor_informativeness=inputs.spread(np.array(quality)),
        details={"model": model, "measures": tuple(measures), **chosen},
    )


def dci_from_importance(importance: ArrayLike, *, completeness: str = "mean") -> DCI:
    """Disentanglement and completeness of a matrix of importances (d, k) >= 0; informativeness is NaN.

    >>> result = dci_from_importance(np.vstack([5 * np.eye(5), 5 * np.eye(5)]))
    >>> result.disentanglement, round(result.completeness, 6)  # 1 - ln 2 / ln 10
    (1.0, 0.69897)
    """
    _known("completeness", completeness, ("mean", "weighted"))
    r = np.asarray(importance, np.float64)
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
    """Say of which factors boosting would take minutes, and what to do instead."""
    for name, labels, number in zip(inputs.names, inputs.labels.T, inputs.continuous):
        classes = int(labels.max()) + 1
        if not number and len(labels) * classes > SLOW:
            warnings.warn(
                f"boosted trees of {name} with its {classes:,} classes can take minutes: declare it continuous, or "
                "use dci_forest or dci_lasso",
                stacklevel=3,
            )


def _concentration(r: Array) -> Array:
    """1 minus the entropy of each row, in units of its largest possible value; 1 where a row has one entry."""
    if r.shape[1] == 1:
        return np.ones(len(r))
    total = r.sum(axis=1, keepdims=True)
    p = r / np.where(total > 0, total, 1.0)
    return 1 + (p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1) / np.log(r.shape[1])


def _known(name: str, given: Any, choices: Any) -> None:
    if given not in choices:
        raise ValueError(f"{name} is {given!r}, expected one of {', '.join(repr(choice) for choice in choices)}")


def _quality(measure: str, column: Array, train: Rows, test: Rows, predicted: Array, guess_error: float) -> float:
    truth = column[test]
    if measure == "accuracy":
        shared = np.isin(truth, column[train])
        return float((predicted == truth)[shared].mean()) if shared.any() else float("nan")
    error = float(((predicted - truth) ** 2).mean())
    if measure == "nrmse":
        deviation = float(column[train].std())
        return float(np.sqrt(error)) / deviation if deviation > 0 else float("nan")
    return max(0.0, 1 - error / (column.max() - column.min()) ** 2 / guess_error)


Fitted = tuple[Array, Array, dict[str, Any]]


def _by_lasso(inputs: Inputs, train: Rows, test: Rows, options: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
    settings = {name: options[name] for name in ("alphas", "folds", "scale")}
    fit = lasso.fit(inputs.codes[train], inputs.factors[train], **settings)
    return np.abs(fit.weights), fit.predict(inputs.codes[test]), {"alpha": inputs.spread(fit.alpha)}


def _targets(inputs: Inputs, train: Rows) -> list[tuple[NDArray[Any], Array, int]]:
    """Per factor: the training targets, the value of each class, and the number of classes (0 for numbers)."""
    targets: list[tuple[NDArray[Any], Array, int]] = []
    for j, column in enumerate(inputs.factors[train].T):
        if inputs.continuous[j]:
            targets.append((column, column[:0], 0))
        else:
            values, labels = np.unique(column, return_inverse=True)
            targets.append((labels, values, len(values)))
    return targets


def _by_forest(inputs: Inputs, train: Rows, test: Rows, options: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
    x, out = inputs.codes[train], inputs.codes[test]
    depths, shares = options["depths"], options["max_features"]
    whole = Sorted.of(x)
    parts = []
    if len(depths) > 1 or len(shares) > 1:
        for left in np.array_split(np.arange(len(x)), min(options["folds"], len(x))):
            rows = np.delete(np.arange(len(x)), left)
            parts.append((Sorted.of(x[rows]), x[left], rows, left))
    importance, predicted = np.zeros((x.shape[1], len(inputs.kept))), np.empty((len(out), len(inputs.kept)))
    chosen = []
    for j, (target, values, classes) in enumerate(_targets(inputs, train)):
        depth, share = choose(parts, target, classes, rng, depths=depths, max_features=shares)
        importance[:, j], guess = forest(whole, out, target, classes, rng, depths=[depth], max_features=share)
        predicted[:, j] = values[guess[0].argmax(axis=1)] if classes else guess[0, :, 0]
        chosen.append(depth)
    return importance, predicted, {"depth": inputs.spread(np.array(chosen, np.float64))}


def _by_boosting(
    inputs: Inputs, train: Rows, test: Rows, options: Mapping[str, Any], rng: np.random.Generator
) -> Fitted:
    x, out = inputs.codes[train], inputs.codes[test]
    whole = Sorted.of(x)
    importance, predicted = np.zeros((x.shape[1], len(inputs.kept))), np.empty((len(out), len(inputs.kept)))
    for j, (target, values, classes) in enumerate(_targets(inputs, train)):
        if classes == 1:
            predicted[:, j] = values[0]
            continue
        if options["backend"] == "sklearn":
            importance[:, j], guess = _by_scikit_learn(x, out, target, classes, rng)
        else:
            fitted = boost(whole, target, classes, rng)
            importance[:, j], guess = fitted.importance, fitted.predict(out)
        predicted[:, j] = values[guess] if classes else guess
    return importance, predicted, {"backend": options["backend"]}


def _by_scikit_learn(
    x: Array, out: Array, target: NDArray[Any], classes: int, rng: np.random.Generator
) -> tuple[Array, NDArray[Any]]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    kind = GradientBoostingClassifier if classes else GradientBoostingRegressor
    fitted = kind(random_state=int(rng.integers(2**31))).fit(x, target)
    return fitted.feature_importances_, fitted.predict(out)


MODELS: dict[str, Callable[..., Fitted]] = {"lasso": _by_lasso, "forest": _by_forest, "boosted": _by_boosting}
