"""What a report is made of, read from a study's directory or from some runs."""

import os
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina._settings import SETTINGS
from karenina.data import DataSet
from karenina.evaluation.scoring import data_of, evaluate, inputs, load_cached
from karenina.numerics.resampling import medians
from karenina.studies.analyses.scores import Scores, wide_table
from karenina.studies.compare import ComparedModel, ReadCodes, udr_of_models
from karenina.studies.plan import Selection
from karenina.studies.study import RUN_COLUMNS, Study, table_of_runs, with_scores
from karenina.training.run import Run
from karenina.training.run import open as open_run

# A study compares its models when it is complete; for a page, up to this many models of an unfinished one are.
MOST_COMPARED = 300


class EncodedImages(NamedTuple):
    """The images (n, c, h, w) that all models of a data set encoded, their factors (n, k) and the factors' names."""

    images: NDArray[np.uint8]
    factors: NDArray[Any]
    names: tuple[str, ...]
    continuous: tuple[bool, ...]

    @classmethod
    def of(cls, data: DataSet, rows: int = 10_000, seed: int = 0) -> "EncodedImages":
        """Return images of a data set, with their factors, on which all its models are compared."""
        return cls(*inputs(data, rows, seed), data.factor_names, tuple(size is None for size in data.factor_sizes))


@dataclass(frozen=True, eq=False)
class Contents:
    """Models and what is known of them.

    frame: as `karenina.results` gives it. paths: run -> its directory. pairs: UDR of pairs (target, source,
    value), or None. codes: run -> its codes (n, L) and KLs (L,). inputs: data set -> what was encoded; a ValueError or
    OSError where that is gone. notes: what a reader must know before all else. commands: how to make it again.
    plan: the study file, or "". study: the directory of the study, or None. versions: of UDR; the first that the models
    have ranks them, and `pairs` are of the first.
    """

    title: str
    frame: pd.DataFrame
    paths: Mapping[str, Path]
    pairs: pd.DataFrame | None
    codes: ReadCodes
    inputs: Callable[[str], EncodedImages]
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    plan: str = ""
    study: Path | None = None
    kl_threshold: float = ACTIVE_KL
    versions: tuple[str, ...] = ("udr_lasso",)
    problems: list[str] = field(default_factory=list)

    @cached_property
    def scores(self) -> Scores:
        """Return the scores of all models as a wide table."""
        return wide_table(self.frame)

    @cached_property
    def about(self) -> pd.DataFrame:
        """Return one row per run, in the order of `scores`, with a label that tells it from the others."""
        whole = self.frame[list(RUN_COLUMNS)].drop_duplicates("run").set_index("run", drop=False)
        whole = whole.loc[list(self.scores.runs["run"])]
        swept = whole.groupby("method")["parameters"].transform(_swept)
        setting = whole["method"] + (" " + swept).where(swept != "", "")
        for column, form in (
            ("data", "{}, "),
            ("latents", "{} latents, "),
            ("network", "{}, "),
            ("steps", "{} steps, "),
        ):
            if whole[column].nunique() > 1:
                setting = whole[column].map(form.format) + setting
        labels = setting + ", seed " + whole["seed"].astype(str)
        twice = labels.duplicated(keep=False)
        return whole.assign(setting_label=setting, label=labels.where(~twice, labels + " (" + whole["run"] + ")"))

    @cached_property
    def ranked_by(self) -> str | None:
        """Return the score that ranks the models without labels."""
        known = dict(zip(self.scores.names, self.scores.values.T))
        return next((name for name in self.versions if name in known and np.isfinite(known[name]).any()), None)

    @cached_property
    def active(self) -> NDArray[np.int64]:
        """Return how many latents of each run are active, in the order of `about`."""
        return np.array([int((self.codes(run)[1] > self.kl_threshold).sum()) for run in self.about["run"]])

    def score(self, name: str) -> NDArray[np.float64]:
        """Return a score of every run, in the order of `about`; NaN where there is none."""
        if name not in self.scores.names:
            return np.full(len(self.about), np.nan)
        return self.scores.values[:, self.scores.names.index(name)]

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float, int]]:
        """Return the bounds of the UDR of each run, NaN with too few partners, and the number of its partners."""
        if self.pairs is None or self.ranked_by != self.versions[0]:
            return {}
        known = self.pairs.dropna(subset="value").sort_values("target", kind="stable")
        runs, counts = np.unique(known["target"].astype(str), return_counts=True)
        start = np.concatenate([[0], np.cumsum(counts)])
        _, bounds = medians(start, known["value"].to_numpy())
        return {str(run): (float(a), float(b), int(n)) for run, (a, b), n in zip(runs, bounds, counts)}

    def inputs_at_hand(self, data: str) -> EncodedImages | None:
        """Return what the models of a data set encoded; None where that is gone, which the page then says."""
        try:
            return self.inputs(data)
        except (ValueError, OSError) as error:
            text = f"The images of {data} are not at hand, so there are no reconstructions and importances: {error}"
            self.note(text)
            return None

    def extra(self, name: str) -> pd.DataFrame | None:
        """Return another table of the study by its name, such as "pairs"; None where there is none."""
        if name == "pairs":
            return self.pairs
        return Study(self.study).table(name) if self.study is not None else None

    def note(self, problem: str) -> None:
        """Add a note at the end of the page on what a picture or an analysis lacks, once."""
        if problem not in self.problems:
            self.problems.append(problem)


