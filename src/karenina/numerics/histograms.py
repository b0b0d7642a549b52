"""Bins, and entropies and mutual information from one count of all joint histograms of two sets of columns.

Every estimate here is a sum over histogram cells of a function of the cell's count, so each is a constant and a
look-up table over counts 0..n: counting is done once, and all estimates read the same counts.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.checks import one_of, positive_integer, varying

Binning = Literal["width", "quantile"]

# A value this close to a bin edge (in bin widths) counts as on it. Rounding then cannot move lattice values to the next
# bin when a code is rescaled or shifted; the chance to touch a value of a continuous code is 2e-10 per row and edge.
ON_EDGE = 1e-10

# Mutual information below this is rounding: independent variables on a full grid have exactly none.
ROUNDING = 1e-12


def discretise(
    columns: Floats, bins: int, binning: Binning = "width", limits: tuple[float, float] | None = None
) -> Ints:
    """Bin each column: (n, d) floats to (n, d) integers in 0..bins-1.

    width: equal bins on the observed range, or on `limits` (values outside go to the end bins). quantile: equal numbers
    of rows, by rank, so any increasing map of a column gives the same bins; equal values share a bin. A constant column
    is bin 0. Values on the edge between two bins go towards the half of the range that has fewer rows, up if neither
    has: for one of z and -z these are the bins of np.histogram, and for the other their mirror image.

    >>> discretise(np.array([[0.0], [0.4], [0.5], [1.0]]), 2).ravel()
    array([0, 0, 1, 1])
    """
    return both_ways(columns, bins, binning, limits)[0]


def both_ways(
    columns: Floats, bins: int, binning: Binning = "width", limits: tuple[float, float] | None = None
) -> tuple[Ints, ...]:
    """Return the bins of `discretise`, and a second table of bins if values on edges could as well go down.

    z and -z have the same ways, so what is averaged over ways does not depend on the sign of a code. Nothing else would
    do: a column that is its own mirror image has no side that could be preferred.

    >>> [cells.ravel().tolist() for cells in both_ways(np.array([[0.0], [1.0], [2.0]]), 2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    bins = positive_integer(bins, "bins")
    one_of("binning", binning, get_args(Binning))
    if binning == "quantile" and limits is not None:
        raise ValueError("limits are for binning='width'; quantile bins have none")
    if limits is not None and not (np.isfinite(limits).all() and limits[0] < limits[1]):
        raise ValueError(f"limits must be (low, high) with low < high, got {limits!r}")
    cells = np.zeros(columns.shape[::-1], np.int64)  # a column of the data in one contiguous row
    undecided = {}
    for j, column in enumerate(np.ascontiguousarray(columns.T)):
        low, high = column.min(), column.max()
        if low == high:
            continue
        if binning == "quantile":
            place = _ranks_from_middle(column)
        else:
            place = _from_middle(column, *(limits or (low, high)))
        place *= bins  # half bins from the middle: edges are at -bins, 2 - bins, ..., bins
        on_edge = _put(place, bins, cells[j])
        if not len(on_edge):
            continue
        above, below = (place > 2 * ON_EDGE).sum(), (place < -2 * ON_EDGE).sum()
        if above > below:
            cells[j, on_edge] -= 1
        elif above == below:
            undecided[j] = on_edge
    if not undecided:
        return (cells.T,)
    down = cells.copy()
    for j, on_edge in undecided.items():
        down[j, on_edge] -= 1
    return cells.T, down.T


def _put(place: Floats, bins: int, cell: Ints) -> Ints:
    """Write the bin of each place, the upper one for those on an edge, and say which rows lie on an edge inside.

    What is on an edge is decided by the distance of `place`, which is the exact negative for -z.
    """
    position = (place + bins) / 2
    upper = np.floor(position + 2 * ON_EDGE)
    near = np.flatnonzero(position - upper <= 4 * ON_EDGE)
    edge = upper[near]
    beyond = place[near] - (2 * edge - bins)
    upper[near] -= beyond < -2 * ON_EDGE
    cell[:] = np.clip(upper, 0, bins - 1)
    return near[(np.abs(beyond) <= 2 * ON_EDGE) & (edge > 0) & (edge < bins)]


def _from_middle(column: Floats, low: float, high: float) -> Floats:
    """Return values as shares of the way from the middle of a range, 0, to its ends, -1 and 1; values outside as the
    ends.
    """
    if high / 4 - low / 4 > np.finfo(float).max / 4:  # a span beyond the largest float
        column, low, high = column / 4, low / 4, high / 4
    column = np.clip(column, low, high)
    return ((column - low) - (high - column)) / (high - low)


def _ranks_from_middle(column: Floats) -> Floats:
    """Return rows below minus rows above each value, as a share of all rows: in -1..1."""
    ordered = np.sort(column)
    n = len(column)
    return (np.searchsorted(ordered, column) + np.searchsorted(ordered, column, side="right") - n) / n


@dataclass(frozen=True, eq=False)
class Counts:
    """Sizes and cell sums of all histograms of n rows: what every entropy estimate is made from.

    factor: (k,), code: (d,), joint: (k, d), each a mapping from the name of a cell function to its sums.
    """

    n: int
    factor: dict[str, Floats]
    code: dict[str, Floats]
    joint: dict[str, Floats]


def count(labels: Ints, *ways: Ints) -> Counts:
    """Count (n, k) factor labels against (n, d) code bins; with several ways to bin the codes, the mean of their sums.

    The sums over cells with count c: "cells" of 1 if occupied, "plugin" of g = c log c, "jackknife" of
    c (g(c) - g(c-1)).
    """
    counts = [_count(labels, cells) for cells in ways]
    if len(counts) == 1:
        return counts[0]
    code, joint = (
        {name: np.mean([getattr(one, which)[name] for one in counts], axis=0) for name in counts[0].factor}
        for which in ("code", "joint")
    )
    return Counts(counts[0].n, counts[0].factor, code, joint)


def _count(labels: Ints, cells: Ints) -> Counts:
    """Count in one pass per factor over all codes."""
    n, d = cells.shape
    width = int(cells.max()) + 1
    c = np.arange(n + 1, dtype=np.float64)
    g = c * np.log(np.maximum(c, 1))
    table = {"cells": (c > 0).astype(np.float64), "plugin": g, "jackknife": c * np.diff(g, prepend=0.0)}
    flat = cells.T + (np.arange(d) * width)[:, None]
    code = _cell_sums(np.bincount(flat.ravel(), minlength=d * width).reshape(1, d, width), table)
    factor = [_cell_sums(np.bincount(column).reshape(1, 1, -1), table) for column in labels.T]
    keys = np.empty_like(flat)
    joint = [_joint_sums(column, flat, keys, width, table) for column in labels.T]
    return Counts(
        n,
        {name: np.array([sums[name][0] for sums in factor]) for name in table},
        code,
        {name: np.array([sums[name] for sums in joint]) for name in table},
    )


def _cell_sums(counts: Ints, table: dict[str, Floats]) -> dict[str, Floats]:
    return {name: values[counts].sum(axis=(0, 2)) for name, values in table.items()}


def _joint_sums(label: Ints, flat: Ints, keys: Ints, width: int, table: dict[str, Floats]) -> dict[str, Floats]:
    d, size = len(flat), int(label.max()) + 1
    np.add(flat, label * (d * width), out=keys)
    if size * width <= 8 * len(label) + 65536:
        counts = np.bincount(keys.ravel(), minlength=size * d * width)
        return _cell_sums(counts.reshape(size, d, width), table)
    # A factor with about as many values as rows: count the occupied cells only.
    sums = {name: np.empty(d) for name in table}
    for j in range(d):
        occupied = np.unique(keys[j], return_counts=True)[1]
        for name, values in table.items():
            sums[name][j] = values[occupied].sum()
    return sums


def entropy(sums: dict[str, Floats], n: int, estimator: str) -> Floats:
    """Return entropies in nats from cell sums.

    plugin: maximum likelihood, biased down by about (cells - 1) / 2n. miller-madow: plus that term (Miller 1955).
    jackknife: the average over leaving each row out, extrapolated (Zahl 1977), in closed form; the least biased here.
    """
    if estimator == "jackknife":
        return n * np.log(n) - (n - 1) * np.log(max(n - 1, 1)) - sums["jackknife"] / n
    plugin = np.log(n) - sums["plugin"] / n
    return plugin + (sums["cells"] - 1) / (2 * n) if estimator == "miller-madow" else plugin


def information(counts: Counts, estimator: str) -> Floats:
    """Return mutual information (k, d) in nats, never negative; exactly 0 where a code or factor has one cell only."""
    n = counts.n
    mi = (
        entropy(counts.factor, n, estimator)[:, None]
        + entropy(counts.code, n, estimator)
        - entropy(counts.joint, n, estimator)
    )
    constant = (counts.code["cells"] <= 1) | (counts.factor["cells"] <= 1)[:, None]
    return np.where((mi < ROUNDING) | constant, 0.0, mi)


def above_chance(counts: Counts) -> NDArray[np.bool_]:
    """Return which pairs (k, d) share more information than independent variables of their sizes would seem to.

    Twice the plug-in information times n is the G statistic: chi-squared under independence, with mean
    f = (cells of factor - 1)(cells of code - 1) and variance 2f. Above means by three standard deviations.
    """
    freedom = (counts.factor["cells"] - 1)[:, None] * (counts.code["cells"] - 1)
    return 2 * counts.n * information(counts, "plugin") > freedom + 3 * np.sqrt(2 * freedom)


def pairwise_information(
    columns: Floats, bins: int = 20, binning: Binning = "width", estimator: str = "plugin"
) -> Floats:
    """Return the information in nats between binned columns: (d, d), NaN on the diagonal and for constant columns."""
    live = np.flatnonzero(varying(columns))
    pairs = np.full((columns.shape[1], columns.shape[1]), np.nan)
    if len(live):
        ways = both_ways(columns[:, live], bins, binning)
        pairs[np.ix_(live, live)] = np.mean([information(count(cells, *ways), estimator) for cells in ways], axis=0)
        np.fill_diagonal(pairs, np.nan)
    return pairs


def mean_over_pairs(pairs: Floats) -> float:
    """Return the mean of pairs (d, d), leaving out NaN; 0 when all are NaN."""
    known = pairs[~np.isnan(pairs)]
    return float(known.mean()) if len(known) else 0.0
