"""The work on models: train them, one by one or several as one, encode once, score, store it all.

As a process it reads models from its input, one per line, and answers with the outcome of each. A process of its own
rather than multiprocessing: it has one thread from the first import on, it needs nothing of the caller's main module,
and it stops when the process that started it is gone, however that ended. It listens before it imports torch, which
takes seconds: so what loads torch is imported by the functions that need it.

A population is only trained; its models are then scored one by one, like all others, by whichever worker is free.
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
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from karenina._files import atomic, checksum, read_json, save_array
from karenina._process import exit_code, obey_input
from karenina.studies.plan import Plan, Point, Scoring
from karenina.studies.study import Claim, Study, claim, digest

if TYPE_CHECKING:
    from karenina.training import Progress

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
# A model to bring to its scores, or several to train as one.
Task = tuple[Point, ...]
_KEPT = ("run.json", "model.safetensors", "history.parquet", "codes.npy", "kl.npy", "trace.npy")


@dataclass(frozen=True)
class Outcome:
    """What became of a task for a model.

    status: done, failed, found (done before), busy (another process has it), full (no space on the disk), unshared (the
    study is not visible there) or trained (with others, and not scored yet).
    """

    hash: str
    status: str
    reason: str = ""
    seconds: float = 0.0


def perform(path: str, task: Task, scoring: Scoring, checkpoint_seconds: float) -> Outcome:
    """Bring one model to its scores, or train several as one: their own tasks then find each of them trained.

    What fails when they are trained as one is tried again by itself.
    """
    if len(task) == 1:
        return execute(path, task[0], scoring, checkpoint_seconds)
    started = time.perf_counter()
    try:
        train_population(path, task, checkpoint_seconds)
    except Exception as error:
        if is_full(error):
            return Outcome(task[0].hash, "full", str(error))
        traceback.print_exc()  # to the study's log
        return Outcome(task[0].hash, "trained", "trained one by one: log.txt says why")
    said = f"{len(task)} models trained as one"
    return Outcome(task[0].hash, "trained", said, time.perf_counter() - started)


def execute(path: str, point: Point, scoring: Scoring, checkpoint_seconds: float) -> Outcome:
    """Bring one model from wherever it is to its scores. Failures are recorded, not raised."""
    try:
        return _execute(Study(path), point, scoring, checkpoint_seconds)
    except Exception as error:
        if is_full(error):
            return Outcome(point.hash, "full", str(error))
        raise


def _execute(study: Study, point: Point, scoring: Scoring, checkpoint_seconds: float) -> Outcome:
    with claim(study.path, point.hash) as held:
        if held is None:
            return Outcome(point.hash, "busy")
        if study.scores_path(point.hash, scoring.hash).exists():
            return Outcome(point.hash, "found")
        if study.failure_path(point.hash).exists():
            return Outcome(point.hash, "failed", study.reason(point.hash))
        started = time.perf_counter()
        try:
            _train_and_score(study, point, scoring, checkpoint_seconds, held)
        except Exception as error:
            if is_full(error):
                raise
            reason = f"{type(error).__name__}: {error}"
            study.fail(point.hash, reason, traceback.format_exc(), fresh=type(error).__name__ in _FRESH)
            return Outcome(point.hash, "failed", reason)
        return Outcome(point.hash, "done", seconds=time.perf_counter() - started)


# After these a retry must not resume from what is there.
_FRESH = ("TrainingDiverged", "BadFile")


def is_full(error: BaseException | None) -> bool:
    """Return whether the disk took no more, whatever a library made of that on the way: no fault of the model's."""
    while error is not None and getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        error = error.__cause__ or error.__context__
    return error is not None


def _train_and_score(study: Study, point: Point, scoring: Scoring, checkpoint_seconds: float, held: Claim) -> None:
    from karenina.evaluation.scoring import SCORE_COLUMNS, evaluate, load_cached
    from karenina.training import train

    def progress(at: "Progress") -> None:
        held.progress(at.step, at.steps)

    held.progress(0, point.steps)
    start = time.perf_counter()
    data = load_cached(point.data)
    loaded = time.perf_counter()
    path = study.run_path(point.hash)
    run = train(
        data, point.method, out=path, checkpoint_seconds=checkpoint_seconds, progress=progress, **point.arguments
    )
    trained = time.perf_counter()
    found = evaluate(run, data, **scoring.arguments(data.labelled))
    save_array(path / "codes.npy", found.codes.astype("float32"))
    save_array(path / "kl.npy", found.kl)
    scored = time.perf_counter()
    train_seconds = trained - loaded + take_seconds(study, point.hash)
    seconds = {"load": loaded - start, "train": train_seconds, "score": scored - trained}
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
    with atomic(study.scores_path(point.hash, scoring.hash)) as part:
        text = json.dumps({**about, "digest": digest(about)}, allow_nan=False)
        part.write_text(text, encoding="utf-8")


