"""What a worker does with one model: train, encode once, score, and put it all in its place.

As a process it reads models from its input, one per line, and answers with the outcome of each. A process of its own
rather than multiprocessing: it has one thread from the first import on, it needs nothing of the caller's main module,
and it stops when the process that started it is gone, however that ended.
"""

import errno
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from karenina._files import atomic, checksum, save_array
from karenina._process import exit_code, obey_input
from karenina.studies.execution.folder import Claim, Folder, claim, digest
from karenina.studies.plan.plan import Point, Scoring

if TYPE_CHECKING:
    from karenina.training import Progress

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
_KEPT = ("run.json", "model.safetensors", "history.parquet", "codes.npy", "kl.npy", "trace.npy")


@dataclass(frozen=True)
class Outcome:
    """Of one model. status: done, failed, found (done before), busy (another process has it), full (no space on the
    disk), unshared (the study is not visible there) or trained (with others, and not scored yet)."""

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


def execute_together(study: str, points: Sequence[Point], checkpoint_seconds: float) -> Outcome:
    """Train models as one; `execute` then finds each of them trained. What fails here is tried again by itself."""
    from karenina.studies.execution.populations import train_population

    started = time.perf_counter()
    try:
        train_population(study, points, checkpoint_seconds)
    except Exception as error:
        if is_full(error):
            return Outcome(points[0].hash, "full", str(error))
        traceback.print_exc()  # to the study's log
        return Outcome(points[0].hash, "trained", "trained one by one: log.txt says why")
    said = f"{len(points)} models trained as one"
    return Outcome(points[0].hash, "trained", said, time.perf_counter() - started)


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


# After these a retry must not resume from what is there.
_FRESH = ("TrainingDiverged", "BadFile")


def is_full(error: BaseException | None) -> bool:
    """Whether the disk took no more, whatever a library made of that on the way: no fault of the model's."""
    while error is not None and getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        error = error.__cause__ or error.__context__
    return error is not None


def _train_and_score(folder: Folder, point: Point, scoring: Scoring, checkpoint_seconds: float, held: Claim) -> None:
    from karenina.evaluation.data import load_cached
    from karenina.evaluation.scoring import SCORE_COLUMNS, evaluate
    from karenina.studies.execution.populations import take_share
    from karenina.training import train

    def progress(at: "Progress") -> None:
        held.progress(at.step, at.steps)

    held.progress(0, point.steps)
    start = time.perf_counter()
    data = load_cached(point.data)
    loaded = time.perf_counter()
    path = folder.run(point.hash)
    run = train(
        data, point.method, out=path, checkpoint_seconds=checkpoint_seconds, progress=progress, **point.arguments
    )
    trained = time.perf_counter()
    found = evaluate(run, data, **scoring.arguments(data.labelled))
    save_array(path / "codes.npy", found.codes.astype("float32"))
    save_array(path / "kl.npy", found.kl)
    scored = time.perf_counter()
    together = take_share(folder, point.hash)
    seconds = {"load": loaded - start, "train": trained - loaded + together, "score": scored - trained}
    if found.intervention_seconds:
        seconds["interventions"] = found.intervention_seconds
    metrics = {row.metric: row.seconds for row in found.table.rows} if found.table else {}
    about = {
        "run": point.hash,
        "images": run.config.images,
        "seconds": {**seconds, **{f"metric {name}": value for name, value in metrics.items()}},
        "files": {name: checksum(path / name) for name in _KEPT if (path / name).exists()},
        "columns": SCORE_COLUMNS,
        "rows": found.rows(),
    }
    with atomic(folder.scores(point.hash, scoring.hash)) as part:
        text = json.dumps({**about, "digest": digest(about)}, allow_nan=False)
        part.write_text(text, encoding="utf-8")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()

    import torch

    torch.set_num_threads(1)
    try:
        while True:
            print(json.dumps(asdict(_answer(json.loads(lines.get())))), file=answers, flush=True)
    except KeyboardInterrupt as stop:  # its model continues from the checkpoint another time
        sys.exit(exit_code(stop))


def _answer(task: dict[str, Any]) -> Outcome:
    if "points" in task:
        points = [Point.from_json(point) for point in task["points"]]
        return execute_together(task["study"], points, task["checkpoint_seconds"])
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in task["scoring"].items()}
    return execute(task["study"], Point.from_json(task["point"]), Scoring(**given), task["checkpoint_seconds"])


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in obey_input():
        lines.put(line)


if __name__ == "__main__":
    main()
