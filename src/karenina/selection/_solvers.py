"""Compiled kernels: similarity and UDR of many pairs of models, from their moments alone.

Importing this module imports numba; the rest of the package does so only when a score is asked for.

Letters: a source model with L_s latents predicts a target with L_t. G = Z_s' Z_s / n (L_s, L_s), C = Z_s' Z_t / n
(L_s, L_t), weights W (L_s, L_t), H = C - G W the correlation of the residual. The lasso objectives depend on the codes
through G and C only, so no kernel here ever sees a sample.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.compile import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# How far weights may still move when descent stops: on the paths of cross-validation, where it only has to tell which
# alpha is best (the error is quadratic in it), and for the weights that count.
_PATH_TOL = 1e-5
_TOL = 1e-9
_PATH_ITERATIONS = 10_000
# Of a lasso only the signs are found by descent; the closed form does the rest.
_ROUGH_TOL = 1e-3
_ROUGH_ITERATIONS = 100
_ITERATIONS = 100_000
# Below this a latent has no variance (standardised latents have variance 1).
_NOTHING = 1e-12
_ROUNDING = 10 * np.finfo(np.float64).eps
# Columns of one descent: long enough for vector instructions, few enough for the innermost cache.
_WIDTH = 48


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def descend(G: Floats, W: Floats, H: Floats, alpha: float, grouped: bool, tol: float, max_iter: int) -> bool:
    """Coordinate descent on 1/2 tr(W'GW) - tr(W'C) + alpha |W|, in place; True when it converged.

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


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def _path_errors(G: Floats, C: Floats, A: Floats, B: Floats, alphas: Floats, weight: float, out: Floats) -> bool:
    """Adds weight * (tr(W'AW) - 2 tr(W'B)), the held-out error up to a constant, of each alpha to `out`."""
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


@njit(cache=True)
def _centred(moments: Floats, u: Floats, v: Floats, x: Floats, y: Floats, size: float, scale: float) -> Floats:
    """scale * sum (p - x)(q - y)' over rows (p, q), from their sum pq', their sums u, v and their number."""
    L, T = moments.shape
    out = np.empty((L, T))
    for i in range(L):
        for j in range(T):
            out[i, j] = scale * (moments[i, j] - u[i] * y[j] - x[i] * v[j] + size * x[i] * y[j])
    return out


@njit(cache=True)
def _sum(folds: Floats) -> Floats:
    out = np.zeros(folds.shape[1:])
    for f in range(len(folds)):
        out += folds[f]
    return out


@njit(cache=True)
def cross_validate(
    grams: Floats,
    crosses: Floats,
    source_sums: Floats,
    target_sums: Floats,
    sizes: Ints,
    alphas: int,
    span: float,
    W: Floats,
) -> tuple[float, bool]:
    """Multi-task lasso whose alpha has the least mean held-out error over the folds; weights into W (L_s, L_t).

    grams (F, L_s, L_s), crosses (F, L_s, L_t), sums (F, L_s), (F, L_t): raw second and first moments of each fold, and
    the sizes (F,) of the folds. The moments of a training set are the total minus the fold; it is centred on its own
    means, and the held-out fold on those of its training set, as fitting an intercept does. The grid of alphas is
    scikit-learn's: geometric, from the least alpha that makes every weight 0 to `span` times it.
    """
    F, L, T = crosses.shape
    n = sizes.sum()
    gram, cross, u, v = _sum(grams), _sum(crosses), _sum(source_sums), _sum(target_sums)
    G = _centred(gram, u, u, u / n, u / n, n, 1.0 / n)
    C = _centred(cross, u, v, u / n, v / n, n, 1.0 / n)
    top = 0.0
    for i in range(L):
        norm = 0.0
        for j in range(T):
            norm += C[i, j] * C[i, j]
            W[i, j] = 0.0
        top = max(top, sqrt(norm))
    if top <= _NOTHING:
        return 0.0, True
    grid = np.empty(alphas)
    for k in range(alphas):
        grid[k] = top * span ** (k / max(alphas - 1, 1))
    errors = np.zeros(alphas)
    converged = True
    for f in range(F):
        size = sizes[f]
        kept = n - size
        fold_u, fold_v = source_sums[f], target_sums[f]
        kept_u, kept_v = u - fold_u, v - fold_v
        x, y = kept_u / kept, kept_v / kept
        train_G = _centred(gram - grams[f], kept_u, kept_u, x, x, kept, 1.0 / kept)
        train_C = _centred(cross - crosses[f], kept_u, kept_v, x, y, kept, 1.0 / kept)
        test_G = _centred(grams[f], fold_u, fold_u, x, x, size, 1.0)
        test_C = _centred(crosses[f], fold_u, fold_v, x, y, size, 1.0)
        converged &= _path_errors(train_G, train_C, test_G, test_C, grid, 1.0 / (F * size * T), errors)
    alpha = grid[np.argmin(errors)]
    converged &= descend(G, W, C, alpha, True, _TOL, _ITERATIONS)
    return alpha, converged


