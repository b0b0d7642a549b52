"""Boosted trees from bins, compiled by numba. Import it inside functions: numba loads slowly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.compile import njit
from karenina.numerics.trees import draw, shuffle

Array = NDArray[Any]

# Gains closer than this are equal: rounding of the sums must not choose between splits.
TIE = 1 + 1e-10


@njit(cache=True)
def _best_split(hist: Array, order: Array, state: Array) -> tuple[int, int, float]:
    """Code, bin and gain of the split that takes most squared error away; equal ones fall at random."""
    bins = hist.shape[1]
    total = count = 0.0
    for b in range(bins):
        total += hist[0, b, 0]
        count += hist[0, b, 1]
    feature, cut, most = -1, -1, count * 2.3e-16  # a node whose variance is rounding error stays a leaf
    shuffle(order, state)
    draw(state, 1)  # decides nothing, and keeps the stream of random numbers that earlier results were drawn from
    for i in range(len(order) - 1, -1, -1):
        f = order[i]
        left = seen = 0.0
        for b in range(bins - 1):
            here = hist[f, b, 1]
            if here == 0.0:
                continue
            left += hist[f, b, 0]
            seen += here
            rest = count - seen
            if rest <= 0.0:
                break
            gap = left * rest - (total - left) * seen
            gain = gap * gap / (seen * rest * count)
            if gain > most * TIE:
                feature, cut, most = f, b, gain
    return feature, cut, most


@njit(cache=True)
def _gather(rows: Array, index: Array, residual: Array, hist: Array) -> None:
    """Sum residuals and count rows in each bin of each code."""
    hist[:] = 0.0
    for row in index:
        value = residual[row]
        for f in range(rows.shape[1]):
            hist[f, rows[row, f], 0] += value
            hist[f, rows[row, f], 1] += 1.0


@njit(cache=True)
def _subtract(a: Array, b: Array, out: Array) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                out[i, j, k] = a[i, j, k] - b[i, j, k]


@njit(cache=True)
def _threshold(counts: Array, b: int, ends: Array) -> float:
    """Half way between the node's values on both sides of the split after bin b. ends: least and largest of each bin.

    Bins that hold none of the node's rows are passed over: where rows are few, what lies between them is far apart.
    """
    after = b + 1
    while counts[after] == 0.0:
        after += 1
    low, high = ends[b, 1], ends[after, 0]
    middle = low + (high - low) / 2
    return middle if middle < high else low


@njit(cache=True)
def _partition(rows: Array, f: int, b: int, index: Array, spare: Array) -> int:
    """Put the rows with bin <= b first, both sides in their old order, and say how many they are."""
    kept = moved = 0
    for i in range(len(index)):
        row = index[i]
        if rows[row, f] <= b:
            index[kept] = row
            kept += 1
        else:
            spare[moved] = row
            moved += 1
    for i in range(moved):
        index[kept + i] = spare[i]
    return kept


@njit(cache=True)
def grow_boosted(
    rows: Array,
    counts: Array,
    ends: Array,
    residual: Array,
    curvature: Array,
    scale: float,
    raw: Array,
    feature: Array,
    cut: Array,
    leaf: Array,
    importance: Array,
    state: Array,
) -> None:
    """Grow a tree into feature, cut and leaf (nodes,); add its leaf values to raw and its gains to importance."""
    n, d = rows.shape
    bounds = np.zeros((len(leaf), 2), np.int64)
    bounds[0, 1] = n
    index = np.arange(n)
    spare = np.empty(n, np.int64)
    order = np.arange(d)
    hists = np.empty((len(leaf) // 2, d, counts.shape[1], 2))
    for f in range(d):
        for b in range(counts.shape[1]):
            hists[0, f, b, 0], hists[0, f, b, 1] = 0.0, counts[f, b]
    for row in range(n):
        for f in range(d):
            hists[0, f, rows[row, f], 0] += residual[row]
    for node in range(len(leaf)):
        low, high = bounds[node]
        if low == high:
            continue
        if node < len(hists):
            f, b, gain = _best_split(hists[node], order, state)
            if f >= 0:
                feature[node], cut[node] = f, _threshold(hists[node, f, :, 1], b, ends[f])
                importance[f] += gain
                middle = low + _partition(rows, f, b, index[low:high], spare)
                one, two = 2 * node + 1, 2 * node + 2
                bounds[one, 0], bounds[one, 1] = low, middle
                bounds[two, 0], bounds[two, 1] = middle, high
                if two < len(hists):  # count the smaller child; the larger is the difference
                    small, large = (one, two) if middle - low <= high - middle else (two, one)
                    _gather(rows, index[bounds[small, 0] : bounds[small, 1]], residual, hists[small])
                    _subtract(hists[node], hists[small], hists[large])
                continue
        top = under = 0.0
        for row in index[low:high]:
            top += residual[row]
            under += curvature[row]
        if abs(under) > 1e-150:
            leaf[node] = scale * top / under
        for row in index[low:high]:
            raw[row] += leaf[node]
