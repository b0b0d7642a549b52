"""Lasso regressions of several targets on the same inputs, the penalty chosen by cross-validation.

Minimises ||y - b - X w||^2 / (2 n) + alpha |w|_1 as scikit-learn does, with the folds and the grid of penalties of its
LassoCV. Rows are read once: every fold's path and its error on the rows left out need only that fold's second moments.

The kernels work on these moments alone. L inputs Z predict T targets Y: G = Z'Z / n (L, L), C = Z'Y / n (L, T), weights
W (L, T), and H = C - G W are the correlations of the residual. Minimised is 1/2 tr(W'GW) - tr(W'C) + alpha |W|, where
|W| is the sum of absolute values (one lasso per target) or of the norms of rows (multi-task lasso). `lasso_paths` is an
active-set method, exact also for inputs that depend on each other; `descend` is coordinate descent, for the multi-task
lasso and for first guesses.

Loops stand where numpy would have a[:] = b or a.sum(axis=0): numba takes one to three seconds to compile each of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.columns import range_unit
from karenina.numerics.compile import njit

Array = NDArray[Any]

# Written as 0 and -1, numba would compile each function that is given them once more for that very number.
_ZERO: Any = np.int64(0)
_NONE: Any = np.int64(-1)

# How far weights may still move when descent stops: on the paths of cross-validation, where it only has to tell which
# alpha is best (the error is quadratic in it), and for the weights that count.
_PATH_TOL = 1e-5
_TOL = 1e-9
_PATH_ITERATIONS = 10_000
# Of a lasso only the signs are found by descent; the closed form does the rest.
_ROUGH_TOL = 1e-3
_ROUGH_ITERATIONS = 100
_ITERATIONS = 100_000
# Below this an input has no variance (standardised inputs have variance 1).
_NOTHING = 1e-12
# Columns of one descent: long enough for vector instructions, few enough for the innermost cache.
_WIDTH = 48


@njit(cache=True)
def _factored(gram: Array, support: Array, first: int, m: int, low: Array) -> bool:
    """Write Cholesky rows first..m-1 of the support's block of the Gram matrix; False if one depends on those before
    it.
    """
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
    """Add input i to the support, which has m inputs; return its new size.

    Where i depends on those there, their weight moves to it until one of them has none and leaves: the fit stays and
    the sum of absolute weights falls. If it would not fall, i was called for by rounding, and is refused.
    """
    while not _factored(gram, support, m, m + 1, low):
        for a in range(m):
            x[a] = gram[i, support[a]]
        _solve(low, m, x)
        length, out, fall = np.inf, _NONE, -1.0
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
    """Remove the input at position `out` from the support, which has m inputs; return its new size."""
    w[support[out]] = 0.0
    for a in range(out, m - 1):
        support[a] = support[a + 1]
    _factored(gram, support, out, m - 1, low)
    return m - 1


@njit(cache=True)
def lasso_paths(gram: Array, covariance: Array, grid: Array) -> Array:
    """Return lasso weights for each target (columns of covariance) at each of its falling penalties: (k, alphas, d).

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
        w = np.zeros(d)
        m = _ZERO
        largest = 0.0
        for j in range(d):
            p[j], q[j] = target[j], 0.0
            largest = max(largest, abs(target[j]))
        noise = 1e-14 * largest
        for s in range(grid.shape[1]):
            alpha = grid[t, s]
            refused = np.zeros(d, np.bool_)
            for _ in range(100 * (d + 1)):
                length, out = 1.0, _NONE
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
                    most, i = alpha * (1 + 1e-9) + noise, _NONE
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
            for j in range(d):
                paths[t, s, j] = w[j]
    return paths


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def descend(G: Floats, W: Floats, H: Floats, alpha: float, grouped: bool, tol: float, max_iter: int) -> bool:
    """Minimise 1/2 tr(W'GW) - tr(W'C) + alpha |W| by coordinate descent, in place; True when it converged.

    |W| is the sum of the norms of the rows (`grouped`: multi-task lasso) or of all absolute values (one lasso
    per target).
    H = C - G W on entry (C, when W is 0) and on return. Stops when no weight moved by more than `tol` in a sweep.
    """
    L, T = W.shape
    step = np.empty(T)
    for _ in range(max_iter):
        moved = 0.0
        for j in range(L):
            g = G[j, j]
            if g < _NOTHING:
                continue
            inverse = 1.0 / g
            largest = 0.0
            if grouped:
                norm = 0.0
                for t in range(T):
                    step[t] = H[j, t] + g * W[j, t]
                    norm += step[t] * step[t]
                norm = sqrt(norm)
                scale = (1.0 - alpha / norm) * inverse if norm > alpha else 0.0
                for t in range(T):
                    step[t] = scale * step[t] - W[j, t]
                    largest = max(largest, abs(step[t]))
            else:
                for t in range(T):
                    u = H[j, t] + g * W[j, t]
                    step[t] = (max(u - alpha, 0.0) + min(u + alpha, 0.0)) * inverse - W[j, t]
                    largest = max(largest, abs(step[t]))
            if largest > 0.0:
                moved = max(moved, largest)
                for t in range(T):
                    W[j, t] += step[t]
                for k in range(L):
                    g = G[k, j]
                    for t in range(T):
                        H[k, t] -= g * step[t]
        if moved <= tol:
            return True
    return False


