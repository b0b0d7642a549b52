"""A study on disk: its folder, who works in it, and all that can be read from it.

study.toml                    the plan
runs/<hash>/                  a run as `karenina.train` leaves it, with codes.npy (rows, L) and kl.npy (L,)
scores/<hash>.<scoring>.json  its scores, with a digest; this file appears last, so it says that the run is done
failed/<hash>.json            why a run failed
claims/<hash>                 locked by the process that works on the run, which writes there how far it is
results.parquet               all scores; written when the study is complete or is stopped
together, pairs, partners, dynamics.parquet   what `karenina.studies.compare` computes from several models

numpy, pandas and pyarrow are imported by what reads tables and arrays, so that a look at 10,000 runs is quick.
"""

import hashlib
import json
import math
import os
import shutil
import socket
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina._active import ACTIVE_KL
from karenina._files import atomic, check_regular, checksum, lock, read_json, sweep
from karenina._settings import hash_of, setting_of
from karenina._words import hint
from karenina.studies.plan import Plan, Point, parse, preset, presets, read, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from karenina.data import DataSet
    from karenina.training import Run
    from karenina.training.methods import Config

try:
    import fcntl
except ImportError:  # Windows: no locks, so do not run two studies in one directory
    fcntl = None  # type: ignore[assignment]

# What the results say of a run, before its scores.
RUN_COLUMNS = (
    *("run", "data", "method", "parameters", "parameter", "strength"),
    *("setting", "seed", "latents", "network", "steps"),
)
# The columns of a study's tables, by the name of their file.
COLUMNS = {
    "results": (*RUN_COLUMNS, "metric", "family", "property", "factor", "value", "std"),
    "together": ("run", "metric", "value"),
    "pairs": ("data", "target", "source", "value"),
    "partners": ("version", "data", "target", "source", "value"),
    "dynamics": ("data", "setting", "seeds", "draw", "runs", "value"),
}
UNSUPERVISED = ("label-free", "selection")
TASK = "task"  # what codes are good for: neither a measure of disentanglement nor free of labels
_MAKE_AGAIN = "`karenina study retry --check` marks it to be run again"
_NEEDS_FOLDER = "needs the folder of a study with its runs: `karenina study run` makes one"
# What was done in one way when a study file did not say it yet.
_BEFORE: dict[str, Any] = {"init": "torch", "population": 1, "evaluation": {"interventions": "rows"}}


class NotEnough(ValueError):
    """The study has too little for this analysis; the message says what it needs."""


