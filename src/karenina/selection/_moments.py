"""Codes to moments: standardise or rank each model once, then one matrix product for all pairs of a tile."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.columns import standardise, standardised_ranks
from karenina.selection._inputs import Codes

# Products of fewer multiplications than this are fast enough in double precision.
_LARGE = 5e8
_RUN = 2000
_LEAST_EIGENVALUE = 0.12


@dataclass(frozen=True)
class Panel:
    """Prepared codes of some models, stacked: z (K, n), latents of models[m] in rows start[m]:start[m + 1].

    z is in single precision where that is harmless. scale (K,): the standard deviation that each latent had; 0 for a
    constant one, whose row is 0.
    """

    models: Ints
    z: Floats | NDArray[np.float32]
    scale: Floats
    start: Ints


class Blocks(NamedTuple):
    """Raw moments of each of F folds of the rows: all that similarities need.

    cross (F, K_a, K_b); grams (F, models, L, L), padded with 0 to the largest L; sums (F, K); sizes (F,).
    """

    cross: Floats
    grams_a: Floats
    grams_b: Floats
    sums_a: Floats
    sums_b: Floats
    sizes: Ints

    def turned(self) -> "Blocks":
        """The same with the panels exchanged."""
        cross = np.ascontiguousarray(self.cross.transpose(0, 2, 1))
        return Blocks(cross, self.grams_b, self.grams_a, self.sums_b, self.sums_a, self.sizes)


def panel(
    codes: Codes, models: Ints, *, ranks: bool = False, keep: list[Bools] | None = None, exact: bool = False
) -> Panel:
    """Codes (or their ranks) of these models, mean 0 and variance 1 per latent; 0 for latents not in `keep`.

    A large panel is made in single precision, which halves the cost of its products, where that is harmless: of ranks,
    whose correlations are read off the product, and of latents that are far from collinear. Not if `exact`.
    """
    start = np.concatenate([[0], np.cumsum(codes.sizes[models])])
    if exact or float(start[-1]) ** 2 * codes.n <= _LARGE:
        return _panel(codes, models, start, ranks, keep, np.float64)
    made = _panel(codes, models, start, ranks, keep, np.float32)
    return made if ranks or _far_from_collinear(made) else _panel(codes, models, start, ranks, keep, np.float64)


def _panel(codes: Codes, models: Ints, start: Ints, ranks: bool, keep: list[Bools] | None, dtype: type) -> Panel:

    z = np.empty((start[-1], codes.n), dtype)
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
    return Panel(models, z, scale, start)


def fold_edges(n: int, folds: int) -> Ints:
    """Bounds of contiguous folds of n rows, the first n % folds of them one longer: KFold without shuffling."""
    return np.cumsum([0, *(len(part) for part in np.array_split(np.arange(n), folds))])


def _grams(p: Panel, edges: Ints, pad: int, cross: Floats | None) -> Floats:
    """Moments of each model's latents with one another, taken from `cross` when that is of the panel with itself."""
    out = np.zeros((len(edges) - 1, len(p.start) - 1, pad, pad))
    for m in range(len(p.start) - 1):
        own = slice(p.start[m], p.start[m + 1])
        size = own.stop - own.start
        for f in range(len(edges) - 1):
            part = p.z[own, edges[f] : edges[f + 1]]
            out[f, m, :size, :size] = _product(part, part) if cross is None else cross[f, own, own]
    return out


def _product(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """a b' in double precision; of single ones, short runs of columns, added up in double."""
    if a.dtype == np.float64 or b.dtype == np.float64:
        return np.asarray(a, float) @ np.asarray(b, float).T  # numpy sees when b is a, and does half the work
    out = np.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], _RUN):
        out += a[:, k : k + _RUN] @ b[:, k : k + _RUN].T
    return out


def _far_from_collinear(p: Panel) -> bool:
    """Whether float32 changes no lasso weight by 1e-6: errors grow with the inverse of the least eigenvalue."""
    some = p.z[:, : 100 * int(np.diff(p.start).max())].astype(float)
    for m in range(len(p.start) - 1):
        own = some[p.start[m] : p.start[m + 1]]
        own = own[own.any(axis=1)]  # latents without variance take no part
        if len(own) and np.linalg.eigvalsh(own @ own.T)[0] < _LEAST_EIGENVALUE * own.shape[1]:
            return False
    return True


def blocks(a: Panel, b: Panel, pad: int, folds: int = 1) -> Blocks:
    """Moments of every latent of `a` with every latent of `b` (which may be the same panel).

    The sums of all rows are those of prepared codes: 0. Only those of folds are added up.
    """
    edges = fold_edges(a.z.shape[1], folds)
    cross = np.empty((folds, len(a.z), len(b.z)))
    sums_a, sums_b = np.zeros((folds, len(a.z))), np.zeros((folds, len(b.z)))
    for f in range(folds):
        left = a.z[:, edges[f] : edges[f + 1]]
        right = left if a is b else b.z[:, edges[f] : edges[f + 1]]
        cross[f] = _product(left, right)
        if folds > 1:
            sums_a[f], sums_b[f] = left.sum(axis=1), right.sum(axis=1)
    grams_a = _grams(a, edges, pad, cross if a is b else None)
    grams_b = grams_a if a is b else _grams(b, edges, pad, None)
    return Blocks(cross, grams_a, grams_b, sums_a, sums_b, np.diff(edges))
