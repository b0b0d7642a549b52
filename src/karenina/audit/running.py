"""Run the experiments: what an audit measures, at every value and seed, in parallel; a stopped run resumes."""

import hashlib
import inspect
import json
import math
import os
import pickle
import re
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from karenina._files import open_regular
from karenina._plugins import named
from karenina._version import __version__
from karenina._words import hint
from karenina.audit.experiments import EXPERIMENTS, LARGE
from karenina.metrics._inputs import check
from karenina.metrics.information import Binning
from karenina.metrics.registry import METRICS, PROTOCOLS
from karenina.metrics.scoring import ALL, Asked, measure
from karenina.numerics.checks import positive_integer

# Raised when old files of scores no longer fit the experiments.
FORMAT = 1
PERFECT = "perfect"
# Our defaults, the same with bins of equal population instead of equal width, and the published protocols.
AUDITED_PROTOCOLS = ("ours", "quantile", *PROTOCOLS)
# In place of a protocol, for the user's own functions.
MINE = "mine"
# The property of a function that does not say what it measures.
UNKNOWN_PROPERTY = "own"
TREES = ("dci_forest", "dci_boosted")
# Values of a factor under "locatello", a protocol for categorical factors.
LEVELS = 10
# The user's own functions draw from other seeds than the data: their noise must not be the answer.
_OTHER_SEEDS = 1_000_000


@dataclass(frozen=True)
class MetricGroup:
    """Metrics that are measured together: `metrics` maps names to settings, or to the user's own functions."""

    protocol: str
    trees: bool
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Score:
    """One number of one metric: NaN and a note that says why when there is none."""

    protocol: str
    metric: str
    property: str
    value: float
    note: str


def audited(*, by_default: bool = False) -> list[str]:
    """Return the metrics that an audit can take: all that look at factors; or those that it takes if none is named."""
    able = [name for name, metric in METRICS.items() if not metric.codes_only]
    return [name for name in able if not METRICS[name].on_request] if by_default else able


def metric_groups(
    metrics: Iterable[str] | None, protocols: Iterable[str], mine: Mapping[str, Callable[..., Any]], trees: bool
) -> list[MetricGroup]:
    """Return the metrics to measure together. Those with trees stand apart: they are slow, and see fewer rows."""
    wanted = [metrics] if isinstance(metrics, str) else metrics
    asked = None if wanted is None else list(dict.fromkeys(known for name in wanted for known in _known(name)))
    groups = []
    protocols = list(dict.fromkeys([protocols] if isinstance(protocols, str) else protocols))
    for protocol in protocols:
        if protocol not in AUDITED_PROTOCOLS:
            raise ValueError(f"no protocol {protocol!r}; {hint(protocol, AUDITED_PROTOCOLS)}")
        chosen = {name: settings(name, protocol) for name in (audited(by_default=True) if asked is None else asked)}
        known = {name: values for name, values in chosen.items() if values is not None}
        quick = {name: values for name, values in known.items() if name not in TREES}
        slow = {name: values for name, values in known.items() if name in TREES and (trees or asked is not None)}
        groups += [MetricGroup(protocol, False, quick)] if quick else []
        groups += [MetricGroup(protocol, True, slow)] if slow else []
    if mine:
        groups.append(MetricGroup(MINE, False, dict(mine)))
    if not groups:
        raise ValueError(f"nothing to audit: {', '.join(asked or [])} under {', '.join(protocols)}")
    return groups


def _known(name: str) -> list[str]:
    """Return the metric of this name; "dci" stands for all that begin with dci_, "all" for all."""
    found = [name] if name in METRICS else [known for known in METRICS if known.startswith(f"{name}_")]
    if name == ALL:
        return audited()
    if not found:
        raise ValueError(f"no metric {name!r}; {hint(name, audited())}")
    if METRICS[found[0]].codes_only:
        raise ValueError(f"{name} does not look at factors, which is what the experiments are about")
    return found


