"""Is one representation better than another? Differences of scores on the same rows, resampled in pairs."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.checks import as_factors, as_matrix
from karenina.numerics.resampling import LEVELS

if TYPE_CHECKING:
    import pandas as pd

Metric = str | Callable[[NDArray[Any], NDArray[Any]], Any]

# Metrics that take milliseconds: a comparison computes each four hundred times.
QUICK = ("mig", "mig_sup", "modularity", "dci_lasso")
COLUMNS = ("metric", "property", "a", "b", "difference", "low", "high", "p", "resamples")


def difference(
    first: ArrayLike,
    second: ArrayLike,
    factors: ArrayLike,
    metrics: Iterable[Metric] | None = None,
    protocol: str | None = None,
    *,
    resamples: int = 200,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
) -> "pd.DataFrame":
    """Scores of two representations of the same rows, and whether they differ by more than the choice of rows.

    Parameters
    ----------
    first, second : array (n, d), array (n, e)
        Codes of the same n inputs.
    factors : array (n, k)
    metrics : names or functions of (codes, factors), optional
        By default four that are quick; trees take long, since each metric is computed twice per resample.
    protocol, seed, continuous
        As in `karenina.score`.
    resamples : int
        Random halves of the rows, the same for both. The spread over halves without replacement is that of the whole
        sample (the delete-half jackknife), and unlike a bootstrap with replacement it puts no row into the training and
        the test part of a predictor.

    Returns
    -------
    DataFrame
        metric, property, a, b (scores of all rows), difference = a - b, its 95 % interval low, high, and p: how often
        a difference as large comes from the choice of rows alone. Carbonneau et al. (2022), section 6.3, ask for it.
        Of modularity they are conservative: the score has a bias that is larger on halves, whose spread is therefore
        above that of the whole, so a difference that is not significant here may still be real.
        The interval and p are NaN where the metric has no value on some of the halves.

    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(5, size=(1000, 3))
    >>> good, bad = (v + noise * rng.normal(size=v.shape) for noise in (0.1, 2))
    >>> row = difference(good, bad, v, ["mig"], resamples=50).iloc[0]
    >>> bool(row.low > 0.5), round(float(row.p), 2)
    (True, 0.02)
    """
    import pandas as pd

    a, b = (as_matrix(codes, name) for codes, name in ((first, "first"), (second, "second")))
    v = as_factors(factors)
    as_matrix(v, "factors")
    if not len(a) == len(b) == len(v):
        raise ValueError(f"both codes and the factors must have the same rows, got {len(a)}, {len(b)} and {len(v)}")
    if len(a) < 20:
        raise ValueError(f"a comparison needs at least 20 rows, got {len(a)}")
    if resamples < 20:
        raise ValueError(f"a comparison needs at least 20 resamples, got {resamples}")
    wanted = list(QUICK if metrics is None else metrics)
    options = {"protocol": protocol, "seed": seed, "continuous": continuous}
    keys, whole_a = _scores(a, v, wanted, options)
    _, whole_b = _scores(b, v, wanted, options)
    rng = np.random.default_rng([seed, 63])
    moved = np.empty((resamples, len(keys)))
    for i in range(resamples):
        half = np.sort(rng.permutation(len(a))[: len(a) // 2])
        moved[i] = _scores(a[half], v[half], wanted, options)[1] - _scores(b[half], v[half], wanted, options)[1]
    estimate = whole_a - whole_b
    moved -= moved.mean(axis=0)
    low, high = estimate + np.quantile(moved, LEVELS, axis=0)
    p = (1 + (np.abs(moved) >= np.abs(estimate)).sum(axis=0)) / (resamples + 1)
    p = np.where(np.isnan(low), np.nan, p)
    lines = [(*key, *row, resamples) for key, *row in zip(keys, whole_a, whole_b, estimate, low, high, p)]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _scores(
    codes: NDArray[Any], factors: NDArray[Any], metrics: Sequence[Metric], options: dict[str, Any]
) -> tuple[list[tuple[str, str]], NDArray[np.float64]]:
    """(metric, property) of each score, and the scores."""
    from karenina.metrics import scoring

    names = [metric for metric in metrics if isinstance(metric, str)]
    keys, values = [], []
    if names:
        table = scoring.score(codes, factors, names, repeats=1, **options)
        keys += [(row.metric, row.property) for row in table.rows]
        values += [row.value for row in table.rows]
    for metric in metrics:
        if not isinstance(metric, str):
            keys.append((getattr(metric, "__name__", "metric"), ""))
            values.append(float(metric(codes, factors)))
    return keys, np.array(values, np.float64)