@njit(cache=True)
def multitask(G: Floats, C: Floats, alpha: float) -> tuple[Floats, bool]:
    """Return weights (L, T) of the multi-task lasso at one alpha, and whether descent converged."""
    W = np.zeros(C.shape)
    return W, descend(G, W, C.copy(), alpha, True, _TOL, _ITERATIONS)


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def _path_errors(G: Floats, C: Floats, A: Floats, B: Floats, alphas: Floats, weight: float, out: Floats) -> bool:
    """Add weight * (tr(W'AW) - 2 tr(W'B)), the held-out error up to a constant, of each alpha to `out`."""
    L, T = C.shape
    W = np.zeros((L, T))
    H = C.copy()
    old_W = W.copy()
    old_H = H.copy()
    ratio = alphas[1] / alphas[0] if len(alphas) > 1 else 1.0
    converged = True
    for k in range(len(alphas)):
        # The path is smooth in alpha, so the line through the last two solutions is a close first guess. H is linear
        # in W, so it follows at no cost.
        for j in range(L):
            for t in range(T):
                w, h = W[j, t], H[j, t]
                W[j, t] += ratio * (w - old_W[j, t])
                H[j, t] += ratio * (h - old_H[j, t])
                old_W[j, t] = w
                old_H[j, t] = h
        converged &= descend(G, W, H, alphas[k], True, _PATH_TOL, _PATH_ITERATIONS)
        error = 0.0
        for j in range(L):
            for i in range(L):
                dot = 0.0
                for t in range(T):
                    dot += W[i, t] * W[j, t]
                error += A[i, j] * dot
            for t in range(T):
                error -= 2.0 * W[j, t] * B[j, t]
        out[k] += weight * error
    return converged


class Centred(NamedTuple):
    """Second moments about means: of all rows (L, T), of the rows outside each fold (F, L, T), and of each fold about
    the means of the rows outside it (F, L, T), as fitting an intercept does."""

    whole: Floats
    train: Floats
    test: Floats


def centred(moments: Floats, u: Floats, v: Floats, sizes: Ints) -> Centred:
    """Centre raw moments (F, L, T) of folds of rows (p, q): their sums of pq', of p (F, L) and of q (F, T)."""
    n, total, all_u, all_v = sizes.sum(), moments.sum(axis=0), u.sum(axis=0), v.sum(axis=0)
    kept = (n - sizes)[:, None]
    kept_u, kept_v = all_u - u, all_v - v
    x, y = kept_u / kept, kept_v / kept
    whole = _about(total, all_u, all_v, all_u / n, all_v / n, n) / n
    train = _about(total - moments, kept_u, kept_v, x, y, kept) / kept[:, None]
    return Centred(whole, train, _about(moments, u, v, x, y, sizes[:, None]))


