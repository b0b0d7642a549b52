"""Statistics of rows drawn from groups, compiled by numba. Import it inside functions: numba loads slowly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.compile import njit

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
