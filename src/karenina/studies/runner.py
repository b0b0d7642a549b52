"""Run a study: all its models, in processes here or on a cluster, then the scores that need all of them.

It shows how it goes: a live panel on a terminal, a line per model elsewhere.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import wait
from typing import IO, Any

from karenina._console import plain_console, say, visible
from karenina._process import cores, end_workers, stops_heard
from karenina.data import load
from karenina.studies.compare import compare_models
from karenina.studies.plan import Plan, Point
from karenina.studies.ray import RayPool
from karenina.studies.study import Claimed, Status, Study, read_claim
from karenina.studies.worker import THREADS, Outcome, Task, populations

_TICK = 0.5  # seconds between looks at the display, and at models that other processes have
_WIDE = 120  # columns of a terminal that has room for who works on a model
_NAMED = 5  # models of other processes that are waited for


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
    >>> from karenina.studies.plan import parse
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
    study = Study(out)
    plan = study.adopt(plan)
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"shard is i/n with i from 1 to n; got {shard[0]}/{shard[1]}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be 1 or more, got {workers}")
    mine = plan.points if shard is None else plan.points[shard[0] - 1 :: shard[1]]
    try:
        with stops_heard():
            _work(study, plan, mine, workers, ray, quiet)
    except BaseException as stop:
        with suppress(ValueError, OSError):  # what stopped it is what to report
            study.write_results(plan)
        if isinstance(stop, KeyboardInterrupt):
            count = sum(point.hash in set(study.status(plan).done) for point in mine)
            raise type(stop)(f"stopped with {count:,} of {len(mine):,} models done") from None
        raise
    status = study.status()
    if len(status.done) + len(status.failed) == status.total:
        if not quiet and (other := read_claim(study.path, ".together")) is not None:
            say(f"waiting for {other.who}, which compares the models with one another")
        compare_models(study, plan, workers or cores())
        study.write_results(plan)
    return status


def _work(study: Study, plan: Plan, mine: Sequence[Point], workers: int | None, ray: str | None, quiet: bool) -> None:
    points = {point.hash: point for point in mine}
    left = _left(study, plan, mine)
    if not left:
        return
    if ray is None:  # a cluster may have other files than this machine
        _check_data(left)
    tally = Tally(len(mine))
    together = populations(plan)
    with _pool(study, plan, workers, ray) as pool, display(study, tally, points, quiet) as shown:
        while left:
            failed = sum(name in points for name in study.status(plan).failed)
            tally.start(len(mine) - len(left) - failed, failed)
            progress = False
            for outcome in pool.run(_tasks(study, together, left), _TICK):
                shown.update(points[outcome.hash] if outcome else None, outcome)
                if outcome is not None and outcome.status == "full":
                    raise OSError(f"stopped, no space left on the disk: {outcome.reason}. Free some and run it again")
                if outcome is not None and outcome.status == "unshared":
                    raise ValueError(outcome.reason)
                progress |= outcome is not None and outcome.status not in ("busy", "trained")
            left = _left(study, plan, mine)
            if left and not progress:
                waited = {point.hash for point in left}
                shown.wait([claim for claim in study.status(plan).running if claim.hash in waited])
                time.sleep(_TICK)  # another process has them; should it die, we take over


def _check_data(points: Sequence[Point]) -> None:
    """Load each data set of these models once, before any is trained: a ValueError in one line for what is missing."""
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


def _tasks(study: Study, together: Sequence[tuple[Point, ...]], left: Sequence[Point]) -> list[Task]:
    """Return the populations of which models are not trained yet, then the models by themselves."""
    wanted = {point.hash for point in left}
    tasks: list[Task] = []
    taken: set[str] = set()
    for points in together:
        ours = tuple(point for point in points if point.hash in wanted)
        if sum(not study.trained(point.hash) for point in ours) > 1:
            tasks.append(ours)
            taken |= {point.hash for point in ours}
    return [*tasks, *(point for point in left if point.hash not in taken)]


def _pool(study: Study, plan: Plan, workers: int | None, ray: str | None) -> "Pool | RayPool":
    if ray is None:
        return Pool(study, plan, workers or cores())
    return RayPool(study, plan, workers, ray)


def _left(study: Study, plan: Plan, points: Sequence[Point]) -> list[Point]:
    status = study.status(plan)
    settled = {*status.done, *status.failed}
    return [point for point in points if point.hash not in settled]


# A worker that dies takes its model with it; the model gets this many chances.
_CHANCES = 2


class Pool:
    """One worker process per core on this machine.

    Use as a context: leaving it ends the workers, whose models resume another time from the checkpoints of that moment.
    """

    def __init__(self, study: Study, plan: Plan, workers: int):
        self.study, self.plan, self.size = study, plan, workers
        self.workers: dict[int, subprocess.Popen[bytes]] = {}  # by the descriptor of their answers
        self.tasks: dict[int, Task] = {}
        self.deaths: Counter[str] = Counter()

    def __enter__(self) -> "Pool":
        self.log: IO[bytes] = open(self.study.path / "log.txt", "ab")
        return self

    def __exit__(self, *error: object) -> None:
        end_workers(self.workers.values())
        for worker in self.workers.values():
            _close(worker)
        self.log.close()

    def run(self, tasks: Sequence[Task], tick: float) -> Iterator[Outcome | None]:
        """Yield outcomes in the order in which they come; None every `tick` seconds without one."""
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
            [sys.executable, "-P", "-m", "karenina.studies.worker"],
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
            "study": str(self.study.path),
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
        """Return the answer of a worker, and what is to be done now: the models of a population that is trained, or
        what the worker had when it died. A model that saw that before has failed; a population is given up for its
        models."""
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
        self.study.fail(task.hash, reason)
        return Outcome(task.hash, "failed", reason), []


def _close(worker: "subprocess.Popen[bytes]") -> None:
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


class Tally:
    """Counts, rate and time left. Only models that we finished ourselves count for the rate."""

    def __init__(self, total: int):
        self.total, self.done, self.failed = total, 0, 0
        self.made, self.started = 0, time.monotonic()

    def start(self, done: int, failed: int) -> None:
        """Count what is there already, whoever made it."""
        self.done, self.failed = done, failed

    def add(self, outcome: Outcome) -> None:
        self.done += outcome.status in ("done", "found")
        self.failed += outcome.status == "failed"
        self.made += outcome.status in ("done", "failed")

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed

    def pace(self, partly: float = 0.0) -> str:
        """Return the rate and the time left. partly: models' worth of work in those that are running."""
        made = self.made + partly
        hours = (time.monotonic() - self.started) / 3600
        if made <= 0 or not hours:
            return "time left not known yet"
        return f"{made / hours:,.0f} models/hour, {duration((self.left - partly) * 3600 * hours / made)} left"


