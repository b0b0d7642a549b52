"""What a report is made of, read from a study's directory or from some runs."""

import hashlib
import json
import os
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina.numerics.medians import medians
from karenina.studies.plan.plan import Selection, canonical
from karenina.studies.results.scores import Scores, scores

# A study computes UDR when it is complete; until then the report does, for up to this many models.
MOST_RANKED_HERE = 300
_OF_RUN = (
    "run",
    "data",
    "method",
    "parameters",
    "parameter",
    "strength",
    "setting",
    "seed",
    "latents",
    "network",
    "steps",
)


class Inputs(NamedTuple):
    """The images (n, c, h, w) that all models of a data set encoded, their factors (n, k) and the factors' names."""

    images: NDArray[np.uint8]
    factors: NDArray[Any]
    names: tuple[str, ...]
    continuous: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Material:
    """Models and what is known of them.

    frame: as `karenina.studies.results` gives it. paths: run -> its directory. pairs: UDR of pairs (target, source,
    value), or None. codes: run -> its codes (n, L) and KLs (L,). inputs: data set -> what was encoded; a ValueError or
    OSError where that is gone. notes: what a reader must know before all else. commands: how to make it again.
    plan: the study file, or "". study: the directory of the study, or None. versions: of UDR; the first that the models
    have ranks them, and `pairs` are of the first.
    """

    title: str
    frame: pd.DataFrame
    paths: Mapping[str, Path]
    pairs: pd.DataFrame | None
    codes: Callable[[str], tuple[NDArray[np.float32], NDArray[np.float64]]]
    inputs: Callable[[str], Inputs]
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    plan: str = ""
    study: Path | None = None
    kl_threshold: float = ACTIVE_KL
    versions: tuple[str, ...] = ("lasso",)
    problems: list[str] = field(default_factory=list)

    @cached_property
    def scores(self) -> Scores:
        return scores(self.frame)

    @cached_property
    def about(self) -> pd.DataFrame:
        """One row a run, in the order of `scores`, with a label that tells it from the others."""
        whole = self.frame[list(_OF_RUN)].drop_duplicates("run").set_index("run", drop=False)
        whole = whole.loc[list(self.scores.runs["run"])]
        words = whole["method"] + (" " + whole["parameters"]).where(whole["parameters"] != "", "")
        for column, form in (
            ("data", "{}, "),
            ("latents", "{} latents, "),
            ("network", "{}, "),
            ("steps", "{} steps, "),
        ):
            if whole[column].nunique() > 1:
                words = whole[column].map(form.format) + words
        labels = words + ", seed " + whole["seed"].astype(str)
        twice = labels.duplicated(keep=False)
        return whole.assign(words=words, label=labels.where(~twice, labels + " (" + whole["run"] + ")"))

    @cached_property
    def ranked_by(self) -> str | None:
        """The score that ranks the models without labels."""
        known = dict(zip(self.scores.names, self.scores.values.T))
        names = [f"udr_{version}" for version in self.versions]
        return next((name for name in names if name in known and np.isfinite(known[name]).any()), None)

    @cached_property
    def informative(self) -> NDArray[np.int64]:
        """How many latents of each run are informative, in the order of `about`."""
        return np.array([int((self.codes(run)[1] > self.kl_threshold).sum()) for run in self.about["run"]])

    def score(self, name: str) -> NDArray[np.float64]:
        """A score of every run, in the order of `about`; NaN where there is none."""
        if name not in self.scores.names:
            return np.full(len(self.about), np.nan)
        return self.scores.values[:, self.scores.names.index(name)]

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float, int]]:
        """run -> bounds of its UDR, NaN with too few partners, and the number of partners."""
        if self.pairs is None or self.ranked_by != f"udr_{self.versions[0]}":
            return {}
        known = self.pairs.dropna(subset="value").sort_values("target", kind="stable")
        runs, counts = np.unique(known["target"].astype(str), return_counts=True)
        start = np.concatenate([[0], np.cumsum(counts)])
        _, bounds = medians(start, known["value"].to_numpy())
        return {str(run): (float(a), float(b), int(n)) for run, (a, b), n in zip(runs, bounds, counts)}

    def extra(self, name: str) -> pd.DataFrame | None:
        """Another table of the study, such as its pairs; None where there is none."""
        from karenina.studies.analyses.files import extra_table

        if name == "pairs":
            return self.pairs
        return extra_table(self.study, name) if self.study is not None else None

    def note(self, problem: str) -> None:
        """Something that a picture or an analysis lacks; said once at the end of the page."""
        if problem not in self.problems:
            self.problems.append(problem)


