"""The answer of a fit: its models beside each other, the one to take, how sure that is, and what to try next."""

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karenina._active import CLEAR_KL
from karenina._files import checksum, open_regular
from karenina.evaluation.criteria import compute_udr
from karenina.fitting.folder import PAGE, RANKING, FitPlan, Folder, read_answer
from karenina.fitting.look import Look
from karenina.fitting.models import Model
from karenina.fitting.search import Candidate, Known
from karenina.numerics.arrays import Floats
from karenina.selection import consensus
from karenina.selection.choice import (
    FEW_IMAGES,
    FEW_STEPS,
    POOR,
    VERY_FEW_IMAGES,
    Choice,
    Verdict,
    choose_from_codes,
    headline,
)
from karenina.training.run import Run
from karenina.training.run import open as open_run

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ["rank", "run", "method", "strength", "seed", "agreement", "udr_setting", "udr", "udr_a2a", "low", "high"]
COLUMNS += ["active", "explained"]


@dataclass(frozen=True, eq=False)
class Compared:
    """Models and their UDR. within: among models of one setting. all_to_all: among all, with its 95 % interval."""

    models: Sequence[Model]
    within: Floats
    all_to_all: Floats
    interval: Floats

    @cached_property
    def choice(self) -> Choice:
        """Return the choice among the models."""
        return choose_from_codes(
            [model.codes for model in self.models],
            [model.kl for model in self.models],
            [model.setting for model in self.models],
            lambda i: self.models[i].explained,
            elbo=[model.elbo for model in self.models],
            within=self.within,
            across=self.all_to_all,
        )

    @cached_property
    def by_setting(self) -> dict[Candidate, list[int]]:
        """Return the models of each setting."""
        found: dict[Candidate, list[int]] = {}
        for i, model in enumerate(self.models):
            found.setdefault(model.setting, []).append(i)
        return dict(sorted(found.items()))

    @property
    def known(self) -> dict[Candidate, Known]:
        """Return what the next round of halving is decided from."""
        found = self.choice.agreements
        return {
            setting: Known(
                len(mine),
                tuple(self.models[i].active for i in mine),
                found[setting].above_typical if setting in found else math.nan,
            )
            for setting, mine in self.by_setting.items()
        }

    def score(self, setting: Candidate) -> float:
        """Return the median UDR of a setting's models; NaN where fewer than two can be used."""
        found = self.choice.agreements.get(setting)
        return found.udr if found is not None else math.nan

    def agreement(self, setting: Candidate) -> float:
        """Return how far a setting agrees, where 0 is chance and 1 is perfect; NaN as in `score`."""
        found = self.choice.agreements.get(setting)
        return found.value if found is not None else math.nan

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Return one row per model, the best first."""
        import pandas as pd

        rows = []
        for rank, i in enumerate(self.choice.order, start=1):
            one, setting = self.models[i], self.models[i].setting
            of_setting = [self.agreement(setting), self.score(setting)]
            of_model = [float(self.within[i]), float(self.all_to_all[i]), *map(float, self.interval[i])]
            about = [rank, one.path.name, setting.method, setting.strength, one.config.seed]
            rows.append([*about, *of_setting, *of_model, one.active, one.explained])
        return pd.DataFrame(rows, columns=COLUMNS)


def make_ready() -> None:
    """Compile what ranking needs, before the time that is left is planned: it takes seconds on a new installation."""
    codes = np.random.default_rng(0).normal(size=(2, 30, 2)).astype(np.float32)
    compute_udr("udr_lasso", list(codes), [np.ones(2)] * 2, ["one", "one"])
    consensus(codes)


def compare(models: Sequence[Model]) -> Compared:
    """Compare models by UDR, within settings and all to all (Duan et al. 2020, section 4)."""
    count = len(models)
    nothing = np.full(count, math.nan)
    if count < 2:
        return Compared(models, nothing, nothing, np.full((count, 2), math.nan))
    codes, kl = [model.codes for model in models], [model.kl for model in models]
    names = [str(model.setting) for model in models]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # It warns of latents near the threshold and the like.
        within = compute_udr("udr_lasso", codes, kl, names).scores if len(set(names)) < count else nothing
        everyone = compute_udr("udr_lasso_a2a", codes, kl, names)
    return Compared(models, np.asarray(within), np.asarray(everyone.scores), np.asarray(everyone.interval))


@dataclass(frozen=True)
class Advice:
    """Something to know before using a model. kind: a word for programs. says: what was seen. try_next: what helps."""

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
    """Return everything that a reader should know before using the model, the most important first.

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
    """Return what to know where there are few models or steps."""
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
    """Return what to know of the images."""
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
    """Return what to know where all latents are active, or none."""
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
    """Return words as a list in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.0f} %"


@dataclass(frozen=True, eq=False)
class Fit:
    """What `karenina.fit` found.

    Attributes
    ----------
    path : the folder
    best : Run
        The chosen model; None if there is none with an active latent.
    ranking : DataFrame
        Every model, the best first: run, method, strength, seed, agreement (of its setting: 0 is chance, 1 perfect),
        udr_setting (median of its setting), udr, udr_a2a with its 95 % interval (low, high), active (latents),
        explained (share of the variance of the pixels).
    verdict : how sure: .level, .why
    advice : what to know and what to try next
    page : Path
    answer : all of it as plain values
    stopped : "time" where the budget ended the training of a round, "user" after Ctrl-C, "terminated" after
        SIGTERM, else ""
    """

    path: Path
    verdict: Verdict
    advice: tuple[Advice, ...]
    answer: dict[str, Any]
    stopped: str = ""

    @property
    def page(self) -> Path:
        """Return the path of the page."""
        return self.path / PAGE

    @cached_property
    def best(self) -> Run | None:
        """Return the chosen model; None if there is none with an active latent."""
        return open_run(self.path / self.answer["run"]) if self.answer["run"] else None

    @cached_property
    def ranking(self) -> "pd.DataFrame":
        """Return every model, the best first."""
        import pandas as pd

        with open_regular(self.path / RANKING) as file:
            return pd.read_csv(file)

    @property
    def lines(self) -> list[str]:
        """Return the answer, how sure it is, and what to know, as sentences."""
        lines = [first_sentence(self.answer), f"How sure: {self.verdict.level}. {self.verdict.why}"]
        return [*lines, *(f"- {one}" for one in self.advice)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def first_sentence(answer: dict[str, Any]) -> str:
    """Return the sentence that says which model to take."""
    if not answer["run"]:
        why = f"none of the {answer['models']} has an active latent" if answer["models"] else "none is finished"
        return f"No model to take: {why}."
    label = f"{answer['setting']}, seed {answer['seed']}"
    chance = answer["verdict"]["chance"]
    return headline(label, answer["active"], len(answer["kl"]), answer["udr_setting"], chance, answer["models"])


def make_answer(
    folder: Folder,
    plan: FitPlan,
    compared: Compared,
    look: Look,
    stopped: str,
    front: Sequence[dict[str, Any]] = (),
) -> Fit:
    """Write the ranking, the chosen model and the answer.

    stopped: as in `advise`. front: of a search, the trials that no other beats in both objectives.
    """
    verdict = judge(look, compared, plan.steps)
    advice = advise(look, compared, plan.steps, plan.latents, stopped)
    best = compared.choice.best
    model = compared.models[best] if best is not None else None
    answer: dict[str, Any] = {
        "run": None,
        "models": len(compared.models),
        "collapsed": sum(one.active == 0 for one in compared.models),
        "steps": plan.steps,
        "latents": plan.latents,
        "network": plan.network,
        "options": plan.options,
        "seconds": round(folder.spent, 1),
        "verdict": {"level": verdict.level, "why": verdict.why, "chance": _for_json(verdict.chance)},
        "advice": [{"kind": one.kind, "says": one.says, "try_next": one.try_next} for one in advice],
        "look": look.to_json(),
        "per_active": best_per_active(compared),
        "front": list(front),
    }
    if model is not None and best is not None:
        answer |= {
            "run": model.path.relative_to(folder.path).as_posix(),
            "weights": checksum(model.path / "model.safetensors"),
            "setting": str(model.setting),
            "method": model.setting.method,
            "strength": model.setting.strength,
            "seed": model.config.seed,
            "agreement": _for_json(compared.agreement(model.setting)),
            "seeds": len(compared.by_setting[model.setting]),
            "udr_setting": _for_json(compared.score(model.setting)),
            "udr_a2a": _for_json(compared.all_to_all[best]),
            "interval": [_for_json(bound) for bound in compared.interval[best]],
            "active": model.active,
            "kl": [round(float(value), 4) for value in model.kl],
            "explained": _for_json(model.explained),
        }
    folder.save_answer(answer, compared.frame, model.path if model is not None else None)
    return Fit(folder.path, verdict, tuple(advice), answer)


def best_per_active(compared: Compared) -> list[dict[str, Any]]:
    """Return the best model for each number of active latents, since UDR does not reward finding more factors."""
    found: dict[int, dict[str, Any]] = {}
    for row in compared.frame.to_dict("records"):
        if row["active"]:
            found.setdefault(row["active"], {str(k): _for_json(v) for k, v in row.items()})
    return [found[active] for active in sorted(found)]


def _for_json(value: Any) -> Any:
    """Return a value as JSON can hold it, which knows no NaN and no types of numpy."""
    if isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and not isinstance(value, float) else round(number, 4)


def describe_settings(compared: Compared) -> list[str]:
    """Return a line for each setting: UDR and active latents of its seeds."""
    lines = []
    for setting, mine in compared.by_setting.items():
        score = compared.score(setting)
        active = " ".join(str(compared.models[i].active) for i in mine)
        if math.isfinite(score):
            limit = compared.choice.agreements[setting].chance
            text = f"UDR {score:.2f}, chance {limit:.2f}"
        else:
            text = "no UDR"
        lines.append(f"  {setting!s:24s} {text}; active latents {active}")
    best = compared.choice.best
    if best is not None and (known := [one for one in compared.by_setting if math.isfinite(compared.score(one))]):
        top, chosen = max(known, key=compared.score), compared.models[best]
        if top != chosen.setting:
            why = compared.choice.why_not(top)
            lines.append(f"  {top} has the highest UDR, but {why}: {chosen.path.name} is taken.")
    return lines


def read_fit(path: str | os.PathLike[str]) -> Fit:
    """Return the answer that a fit wrote last."""
    answer = read_answer(path)
    about = answer["verdict"]
    verdict = Verdict(about["level"], about["why"], math.nan if about["chance"] is None else about["chance"])
    advice = tuple(Advice(one["kind"], one["says"], one["try_next"]) for one in answer["advice"])
    return Fit(Path(path), verdict, advice, answer)


def pick(path: str | os.PathLike[str]) -> Run:
    """Return the model that a fit has chosen so far, also while it is running or after it was stopped.

    Parameters
    ----------
    path : directory of the fit

    Returns
    -------
    Run

    Examples
    --------
    >>> import karenina
    >>> _ = karenina.fit("blobs", out="mine", models=2, steps=150, latents=3)
    >>> karenina.pick("mine").config.data
    'blobs'
    """
    found = read_fit(path)
    if found.best is None:
        raise ValueError(f"the fit in {path} chose no model: none has an active latent; see {found.page}")
    return found.best
