"""Agreement between models: UDR (Duan et al. 2020, section 4), and how alike models are as a whole (MCC, CKA).

Pairs of models are cut into tiles, which can run in other processes or on Ray; codes become moments, one matrix product
for all pairs of a tile; similarities of two models come from their moments alone.
"""

import itertools
import tempfile
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from karenina._active import ACTIVE_KL, near_threshold
from karenina._notebook import table
from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.checks import as_array, one_of, positive_integer
from karenina.numerics.columns import standardise, standardised_ranks
from karenina.numerics.compile import njit
from karenina.numerics.lasso import centred, cross_validate, lassos, multitask
from karenina.numerics.resampling import medians
from karenina.selection._inputs import Codes, check_codes, check_groups, check_kl, kl_rows

if TYPE_CHECKING:
    import pandas as pd

# Two panels of prepared codes of this size are in memory at a time.
_PANEL_BYTES = 128 << 20
# In a pool of at most this many models each draws its partners on its own; in a larger one whole blocks are drawn,
# since the product over all pairs of the pool would be wasted.
_OWN_DRAW = 512


def from_best(scores: ArrayLike, active: ArrayLike) -> Ints:
    """Return the models that have a score and an active latent, the best first.

    >>> from_best([0.2, 0.9, 0.8, np.nan], [2, 0, 3, 1])
    array([2, 0])
    """
    values = np.asarray(scores, float)
    order = np.argsort(-values, kind="stable")
    return order[(np.asarray(active)[order] > 0) & np.isfinite(values[order])]


def best_per_active(scores: ArrayLike, active: ArrayLike) -> dict[int, int]:
    """Return the best model for each number of active latents: UDR does not reward finding more factors.

    >>> best_per_active([0.2, 0.9, 0.8], [2, 3, 2])
    {2: 2, 3: 1}
    """
    counts = np.asarray(active)
    found: dict[int, int] = {}
    for model in from_best(scores, active):
        found.setdefault(int(counts[model]), int(model))
    return dict(sorted(found.items()))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of M models, higher is better; NaN for a model that could not be compared.

    scores (M,). interval (M, 2): 95 % interval of the median over all partners that a model could have had; NaN with
    fewer than 6 partners, see `intervals`. informative (M,): number of active latents, those with a KL above
    `kl_threshold`. groups: the label of each model. matrices: |R| (L_i, L_j) of each (target i, source j), if kept.
    Pairs are stored by target: partners of model i are sources[start[i]:start[i + 1]], and values there are UDR_ij.
    """

    scores: Floats
    interval: Floats
    informative: Ints
    groups: tuple[Hashable, ...]
    start: Ints
    sources: NDArray[np.int32]
    values: Floats
    matrices: Mapping[tuple[int, int], Floats] | None = None
    kl_threshold: float = ACTIVE_KL

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def pairwise(self) -> Floats:
        """Return UDR_ij (M, M) of target i and source j; NaN for pairs that were not compared."""
        out = np.full((len(self), len(self)), np.nan)
        out[np.repeat(np.arange(len(self)), np.diff(self.start)), self.sources] = self.values
        return out

    def intervals(self, confidence: float) -> Floats:
        """Return intervals (M, 2) of another confidence: 0.93 needs 5 partners, 0.87 needs 4."""
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1; got {confidence}")
        return medians(self.start, self.values, confidence)[1]

    @property
    def order(self) -> Ints:
        """Return models from best to worst, those without a score last."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def best(self) -> int:
        """Return the model with the highest score, of those with an active latent."""
        able = from_best(self.scores, self.informative)
        if not len(able):
            raise ValueError("no model has both a score and an active latent, so none is best")
        return int(able[0])

    @property
    def best_per_informative(self) -> dict[int, int]:
        """Return the best model for each number of active latents: UDR does not reward finding more factors."""
        return best_per_active(self.scores, self.informative)

    @property
    def frame(self) -> "pd.DataFrame":
        """Return one row per model, best first: model, group, score, low, high, active, partners."""
        import pandas as pd

        found = pd.DataFrame(
            {
                "model": np.arange(len(self)),
                "group": pd.Series(self.groups, dtype=object),
                "score": self.scores,
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "active": self.informative,
                "partners": np.diff(self.start),
            }
        )
        return found.iloc[self.order].reset_index(drop=True)

    def _repr_html_(self) -> str:
        frame = self.frame
        caption = f"active: latents with a KL above {self.kl_threshold:g} nats"
        return table(frame.columns, frame.itertuples(index=False), caption)

    def __str__(self) -> str:
        lines = self.frame.to_string(float_format="{:.3f}".format)
        return f"{lines}\nactive: latents with a KL above {self.kl_threshold:g} nats"


