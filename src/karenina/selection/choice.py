"""Choose a model without labels, from what is known of all models: which to take, why not another, how sure.

Models are ordered by their consensus (`karenina.selection.consensus`). Seeds of a setting that agree learnt the same
from different beginnings: the settings whose seeds agree more than chance explains (`chance`) come first, and the
choice says how far it can be trusted (`Choice.judge`). `choose_from_codes` does it all; `choose` takes scores that
are known.
"""

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from karenina._active import ACTIVE_KL, CLEARLY
from karenina.numerics.arrays import Floats
from karenina.selection._consensus import Consensus, active_latents, consensus_of_active, match_latents
from karenina.selection._udr import udr

KEPT = 0.75  # A setting with this share of the best setting's agreement is as good, for all that a few seeds can tell.
LEAST_EXPLAINED = 0.05  # A model that explains less of the variance of the pixels draws the mean image.
POOR = 0.5  # Below this share of the variance reconstructions are called poor.
FEW_IMAGES, VERY_FEW_IMAGES = 1000, 100
FEW_STEPS = 1000
FEW_SEEDS, TOO_FEW_SEEDS = 4, 2
NO_TRUST, CARE, FAIR = "do not trust any of these", "with care", "fairly sure"

SURE = 0.99  # One choice in a hundred among models that share nothing may pass.
_DRAWS, _FEWER_DRAWS = 20_000, 1000  # of settings whose models are rotated at random; fewer where they are large
PARTNERS = 50  # other models that each is compared with, where there are more
_MOST_LATENTS = 32  # Chance falls with the number of latents, so that a bound on it is safe.


@dataclass(frozen=True)
class Agreement:
    """The agreement of the seeds of a setting.

    udr: the median of its models, low and high: their range. chance: what the highest such median of as many settings
    stays below in 99 % of cases when every model is rotated at random. active: active latents of its typical model.
    """

    udr: float
    low: float
    high: float
    chance: float
    active: int
    seeds: int

    @property
    def value(self) -> float:
        """Return the agreement where chance is 0, perfect agreement 1 and none -1; 0 for a single latent."""
        if self.chance >= 1:
            return 0.0
        return (self.udr - self.chance) / ((1 - self.chance) if self.udr > self.chance else self.chance)

    @property
    def above_typical(self) -> float:
        """Return the agreement where 0 is what rotated models reach on average, for settings of unequal seeds."""
        typical = typical_chance(self.active)
        return (self.udr - typical) / (1 - typical) if typical < 1 else 0.0


