"""The folder of a fit: what was planned and what came of it.

fit.json      plans and their rounds: enough to continue after a stop, however it came
runs/K/NAME   the models of plan K, ordinary runs
model/        a copy of the chosen run
ranking.csv   every model, the best first
answer.json   the choice, how sure it is, and what to do next
index.html    the page
names.json    names of latents, which the reader of the page puts here
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from karenina._files import as_utf8, atomic, make_folder, read_json, sweep
from karenina._settings import integer, number, positive
from karenina.fitting.search import PARAMETERS, Candidate, Round

FORMAT = 1
FIT, ANSWER, RANKING = "fit.json", "answer.json", "ranking.csv"
PAGE, NAMES, MODEL = "index.html", "names.json", "model"
_MOST_SEEDS = 10_000  # of a setting: more than any budget trains


def _method(name: Any) -> str:
    """Return the name of a method, checked."""
    if not isinstance(name, str) or name not in PARAMETERS:
        raise ValueError(f"{name!r:.40} is no method of a fit")
    return name


@dataclass
class FitPlan:
    """One way to train the models of a fit. A fit that is given much more time later begins another, with more steps.

    options: of `karenina.load`. images: a hash of some of the images. rounds: settings and their seeds, in the order
    in which they are trained; `done` of them are. seconds: per model and step, as measured.
    """

    options: dict[str, Any]
    images: str
    network: str
    latents: int
    steps: int
    seed: int
    methods: list[str]
    search: str = "grid"
    rounds: list[Round] = field(default_factory=list)
    done: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the plan as values for JSON."""
        rounds = [[[s.method, s.strength, seeds.start, seeds.stop] for s, seeds in one.items()] for one in self.rounds]
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"rounds": rounds}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "FitPlan":
        """Return the plan that `to_json` wrote; a ValueError, KeyError or TypeError for any other JSON."""
        rounds = [
            {
                Candidate(_method(m), positive("strength", s)): range(integer("seed", a, 0), integer("seed", b, a))
                for m, s, a, b in one
            }
            for one in value["rounds"]
        ]
        if any(seeds.stop > _MOST_SEEDS for one in rounds for seeds in one.values()):
            raise ValueError(f"it has more than {_MOST_SEEDS:,} seeds")
        found = cls(**{**value, "rounds": rounds})
        for name in ("images", "network", "search"):
            if not isinstance(getattr(found, name), str):
                raise ValueError(f"{name} is no text")
        if not isinstance(found.options, dict) or not isinstance(found.methods, list) or not found.methods:
            raise ValueError("options are no table, or methods no list")
        found.methods = [_method(name) for name in found.methods]
        integer("latents", found.latents, 2)
        integer("steps", found.steps, 1)
        integer("seed", found.seed, 0)
        if integer("done", found.done, 0) > len(rounds):
            raise ValueError(f"{found.done} rounds are done, of {len(rounds)}")
        if number("seconds", found.seconds) < 0:
            raise ValueError("it took less than no time")
        return found

    @property
    def models(self) -> int:
        """Return how many models are trained."""
        return sum(len(seeds) for one in self.rounds[: self.done] for seeds in one.values())


@dataclass
class Folder:
    """The folder of a fit and its plans. spent: seconds of all calls."""

    path: Path
    plans: list[FitPlan] = field(default_factory=list)
    spent: float = 0.0

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Folder":
        """Return the fit in a folder, or a new one in an empty folder."""
        root = make_folder(path)
        if not os.access(root, os.W_OK):  # said before thousands of images are read
            raise ValueError(f"{root} cannot be written to: permission denied")
        if (root / FIT).exists():
            about = _read(root / FIT)
            try:
                plans = [FitPlan.from_json(plan) for plan in about["plans"]]
                return cls(root, plans, number("spent", about["spent"]))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"{root / FIT} is damaged ({error})") from None
        others = sorted(entry.name for entry in root.iterdir() if not entry.name.startswith("."))
        if set(others) - {NAMES}:
            raise ValueError(f"{root} is not empty and not a fit: it holds {', '.join(others[:3])}")
        return cls(root)

    def save(self) -> None:
        """Write the plans."""
        _write(self.path / FIT, {"plans": [plan.to_json() for plan in self.plans], "spent": round(self.spent, 1)})

    def runs(self, plan: FitPlan) -> Path:
        """Return the folder of the runs of a plan."""
        return self.path / "runs" / str(self.plans.index(plan) + 1)

    def save_answer(self, answer: Mapping[str, Any], ranking: Any, chosen: Path | None) -> None:
        """Write the ranking, the model, and the answer last, so that what it names is there."""
        sweep(self.path)
        for half in self.path.glob(f".{MODEL}.????????"):  # of a killed process; the folder is ours alone
            shutil.rmtree(half, ignore_errors=True)
        with atomic(self.path / RANKING) as part:
            ranking.to_csv(part, index=False, float_format="%.4f")
        if chosen is not None:
            _copy_run(chosen, self.path / MODEL)
        _write(self.path / ANSWER, dict(answer))


def _write(path: Path, about: dict[str, Any]) -> None:
    """Write a table of JSON with the number of its format."""
    with atomic(path) as part:
        part.write_text(json.dumps({"format": FORMAT, **about}, indent=2) + "\n", encoding="utf-8")