@njit(cache=True)
def udr_value(R: Floats, target: Bools, source: Bools, filtered: bool) -> float:
    """Equation 2 of a similarity matrix R (L_t, L_s) >= 0; 0 when either model has no informative latent.

    No term counts for more than 1, a latent with a perfect match; so neither does their mean. Lasso weights "roughly
    lie in [-1, 1]" (A.5), where (max R)^2 / sum R <= max R <= 1; those of nearly collinear latents do not.
    filtered: the released variant. Uninformative rows and columns are left out of the maxima and sums too, and the two
    directions are averaged before they are added.
    """
    A, B = R.shape
    d_a, d_b = target.sum(), source.sum()
    if d_a == 0 or d_b == 0:
        return 0.0
    over_a = 0.0
    for a in range(A):
        if target[a]:
            top, total = 0.0, 0.0
            for b in range(B):
                if source[b] or not filtered:
                    top = max(top, R[a, b])
                    total += R[a, b]
            if total > 0.0:
                over_a += min(top * top / total, 1.0)
    over_b = 0.0
    for b in range(B):
        if source[b]:
            top, total = 0.0, 0.0
            for a in range(A):
                if target[a] or not filtered:
                    top = max(top, R[a, b])
                    total += R[a, b]
            if total > 0.0:
                over_b += min(top * top / total, 1.0)
    if filtered:
        return 0.5 * (over_a / d_a + over_b / d_b)
    return (over_a + over_b) / (d_a + d_b)


@njit(cache=True)
def _part(matrix: Floats, i: int, rows: int, j: int, cols: int, scale: float) -> Floats:
    out = np.empty((rows, cols))
    for a in range(rows):
        for b in range(cols):
            out[a, b] = scale * matrix[i + a, j + b]
    return out


@njit(cache=True)
def _solve_on_support(G: Floats, c: Floats, w: Floats, alpha: float, support: Ints, factor: Floats, x: Floats) -> bool:
    """The lasso of one target in closed form, into x, if the signs of w are those of the solution; False if not.

    On its support the solution solves G w = c - alpha sign(w) (by Cholesky); off it, no correlation exceeds alpha.
    """
    size = 0
    for j in range(len(w)):
        x[j] = 0.0
        if w[j] != 0.0:
            support[size] = j
            size += 1
    for a in range(size):
        i = support[a]
        for b in range(a + 1):
            dot = G[i, support[b]]
            for k in range(b):
                dot -= factor[a, k] * factor[b, k]
            if b < a:
                factor[a, b] = dot / factor[b, b]
            elif dot < _ROUNDING * len(w) * G[i, i]:
                return False
            else:
                factor[a, a] = sqrt(dot)
        dot = c[i] - (alpha if w[i] > 0.0 else -alpha)
        for k in range(a):
            dot -= factor[a, k] * x[support[k]]
        x[i] = dot / factor[a, a]
    for a in range(size - 1, -1, -1):
        dot = x[support[a]]
        for k in range(a + 1, size):
            dot -= factor[k, a] * x[support[k]]
        x[support[a]] = dot / factor[a, a]
        if x[support[a]] * w[support[a]] <= 0.0:
            return False
    for j in range(len(w)):
        if w[j] == 0.0:
            dot = c[j]
            for a in range(size):
                dot -= G[j, support[a]] * x[support[a]]
            if abs(dot) > alpha + _TOL:
                return False
    return True