@dataclass(frozen=True)
class Verdict:
    """The trust in a choice: level is NO_TRUST, CARE or FAIR; why; chance: the UDR that chance alone explains."""

    level: str
    why: str
    chance: float = math.nan

    def __str__(self) -> str:
        return f"{self.level[0].upper()}{self.level[1:]}. {self.why}"


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice among models.

    settings: of each model. active: its number of active latents. scores: what models are ordered by. within, across:
    UDR of models of one setting, and of all to all. agreements: of each setting with two usable models. unusable: model
    -> why it cannot be taken. order: models from best to worst. consensus: the parts of the scores, if they come of it.
    replication: for each active latent of the first model, the median over the models that it is compared with of its
    highest absolute rank correlation with a latent of theirs; these are the other seeds of its setting, or all others.
    partners: how many.
    """

    settings: Sequence[Hashable]
    active: Sequence[int]
    scores: Floats
    within: Floats
    across: Floats
    explained: dict[int, float]
    agreements: dict[Hashable, Agreement]
    unusable: dict[int, str]
    order: list[int]
    consensus: Consensus | None = None
    replication: Floats | None = None
    partners: int = 0

    @property
    def best(self) -> int | None:
        """Return the chosen model; None where none has an active latent."""
        first = self.order[0] if self.order else None
        return first if first is not None and self.active[first] else None

    @cached_property
    def kept(self) -> set[Hashable]:
        """Return the settings whose seeds agree more than chance, and at least KEPT as far as the best one's."""
        return _kept(self.agreements)

    @property
    def replicated(self) -> int | None:
        """Return how many active latents of the first model are found again, more than chance explains in 99 %."""
        if self.replication is None or not len(self.replication):
            return None
        return int((self.replication > chance_of_latent(len(self.replication), self.partners)).sum())

    @property
    def diagnosis(self) -> str:
        """Return what is known of the first model, in one line."""
        model, parts = self.order[0], []
        found = self.agreement(model)
        if found is not None:
            parts.append(f"agreement {found.udr:.2f}, chance {found.chance:.2f}")
        if self.replicated is not None and self.replication is not None:
            parts.append(f"{self.replicated} of {len(self.replication)} active latents replicate")
        if self.consensus is not None and len(self.consensus.density):
            parts.append(f"consensus {self.consensus.matched[model]:.2f}")
            parts.append(f"non-Gaussian by {self.consensus.independence[model]:.2f} nats")
        return "; ".join(parts) or "there is no other model to compare it with"

    def agreement(self, model: int) -> Agreement | None:
        """Return how far the setting of a model agrees; None where that is not known."""
        return self.agreements.get(self.settings[model])

    def why_not(self, setting: Hashable) -> str:
        """Return why the chosen model is not one of this setting, after the setting's name and "but"."""
        mine = [i for i, one in enumerate(self.settings) if one == setting]
        reasons = [self.unusable[i] for i in mine if i in self.unusable]
        if len(mine) - len(reasons) < 2 and reasons:
            return reasons[0]
        if setting in self.kept:
            return "a model of another setting that agrees nearly as well has a higher score"
        return "its seeds agree no more than chance"

    def judge(self, name: str, images: int | None = None, steps: int | None = None) -> Verdict:
        """Return how far the chosen model can be trusted.

        name: of its setting, for the sentence. images: how many different ones the models saw; on few of them codes
        agree by chance. steps: of training. None where that is not known.
        """
        if self.best is None:
            return Verdict(NO_TRUST, "No model has an active latent." if self.order else "No model is finished.")
        found, active = self.agreement(self.best), self.active[self.best]
        if self.best in self.unusable:
            return Verdict(NO_TRUST, f"The best model is not worth taking: {self.unusable[self.best]}.")
        if found is None:
            return Verdict(NO_TRUST, "There is only one model of each setting, and no other to compare it with.")
        limit = found.chance
        if active == 1:
            why = "The chosen model has one active latent: that seeds agree on it says nothing about disentanglement."
            return Verdict(NO_TRUST, why, limit)
        if images is not None and images < VERY_FEW_IMAGES:
            return Verdict(NO_TRUST, f"On {images:,} different images models agree by chance.", limit)
        alone = found.seeds == 1
        seen = name if alone else f"The {found.seeds} seeds of {name}"
        seen += f" {'agrees' if alone else 'agree'} with UDR {found.udr:.2f}"
        seen += f" (range {found.low:.2f} to {found.high:.2f})" if found.seeds > 2 else ""
        against = f"models rotated at random would reach {limit:.2f} (99 %)"
        if found.value <= 0:
            return Verdict(NO_TRUST, f"{seen}, and {against}: they agree no more than chance.", limit)
        if 1 < found.seeds <= TOO_FEW_SEEDS:
            return Verdict(NO_TRUST, f"{seen}, but two seeds are one comparison: train more of them.", limit)
        above = f"{seen}; {against}, perfect agreement is 1."
        doubts = {
            f"{images} different images are few": images is not None and images < FEW_IMAGES,
            f"there are only {found.seeds} seeds": 1 < found.seeds < FEW_SEEDS,
            f"{steps} steps are few": steps is not None and steps < FEW_STEPS,
            # Half way between chance and perfect agreement.
            "the agreement is far from perfect": found.value < 0.5,
            "the reconstructions are poor": self.explained.get(self.best, math.nan) < POOR,
        }
        reasons = [doubt for doubt, holds in doubts.items() if holds]
        if reasons:
            listed = reasons[0] if len(reasons) == 1 else f"{', '.join(reasons[:-1])} and {reasons[-1]}"
            return Verdict(CARE, f"{above} But {listed}.", limit)
        return Verdict(FAIR, above, limit)