def _read(path: Path, *, names: bool = False) -> dict[str, Any]:
    """Return a table of JSON whose format number is known. names: the file may be written by hand, with the names
    alone."""
    about = read_json(path)
    if names and isinstance(about, dict) and "format" not in about:
        return {"names": about.get("names", about)}
    if not isinstance(about, dict) or not isinstance(about.get("format"), int):
        raise ValueError(f"{path} does not say which format it has")
    if about["format"] > FORMAT:
        raise ValueError(f"{path} has format {about['format']}, this version reads up to {FORMAT}: please upgrade")
    return about


def _copy_run(source: Path, target: Path) -> None:
    """Copy the files of a run to `target`, which is the old or the new one, or for a moment none."""
    new = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        for name in ("model.safetensors", "history.parquet", "run.json"):
            shutil.copy2(source / name, new / name)
        new.chmod(0o755)
        if target.exists():
            old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
            target.rename(old / "old")
            new.rename(target)
            shutil.rmtree(old)
        else:
            new.rename(target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def read_answer(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `fit` wrote about its choice; a ValueError where there is none yet."""
    root = Path(path)
    if not (root / FIT).exists():
        raise ValueError(f"{root} is not a fit: it has no {FIT}")
    if not (root / ANSWER).exists():
        raise ValueError(f"the fit in {root} has no finished models yet; run `karenina fit` again with more time")
    answer = _read(root / ANSWER)
    try:
        _check_answer(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{root / ANSWER} is damaged ({error})") from None
    return answer


# What readers of an answer rely on, and of what kind it is; the second only where a model was chosen.
_KINDS: dict[str, Any] = {"models": int, "verdict": dict, "advice": list}
_OF_A_CHOICE: dict[str, Any] = {
    "run": str,
    "weights": str,
    "setting": str,
    "seed": int,
    "active": int,
    "kl": list,
    "udr_setting": int | float | None,
    "udr_a2a": int | float | None,
}


def _check_answer(answer: dict[str, Any]) -> None:
    """Refuse an answer that lacks what its readers rely on."""
    run = answer["run"]
    for name, kind in {**_KINDS, **(_OF_A_CHOICE if run is not None else {})}.items():
        if not isinstance(answer[name], kind):
            raise ValueError(f"{name} is {answer[name]!r:.40}")
    if run is not None and (not run or PurePosixPath(run).is_absolute() or ".." in PurePosixPath(run).parts):
        raise ValueError(f"run is {run!r:.40}, expected a folder of the fit")
    if not all(isinstance(value, int | float) for value in answer.get("kl", ())):
        raise ValueError("kl are no numbers")
    verdict = answer["verdict"]
    texts = [verdict["level"], verdict["why"]]
    texts += [one[name] for one in answer["advice"] for name in ("kind", "says", "try_next")]
    if not all(isinstance(text, str) for text in texts) or not isinstance(verdict["chance"], int | float | None):
        raise ValueError("the verdict or the advice is no text")


def folders_of_models(path: Path) -> list[Path]:
    """Return the folders that hold the models which a fit chose from; of anything but a fit, the path itself."""
    if not (path / FIT).exists():
        return [path]
    run = str(read_answer(path).get("run") or "") if (path / ANSWER).exists() else ""
    if run:  # in runs/K, or runs/K/unfinished/STEP where the first round was stopped
        plan = path / Path(*Path(run).parts[: 4 if "/unfinished/" in run else 2])
    else:
        plan = max(
            (path / "runs").glob("*"), key=lambda one: int(one.name) if one.name.isdecimal() else 0, default=path
        )
    # Each trial of a search has a folder of its own.
    found = {file.parent.parent for file in plan.rglob("run.json")}
    found = {folder for folder in found if "unfinished" not in folder.relative_to(plan).parts} - {path}
    trained = {file.parent.parent for folder in found for file in folder.glob("*/model.safetensors")}
    if not found:
        raise ValueError(f"the fit in {path} has no models yet; run `karenina fit` again with more time")
    return sorted(trained or found)


def fit_of(run: str | os.PathLike[str]) -> Path | None:
    """Return the fit that a run belongs to: its own folder, or one above it."""
    path = Path(run).resolve()
    return next((folder for folder in (path, *list(path.parents)[:5]) if (folder / FIT).exists()), None)


def read_names(run: str | os.PathLike[str], latents: int, weights: str) -> dict[int, str]:
    """Return the names that a person gave to latents, from the names.json of a run or of its fit; empty without one.

    weights: hash of the model. Names of another model (the fit may have chosen anew) are refused.
    """
    fit = fit_of(run)
    places = [folder / NAMES for folder in (Path(run), fit) if folder is not None]
    file = next((place for place in places if place.exists()), None)
    if file is None:
        return {}
    about = _read(file, names=True)
    names = about.get("names")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ValueError(f'{file} should have names such as {{"names": {{"3": "hair"}}}}')
    if about.get("weights") not in (None, weights):
        raise ValueError(f"{file} names the latents of another model: open the page again and save the names anew")
    found: dict[int, str] = {}
    for latent, name in names.items():
        if not latent.isdecimal() or int(latent) >= latents:
            raise ValueError(f"{file} names latent {latent!r}, the model has 0 to {latents - 1}")
        if name != as_utf8(name):
            raise ValueError(f"{file} gives latent {latent} a name that cannot be written: {name!r}")
        if name.strip():
            found[int(latent)] = name.strip()
    if len(set(found.values())) < len(found):
        raise ValueError(f"{file} gives two latents the same name")
    return found
