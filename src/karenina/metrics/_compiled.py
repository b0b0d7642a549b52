"""Loops that numpy cannot do well, compiled by numba and kept on disk. Import it inside functions: numba loads slowly.

Plain loops instead of array expressions: they compile in a fraction of the time and run as fast.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._compile import njit

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
def _segment(
    gram: Array, target: Array, w: Array, support: Array, sides: Array, u: Array, v: Array, p: Array, q: Array
) -> int:
    """While support and signs stay, the lasso's solution is u - alpha v, and target - gram w is p + alpha q.

    Returns the size of the support, or 0 if its block of the Gram matrix is singular.
    """
    m = 0
    for j in range(len(w)):
        if w[j] != 0.0:
            support[m] = j
            sides[m] = 1.0 if w[j] > 0 else -1.0
            m += 1
    low = np.zeros((m, m))
    for a in range(m):
        for b in range(a + 1):
            value = gram[support[a], support[b]]
            for c in range(b):
                value -= low[a, c] * low[b, c]
            if a == b:
                if value <= 1e-10 * gram[support[a], support[a]]:
                    return 0
                low[a, a] = value**0.5
            else:
                low[a, b] = value / low[b, b]
    for a in range(m):
        u[a] = target[support[a]]
        v[a] = sides[a]
        for c in range(a):
            u[a] -= low[a, c] * u[c]
            v[a] -= low[a, c] * v[c]
        u[a] /= low[a, a]
        v[a] /= low[a, a]
    for a in range(m - 1, -1, -1):
        for c in range(a + 1, m):
            u[a] -= low[c, a] * u[c]
            v[a] -= low[c, a] * v[c]
        u[a] /= low[a, a]
        v[a] /= low[a, a]
    for i in range(len(w)):
        p[i] = target[i]
        q[i] = 0.0
        for a in range(m):
            p[i] -= gram[i, support[a]] * u[a]
            q[i] += gram[i, support[a]] * v[a]
    return m


@njit(cache=True)
def _holds(alpha: float, m: int, sides: Array, u: Array, v: Array, p: Array, q: Array) -> bool:
    """Whether the segment's solution is optimal at alpha."""
    for a in range(m):
        if (u[a] - alpha * v[a]) * sides[a] <= 0.0:
            return False
    for i in range(len(p)):
        if abs(p[i] + alpha * q[i]) > alpha * (1 + 1e-9):
            return False
    return m > 0


@njit(cache=True)
def _descend(gram: Array, target: Array, alpha: float, w: Array, tolerance: float, sweeps: int) -> None:
    """Coordinate descent from w until no step moves the fit by more than the tolerance."""
    d = len(w)
    q = np.empty(d)
    for i in range(d):
        q[i] = target[i]
        for j in range(d):
            q[i] -= gram[i, j] * w[j]
    for _ in range(sweeps):
        most = 0.0
        for j in range(d):
            own = gram[j, j]
            if own <= 0.0:
                continue
            pull = q[j] + own * w[j]
            new = 0.0
            if pull > alpha:
                new = (pull - alpha) / own
            elif pull < -alpha:
                new = (pull + alpha) / own
            change = new - w[j]
            if change != 0.0:
                for i in range(d):
                    q[i] -= gram[j, i] * change
                w[j] = new
                most = max(most, abs(change) * own)
        if most <= tolerance:
            return


@njit(cache=True)
def lasso_paths(gram: Array, covariance: Array, grid: Array, tolerance: float, sweeps: int) -> Array:
    """Lasso weights for each target (columns of covariance) at each of its falling penalties: (k, alphas, d).

    Coordinate descent finds the support, one linear solve makes the weights exact, and the next penalties need neither
    as long as the support stays.
    """
    d, k = covariance.shape
    steps = grid.shape[1]
    paths = np.zeros((k, steps, d))
    support, sides = np.empty(d, np.int64), np.empty(d)
    target, w, u, v, p, q = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for t in range(k):
        scale = 1e-300
        for j in range(d):
            target[j] = covariance[j, t]
            scale = max(scale, abs(target[j]))
        m = 0
        for s in range(steps):
            alpha = grid[t, s]
            if not _holds(alpha, m, sides, u, v, p, q):
                for j in range(d):
                    w[j] = paths[t, max(s - 1, 0), j]
                _descend(gram, target, alpha, w, tolerance * scale, sweeps)
                for j in range(d):
                    paths[t, s, j] = w[j]
                m = _segment(gram, target, w, support, sides, u, v, p, q)
                if not _holds(alpha, m, sides, u, v, p, q):
                    m = 0
            for a in range(m):
                paths[t, s, support[a]] = u[a] - alpha * v[a]
    return paths