@njit(cache=True)
def lasso_of_source(G: Floats, cross: Floats, start: Ints, targets: Ints, alpha: float) -> tuple[Floats, bool]:
    """Weights (L, latents of all targets) of the lassos that share a source, many targets in one descent.

    cross (L, K_t): moments of the source's latents with those of every target.
    """
    L = len(G)
    width = 0
    for t in targets:
        width += start[t + 1] - start[t]
    C = np.empty((L, width))
    column = 0
    for t in targets:
        for k in range(start[t], start[t + 1]):
            for a in range(L):
                C[a, column] = cross[a, k]
            column += 1
    W = np.zeros((L, width))
    converged = True
    support, factor, x = np.empty(L, np.int64), np.empty((L, L)), np.empty(L)
    for left in range(0, width, _WIDTH):
        columns = min(_WIDTH, width - left)
        rough = np.zeros((L, columns))
        descend(G, rough, _part(C, 0, L, left, columns, 1.0), alpha, False, _ROUGH_TOL, _ROUGH_ITERATIONS)
        for column in range(columns):
            if not _solve_on_support(G, C[:, left + column], rough[:, column], alpha, support, factor, x):
                w, H = np.zeros((L, 1)), _part(C, 0, L, left + column, 1, 1.0)
                converged &= descend(G, w, H, alpha, False, _TOL, _ITERATIONS)
                x[:] = w[:, 0]
            W[:, left + column] = x
    return W, converged


@njit(cache=True)
def score_pairs(
    method: int,
    grams: Floats,
    crosses: Floats,
    source_sums: Floats,
    target_sums: Floats,
    sizes: Ints,
    source_start: Ints,
    target_start: Ints,
    source_informative: Bools,
    target_informative: Bools,
    sources: Ints,
    targets: Ints,
    alpha: float,
    alphas: int,
    span: float,
    filtered: bool,
    scores: Floats,
    matrices: Floats,
) -> int:
    """UDR of each pair (targets[p], sources[p]) into `scores` (P,), and |R| into `matrices` (P, L_t, L_s) unless empty.

    method 0: correlations, 1: a lasso per target, 2: multi-task lasso, 3: multi-task lasso by cross-validation. grams
    (F, S, L, L) holds the sources' raw second moments, crosses (F, K_s, K_t) those of every source latent with every
    target latent; F is 1 but for method 3. Pairs come sorted by source. Latents of model m are
    start[m]:start[m + 1]. Returns how many fits did not converge.
    """
    unsolved = 0
    F = len(sizes)
    n = sizes.sum()
    shared = np.empty((0, 0))
    column = 0
    for p in range(len(scores)):
        s, t = sources[p], targets[p]
        i, k = source_start[s], target_start[t]
        L, T = source_start[s + 1] - i, target_start[t + 1] - k
        converged = True
        if method == 0:
            W = _part(crosses[0], i, L, k, T, 1.0 / n)
        elif method == 1:
            if p == 0 or sources[p - 1] != s:
                end = p
                while end < len(scores) and sources[end] == s:
                    end += 1
                G = _part(grams[0, s], 0, L, 0, L, 1.0 / n)
                C = _part(crosses[0], i, L, 0, crosses.shape[2], 1.0 / n)
                shared, converged = lasso_of_source(G, C, target_start, targets[p:end], alpha)
                column = 0
            W = _part(shared, 0, L, column, T, 1.0)
            column += T
        elif method == 2:
            G = _part(grams[0, s], 0, L, 0, L, 1.0 / n)
            W = np.zeros((L, T))
            converged = descend(G, W, _part(crosses[0], i, L, k, T, 1.0 / n), alpha, True, _TOL, _ITERATIONS)
        else:
            fold_grams, fold_crosses = np.empty((F, L, L)), np.empty((F, L, T))
            for f in range(F):
                fold_grams[f] = _part(grams[f, s], 0, L, 0, L, 1.0)
                fold_crosses[f] = _part(crosses[f], i, L, k, T, 1.0)
            u, v = _part(source_sums, 0, F, i, L, 1.0), _part(target_sums, 0, F, k, T, 1.0)
            W = np.zeros((L, T))
            converged = cross_validate(fold_grams, fold_crosses, u, v, sizes, alphas, span, W)[1]
        unsolved += not converged
        R = np.empty((T, L))
        for a in range(T):
            for b in range(L):
                R[a, b] = abs(W[b, a])
                if len(matrices):
                    matrices[p, a, b] = R[a, b]
        scores[p] = udr_value(R, target_informative[k : k + T], source_informative[i : i + L], filtered)
    return unsolved
