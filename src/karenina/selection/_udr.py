"""Unsupervised Disentanglement Ranking (Duan et al. 2020, section 4): models that agree are probably right."""

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL, near_threshold
from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.checks import as_array, one_of, positive_integer
from karenina.numerics.resampling import medians
from karenina.selection._inputs import Codes, check_codes, check_groups, check_kl, kl_rows
from karenina.selection._moments import Blocks, Panel, blocks, panel
from karenina.selection._pairs import Side, score_pairs
from karenina.selection._ranking import Ranking
from karenina.selection._tiles import Tile, Workers, plan, run, tile_size

if TYPE_CHECKING:
    from karenina.selection._pairs import Method

_FOLDS = 5

Pairs = tuple[Ints, Ints, Floats, Floats, int]


@dataclass(frozen=True)
class Preset:
    """How similarities are computed and counted.

    Parameters
    ----------
    alpha : float
        Penalty of the lasso; None: chosen by 5-fold cross-validation.
    multitask : bool
        One multi-task lasso per pair of models, or one lasso per latent of the target.
    uninformative : "zero", "keep" or "drop"
        "zero" sets uninformative latents to 0, as the authors' release does: the mean code of an inactive latent is a
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
    """UDR of each model: the median similarity of its latents to those of its partners (equation 2). Higher is better.

    Within a setting UDR tells which hyperparameters are good; to choose one model use all_to_all, since scores within a
    setting are drawn towards their common level. UDR does not punish a model that found few factors: compare models
    with the same number of informative latents (`Ranking.best_per_informative`).

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
    informative = check_kl(kl, checked.sizes, kl_threshold)
    counts = np.array([int(mask.sum()) for mask in informative])
    labels = check_groups(groups, len(checked), "model")
    pools = [members for _, members in (check_groups(None, len(checked), "model") if all_to_all else labels)]
    if max(len(pool) for pool in pools) < 2:
        raise ValueError("no model has a partner: no group has two models. Use all_to_all=True or fewer groups")
    pools = [pool[counts[pool] > 0] for pool in pools]

    work = Similarities(checked, informative, method, chosen, matrices)
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
    """|R| of one pair of models, as `udr` computes it: rows are latents of the target (figure 5 of Duan et al. 2020).

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


def _method(similarity: str, preset: Preset) -> "Method":
    if similarity == "spearman":
        return "correlation"
    if not preset.multitask:
        return "lasso"
    return "multitask_cv" if preset.alpha is None else "multitask"


@dataclass(frozen=True)
class Similarities:
    """The work of a tile: (targets, sources, UDR_ij, matrices, fits that did not converge) of its pairs, both ways."""

    codes: Codes
    informative: list[Bools]
    method: "Method"
    preset: Preset
    matrices: bool
    # The last panel of rows: consecutive tiles share it.
    last: dict[bytes, Panel] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, tile: Tile) -> list[Pairs]:
        a = self._panel(tile.rows)
        b = a if tile.cols is None else self._prepare(tile.cols)
        folds = _FOLDS if self.method == "multitask_cv" else 1
        moments = blocks(a, b, int(self.codes.sizes.max()), folds)
        wanted = np.ones((len(a.models), len(b.models)), bool) if tile.wanted is None else tile.wanted.copy()
        if a is b:
            np.fill_diagonal(wanted, False)
            return [self._score(wanted, a, a, moments)]  # of a panel with itself the moments are symmetric
        back = np.ones_like(wanted.T) if tile.back is None else tile.back
        return [self._score(wanted, a, b, moments.turned()), self._score(back, b, a, moments)]

    def _score(self, wanted: Bools, target: Panel, source: Panel, moments: Blocks) -> Pairs:
        """moments: of source and target."""

        sources, targets = np.nonzero(wanted.T)
        scores = np.empty(len(targets))
        widest = int(self.codes.sizes.max())
        matrices = np.zeros((len(targets) if self.matrices else 0, widest, widest))

        def side(of: Panel) -> Side:
            return Side(of.start, np.concatenate([self.informative[m] for m in of.models]))

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

    def _prepare(self, models: Ints) -> Panel:
        ranks, exact = self.method == "correlation", self.method == "multitask_cv"  # folds gain nothing from less
        keep = None if self.preset.uninformative == "keep" else self.informative
        return panel(self.codes, models, ranks=ranks, keep=keep, exact=exact)

    def _panel(self, models: Ints) -> Panel:
        key = models.tobytes()
        if key not in self.last:
            self.last.clear()
            self.last[key] = self._prepare(models)
        return self.last[key]


def _gather(
    results: Iterable[list[Pairs]], tiles: list[Tile], latents: Ints
) -> tuple[Ints, NDArray[np.int32], Floats, dict[tuple[int, int], Floats], int]:
    """Pairs by target: those of model i are start[i]:start[i + 1] of sources and values."""
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
