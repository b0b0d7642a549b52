"""Predict every factor from the codes, from few rows and from many (Locatello et al. 2019, section 5.5, C and I.6).

The other tasks check their arrays and divide the rows as this one does.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._words import hint
from karenina.numerics.arrays import Floats
from karenina.numerics.checks import are_continuous, as_factors_alike, pair, positive_integer, ranks, varying
from karenina.numerics.columns import range_unit
from karenina.numerics.logistic import FOLDS, PENALTIES, cross_validated
from karenina.numerics.trees import Binned, Sorted, boost

FEW = 100  # statistical efficiency compares the score from this many rows with the score from most rows


@dataclass(frozen=True, eq=False)
class Downstream:
    """How well factors can be predicted from codes.

    models: m names. sizes: s numbers of training rows. scores: (m, s, k) on the test rows: accuracy, or R2 where
    `continuous` (k,); NaN for a constant factor. test: how many test rows there were.
    """

    models: tuple[str, ...]
    sizes: tuple[int, ...]
    scores: Floats
    continuous: NDArray[np.bool_]
    test: int

    @property
    def mean(self) -> Floats:
        """Return the mean over factors that have a score: (m, s)."""
        known = np.isfinite(self.scores).sum(axis=2)
        return np.divide(np.nansum(self.scores, axis=2), known, out=np.full(known.shape, np.nan), where=known > 0)

    @property
    def efficiency(self) -> Floats:
        """Return the statistical efficiency (m,): mean score from 100 training rows over that from most (Locatello et
        al. 2019).

        NaN where 100 is not among the sizes or is the largest.
        """
        if FEW not in self.sizes or max(self.sizes) == FEW:
            return np.full(len(self.models), np.nan)
        few, most = self.mean[:, self.sizes.index(FEW)], self.mean[:, int(np.argmax(self.sizes))]
        return np.divide(few, most, out=np.full(len(most), np.nan), where=most != 0)

    def summary(self) -> dict[str, float]:
        """Return scores under flat names for tables: downstream_<model>_<size> and downstream_<model>_efficiency."""
        flat: dict[str, float] = {}
        for model, means, efficiency in zip(self.models, self.mean, self.efficiency):
            flat |= {f"downstream_{model}_{size}": float(mean) for size, mean in zip(self.sizes, means)}
            flat[f"downstream_{model}_efficiency"] = float(efficiency)
        return flat


def downstream(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    sizes: Sequence[int] = (10, 100, 1000, 10_000),
    test: int = 5000,
    models: Sequence[str] = ("logistic", "boosted"),
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
) -> Downstream:
    """Predict each factor from the codes, by models trained on few rows and on many.

    A class that the training rows lack is never predicted, so its test rows count as wrong.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    sizes : numbers of training rows
        A size beyond the rows there are becomes all of them.
    test : int
        Rows to test on. Without `test_codes`, as many random rows are set aside, at most a third.
    models : of "logistic" and "boosted"
        Cross-validated logistic regression (10 penalties, 5 folds) and gradient-boosted trees, both with scikit-learn's
        defaults as in Locatello et al. (2019). Continuous factors get cross-validated ridge regression and boosted
        regression, and R2 in place of accuracy.
    seed : int
    continuous : bool or one per factor
        None: factors of integers are categorical.
    test_codes, test_factors : (m, d), (m, k)
        Rows to test on; then both tables are read in the order given.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(3, size=(600, 2))
    >>> result = downstream(v + 0.01 * rng.normal(size=v.shape), v, sizes=(10, 100), models=["boosted"])
    >>> result.sizes, result.mean.shape, result.mean[0, 1].round(2).item()
    ((10, 100), (1, 2), 1.0)
    """
    names = chosen_models(models, MODELS)
    wanted = [positive_integer(size, "each of sizes") for size in sizes]
    if not wanted:
        raise ValueError("sizes must be one or more numbers of training rows, got none")
    rng = np.random.default_rng(seed)
    data = rows(codes, factors, test, rng, continuous, test_codes, test_factors)
    used = tuple(dict.fromkeys(min(size, len(data.train)) for size in wanted))
    scores = np.full((len(names), len(used), data.factors.shape[1]), np.nan)
    for j in np.flatnonzero(data.varies).tolist():
        target = data.target(j)
        for s, size in enumerate(used):
            chosen = data.train[:size]
            for m, name in enumerate(names):
                predict = MODELS[name][int(data.continuous[j])]
                guess = predict(data.codes[chosen], target[chosen], data.codes[data.test], rng)
                scores[m, s, j] = (r2 if data.continuous[j] else accuracy)(target[data.test], guess)
    return Downstream(names, used, scores, data.continuous, len(data.test))


def accuracy(truth: NDArray[Any], guess: NDArray[Any]) -> float:
    """Return the share of rows that are guessed right."""
    return float((truth == guess).mean())


def r2(truth: Floats, guess: Floats) -> float:
    """Return 1 - squared error / variance; NaN where the test rows do not vary."""
    total = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((truth - guess) ** 2).sum()) / total if total > 0 else np.nan


def _logistic_labels(x: Floats, y: NDArray[Any], test: Floats, rng: np.random.Generator) -> NDArray[Any]:
    seen, labels = np.unique(y, return_inverse=True)
    if len(seen) == 1:
        return np.full(len(test), seen[0])
    return seen[cross_validated(x, labels, len(seen)).predict(test)]


def _ridge_values(x: Floats, y: Floats, test: Floats, rng: np.random.Generator) -> Floats:
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold

    if len(y) < 2:
        return np.full(len(test), y.mean())
    folds = KFold(min(FOLDS, len(y)))
    model = RidgeCV(alphas=1 / PENALTIES, cv=folds, scoring="neg_mean_squared_error")
    guess: Floats = model.fit(x, y).predict(test)
    return guess


def boosted_labels(
    x: Floats, y: NDArray[Any], test: Floats, rng: np.random.Generator, among: type[Binned | Sorted] = Binned
) -> NDArray[Any]:
    """Train boosted trees on labels y and predict the rows of test; labels not seen are never predicted."""
    seen, labels = np.unique(y, return_inverse=True)
    if len(seen) == 1:
        return np.full(len(test), seen[0])
    return seen[boost(among.of(x), labels, len(seen), rng).predict(test)]


def boosted_values(
    x: Floats, y: Floats, test: Floats, rng: np.random.Generator, among: type[Binned | Sorted] = Binned
) -> Floats:
    """Train boosted trees on numbers y and predict the rows of test."""
    return boost(among.of(x), y, 0, rng).predict(test)


Predictor = Callable[[Floats, NDArray[Any], Floats, np.random.Generator], NDArray[Any]]

# For categorical, and for continuous factors.
MODELS: dict[str, tuple[Predictor, Predictor]] = {
    "logistic": (_logistic_labels, _ridge_values),
    "boosted": (boosted_labels, boosted_values),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked codes (n, d) and factors (n, k), and which rows to train and to test on.

    continuous, varies: (k,) bool; a factor that does not vary has no task.
    """

    codes: Floats
    factors: Floats
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    continuous: NDArray[np.bool_]
    varies: NDArray[np.bool_]

    def target(self, j: int) -> NDArray[Any]:
        """Return what is predicted of factor j in all rows."""
        return target_of(self.factors[:, j], bool(self.continuous[j]))


