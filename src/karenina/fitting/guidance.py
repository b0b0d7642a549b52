"""What the numbers of a fit mean, in plain words: how sure the choice is, what is wrong, and what to try next."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from karenina._active import CLEAR_KL
from karenina.fitting.choice import Compared
from karenina.fitting.look import Look
from karenina.selection.choice import FEW_IMAGES, FEW_STEPS, POOR, VERY_FEW_IMAGES, Verdict


@dataclass(frozen=True)
class Advice:
    """kind: a short word for programs. says: what was seen. try_next: what may help."""

    kind: str
    says: str
    try_next: str = ""

    def __str__(self) -> str:
        return f"{self.says} {self.try_next}".strip()


def judge(look: Look, compared: Compared, steps: int) -> Verdict:
    """Return how sure the choice of a fit is."""
    best = compared.choice.best
    name = str(compared.models[best].setting) if best is not None else ""
    return compared.choice.judge(name, look.distinct, steps)


def advise(look: Look, compared: Compared, steps: int, latents: int, stopped: str = "") -> list[Advice]:
    """Everything that a reader should know before using the model, the most important first.

    stopped: "time" where the budget ended the training, "user" for Ctrl-C, else empty.
    """
    found = [*_of_time(compared, steps, stopped), *_of_images(look), *_of_latents(compared, latents)]
    best = compared.choice.best
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
                _sharper(compared, best, latents),
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


def _sharper(compared: Compared, best: int, latents: int) -> str:
    """Return what may give sharper pictures than those of the chosen model, by what was tried already."""
    chosen = compared.models[best]
    words = ["train longer"]
    sharper = [
        model
        for model in compared.models
        if model.setting.method == chosen.setting.method and model.setting.strength < chosen.setting.strength
    ]
    words += ["allow weaker strengths"] if not sharper else []
    words += ["allow more latents"] if chosen.active == latents else []
    advice = f"{', '.join(words)[0].upper()}{', '.join(words)[1:]}, or crop what does not matter."
    if sharper and (most := max(sharper, key=lambda model: model.explained)).explained > chosen.explained:
        value = compared.agreement(most.setting)
        how = f"agreement {value:.2f}" if value > 0 else "no more than chance"
        advice += f" {most.setting} explains {_percent(most.explained)}, but its seeds agree less: {how}."
    return advice


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
        says = f"All latents of all models are off (no KL above {CLEAR_KL:g} nats): they learnt nothing."
        return [Advice("all off", says, "Train longer, or try weaker strengths; check that the images differ at all.")]
    if (active == latents).all():
        says = f"All {latents} latents of all models are active."
        return [Advice("all on", says, f"There is more to encode than they hold: try --latents {2 * latents}.")]
    return []


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
