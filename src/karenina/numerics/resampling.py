"""Rank correlations of many columns at once, and intervals.

Intervals are percentiles of resamples, but for `jackknife`, and `medians`, of order statistics.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from karenina.numerics.arrays import Floats, Ints

Correlate = Callable[[Floats], tuple[Floats, Floats, Floats]]

RESAMPLES = 200
LEVELS = (0.025, 0.975)


def interval(values: Floats) -> tuple[Floats, Floats]:
    """Bounds over the first axis."""
    low, high = np.quantile(values, LEVELS, axis=0)
    return low, high


def spearman(x: Floats, resamples: int = RESAMPLES, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Spearman correlations (K, K) of the columns of x (n, K), and their bounds; NaN bounds with 0 resamples.

    A row without a value in a column does not count for the pairs of that column.
    """
    return _by_pattern(x, lambda block: _spearman(block, resamples, seed))


def kendall(x: Floats, resamples: int = RESAMPLES, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Kendall's tau-b (K, K) of the columns of x (n, K), and their bounds.

    tau-b is a sum over pairs of rows, divided by how many of them are not tied. Resampling all pairs would cost n^2
    each time; resampled are the rows' own shares of both, the same to first order (Hoeffding's projection).
    """
    return _by_pattern(x, lambda block: _kendall(block, resamples, seed))


def _by_pattern(x: Floats, correlate: Correlate) -> tuple[Floats, Floats, Floats]:
    """Columns that lack the same rows are treated together."""
    found = [np.full((x.shape[1], x.shape[1]), np.nan) for _ in range(3)]
    patterns = list(same_rows(x))
    for i, (first, rows) in enumerate(patterns):
        for second, more in patterns[i:]:
            both = rows & more
            if both.sum() < 3:
                continue
            columns = np.union1d(first, second)
            for matrix, part in zip(found, correlate(x[np.ix_(both, columns)])):
                a, b = np.searchsorted(columns, first), np.searchsorted(columns, second)
                matrix[np.ix_(first, second)] = part[np.ix_(a, b)]
                matrix[np.ix_(second, first)] = part[np.ix_(b, a)]
    return found[0], found[1], found[2]


def same_rows(x: Floats) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Groups of columns that have a value in the same rows: (columns, rows)."""
    patterns, group = np.unique(~np.isnan(x), axis=1, return_inverse=True)
    for i in range(patterns.shape[1]):
        yield np.flatnonzero(group == i), patterns[:, i]


def _spearman(x: Floats, resamples: int, seed: int) -> tuple[Floats, Floats, Floats]:
    n, k = x.shape
    order = np.argsort(x, axis=0, kind="stable")
    ordered = np.take_along_axis(x, order, axis=0)

    def correlate(weights: NDArray[Any]) -> Floats:
        """Correlations (B, K, K) when row i is there weights[i, b] times. Ranks of a resample come from its counts."""
        ranks = np.empty((k, *weights.shape), weights.dtype)
        for j, column in enumerate(ordered.T):
            counts = weights[order[:, j]]
            below = np.cumsum(counts, axis=0)
            below -= 0.5 * counts  # rows before it and half of itself; less n / 2, so that the mean is exactly 0
            if (column[1:] == column[:-1]).any():
                below = _level(column, counts)
            below -= n / 2
            ranks[j, order[:, j]] = below
        ranks *= np.sqrt(weights)
        by_resample = np.ascontiguousarray(ranks.transpose(2, 0, 1))
        return _normalise(by_resample @ by_resample.transpose(0, 2, 1))

    estimate = correlate(np.ones((n, 1)))[0]
    rng = np.random.default_rng(seed)
    parts = [np.empty((0, k, k)), *(correlate(_counts(rng, n, size)) for size in _chunks(resamples))]
    return estimate, *_bounds(np.concatenate(parts), estimate)


def _level(column: Floats, counts: NDArray[Any]) -> NDArray[Any]:
    """Mid-ranks of rows in ascending order when some are equal: equal rows share the middle of their places."""
    first, last = np.searchsorted(column, column), np.searchsorted(column, column, "right")
    sums = np.zeros((len(counts) + 1, counts.shape[1]), counts.dtype)
    np.cumsum(counts, axis=0, out=sums[1:])
    middle: NDArray[Any] = 0.5 * (sums[first] + sums[last])
    return middle


def _chunks(resamples: int, size: int = 64) -> list[int]:
    return [min(size, resamples - i) for i in range(0, resamples, size)]


def _counts(rng: np.random.Generator, n: int, resamples: int) -> NDArray[np.float32]:
    """How often each of n rows is in each resample: (n, resamples)."""
    drawn = rng.integers(n, size=(n, resamples)) * resamples + np.arange(resamples)
    return np.bincount(drawn.ravel(), minlength=n * resamples).reshape(n, resamples).astype(np.float32)


def _kendall(x: Floats, resamples: int, seed: int) -> tuple[Floats, Floats, Floats]:
    n, k = x.shape
    shares = np.empty((n, k, k))  # of row i in the concordance of columns a and b
    values = x.T.astype(np.float64)
    for i in range(n):
        signs = np.sign(values - values[:, i : i + 1]).astype(np.float32)
        shares[i] = signs @ signs.T
    total = shares.sum(axis=0)
    estimate = _normalise(total[None])[0]
    size = np.sqrt(np.diagonal(total))
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n
    means = (weights @ shares.reshape(n, -1)).reshape(resamples, k, k)
    shift = means - total / n
    with np.errstate(invalid="ignore", divide="ignore"):
        untied = np.diagonal(shift, axis1=1, axis2=2) / np.diagonal(total)
        untied = np.where(np.diagonal(total) < n * (n - 1), untied, 0.0)  # without ties a constant, but for rounding
        moved = estimate + 2 * shift * n / np.outer(size, size)
        moved -= estimate * n * (untied[:, :, None] + untied[:, None, :])
    return estimate, *_bounds(np.clip(moved, -1, 1), estimate)


