"""The answer of a fit: the chosen model, every other, how sure, and what to know. `karenina.pick` reads it again."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina._files import checksum, open_regular
from karenina.fitting.choice import Compared
from karenina.fitting.folder import PAGE, RANKING, Folder, Plan, read_answer
from karenina.fitting.guidance import Advice
from karenina.fitting.look import Look
from karenina.selection.choice import Verdict
from karenina.selection.choice import headline as pick_line

if TYPE_CHECKING:
    import pandas as pd

    from karenina.training import Run


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
        return self.path / PAGE

    @cached_property
    def best(self) -> "Run | None":
        from karenina.training.run import open as open_run

        return open_run(self.path / self.answer["run"]) if self.answer["run"] else None

    @cached_property
    def ranking(self) -> "pd.DataFrame":
        import pandas as pd

        with open_regular(self.path / RANKING) as file:
            return pd.read_csv(file)

    @property
    def lines(self) -> list[str]:
        """The answer, how sure, and what to know, for people."""
        lines = [headline(self.answer), f"How sure: {self.verdict.level}. {self.verdict.why}"]
        return [*lines, *(f"- {one}" for one in self.advice)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def headline(answer: dict[str, Any]) -> str:
    if not answer["run"]:
        why = f"none of the {answer['models']} has an active latent" if answer["models"] else "none is finished"
        return f"No model to take: {why}."
    label = f"{answer['setting']}, seed {answer['seed']}"
    chance = answer["verdict"]["chance"]
    return pick_line(label, answer["active"], len(answer["kl"]), answer["udr_setting"], chance, answer["models"])


def make_answer(
    folder: Folder,
    plan: Plan,
    compared: Compared,
    look: Look,
    verdict: Verdict,
    advice: Sequence[Advice],
    front: Sequence[dict[str, Any]] = (),
) -> Fit:
    """Write the ranking, the chosen model and the answer. front: of a search, what no other trial beats in both."""
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
        "verdict": {"level": verdict.level, "why": verdict.why, "chance": _plain(verdict.chance)},
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
            "agreement": _plain(compared.agreement(model.setting)),
            "seeds": len(compared.by_setting[model.setting]),
            "udr_setting": _plain(compared.score(model.setting)),
            "udr_a2a": _plain(compared.all_to_all[best]),
            "interval": [_plain(bound) for bound in compared.interval[best]],
            "active": model.active,
            "kl": [round(float(value), 4) for value in model.kl],
            "explained": _plain(model.explained),
        }
    folder.save_answer(answer, compared.frame, model.path if model is not None else None)
    return Fit(folder.path, verdict, tuple(advice), answer)


def best_per_active(compared: Compared) -> list[dict[str, Any]]:
    """The best model for each number of active latents, since UDR does not reward finding more factors."""
    found: dict[int, dict[str, Any]] = {}
    for row in compared.frame.to_dict("records"):
        if row["active"]:
            found.setdefault(row["active"], {str(k): _plain(v) for k, v in row.items()})
    return [found[active] for active in sorted(found)]


def _plain(value: Any) -> Any:
    """For JSON, which knows no NaN and no types of numpy."""
    if isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and not isinstance(value, float) else round(number, 4)


def describe_settings(compared: Compared) -> list[str]:
    """A line for each setting: UDR and active latents of its seeds."""
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
    """The answer that a fit wrote last."""
    answer = read_answer(path)
    about = answer["verdict"]
    verdict = Verdict(about["level"], about["why"], math.nan if about["chance"] is None else about["chance"])
    advice = tuple(Advice(one["kind"], one["says"], one["try_next"]) for one in answer["advice"])
    return Fit(Path(path), verdict, advice, answer)


def pick(path: str | os.PathLike[str]) -> "Run":
    """The model that a fit has chosen so far, also while it is running or after it was stopped.

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