@dataclass(frozen=True)
class Tile:
    """Pairs between two lists of models, or within one (`cols` is None).

    wanted (R, C): which pairs are wanted, targets in rows and sources in cols. back (C, R): the same for targets in
    cols. None wants all.
    """

    rows: Ints
    cols: Ints | None
    wanted: Bools | None = None
    back: Bools | None = None


class Work(Protocol):
    """The computation of a tile. Its `codes` are replaced by files when it runs in another process."""

    @property
    def codes(self) -> Codes: ...

    def __call__(self, tile: Tile) -> Any: ...


@dataclass(frozen=True)
class Workers:
    """Where tiles are computed; results do not depend on it.

    Parameters
    ----------
    processes : int
        Of this computer; 1: none besides this one.
    ray : str
        Address of a Ray cluster ("auto", "local" or host:port).
    progress : (tiles done, tiles in all) -> None
    """

    processes: int = 1
    ray: str | None = None
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"workers must be at least 1; got {self.processes}")


def tile_size(n: int, latents: int) -> int:
    """Return how many models of n rows are on either side of a tile, so that two panels fit into memory."""
    return int(np.clip(_PANEL_BYTES // (8 * n * latents), 2, 512))


def plan(pools: list[Ints], partners: int | None, rng: np.random.Generator, size: int) -> list[Tile]:
    """Return tiles that compare each model of a pool with `partners` others of it, drawn at random, or all."""
    tiles: list[Tile] = []
    for pool in pools:
        count = len(pool)
        if partners is None or partners >= count - 1:
            tiles += _cut(pool, None, size)
        elif count <= _OWN_DRAW:
            tiles += _cut(pool, _draw(count, partners, rng), size)
        else:
            tiles += _random_blocks(pool, partners, rng, size)
    return tiles


def _cut(models: Ints, wanted: Bools | None, size: int) -> list[Tile]:
    """Return tiles of at most `size` models a side that hold the wanted pairs of these models."""
    parts = np.array_split(np.arange(len(models)), -(-len(models) // size))
    tiles = []
    for k, a in enumerate(parts):
        tiles.append(Tile(models[a], None, None if wanted is None else wanted[np.ix_(a, a)]))
        for b in parts[k + 1 :]:
            there, back = (None, None) if wanted is None else (wanted[np.ix_(a, b)], wanted[np.ix_(b, a)])
            tiles.append(Tile(models[a], models[b], there, back))
    return tiles


def _draw(count: int, partners: int, rng: np.random.Generator) -> Bools:
    keys = rng.random((count, count))
    np.fill_diagonal(keys, 2.0)
    wanted = np.zeros((count, count), bool)
    np.put_along_axis(wanted, np.argpartition(keys, partners - 1, axis=1)[:, :partners], True, axis=1)
    return wanted


def _random_blocks(pool: Ints, partners: int, rng: np.random.Generator, size: int) -> list[Tile]:
    """Return tiles of random blocks of partners + 1 models; the last block borrows sources to be full."""
    order = rng.permutation(pool)
    width = partners + 1
    full = len(order) // width * width
    tiles = [tile for k in range(0, full, width) for tile in _cut(order[k : k + width], None, size)]
    rest = order[full:]
    if len(rest):
        block = np.concatenate([rest, rng.choice(order[:full], width - len(rest), replace=False)])
        wanted = ~np.eye(width, dtype=bool)
        wanted[len(rest) :] = False
        tiles += _cut(block, wanted, size)
    return tiles


def run(work: Work, tiles: list[Tile], workers: int | Workers = 1) -> Iterator[Any]:
    """Yield work(tile) of each tile, in the order of the tiles."""
    who = workers if isinstance(workers, Workers) else Workers(workers)
    if who.ray is not None:
        results = _on_ray(work, tiles, who.ray)
    elif who.processes > 1 and len(tiles) > 1:
        results = _in_processes(work, tiles, min(who.processes, len(tiles)))
    else:
        results = map(work, tiles)
    for done, result in enumerate(results, 1):
        if who.progress is not None:
            who.progress(done, len(tiles))
        yield result


_adopted: Any = None


def _adopt(work: Any) -> None:
    """Make a worker process ready for tiles of this work."""
    from threadpoolctl import threadpool_limits

    global _adopted
    threadpool_limits(1)  # one worker per core: threads of the matrix products would only fight
    _adopted = work


def _work_on(tile: Tile) -> Any:
    return _adopted(tile)


def _in_processes(work: Any, tiles: list[Tile], workers: int) -> Iterator[Any]:
    # Spawned, not forked: the parent may hold threads (BLAS, torch) that do not survive a fork.
    with tempfile.TemporaryDirectory(prefix="karenina-codes-") as folder:
        job = replace(work, codes=work.codes.on_disk(Path(folder)))
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_adopt, initargs=(job,)) as pool:
            yield from pool.map(_work_on, tiles)


def _on_ray(work: Any, tiles: list[Tile], address: str) -> Iterator[Any]:
    try:
        import ray
    except ImportError:
        raise ImportError("running on Ray needs the extra of that name: pip install 'karenina[ray]'") from None
    if not ray.is_initialized():
        ray.init(address=address)
    # A file is named, to be read from shared storage; codes in memory travel once, to Ray's object store.
    job = ray.put(work)
    task = ray.remote(_call)
    yield from (ray.get(reference) for reference in [task.remote(job, tile) for tile in tiles])


def _call(work: Any, tile: Tile) -> Any:
    return work(tile)


# Products of fewer multiplications than this are fast enough in double precision.
_LARGE = 5e8
_RUN = 2000
_LEAST_EIGENVALUE = 0.12


@dataclass(frozen=True)
class Prepared:
    """Prepared codes of some models, stacked: z (K, n), latents of models[m] in rows start[m]:start[m + 1].

    z is in single precision where that is harmless. scale (K,): the standard deviation that each latent had; 0 for a
    constant one, whose row is 0.
    """

    models: Ints
    z: Floats | NDArray[np.float32]
    scale: Floats
    start: Ints


class Moments(NamedTuple):
    """Raw moments of each of F folds of the rows: all that similarities need.

    cross (F, K_a, K_b); grams (F, models, L, L), padded with 0 to the largest L; sums (F, K); sizes (F,).
    """

    cross: Floats
    grams_a: Floats
    grams_b: Floats
    sums_a: Floats
    sums_b: Floats
    sizes: Ints

    def turned(self) -> "Moments":
        """Return the same with the panels exchanged."""
        cross = np.ascontiguousarray(self.cross.transpose(0, 2, 1))
        return Moments(cross, self.grams_b, self.grams_a, self.sums_b, self.sums_a, self.sizes)


def prepare(
    codes: Codes, models: Ints, *, ranks: bool = False, keep: list[Bools] | None = None, exact: bool = False
) -> Prepared:
    """Return codes (or their ranks) of these models, mean 0 and variance 1 per latent; 0 for latents not in `keep`.

    A large panel is made in single precision, which halves the cost of its products, where that is harmless: of ranks,
    whose correlations are read off the product, and of latents that are far from collinear. Not if `exact`.
    """
    start = np.concatenate([[0], np.cumsum(codes.sizes[models])])
    if exact or float(start[-1]) ** 2 * codes.n <= _LARGE:
        return _prepared_as(codes, models, start, ranks, keep, np.float64)
    made = _prepared_as(codes, models, start, ranks, keep, np.float32)
    return made if ranks or _far_from_collinear(made) else _prepared_as(codes, models, start, ranks, keep, np.float64)


def _prepared_as(
    codes: Codes, models: Ints, start: Ints, ranks: bool, keep: list[Bools] | None, dtype: type
) -> Prepared:
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
    return Prepared(models, z, scale, start)


def fold_edges(n: int, folds: int) -> Ints:
    """Return bounds of contiguous folds of n rows, the first n % folds one longer, as KFold without shuffling."""
    return np.cumsum([0, *(len(part) for part in np.array_split(np.arange(n), folds))])


def _grams(p: Prepared, edges: Ints, pad: int, cross: Floats | None) -> Floats:
    """Return moments of each model's latents with one another; `cross` has them if it is of the panel with itself."""
    out = np.zeros((len(edges) - 1, len(p.start) - 1, pad, pad))
    for m in range(len(p.start) - 1):
        own = slice(p.start[m], p.start[m + 1])
        size = own.stop - own.start
        for f in range(len(edges) - 1):
            part = p.z[own, edges[f] : edges[f + 1]]
            out[f, m, :size, :size] = _product(part, part) if cross is None else cross[f, own, own]
    return out


def _product(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Return a b' in double precision; single ones are multiplied in short runs of columns."""
    if a.dtype == np.float64 or b.dtype == np.float64:
        return np.asarray(a, float) @ np.asarray(b, float).T  # numpy sees when b is a, and does half the work
    out = np.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], _RUN):
        out += a[:, k : k + _RUN] @ b[:, k : k + _RUN].T
    return out


def _far_from_collinear(p: Prepared) -> bool:
    """Return whether codes are so far from collinear that float32 changes no lasso weight by 1e-6.

    Errors grow with the inverse of the least eigenvalue.
    """
    some = p.z[:, : 100 * int(np.diff(p.start).max())].astype(float)
    for m in range(len(p.start) - 1):
        own = some[p.start[m] : p.start[m + 1]]
        own = own[own.any(axis=1)]  # latents without variance take no part
        if len(own) and np.linalg.eigvalsh(own @ own.T)[0] < _LEAST_EIGENVALUE * own.shape[1]:
            return False
    return True


def moments_of(a: Prepared, b: Prepared, pad: int, folds: int = 1) -> Moments:
    """Return moments of every latent of `a` with every latent of `b` (which may be the same panel).

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
    return Moments(cross, grams_a, grams_b, sums_a, sums_b, np.diff(edges))


# How a source predicts a target: its correlations; a lasso per latent; a multi-task lasso; that by cross-validation.
Method = Literal["correlation", "lasso", "multitask", "multitask_cv"]
# The penalties of cross-validation: as many, and down to this part of the largest, as in scikit-learn.
_FALLS = np.array([1e-3 ** (k / 99) for k in range(100)])


class Side(NamedTuple):
    """Models of one side of pairs: latents of model m are start[m]:start[m + 1]; active says which are active."""

    start: Ints
    active: Bools


@njit(cache=True)
def _matched(R: Floats, rows: Bools, cols: Bools, filtered: bool) -> float:
    """Return the sum over active rows of (max_b R_ab)^2 / sum_b R_ab. filtered: over active columns alone."""
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
    """Return equation 2 of a similarity matrix R (L_t, L_s) >= 0; 0 when either model has no active latent.

    With d_t and d_s active latents a of the target and b of the source,

        UDR = [ sum_a (max_b R_ab)^2 / sum_b R_ab  +  sum_b (max_a R_ab)^2 / sum_a R_ab ] / (d_t + d_s):

    Duan et al. (2020). No term counts for more than 1, a latent with a perfect match; so neither does their mean. Lasso
    weights "roughly lie in [-1, 1]" (A.5), where (max R)^2 / sum R <= max R <= 1; those of nearly collinear latents do
    not.
    filtered: the released variant. Inactive rows and columns are left out of the maxima and sums too, and the two
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
    """Return 1 - entropy of the rows over the columns, in units of its largest value, weighted by the rows' sums."""
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
    """Return what DCI (Eastwood & Williams 2018) makes of R, in place of equation 2: Duan et al. (2020), A.2, tried it.

    The mean of both directions over active latents; 0 when either model has none.
    """
    return 0.5 * (_concentration(R, target, source) + _concentration(R.T, source, target))


@njit(cache=True)
def _targets_of(cross: Floats, i: int, L: int, start: Ints, targets: Ints, n: int) -> Floats:
    """Return moments (L, latents of these targets) of the L source latents from i on."""
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
    """Return weights (L, latents of these targets) of a multi-task lasso for each, and how many did not converge."""
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
    """Return lasso weights, the penalty of each target by cross-validation, and how many did not converge.

    The latents of source s are i to i + L.
    """
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
    actives: Bools,
    targets: Ints,
    filtered: bool,
    entropic: bool,
    scores: Floats,
    matrices: Floats,
) -> None:
    """Write the UDR of one source with each of its targets, from its weights (L_s, latents of these targets)."""
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
        active = actives[k : k + T]
        scores[p] = entropy_value(R, active, source) if entropic else udr_value(R, active, source, filtered)
        column += T


def _weights(method: Method, moments: Any, source: Side, target: Side, s: int, targets: Ints, alpha: float) -> Any:
    """Return the weights (L, their latents) of source s for these targets, and how many fits did not converge."""
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
    """Write the UDR of pairs (targets[p], sources[p]) to `scores`; return how many fits did not converge.

    filtered: see udr_value; entropic: entropy_value instead. moments: of sources and targets, of one fold except for
    cross-validation. Pairs come sorted by source. matrices (P, L_t, L_s): takes |R|, unless it is empty.
    """
    unsolved = 0
    bounds = np.flatnonzero(np.diff(sources, prepend=-1, append=-1))
    for first, end in itertools.pairwise(bounds):  # one fit for all targets of a source
        s, these = int(sources[first]), targets[first:end]
        W, missed = _weights(method, moments, source, target, s, these, alpha)
        unsolved += missed
        active = source.active[source.start[s] : source.start[s + 1]]
        kept = matrices[first:end] if len(matrices) else matrices
        _aggregate(W, active, target.start, target.active, these, filtered, entropic, scores[first:end], kept)
    return unsolved


_FOLDS = 5

Pairs = tuple[Ints, Ints, Floats, Floats, int]


@dataclass(frozen=True)
class Preset:
    """A way to compute similarities and to count them.

    Parameters
    ----------
    alpha : float
        Penalty of the lasso; None: chosen by 5-fold cross-validation.
    multitask : bool
        One multi-task lasso per pair of models, or one lasso per latent of the target.
    uninformative : "zero", "keep" or "drop"
        "zero" sets inactive latents to 0, as the authors' release does: the mean code of an inactive latent is a
        faint copy of active ones, and brought to variance 1 it passes for one of them. "keep" leaves them, the letter
        of equation 2, in which they only have no term of their own. "drop" also leaves them out of the sums, and takes
        the mean over each model's latents before the mean of the two models, as disentanglement_lib does.
    aggregation : "maximum" or "entropy"
        How a similarity matrix becomes a number: equation 2, or the entropies of DCI, which Duan et al. (2020), A.2,
        found inferior; it counts active latents alone.
    kl_threshold : float
        Above this KL a latent is active, in nats, unless `udr` is given another.
    """

    alpha: float | None = None
    multitask: bool = True
    uninformative: Literal["zero", "keep", "drop"] = "zero"
    aggregation: Literal["maximum", "entropy"] = "maximum"
    kl_threshold: float = ACTIVE_KL

    def __post_init__(self) -> None:
        if self.alpha is not None and not self.alpha > 0:
            raise ValueError(f"alpha must be above 0; got {self.alpha}")
        if self.alpha is None and not self.multitask:
            raise ValueError("a lasso per latent needs its alpha: cross-validation is of the multi-task lasso")
        one_of("uninformative", self.uninformative, ("zero", "keep", "drop"))
        one_of("aggregation", self.aggregation, ("maximum", "entropy"))


PRESETS = {
    "paper": Preset(),
    "dlib": Preset(alpha=0.1, multitask=False, uninformative="drop", kl_threshold=0.01),
}


def udr(
    codes: Sequence[ArrayLike] | NDArray[Any],
    kl: Sequence[ArrayLike] | NDArray[Any],
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    *,
    similarity: Literal["lasso", "spearman"] = "lasso",
    preset: Literal["paper", "dlib"] | Preset = "paper",
    all_to_all: bool = False,
    partners: int | None = None,
    n: int | None = None,
    seed: int | np.random.Generator = 0,
    kl_threshold: float | None = None,
    matrices: bool = False,
    workers: int | Workers = 1,
) -> Ranking:
    """Return the UDR of each model, its median similarity to its partners (equation 2). Higher is better.

    Within a setting UDR tells which hyperparameters are good; to choose one model use all_to_all, since scores within a
    setting are drawn towards their common level. UDR does not punish a model that found few factors: compare models
    with the same number of active latents (`Ranking.best_per_informative`).

    Parameters
    ----------
    codes : M arrays (n, L_i), or one (M, n, L)
        Mean codes of M models on the same n inputs in the same order. A memory-mapped array is read a few models at a
        time.
    kl : M rows (L_i,)
        KL from the prior of each latent, mean over the inputs. Latents above `kl_threshold` are active; a model
        without any scores 0 and is no one's partner.
    groups : M labels
        Partners share the label: the setting, when models differ in their seed. None: any other model is a partner.
    similarity : "lasso" (UDR_L) or "spearman" (UDR_S)
        Lasso weights, or absolute rank correlations. The paper used 10,000 rows for the first, 1,000 for the second.
    preset : "paper", "dlib" (disentanglement_lib) or a `Preset`
    all_to_all : bool
        Any other model is a partner, whatever its group.
    partners : int
        How many partners each model gets, drawn without replacement; None: all.
    n : int
        Use this many of the rows, drawn at random. Folds are contiguous: give rows in random order.
    seed : int or Generator
    kl_threshold : float
        None: that of the preset, 0.05 nats ("dlib": 0.01).
    matrices : bool
        Keep the similarity matrix of every pair, too, in `.matrices`.
    workers : int or `Workers`
        Processes, or where else to compute; the result is the same to the bit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(1000, 4))
    >>> ranking = udr([z, -z[:, ::-1], z @ np.linalg.qr(rng.normal(size=(4, 4)))[0]], np.ones((3, 4)))
    >>> bool(ranking.pairwise[0, 1] > 0.99), bool(ranking.pairwise[0, 2] < 0.7)
    (True, True)
    """
    chosen = _checked(similarity, preset)
    if partners is not None:
        positive_integer(partners, "partners")
    if kl_threshold is None:
        kl_threshold = chosen.kl_threshold
    if not kl_threshold >= 0:
        raise ValueError(f"kl_threshold must be at least 0; got {kl_threshold}")
    method = _method(similarity, chosen)
    draw_rows, draw_partners = np.random.default_rng(seed).spawn(2)
    checked = check_codes(codes, n, draw_rows, 2 * _FOLDS if method == "multitask_cv" else 3)
    active = check_kl(kl, checked.sizes, kl_threshold)
    counts = np.array([int(mask.sum()) for mask in active])
    labels = check_groups(groups, len(checked), "model")
    pools = [members for _, members in (check_groups(None, len(checked), "model") if all_to_all else labels)]
    if max(len(pool) for pool in pools) < 2:
        raise ValueError("no model has a partner: no group has two models. Use all_to_all=True or fewer groups")
    pools = [pool[counts[pool] > 0] for pool in pools]

    work = Similarities(checked, active, method, chosen, matrices)
    size = tile_size(checked.n, int(checked.sizes.max()))
    tiles = plan([pool for pool in pools if len(pool) > 1], partners, draw_partners, size)
    start, sources, values, kept, unsolved = _gather(run(work, tiles, workers), tiles, checked.sizes)
    scores, interval = medians(start, values)
    scores[counts == 0] = 0.0
    alone = np.flatnonzero(np.isnan(scores))
    if unsolved:
        _warn(f"{unsolved} lasso fits did not converge: latents are nearly collinear")
    if len(alone):
        _warn(
            f"{len(alone)} models have no partner and get no score (NaN), the first is model {alone[0]}: "
            "the rest of its group is missing or collapsed"
        )
    near = near_threshold((as_array(row).astype(float) for row in kl_rows(kl)), kl_threshold)
    if near:
        _warn(near)
    names = np.empty(len(checked), object)
    for label, members in labels:
        for model in members:
            names[model] = label
    kept_matrices = kept if matrices else None
    return Ranking(scores, interval, counts, tuple(names), start, sources, values, kept_matrices, kl_threshold)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=3)


