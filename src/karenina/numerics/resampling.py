"""Rank correlations of many columns at once, and 95 % intervals of correlations, of medians, and of statistics
that several seeds repeat.

How often each covers is simulated in benchmarks/intervals.py.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata, t

from karenina.numerics.arrays import Floats, Ints

Correlate = Callable[[Floats], tuple[Floats, Floats, Floats]]

RESAMPLES = 200
LEVELS = (0.025, 0.975)
INTERVAL, RANGE = "95 %", "range"  # what bounds are, in the tables that have them
LEAST_FOR_CORRELATION = (
    10  # rows; fewer are often ranked alike whatever the correlation, and tau of 8 with ties covers .89
)


def spearman(x: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Spearman correlations (K, K) of the columns of x (n, K), and the bounds of their 95 % intervals.

    A row without a value in a column does not count for the pairs of that column. The interval is Student's, of
    Fisher's z; the standard error is that of the rows' influence, which holds for any distribution (the formulas for
    normal pairs do not). Bounds are NaN with fewer than 10 rows, and those of columns in the same order are that one.
    """
    return _by_pattern(x, _spearman)


def kendall(x: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Kendall's tau-b (K, K) of the columns of x (n, K), and the bounds of their 95 % intervals.

    As `spearman`, with the arcsine in the place of Fisher's z, which would be too wide, and the normal distribution.
    """
    return _by_pattern(x, _kendall)


def _by_pattern(x: Floats, correlate: Correlate) -> tuple[Floats, Floats, Floats]:
    """Correlate columns that lack the same rows together."""
    found = [np.full((x.shape[1], x.shape[1]), np.nan) for _ in range(3)]
    patterns = list(same_rows(x))
    for i, (first, rows) in enumerate(patterns):
        for second, other_rows in patterns[i:]:
            both = rows & other_rows
            if both.sum() < 3:
                continue
            columns = np.union1d(first, second)
            for matrix, part in zip(found, correlate(x[np.ix_(both, columns)])):
                a, b = np.searchsorted(columns, first), np.searchsorted(columns, second)
                matrix[np.ix_(first, second)] = part[np.ix_(a, b)]
                matrix[np.ix_(second, first)] = part[np.ix_(b, a)]
    return found[0], found[1], found[2]


def same_rows(x: Floats) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield groups of columns that have a value in the same rows: (columns, rows)."""
    patterns, group = np.unique(~np.isnan(x), axis=1, return_inverse=True)
    for i in range(patterns.shape[1]):
        yield np.flatnonzero(group == i), patterns[:, i]


def _spearman(x: Floats) -> tuple[Floats, Floats, Floats]:
    n, k = x.shape
    ranks = (rankdata(x, axis=0) - (n + 1) / 2) / n
    products = ranks.T @ ranks / n
    estimate = _normalise(products)
    above = np.empty((n, k, k))  # mean of column b's ranks over the rows above row i in column a, half of those equal
    for a in range(k):
        order = np.argsort(x[:, a], kind="stable")
        column = x[order, a]
        sums = np.vstack([np.zeros(k), np.cumsum(ranks[order], axis=0)])
        equal = np.searchsorted(column, column), np.searchsorted(column, column, "right")
        above[order, a] = (sums[-1] - 0.5 * (sums[equal[0]] + sums[equal[1]])) / n

    def influence(a: int) -> Floats:
        """Return the influence of each row on the products of column a with every column: its own part, and what it
        does to the ranks.
        """
        moved: Floats = ranks[:, a, None] * ranks + above[:, a] + above[:, :, a]
        return moved - moved.mean(axis=0)

    own = np.stack([influence(a)[:, a] for a in range(k)], axis=1)
    error = _error(products, own, influence) / np.sqrt(n * (n - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        half = t.ppf(LEVELS[1], n - 1) * error / (1 - estimate**2)
        low, high = (np.tanh(np.arctanh(estimate) + side * half) for side in (-1, 1))
    return estimate, *_bounds(estimate, low, high, n)


def _kendall(x: Floats) -> tuple[Floats, Floats, Floats]:
    n, k = x.shape
    shares = np.empty((n, k, k))  # of row i in the concordance of columns a and b
    values = x.T.astype(np.float64)
    for i in range(n):
        signs = np.sign(values - values[:, i : i + 1]).astype(np.float32)
        shares[i] = signs @ signs.T
    total = shares.sum(axis=0)
    estimate = _normalise(total)
    shares -= total / n
    own = np.diagonal(shares, axis1=1, axis2=2)
    error = 2 * n * _error(total, own, lambda a: shares[:, a]) * np.sqrt((n - 1) / n) / max(n - 2, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        half = norm.ppf(LEVELS[1]) * error / np.sqrt(1 - estimate**2)
        low, high = (np.sin(np.clip(np.arcsin(estimate) + side * half, -np.pi / 2, np.pi / 2)) for side in (-1, 1))
    return estimate, *_bounds(estimate, low, high, n)


def _normalise(products: Floats) -> Floats:
    scale = np.sqrt(np.diagonal(products))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(products / np.outer(scale, scale), -1, 1)


def _error(products: Floats, own: Floats, influence: Callable[[int], Floats]) -> Floats:
    """Return the length (K, K) of the rows' influence on products / sqrt(their diagonal, of both columns).

    own (n, K): influence on the diagonal, which is none where no two rows are equal. influence(a): (n, K) on row a.
    """
    estimate, size = _normalise(products), np.diagonal(products)
    out = np.empty_like(products)
    with np.errstate(invalid="ignore", divide="ignore"):
        for a in range(len(products)):
            scale = own / size + (own[:, a] / size[a])[:, None]
            moved = influence(a) / np.sqrt(size * size[a]) - 0.5 * estimate[a] * scale
            out[a] = np.sqrt((moved**2).sum(axis=0))
    return out


def _bounds(estimate: Floats, low: Floats, high: Floats, n: int) -> tuple[Floats, Floats]:
    if n < LEAST_FOR_CORRELATION:
        return np.full_like(estimate, np.nan), np.full_like(estimate, np.nan)
    alike = np.abs(estimate) > 1 - 1e-12
    return np.where(alike, estimate, low), np.where(alike, estimate, high)


def median_bounds(groups: list[Floats]) -> tuple[Floats, list[str]]:
    """Return bounds (G, 2) of the median of each group, and what they are: the 95 % interval of order statistics (see
    `medians`), or the range of fewer than six values, which is none. A single value has no bounds.

    >>> bounds, kinds = median_bounds([np.arange(9.0), np.array([3.0, 1.0]), np.array([2.0])])
    >>> bounds.tolist(), kinds
    ([[1.0, 7.0], [1.0, 3.0], [nan, nan]], ['95 %', 'range', ''])
    """
    lengths = [len(group) for group in groups]
    _, bounds = medians(np.cumsum([0, *lengths]), np.concatenate([*groups, np.empty(0)]))
    kinds = [(INTERVAL if n >= least_for_interval() else RANGE) if n > 1 else "" for n in lengths]
    for i, kind in enumerate(kinds):
        if kind == RANGE:
            bounds[i] = groups[i].min(), groups[i].max()
    return bounds, kinds


def quartiles(groups: list[Floats]) -> Floats:
    """Return the least value, the quartiles and the greatest value (G, 5) of each group."""
    out = np.full((len(groups), 5), np.nan)
    for size in {len(group) for group in groups} - {0}:
        which = [i for i, group in enumerate(groups) if len(group) == size]
        out[which] = np.quantile(np.stack([groups[i] for i in which]), [0, 0.25, 0.5, 0.75, 1], axis=1).T
    return out


def jackknife(left_out: Floats) -> Any:
    """Return half of the 95 % interval of a statistic, from its values (n, ...) without each of n seeds: Student's t
    with n - 1 degrees of freedom. NaN where one of them is, with fewer than three, and where all are equal, which
    tells nothing of their spread.

    >>> x = np.array([1.0, 2.0, 4.0, 7.0])
    >>> half = jackknife(np.array([np.delete(x, i).mean() for i in range(4)]))  # of the mean, the usual interval
    >>> bool(np.isclose(half, t.ppf(0.975, 3) * x.std(ddof=1) / 2))
    True
    """
    n = len(left_out)
    if n < 3:
        return np.full(np.shape(left_out)[1:], np.nan)[()]
    error = np.sqrt((n - 1) / n * np.square(left_out - np.mean(left_out, axis=0)).sum(axis=0))
    return np.where(error > 1e-12, t.ppf(LEVELS[1], n - 1) * error, np.nan)[()]


def share_bounds(whole: Floats, left_out: Floats) -> tuple[Floats, Floats]:
    """Return the bounds of the 95 % interval of shares, of which none is above 1, from their values of all units and
    those (n, ...) without each: the `jackknife` of log(1 - share), which is less skewed than the share."""
    rest, rests = (np.log(np.maximum(1 - np.asarray(one), 1e-12)) for one in (whole, left_out))
    half = jackknife(rests)
    return 1 - np.exp(rest + half), 1 - np.exp(rest - half)


def without_each(unit: NDArray[Any], statistic: Callable[[NDArray[np.bool_]], float]) -> float:
    """Return the `jackknife` of a statistic of rows (a mask), from leaving out each unit, e.g. seed, of the rows."""
    names = np.unique(unit)
    if len(names) < 3:
        return float("nan")
    return float(jackknife(np.array([statistic(unit != name) for name in names])))


def medians(start: Ints, values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the median (R,) of each run values[start[i]:start[i + 1]] and an interval (R, 2) of the median that it
    estimates.

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
    """Return how many values an interval of this confidence needs.

    >>> least_for_interval(), least_for_interval(0.75)
    (6, 3)
    """
    return int(np.ceil(1 - np.log2(1 - confidence)))
