"""Kernels on the columns of arrays and on the rows of groups: ranks, moments, statistics of draws."""

from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.compile import njit

_ROUNDING = 10 * np.finfo(np.float64).eps
# Bits that one pass of the radix sort looks at.
_DIGIT = 11


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def standardise(values: Floats, out: Floats, scale: Floats) -> None:
    """Columns of `values` (n, K) with mean 0 and variance 1 into the rows of `out` (K, n); 0 if constant."""
    n, columns = values.shape
    row = np.empty(n)
    for k in range(columns):
        # Sums of differences from a value of the column itself do not cancel when the mean is large.
        first = np.float64(values[0, k])
        total, square = 0.0, 0.0
        for i in range(n):
            difference = values[i, k] - first
            row[i] = difference
            total += difference
            square += difference * difference
        mean = total / n
        scale[k] = sqrt(max(square / n - mean * mean, 0.0))
        if scale[k] <= _ROUNDING * abs(first + mean):
            scale[k] = 0.0
        inverse = 1.0 / scale[k] if scale[k] > 0.0 else 0.0
        for i in range(n):
            out[k, i] = (row[i] - mean) * inverse


@njit(cache=True)
def standardised_ranks(patterns: NDArray[np.uint64], bits: int, out: Floats, scale: Floats) -> None:
    """Average ranks of columns of floats, given as their bit patterns (n, K), standardised, into `out` (K, n).

    Radix sort: linear in n, and on 10,000 float32 four times as fast as a comparing sort.
    """
    n, columns = patterns.shape
    passes = ceil(bits / _DIGIT)
    low = np.uint64((1 << _DIGIT) - 1)
    sign = np.uint64(1) << np.uint64(bits - 1)
    flip = sign | (sign - np.uint64(1))
    keys, spare_keys = np.empty(n, np.uint64), np.empty(n, np.uint64)
    order, spare_order = np.empty(n, np.int32), np.empty(n, np.int32)
    count = np.empty((passes, (1 << _DIGIT) + 1), np.int32)
    for column in range(columns):
        for digit in range(passes):
            for b in range((1 << _DIGIT) + 1):
                count[digit, b] = 0
        for i in range(n):
            key = np.uint64(patterns[i, column])
            if key == sign:  # -0 equals 0
                key = np.uint64(0)
            # Patterns of positive floats are in the order of the floats, those of negative ones in the reverse.
            key = key ^ flip if key & sign else key | sign
            keys[i] = key
            order[i] = i
            for digit in range(passes):
                count[digit, ((key >> np.uint64(digit * _DIGIT)) & low) + np.uint64(1)] += 1
        for digit in range(passes):
            place = count[digit]
            for b in range(1 << _DIGIT):
                place[b + 1] += place[b]
            shift = np.uint64(digit * _DIGIT)
            for i in range(n):
                b = (keys[i] >> shift) & low
                spare_keys[place[b]] = keys[i]
                spare_order[place[b]] = order[i]
                place[b] += 1
            keys, spare_keys = spare_keys, keys
            order, spare_order = spare_order, order
        start = 0
        square = 0.0
        while start < n:
            stop = start + 1
            while stop < n and keys[stop] == keys[start]:
                stop += 1
            rank = 0.5 * (start + stop - n)
            square += rank * rank * (stop - start)
            for i in range(start, stop):
                out[column, order[i]] = rank
            start = stop
        scale[column] = sqrt(square / n)
        if square > 0.0:
            for i in range(n):
                out[column, i] /= scale[column]


Array = NDArray[Any]