def choose(
    settings: Sequence[Hashable],
    active: Sequence[int],
    within: ArrayLike,
    across: ArrayLike,
    explained: Callable[[int], float],
    scores: ArrayLike | None = None,
) -> Choice:
    """Choose one of M models by its score, from the settings whose seeds agree.

    The settings whose seeds agree more than chance, with at least KEPT of the best one's agreement, come first, and
    of their models those that agree with the other seeds more than chance themselves; among these the one with the
    highest score is chosen. Models without an active latent, and those whose reconstructions are no better than the
    mean image, are not taken and do not speak for their setting. Where no setting has two models, every model is
    judged by itself, by its UDR of all to all.

    Parameters
    ----------
    settings : M keys
        Models with the same key differ by their seed alone.
    active : M counts of active latents
    within, across : arrays (M,)
        UDR of models of one setting, and of all to all; NaN where it is not known.
    explained : function of the number of a model
        Share of the variance of the pixels that its reconstructions explain, NaN where that cannot be had. Asked of the
        models that might be taken.
    scores : array (M,), optional
        Higher is better; by default UDR of all to all, and of one setting where that is not known.

    Returns
    -------
    Choice

    >>> found = choose("aaabbb", [4] * 6, [0.9, 0.95, 0.92, 0.3, 0.2, 0.3], [0.5, 0.6, 0.7, 0.4, 0.3, 0.3], lambda i: 1)
    >>> found.best, found.kept, found.judge("a").level
    (2, {'a'}, 'with care')
    """
    inside, among = np.asarray(within, float), np.asarray(across, float)
    unusable = {i: "no latent is active" for i, count in enumerate(active) if not count}
    shares: dict[int, float] = {}
    by = np.where(np.isfinite(among), among, inside) if scores is None else np.asarray(scores, float)
    # Agreement with models of other settings is one of the parts of a score; it is not asked for twice.
    gated = scores is None or len(set(settings)) < len(settings)
    while True:
        agreements = _agreements(settings, active, inside, among, unusable)
        kept = _kept(agreements)

        alone = {
            i
            for i, setting in enumerate(settings)
            if setting in agreements and agreements[setting].seeds > 1 and not inside[i] > agreements[setting].chance
        }

        def key(i: int, kept: set[Hashable] = kept, alone: set[int] = alone) -> tuple[bool, bool, bool, bool, float]:
            score = by[i] if math.isfinite(by[i]) else -1.0
            return not active[i], i in unusable, gated and settings[i] not in kept, i in alone, -score

        order = sorted(range(len(settings)), key=key)
        # Where a setting may be taken all its models are looked at, so that what is asked first changes nothing.
        asked = [i for i in order if settings[i] in kept]
        asked += [i for i in order if i not in unusable and i not in asked][: 1 if not (asked and gated) else 0]
        asked = [i for i in asked if i not in shares and i not in unusable]
        for i in asked:
            shares[i] = explained(i)
            if shares[i] < LEAST_EXPLAINED:
                part = f"explain {100 * shares[i]:.0f} % of the variance of the pixels" if shares[i] > 0.005 else ""
                unusable[i] = f"its reconstructions are no better than the mean image: they {part or 'explain nothing'}"
        if not asked:
            return Choice(settings, active, by, inside, among, shares, agreements, unusable, order)


