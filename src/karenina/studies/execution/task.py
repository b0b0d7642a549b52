"""What a worker does with one model, on whatever machine: train, encode once, score, and put it all in its place."""

import errno
import json
import math
import time
import traceback
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from karenina._files import atomic, checksum, save_array
from karenina.data import DataSet, load
from karenina.studies.execution.folder import Claim, Folder, claim
from karenina.studies.plan.plan import Point, Scoring

if TYPE_CHECKING:
    from karenina.evaluation.scoring import Evaluation
    from karenina.training import Progress

COLUMNS = ("metric", "family", "property", "factor", "value", "std")
_KEPT = ("run.json", "model.safetensors", "history.parquet", "codes.npy", "kl.npy", "trace.npy")


@dataclass(frozen=True)
class Outcome:
    """What became of a model. status: done, failed, found (done before), busy (another process has it), full (no space
    on the disk) or unshared (the study is not visible there)."""

    hash: str
    status: str
    reason: str = ""
    seconds: float = 0.0


def execute(study: str, point: Point, scoring: Scoring, checkpoint_seconds: float) -> Outcome:
    """Bring one model from wherever it is to its scores. Failures are recorded, not raised."""
    try:
        return _execute(Folder(study), point, scoring, checkpoint_seconds)
    except Exception as error:
        if is_full(error):
            return Outcome(point.hash, "full", str(error))
        raise


def _execute(folder: Folder, point: Point, scoring: Scoring, checkpoint_seconds: float) -> Outcome:
    with claim(folder.path, point.hash) as held:
        if held is None:
            return Outcome(point.hash, "busy")
        if folder.scores(point.hash, scoring.hash).exists():
            return Outcome(point.hash, "found")
        if folder.failure(point.hash).exists():
            return Outcome(point.hash, "failed", folder.reason(point.hash))
        started = time.perf_counter()
        try:
            _train_and_score(folder, point, scoring, checkpoint_seconds, held)
        except Exception as error:
            if is_full(error):
                raise
            reason = f"{type(error).__name__}: {error}"
            folder.fail(point.hash, reason, traceback.format_exc(), fresh=type(error).__name__ in _FRESH)
            return Outcome(point.hash, "failed", reason)
        return Outcome(point.hash, "done", seconds=time.perf_counter() - started)


# After these a retry must not go on from what is there.
_FRESH = ("TrainingDiverged", "BadFile")


def is_full(error: BaseException | None) -> bool:
    """Whether the disk took no more, whatever a library made of that on the way: no fault of the model's."""
    while error is not None and getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        error = error.__cause__ or error.__context__
    return error is not None


def _train_and_score(folder: Folder, point: Point, scoring: Scoring, checkpoint_seconds: float, held: Claim) -> None:
    from karenina.evaluation.scoring import evaluate
    from karenina.training import train

    def progress(at: "Progress") -> None:
        held.progress(at.step, at.steps)

    held.progress(0, point.steps)
    start = time.perf_counter()
    data = load_data(point.data)
    loaded = time.perf_counter()
    path = folder.run(point.hash)
    run = train(
        data,
        point.method,
        out=path,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        **point.arguments,
    )
    trained = time.perf_counter()
    found = evaluate(
        run,
        data,
        metrics=scoring.metrics,
        protocol=scoring.protocol,
        repeats=scoring.repeats,
        seed=scoring.seed,
        rows=scoring.rows,
        tasks=scoring.tasks,
    )
    save_array(path / "codes.npy", found.codes.astype(np.float32))
    save_array(path / "kl.npy", found.kl)
    scored = time.perf_counter()
    seconds = {"load": loaded - start, "train": trained - loaded, "score": scored - trained}
    metrics = {row.metric: row.seconds for row in found.table.rows} if found.table else {}
    about = {
        "run": point.hash,
        "images": run.config.images,
        "seconds": {**seconds, **{f"metric {name}": value for name, value in metrics.items()}},
        "files": {name: checksum(path / name) for name in _KEPT if (path / name).exists()},
        "columns": COLUMNS,
        "rows": rows(found),
    }
    with atomic(folder.scores(point.hash, scoring.hash)) as part:
        part.write_text(json.dumps(about, allow_nan=False), encoding="utf-8")


def rows(found: "Evaluation") -> list[list[Any]]:
    """The evaluation as rows of COLUMNS; numbers that are not finite become None, for JSON has no NaN."""
    table: list[tuple[Any, ...]] = []
    if found.table is not None:
        families = {row.metric: row.family for row in found.table.rows}
        table += [(row.metric, row.family, row.property, "", row.value, row.std) for row in found.table.rows]
        for metric, prop, factor, value in found.table.per_factor.itertuples(index=False):
            table.append((metric, families.get(metric, ""), prop, factor, value, math.nan))
    table += [(name, "label-free", "", "", value, math.nan) for name, value in found.label_free.items()]
    return [[*row[:4], *(float(v) if math.isfinite(v) else None for v in row[4:])] for row in table]


@lru_cache(maxsize=2)
def load_data(data: str) -> DataSet:
    return load(data)