def similarity_matrix(
    target: ArrayLike,
    source: ArrayLike,
    *,
    similarity: Literal["lasso", "spearman"] = "lasso",
    preset: Literal["paper", "dlib"] | Preset = "paper",
) -> Floats:
    """Return |R| of two models, as `udr` computes it: rows are latents of the target (figure 5 of Duan et al. 2020).

    Parameters
    ----------
    target, source : (n, L_target), (n, L_source)
        Mean codes on the same inputs; with preset "dlib" those of active latents only.
    similarity, preset : as in `udr`

    Returns
    -------
    (L_target, L_source)

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(500, 2))
    >>> similarity_matrix(z, z[:, ::-1], similarity="spearman").round(1)
    array([[0., 1.],
           [1., 0.]])
    """
    target, source = np.asarray(target), np.asarray(source)
    chosen = _checked(similarity, preset)
    method = _method(similarity, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a model compared with itself is a fair question here
        codes = check_codes([target, source], None, 0, 2 * _FOLDS if method == "multitask_cv" else 3)
    everything = [np.ones(size, bool) for size in codes.sizes]
    work = Similarities(codes, everything, method, chosen, True)
    wanted = np.array([[False, True], [False, False]])
    *_, matrices, _ = work(Tile(np.arange(2), None, wanted))[0]
    return matrices[0, : codes.sizes[0], : codes.sizes[1]]


def _checked(similarity: str, preset: str | Preset) -> Preset:
    one_of("similarity", similarity, ("lasso", "spearman"))
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise ValueError(f'preset must be "paper", "dlib" or a Preset; got {preset!r}')
    return PRESETS[preset]


def _method(similarity: str, preset: Preset) -> Method:
    if similarity == "spearman":
        return "correlation"
    if not preset.multitask:
        return "lasso"
    return "multitask_cv" if preset.alpha is None else "multitask"


@dataclass(frozen=True)
class Similarities:
    """The work of a tile: (targets, sources, UDR_ij, matrices, fits that did not converge) of its pairs, both ways."""

    codes: Codes
    active: list[Bools]
    method: Method
    preset: Preset
    matrices: bool
    # The last panel of rows: consecutive tiles share it.
    last: dict[bytes, Prepared] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, tile: Tile) -> list[Pairs]:
        a = self._panel(tile.rows)
        b = a if tile.cols is None else self._prepare(tile.cols)
        folds = _FOLDS if self.method == "multitask_cv" else 1
        moments = moments_of(a, b, int(self.codes.sizes.max()), folds)
        wanted = np.ones((len(a.models), len(b.models)), bool) if tile.wanted is None else tile.wanted.copy()
        if a is b:
            np.fill_diagonal(wanted, False)
            return [self._score(wanted, a, a, moments)]  # of a panel with itself the moments are symmetric
        back = np.ones_like(wanted.T) if tile.back is None else tile.back
        return [self._score(wanted, a, b, moments.turned()), self._score(back, b, a, moments)]

    def _score(self, wanted: Bools, target: Prepared, source: Prepared, moments: Moments) -> Pairs:
        """Return the wanted pairs, scored. moments: of source and target."""

        sources, targets = np.nonzero(wanted.T)
        scores = np.empty(len(targets))
        widest = int(self.codes.sizes.max())
        matrices = np.zeros((len(targets) if self.matrices else 0, widest, widest))

        def side(of: Prepared) -> Side:
            return Side(of.start, np.concatenate([self.active[m] for m in of.models]))

        unsolved = score_pairs(
            self.method,
            moments,
            side(source),
            side(target),
            sources,
            targets,
            self.preset.alpha or 0.0,
            self.preset.uninformative == "drop",
            self.preset.aggregation == "entropy",
            scores,
            matrices,
        )
        return target.models[targets], source.models[sources], scores, matrices, unsolved

    def _prepare(self, models: Ints) -> Prepared:
        ranks, exact = (
            self.method == "correlation",
            self.method == "multitask_cv",
        )  # Cross-validation gains nothing from lower precision.
        keep = None if self.preset.uninformative == "keep" else self.active
        return prepare(self.codes, models, ranks=ranks, keep=keep, exact=exact)

    def _panel(self, models: Ints) -> Prepared:
        key = models.tobytes()
        if key not in self.last:
            self.last.clear()
            self.last[key] = self._prepare(models)
        return self.last[key]


