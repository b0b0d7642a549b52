"""Choose models by the factors that they agree on: a consensus of independent components stands in for labels.

Most models of a set mix the factors, each in its own way. But each model, turned to its independent components, says
what the factors might be, and the components that many models share probably are factors. A model is good if each of
these shared components is in one latent of its own (match), and if its latents are no mixtures, which are nearer
to a Gaussian than what they mix (independence). Found on models of three data sets, then judged on others:
docs/results/consensus.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from karenina._active import ACTIVE_KL
from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.columns import standardised_ranks
from karenina.numerics.independent import independent_components
from karenina.selection._inputs import check_codes, check_kl

SHARPNESS = 8  # power of a correlation: of .9 counts .43, of .7 only .06
LEAST_DENSITY = 0.1  # of the densest component's
MOST_FACTORS = 12
MATCHED_WEIGHT = 0.5  # beside the ELBO and the number of active latents
PARTNERS = 200  # models that others are compared with, where there are more
ACTIVE_SHARE = 0.01  # of the largest variance of a latent: active above it, where no KL is known


@dataclass(frozen=True, eq=False)
class Consensus:
    """Scores of M models, and the K factors that they agree on.

    scores (M,): mean of the ranks of the parts, from 0 (worst) to 1; NaN without an active latent. The parts are
    independence, ELBO and number of active latents, and match with half their weight; without ELBO they are
    independence and match. matched (M,): mean match of a model's latents with the factors, one to one, weighted
    by density. independence (M,): mean non-Gaussianity of active latents, in nats. factors (n, K): codes of the
    component that stands for each factor, the densest first: labels, for whoever has none. density (K,): how many
    models share it, how nearly. latents (M, K): which latent of a model is matched to each factor, -1 for none, and
    match (M, K) how well.
    """

    scores: Floats
    matched: Floats
    independence: Floats
    factors: Floats
    density: Floats
    latents: Ints
    match: Floats

    @property
    def order(self) -> Ints:
        """Return models from best to worst, those without a score last."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def best(self) -> int:
        """Return the model with the highest score."""
        if not np.isfinite(self.scores).any():
            raise ValueError("no model has an active latent, so none is best")
        return int(self.order[0])


def consensus(
    codes: Sequence[ArrayLike] | NDArray[Any],
    kl: Sequence[ArrayLike] | None = None,
    *,
    elbo: ArrayLike | None = None,
    kl_threshold: float = ACTIVE_KL,
    partners: int = PARTNERS,
    seed: int = 0,
) -> Consensus:
    """Score models by how cleanly they have the factors that models agree on, and by how much they have found.

    Parameters
    ----------
    codes : list of M arrays (n, L_i), or one (M, n, L)
        Mean codes of the same n inputs, in the same order.
    kl : list of M arrays (L_i,), optional
        Mean KL of each latent from the prior. Without it a latent is active if its variance is at least a hundredth of
        the largest of its model.
    elbo : array (M,), optional
        Evidence lower bound of each model. Without it only how cleanly counts, and models that found little may win.
    kl_threshold : float
        A latent is active above this KL, in nats.
    partners : int
        Factors come from so many models, drawn at random where there are more; all models are scored.
    seed : int
        Of that draw.

    Returns
    -------
    Consensus

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(-1, 1, size=(1000, 3))
    >>> turned = [z @ np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2)]
    >>> found = consensus([z, -z[:, ::-1], *turned])
    >>> sorted(int(i) for i in found.order[:2]), found.factors.shape
    ([0, 1], (1000, 3))
    """
    checked = check_codes(codes, None, seed, 4)
    arrays = [np.asarray(checked[i]) for i in range(len(checked))]
    active = active_latents(arrays, kl, kl_threshold)
    return consensus_of_active([one[:, on] for one, on in zip(arrays, active)], active, elbo, partners, seed)


def active_latents(
    codes: Sequence[NDArray[Any]], kl: Sequence[ArrayLike] | None, kl_threshold: float = ACTIVE_KL
) -> list[Bools]:
    """Return which latents of each model are active: by their KL, or, where it is not known, by their variance."""
    if kl is not None:
        return check_kl(kl, np.array([one.shape[1] for one in codes]), kl_threshold)
    variances = [np.asarray(one, float).var(axis=0) for one in codes]
    return [(one > 0) & (one >= ACTIVE_SHARE * one.max()) for one in variances]


