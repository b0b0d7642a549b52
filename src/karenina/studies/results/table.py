"""All scores of a study in one table: tidy, as it is stored, and wide, as the analyses use it."""

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina._files import atomic, check_regular, checksum, read_json
from karenina.evaluation.more import NOISE, REGRESSION
from karenina.evaluation.ranking import setting_of
from karenina.studies.execution.folder import Folder, digest
from karenina.studies.plan.plan import Plan, Point, shown

if TYPE_CHECKING:
    import pandas as pd

    from karenina.training.config import Config

_NUMBERS = {"strength": pa.float64(), "value": pa.float64(), "std": pa.float64()}
_NUMBERS |= dict.fromkeys(("seed", "latents", "steps", "seeds", "draw"), pa.int64())
_RUN_COLUMNS = "run data method parameters parameter strength setting seed latents network steps"
# The tables of a study, by the name of their file.
SCHEMAS = {
    name: pa.schema([(column, _NUMBERS.get(column, pa.string())) for column in columns.split()])
    for name, columns in {
        "results": f"{_RUN_COLUMNS} metric family property factor value std",
        "together": "run metric value",
        "pairs": "data target source value",
        "partners": "version data target source value",
        "dynamics": "data setting seeds draw runs value",
    }.items()
}
SCHEMA = SCHEMAS["results"]
UNSUPERVISED = ("label-free", "selection")
TASK = "task"  # what codes are good for: neither a measure of disentanglement nor free of labels
ASIDE = (NOISE, REGRESSION)  # metrics with wrong labels, and metrics that are there already under another name
_RUN = ["run", "data", "method", "strength", "setting", "seed", "latents"]
_MAKE_AGAIN = "`karenina study retry --check` marks it to be run again"