def settings(name: str, protocol: str) -> dict[str, Any] | None:
    """Return the settings of a metric under this protocol; None where the protocol does not have the metric."""
    metric = METRICS[name]
    if protocol == "quantile":
        binning = {"binning": Binning(kind="quantile")}
        return {**(metric.ours or {}), **binning} if metric.family == "information" else None
    values = metric.settings(None if protocol == "ours" else protocol)
    return None if values is None else dict(values)


def uses_bins(name: str, protocol: str, mine: Mapping[str, Callable[..., Any]]) -> bool | None:
    """Return whether the metric cuts values into bins, by its parameters.

    The user's own function may say so itself, with an attribute `bins`; without that or a parameter that is called
    bins, None.
    """
    if protocol != MINE:
        return METRICS[name].family == "information" or "factor_bins" in METRICS[name].parameters
    if any(re.search(r"(^|_)(n?bins?|binning)(_|$)", parameter) for parameter in _parameters(mine[name])):
        return True
    declared = getattr(mine[name], "bins", None)
    return None if declared is None else bool(declared)


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a hash that changes with the source of the function's module, so that old scores are not taken for its
    own.
    """
    try:
        source = inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):  # its source is not in a file, or it is compiled
        code = getattr(function, "__code__", None)
        source = repr((code.co_code, code.co_consts) if code else type(function))
    where = (getattr(function, "__module__", ""), getattr(function, "__qualname__", ""))
    digest = hashlib.sha256(repr((*where, getattr(function, "property", ""), source)).encode())
    return digest.hexdigest()[:16]


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a compiled function may not say
        return ()


def apply(group: MetricGroup, codes: NDArray[Any], factors: NDArray[Any], categorical: bool, seed: int) -> list[Score]:
    """Return all scores of the group. Our metrics share their tables; the user's own function may do anything."""
    if group.protocol == MINE:
        return [
            score
            for name, function in group.metrics.items()
            for score in _own(name, function, codes, factors, categorical, seed)
        ]
    if group.protocol == "locatello" and not categorical:
        factors = np.floor(LEVELS * factors / (factors.max(axis=0) * (1 + 1e-12)))
        categorical = True
    chosen = {name: Asked(METRICS[name], settings) for name, settings in group.metrics.items()}
    results: dict[str, Any] = dict.fromkeys(chosen)
    notes = dict.fromkeys(group.metrics, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results, _, notes = measure(chosen, check(codes, factors, not categorical), seed)
        except ValueError as error:  # too few rows for any metric
            notes = dict.fromkeys(group.metrics, str(error))
    found = []
    for name in group.metrics:
        for attribute, measured in METRICS[name].properties.items():
            value = math.nan if results[name] is None else float(attrgetter(attribute)(results[name]))
            found.append(Score(group.protocol, name, measured, value, notes[name]))
    return found


def _own(
    name: str, function: Callable[..., Any], codes: NDArray[Any], factors: NDArray[Any], categorical: bool, seed: int
) -> list[Score]:
    """Measure the user's own function, on copies that it may change. What it raises, or returns that is no number, is
    reported."""
    offered = {"seed": seed + _OTHER_SEEDS, "continuous": not categorical}
    taken = {key: value for key, value in offered.items() if key in _parameters(function)}
    measured = str(getattr(function, "property", UNKNOWN_PROPERTY))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(codes.copy(), factors.copy(), **taken)
            parts = result if isinstance(result, Mapping) else {measured: getattr(result, "value", result)}
            numbers = {str(part): _number(value) for part, value in parts.items()}
    except (Exception, SystemExit) as error:
        numbers = {measured: (math.nan, f"raised {type(error).__name__}: {error}")}
    numbers = numbers or {measured: (math.nan, "returned {}")}
    return [Score(MINE, name, part, *number) for part, number in numbers.items()]


def _number(value: Any) -> tuple[float, str]:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan, f"returned {type(value).__name__}, not a number"
    return (number, "") if math.isfinite(number) else (math.nan, f"returned {number}")


class ScoreKey(NamedTuple):
    """The name of a score: `protocol` ("mine" for a function of the user's), `metric`, and the `property` that it
    measures.
    """

    protocol: str
    metric: str
    property: str


@dataclass(frozen=True)
class Audit:
    """The scores of metrics in the experiments.

    Attributes
    ----------
    frame : one line per score: experiment, value, seed, protocol, metric, property, score, note
    about : how it was run
        about["bins"] has "protocol/metric" of everything in order, and whether it uses bins (None: not known).
    """

    frame: pd.DataFrame
    about: Mapping[str, Any]

    def curve(self, protocol: str, metric: str, prop: str, experiment: str) -> pd.DataFrame:
        """Return mean and standard deviation over seeds at each value of the experiment, NaN where a seed has no score.

        Empty if the experiment is no part of the audit.
        """
        if experiment not in self.about["experiments"]:
            return pd.DataFrame({"mean": [], "std": []})
        values = list(EXPERIMENTS[experiment].values)
        nothing = (math.nan, math.nan)
        points = [self._summary.get((protocol, metric, prop, experiment, value), nothing) for value in values]
        return pd.DataFrame(points, index=values, columns=["mean", "std"])

    @cached_property
    def _summary(self) -> dict[tuple[Any, ...], tuple[float, float]]:
        scores = self.frame.groupby(["protocol", "metric", "property", "experiment", "value"], sort=False).score
        seeds = self.seeds
        wanted = [seeds[f"{protocol}/{metric}"] for protocol, metric, *_ in scores.size().index]
        complete = (scores.size() == wanted) & (scores.count() == scores.size())
        table = pd.DataFrame({"mean": scores.mean(), "std": scores.std()}).where(complete)
        return {key: (mean, std) for key, mean, std in table.itertuples(name=None)}

    @property
    def seeds(self) -> dict[str, int]:
        """Return how often each "protocol/metric" was measured; audits that joined may have had other seeds."""
        return dict.fromkeys(self.about["bins"], self.about["seeds"]) | self.about.get("seeds_of", {})

    @property
    def seeds_text(self) -> str:
        """Return the number of seeds as text: "10 seeds (3 for ours/dci_forest)"."""
        other: dict[int, list[str]] = {}
        for name, seeds in self.seeds.items():
            other.setdefault(seeds, []).append(name)
        other.pop(self.about["seeds"], None)
        apart = "; ".join(f"{seeds} for {', '.join(names)}" for seeds, names in other.items())
        return f"{self.about['seeds']} seeds" + (f" ({apart})" if apart else "")

    @property
    def keys(self) -> list[ScoreKey]:
        """Return all scores that were measured, in order; one for a function that never gave a number."""
        names = dict.fromkeys(zip(self.frame.protocol, self.frame.metric, self.frame.property))
        return [ScoreKey(*name) for name in names]

    def failures(self) -> pd.DataFrame:
        """Return scores that could not be had, with the reason and how often: protocol, metric, experiment, note,
        times.
        """
        bad = self.frame[self.frame.score.isna()]
        keys = ["protocol", "metric", "experiment", "value", "note"]
        return bad.groupby(keys, sort=False).size().rename("times").reset_index()


@dataclass(frozen=True)
class Measurement:
    """One representation, measured by one group of metrics.

    `experiment` is PERFECT for the representation that several share. Of the sample that the experiment makes for so
    many `rows`, the first `limit` are used.
    """

    group: int
    experiment: str
    value: float | str
    seed: int
    rows: int
    limit: int

    @property
    def key(self) -> str:
        return json.dumps([self.group, self.experiment, self.value, self.seed])


def run(
    metrics: Iterable[str] | None = None,
    *,
    protocols: Sequence[str] = ("ours", "quantile"),
    mine: Mapping[str, Callable[..., Any] | str] | None = None,
    experiments: Iterable[str] | None = None,
    seeds: int = 10,
    rows: int = 20_000,
    trees: bool = False,
    tree_rows: int = 5_000,
    workers: int = 1,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Put metrics through the controlled experiments of Carbonneau et al. (2022), and through known failures.

    Parameters
    ----------
    metrics : names; None: all but those that grow trees, which `trees` adds
    protocols : of "ours", "quantile" (ours with bins of equal population), "locatello", "carbonneau"
    mine : name -> the user's own function, or "module:function"
        Called with codes (n, d) and factors (n, k), also `seed` and `continuous` if it takes them. It returns a number,
        an object with `value`, or a dict of numbers by property.
    experiments : names from `EXPERIMENTS`; None: all
    seeds, rows : int
    tree_rows : rows that metrics with trees see
    workers : processes; the user's own functions must then be importable
    out : a directory that takes every score as it comes; the same call resumes there
    progress : called with the number of jobs done and of all jobs

    Examples
    --------
    >>> found = run(["mig"], protocols=["ours"], experiments=["noise"], seeds=1, rows=500)
    >>> found.curve("ours", "mig", "compactness", "noise")["mean"].round(1).tolist()
    [0.9, 0.5, 0.2, 0.1, 0.0, 0.0]
    """
    seeds, workers = positive_integer(seeds, "seeds"), positive_integer(workers, "workers")
    rows, tree_rows = positive_integer(rows, "rows", 200), positive_integer(tree_rows, "tree_rows", 200)
    asked = [experiments] if isinstance(experiments, str) else experiments
    names = list(EXPERIMENTS) if asked is None else list(dict.fromkeys(asked))
    for name in names:
        if name not in EXPERIMENTS:
            raise ValueError(f"no experiment {name!r}; {hint(name, EXPERIMENTS)}")
    functions = {str(name): named(f) if isinstance(f, str) else f for name, f in (mine or {}).items()}
    groups = metric_groups(metrics, protocols, functions, trees)
    jobs = _jobs(groups, names, seeds, rows, tree_rows)
    about = {
        "format": FORMAT,
        "version": __version__,
        "rows": rows,
        "tree_rows": tree_rows,
        "seeds": seeds,
        "experiments": names,
        "bins": {f"{g.protocol}/{m}": uses_bins(m, g.protocol, functions) for g in groups for m in g.metrics},
        "metrics": [
            fingerprint(what) if g.protocol == MINE else repr(what) for g in groups for what in g.metrics.values()
        ],
    }
    done: dict[str, list[Score]] = {}
    log: Any = nullcontext()
    if out is not None:
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        done = _resume(folder / "scores.jsonl", about)
        log = (folder / "scores.jsonl").open("a")
        if progress is not None and done:
            progress(len(done), len(jobs))
    left = [job for job in jobs if job.key not in done]
    with log as file:
        for job, scores in _results(groups, left, workers):
            done[job.key] = scores
            if file is not None:
                _write(file, {"job": job.key, "scores": [asdict(score) for score in scores]})
            if progress is not None:
                progress(len(done), len(jobs))
    return _collect(jobs, done, names, about)


def read(path: str | os.PathLike[str], *other_paths: str | os.PathLike[str]) -> Audit:
    """Read an audit that `run` left in a directory, also an unfinished one.

    The audits in `other_paths` join it, which are of other metrics or experiments and must have the same rows: metrics
    that came later, or that take long and are measured with fewer seeds, have a folder of their own. What two folders
    both have is taken from the first.
    """
    first, *others = (_read(one) for one in (path, *other_paths))
    for where, other in zip(other_paths, others):
        different = [key for key in ("rows", "tree_rows") if other.about[key] != first.about[key]]
        again = set(first.about["bins"]) & set(other.about["bins"])
        if any(first.seeds[name] != other.seeds[name] for name in again):
            different.append(f"seeds of {', '.join(sorted(again))}")
        if different:
            raise ValueError(f"{where} holds an audit of other {', '.join(different)} than {path}: they do not join")
        first = _joined(first, other)
    return first


def _read(path: str | os.PathLike[str]) -> Audit:
    file = Path(path) / "scores.jsonl"
    if not file.exists():
        raise ValueError(f"{path} holds no audit")
    about, done, whole = _load(file)
    if not whole:
        raise ValueError(f"{path} holds no audit: it was stopped before its first line")
    keys = [json.loads(key) for key in done]
    unknown = sorted({name for _, name, *_ in keys if name != PERFECT} - set(EXPERIMENTS))
    if unknown:
        raise ValueError(f"{path} has experiments that this version of karenina does not: {', '.join(unknown)}")
    jobs = [Measurement(group, name, value, seed, 0, 0) for group, name, value, seed in keys]
    return _collect(jobs, done, about["experiments"], about)


def _joined(first: Audit, second: Audit) -> Audit:
    names = ["protocol", "metric", "experiment"]
    there = set(first.frame[names].drop_duplicates().itertuples(index=False, name=None))
    new = [line not in there for line in second.frame[names].itertuples(index=False, name=None)]
    both = {*first.about["experiments"], *second.about["experiments"]}
    about = {
        **first.about,
        "experiments": [name for name in EXPERIMENTS if name in both],
        "bins": {**first.about["bins"], **second.about["bins"]},
        "metrics": [*first.about["metrics"], *second.about["metrics"]],
        "seeds_of": {**second.seeds, **first.seeds},
    }
    frame = pd.concat([first.frame, second.frame[new]])
    # All experiments of a metric stand together, as in one audit.
    order = {key: i for i, key in enumerate(about["bins"])}
    places = [order[f"{protocol}/{metric}"] for protocol, metric in zip(frame.protocol, frame.metric)]
    return Audit(frame.iloc[np.argsort(places, kind="stable")].reset_index(drop=True), about)


def _jobs(groups: list[MetricGroup], names: list[str], seeds: int, rows: int, tree_rows: int) -> list[Measurement]:
    """Return the jobs, quick ones first, then the large ones of the rest, so that no process ends up alone with them.

    Trees see fewer rows, and a fifth of the large samples of "samples".
    """
    jobs: dict[str, Measurement] = {}
    for index, group in enumerate(groups):
        for name in names:
            experiment = EXPERIMENTS[name]
            sample_rows = min(rows, tree_rows) if group.trees and not experiment.nested else rows
            limit = rows if group.trees else LARGE * rows
            for value in experiment.values:
                shared = value == experiment.neutral
                for seed in range(seeds):
                    where = (PERFECT, 0) if shared else (name, value)
                    job = Measurement(index, where[0], where[1], seed, sample_rows, limit)
                    jobs[job.key] = job
    return sorted(jobs.values(), key=lambda job: (groups[job.group].trees, -_size(job)))


def _size(job: Measurement) -> float:
    nested = job.experiment != PERFECT and EXPERIMENTS[job.experiment].nested
    return min(job.limit, job.rows * (LARGE * float(job.value) if nested else 1))


def work(group: MetricGroup, job: Measurement) -> list[Score]:
    """Make one representation and measure it."""
    experiment = EXPERIMENTS["noise" if job.experiment == PERFECT else job.experiment]
    codes, factors = experiment.make(0.0 if job.experiment == PERFECT else job.value, job.rows, job.seed)
    return apply(group, codes[: job.limit], factors[: job.limit], experiment.categorical, job.seed)


def _results(
    groups: list[MetricGroup], jobs: list[Measurement], workers: int
) -> Iterator[tuple[Measurement, list[Score]]]:
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, work(groups[job.group], job)
        return
    for group in groups:
        try:
            pickle.dumps(group)
        except Exception as error:
            raise ValueError(
                f"a function of your own cannot be sent to other processes ({error}): use 1 worker"
            ) from None
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_one_thread)
    try:
        futures = {pool.submit(work, groups[job.group], job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenExecutor:
        raise ValueError("a worker process died; with 1 worker you see where") from None
    except BaseException:  # Ctrl-C: what is under way is not waited for
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    """Ignore Ctrl-C, which is for the process that started this worker, and compute in one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)


def _write(file: TextIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()


def _load(file: Path) -> tuple[dict[str, Any], dict[str, list[Score]], int]:
    """Return how the audit was run, the scores in the file, and how many bytes of it are complete lines."""
    with open_regular(file) as lines:
        content = lines.read()
    whole = content[: content.rfind(b"\n") + 1]  # a kill may have cut the last line
    done: dict[str, list[Score]] = {}
    about: dict[str, Any] = {}
    try:
        for number, line in enumerate(whole.decode().splitlines(), 1):
            entry = json.loads(line)
            if number == 1:
                about = entry["about"]
                if about["format"] != FORMAT:
                    break
            else:
                done[entry["job"]] = [Score(**score) for score in entry["scores"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{file} is not the file of an audit, or is damaged") from None
    if about.get("format", FORMAT) != FORMAT:
        raise ValueError(f"{file} has format {about['format']}, this version of karenina has {FORMAT}")
    if whole and "experiments" not in about:
        raise ValueError(f"{file} is not the file of an audit, or is damaged")
    return about, done, len(whole)


def _resume(file: Path, about: Mapping[str, Any]) -> dict[str, list[Score]]:
    """Return the scores that the file holds; begin it where there are none. The file of another audit is an error."""
    there, done, whole = _load(file) if file.exists() else ({}, {}, 0)
    if not whole:
        with file.open("w") as new:
            _write(new, {"about": about})
        return {}
    different = [key for key in about if there.get(key) != json.loads(json.dumps(about[key]))]
    if different:
        raise ValueError(
            f"{file.parent} holds another audit ({', '.join(different)} differ): choose another directory, or delete it"
        )
    with file.open("r+b") as cut:
        cut.truncate(whole)
    return done


def _collect(
    jobs: list[Measurement], done: Mapping[str, list[Score]], names: list[str], about: Mapping[str, Any]
) -> Audit:
    """Return all scores in one frame.

    Those of the perfect representation belong to every experiment that begins with it, and a failure of a metric that
    elsewhere returns several numbers to each of them.
    """
    parts: dict[str, dict[str, None]] = {}
    for scores in done.values():
        for score in scores:
            if score.protocol == MINE and not math.isnan(score.value):
                parts.setdefault(score.metric, {})[score.property] = None
    lines = []
    for job in jobs:
        if job.experiment == PERFECT:
            shown_in = [(name, EXPERIMENTS[name].neutral) for name in names if EXPERIMENTS[name].neutral is not None]
        else:
            shown_in = [(job.experiment, job.value)]
        for score in done[job.key]:
            properties = [score.property]
            if score.protocol == MINE and math.isnan(score.value) and score.property not in parts.get(score.metric, ()):
                properties = list(parts.get(score.metric, properties))
            for name, value in shown_in:
                for prop in properties:
                    lines.append((name, value, job.seed, score.protocol, score.metric, prop, score.value, score.note))
    columns = ["experiment", "value", "seed", "protocol", "metric", "property", "score", "note"]
    frame = pd.DataFrame(lines, columns=columns)
    place = {(name, v): (i, k) for i, name in enumerate(names) for k, v in enumerate(EXPERIMENTS[name].values)}
    metric_order = {key: i for i, key in enumerate(about["bins"])}
    order = [
        (metric_order[f"{protocol}/{metric}"], *place[experiment, value], seed)
        for protocol, metric, experiment, value, seed in zip(
            frame.protocol, frame.metric, frame.experiment, frame.value, frame.seed
        )
    ]
    frame = frame.iloc[sorted(range(len(frame)), key=order.__getitem__)].reset_index(drop=True)
    return Audit(frame, about)
