"""Codes to moments: standardise or rank each model once, then one matrix product for all pairs of a tile."""

from dataclasses import dataclass

import numpy as np

from karenina.selection._inputs import Bools, Codes, Floats, Ints

# A product of fewer multiplications than this is fast enough in double precision.
_LARGE = 5e8
_RUN = 2000
_LEAST_EIGENVALUE = 0.12


@dataclass(frozen=True)
class Panel:
    """Prepared codes of some models, stacked: z (K, n), latents of the m-th in rows start[m]:start[m + 1].

    scale (K,): the standard deviation that each latent had; 0 for a constant one, whose row is 0.
    """

    z: Floats
    scale: Floats
    start: Ints


@dataclass(frozen=True)
class Blocks:
    """Raw moments of each of F folds of the rows: all that similarities need.

    cross (F, K_a, K_b); grams (F, models, L, L), padded with 0 to the largest L; sums (F, K); sizes (F,).
    """

    cross: Floats
    grams_a: Floats
    grams_b: Floats
    sums_a: Floats
    sums_b: Floats
    sizes: Ints


def panel(codes: Codes, models: Ints, *, ranks: bool = False, keep: list[Bools] | None = None) -> Panel:
    """Codes (or their ranks) of these models, mean 0 and variance 1 per latent; 0 for latents not in `keep`."""
    from karenina.selection._columns import standardise, standardised_ranks

    start = np.concatenate([[0], np.cumsum(codes.sizes[models])])
    z = np.empty((start[-1], codes.n))
    scale = np.empty(start[-1])
    for k, model in enumerate(models):
        own = slice(start[k], start[k + 1])
        array = codes[model]
        values = np.ascontiguousarray(array, array.dtype if array.dtype in (np.float32, np.float64) else np.float64)
        if ranks:
            standardised_ranks(values.view(f"u{values.itemsize}"), 8 * values.itemsize, z[own], scale[own])
        else:
            standardise(values, z[own], scale[own])
        if keep is not None:
            z[own][~keep[model]] = 0.0
    return Panel(z, scale, start)


def fold_edges(n: int, folds: int) -> Ints:
    """Bounds of contiguous folds of n rows, the first n % folds of them one longer: KFold without shuffling."""
    sizes = np.full(folds, n // folds)
    sizes[: n % folds] += 1
    return np.concatenate([[0], np.cumsum(sizes)])


def _grams(p: Panel, edges: Ints, pad: int, cross: Floats | None) -> Floats:
    """Moments of each model's latents with one another, taken from `cross` when that is of the panel with itself."""
    out = np.zeros((len(edges) - 1, len(p.start) - 1, pad, pad))
    for m in range(len(p.start) - 1):
        own = slice(p.start[m], p.start[m + 1])
        size = own.stop - own.start
        for f in range(len(edges) - 1):
            part = p.z[own, edges[f] : edges[f + 1]]
            out[f, m, :size, :size] = part @ part.T if cross is None else cross[f, own, own]
    return out


def _product(a: Floats, b: Floats, single: bool) -> Floats:
    """a b'; if `single`, short runs of rows in float32, added up in float64."""
    if not single:
        return a @ b.T  # numpy sees when b is a, and does half the work
    out = np.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], _RUN):
        left = a[:, k : k + _RUN].astype(np.float32)
        right = left if a is b else b[:, k : k + _RUN].astype(np.float32)
        out += left @ right.T
    return out


def _far_from_collinear(p: Panel) -> bool:
    """Whether float32 changes no lasso weight by 1e-6: errors grow with the inverse of the least eigenvalue."""
    some = p.z[:, : 100 * int(np.diff(p.start).max())]
    for m in range(len(p.start) - 1):
        own = some[p.start[m] : p.start[m + 1]]
        own = own[own.any(axis=1)]  # latents without variance take no part
        if len(own) and np.linalg.eigvalsh(own @ own.T)[0] < _LEAST_EIGENVALUE * own.shape[1]:
            return False
    return True


def blocks(a: Panel, b: Panel, pad: int, folds: int = 1, *, ranks: bool = False) -> Blocks:
    """Moments of every latent of `a` with every latent of `b` (which may be the same panel).

    A large product is made in single precision, at half the cost, where that is harmless: of ranks, whose correlations
    are read off it directly, and of latents that are far from collinear. Cross-validation gains nothing from it.
    """
    edges = fold_edges(a.z.shape[1], folds)
    single = folds == 1 and a.z.size * len(b.z) > _LARGE
    single = single and (ranks or (_far_from_collinear(a) and (a is b or _far_from_collinear(b))))
    cross, sums_a, sums_b = [], [], []
    for f in range(folds):
        left = a.z[:, edges[f] : edges[f + 1]]
        right = left if a is b else b.z[:, edges[f] : edges[f + 1]]
        cross.append(_product(left, right, single))
        sums_a.append(left.sum(axis=1))
        sums_b.append(right.sum(axis=1))
    crosses = np.stack(cross)
    grams_a = _grams(a, edges, pad, crosses if a is b else None)
    grams_b = grams_a if a is b else _grams(b, edges, pad, None)
    return Blocks(crosses, grams_a, grams_b, np.stack(sums_a), np.stack(sums_b), np.diff(edges))