def _about(moments: Floats, u: Floats, v: Floats, x: Floats, y: Floats, size: Any) -> Floats:
    """Return the sum of (p - x)(q - y)' over rows (p, q), from the sum of pq', the sums u and v, and their number."""
    u, x, v, y, scaled = u[..., None], x[..., None], v[..., None, :], y[..., None, :], (size * x)[..., None]
    return moments - u * y - x * v + scaled * y  # type: ignore[no-any-return]


@njit(cache=True)
def _largest_norm(C: Floats) -> float:
    top = 0.0
    for i in range(len(C)):
        norm = 0.0
        for j in range(C.shape[1]):
            norm += C[i, j] * C[i, j]
        top = max(top, sqrt(norm))
    return top


def cross_validate(source: Centred, cross: Centred, sizes: Ints, falls: Floats) -> tuple[Floats, float, bool]:
    """Fit the multi-task lasso whose alpha has the least mean held-out error over the folds: weights (L, T), alpha,
    whether it converged.

    source, cross: moments of the inputs with each other (L, L) and with the targets (L, T); sizes (F,): of the folds.
    falls: the alphas, in units of the least that makes every weight 0.
    """
    W: Floats = np.zeros_like(cross.whole)
    top = _largest_norm(cross.whole)
    if top <= _NOTHING:
        return W, 0.0, True
    grid, errors = top * falls, np.zeros(len(falls))
    weights = 1.0 / (len(sizes) * sizes * W.shape[1])
    converged = True
    for f, weight in enumerate(weights):
        moments = source.train[f], cross.train[f], source.test[f], cross.test[f]
        converged &= _path_errors(*moments, grid, weight, errors)
    alpha = float(grid[np.argmin(errors)])
    converged &= descend(source.whole, W, cross.whole.copy(), alpha, True, _TOL, _ITERATIONS)
    return W, alpha, converged


@njit(cache=True)
def _closed_form(G: Floats, c: Floats, w: Floats, alpha: float, support: Ints, low: Floats, x: Floats) -> bool:
    """Make w the lasso weights of one target if its signs are those of the solution; False if they are not.

    On its support the solution solves G w = c - alpha sign(w); off it, no correlation exceeds alpha.
    """
    size = 0
    for j in range(len(w)):
        if w[j] != 0.0:
            support[size] = j
            x[size] = c[j] - (alpha if w[j] > 0.0 else -alpha)
            size += 1
    if not _factored(G, support, 0, size, low):
        return False
    _solve(low, size, x)
    for a in range(size):
        if x[a] * w[support[a]] <= 0.0:
            return False
    for j in range(len(w)):
        if w[j] == 0.0:
            dot = c[j]
            for a in range(size):
                dot -= G[j, support[a]] * x[a]
            if abs(dot) > alpha + _TOL:
                return False
    for a in range(size):
        w[support[a]] = x[a]
    return True


@njit(cache=True)
def lassos(G: Floats, C: Floats, alpha: float) -> tuple[Floats, bool]:
    """Return weights (L, T) of one lasso per target at one alpha, and whether all converged.

    Descent of many targets at once finds the signs, the closed form does the rest: up to three times as fast as
    `lasso_paths` for ten inputs.
    """
    L, T = C.shape
    W = np.empty((L, T))
    converged = True
    support, low, x = np.empty(L, np.int64), np.empty((L, L)), np.empty(L)
    for left in range(0, T, _WIDTH):
        part = C[:, left : left + _WIDTH].copy()
        rough = np.zeros(part.shape)
        descend(G, rough, part, alpha, False, _ROUGH_TOL, _ROUGH_ITERATIONS)
        for column in range(part.shape[1]):
            c, w = C[:, left + column], rough[:, column].copy()
            if not _closed_form(G, c, w, alpha, support, low, x):
                found, H = np.zeros((L, 1)), C[:, left + column : left + column + 1].copy()
                converged &= descend(G, found, H, alpha, False, _TOL, _ITERATIONS)
                w = found[:, 0].copy()
            for j in range(L):
                W[j, left + column] = w[j]
    return W, converged


GRID = 100  # penalties, from the smallest that gives zero weights down to a thousandth of it, as in LassoCV


