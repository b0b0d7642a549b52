"""How alike models are as a whole: mean correlation coefficient, linear CKA, and who is in the middle."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from karenina._active import ACTIVE_KL
from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.checks import one_of
from karenina.selection._inputs import Codes, check_codes, check_groups, check_kl
from karenina.selection._moments import Blocks, Panel, blocks, panel
from karenina.selection._tiles import Tile, Workers, plan, run, tile_size


@dataclass(frozen=True, eq=False)
class Likeness:
    """Symmetric (M, M) matrices, 1 on the diagonal, NaN between models that were not compared.

    mcc: mean absolute correlation of latents matched one to one. cka: linear centred kernel alignment.
    """

    mcc: Floats
    cka: Floats

    def centrality(self, by: Literal["mcc", "cka"] = "mcc") -> Floats:
        """Mean likeness (M,) of each model to the others; NaN without any."""
        values = np.array({"mcc": self.mcc, "cka": self.cka}[by])
        np.fill_diagonal(values, np.nan)
        count = (~np.isnan(values)).sum(axis=1)
        return np.divide(np.nansum(values, axis=1), count, out=np.full(len(count), np.nan), where=count > 0)

    def medoid(self, by: Literal["mcc", "cka"] = "mcc") -> int:
        """The model that is most like all others."""
        centrality = self.centrality(by)
        if np.isnan(centrality).all():
            raise ValueError("no two models were compared, so none is in the middle")
        return int(np.nanargmax(centrality))


def alike(
    codes: Sequence[ArrayLike] | NDArray[Any],
    kl: Sequence[ArrayLike] | NDArray[Any] | None = None,
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    *,
    correlation: Literal["pearson", "spearman"] = "pearson",
    n: int | None = None,
    seed: int | np.random.Generator = 0,
    kl_threshold: float = ACTIVE_KL,
    workers: int | Workers = 1,
) -> Likeness:
    """Compare every two models of a group, from the same matrix products that UDR uses.

    MCC matches latents one to one so that the sum of absolute correlations is greatest (Hungarian algorithm) and takes
    the mean over the matched, min(L_i, L_j) of them. Linear CKA is |Z_i' Z_j|_F^2 / (|Z_i' Z_i|_F |Z_j' Z_j|_F) of
    centred codes, blind to rotation: a high CKA with a low MCC says that two models know the same and mix it
    differently.

    Parameters
    ----------
    codes, kl, groups, n, seed, kl_threshold, workers : as in `karenina.udr`
        With kl only active latents take part, without it all do.
    correlation : "pearson" or "spearman"
        Of the MCC; CKA is of centred codes in either case.

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(500, 3))
    >>> turned = z @ np.linalg.qr(np.vander([1.0, 2.0, 3.0]))[0]
    >>> found = alike([z, -z[:, ::-1], turned])
    >>> bool(found.mcc[0, 1] > 0.99), bool(found.cka[0, 2] > 0.99), bool(found.mcc[0, 2] < 0.95)
    (True, True, True)
    """
    one_of("correlation", correlation, ("pearson", "spearman"))
    checked = check_codes(codes, n, seed, 3)
    if kl is None:
        informative = [np.ones(size, bool) for size in checked.sizes]
    else:
        informative = check_kl(kl, checked.sizes, kl_threshold)
    pools = [rows for _, rows in check_groups(groups, len(checked), "model") if len(rows) > 1]
    tiles = plan(pools, None, np.random.default_rng(seed), tile_size(checked.n, int(checked.sizes.max())))
    mcc = np.full((len(checked), len(checked)), np.nan)
    cka = mcc.copy()
    work = Comparison(checked, informative, correlation)
    for first, second, matched, aligned in run(work, tiles, workers):
        mcc[first, second] = mcc[second, first] = matched
        cka[first, second] = cka[second, first] = aligned
    np.fill_diagonal(mcc, 1.0)
    np.fill_diagonal(cka, 1.0)
    return Likeness(mcc, cka)


@dataclass(frozen=True)
class Comparison:
    """The work of one tile: (models, models, MCC, CKA) of its pairs."""

    codes: Codes
    informative: list[Bools]
    correlation: str

    def __call__(self, tile: Tile) -> tuple[Ints, Ints, Floats, Floats]:
        a, b, moments = self._moments(tile)
        cols = b.models
        correlations = moments.cross[0] / self.codes.n
        # Codes were standardised; their scales bring back the covariances.
        energy = _energy(correlations * a.scale[:, None] * b.scale, a.start, b.start)
        own_a = _own_energy(moments.grams_a[0] / self.codes.n, a.scale, a.start)
        own_b = own_a if tile.cols is None else _own_energy(moments.grams_b[0] / self.codes.n, b.scale, b.start)
        norms = np.sqrt(own_a[:, None] * own_b)
        cka = np.divide(energy, norms, out=np.zeros_like(energy), where=norms > 0)
        if self.correlation == "spearman":
            correlations = self._moments(tile, ranks=True)[2].cross[0] / self.codes.n
        correlations = np.abs(correlations)
        first, second = np.nonzero(np.triu(np.ones(cka.shape, bool), 1) if tile.cols is None else np.ones(cka.shape))
        matched = np.empty(len(first))
        for k, (i, j) in enumerate(zip(first, second)):
            block = correlations[a.start[i] : a.start[i + 1], b.start[j] : b.start[j + 1]]
            block = block[np.ix_(self.informative[tile.rows[i]], self.informative[cols[j]])]
            matched[k] = block[linear_sum_assignment(-block)].mean() if block.size else 0.0
        return tile.rows[first], cols[second], matched, cka[first, second]

    def _moments(self, tile: Tile, ranks: bool = False) -> tuple[Panel, Panel, Blocks]:
        """Of the codes, or of their ranks."""
        a = panel(self.codes, tile.rows, ranks=ranks, keep=self.informative)
        b = a if tile.cols is None else panel(self.codes, tile.cols, ranks=ranks, keep=self.informative)
        return a, b, blocks(a, b, int(self.codes.sizes.max()))


def _energy(covariance: Floats, start_a: Ints, start_b: Ints) -> Floats:
    """Sum of squares of each pair's block."""
    squares = covariance**2
    return np.add.reduceat(np.add.reduceat(squares, start_a[:-1], axis=0), start_b[:-1], axis=1)


def _own_energy(grams: Floats, scale: Floats, start: Ints) -> Floats:
    out = np.empty(len(grams))
    for m, gram in enumerate(grams):
        own = scale[start[m] : start[m + 1]]
        out[m] = ((gram[: len(own), : len(own)] * own[:, None] * own) ** 2).sum()
    return out
