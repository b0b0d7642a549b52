"""Run a study: all its models, here or on a cluster, then the scores that need all of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from karenina._console import say
from karenina._process import cores, end_workers, stops_heard
from karenina._words import hint
from karenina.studies.execution.display import Tally, display
from karenina.studies.execution.folder import Folder, Status, read_claim
from karenina.studies.execution.populations import Task, populations
from karenina.studies.execution.worker import THREADS, Outcome
from karenina.studies.plan.parsing import read
from karenina.studies.plan.plan import Plan, Point
from karenina.studies.plan.presets import preset, presets

if TYPE_CHECKING:
    from karenina.studies.execution.ray import RayPool

_TICK = 0.5  # seconds between looks at the display, and at models that other processes have


def find_plan(what: str | os.PathLike[str], scale: str | None = None, *, check: bool = True) -> Plan:
    """The plan of a study's directory, of a preset's name, or of a study file.

    A directory comes first: `study run NAME` makes one by the preset's name, and the same command resumes it as it is.
    """
    path = Path(what)
    if scale is None and (path / "study.toml").is_file():
        return Folder(path).plan()
    if str(what) in presets():
        return preset(str(what), scale or "laptop")
    if scale is not None:
        raise ValueError(f"--scale goes with a preset ({', '.join(presets())}); {str(what)!r} is not one")
    if path.is_dir():
        return Folder(path).plan()
    if path.is_file():
        return read(path, check=check)
    raise ValueError(f"no preset and no file {str(what)!r}; {hint(what, presets())}")


def run(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    ray: str | None = None,
    shard: tuple[int, int] | None = None,
    quiet: bool = False,
) -> Status:
    """Train and score every model of `plan` that `out` does not hold yet; then write out/results.parquet.

    Stop it at any moment; the same call resumes it. Ctrl-C and SIGTERM let each worker finish its step and write a
    checkpoint; a second one ends them at once. Runs in one directory share the work, and results depend on none of
    this.

    Parameters
    ----------
    plan : Plan
        From `karenina.studies.preset`, `parse` or `find_plan`.
    out : path
        The study's directory.
    workers : int, optional
        Processes on this machine, by default one for each core that this process may use; with ray, models at a time
        on the cluster.
    ray : str, optional
        "local", "auto" or an address (needs the extra `ray`).
    shard : (i, n), optional
        Every n-th model from the i-th on, i from 1 to n; the shard that ends last writes the results.
    quiet : bool
        No display.

    Returns
    -------
    Status
        Which models are done and which failed.

    >>> import karenina
    >>> from karenina.studies.plan.parsing import parse
    >>> tiny = '''
    ... name = "tiny"
    ... data = "blobs"
    ... seeds = 1
    ... steps = 2
    ... methods.vae = {}
    ... evaluation = {metrics = ["mig"], rows = 200}
    ... selection.udr = []
    ... '''
    >>> len(run(parse(tiny), "study", workers=1, quiet=True).done)
    1
    >>> karenina.results("study").query("metric == 'mig'").factor.tolist()
    ['', 'background', 'x', 'y', 'radius']
    """
    from karenina.studies.results.table import write_results

    folder = Folder(out)
    plan = folder.adopt(plan)
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"shard is i/n with i from 1 to n; got {shard[0]}/{shard[1]}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be 1 or more, got {workers}")
    mine = plan.points if shard is None else plan.points[shard[0] - 1 :: shard[1]]
    try:
        with stops_heard():
            _work(folder, plan, mine, workers, ray, quiet)
    except BaseException as stop:
        with suppress(ValueError, OSError):  # what stopped it is what to report
            write_results(folder, plan)
        if isinstance(stop, KeyboardInterrupt):
            count = sum(point.hash in set(folder.status(plan).done) for point in mine)
            raise type(stop)(f"stopped with {count:,} of {len(mine):,} models done") from None
        raise
    status = folder.status()
    if len(status.done) + len(status.failed) == status.total:
        from karenina.studies.results.several_models import compare_models

        if not quiet and (other := read_claim(folder.path, ".together")) is not None:
            say(f"waiting for {other.who}, which compares the models with one another")
        compare_models(folder, plan, workers or cores())
        write_results(folder, plan)
    return status


def _work(folder: Folder, plan: Plan, mine: Sequence[Point], workers: int | None, ray: str | None, quiet: bool) -> None:
    points = {point.hash: point for point in mine}
    left = _left(folder, plan, mine)
    if not left:
        return
    if ray is None:  # a cluster may have other files than this machine
        _check_data(left)
    tally = Tally(len(mine))
    together = populations(plan)
    with _pool(folder, plan, workers, ray) as pool, display(folder, tally, points, quiet) as shown:
        while left:
            failed = sum(name in points for name in folder.status(plan).failed)
            tally.start(len(mine) - len(left) - failed, failed)
            progress = False
            for outcome in pool.run(_tasks(folder, together, left), _TICK):
                shown.update(points[outcome.hash] if outcome else None, outcome)
                if outcome is not None and outcome.status == "full":
                    raise OSError(f"stopped, no space left on the disk: {outcome.reason}. Free some and run it again")
                if outcome is not None and outcome.status == "unshared":
                    raise ValueError(outcome.reason)
                progress |= outcome is not None and outcome.status not in ("busy", "trained")
            left = _left(folder, plan, mine)
            if left and not progress:
                waited = {point.hash for point in left}
                shown.wait([claim for claim in folder.status(plan).running if claim.hash in waited])
                time.sleep(_TICK)  # another process has them; should it die, we take over


def _check_data(points: Sequence[Point]) -> None:
    """Load each data set of these models once, before any is trained: a ValueError in one line for what is missing."""
    from karenina.data import load

    wrong = {}
    for data in dict.fromkeys(point.data for point in points):
        try:
            load(data)
        except (ValueError, OSError) as error:
            wrong[data] = " ".join(str(error).split())
    if wrong:
        models = sum(point.data in wrong for point in points)
        why = "; ".join(f"{data} ({reason})" for data, reason in wrong.items())
        raise ValueError(f"nothing was trained, as {models} of {len(points)} models lack their data: {why}")


def _tasks(folder: Folder, together: Sequence[tuple[Point, ...]], left: Sequence[Point]) -> list[Task]:
    """Populations of which models are not trained yet, then the models by themselves."""
    wanted = {point.hash for point in left}
    tasks: list[Task] = []
    taken: set[str] = set()
    for points in together:
        ours = tuple(point for point in points if point.hash in wanted)
        if sum(not folder.trained(point.hash) for point in ours) > 1:
            tasks.append(ours)
            taken |= {point.hash for point in ours}
    return [*tasks, *(point for point in left if point.hash not in taken)]


def _pool(folder: Folder, plan: Plan, workers: int | None, ray: str | None) -> "Pool | RayPool":
    if ray is None:
        return Pool(folder, plan, workers or cores())
    from karenina.studies.execution.ray import RayPool

    return RayPool(folder, plan, workers, ray)


def _left(folder: Folder, plan: Plan, points: Sequence[Point]) -> list[Point]:
    status = folder.status(plan)
    settled = {*status.done, *status.failed}
    return [point for point in points if point.hash not in settled]


def retry(out: str | os.PathLike[str], *, check: bool = False) -> list[Point]:
    """Let the failed models of a study be run again, and with `check` those whose files were changed: these models."""
    folder = Folder(out)
    if check:
        from karenina.studies.results.table import damaged

        for name, reason in damaged(folder).items():
            folder.fail(name, reason, fresh=True)
            for scores in (folder.path / "scores").glob(f"{name}.*.json"):
                scores.unlink()
    status = folder.status()
    names = set(status.failed)
    failed = [point for point in status.plan.points if point.hash in names]
    for point in failed:
        folder.forget(point.hash)
    return failed


# A worker that dies takes its model with it; the model gets this many chances.
_CHANCES = 2


class Pool:
    """One worker process per core on this machine.

    Use as a context: leaving it ends the workers, whose models resume another time from the checkpoints of that moment.
    """

    def __init__(self, folder: Folder, plan: Plan, workers: int):
        self.folder, self.plan, self.size = folder, plan, workers
        self.workers: dict[int, subprocess.Popen[bytes]] = {}  # by the descriptor of their answers
        self.tasks: dict[int, Task] = {}
        self.deaths: Counter[str] = Counter()

    def __enter__(self) -> "Pool":
        self.log: IO[bytes] = open(self.folder.path / "log.txt", "ab")
        return self

    def __exit__(self, *error: object) -> None:
        end_workers(self.workers.values())
        for worker in self.workers.values():
            _close(worker)
        self.log.close()

    def run(self, tasks: Sequence[Task], tick: float) -> Iterator[Outcome | None]:
        """Outcomes in the order in which they come; None every `tick` seconds without one."""
        waiting = deque(tasks)
        while waiting or self.tasks:
            idle = [answers for answers in self.workers if answers not in self.tasks]
            for _ in range(min(self.size, len(waiting) + len(self.tasks)) - len(self.workers)):
                idle.append(self._start())
            while waiting and idle:
                self._give(idle.pop(), waiting.popleft())
            ready = wait(list(self.tasks), timeout=tick)
            if not ready:
                yield None
            for answers in ready:
                outcome, again = self._take(answers)  # type: ignore[arg-type]
                waiting.extendleft(again)
                if outcome is not None:
                    yield outcome

    def _start(self) -> int:
        worker = subprocess.Popen(
            # -P: nothing is imported from the working directory, which may hold a stranger's study and a torch.py.
            [sys.executable, "-P", "-m", "karenina.studies.execution.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, **THREADS},
            bufsize=0,
        )
        assert worker.stdout is not None
        self.workers[worker.stdout.fileno()] = worker
        return worker.stdout.fileno()

    def _give(self, answers: int, given: Task) -> None:
        self.tasks[answers] = given
        task: dict[str, Any] = {
            "study": str(self.folder.path),
            "scoring": asdict(self.plan.evaluation),
            "checkpoint_seconds": self.plan.checkpoint_seconds,
        }
        if isinstance(given, Point):
            task["point"] = given.to_json()
        else:
            task["points"] = [point.to_json() for point in given]
        stdin = self.workers[answers].stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it died; so its answers end, too
            stdin.write(json.dumps(task).encode() + b"\n")

    def _take(self, answers: int) -> tuple[Outcome | None, list[Task]]:
        """The answer of a worker, and what is to be done now: the models of a population that is trained, or what the
        worker had when it died. A model that saw that before has failed; a population is given up for its models."""
        line = b""
        while not line.endswith(b"\n") and (more := os.read(answers, 65536)):
            line += more
        task = self.tasks.pop(answers)
        if line.endswith(b"\n"):
            outcome = Outcome(**json.loads(line))
            return outcome, list(reversed(task)) if isinstance(task, tuple) and outcome.status == "trained" else []
        worker = self.workers.pop(answers)
        code = worker.wait()
        _close(worker)
        name = task.hash if isinstance(task, Point) else ",".join(point.hash for point in task)
        self.deaths[name] += 1
        if self.deaths[name] < _CHANCES:
            return None, [task]
        if not isinstance(task, Point):
            return None, list(reversed(task))
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"the worker process died {_CHANCES} times ({end}); log.txt may say more, as may the system's log"
        self.folder.fail(task.hash, reason)
        return Outcome(task.hash, "failed", reason), []


def _close(worker: "subprocess.Popen[bytes]") -> None:
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()
