"""Codes to moments: standardise or rank each model once, then one matrix product for all pairs of a tile."""

from dataclasses import dataclass

import numpy as np

from karenina.selection._inputs import Bools, Codes, Floats, Ints


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
    from karenina.selection._solvers import standardise, standardised_ranks

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


def blocks(a: Panel, b: Panel, pad: int, folds: int = 1) -> Blocks:
    """Moments of every latent of `a` with every latent of `b` (which may be the same panel)."""
    edges = fold_edges(a.z.shape[1], folds)
    parts = [slice(edges[f], edges[f + 1]) for f in range(folds)]
    # With a panel and itself numpy sees the symmetry and does half the work.
    cross = np.stack([a.z[:, rows] @ b.z[:, rows].T for rows in parts])
    grams_a = _grams(a, edges, pad, cross if a is b else None)
    grams_b = grams_a if a is b else _grams(b, edges, pad, None)
    sums_a = np.stack([a.z[:, rows].sum(axis=1) for rows in parts])
    sums_b = sums_a if a is b else np.stack([b.z[:, rows].sum(axis=1) for rows in parts])
    return Blocks(cross, grams_a, grams_b, sums_a, sums_b, np.diff(edges))
