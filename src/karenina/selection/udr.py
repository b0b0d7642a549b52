"""Unsupervised Disentanglement Ranking (Duan et al. 2020, section 4): models that agree are probably right."""

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL, near_threshold
from karenina.numerics.medians import medians
from karenina.selection._blocks import Panel, blocks, panel
from karenina.selection._inputs import Bools, Codes, Floats, Ints, check_codes, check_groups, check_kl
from karenina.selection._ranking import Ranking
from karenina.selection.shards import Tile, plan, run, tile_size

_CORRELATION, _LASSO, _MULTITASK, _MULTITASK_CV = range(4)
_FOLDS = 5
_DLIB_ALPHA = 0.1

Pairs = tuple[Ints, Ints, Floats, Floats, int]


def udr(
    codes: Sequence[ArrayLike] | NDArray[Any],
    kl: Sequence[ArrayLike] | NDArray[Any],
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    *,
    similarity: Literal["lasso", "spearman"] = "lasso",
    preset: Literal["paper", "dlib"] = "paper",
    uninformative: Literal["zero", "keep"] = "zero",
    partners: int | None = None,
    all_to_all: bool = False,
    n: int | None = None,
    seed: int | np.random.Generator = 0,
    kl_threshold: float = ACTIVE_KL,
    alpha: float | None = None,
    confidence: float = 0.95,
    matrices: bool = False,
    workers: int = 1,
    ray: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ranking:
    """UDR of each model: the median similarity of its latents to those of its partners (equation 2). Higher is better.

    codes: mean codes of M models on the same n inputs in the same order: M arrays (n, L_i), one array (M, n, L), or a
        memory-mapped one, which is read a few models at a time. Numbers of latents may differ.
    kl: KL from the prior of each latent, mean over the inputs: M rows (L_i,). Latents above `kl_threshold` are
        informative; a model without any scores 0 and is no one's partner.
    groups: M labels. Partners share the label: the setting, when models differ in their seed. None, or all_to_all=True:
        any other model is a partner.
    similarity: "lasso" (UDR_L), multi-task lasso with alpha chosen by 5-fold cross-validation, or at the fixed `alpha`;
        "spearman" (UDR_S), absolute rank correlation. The paper used 10,000 rows for the first, 1,000 for the second.
    preset: "dlib" repeats disentanglement_lib: a plain lasso per latent with alpha 0.1, uninformative latents left out
        of the counts too, and the mean over each model's latents before the mean of the two models.
    uninformative: "zero" sets those latents to 0, as the authors' release does: the mean code of a dead latent is a
        faint copy of live ones, and brought to variance 1 it passes for one of them. "keep" leaves them, the letter of
        equation 2, in which they only have no term of their own.
    partners: how many partners each model gets, drawn without replacement; None for all.
    n: use this many of the rows, drawn at random; None for all. Folds are contiguous: give rows in random order.
    confidence: of the intervals, which need 6 partners at 0.95, 5 at 0.93, 4 at 0.87.
    matrices: keep the similarity matrix of every pair, too, in `.matrices`.
    workers, ray, progress: see `karenina.selection.shards.run`; they do not change the result.

    Within a setting UDR tells which hyperparameters are good; to choose one model use all_to_all, since scores within a
    setting are drawn towards that of the herd. UDR does not punish a model that found few factors: compare models with
    the same number of informative latents (`best_per_informative`).

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(1000, 4))
    >>> ranking = udr([z, -z[:, ::-1], z @ np.linalg.qr(rng.normal(size=(4, 4)))[0]], np.ones((3, 4)))
    >>> bool(ranking.pairwise[0, 1] > 0.99), bool(ranking.pairwise[0, 2] < 0.7)
    (True, True)
    """
    _check_options(similarity, preset, partners, kl_threshold, alpha, confidence)
    if uninformative not in ("zero", "keep") or (uninformative == "keep" and preset == "dlib"):
        raise ValueError(f'uninformative must be "zero", or "keep" with preset="paper"; got {uninformative!r}')
    method = _method(similarity, preset, alpha)
    draw_rows, draw_partners = np.random.default_rng(seed).spawn(2)
    checked = check_codes(codes, n, draw_rows, 2 * _FOLDS if method == _MULTITASK_CV else 3)
    informative = check_kl(kl, checked.sizes, kl_threshold)
    counts = np.array([int(mask.sum()) for mask in informative])
    labels = check_groups(groups, len(checked), "model")
    pools = [members for _, members in (check_groups(None, len(checked), "model") if all_to_all else labels)]
    if max(len(pool) for pool in pools) < 2:
        raise ValueError("no model has a partner: no group has two models. Use all_to_all=True or fewer groups")
    pools = [pool[counts[pool] > 0] for pool in pools]

    fixed = alpha if alpha is not None else _DLIB_ALPHA
    work = Similarities(checked, informative, method, preset == "dlib", fixed, matrices, uninformative == "keep")
    size = tile_size(checked.n, int(checked.sizes.max()))
    tiles = plan([pool for pool in pools if len(pool) > 1], partners, draw_partners, size)
    start, sources, values, kept, unsolved = _gather(run(work, tiles, workers, ray, progress), tiles, checked.sizes)
    if unsolved:
        warnings.warn(
            f"{unsolved} lasso fits did not converge: latents are nearly collinear", UserWarning, stacklevel=2
        )
    scores, interval = medians(start, values, confidence)
    scores[counts == 0] = 0.0
    lonely = np.flatnonzero(np.isnan(scores))
    if len(lonely):
        warnings.warn(
            f"{len(lonely)} models have no partner and get no score (NaN), the first is model {lonely[0]}: "
            "the rest of its group is missing or collapsed",
            UserWarning,
            stacklevel=2,
        )
    near = near_threshold((np.asarray(row, float) for row in kl), kl_threshold)
    if near:
        warnings.warn(near, UserWarning, stacklevel=2)
    names = np.empty(len(checked), object)
    for label, members in labels:
        for model in members:
            names[model] = label
    kept_matrices = kept if matrices else None
    return Ranking(scores, interval, counts, tuple(names), start, sources, values, kept_matrices, kl_threshold)


def similarity_matrix(
    target: ArrayLike,
    source: ArrayLike,
    *,
    similarity: Literal["lasso", "spearman"] = "lasso",
    preset: Literal["paper", "dlib"] = "paper",
    alpha: float | None = None,
) -> Floats:
    """|R| (L_target, L_source) of one pair of models, as `udr` computes it: rows are latents of the target.

    Figure 5 of the paper shows these. With preset "dlib" give the informative latents only.
    """
    target, source = np.asarray(target), np.asarray(source)
    _check_options(similarity, preset, None, 0.0, alpha, 0.95)
    method = _method(similarity, preset, alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a model compared with itself is a fair question here
        codes = check_codes([target, source], None, 0, 2 * _FOLDS if method == _MULTITASK_CV else 3)
    everything = [np.ones(size, bool) for size in codes.sizes]
    work = Similarities(codes, everything, method, False, alpha if alpha is not None else _DLIB_ALPHA, True)
    wanted = np.array([[False, True], [False, False]])
    *_, matrices, _ = work(Tile(np.arange(2), None, wanted))
    return matrices[0, : codes.sizes[0], : codes.sizes[1]]


def _check_options(
    similarity: str, preset: str, partners: int | None, kl_threshold: float, alpha: float | None, confidence: float
) -> None:
    if similarity not in ("lasso", "spearman"):
        raise ValueError(f'similarity must be "lasso" or "spearman"; got {similarity!r}')
    if preset not in ("paper", "dlib"):
        raise ValueError(f'preset must be "paper" or "dlib"; got {preset!r}')
    if partners is not None and partners < 1:
        raise ValueError(f"partners must be at least 1; got {partners}")
    if not kl_threshold >= 0:
        raise ValueError(f"kl_threshold must be at least 0; got {kl_threshold}")
    if alpha is not None and (similarity != "lasso" or not alpha > 0):
        raise ValueError(f'alpha must be above 0 and goes with similarity="lasso"; got {alpha} with {similarity!r}')
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence}")


def _method(similarity: str, preset: str, alpha: float | None) -> int:
    if similarity == "spearman":
        return _CORRELATION
    if preset == "dlib":
        return _LASSO
    return _MULTITASK_CV if alpha is None else _MULTITASK


@dataclass(frozen=True)
class Similarities:
    """The work of one tile: (targets, sources, UDR_ij, matrices, fits that did not converge) of its pairs."""

    codes: Codes
    informative: list[Bools]
    method: int
    filtered: bool
    alpha: float
    matrices: bool
    keep: bool = False
    # The last panel of rows: consecutive tiles share it.
    last: dict[bytes, Panel] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, tile: Tile) -> Pairs:
        a = self._panel(tile.rows)
        b = a if tile.cols is None else self._prepare(tile.cols)
        folds = _FOLDS if self.method == _MULTITASK_CV else 1
        moments = blocks(a, b, int(self.codes.sizes.max()), folds)
        cols = tile.rows if tile.cols is None else tile.cols
        wanted = np.ones((len(tile.rows), len(cols)), bool) if tile.wanted is None else tile.wanted.copy()
        if tile.cols is None:
            np.fill_diagonal(wanted, False)
        sides = [(wanted, tile.rows, cols, a, b, moments.sums_a, moments.sums_b, moments.grams_b)]
        # Of a panel with itself the moments are symmetric.
        crosses = [moments.cross if a is b else np.ascontiguousarray(moments.cross.transpose(0, 2, 1))]
        if tile.cols is not None:
            back = np.ones_like(wanted.T) if tile.back is None else tile.back
            sides.append((back, cols, tile.rows, b, a, moments.sums_b, moments.sums_a, moments.grams_a))
            crosses.append(moments.cross)
        return _merge([self._score(*side, cross, moments.sizes) for side, cross in zip(sides, crosses)])

    def _score(
        self,
        wanted: Bools,
        target_models: Ints,
        source_models: Ints,
        target: Panel,
        source: Panel,
        target_sums: Floats,
        source_sums: Floats,
        grams: Floats,
        cross: Floats,
        sizes: Ints,
    ) -> Pairs:
        from karenina.selection._pairs import score_pairs

        sources, targets = np.nonzero(wanted.T)
        scores = np.empty(len(targets))
        widest = int(self.codes.sizes.max())
        matrices = np.zeros((len(targets) if self.matrices else 0, widest, widest))
        unsolved = score_pairs(
            self.method,
            grams,
            cross,
            source_sums,
            target_sums,
            sizes,
            source.start,
            target.start,
            np.concatenate([self.informative[m] for m in source_models]),
            np.concatenate([self.informative[m] for m in target_models]),
            sources,
            targets,
            self.alpha,
            self.filtered,
            scores,
            matrices,
        )
        return target_models[targets], source_models[sources], scores, matrices, unsolved

    def _prepare(self, models: Ints) -> Panel:
        ranks, exact = self.method == _CORRELATION, self.method == _MULTITASK_CV  # folds gain nothing from less
        return panel(self.codes, models, ranks=ranks, keep=None if self.keep else self.informative, exact=exact)

    def _panel(self, models: Ints) -> Panel:
        key = models.tobytes()
        if key not in self.last:
            self.last.clear()
            self.last[key] = self._prepare(models)
        return self.last[key]


def _merge(parts: list[Pairs]) -> Pairs:
    targets, sources, scores, matrices, unsolved = zip(*parts)
    return (
        np.concatenate(targets),
        np.concatenate(sources),
        np.concatenate(scores),
        np.concatenate(matrices),
        sum(unsolved),
    )


def _gather(
    results: Iterable[Pairs], tiles: list[Tile], latents: Ints
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
    for targets, partners, scores, matrices, failed in results:
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