def _gather(
    results: Iterable[list[Pairs]], tiles: list[Tile], latents: Ints
) -> tuple[Ints, NDArray[np.int32], Floats, dict[tuple[int, int], Floats], int]:
    """Return pairs by target: those of model i are start[i]:start[i + 1] of sources and values."""
    counts = np.zeros(len(latents), np.int64)
    for tile in tiles:
        cols = tile.rows if tile.cols is None else tile.cols
        own = tile.cols is None and tile.wanted is None  # a model is not its own partner
        counts[tile.rows] += len(cols) - own if tile.wanted is None else tile.wanted.sum(axis=1)
        if tile.cols is not None:
            counts[cols] += len(tile.rows) if tile.back is None else tile.back.sum(axis=1)
    start = np.concatenate([[0], np.cumsum(counts)])
    sources = np.empty(start[-1], np.int32)
    values = np.empty(start[-1])
    kept: dict[tuple[int, int], Floats] = {}
    filled = start[:-1].copy()
    unsolved = 0
    for targets, partners, scores, matrices, failed in chain.from_iterable(results):
        order = np.argsort(targets, kind="stable")
        sorted_targets = targets[order]
        nth = np.arange(len(order)) - np.searchsorted(sorted_targets, sorted_targets)
        place = filled[sorted_targets] + nth
        sources[place] = partners[order]
        values[place] = scores[order]
        filled += np.bincount(targets, minlength=len(latents))
        unsolved += failed
        for i, j, matrix in zip(targets, partners, matrices):
            kept[int(i), int(j)] = matrix[: latents[i], : latents[j]].copy()
    return start, sources, values, kept, unsolved