# So many small models are nearly as fast as more (benchmarks/population.py), and leave work for other processes.
_MODELS = 16


def populations(plan: Plan) -> list[tuple[Point, ...]]:
    """Return the points of a plan that are worth training as one, two or more each.

    They depend on nothing but the plan, so that results do not depend on who trains them, or when.
    """
    if plan.population == 1:
        return []
    found: dict[Any, list[Point]] = {}
    for point in plan.points:
        shape = (point.data, point.network, point.latents, point.steps, _in_common(point))
        found.setdefault(shape, []).append(point)
    packed = []
    for points in found.values():
        most = int(plan.population) if plan.population != "auto" else min(_MODELS, -(-len(points) // 2))
        if most < 2 or len(points) < 2 or not _stackable(points[0], plan.population == "auto"):
            continue
        parts = -(-len(points) // most)
        bounds = [len(points) * i // parts for i in range(parts + 1)]
        packed += [tuple(points[a:b]) for a, b in pairwise(bounds) if b - a > 1]
    return packed


def _in_common(point: Point) -> Any:
    """Return what models must have in common to be trained as one.

    Methods that train a module beside the network, or from pairs or labels, go with their like; all others mix.
    """
    from karenina.training.learners import VAELearner
    from karenina.training.methods import find_for

    method = find_for(point.method, dict(point.parameters))
    names = {*method.parameters, *(name for one in method.beside for name in one.defaults())}
    alike = not names and method.learner is VAELearner
    return None if alike else (point.method, tuple(p for p in point.parameters if p[0] in names))


def _stackable(point: Point, automatic: bool) -> bool:
    from karenina.evaluation.scoring import load_cached
    from karenina.training.trainer import pick_device, worth_stacking

    try:
        member = _member(point, load_cached(point.data))
    except (ValueError, OSError):  # what is wrong with it is said when it is trained
        return False
    return member.stackable and (not automatic or worth_stacking(member, pick_device("auto")))


def _member(point: Point, data: Any) -> Any:
    from karenina.training.methods import find_for, make_config
    from karenina.training.trainer import Member

    parameters = dict(point.parameters)
    settings = {name: value for name, value in point.arguments.items() if name not in parameters}
    return Member(make_config(data, point.method, parameters, settings), find_for(point.method, parameters))


def train_population(path: str, points: Sequence[Point], checkpoint_seconds: float) -> None:
    """Train those of the points that are not finished and that no other process has; failures are recorded.

    Whatever else goes wrong will go wrong again, and be recorded, when each is trained by itself.
    """
    from karenina.evaluation.scoring import load_cached
    from karenina.training.loop import Options, TrainingDiverged
    from karenina.training.trainer import pick_device, train_members

    study = Study(path)
    with ExitStack() as stack:
        mine: list[Point] = []
        held: list[Claim] = []
        for point in points:
            if study.failure_path(point.hash).exists():
                continue
            taken = stack.enter_context(claim(study.path, point.hash))
            if taken is not None:
                mine.append(point)
                held.append(taken)

        def progress(at: "Progress") -> None:
            for one in held:
                one.progress(at.step, at.steps)

        if not mine:
            return
        data = load_cached(points[0].data)
        members = [_member(point, data) for point in mine]
        free = [[name for name, value in point.arguments.items() if value == "auto"] for point in mine]
        options = Options(pick_device("auto"), max(len(mine), 2), checkpoint_seconds, progress)
        where = study.path / "populations"
        where.mkdir(exist_ok=True)
        paths = [study.run_path(point.hash) for point in mine]
        new = [point.hash for point in mine if not study.trained(point.hash)]
        started = time.perf_counter()
        for point, result in zip(mine, train_members(data, members, paths, options, where, free)):
            if isinstance(result, TrainingDiverged):
                study.fail(point.hash, f"TrainingDiverged: {result}", fresh=True)
        seconds = (time.perf_counter() - started) / max(len(new), 1)
        for name in new:
            with atomic(where / f"{name}.seconds") as part:
                part.write_text(repr(seconds), encoding="utf-8")


def take_seconds(study: Study, name: str) -> float:
    """Return the seconds that a model took in its population, and forget them; 0 for one that was trained by itself."""
    path = study.path / "populations" / f"{name}.seconds"
    try:
        return float(read_json(path))
    except (OSError, TypeError, ValueError):
        return 0.0
    finally:
        path.unlink(missing_ok=True)


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
    points = tuple(Point.from_json(point) for point in task["points"])
    return perform(task["study"], points, Scoring.from_json(task["scoring"]), task["checkpoint_seconds"])


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in obey_input():
        lines.put(line)


if __name__ == "__main__":
    main()