def choose_from_codes(
    codes: Sequence[NDArray[np.float32]],
    kl: Sequence[ArrayLike] | None,
    settings: Sequence[Hashable],
    explained: Callable[[int], float] = lambda model: math.nan,
    *,
    elbo: ArrayLike | None = None,
    within: ArrayLike | None = None,
    across: ArrayLike | None = None,
    kl_threshold: float = ACTIVE_KL,
) -> Choice:
    """Choose one of M models by its consensus with the others, from the settings whose seeds agree.

    Parameters
    ----------
    codes : M arrays (n, L_i)
        Mean codes of the same inputs, in the same order.
    kl : M arrays (L_i,), or None
        Mean KL of each latent; without it a latent is active if it varies.
    settings, explained
        As `choose` takes them.
    elbo : array (M,), optional
        Evidence lower bound of each model.
    within, across : arrays (M,), optional
        UDR where it is known already; else it is found, that of all to all only if no setting has two models.
    kl_threshold : float
        A latent is active above this KL, and clearly active above CLEARLY times as much.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(-1, 1, size=(500, 5))
    >>> turned = [z @ np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(4)]
    >>> found = choose_from_codes([*turned, z, -z, z[:, ::-1], z + 0.01], None, "aaaabbbb")
    >>> found.best >= 4, found.judge("b").level
    (True, 'fairly sure')
    """
    nothing = np.full(len(codes), math.nan)
    actives = active_latents(codes, kl, kl_threshold)
    clearly = actives if kl is None else active_latents(codes, kl, CLEARLY * kl_threshold)
    counts = [int(one.sum()) for one in clearly]
    if len(codes) < 2:
        return choose(settings, counts, nothing, nothing, explained)
    found = consensus_of_active([np.asarray(one)[:, on] for one, on in zip(codes, actives)], actives, elbo)
    seeds = len(set(settings)) < len(settings)

    def alike(groups: Sequence[Hashable] | None) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # It warns of latents near the threshold and the like.
            return udr(
                codes, [one.astype(float) for one in actives], groups, all_to_all=groups is None, partners=PARTNERS,
                kl_threshold=0.5,
            ).scores  # fmt: skip

    inside = within if within is not None else alike(settings) if seeds else nothing
    among = across if across is not None else nothing if seeds else alike(None)
    chosen = choose(settings, counts, inside, among, explained, found.scores)
    first = chosen.order[0]
    partners = [i for i, one in enumerate(settings) if i != first and (not seeds or one == settings[first])]
    matches = [match_latents(codes[first][:, actives[first]], codes[i][:, actives[i]]) for i in partners]
    replication = np.median(matches, axis=0) if matches else None
    return replace(chosen, consensus=found, replication=replication, partners=len(matches))


def headline(label: str, active: int, latents: int, udr: float | None, limit: float | None, models: int) -> str:
    """Return the sentence that names the chosen model. udr: of its setting; limit: what chance explains of it.

    >>> headline("beta_vae beta=4, seed 1", 5, 10, 0.8, 0.4, 12)
    'Pick beta_vae beta=4, seed 1, of 12 models: 5 of its 10 latents are active; UDR of its seeds 0.80, chance 0.40.'
    """
    count = f"{active} of its {latents} latents {'is' if active == 1 else 'are'} active"
    agree = f"UDR of its seeds {udr:.2f}" if udr is not None and math.isfinite(udr) else "its seeds were not compared"
    agree += f", chance {limit:.2f}" if limit is not None and math.isfinite(limit) else ""
    return f"Pick {label}, of {models} models: {count}; {agree}."


def _agreements(
    settings: Sequence[Hashable], active: Sequence[int], within: Floats, across: Floats, unusable: dict[int, str]
) -> dict[Hashable, Agreement]:
    """Return the agreement of each setting with two usable models; where no setting has two, that of each model."""
    groups: dict[Hashable, list[int]] = {}
    for i, setting in enumerate(settings):
        if i not in unusable and math.isfinite(within[i]):
            groups.setdefault(setting, []).append(i)
    several = {setting: mine for setting, mine in groups.items() if len(mine) > 1}
    found = {}
    for setting, mine in several.items():
        values, latents = within[mine], int(np.median([active[i] for i in mine]))
        limit = chance(latents, len(mine), len(several))
        found[setting] = Agreement(
            float(np.median(values)), float(values.min()), float(values.max()), limit, latents, len(mine)
        )
    if len(set(settings)) == len(settings):
        usable = [i for i in range(len(settings)) if i not in unusable and math.isfinite(across[i])]
        for i in usable if len(usable) > 2 else ():
            limit, value = chance_of_model(active[i], len(usable) - 1, len(usable)), float(across[i])
            found[settings[i]] = Agreement(value, value, value, limit, active[i], 1)
    return found