class Lines:
    """One line for every model, and one whenever there is something else to wait for."""

    def __init__(self, tally: Tally, points: Mapping[str, Point], quiet: bool):
        self.tally, self.points, self.quiet = tally, points, quiet
        self.waited: set[tuple[str, int]] = set()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, point: Point | None, outcome: Outcome | None) -> None:
        if point is None or outcome is None:
            return
        self.tally.add(outcome)
        if outcome.status == "trained":
            self._print(f"{outcome.reason} in {outcome.seconds:.1f} s, now scored one by one")
        if outcome.status not in ("done", "failed"):
            return
        count = f"[{self.tally.done + self.tally.failed}/{self.tally.total}]"
        what = f"{outcome.seconds:.1f} s" if outcome.status == "done" else f"FAILED: {outcome.reason}"
        self._print(f"{count} {point.label}: {what} | {self.tally.pace()}")

    def _print(self, line: str) -> None:
        if not self.quiet:
            say(line)

    def wait(self, claims: Sequence[Claimed]) -> None:
        """Say for which models of other processes we wait, once for each that has them."""
        new = [claim for claim in claims if (claim.hash, claim.pid) not in self.waited]
        self.waited |= {(claim.hash, claim.pid) for claim in new}
        for claim in new[:_NAMED]:
            self._print(f"waiting for {self.points[claim.hash].label}: {claim.who} has it, {claim.at}")
        if len(new) > _NAMED:
            self._print(f"waiting for {len(new) - _NAMED} more models that other processes have")


