"""Similarity and UDR of many pairs of models, from their moments alone; compiled by numba.

Importing this module imports numba; the rest of the package does so only when a score is asked for. A source model with
L_s latents predicts a target with L_t.
"""

from typing import Any, NamedTuple

import numpy as np

from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.compile import njit
from karenina.numerics.lasso_kernels import cross_validate, lassos, multitask

# The penalties of cross-validation: as many, and down to this part of the largest, as in scikit-learn.
_ALPHAS, _SPAN = 100, 1e-3


class Side(NamedTuple):
    """Models of one side of pairs: latents of model m are start[m]:start[m + 1], of which some are active."""

    start: Ints
    informative: Bools


@njit(cache=True)
def _matched(R: Floats, rows: Bools, cols: Bools, filtered: bool) -> float:
    """The sum over informative rows of (max_b R_ab)^2 / sum_b R_ab. filtered: over informative columns alone."""
    found = 0.0
    for a in range(R.shape[0]):
        if rows[a]:
            top, total = 0.0, 0.0
            for b in range(R.shape[1]):
                if cols[b] or not filtered:
                    top = max(top, R[a, b])
                    total += R[a, b]
            if total > 0.0:
                found += min(top * top / total, 1.0)
    return found


@njit(cache=True)
def udr_value(R: Floats, target: Bools, source: Bools, filtered: bool) -> float:
    """Equation 2 of a similarity matrix R (L_t, L_s) >= 0; 0 when either model has no active latent.

    With d_t and d_s informative latents a of the target and b of the source,

        UDR = [ sum_a (max_b R_ab)^2 / sum_b R_ab  +  sum_b (max_a R_ab)^2 / sum_a R_ab ] / (d_t + d_s):

    Duan et al. (2020). No term counts for more than 1, a latent with a perfect match; so neither does their mean. Lasso
    weights "roughly lie in [-1, 1]" (A.5), where (max R)^2 / sum R <= max R <= 1; those of nearly collinear latents do
    not.
    filtered: the released variant. Uninformative rows and columns are left out of the maxima and sums too, and the two
    directions are averaged before they are added.
    """
    d_t, d_s = target.sum(), source.sum()
    if d_t == 0 or d_s == 0:
        return 0.0
    over_t, over_s = _matched(R, target, source, filtered), _matched(R.T, source, target, filtered)
    return 0.5 * (over_t / d_t + over_s / d_s) if filtered else (over_t + over_s) / (d_t + d_s)


@njit(cache=True)
def _concentration(R: Floats, rows: Bools, cols: Bools) -> float:
    """1 minus the entropy of each row over the columns, in units of its largest value, weighted by the rows' sums."""
    base = np.log(max(cols.sum(), 2))
    found, weight = 0.0, 0.0
    for a in range(R.shape[0]):
        total, entropy = 0.0, 0.0
        for b in range(R.shape[1]):
            if rows[a] and cols[b]:
                total += R[a, b]
        for b in range(R.shape[1]):
            if rows[a] and cols[b] and R[a, b] > 0.0:
                share = R[a, b] / total
                entropy -= share * np.log(share)
        found += total * (1.0 - entropy / base)
        weight += total
    return found / weight if weight > 0.0 else 0.0


@njit(cache=True)
def entropy_value(R: Floats, target: Bools, source: Bools) -> float:
    """The aggregation of DCI (Eastwood & Williams 2018) in place of equation 2: Duan et al. (2020), A.2, tried it.

    The mean of both directions over active latents; 0 when either model has none.
    """
    return 0.5 * (_concentration(R, target, source) + _concentration(R.T, source, target))


@njit(cache=True)
def _part(matrix: Floats, i: int, rows: int, j: int, cols: int, scale: float) -> Floats:
    out = np.empty((rows, cols))
    for a in range(rows):
        for b in range(cols):
            out[a, b] = scale * matrix[i + a, j + b]
    return out


@njit(cache=True)
def _targets_of(cross: Floats, i: int, L: int, start: Ints, targets: Ints, n: int) -> Floats:
    """Moments (L, latents of these targets) of the L source latents from i on."""
    width = 0
    for t in targets:
        width += start[t + 1] - start[t]
    out = np.empty((L, width))
    column = 0
    for t in targets:
        size = start[t + 1] - start[t]
        out[:, column : column + size] = _part(cross, i, L, start[t], size, 1.0 / n)
        column += size
    return out


@njit(cache=True)
def score_pairs(
    method: int,
    moments: Any,
    source: Any,
    target: Any,
    sources: Ints,
    targets: Ints,
    alpha: float,
    filtered: bool,
    entropic: bool,
    scores: Floats,
    matrices: Floats,
) -> int:
    """UDR of each pair (targets[p], sources[p]) into `scores` (P,), and |R| into `matrices` (P, L_t, L_s) unless empty.

    filtered: see udr_value; entropic: entropy_value instead.

    method 0: correlations, 1: a lasso per target, 2: multi-task lasso, 3: multi-task lasso by cross-validation.
    moments: the `Blocks` of sources and targets, of one fold but for method 3. source, target: a `Side` each. Pairs
    come sorted by source. Returns how many fits did not converge.
    """
    grams, crosses, sizes = moments.grams_a, moments.cross, moments.sizes
    source_start, target_start = source.start, target.start
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
            if p == 0 or sources[p - 1] != s:  # one fit for all targets of a source
                G = _part(grams[0, s], 0, L, 0, L, 1.0 / n)
                C = _targets_of(crosses[0], i, L, target_start, targets[p : np.searchsorted(sources, s, "right")], n)
                shared, converged = lassos(G, C, alpha)
                column = 0
            W = _part(shared, 0, L, column, T, 1.0)
            column += T
        elif method == 2:
            G = _part(grams[0, s], 0, L, 0, L, 1.0 / n)
            W, converged = multitask(G, _part(crosses[0], i, L, k, T, 1.0 / n), alpha)
        else:
            fold_grams, fold_crosses = np.empty((F, L, L)), np.empty((F, L, T))
            for f in range(F):
                fold_grams[f] = _part(grams[f, s], 0, L, 0, L, 1.0)
                fold_crosses[f] = _part(crosses[f], i, L, k, T, 1.0)
            u, v = _part(moments.sums_a, 0, F, i, L, 1.0), _part(moments.sums_b, 0, F, k, T, 1.0)
            W = np.zeros((L, T))
            converged = cross_validate(fold_grams, fold_crosses, u, v, sizes, _ALPHAS, _SPAN, W)[1]
        unsolved += not converged
        R = np.empty((T, L))
        for a in range(T):
            for b in range(L):
                R[a, b] = abs(W[b, a])
                if len(matrices):
                    matrices[p, a, b] = R[a, b]
        rows, columns = target.informative[k : k + T], source.informative[i : i + L]
        scores[p] = entropy_value(R, rows, columns) if entropic else udr_value(R, rows, columns, filtered)
    return unsolved