def consensus_of_active(
    codes: Sequence[NDArray[Any]],
    active: Sequence[Bools],
    elbo: ArrayLike | None = None,
    partners: int = PARTNERS,
    seed: int = 0,
) -> Consensus:
    """Return the consensus of models from the codes (n, a_i) of active latents; active (L_i,) says which they are."""
    count, owner = len(codes), np.repeat(np.arange(len(codes)), [one.shape[1] for one in codes])
    chosen = np.arange(count)
    if count > partners + 1:
        chosen = np.sort(np.random.default_rng(seed).choice(count, partners, replace=False))
    models = [int(i) for i in chosen if codes[int(i)].shape[1]]
    independence = np.array([non_gaussianity(one).mean() if one.shape[1] else np.nan for one in codes])
    if not models:
        nothing = np.full((count, 0), np.nan)
        whole = np.full(count, np.nan)
        return Consensus(whole, whole, whole, np.empty((0, 0)), np.empty(0), nothing.astype(int), nothing)
    turned = [independent_components(codes[i])[0] for i in models]
    components = _ranked(np.concatenate(turned, axis=1))
    owners = np.repeat(np.arange(len(models)), [one.shape[1] for one in turned])
    alike = np.abs(components @ components.T)
    raw = np.concatenate([one for one in codes if one.shape[1]], axis=1)
    picked, density = _factors(alike, owners)
    # The component of each model that is closest to each factor, and how close it is.
    starts = np.flatnonzero(np.r_[True, np.diff(owners) > 0])
    ends = np.r_[starts[1:], len(owners)]
    closest = np.stack([a + alike[picked, a:b].argmax(axis=1) for a, b in zip(starts, ends)], axis=1)
    weight = alike[picked[:, None], closest].astype(float) ** SHARPNESS
    scored = np.abs(components[np.unique(closest)] @ _ranked(raw).T).astype(float)
    row = np.searchsorted(np.unique(closest), closest)
    whole = np.stack([weight[k] @ scored[row[k]] for k in range(len(picked))])

    share = density / density.sum()
    matched = np.full(count, np.nan)
    latents, match = np.full((count, len(picked)), -1), np.zeros((count, len(picked)))
    place = {model: i for i, model in enumerate(models)}
    for model in range(count):
        mine = np.flatnonzero(owner == model)
        if not len(mine):
            continue
        found, total = whole[:, mine], weight.sum(axis=1)
        if model in place:  # what it says of itself does not count
            i = place[model]
            found = found - weight[:, i, None] * scored[row[:, i]][:, mine]
            total = total - weight[:, i]
        found = np.divide(found, total[:, None], out=np.zeros_like(found), where=total[:, None] > 0)
        factor, latent = linear_sum_assignment(-found * share[:, None])
        matched[model] = (found[factor, latent] * share[factor]).sum()
        latents[model, factor] = np.flatnonzero(active[model])[latent]
        match[model, factor] = found[factor, latent]
    parts = [(_places(matched), 1.0), (_places(independence), 1.0)]
    if elbo is not None:
        evidence, found_latents = np.asarray(elbo, float), np.array([one.shape[1] for one in codes], float)
        known = np.isfinite(matched)
        parts = [(_places(matched), MATCHED_WEIGHT), (_places(independence), 1.0)]
        parts += [(_places(np.where(known, one, np.nan)), 1.0) for one in (evidence, found_latents)]
    scores = sum(weight * np.where(np.isnan(one), 0.0, one) for one, weight in parts) / sum(w for _, w in parts)
    scores = np.where(np.isfinite(matched), scores, np.nan)
    factors = np.concatenate(turned, axis=1)[:, picked]
    return Consensus(scores, matched, independence, factors, density, latents, match)


def _factors(alike: NDArray[np.float32], owners: Ints) -> tuple[Ints, Floats]:
    """Return components (K,) that other models share, the densest first and none like one before; and densities."""
    starts = np.flatnonzero(np.r_[True, np.diff(owners) > 0])
    best = np.maximum.reduceat(alike, starts, axis=1).astype(float) ** SHARPNESS
    best[np.arange(len(owners)), owners] = 0.0
    density = best.sum(axis=1) / max(len(starts) - 1, 1)
    left = np.ones(len(owners))
    picked: list[int] = []
    found: list[float] = []
    while len(picked) < MOST_FACTORS:
        one = int(np.argmax(density * left))
        if picked and density[one] * left[one] <= LEAST_DENSITY * found[0]:
            break
        picked.append(one)
        found.append(float(density[one] * left[one]))
        left *= np.maximum(1 - alike[one].astype(float) ** 2, 0.0)
    return np.array(picked), np.maximum(found, 1e-12)


def _ranked(columns: NDArray[Any]) -> NDArray[np.float32]:
    """Return ranks of columns (n, K) as rows (K, n) of length 1, so that products are rank correlations."""
    values = np.ascontiguousarray(columns, np.float64)
    ranks, scale = np.empty(values.T.shape), np.empty(values.shape[1])
    standardised_ranks(values.view("u8"), 64, ranks, scale)
    return (ranks / np.sqrt(len(values))).astype(np.float32)


def match_latents(codes: NDArray[Any], others: NDArray[Any]) -> Floats:
    """Return the highest absolute rank correlation of each latent (n, a) with one of another model (n, b): (a,)."""
    if not others.shape[1]:
        return np.zeros(codes.shape[1])
    return np.abs(_ranked(codes) @ _ranked(others).T).max(axis=1).astype(float)


def _places(values: Floats) -> Floats:
    """Return ranks from 0 (lowest) to 1; NaN for NaN, and 1 where there is one."""
    places = np.full(len(values), np.nan)
    known = np.isfinite(values)
    places[known] = (rankdata(values[known]) - 1) / max(known.sum() - 1, 1) if known.sum() > 1 else 1.0
    return places


def non_gaussianity(codes: ArrayLike) -> Floats:
    """Return the negentropy (L,) of codes (n, L), in nats: 0 for a Gaussian latent, .18 for a uniform one.

    How much less entropy a latent has than a Gaussian of its variance; a sum of independent latents has less of it than
    they (the central limit theorem). From m-spacings (Vasicek 1976), m half the square root of n.

    >>> rng = np.random.default_rng(0)
    >>> found = non_gaussianity(np.stack([rng.normal(size=5000), rng.uniform(size=5000)], axis=1))
    >>> bool(found[0] < 0.05 < 0.15 < found[1])
    True
    """
    z = np.asarray(codes, float)
    scale = z.std(axis=0)
    z = np.sort((z - z.mean(axis=0)) / np.where(scale > 0, scale, 1.0), axis=0)
    n = len(z)
    m = int(np.sqrt(n) / 2) + 1
    high, low = z[np.minimum(np.arange(n) + m, n - 1)], z[np.maximum(np.arange(n) - m, 0)]
    entropy = np.log(n / (2 * m) * np.maximum(high - low, 1e-4)).mean(axis=0)
    return np.where(scale > 0, 0.5 * np.log(2 * np.pi * np.e) - entropy, 0.0)