def read(
    paths: Sequence[str | os.PathLike[str]],
    data_dir: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> Material:
    """The material of a study's directory, of run directories, or of a directory of run directories.

    metrics: which to compute for runs; a study has its own. data: the path of the runs' data set, if it is the user's.
    """
    given = [Path(path) for path in paths]
    for path in given:
        if not path.is_dir():
            raise ValueError(f"{path} is not a directory; expected a study's, or those of runs")
    if len(given) == 1 and (given[0] / "study.toml").exists():
        return read_study(given[0])
    runs = [run for path in given for run in _runs_in(path)]
    return read_runs(runs, data_dir, metrics, data)


def _runs_in(path: Path) -> list[Path]:
    if (path / "run.json").exists():
        return [path]
    if (path / "study.toml").exists():
        raise ValueError(f"{path} is a study: give one study, or runs")
    found = sorted(file.parent for file in path.glob("*/run.json"))
    if not found:
        raise ValueError(f"{path} is neither a study (study.toml) nor a run (run.json), and no run is in it")
    return found


def read_study(path: Path) -> Material:
    from karenina.evaluation.scoring import inputs
    from karenina.studies.execution.folder import Folder
    from karenina.studies.execution.task import load_data
    from karenina.studies.results.table import read_codes, read_parquet, results

    folder = Folder(path)
    status = folder.status()
    plan = status.plan
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        frame = results(path)
    notes = [str(warning.message) for warning in said]
    if len(status.done) < status.total:
        waiting = status.waiting + len(status.running)
        parts = [f"{len(status.done)} of {status.total} models are done"]
        parts += [f"{len(status.failed)} failed"] if status.failed else []
        parts += [f"{waiting} still to come"] if waiting else []
        notes.append(f"This study is not complete: {', '.join(parts)}. The page shows what there is.")
    if status.stale:
        notes.append(f"{status.stale} models were scored with other settings; run the study again to score them anew.")
    labels = {point.hash: point.label for point in plan.points}
    for name in status.failed[:10]:
        notes.append(f"Failed: {labels[name]}: {folder.reason(name)}")
    if len(status.failed) > 10:
        notes.append(f"... and {len(status.failed) - 10} more failures; `karenina study status` lists them.")
    pairs = folder.path / "pairs.parquet"
    cached: dict[str, Inputs] = {}

    def read_inputs(name: str) -> Inputs:
        if name not in cached:
            data = load_data(name)
            images, factors = inputs(data, plan.evaluation.rows, plan.evaluation.seed)
            continuous = tuple(size is None for size in data.factor_sizes)
            cached[name] = Inputs(images, factors, data.factor_names, continuous)
        return cached[name]

    def codes(name: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        return read_codes(folder.run(name))

    found = read_parquet(pairs).to_pandas() if pairs.exists() else None
    ranked = frame["metric"].isin([f"udr_{version}" for version in plan.selection.udr]).any()
    if not ranked and len(status.done) <= MOST_RANKED_HERE and plan.selection.udr:
        frame, found = _with_udr(frame, codes, plan.selection.udr[0], plan.selection)
    where = shlex.quote(str(path))
    return Material(
        plan.name,
        frame,
        {name: folder.run(name) for name in status.done},
        found,
        codes,
        read_inputs,
        tuple(notes),
        (f"karenina study run {where}/study.toml --out {where}", f"karenina report {where}"),
        plan.to_toml(),
        path,
        plan.selection.kl_threshold,
        plan.selection.udr or ("lasso",),
    )


def read_runs(
    paths: Sequence[Path],
    data_dir: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> Material:
    """Encode and score the runs, and compare those that differ by their seed alone."""
    from karenina.evaluation.scoring import data_of, evaluate, inputs
    from karenina.studies.execution.task import rows
    from karenina.training import open as open_run

    notes: list[str] = []
    opened: dict[str, Any] = {}
    for path in dict.fromkeys(path.resolve() for path in paths):
        name = path.name if path.name not in opened else str(path)
        try:
            opened[name] = open_run(path)
        except ValueError as error:
            notes.append(f"Left out: {error}")
    if not opened:
        raise ValueError(notes[0] if notes else "no runs to report on")
    one_of = {run.config.data: run for run in opened.values()}
    datas = {name: data_of(run, data_dir, data) for name, run in one_of.items()}
    found = {name: evaluate(run, datas[run.config.data], metrics=metrics) for name, run in opened.items()}
    strengths = _strengths([run.config for run in opened.values()])
    lines: list[tuple[Any, ...]] = []
    for (name, run), parameter in zip(opened.items(), strengths):
        of_run = _of_run(name, run.config, parameter)
        lines += [(*of_run, *row) for row in rows(found[name])]
    columns = [*_OF_RUN, "metric", "family", "property", "factor", "value", "std"]
    frame = pd.DataFrame(lines, columns=columns).astype({"value": float, "std": float, "strength": float})

    def codes(name: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        return found[name].codes, found[name].kl

    frame, pairs = _with_udr(frame, codes, "lasso", Selection())

    def read_inputs(name: str) -> Inputs:
        found = datas[name]
        return Inputs(*inputs(found), found.factor_names, tuple(size is None for size in found.factor_sizes))

    commands = [_train_command(run.config, run.path) for run in opened.values()]
    shown = " ".join(shlex.quote(os.path.relpath(run.path)) for run in opened.values())
    return Material(
        f"{len(opened)} runs" if len(opened) > 1 else next(iter(opened)),
        frame,
        {name: run.path for name, run in opened.items()},
        pairs,
        codes,
        read_inputs,
        tuple(notes),
        (*commands, f"karenina report {shown}"),
    )


def words(parameters: Mapping[str, Any]) -> str:
    """Parameters as a study writes them.

    >>> words({"beta": 16.0, "estimator": "weighted"})
    'beta=16 estimator=weighted'
    """
    return " ".join(f"{name}={canonical(value)}" for name, value in parameters.items())


def _strengths(configs: Sequence[Any]) -> list[str]:
    """The parameter that differs between the runs of a method, or else the first."""
    found = []
    for config in configs:
        same = [other.parameters for other in configs if other.method == config.method]
        varied = [n for n in config.parameters if len({json.dumps(p.get(n)) for p in same}) > 1]
        found.append(next(iter([*varied, *config.parameters]), ""))
    return found


def _of_run(name: str, config: Any, parameter: str) -> tuple[Any, ...]:
    shared = {k: v for k, v in config.to_json().items() if k not in ("seed", "data", "images")}
    setting = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:8]
    value = config.parameters.get(parameter)
    strength = float(value) if isinstance(value, int | float) else np.nan
    start = (name, config.data, config.method, words(config.parameters), parameter, strength, setting)
    return (*start, config.seed, config.latents, config.network, config.steps)


def _with_udr(
    frame: pd.DataFrame,
    codes: Callable[[str], tuple[NDArray[np.float32], NDArray[np.float64]]],
    version: str,
    selection: Selection,
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """UDR for each data set of which models have partners."""
    from karenina.studies.results.several_models import has_partners, udr_version

    about = frame.drop_duplicates("run")
    extra, pairs = [], []
    for _, part in about.groupby("data", sort=False):
        if not has_partners(version, part["setting"]):
            continue
        names = list(part["run"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            arrays = [codes(name) for name in names]
            codes_of, kl_of = [c for c, _ in arrays], [kl for _, kl in arrays]
            found = udr_version(version, codes_of, kl_of, list(part["setting"]), selection)
        selected = {"metric": f"udr_{version}", "family": "selection", "property": "", "factor": ""}
        extra.append(part.assign(**selected, value=found.scores, std=np.nan))
        targets = np.repeat(np.arange(len(names)), np.diff(found.start))
        named = {"target": [names[i] for i in targets], "source": [names[i] for i in found.sources]}
        pairs.append(pd.DataFrame({**named, "value": found.values}))
    if not extra:
        return frame, None
    return pd.concat([frame, *extra], ignore_index=True), pd.concat(pairs, ignore_index=True)


def _train_command(config: Any, path: Path) -> str:
    settings = {**config.parameters, "latents": config.latents, "network": config.network, "batch": config.batch}
    settings |= {"learning_rate": config.learning_rate, "init": config.init, "decoder": config.decoder}
    settings |= {"reconstruction_weight": config.reconstruction_weight} | ({"trace": "true"} if config.trace else {})
    words = " ".join(f"--set {shlex.quote(f'{key}={value}')}" for key, value in settings.items())
    start = f"karenina train {shlex.quote(config.data)} {shlex.quote(config.method)} --seed {config.seed}"
    return f"{start} --steps {config.steps} {words} --out {shlex.quote(os.path.relpath(path))}"