def _swept(parameters: "pd.Series[str]") -> "pd.Series[str]":
    """Return parameters without what all models of a method have in common, if they differ at all.

    >>> _swept(pd.Series(["c_max=2 gamma=100", "c_max=4 gamma=100"])).tolist(), _swept(pd.Series(["beta=4"])).tolist()
    (['c_max=2', 'c_max=4'], ['beta=4'])
    """
    if parameters.nunique() < 2:
        return parameters
    common = set.intersection(*(set(one.split()) for one in parameters))
    return parameters.map(lambda one: " ".join(word for word in one.split() if word not in common))


def read(
    paths: Sequence[str | os.PathLike[str]],
    data_dir: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> Contents:
    """Return the contents of a study's directory, of run directories, or of a directory of run directories.

    metrics: which to compute for runs; a study has its own. data: the path of the runs' data set, if it is the user's.
    """
    given = [Path(path) for path in paths]
    for path in given:
        if not path.is_dir():
            raise ValueError(f"{path} is not a directory; expected a study's, or those of runs")
    if len(given) == 1 and (given[0] / "study.toml").exists():
        if data is not None:
            raise ValueError(f"{given[0]} is a study, which names its own data: leave out --data (data=)")
        return read_study(given[0])
    runs = [run for path in given for run in _runs_in(path)]
    return read_runs(runs, data_dir, metrics, data)


def _runs_in(path: Path) -> list[Path]:
    """Return the runs in a directory."""
    if (path / "run.json").exists():
        return [path]
    if (path / "study.toml").exists():
        raise ValueError(f"{path} is a study: give one study, or runs")
    found = sorted(file.parent for file in path.glob("*/run.json"))
    if not found:
        raise ValueError(f"{path} is neither a study (study.toml) nor a run (run.json), and no run is in it")
    return found


def read_study(path: Path) -> Contents:
    """Return the contents of a study, finished or not."""
    folder = Study(path)
    status = folder.status()
    plan = status.plan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = folder.frame
    notes = [str(warning.message) for warning in caught]
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

    @cache
    def read_inputs(name: str) -> EncodedImages:
        return EncodedImages.of(load_cached(name), plan.evaluation.rows, plan.evaluation.seed)

    codes = folder.codes
    pairs = folder.table("pairs")
    if not frame["metric"].isin(plan.selection.udr).any() and len(status.done) <= MOST_COMPARED:
        frame, pairs = _compared(frame, codes, plan.selection)
    where = shlex.quote(str(path))
    return Contents(
        plan.name,
        frame,
        {name: folder.run_path(name) for name in status.done},
        pairs,
        codes,
        read_inputs,
        tuple(notes),
        (f"karenina study run {where}/study.toml --out {where}", f"karenina report {where}"),
        plan.to_toml(),
        path,
        plan.selection.kl_threshold,
        plan.selection.udr or ("udr_lasso",),
    )


def read_runs(
    paths: Sequence[Path],
    data_dir: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> Contents:
    """Encode and score the runs, and compare those that differ by their seed alone."""
    notes: list[str] = []
    opened: dict[str, Run] = {}
    for path in dict.fromkeys(path.resolve() for path in paths):
        name = path.name if path.name not in opened else str(path)
        try:
            opened[name] = open_run(path)
        except ValueError as error:
            notes.append(f"Left out: {error}")
    if not opened:
        raise ValueError(notes[0] if notes else "no runs to report on")
    halves = {name: run for name, run in opened.items() if run.stopped_at is not None}
    for name, run in halves.items():
        if len(halves) < len(opened):  # beside those that have all their steps it would only look bad
            del opened[name]
            notes.append(f"Left out: {name} was {run.status} of {run.config.steps:,}")
        else:
            notes.append(f"{name} was {run.status} of {run.config.steps:,}: what is shown is the model of that step.")
    one_of = {run.config.data: run for run in opened.values()}
    datas = {name: data_of(run, data, data_dir) for name, run in one_of.items()}
    found = {name: evaluate(run, datas[run.config.data], metrics=metrics) for name, run in opened.items()}

    def codes(name: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        return found[name].codes, found[name].kl

    configs = {name: run.config for name, run in opened.items()}
    versions = ("udr_lasso", "udr_lasso_a2a") if len(opened) <= MOST_COMPARED else ("udr_lasso",)
    frame = table_of_runs(configs, {name: one.rows() for name, one in found.items()})
    frame, pairs = _compared(frame, codes, Selection(udr=versions))
    folders = {name: Path(str(run.path)) for name, run in opened.items()}
    listed = " ".join(shlex.quote(os.path.relpath(folder)) for folder in folders.values())
    commands = [_train_command(config, folders[name]) for name, config in configs.items()]
    return Contents(
        f"{len(opened)} runs" if len(opened) > 1 else next(iter(opened)),
        frame,
        folders,
        pairs,
        codes,
        cache(lambda name: EncodedImages.of(datas[name])),
        tuple(notes),
        (*commands, f"karenina report {listed}"),
        versions=versions,
    )


def _compared(frame: pd.DataFrame, codes: ReadCodes, selection: Selection) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the table with UDR where models have partners, and its pairs."""
    about = frame.drop_duplicates("run")
    models = [ComparedModel(*names) for names in zip(*(about[key] for key in ComparedModel._fields))]
    rows, pairs = udr_of_models(models, codes, selection)
    return (with_scores(frame, rows) if rows["run"] else frame), (pd.DataFrame(pairs) if pairs["value"] else None)


def _train_command(config: Any, path: Path) -> str:
    """Return the command that trains such a run."""
    chosen = {name: getattr(config, name) for name in SETTINGS if name != "steps"}
    chosen = {name: value for name, value in chosen.items() if value != SETTINGS[name].default}
    options = [f"{key}={'true' if value is True else value}" for key, value in {**config.parameters, **chosen}.items()]
    words = " ".join(f"--set {shlex.quote(option)}" for option in options)
    start = f"karenina train {shlex.quote(config.data)} {shlex.quote(config.method)} --seed {config.seed}"
    return f"{start} --steps {config.steps} {words} --out {shlex.quote(os.path.relpath(path))}"
