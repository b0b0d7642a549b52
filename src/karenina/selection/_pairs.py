"""Similarity and UDR of many pairs of models, from their moments alone; compiled by numba.

A source model with L_s latents predicts a target with L_t.
"""

import itertools
from typing import Any, Literal, NamedTuple

import numpy as np

from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.compile import njit
from karenina.numerics.lasso import centred, cross_validate, lassos, multitask

# How a source predicts a target: its correlations; a lasso per latent; a multi-task lasso; that by cross-validation.
Method = Literal["correlation", "lasso", "multitask", "multitask_cv"]
# The penalties of cross-validation: as many, and down to this part of the largest, as in scikit-learn.
_FALLS = np.array([1e-3 ** (k / 99) for k in range(100)])


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
    turned = np.empty((R.shape[1], R.shape[0]))
    for a in range(R.shape[0]):
        for b in range(R.shape[1]):
            turned[b, a] = R[a, b]
    over_t, over_s = _matched(R, target, source, filtered), _matched(turned, source, target, filtered)
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
def _targets_of(cross: Floats, i: int, L: int, start: Ints, targets: Ints, n: int) -> Floats:
    """Moments (L, latents of these targets) of the L source latents from i on."""
    width = 0
    for t in targets:
        width += start[t + 1] - start[t]
    out = np.empty((L, width))
    column = 0
    for t in targets:
        for k in range(start[t], start[t + 1]):
            for a in range(L):
                out[a, column] = 1.0 / n * cross[i + a, k]
            column += 1
    return out


@njit(cache=True)
def _multitasks(G: Floats, C: Floats, start: Ints, targets: Ints, alpha: float) -> tuple[Floats, int]:
    """Weights (L, latents of these targets) of a multi-task lasso for each, and how many did not converge."""
    out, unsolved, column = np.empty(C.shape), 0, 0
    for t in targets:
        T = start[t + 1] - start[t]
        W, converged = multitask(G, C[:, column : column + T].copy(), alpha)
        unsolved += not converged
        for a in range(len(C)):
            for b in range(T):
                out[a, column + b] = W[a, b]
        column += T
    return out, unsolved


def _cross_validated(moments: Any, s: int, i: int, L: int, start: Ints, targets: Ints) -> tuple[Floats, int]:
    """The same with the penalty of each target by cross-validation, from source s, whose latents are i to i + L."""
    sums, sizes = moments.sums_a[:, i : i + L], moments.sizes
    source = centred(moments.grams_a[:, s, :L, :L], sums, sums, sizes)
    weights, unsolved = [], 0
    for t in targets:
        own = slice(start[t], start[t + 1])
        cross = centred(moments.cross[:, i : i + L, own], sums, moments.sums_b[:, own], sizes)
        W, _, converged = cross_validate(source, cross, sizes, _FALLS)
        weights.append(W)
        unsolved += not converged
    return np.hstack(weights), unsolved


@njit(cache=True)
def _aggregate(
    W: Floats,
    source: Bools,
    start: Ints,
    informative: Bools,
    targets: Ints,
    filtered: bool,
    entropic: bool,
    scores: Floats,
    matrices: Floats,
) -> None:
    """UDR of one source with each of its targets, from its weights (L_s, latents of these targets)."""
    column, L = 0, len(W)
    for p in range(len(targets)):
        k = start[targets[p]]
        T = start[targets[p] + 1] - k
        R = np.empty((T, L))
        for a in range(T):
            for b in range(L):
                R[a, b] = abs(W[b, column + a])
                if len(matrices):
                    matrices[p, a, b] = R[a, b]
        active = informative[k : k + T]
        scores[p] = entropy_value(R, active, source) if entropic else udr_value(R, active, source, filtered)
        column += T


def _weights(method: Method, moments: Any, source: Side, target: Side, s: int, targets: Ints, alpha: float) -> Any:
    """Of source s for these targets (L, their latents), and how many fits did not converge."""
    i, L, n = int(source.start[s]), int(source.start[s + 1] - source.start[s]), int(moments.sizes.sum())
    if method == "multitask_cv":
        return _cross_validated(moments, s, i, L, target.start, targets)
    C = _targets_of(moments.cross[0], i, L, target.start, targets, n)
    if method == "correlation":
        return C, 0
    G = 1.0 / n * np.ascontiguousarray(moments.grams_a[0, s, :L, :L])
    if method == "multitask":
        return _multitasks(G, C, target.start, targets, alpha)
    W, converged = lassos(G, C, alpha)
    return W, not converged


def score_pairs(
    method: Method,
    moments: Any,
    source: Side,
    target: Side,
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

    moments: the `Blocks` of sources and targets, of one fold but for cross-validation. Pairs come sorted by source.
    Returns how many fits did not converge.
    """
    unsolved = 0
    bounds = np.flatnonzero(np.diff(sources, prepend=-1, append=-1))
    for first, end in itertools.pairwise(bounds):  # one fit for all targets of a source
        s, these = int(sources[first]), targets[first:end]
        W, missed = _weights(method, moments, source, target, s, these, alpha)
        unsolved += missed
        active = source.informative[source.start[s] : source.start[s + 1]]
        kept = matrices[first:end] if len(matrices) else matrices
        _aggregate(W, active, target.start, target.informative, these, filtered, entropic, scores[first:end], kept)
    return unsolved