def _normalise(products: Floats) -> Floats:
    scale = np.sqrt(np.diagonal(products, axis1=1, axis2=2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(products / (scale[:, :, None] * scale[:, None, :]), -1, 1)


def _bounds(resampled: Floats, estimate: Floats) -> tuple[Floats, Floats]:
    """A resample in which a column is constant has no correlation, and does not count."""
    if not len(resampled):
        return np.full_like(estimate, np.nan), np.full_like(estimate, np.nan)
    flat = resampled.reshape(len(resampled), -1).astype(float)
    low, high = np.full((2, flat.shape[1]), np.nan)
    whole = ~np.isnan(flat).any(axis=0)
    low[whole], high[whole] = np.quantile(flat[:, whole], LEVELS, axis=0)
    for j in np.flatnonzero(~whole & ~np.isnan(estimate.ravel())):
        low[j], high[j] = np.nanquantile(flat[:, j], LEVELS)
    return low.reshape(estimate.shape), high.reshape(estimate.shape)


def median_bounds(groups: list[Floats], seed: int = 0, resamples: int = RESAMPLES) -> Floats:
    """Bounds (G, 2) of the median of each sorted group: resampling a sorted group is drawing which places end up in the
    middle, and that depends on its size alone."""
    out = np.full((len(groups), 2), np.nan)
    for size in sorted({len(group) for group in groups} - {0, 1}):
        which = [i for i, group in enumerate(groups) if len(group) == size]
        drawn = np.sort(np.random.default_rng(seed).integers(size, size=(resamples, size)), axis=1)
        middle = drawn[:, [(size - 1) // 2, size // 2]]
        values = np.stack([groups[i] for i in which])
        medians = 0.5 * (values[:, middle[:, 0]] + values[:, middle[:, 1]])
        out[which] = np.quantile(medians, LEVELS, axis=1).T
    return out


def quartiles(groups: list[Floats]) -> Floats:
    """Least value, quartiles and greatest value (G, 5) of each group."""
    out = np.full((len(groups), 5), np.nan)
    for size in {len(group) for group in groups} - {0}:
        which = [i for i, group in enumerate(groups) if len(group) == size]
        out[which] = np.quantile(np.stack([groups[i] for i in which]), [0, 0.25, 0.5, 0.75, 1], axis=1).T
    return out


def mean_bounds(values: Floats, seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Bounds of the mean; NaN for fewer than two values."""
    if len(values) < 2:
        return np.nan, np.nan
    drawn = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), LEVELS)
    return float(low), float(high)


def jackknife(left_out: Floats) -> float:
    """Half of the 95 % interval of a statistic, from its values (n,) without each of n seeds: Student's t with n - 1
    degrees of freedom. NaN where one of them is.

    >>> x = np.array([1.0, 2.0, 4.0, 7.0])
    >>> half = jackknife(np.array([np.delete(x, i).mean() for i in range(4)]))  # of the mean, the usual interval
    >>> bool(np.isclose(half, t.ppf(0.975, 3) * x.std(ddof=1) / 2))
    True
    """
    n = len(left_out)
    error = np.sqrt((n - 1) / n * np.square(left_out - np.mean(left_out)).sum())
    return float(t.ppf(LEVELS[1], n - 1) * error)


def medians(start: Ints, values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Median (R,) of each run values[start[i]:start[i + 1]] and an interval (R, 2) of the median that it estimates.

    The interval goes from the k-th smallest to the k-th largest value. It misses the true median only if fewer than k
    of the n values lie on one side of it, so it covers with probability 1 - 2 P(Binomial(n, 1/2) < k) or more, whatever
    the distribution; k is the largest for which that is at least `confidence`. NaN where not even the range of the
    values does: 95 % needs 6 of them. (Resampled medians stay within the range too, whatever they are said to cover.)

    >>> medians(np.array([0, 6, 9]), np.array([3.0, 1, 2, 6, 5, 4, 7, 9, 8]))[1].tolist()
    [[1.0, 6.0], [nan, nan]]
    """
    from scipy.special import bdtr

    lengths = np.diff(start)
    found, bounds = np.full(len(lengths), np.nan), np.full((len(lengths), 2), np.nan)
    for n in np.unique(lengths[lengths > 0]):
        runs = np.flatnonzero(lengths == n)
        k = int((bdtr(np.arange(n // 2 + 1), n, 0.5) <= (1 - confidence) / 2).sum())  # P(Binomial(n, 1/2) <= 0, 1, ...)
        for part in np.array_split(runs, -(-len(runs) * int(n) // 10_000_000)):  # bounds the memory
            ordered = np.sort(values[start[part][:, None] + np.arange(n)], axis=1)
            found[part] = 0.5 * (ordered[:, (n - 1) // 2] + ordered[:, n // 2])
            if k > 0:
                bounds[part] = ordered[:, [k - 1, n - k]]
    return found, bounds


def least_for_interval(confidence: float = 0.95) -> int:
    """How many values an interval of this confidence needs.

    >>> least_for_interval(), least_for_interval(0.75)
    (6, 3)
    """
    return int(np.ceil(1 - np.log2(1 - confidence)))