class LivePanel:
    """Counts, a bar, and the models that are running, redrawn twice a second at most."""

    def __init__(self, study: Study, tally: Tally, points: Mapping[str, Point]):
        self.study, self.tally, self.points = study, tally, points
        self.failures: list[str] = []
        self.waiting = 0
        self.drawn = 0.0
        self.console = plain_console()

    def __enter__(self) -> "LivePanel":
        from rich.live import Live

        self.live = Live(self._render(), console=self.console, refresh_per_second=4, transient=False)
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.update(self._render())
        self.live.stop()

    def wait(self, claims: Sequence[Claimed]) -> None:
        self.waiting = len(claims)
        self.live.update(self._render())

    def update(self, point: Point | None, outcome: Outcome | None) -> None:
        if point is not None and outcome is not None:
            self.waiting *= outcome.status == "busy"
            self.tally.add(outcome)
            if outcome.status == "failed":
                self.failures = [*self.failures, f"{point.label}: {outcome.reason}"][-3:]
        if time.monotonic() - self.drawn > 0.5:
            self.live.update(self._render())
            self.drawn = time.monotonic()

    def _render(self) -> Any:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        claims = [claim for name in self.study.names("claims") if (claim := read_claim(self.study.path, name))]
        partly = sum(claim.step / max(claim.steps, 1) for claim in claims)
        tally = self.tally
        head = f"{tally.done} done, {len(claims)} running, {tally.failed} failed, of {tally.total}"
        pace = tally.pace(partly)
        width = self.console.width
        head += f"; {pace}" if len(head) + 2 + len(pace) <= width else f"\n{pace}"
        if self.waiting:
            head += f"\nwaiting for {self.waiting} that other processes have"
        # One line for each model, whose label is cut where the terminal ends; who works on it only where there is room.
        running = Table.grid(padding=(0, 2), expand=True)
        running.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        running.add_column(no_wrap=True, justify="right")
        for claim in sorted(claims, key=lambda claim: claim.started)[:16]:
            point = self.points.get(claim.hash)
            at = f"{claim.at}, {claim.who}" if width >= _WIDE else claim.at
            running.add_row("  " + (point.label if point else claim.hash), at)
        bar = ProgressBar(total=tally.total, completed=tally.done + tally.failed, width=min(60, width))
        failures = [
            Text(visible(f"failed: {line}"), style="red", overflow="ellipsis", no_wrap=True) for line in self.failures
        ]
        return Group(Text(head), Padding(bar, 0), running, *failures)  # a bar by itself does not end its line


def display(study: Study, tally: Tally, points: Mapping[str, Point], quiet: bool) -> "LivePanel | Lines":
    if sys.stdout.isatty() and not quiet:
        return LivePanel(study, tally, points)
    return Lines(tally, points, quiet)


def duration(seconds: float) -> str:
    """Return a length of time for people.

    >>> duration(42), duration(90 * 60), duration(86400 * 30), duration(3e9)
    ('42 s', '90 min', '30 days', '95 years')
    """
    for limit, unit, name in (
        (100, 1, "s"),
        (100 * 60, 60, "min"),
        (48 * 3600, 3600, "h"),
        (400 * 86400, 86400, "days"),
    ):
        if seconds < limit:
            value = seconds / unit
            return f"{value:.0f} {name}" if value >= 10 or unit == 1 else f"{value:.1f} {name}"
    return f"{seconds / (365.25 * 86400):.0f} years"
