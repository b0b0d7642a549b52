"""What the numbers of a fit mean, in plain words: how sure the choice is, what is wrong, and what to try next."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from karenina._active import ACTIVE_KL
from karenina.fitting.choice import Compared, chance
from karenina.fitting.look import Look

FEW_IMAGES, VERY_FEW_IMAGES = 1000, 100
FEW_STEPS = 1000
FEW_SEEDS = 4
POOR, NOTHING = 0.5, 0.05  # of the variance of the pixels
NO_TRUST, CARE, FAIR = "do not trust any of these", "with care", "fairly sure"


@dataclass(frozen=True)
class Advice:
    """kind: a short word for programs. says: what was seen. try_next: what may help."""

    kind: str
    says: str
    try_next: str = ""

    def __str__(self) -> str:
        return f"{self.says} {self.try_next}".strip()


@dataclass(frozen=True)
class Verdict:
    """How sure a choice is: one of NO_TRUST, CARE, FAIR, and why. chance: the UDR that chance alone explains."""

    level: str
    why: str
    chance: float

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "chance": None if math.isnan(self.chance) else round(self.chance, 4)}


def judge(look: Look, compared: Compared, steps: int) -> Verdict:
    """How sure the choice is. The models agree if their UDR is more than chance explains (`choice.chance`), which holds
    for many images: on few of them codes agree by chance."""
    best = compared.best
    if best is None:
        why = "No model has an active latent." if compared.models else "No model is finished."
        return Verdict(NO_TRUST, why, math.nan)
    model = compared.models[best]
    score, seeds = compared.score(model.setting), len(compared.by_setting[model.setting])
    if math.isnan(score):
        return Verdict(NO_TRUST, "There is only one model of each setting, and no other to compare it with.", math.nan)
    limit = chance(model.active)
    agreement = compared.agreement(model.setting)
    if model.active == 1:
        why = "The chosen model has one active latent: that seeds agree on it says nothing about disentanglement."
        return Verdict(NO_TRUST, why, limit)
    if look.distinct < VERY_FEW_IMAGES:
        return Verdict(NO_TRUST, f"On {look.distinct:,} different images models agree by chance.", limit)
    if model.explained < NOTHING:
        why = f"The chosen model explains {_percent(model.explained)} of the variance of the pixels: it learnt nothing."
        return Verdict(NO_TRUST, why, limit)
    seen = f"The {seeds} seeds of {model.setting} have a UDR of {score:.2f}"
    if agreement <= 0:
        why = f"{seen}, and latents turned at random would reach {limit:.2f}: the seeds disagree everywhere."
        return Verdict(NO_TRUST, f"{why} Nothing disentangles.", limit)
    above = f"{seen}; latents turned at random would reach {limit:.2f}, perfect agreement is 1."
    reasons = [f"{look.distinct:,} different images are few"] * (look.distinct < FEW_IMAGES)
    reasons += [f"there are only {seeds} seeds"] * (seeds < FEW_SEEDS)
    reasons += [f"{steps:,} steps are few"] * (steps < FEW_STEPS)
    # Half way between chance and perfect agreement.
    reasons += ["the agreement is far from perfect"] * (agreement < 0.5)
    reasons += ["the reconstructions are poor"] * (model.explained < POOR)
    if reasons:
        return Verdict(CARE, f"{above} But {_list(reasons)}.", limit)
    return Verdict(FAIR, above, limit)


def advise(look: Look, compared: Compared, steps: int, latents: int, stopped: str = "") -> list[Advice]:
    """Everything that a reader should know before using the model, the most important first.

    stopped: "time" where the budget ended the training, "user" for Ctrl-C, else empty.
    """
    found = [*_of_time(compared, steps, stopped), *_of_images(look), *_of_latents(compared, latents)]
    best = compared.best
    if best is None:
        return found
    model = compared.models[best]
    if model.active > 1 and compared.agreement(model.setting) <= 0:
        found.insert(
            0,
            Advice(
                "disagreement",
                "The seeds disagree everywhere: nothing disentangles, so do not trust any of these models.",
                "More time, images in which one thing changes at a time, or a few labels may help; without them no "
                "method can promise more (Locatello et al. 2019, Theorem 1).",
            ),
        )
    if model.explained < POOR:
        found.append(
            Advice(
                "reconstruction",
                f"The chosen model explains {_percent(model.explained)} of the variance of the pixels: its pictures "
                "are blurred, and what it does not draw it has not learnt.",
                "Train longer, allow weaker strengths or more latents, or crop what does not matter.",
            )
        )
    if model.active == 1:
        found.append(
            Advice(
                "one latent",
                "The chosen model has a single active latent.",
                "Look at the best models with more latents in the table below, and train longer.",
            )
        )
    return found


def _of_time(compared: Compared, steps: int, stopped: str) -> list[Advice]:
    models = len(compared.models)
    if models == 0:
        says = "No model was finished: this is too little time."
        return [Advice("time", says, "Run the same command again with more time; it continues where it stopped.")]
    few = [f"{models} models"] * (models < 10) + [f"{steps:,} steps each"] * (steps < FEW_STEPS)
    if few:
        says = f"This is too little: {_list(few)}. What is shown is a first impression."
        return [Advice("time", says, "Run the same command again with more time (--time 30m); it continues.")]
    if stopped == "user":
        return [Advice("stopped", "It was stopped early.", "The same command continues where it stopped.")]
    return []


def _of_images(look: Look) -> list[Advice]:
    found = []
    if look.distinct < look.count / 2:
        says = f"Only {look.distinct:,} of the {look.count:,} images are different."
        found.append(Advice("duplicates", says, "Copies teach nothing: more different images would."))
    if look.distinct < VERY_FEW_IMAGES:
        says = f"{look.distinct:,} different images are far too few: a model can learn them by heart."
        found.append(Advice("few images", says, "A thousand is a beginning, ten thousand are good."))
    elif look.distinct < FEW_IMAGES:
        says = f"{look.distinct:,} different images are few."
        found.append(Advice("few images", says, "Latents may stand for single images; a few thousand would be better."))
    if look.unaligned:
        says = (
            "The images look unaligned: what they show is at different places, and moving them onto one another "
            f"removes {_percent(look.moved)} of their variance."
        )
        next_ = "Place will take the first latents. If it is not what you care about, centre and crop the images first."
        found.append(Advice("unaligned", says, next_))
    if look.flat > 0.5:
        says = f"{_percent(look.flat)} of the pixels hardly change from image to image."
        found.append(Advice("flat", says, "Cropping to what changes makes training faster."))
    if look.high - look.low < 64:
        says = f"The images use {look.low} to {look.high} of the range 0 to 255."
        found.append(Advice("contrast", says, "Stretching their contrast would help."))
    return found


def _of_latents(compared: Compared, latents: int) -> list[Advice]:
    active = np.array([model.active for model in compared.models])
    if len(active) == 0:
        return []
    if (active == 0).all():
        says = f"All latents of all models are off (no KL above {ACTIVE_KL:g} nats): they learnt nothing."
        return [Advice("all off", says, "Train longer, or try weaker strengths; check that the images differ at all.")]
    if (active == latents).all():
        says = f"All {latents} latents of all models are active."
        return [Advice("all on", says, f"There is more to encode than they hold: try --latents {2 * latents}.")]
    return []


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