@dataclass(frozen=True)
class Claimed:
    """A model that a process is working on. `step` of `steps`: training; step = steps: scoring."""

    hash: str
    host: str
    pid: int
    step: int
    steps: int
    started: float

    @property
    def who(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid else "a process that has just begun"

    @property
    def at(self) -> str:
        return f"step {self.step:,} of {self.steps:,}" if self.step < self.steps else "scoring"


@dataclass(frozen=True)
class Status:
    """The progress of a study: hashes of its models, in the plan's order.

    stale: how many are scored, but with other settings or by an earlier release whose numbers differ.
    """

    plan: Plan
    done: tuple[str, ...]
    failed: tuple[str, ...]
    running: tuple[Claimed, ...]
    stale: int

    @property
    def total(self) -> int:
        return len(self.plan.points)

    @property
    def waiting(self) -> int:
        return self.total - len(self.done) - len(self.failed) - len(self.running)


class Study:
    """A study in a folder, or a table of results alone.

    Parameters
    ----------
    path : path, optional
        The study's directory.
    frame : DataFrame, optional
        Results as `karenina.results` gives them, in place of those in the directory.

    Attributes
    ----------
    notes : list of str
        What a table or figure that was made of the study lacks.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, frame: "pd.DataFrame | None" = None):
        self._path = None if path is None else Path(path)
        self.notes: list[str] = []
        if frame is not None:
            self.frame = frame

    @property
    def path(self) -> Path:
        """Return the directory; NotEnough for results alone."""
        if self._path is None:
            raise NotEnough(_NEEDS_FOLDER)
        return self._path

    def folder(self) -> Path:
        """Return the directory; NotEnough where there is none, or none with a plan."""
        if not (self.path / "study.toml").exists():
            raise NotEnough(_NEEDS_FOLDER)
        return self.path

    def run_path(self, name: str) -> Path:
        return self.path / "runs" / name

    def scores_path(self, name: str, scoring: str) -> Path:
        return self.path / "scores" / f"{name}.{scoring}.json"

    def failure_path(self, name: str) -> Path:
        return self.path / "failed" / f"{name}.json"

    @property
    def results_path(self) -> Path:
        return self.path / "results.parquet"

    def with_frame(self, frame: "pd.DataFrame") -> "Study":
        """Return the study with other results."""
        return Study(self._path, frame)

    # The plan, and how far it is

    def read_plan(self) -> Plan:
        """Return the plan as the file says it now. It was checked when it was written."""
        file = self.path / "study.toml"
        if not file.exists():
            raise ValueError(f"{self.path} is not a study: it has no study.toml")
        return read(file, check=False, **_BEFORE)

    @cached_property
    def plan(self) -> Plan:
        """Return the plan when it was first asked for; NotEnough for results alone."""
        self.folder()
        return self.read_plan()

    @property
    def kl_threshold(self) -> float:
        """Return the KL above which a latent is active, in nats: as the study says, and as usual for results alone."""
        there = self._path is not None and (self._path / "study.toml").exists()
        return self.plan.selection.kl_threshold if there else ACTIVE_KL

    def adopt(self, plan: Plan) -> Plan:
        """Make this the directory of `plan`. A plan that holds all models of the one before replaces it.

        Return the plan with the initial weights and populations that the study began with, if they are left to us.
        """
        file = self.path / "study.toml"
        if file.exists():
            before = self.read_plan()
            plan = replace(plan, **{"init": before.init}) if plan.init == "auto" else plan
            plan = replace(plan, population=before.population) if plan.population == "auto" else plan
            lost = {point.hash for point in before.points} - {point.hash for point in plan.points}
            if lost:
                raise ValueError(
                    f"{self.path} holds another study: {len(lost)} of its models are not in this one. "
                    "Seeds, strengths and data sets can be added, not taken away; choose another directory"
                )
        # Hidden files are parts of files that are being written. Whether there is a study is asked again, as another
        # process may be making it just now.
        elif (
            self.path.is_dir()
            and any(not entry.name.startswith(".") for entry in self.path.iterdir())
            and not file.exists()
        ):
            raise ValueError(f"{self.path} is not empty and not a study")
        text = plan.to_toml()
        assert parse(text, check=False) == plan
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            with atomic(file) as part:
                part.write_text(text, encoding="utf-8")
        for name in ("runs", "scores", "failed", "claims"):
            (self.path / name).mkdir(exist_ok=True)
        for name in (".", "scores", "failed"):
            sweep(self.path / name)
        self.plan = plan
        return plan

    def names(self, what: str) -> set[str]:
        """Return the names of the whole files in a folder of the study: a hidden one is still being written."""
        try:
            return {entry.name for entry in os.scandir(self.path / what) if not entry.name.startswith(".")}
        except FileNotFoundError:
            return set()

    def status(self, plan: Plan | None = None) -> Status:
        """Return how far the study is; a caller that has the plan spares reading it."""
        plan = plan or self.read_plan()
        hashes = [point.hash for point in plan.points]
        scored = self.names("scores")
        done = {name.removesuffix(f".{plan.evaluation.hash}.json") for name in scored}
        failed = {name.removesuffix(".json") for name in self.names("failed")} - done
        running = [claim for name in sorted(self.names("claims")) if (claim := read_claim(self.path, name))]
        planned = set(hashes)
        open_ = planned - done - failed
        return Status(
            plan,
            tuple(name for name in hashes if name in done),
            tuple(name for name in hashes if name in failed),
            tuple(claim for claim in running if claim.hash in open_),
            len({name.split(".")[0] for name in scored} & planned - done),
        )

    def trained(self, name: str) -> bool:
        """Return whether the run is finished, scored or not."""
        try:
            about = read_json(self.run_path(name) / "run.json")
        except (OSError, ValueError):
            return False
        return isinstance(about, dict) and about.get("status") == "finished"

    def fail(self, name: str, reason: str, details: str = "", *, fresh: bool = False) -> None:
        """Record why a run failed. fresh: what is in its directory is no good, a retry starts from nothing."""
        with atomic(self.failure_path(name)) as part:
            part.write_text(json.dumps({"reason": reason, "details": details, "fresh": fresh}, indent=2))

    def reason(self, name: str) -> str:
        """Return why a run failed."""
        return str(self._failure(name).get("reason", "unknown"))

    def forget(self, name: str) -> None:
        """Let a failed run be tried again: from its checkpoint, unless that is no good."""
        if self._failure(name).get("fresh"):
            shutil.rmtree(self.run_path(name), ignore_errors=True)
        self.failure_path(name).unlink(missing_ok=True)

    def _failure(self, name: str) -> dict[str, Any]:
        try:
            found = read_json(self.failure_path(name))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def damaged(self) -> dict[str, str]:
        """Return the runs that are done but whose files are not those that were written: name -> what is wrong."""
        status = self.status()
        found = {name: self._damage(name, status.plan) for name in status.done}
        return {name: wrong for name, wrong in found.items() if wrong is not None}

    def _damage(self, name: str, plan: Plan) -> str | None:
        try:
            files = read_scores(self.scores_path(name, plan.evaluation.hash))["files"]
        except ValueError:
            return "the file of its scores is damaged"
        for file, expected in files.items():
            path = self.run_path(name) / file
            if not path.exists():
                return f"{path} is gone"
            if checksum(path) != expected:
                return f"{path} was changed after it was written"
        return None

    # Scores

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Return the scores, as `karenina.results` gives them."""
        status = self.status()
        if self.results_path.exists():
            table = read_parquet(self.results_path)
            if status.stale and not status.done:
                warnings.warn(
                    f"the scores of {self.path} were made with other settings or by an earlier release whose numbers "
                    "differ; run the study again to score its models anew",
                    stacklevel=2,
                )
                return table.to_pandas()
            expected = _made_from(status.plan, status.done)
            # What older tables do not say.
            known = {b"scoring": expected[b"scoring"], b"active": _active(ACTIVE_KL)} | (table.schema.metadata or {})
            if all(known.get(key) == value for key, value in expected.items()):
                return table.to_pandas()
        return self.collect(status.plan).to_pandas()

    def write_results(self, plan: Plan) -> None:
        """Write results.parquet. It holds nothing that depends on when or where runs were made, so equal studies are
        equal to the byte; how long things took is in timings.parquet."""
        import pyarrow as pa

        timings: dict[str, list[Any]] = {"run": [], "what": [], "seconds": []}
        write_parquet(self.results_path, self.collect(plan, timings))
        write_parquet(self.path / "timings.parquet", pa.table(timings))

    def collect(self, plan: Plan, timings: dict[str, list[Any]] | None = None) -> "pa.Table":
        """Return the rows of all runs that are done, in the plan's order, and of what was computed from several."""
        runs: list[tuple[Any, ...]] = []
        scores: list[list[Any]] = []
        images: dict[str, set[str]] = {}
        of_several: dict[str, list[list[Any]]] = {}
        if (self.path / "together.parquet").exists():
            table = read_parquet(self.path / "together.parquet")
            for run, metric, value in zip(*(table[name].to_pylist() for name in ("run", "metric", "value"))):
                of_several.setdefault(run, []).append([metric, "selection", "", "", value, None])
        done = set(self.status().done)
        for point in plan.points:
            if point.hash not in done:
                continue
            about = read_scores(self.scores_path(point.hash, plan.evaluation.hash))
            strength = None if math.isnan(point.strength) else point.strength
            known = {"run": point.hash, "parameters": point.settings, "strength": strength}
            runs.append(tuple(known[name] if name in known else getattr(point, name) for name in RUN_COLUMNS))
            scores.append([*self._counted(about["rows"], plan, point.hash), *of_several.get(point.hash, ())])
            images.setdefault(point.data, set()).add(about["images"])
            if timings is not None:
                timings["run"] += [point.hash] * len(about["seconds"])
                timings["what"] += about["seconds"]
                timings["seconds"] += about["seconds"].values()
        for data in (data for data, found in images.items() if len(found) > 1):
            warnings.warn(
                f"the runs on {data} saw different images: was an official file added or changed meanwhile?",
                stacklevel=2,
            )
        return _tidy(runs, scores).replace_schema_metadata(_made_from(plan, [run[0] for run in runs]))

    def _counted(self, rows: list[list[Any]], plan: Plan, name: str) -> list[list[Any]]:
        """Return the rows of a run with its active latents counted by the threshold of the study.

        Scores are stored with the usual one, so that another threshold scores nothing anew.
        """
        threshold = plan.selection.kl_threshold
        if threshold == ACTIVE_KL:
            return rows
        active = float((self.array(name, "kl.npy", plan) > threshold).sum())
        return [[*row[:4], active, row[5]] if row[0] == "informative_latents" else row for row in rows]

    def words_of(self, metrics: Mapping[str, tuple[str, str]]) -> "pd.DataFrame":
        """Return the results with these metrics alone; scores without labels and tasks as they are.

        metrics: the name that a metric is to have -> metric and property in the results. NotEnough where the study has
        none of them. A note says which are missing.
        """
        import pandas as pd

        from karenina.metrics.registry import DCI_PARTS

        whole = self.frame[self.frame["factor"] == ""]
        kept = [whole[whole["family"].isin([*UNSUPERVISED, TASK])]]
        missing = []
        for name, (metric, prop) in metrics.items():
            rows = whole[(whole["metric"] == metric) & whole["property"].isin([prop, DCI_PARTS.get(prop), ""])]
            if rows.empty:
                missing.append(metric)
            kept.append(rows.assign(metric=name))
        if missing:
            text = f"{', '.join(missing)} under [evaluation] metrics in study.toml, then `karenina study run`"
            if len(missing) == len(metrics):
                raise NotEnough(f"needs {text}")
            self.note(f"without {text}")
        return pd.concat(kept, ignore_index=True)

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def table(self, name: str) -> "pd.DataFrame | None":
        """Return another table of the study, such as its pairs; None where there is none."""
        file = self._path / f"{name}.parquet" if self._path is not None else None
        return read_parquet(file).to_pandas() if file is not None and file.exists() else None

    def extra(self, name: str, remedy: str) -> "pd.DataFrame":
        """Return another table of the study; where there is none, NotEnough says how to get it, by `remedy`."""
        found = self.table(name)
        if found is None:
            raise NotEnough(f"needs {name}.parquet: {remedy}")
        return found

    # Runs

    def array(self, name: str, file: str, plan: Plan | None = None) -> "NDArray[Any]":
        """Return an array that a worker wrote for a run; a ValueError that says what to do if it is damaged.

        plan: spares reading it.
        """
        import numpy as np

        path = self.run_path(name) / file
        scores = self.scores_path(name, (plan or self.plan).evaluation.hash)
        # A run that was scored with other settings has no checksum of these.
        expected = read_scores(scores)["files"].get(file) if scores.exists() else None
        with intact(path, _MAKE_AGAIN):
            if expected is not None and checksum(path) != expected:
                raise ValueError("it was changed after it was written")
            return np.load(path, mmap_mode="r", allow_pickle=False)

    def codes(self, name: str) -> "tuple[NDArray[np.float32], NDArray[np.float64]]":
        """Return codes (rows, L) and KLs (L,) of a run."""
        import numpy as np

        self._need_run(name)
        codes, kl = (self.array(name, file) for file in ("codes.npy", "kl.npy"))
        with intact(self.run_path(name) / "codes.npy", _MAKE_AGAIN):
            if codes.ndim != 2 or kl.shape != codes.shape[1:] or {codes.dtype.kind, kl.dtype.kind} != {"f"}:
                raise ValueError(f"codes are {codes.dtype} {codes.shape}, KLs {kl.dtype} {kl.shape}")
            if not (np.isfinite(codes).all() and np.isfinite(kl).all()):
                raise ValueError("numbers are not finite")
        return codes, kl

    def run(self, name: str) -> "Run":
        """Return a trained model."""
        from karenina.training import open as open_run

        self._need_run(name)
        return open_run(self.run_path(name))

    def _need_run(self, name: str) -> None:
        self.folder()
        if not self.run_path(name).is_dir():
            raise NotEnough("needs the trained models in runs/: `karenina study run` makes them again")

    def data(self, name: str) -> "DataSet":
        """Return a data set of the study; NotEnough where it cannot be loaded."""
        from karenina.evaluation.scoring import load_cached

        try:
            return load_cached(name)
        except (ValueError, OSError) as error:
            raise NotEnough(f"needs the data set {name}: {error}") from None

    def inputs(self, name: str) -> "tuple[NDArray[np.uint8], NDArray[Any]]":
        """Return the images and factors that the runs of a data set encoded."""
        from karenina.evaluation.scoring import inputs

        return inputs(self.data(name), self.plan.evaluation.rows, self.plan.evaluation.seed)


def status(path: str | os.PathLike[str]) -> Status:
    """Return how far the study in a directory is."""
    return Study(path).status()


def results(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Return the scores of a study as a tidy table: one row per run x metric x factor.

    Parameters
    ----------
    path : path
        The study's directory. results.parquet is read; for a study that has continued since that was written, its runs.

    Returns
    -------
    DataFrame
        run (name of its directory under runs/), data, method, parameters (as text), parameter and strength (name and
        value of the swept one), setting (what runs share that differ in data set and seed alone), seed, latents,
        network, steps; metric, family ("label-free": needs no labels; "selection": needs several models), property,
        factor ("" for the whole representation), value, std (NaN where there is none).

    >>> import karenina
    >>> plan = karenina.studies.parse('''
    ... data = "blobs"
    ... seeds = 1
    ... steps = 2
    ... methods.vae = {}
    ... evaluation = {metrics = ["mig"], rows = 200}
    ... ''')
    >>> _ = karenina.studies.run(plan, "lab", workers=1, quiet=True)
    >>> results("lab").query("metric == 'mig'").factor.tolist()
    ['', 'background', 'x', 'y', 'radius']
    """
    return Study(path).frame


def find_plan(what: str | os.PathLike[str], scale: str | None = None, *, check: bool = True) -> Plan:
    """Return the plan of a study's directory, of a preset's name, or of a study file.

    A directory comes first: `study run NAME` makes one by the preset's name, and the same command resumes it as it is.
    """
    path = Path(what)
    if scale is None and (path / "study.toml").is_file():
        return Study(path).read_plan()
    if str(what) in presets():
        return preset(str(what), scale or "laptop")
    if scale is not None:
        raise ValueError(f"--scale goes with a preset ({', '.join(presets())}); {str(what)!r} is not one")
    if path.is_dir():
        return Study(path).read_plan()
    if path.is_file():
        return read(path, check=check)
    raise ValueError(f"no preset and no file {str(what)!r}; {hint(what, presets())}")


def retry(out: str | os.PathLike[str], *, check: bool = False) -> list[Point]:
    """Let the failed models of a study be run again, and with `check` those whose files were changed.

    Return these models.
    """
    study = Study(out)
    for name, reason in (study.damaged() if check else {}).items():
        study.fail(name, reason, fresh=True)
        for scores in (study.path / "scores").glob(f"{name}.*.json"):
            scores.unlink()
    status = study.status()
    names = set(status.failed)
    failed = [point for point in status.plan.points if point.hash in names]
    for point in failed:
        study.forget(point.hash)
    return failed


@cache
def schema(name: str) -> "pa.Schema":
    """Return the columns of a study's table with their types."""
    import pyarrow as pa

    numbers = dict.fromkeys(("strength", "value", "std"), pa.float64())
    numbers |= dict.fromkeys(("seed", "latents", "steps", "seeds", "draw"), pa.int64())
    return pa.schema([(column, numbers.get(column, pa.string())) for column in COLUMNS[name]])


def _tidy(runs: Sequence[tuple[Any, ...]], scores: Sequence[Sequence[Any]]) -> "pa.Table":
    """Return the table of results from the columns of each run and the rows of its scores."""
    import numpy as np
    import pyarrow as pa

    def turn(rows: Sequence[Any], names: Sequence[str]) -> list[Any]:
        return list(zip(*rows)) if rows else [[] for _ in names]

    types, of_run = schema("results").types, len(RUN_COLUMNS)
    repeated = np.repeat(np.arange(len(runs)), [len(rows) for rows in scores])
    columns = [pa.array(column, kind).take(repeated) for column, kind in zip(turn(runs, RUN_COLUMNS), types)]
    flat = turn([row for rows in scores for row in rows], types[of_run:])
    columns += [pa.array(column, kind) for column, kind in zip(flat, types[of_run:])]
    return pa.Table.from_arrays(columns, schema=schema("results"))


def table_of_runs(configs: Mapping[str, "Config"], scores: Mapping[str, Sequence[Any]]) -> "pd.DataFrame":
    """Return the results of runs that belong to no study, by their names.

    scores: rows as `Evaluation.rows` gives them. The strength is the parameter that differs between the runs of a
    method, or else the first.
    """
    runs = []
    for name, config in configs.items():
        same = [other.parameters for other in configs.values() if other.method == config.method]
        varied = [key for key in config.parameters if len({json.dumps(parameters.get(key)) for parameters in same}) > 1]
        parameter = next(iter([*varied, *config.parameters]), "")
        value = config.parameters.get(parameter)
        strength = float(value) if isinstance(value, int | float) else None
        start = (name, config.data, config.method, shown(config.parameters), parameter, strength, setting_of(config))
        runs.append((*start, config.seed, config.latents, config.network, config.steps))
    return _tidy(runs, [scores[name] for name in configs]).to_pandas()


def with_scores(
    frame: "pd.DataFrame", scores: "Mapping[str, Sequence[Any]] | pd.DataFrame", family: str = "selection"
) -> "pd.DataFrame":
    """Return the results with further scores of their models, in place of those of the same names.

    scores: columns run, metric, value and perhaps property; rows of other models are left out.
    """
    import pandas as pd

    scores = pd.DataFrame(scores)
    scores = scores[scores["run"].isin(frame["run"])]
    new = frame.drop_duplicates("run").set_index("run", drop=False).loc[list(scores["run"])]
    columns = {name: list(scores[name]) for name in ("metric", "value", "property") if name in scores}
    new = new.assign(**{"family": family, "property": "", "factor": "", "std": math.nan, **columns})
    return pd.concat([frame[~frame["metric"].isin(scores["metric"])], new], ignore_index=True)


def _made_from(plan: Plan, names: Iterable[str]) -> dict[bytes, bytes]:
    """Return what a table of results says of itself: a digest of its runs, how they were scored, and above
    which KL a latent counts as active."""
    digest = hashlib.sha256("".join(sorted(names)).encode()).hexdigest()
    active = _active(plan.selection.kl_threshold)
    return {b"runs": digest.encode(), b"scoring": plan.evaluation.hash.encode(), b"active": active}


def _active(threshold: float) -> bytes:
    return repr(float(threshold)).encode()


def read_scores(path: Path) -> dict[str, Any]:
    """Return what a file of scores says; a ValueError that says what to do if it is damaged."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        about = dict(read_json(path))
        if (
            all(_is_row(row) for row in about["rows"])
            and isinstance(about["images"], str)
            and all(isinstance(value, int | float) for value in about["seconds"].values())
            and all(isinstance(value, str) for value in about["files"].values())
            and about.get("digest", digest(about)) == digest(about)  # files of version 0.1 have none
        ):
            return about
    raise ValueError(f"{path} is damaged; {_MAKE_AGAIN}")


def _is_row(row: list[Any]) -> bool:
    """Return whether it has the columns metric to std of the results."""
    *words, value, std = row
    return (
        len(words) == 4
        and all(isinstance(word, str) for word in words)
        and all(number is None or isinstance(number, float) for number in (value, std))
    )


def digest(scores: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a file of scores says, so that a changed number is noticed."""
    kept = {name: value for name, value in scores.items() if name != "digest"}
    return hash_of(kept)


def read_parquet(path: Path) -> "pa.Table":
    """Return a table of the study from its file; a ValueError that says what to do if it is damaged."""
    import pyarrow.parquet as pq

    with intact(path, "run the study again to write it anew"):
        check_regular(path)
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        if not table.schema.equals(schema(path.stem)):
            raise ValueError(f"its columns are {', '.join(table.schema.names)}")
        return table


def is_current(path: Path, key: bytes) -> bool:
    """Return whether a table is intact, and was computed from what `key` says."""
    try:
        return (read_parquet(path).schema.metadata or {}).get(b"key") == key
    except ValueError:
        return False


def write_parquet(path: Path, table: "pa.Table") -> None:
    import pyarrow.parquet as pq

    with atomic(path) as part:
        pq.write_table(table, part, compression="zstd", write_page_checksum=True)


@contextmanager
def intact(path: Path, remedy: str) -> Iterator[None]:
    """Say in one line whatever goes wrong in reading a file: damaged files make their parsers raise anything."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PermissionError):
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{path} is damaged ({lines[0]}); {remedy}") from None


class Claim:
    """A lock on one model, held as long as the process lives and has not let go."""

    def __init__(self, handle: int, name: str):
        self.handle, self.name = handle, name
        self.started, self.written = time.time(), 0.0

    def progress(self, step: int, steps: int) -> None:
        """Write how far the model is, every few seconds at most."""
        if time.monotonic() - self.written < 2 and step < steps:
            return
        self.written = time.monotonic()
        about = {"host": socket.gethostname(), "pid": os.getpid(), "step": step, "steps": steps}
        line = json.dumps({**about, "started": self.started}).ljust(255) + "\n"
        os.pwrite(self.handle, line.encode(), 0)


@contextmanager
def claim(folder: Path, name: str) -> Iterator[Claim | None]:
    """Hold the model's lock; None if another process does. The system frees it when the process dies."""
    path = folder / "claims" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if lock(handle) is False:
            yield None
            return
        yield Claim(handle, name)
        # Who got hold of the file before it went looks for scores and failures first, so nothing is done twice.
        path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def read_claim(folder: Path, name: str) -> Claimed | None:
    """Return who works on a model; None if that process is gone."""
    path = folder / "claims" / name
    try:
        # Network file systems lock only what may be written; somebody else's study may only be read.
        handle = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    except OSError:
        return None
    try:
        if fcntl is not None and lock(handle) is not False:
            return None
        about = json.loads(os.pread(handle, 256, 0) or "{}")
        pid, step, steps = (int(about[key]) for key in ("pid", "step", "steps"))
        return Claimed(name, str(about["host"]), pid, step, steps, float(about["started"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return Claimed(name, "", 0, 0, 1, time.time())  # just begun
    finally:
        os.close(handle)


@contextmanager
def exclusive(folder: Path, name: str) -> Iterator[None]:
    """Wait for a lock of this name in the study's directory; `read_claim` of .NAME says who has it."""
    handle = os.open(folder / "claims" / f".{name}", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        Claim(handle, name).progress(0, 1)
        yield
    finally:
        os.close(handle)