@dataclass(frozen=True, eq=False)
class LassoFit:
    """A lasso of k targets on d inputs.

    weights: (d, k), of inputs and targets in their units. alpha: (k,), the penalty chosen for each target.
    centre, unit: (d + k,), means of inputs and targets, and the units they were measured in.
    """

    weights: Floats
    alpha: Floats
    centre: Floats
    unit: Floats

    def predict(self, x: Floats) -> Floats:
        """Return the predictions (m, k) for inputs x (m, d)."""
        d = len(self.weights)
        slope = self.weights / self.unit[:d, None] * self.unit[d:]
        return x @ slope + (self.centre[d:] - self.centre[:d] @ slope)


def fit(
    x: Floats, y: Floats, *, alphas: Sequence[float] | None = None, folds: int = 10, scale: str = "none"
) -> LassoFit:
    """Fit targets y (n, k) on x (n, d). Folds are consecutive blocks of rows: shuffle them first if order matters.

    scale: "none", "standard" (inputs and targets in standard deviations) or "range" (in units of their range).
    """
    n, d = x.shape
    k = y.shape[1]
    folds = min(folds, n)
    joint = np.column_stack([x, y])
    far = np.ones(d + k) if scale == "none" else range_unit(joint)
    if (far != 1).any():
        joint /= far
    centre = joint.mean(axis=0)
    joint -= centre
    blocks = np.array_split(joint, folds)
    sizes = np.array([len(block) for block in blocks])
    unit = _unit(joint, centre, scale)
    moments = np.stack([block.T @ block for block in blocks]) / np.outer(unit, unit)
    sums = np.stack([block.sum(axis=0) for block in blocks]) / unit
    total = moments.sum(axis=0)
    covariance = total[:d, d:] / n
    grid = _grid(covariance, alphas)

    rest = (n - sizes)[:, None]
    means = -sums / np.maximum(rest, 1)  # of the rows outside the fold; all rows together have mean 0
    trained = (total - moments) / rest[:, :, None] - means[:, :, None] * means[:, None, :]
    shift = sums[:, :, None] * means[:, None, :]
    outer = means[:, :, None] * means[:, None, :]
    left = moments - shift - shift.transpose(0, 2, 1) + sizes[:, None, None] * outer  # about the training means
    grams, covariances = (np.ascontiguousarray(a) for a in (trained[:, :d, :d], trained[:, :d, d:]))
    error = np.zeros((k, grid.shape[1]))
    for fold in range(folds):
        w = lasso_paths(grams[fold], covariances[fold], grid)  # (k, alphas, d)
        block = left[fold] / sizes[fold]
        error += np.diag(block[d:, d:])[:, None]
        error += ((w @ block[:d, :d] - 2 * block[:d, d:].T[:, None, :]) * w).sum(axis=2)
    best = error.argmin(axis=1)
    alpha = grid[np.arange(k), best]
    weights = lasso_paths(total[:d, :d] / n, covariance, alpha[:, None])[:, 0].T
    return LassoFit(weights, alpha, centre * far, unit * far)


def _unit(centred: Floats, centre: Floats, scale: str) -> Floats:
    """Return what each column is divided by; a column that varies by rounding only is set to 0 and gets no weight."""
    if scale == "none":
        return np.ones(len(centre))
    size = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(centred))
    dead = size <= 1e-13 * np.abs(centre)
    centred[:, dead] = 0.0
    if scale == "range":
        size = centred.max(axis=0) - centred.min(axis=0)
    return np.where(dead, 1.0, size)


def _grid(covariance: Floats, alphas: Sequence[float] | None) -> Floats:
    """Return the penalties (k, alphas), decreasing, so that each solution starts the next."""
    if alphas is not None:
        falling = np.sort(np.asarray(alphas, np.float64))[::-1]
        if falling.ndim != 1 or not falling.size or not (falling > 0).all() or not np.isfinite(falling).all():
            raise ValueError(f"alphas must be one or more positive numbers, got {alphas!r}")
        return np.tile(falling, (covariance.shape[1], 1))
    most = np.maximum(np.abs(covariance).max(axis=0), np.finfo(float).tiny)
    return most[:, None] * np.geomspace(1, 1e-3, GRID)