def target_of(column: Floats, continuous: bool) -> NDArray[Any]:
    """Return a factor (n,) as labels 0..size-1, or where it is continuous as floats whose squares are in range."""
    return column / range_unit(column) if continuous else ranks(column)


def chosen_models(models: str | Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the predictors asked for; refuse unknown ones."""
    names = (models,) if isinstance(models, str) else tuple(models)
    for name in names:
        if name not in known:
            raise ValueError(f"no model {name!r}; {hint(name, known)}")
    if not names:
        raise ValueError(f"no model asked for; there are {', '.join(known)}")
    return names


def rows(
    codes: ArrayLike,
    factors: ArrayLike,
    test: int,
    rng: np.random.Generator,
    continuous: bool | Sequence[bool] | None = None,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
) -> Rows:
    """Check the codes and factors, and divide the rows into training and test.

    With test_codes and test_factors, both tables are read in the order given, the test one up to `test` rows. Otherwise
    `test` random rows are set aside, but never more than a third, and the others are shuffled.
    """
    test = positive_integer(test, "test")
    if (test_codes is None) != (test_factors is None):
        raise ValueError("test_codes and test_factors go together: one of them is missing")
    if test_factors is not None:
        factors, test_factors = as_factors_alike(factors, test_factors)
    z, v = pair(codes, factors)
    if test_codes is None or test_factors is None:
        if len(z) < 3:
            raise ValueError(f"codes and factors have {len(z)} rows, at least 3 are needed to train and test")
        order = rng.permutation(len(z))
        held = min(test, len(z) // 3)
        train, tested = order[held:], order[:held]
    else:
        more_z, more_v = pair(test_codes, test_factors, "test_")
        if (more_z.shape[1], more_v.shape[1]) != (z.shape[1], v.shape[1]):
            raise ValueError(
                f"test_codes {more_z.shape} and test_factors {more_v.shape} do not have the columns of "
                f"codes {z.shape} and factors {v.shape}"
            )
        if not len(z) or not len(more_z):
            raise ValueError(f"there are {len(z)} rows to train on and {len(more_z)} to test on, at least 1 is needed")
        train = np.arange(len(z))
        tested = len(z) + np.arange(min(test, len(more_z)))
        z, v = np.concatenate([z, more_z]), np.concatenate([v, more_v])
    varies = varying(v)
    if not varies.any():
        raise ValueError(f"every factor is constant (factors has shape {v.shape}), so there is nothing to predict")
    if not varies.all():
        gone = ", ".join(str(j) for j in np.flatnonzero(~varies))
        warnings.warn(f"no task for constant factors: column {gone}", stacklevel=3)
    return Rows(z, v, train, tested, are_continuous(continuous, v), varies)
