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
    start = np.concatenate([[0], np.cumsum(codes.sizes[models])])
    z = np.empty((start[-1], codes.n))
    scale = np.empty(start[-1])
    for k, model in enumerate(models):
        rows = z[start[k] : start[k + 1]]
        if ranks:
            _rank(codes[model].T, rows)
        else:
            rows[:] = codes[model].T
        scale[start[k] : start[k + 1]] = _standardise(rows)
        if keep is not None:
            rows[~keep[model]] = 0.0
    return Panel(z, scale, start)


def _rank(values: np.ndarray, out: Floats) -> None:
    from karenina.selection._solvers import centred_ranks

    bits = 32 if values.dtype.itemsize <= 4 and values.dtype.kind == "f" else 64
    floats = np.array(values, f"f{bits // 8}", order="C")
    floats += 0.0  # -0 becomes 0
    pattern = floats.view(f"u{bits // 8}").astype(np.uint64)
    sign = np.uint64(1 << (bits - 1))
    # Bit patterns of positive floats are in their order, those of negative ones in the reverse.
    centred_ranks(np.where(pattern & sign, ~pattern & np.uint64(2**bits - 1), pattern | sign), bits, out)


def _standardise(rows: Floats) -> Floats:
    """In place; returns the standard deviations, 0 where what is left after the mean is rounding."""
    mean = rows.mean(axis=1)
    rows -= mean[:, None]
    scale = np.sqrt(np.einsum("kn,kn->k", rows, rows) / rows.shape[1])
    scale[scale <= 10 * np.finfo(float).eps * np.abs(mean)] = 0.0
    rows *= np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)[:, None]
    return scale


def fold_edges(n: int, folds: int) -> Ints:
    """Bounds of contiguous folds of n rows, the first n % folds of them one longer: KFold without shuffling."""
    sizes = np.full(folds, n // folds)
    sizes[: n % folds] += 1
    return np.concatenate([[0], np.cumsum(sizes)])


def _grams(z: Floats, start: Ints, edges: Ints, pad: int) -> Floats:
    out = np.zeros((len(edges) - 1, len(start) - 1, pad, pad))
    for m in range(len(start) - 1):
        size = start[m + 1] - start[m]
        for f in range(len(edges) - 1):
            part = z[start[m] : start[m + 1], edges[f] : edges[f + 1]]
            out[f, m, :size, :size] = part @ part.T
    return out


def blocks(a: Panel, b: Panel, pad: int, folds: int = 1) -> Blocks:
    """Moments of every latent of `a` with every latent of `b` (which may be the same panel)."""
    edges = fold_edges(a.z.shape[1], folds)
    slices = [slice(edges[f], edges[f + 1]) for f in range(folds)]
    cross = np.stack([a.z[:, rows] @ b.z[:, rows].T for rows in slices])
    sums_a = np.stack([a.z[:, rows].sum(axis=1) for rows in slices])
    grams_a = _grams(a.z, a.start, edges, pad)
    if a is b:
        return Blocks(cross, grams_a, grams_a, sums_a, sums_a, np.diff(edges))
    sums_b = np.stack([b.z[:, rows].sum(axis=1) for rows in slices])
    return Blocks(cross, grams_a, _grams(b.z, b.start, edges, pad), sums_a, sums_b, np.diff(edges))