@dataclass(frozen=True, eq=False)
class Likeness:
    """Symmetric (M, M) matrices, 1 on the diagonal, NaN between models that were not compared.

    mcc: mean absolute correlation of latents matched one to one. cka: linear centred kernel alignment.
    """

    mcc: Floats
    cka: Floats

    def centrality(self, by: Literal["mcc", "cka"] = "mcc") -> Floats:
        """Return the mean likeness (M,) of each model to the others; NaN without any."""
        values = np.array({"mcc": self.mcc, "cka": self.cka}[by])
        np.fill_diagonal(values, np.nan)
        count = (~np.isnan(values)).sum(axis=1)
        return np.divide(np.nansum(values, axis=1), count, out=np.full(len(count), np.nan), where=count > 0)

    def medoid(self, by: Literal["mcc", "cka"] = "mcc") -> int:
        """Return the model that is most like all others."""
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
        active = [np.ones(size, bool) for size in checked.sizes]
    else:
        active = check_kl(kl, checked.sizes, kl_threshold)
    pools = [rows for _, rows in check_groups(groups, len(checked), "model") if len(rows) > 1]
    tiles = plan(pools, None, np.random.default_rng(seed), tile_size(checked.n, int(checked.sizes.max())))
    mcc = np.full((len(checked), len(checked)), np.nan)
    cka = mcc.copy()
    work = Comparison(checked, active, correlation)
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
    active: list[Bools]
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
            block = block[np.ix_(self.active[tile.rows[i]], self.active[cols[j]])]
            matched[k] = block[linear_sum_assignment(-block)].mean() if block.size else 0.0
        return tile.rows[first], cols[second], matched, cka[first, second]

    def _moments(self, tile: Tile, ranks: bool = False) -> tuple[Prepared, Prepared, Moments]:
        """Return both panels and the moments of the codes, or of their ranks."""
        a = prepare(self.codes, tile.rows, ranks=ranks, keep=self.active)
        b = a if tile.cols is None else prepare(self.codes, tile.cols, ranks=ranks, keep=self.active)
        return a, b, moments_of(a, b, int(self.codes.sizes.max()))


def _energy(covariance: Floats, start_a: Ints, start_b: Ints) -> Floats:
    """Return the sum of squares of each pair's block."""
    squares = covariance**2
    return np.add.reduceat(np.add.reduceat(squares, start_a[:-1], axis=0), start_b[:-1], axis=1)


def _own_energy(grams: Floats, scale: Floats, start: Ints) -> Floats:
    """Return the sum of squares of each model's covariances."""
    out = np.empty(len(grams))
    for m, gram in enumerate(grams):
        own = scale[start[m] : start[m + 1]]
        out[m] = ((gram[: len(own), : len(own)] * own[:, None] * own) ** 2).sum()
    return out