def results(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """The scores of a study as a tidy table: one row per run x metric x factor.

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
    folder = Folder(path)
    status = folder.status()
    if folder.results.exists():
        table = read_parquet(folder.results)
        if status.stale and not status.done:
            warnings.warn(
                f"the scores of {path} were made with other settings or by an earlier release whose numbers differ; "
                "run the study again to score its models anew",
                stacklevel=2,
            )
            return table.to_pandas()
        expected = _made_from(status.plan, status.done)
        # What older tables do not say.
        known = {b"scoring": expected[b"scoring"], b"active": _active(ACTIVE_KL)} | (table.schema.metadata or {})
        if all(known.get(key) == value for key, value in expected.items()):
            return table.to_pandas()
    return collect(folder, status.plan).to_pandas()


def write_results(folder: Folder, plan: Plan) -> None:
    """Write results.parquet. It holds nothing that depends on when or where runs were made, so equal studies are equal
    to the byte; how long things took is in timings.parquet."""
    timings: dict[str, list[Any]] = {"run": [], "what": [], "seconds": []}
    write_parquet(folder.results, collect(folder, plan, timings))
    write_parquet(folder.path / "timings.parquet", pa.table(timings))


def collect(folder: Folder, plan: Plan, timings: dict[str, list[Any]] | None = None) -> pa.Table:
    """The rows of all runs that are done, in the plan's order, and of what was computed from several of them."""
    runs: list[tuple[Any, ...]] = []
    scores: list[list[Any]] = []
    images: dict[str, set[str]] = {}
    of_several = _of_several_models(folder)
    done = set(folder.status().done)
    for point in plan.points:
        if point.hash not in done:
            continue
        about = read_scores(folder.scores(point.hash, plan.evaluation.hash))
        runs.append(_describe(point))
        scores.append([*_counted(about["rows"], folder, plan, point.hash), *of_several.get(point.hash, ())])
        images.setdefault(point.data, set()).add(about["images"])
        if timings is not None:
            timings["run"] += [point.hash] * len(about["seconds"])
            timings["what"] += about["seconds"]
            timings["seconds"] += about["seconds"].values()
    for data in (data for data, found in images.items() if len(found) > 1):
        warnings.warn(
            f"the runs on {data} saw different images: was an official file added or changed meanwhile?", stacklevel=2
        )
    return _tidy(runs, scores).replace_schema_metadata(_made_from(plan, [run[0] for run in runs]))


def _tidy(runs: Sequence[tuple[Any, ...]], scores: Sequence[Sequence[Any]]) -> pa.Table:
    """The table of SCHEMA from the columns of each run and the rows of its scores."""
    repeated = np.repeat(np.arange(len(runs)), [len(rows) for rows in scores])
    columns = [pa.array(column, kind).take(repeated) for column, kind in zip(_turn(runs, 11), SCHEMA.types)]
    flat = [row for rows in scores for row in rows]
    columns += [pa.array(column, kind) for column, kind in zip(_turn(flat, 6), SCHEMA.types[11:])]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def table_of_runs(configs: Mapping[str, "Config"], scores: Mapping[str, Sequence[Any]]) -> "pd.DataFrame":
    """The table of runs that belong to no study, by their names; scores: rows as `Evaluation.rows` gives them."""
    runs = [_describe_run(name, config, list(configs.values())) for name, config in configs.items()]
    return _tidy(runs, [scores[name] for name in configs]).to_pandas()


def _describe_run(name: str, config: "Config", others: "Sequence[Config]") -> tuple[Any, ...]:
    """The strength is the parameter that differs between the runs of a method, or else the first."""
    same = [other.parameters for other in others if other.method == config.method]
    varied = [key for key in config.parameters if len({json.dumps(given.get(key)) for given in same}) > 1]
    parameter = next(iter([*varied, *config.parameters]), "")
    value = config.parameters.get(parameter)
    strength = float(value) if isinstance(value, int | float) else None
    start = (name, config.data, config.method, shown(config.parameters), parameter, strength, setting_of(config))
    return (*start, config.seed, config.latents, config.network, config.steps)


def in_common(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many rows (n, k) have both of two columns: (k, k)."""
    there = np.isfinite(values).astype(np.int64)
    return there.T @ there


def with_scores(
    frame: "pd.DataFrame", scores: "Mapping[str, Sequence[Any]] | pd.DataFrame", family: str = "selection"
) -> "pd.DataFrame":
    """The table with further scores of its models, in place of those of the same names.

    scores: columns run, metric, value and perhaps property; rows of other models are left out.
    """
    import pandas as pd

    scores = pd.DataFrame(scores)
    scores = scores[scores["run"].isin(frame["run"])]
    new = frame.drop_duplicates("run").set_index("run", drop=False).loc[list(scores["run"])]
    columns = {name: list(scores[name]) for name in ("metric", "value", "property") if name in scores}
    new = new.assign(**{"family": family, "property": "", "factor": "", "std": np.nan, **columns})
    return pd.concat([frame[~frame["metric"].isin(scores["metric"])], new], ignore_index=True)


def _turn(rows: Sequence[Any], width: int) -> list[Any]:
    return list(zip(*rows)) if rows else [[] for _ in range(width)]


def _made_from(plan: Plan, names: Iterable[str]) -> dict[bytes, bytes]:
    """What a table of results says of itself: a digest of its runs, how they were scored, and above which KL a latent
    counts as active."""
    digest = hashlib.sha256("".join(sorted(names)).encode()).hexdigest()
    active = _active(plan.selection.kl_threshold)
    return {b"runs": digest.encode(), b"scoring": plan.evaluation.hash.encode(), b"active": active}


def _active(threshold: float) -> bytes:
    return repr(float(threshold)).encode()


def _counted(rows: list[list[Any]], folder: Folder, plan: Plan, name: str) -> list[list[Any]]:
    """The rows of a run with its active latents counted by the threshold of the study. Scores are stored with the usual
    one, so that another threshold scores nothing anew."""
    threshold = plan.selection.kl_threshold
    if threshold == ACTIVE_KL:
        return rows
    active = float((read_array(folder, plan, name, "kl.npy") > threshold).sum())
    return [[*row[:4], active, row[5]] if row[0] == "informative_latents" else row for row in rows]


def _describe(point: Point) -> tuple[Any, ...]:
    strength = None if math.isnan(point.strength) else point.strength
    values = {"run": point.hash, "parameters": point.settings, "strength": strength}
    return tuple(values[name] if name in values else getattr(point, name) for name in SCHEMA.names[:11])


def _of_several_models(folder: Folder) -> dict[str, list[list[Any]]]:
    file = folder.path / "together.parquet"
    found: dict[str, list[list[Any]]] = {}
    if file.exists():
        table = read_parquet(file)
        for run, metric, value in zip(*(table[name].to_pylist() for name in ("run", "metric", "value"))):
            found.setdefault(run, []).append([metric, "selection", "", "", value, None])
    return found


def read_scores(path: Path) -> dict[str, Any]:
    """A file of scores; a ValueError that says what to do if it is damaged."""
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
    """Whether it has the columns metric to std of the results."""
    *words, value, std = row
    return (
        len(words) == 4
        and all(isinstance(word, str) for word in words)
        and all(number is None or isinstance(number, float) for number in (value, std))
    )


def damaged(folder: Folder) -> dict[str, str]:
    """Runs that are done but whose files are not those that were written: name -> what is wrong."""
    status = folder.status()
    return {name: wrong for name in status.done for wrong in _damage(folder, name, status.plan)}


def _damage(folder: Folder, name: str, plan: Plan) -> Iterator[str]:
    try:
        files = read_scores(folder.scores(name, plan.evaluation.hash))["files"]
    except ValueError:
        yield "the file of its scores is damaged"
        return
    for file, expected in files.items():
        path = folder.run(name) / file
        if not path.exists():
            yield f"{path} is gone"
            return
        if checksum(path) != expected:
            yield f"{path} was changed after it was written"
            return


def read_parquet(path: Path) -> pa.Table:
    """One of SCHEMAS from its file; a ValueError that says what to do if it is damaged."""
    with _intact(path, "run the study again to write it anew"):
        check_regular(path)
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        if not table.schema.equals(SCHEMAS[path.stem]):
            raise ValueError(f"its columns are {', '.join(table.schema.names)}")
        return table


def is_current(path: Path, key: bytes) -> bool:
    """Whether a table is intact, and was computed from what `key` says."""
    try:
        return (read_parquet(path).schema.metadata or {}).get(b"key") == key
    except ValueError:
        return False


def write_parquet(path: Path, table: pa.Table) -> None:
    with atomic(path) as part:
        pq.write_table(table, part, compression="zstd", write_page_checksum=True)


def read_array(folder: Folder, plan: Plan, name: str, file: str) -> NDArray[Any]:
    """An array that a worker wrote for a run; a ValueError that says what to do if it is damaged."""
    path, scores = folder.run(name) / file, folder.scores(name, plan.evaluation.hash)
    expected = read_scores(scores)["files"].get(file) if scores.exists() else None  # none: scored with other settings
    with _intact(path, _MAKE_AGAIN):
        if expected is not None and checksum(path) != expected:
            raise ValueError("it was changed after it was written")
        return np.load(path, mmap_mode="r", allow_pickle=False)


def read_codes(folder: Folder, plan: Plan, name: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Codes (rows, L) and KLs (L,) of a run of a study."""
    codes, kl = (read_array(folder, plan, name, file) for file in ("codes.npy", "kl.npy"))
    with _intact(folder.run(name) / "codes.npy", _MAKE_AGAIN):
        if codes.ndim != 2 or kl.shape != codes.shape[1:] or {codes.dtype.kind, kl.dtype.kind} != {"f"}:
            raise ValueError(f"codes are {codes.dtype} {codes.shape}, KLs {kl.dtype} {kl.shape}")
        if not (np.isfinite(codes).all() and np.isfinite(kl).all()):
            raise ValueError("numbers are not finite")
    return codes, kl


@contextmanager
def _intact(path: Path, remedy: str) -> Iterator[None]:
    """Whatever goes wrong in reading the file is one line: damaged files make their parsers raise anything."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PermissionError):
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{path} is damaged ({lines[0]}); {remedy}") from None


class NotEnough(ValueError):
    """The study has too little for this analysis; the message says what it needs."""


@dataclass(frozen=True)
class Scores:
    """The whole-representation scores of a frame: runs (R rows), values (R, K), names and families of the K scores."""

    runs: "pd.DataFrame"
    values: NDArray[np.float64]
    names: tuple[str, ...]
    families: tuple[str, ...]

    def columns(self, *, supervised: bool) -> list[int]:
        """The metrics that need labels, or the scores that need none; tasks are neither, and ASIDE is left out."""
        known = [j for j, family in enumerate(self.families) if family not in (TASK, *ASIDE)]
        return [j for j in known if (self.families[j] not in UNSUPERVISED) == supervised]

    def labelled(self) -> list[int]:
        """The metrics that need labels; NotEnough where there are none."""
        columns = self.columns(supervised=True)
        need(bool(columns), "labels")
        return columns

    def groups(self, *by: str) -> list[tuple[tuple[Any, ...], NDArray[np.int64]]]:
        """Rows of each group, in the order in which groups first appear."""
        found = self.runs.groupby(list(by), sort=False, dropna=False).indices
        return [(key if isinstance(key, tuple) else (key,), np.asarray(rows)) for key, rows in found.items()]


def wide_table(frame: "pd.DataFrame") -> Scores:
    """The frame with a row per run and a column per score."""
    import pandas as pd

    from karenina.metrics.registry import score_name

    whole = frame[frame["factor"] == ""]
    run, runs = pd.factorize(whole["run"])
    metric, metrics = pd.factorize(whole["metric"])
    prop, properties = pd.factorize(whole["property"])
    pair, pairs = pd.factorize(metric * len(properties) + prop)
    several = np.bincount(pairs // max(len(properties), 1)) > 1
    parts = [divmod(code, len(properties)) for code in pairs.tolist()]
    named = [score_name(metrics[m], properties[p], several=bool(several[m])) for m, p in parts]
    names = list(dict.fromkeys(named))
    values = np.full((len(runs), len(names)), np.nan)
    values[run, np.array([names.index(name) for name in named], int)[pair]] = whole["value"]
    about = whole[_RUN].iloc[np.unique(run, return_index=True)[1]].reset_index(drop=True)
    family = whole["family"].to_numpy()[np.unique(pair, return_index=True)[1]]
    families = dict(zip(reversed(named), reversed(family)))  # where two have one name, that of the first
    return Scores(about, values, tuple(names), tuple(families[name] for name in names))


def need(there: bool, what: str) -> None:
    if not there:
        raise NotEnough(f"needs {what}")