@njit(cache=True)
def mean_differences(
    z: Array, order: Array, start: Array, size: Array, first: Array, count: Array, factor: Array, u: Array, out: Array
) -> None:
    """Mean |z1 - z2| of pairs of different rows of one group; u (points, batch, 3) picks group and rows."""
    points, batch, _ = u.shape
    d = z.shape[1]
    for p in range(points):
        f = factor[p]
        for j in range(d):
            out[p, j] = 0.0
        for b in range(batch):
            g = first[f] + min(int(u[p, b, 0] * count[f]), count[f] - 1)
            m = size[g]
            one = min(int(u[p, b, 1] * m), m - 1)
            two = min(int(u[p, b, 2] * (m - 1)), m - 2)
            if two >= one:
                two += 1
            r, s = order[start[g] + one], order[start[g] + two]
            for j in range(d):
                out[p, j] += abs(z[r, j] - z[s, j])
        for j in range(d):
            out[p, j] /= batch


@njit(cache=True)
def local_variances(
    z: Array, order: Array, start: Array, size: Array, group: Array, u: Array, replace: bool, rows: Array, out: Array
) -> None:
    """Variance (ddof 1) of a batch of rows of one group; u (votes, batch) picks them. rows: room for a group."""
    votes, batch = u.shape
    d = z.shape[1]
    total, square = np.empty(d), np.empty(d)
    for v in range(votes):
        s, m = start[group[v]], size[group[v]]
        for j in range(d):
            total[j] = square[j] = 0.0
        if not replace:
            for i in range(m):
                rows[i] = order[s + i]
        origin = order[s]
        for b in range(batch):
            if replace:
                row = order[s + min(int(u[v, b] * m), m - 1)]
            else:  # shuffle as it goes, and begin a new pass at the end
                done = b % m
                t = done + min(int(u[v, b] * (m - done)), m - done - 1)
                row = rows[t]
                rows[t] = rows[done]
                rows[done] = row
            for j in range(d):
                gap = z[row, j] - z[origin, j]  # from a row of the group, so that equal codes give exactly 0
                total[j] += gap
                square[j] += gap * gap
        for j in range(d):
            out[v, j] = max(0.0, square[j] - total[j] * total[j] / batch) / (batch - 1)


@njit(cache=True)
def group_means(z: Array, label: Array, size: Array) -> Array:
    """The mean of the rows of z (n, d) in each group: (groups, d)."""
    n, d = z.shape
    mean = np.zeros((len(size), d))
    for r in range(n):
        for j in range(d):
            mean[label[r], j] += z[r, j]
    for g in range(len(size)):
        for j in range(d):
            mean[g, j] /= size[g]
    return mean


@njit(cache=True)
def largest_deviations(z: Array, label: Array, size: Array, centre: Array, top: Array, reach: Array) -> None:
    """reach[:, g, j]: the top[g]-th largest |z[:, j] - centre[g, j]| of group g, and the next larger (itself if none).

    numpy would sort every group to read its few largest rows.
    """
    n, d = z.shape
    first, room = np.empty(len(size), np.int64), 0
    for g in range(len(size)):
        first[g] = room
        room += top[g] * d
    heap = np.full(room, -1.0)  # per group and code a min-heap of the largest deviations so far
    least = np.full((len(size), d), -1.0)  # their roots, side by side for the common case
    for r in range(n):
        g = label[r]
        for j in range(d):
            value = abs(z[r, j] - centre[g, j])
            if value > least[g, j]:  # replace the root and sift down
                root = first[g] + j * top[g]
                at = 0
                child = 1
                while child < top[g]:
                    if child + 1 < top[g] and heap[root + child + 1] < heap[root + child]:
                        child += 1
                    if heap[root + child] >= value:
                        break
                    heap[root + at] = heap[root + child]
                    at = child
                    child = 2 * at + 1
                heap[root + at] = value
                least[g, j] = heap[root]
    for g in range(len(size)):
        for j in range(d):
            root = first[g] + j * top[g]
            reach[0, g, j] = heap[root]
            reach[1, g, j] = heap[root + 1] if top[g] > 1 else heap[root]
            if top[g] > 2:
                reach[1, g, j] = min(heap[root + 1], heap[root + 2])
