"""Loops that numpy cannot do well, compiled by numba and kept on disk. Import it inside functions: numba loads slowly.

Plain loops instead of array expressions: they compile in a fraction of the time and run as fast.
"""

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


@njit(cache=True)
def _factored(gram: Array, support: Array, first: int, m: int, low: Array) -> bool:
    """Cholesky rows first..m-1 of the support's block of the Gram matrix; False if one depends on those before it."""
    for a in range(first, m):
        for b in range(a + 1):
            value = gram[support[a], support[b]]
            for c in range(b):
                value -= low[a, c] * low[b, c]
            if a > b:
                low[a, b] = value / low[b, b]
            elif value > 1e-12 * gram[support[a], support[a]]:
                low[a, a] = value**0.5
            else:
                return False
    return True


@njit(cache=True)
def _solve(low: Array, m: int, x: Array) -> None:
    """Multiply x[:m] by the inverse of the matrix whose Cholesky factor is low."""
    for a in range(m):
        for c in range(a):
            x[a] -= low[a, c] * x[c]
        x[a] /= low[a, a]
    for a in range(m - 1, -1, -1):
        for c in range(a + 1, m):
            x[a] -= low[c, a] * x[c]
        x[a] /= low[a, a]


@njit(cache=True)
def _enter(
    gram: Array, w: Array, sides: Array, support: Array, m: int, i: int, low: Array, x: Array, refused: Array
) -> int:
    """Put input i on the support of m; returns its new size.

    Where i depends on those there, their weight moves to it until one of them has none and leaves: the fit stays and
    the sum of absolute weights falls. If it would not fall, i was called for by rounding, and is refused.
    """
    while not _factored(gram, support, m, m + 1, low):
        for a in range(m):
            x[a] = gram[i, support[a]]
        _solve(low, m, x)
        length, out, fall = np.inf, -1, -1.0
        for a in range(m):
            pull = sides[i] * x[a] * sides[support[a]]
            fall += pull
            if pull > 0.0 and abs(w[support[a]]) < length * pull:
                length, out = abs(w[support[a]]) / pull, a
        if fall <= 0.0 or out < 0:
            w[i], refused[i] = 0.0, True
            return m
        for a in range(m):
            w[support[a]] -= length * sides[i] * x[a]
        w[i] += length * sides[i]
        m = _leave(gram, w, support, m, out, low)
        support[m] = i
    return m + 1


@njit(cache=True)
def _leave(gram: Array, w: Array, support: Array, m: int, out: int, low: Array) -> int:
    """Take the input at position `out` off the support of m; returns its new size."""
    w[support[out]] = 0.0
    for a in range(out, m - 1):
        support[a] = support[a + 1]
    _factored(gram, support, out, m - 1, low)
    return m - 1


@njit(cache=True)
def lasso_paths(gram: Array, covariance: Array, grid: Array) -> Array:
    """Lasso weights for each target (columns of covariance) at each of its falling penalties: (k, alphas, d).

    An active-set method, exact also for inputs that depend on each other. While support and signs stay, the optimum is
    u - alpha v, and target - gram w is p + alpha q. Weights move there until one of them is 0 and leaves the support;
    at the optimum, the input with the largest |p + alpha q| above alpha enters it.
    """
    d, k = covariance.shape
    paths = np.zeros((k, grid.shape[1], d))
    support, sides, low = np.empty(d, np.int64), np.zeros(d), np.empty((d, d))
    u, v, p, q, x = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for t in range(k):
        target = covariance[:, t].copy()
        noise = 1e-14 * np.abs(target).max()
        w = np.zeros(d)
        m = 0
        p[:] = target
        q[:] = 0.0
        for s in range(grid.shape[1]):
            alpha = grid[t, s]
            refused = np.zeros(d, np.bool_)
            for _ in range(100 * (d + 1)):
                length, out = 1.0, -1
                for a in range(m):
                    j, goal = support[a], u[a] - alpha * v[a]
                    if goal * sides[j] <= 0.0:
                        part = w[j] / (w[j] - goal) if w[j] != 0.0 else 0.0
                        if part <= length:
                            length, out = part, a
                for a in range(m):
                    w[support[a]] = (1 - length) * w[support[a]] + length * (u[a] - alpha * v[a])
                if out >= 0:
                    refused[support[out]] = length == 0.0
                    m = _leave(gram, w, support, m, out, low)
                else:
                    most, i = alpha * (1 + 1e-9) + noise, -1
                    for j in range(d):
                        if w[j] == 0.0 and not refused[j] and abs(p[j] + alpha * q[j]) > most:
                            most, i = abs(p[j] + alpha * q[j]), j
                    if i < 0:
                        break
                    sides[i] = 1.0 if p[i] + alpha * q[i] > 0 else -1.0
                    support[m] = i
                    m = _enter(gram, w, sides, support, m, i, low, x, refused)
                for a in range(m):
                    u[a], v[a] = target[support[a]], sides[support[a]]
                _solve(low, m, u)
                _solve(low, m, v)
                for j in range(d):
                    p[j], q[j] = target[j], 0.0
                    for a in range(m):
                        p[j] -= gram[j, support[a]] * u[a]
                        q[j] += gram[j, support[a]] * v[a]
            else:
                raise ValueError("the lasso found no optimum")
            paths[t, s] = w
    return paths