def _kept(agreements: dict[Hashable, Agreement]) -> set[Hashable]:
    """Return the settings that agree more than chance, and at least KEPT as far as the best."""
    most = max((one.value for one in agreements.values()), default=0.0)
    return {setting for setting, one in agreements.items() if one.value > 0 and one.value >= KEPT * most}


def chance(active: int, seeds: int = 2, settings: int = 1) -> float:
    """Return what the UDR of the best of some settings stays below in 99 % of cases when models share only a space.

    All models have so many active latents, which span the same space, each in a random rotation of its own. The UDR of
    a setting is the median over its seeds of each one's median over the others. One latent cannot be rotated: 1.

    >>> chance(1), round(chance(2), 1), round(chance(3, seeds=4, settings=5), 1)
    (1.0, 1.0, 0.8)
    """
    if active < 2:
        return 1.0
    found = _rotated_settings(min(active, _MOST_LATENTS), max(seeds, 2))
    return float(np.quantile(found, SURE ** (1 / max(settings, 1))))


def chance_of_model(active: int, partners: int = 1, models: int = 1) -> float:
    """Return what the highest UDR of so many models, each compared with so many others, stays below in 99 % of cases.

    The models are as in `chance`. The median of P draws lies below their q-quantile with the probability
    I_q((P + 1) / 2, (P + 1) / 2), and the highest of M medians with its M-th power.

    >>> chance_of_model(10) < chance_of_model(3) < chance_of_model(3, models=20)
    True
    """
    if active < 2:
        return 1.0
    half = (partners + 1) / 2
    found = _rotated_settings(min(active, _MOST_LATENTS), 2)
    return float(np.quantile(found, betaincinv(half, half, SURE ** (1 / models))))


@cache
def chance_of_latent(active: int, partners: int = 1) -> float:
    """Return what the replication of a latent stays below in 99 % of cases when models are rotated at random.

    The median over so many partners of the largest coordinate of a random direction in so many dimensions.

    >>> chance_of_latent(1), chance_of_latent(3, 4) < chance_of_latent(3, 1) < 1
    (1.0, True)
    """
    if active < 2:
        return 1.0
    rng = np.random.default_rng([active, partners])
    turned = rng.normal(size=(_DRAWS // 2, min(partners, 50), min(active, _MOST_LATENTS)))
    largest = np.abs(turned).max(axis=2) / np.linalg.norm(turned, axis=2)
    return float(np.quantile(np.median(largest, axis=1), SURE))


def typical_chance(active: int) -> float:
    """Return the median UDR of two models that share nothing but the space of so many active latents."""
    return float(np.median(_rotated_settings(min(active, _MOST_LATENTS), 2))) if active > 1 else 1.0


@cache
def _rotated_settings(latents: int, seeds: int) -> Floats:
    """Return the UDR of settings whose models are random rotations of the same latents, many times.

    The similarity of two such models is the rotation from one to the other (Duan et al. 2020, equation 2).
    """
    rng = np.random.default_rng([latents, seeds])
    draws = _DRAWS if latents * seeds <= 50 else _FEWER_DRAWS
    block = max(1, 2_000_000 // (seeds * latents * latents))
    found = []
    for start in range(0, draws, block):
        count = min(block, draws - start)
        turned = np.linalg.qr(rng.normal(size=(count, seeds, latents, latents)))[0]
        pairs = np.full((count, seeds, seeds), np.nan)
        for i in range(seeds):
            for j in range(i):
                similar = np.abs(turned[:, i].transpose(0, 2, 1) @ turned[:, j])
                both = [(similar.max(axis) ** 2 / similar.sum(axis)).mean(1) for axis in (1, 2)]
                pairs[:, i, j] = pairs[:, j, i] = np.mean(both, axis=0)
        others = pairs[~np.broadcast_to(np.eye(seeds, dtype=bool), pairs.shape)].reshape(count, seeds, seeds - 1)
        found.append(np.median(np.median(others, axis=2), axis=1))
    return np.concatenate(found)
