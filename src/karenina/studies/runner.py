"""Run a study: all its models, in processes here or on a Ray cluster, then the scores that need all of them.

It shows how it goes: a live panel on a terminal, a line per model elsewhere. `estimate` measures what a study would
cost. What loads torch is imported by the functions that need it: a run says at once that a study is complete, or that
an address is wrong.
"""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any, NamedTuple

from karenina._console import plain_console, say, visible
from karenina._process import cores, end_workers, stops_heard
from karenina.data import load
from karenina.evaluation.scoring import evaluate, load_cached
from karenina.studies.compare import compare_models
from karenina.studies.plan import Plan, Point, Scoring
from karenina.studies.study import Claimed, Status, Study, read_claim
from karenina.studies.worker import THREADS, Outcome, Task, perform, populations

_TICK = 0.5  # seconds between looks at the display, and at models that other processes have
_CHANCES = 2  # a worker that dies takes its model with it; the model gets this many
_SECONDS_TO_ANSWER = 5.0  # for what may be a Ray cluster
_SECONDS_TO_JOIN = 40.0  # a Ray cluster; importing Ray takes some of them
_CONNECT = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='error')"
_WIDE = 120  # columns of a terminal that has room for who works on a model
_NAMED = 5  # models of other processes that are waited for
_SECONDS_TO_MEASURE = 0.7  # each kind of model, for an estimate
_IMAGES = 256  # stand for a data set all of whose images are made once
_SCORES_BYTES = 20_000  # a file of scores


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
    panel = sys.stdout.isatty() and not quiet
    display = LivePanel(study, tally, points) if panel else Lines(tally, points, quiet)
    with _pool(study, plan, workers, ray) as pool, display as shown:
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
    return [*tasks, *((point,) for point in left if point.hash not in taken)]


def _pool(study: Study, plan: Plan, workers: int | None, ray: str | None) -> "Pool | RayPool":
    if ray is None:
        return Pool(study, plan, workers or cores())
    return RayPool(study, plan, workers, ray)


def _left(study: Study, plan: Plan, points: Sequence[Point]) -> list[Point]:
    status = study.status(plan)
    settled = {*status.done, *status.failed}
    return [point for point in points if point.hash not in settled]


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

    def _give(self, answers: int, task: Task) -> None:
        self.tasks[answers] = task
        order = {
            "study": str(self.study.path),
            "points": [point.to_json() for point in task],
            "scoring": asdict(self.plan.evaluation),
            "checkpoint_seconds": self.plan.checkpoint_seconds,
        }
        stdin = self.workers[answers].stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it died; so its answers end, too
            stdin.write(json.dumps(order).encode() + b"\n")

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
            return outcome, _last_first(task) if outcome.status == "trained" else []
        worker = self.workers.pop(answers)
        code = worker.wait()
        _close(worker)
        name = ",".join(point.hash for point in task)
        self.deaths[name] += 1
        if self.deaths[name] < _CHANCES:
            return None, [task]
        if len(task) > 1:
            return None, _last_first(task)
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"the worker process died {_CHANCES} times ({end}); log.txt may say more, as may the system's log"
        self.study.fail(name, reason)
        return Outcome(name, "failed", reason), []


def _last_first(task: Task) -> list[Task]:
    """Return a task for each model of a population, the last one first."""
    return [(point,) for point in reversed(task)]


def _close(worker: "subprocess.Popen[bytes]") -> None:
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


class RayPool:
    """Workers on a Ray cluster, to be used as `Pool` is. They share the study's directory and nothing else.

    address: "local", "auto", HOST:PORT or ray://HOST:PORT.
    workers: how many models at a time; None for as many as the cluster has CPUs, also when that changes.
    A task whose machine is lost is started again by Ray on another one, and continues from the checkpoint.
    """

    def __init__(self, study: Study, plan: Plan, workers: int | None, address: str):
        self.study = Study(study.path.resolve())
        self.plan, self.workers, self.address = plan, workers, address
        self.started = False

    def __enter__(self) -> "RayPool":
        try:
            import ray
        except ImportError:
            raise ValueError("--ray needs Ray: pip install 'karenina[ray]'") from None
        self.ray = ray
        if not ray.is_initialized():
            _connect(ray, self.address, self.workers)
            self.started = True
        # Ray counts a lost machine as a try; a model that kills its worker is given up after a few.
        self.remote = ray.remote(num_cpus=1, max_retries=4)(_perform_there).remote
        return self

    def __exit__(self, *error: object) -> None:
        if self.started:
            self.ray.shutdown()

    def run(self, tasks: Sequence[Task], tick: float) -> Iterator[Outcome | None]:
        waiting = list(reversed(tasks))
        running: dict[Any, Task] = {}
        while waiting or running:
            while waiting and len(running) < self._room():
                task = waiting.pop()
                how = self.plan.evaluation, self.plan.checkpoint_seconds
                running[self.remote(os.getcwd(), str(self.study.path), task, *how)] = task
            ready, _ = self.ray.wait(list(running), num_returns=1, timeout=tick)
            if not ready:
                yield None
            for reference in ready:
                task = running.pop(reference)
                outcome = self._take(reference, task)
                if outcome.status == "trained":
                    waiting += _last_first(task)  # now each by itself
                yield outcome

    def _room(self) -> int:
        """Return how many tasks to hand out at once: a few more than there are CPUs, so that none waits for us."""
        return self.workers or 2 * int(self.ray.cluster_resources().get("CPU", 1)) + 1

    def _take(self, reference: Any, task: Task) -> Outcome:
        try:
            outcome: Outcome = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            if len(task) > 1:
                return Outcome(task[0].hash, "trained")
            reason = f"lost on the cluster: {type(error).__name__}: {str(error).splitlines()[0]}"
            self.study.fail(task[0].hash, reason, str(error))
            return Outcome(task[0].hash, "failed", reason)
        return outcome


def _perform_there(here: str, study: str, task: Task, scoring: Scoring, checkpoint_seconds: float) -> Outcome:
    """Do a task on a machine of a cluster. here: the folder to which relative paths of data sets refer."""
    import torch

    torch.set_num_threads(1)
    with suppress(OSError):
        os.chdir(here)
    if Path(study).is_dir():
        return perform(study, task, scoring, checkpoint_seconds)
    where = socket.gethostname()
    return Outcome(task[0].hash, "unshared", f"the machine {where} does not see {study}: put it on shared storage")


def _connect(ray: Any, address: str, workers: int | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        with _elsewhere():
            ray.init(num_cpus=workers or cores(), include_dashboard=False, **quiet)
        return
    if address != "auto":
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"a Ray address is local, auto, HOST:PORT or ray://HOST:PORT; got {address!r}")
        try:
            socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()
        except (OSError, OverflowError) as error:
            raise ValueError(f"no Ray cluster answers at {address} ({error})") from None
    _try_out(address)
    with _elsewhere():
        ray.init(address=address, **quiet)


def _elsewhere() -> chdir[str]:
    """Return a context that changes to the root. Ray's workers import from the directory in which it was joined. Ours
    may hold a stranger's study and a torch.py; nobody puts modules into the root."""
    return chdir(Path.cwd().anchor)


def _try_out(address: str) -> None:
    """Connect from another process first: where something answers that is no Ray cluster, Ray would try for minutes."""
    try:
        with _elsewhere():
            words = [sys.executable, "-P", "-c", _CONNECT, address]
            said = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS_TO_JOIN)
    except subprocess.TimeoutExpired:
        raise ValueError(f"what answers at {address} is no Ray cluster that this machine can join") from None
    if said.returncode:
        lines = said.stderr.strip().splitlines() or ["no reason given"]
        raise ValueError(f"no Ray cluster at {address}: {lines[-1]}")


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
        """Say for which models of other processes we wait, once for each such process."""
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


@dataclass(frozen=True)
class Estimate:
    """What a study would cost on this machine.

    train_seconds, score_seconds: of one core, for all models. intervention_seconds: the part of scoring that encodes
    images of interventions. bytes: on the disk. unknown: data set -> why it could not be loaded here; its models are
    taken to cost as much as the others'.
    """

    train_seconds: float
    score_seconds: float
    bytes: float
    unknown: dict[str, str]
    intervention_seconds: float = 0.0

    def wall(self, workers: int) -> float:
        """Return the seconds that it would take with that many workers."""
        return (self.train_seconds + self.score_seconds) / workers


class _Cost(NamedTuple):
    """The seconds of a step (of all steps where a method is fitted at once), of scoring and of the interventions in
    that, and the bytes of a finished run."""

    step: float
    score: float
    interventions: float
    bytes: float


class _Enough(Exception):
    pass


def estimate(plan: Plan, progress: Callable[[str], None] = lambda what: None) -> Estimate:
    """Measure a few steps of each method on images of each shape, and one scoring for each data set's rows.

    progress: called with what is being measured.
    """
    from karenina.training.methods import find

    shapes: dict[str, tuple[int, ...]] = {}
    unknown: dict[str, str] = {}
    for data in plan.data:
        try:
            shapes[data] = load_cached(data).image_shape
        except (ValueError, OSError) as error:
            unknown[data] = str(error)
    if not shapes:
        raise ValueError(f"no data set of the plan can be loaded here: {next(iter(unknown.values()))}")
    measured: dict[Any, _Cost] = {}  # by all that a step's time depends on
    alike: dict[Any, list[_Cost]] = {}  # by what is known of a data set that is not here
    scored: dict[Any, tuple[float, float]] = {}

    def kind(point: Point) -> Any:
        return shapes.get(point.data), point.method, point.network, point.latents, point.batch

    for point in plan.points:
        if point.data in shapes:
            if kind(point) not in measured:
                progress(f"{point.method}, {point.latents} latents, on {point.data}")
                measured[kind(point)] = _measure(plan, point, scored)
            alike.setdefault((point.method, point.latents), []).append(measured[kind(point)])
    means = {key: _Cost(*(sum(column) / len(found) for column in zip(*found))) for key, found in alike.items()}
    costs = [measured.get(kind(point)) or means[point.method, point.latents] for point in plan.points]
    steps = [point.steps if find(point.method)[1].fit is None else 1 for point in plan.points]
    return Estimate(
        train_seconds=sum(count * cost.step for count, cost in zip(steps, costs)),
        score_seconds=sum(cost.score for cost in costs),
        bytes=sum(cost.bytes for cost in costs),
        unknown=unknown,
        intervention_seconds=sum(cost.interventions for cost in costs),
    )


def _measure(plan: Plan, point: Point, scored: dict[Any, tuple[float, float]]) -> _Cost:
    """Return what a model costs. scored: the seconds of scoring and of interventions by data set and number of latents,
    to which this adds; methods differ little in them."""
    from karenina.training import train
    from karenina.training.batches import keeps

    data: Any = load_cached(point.data)
    # Where all images are made once, to draw them costs nothing.
    images = data.sample(_IMAGES, 0)[0] if keeps(data, point.steps * point.batch) else data
    times: list[float] = []

    def watch(at: Any) -> None:
        times.append(time.perf_counter())
        if len(times) >= 4 and times[-1] - times[0] > _SECONDS_TO_MEASURE:
            raise _Enough

    # At most 200 steps are reported one by one.
    short = replace(point, **{"steps": min(point.steps, 200), "trace": False})
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        with suppress(_Enough):
            train(images, short.method, progress=watch, **short.arguments)
        whole = time.perf_counter() - start
        # The first steps warm up: allocations, kernels chosen.
        step = (times[-1] - times[1]) / (len(times) - 2) if len(times) > 2 else whole
        run = train(images, short.method, out=Path(scratch) / "run", **{**short.arguments, "steps": 2})
        size = sum(file.stat().st_size for file in (Path(scratch) / "run").iterdir())
        if (point.data, point.latents) not in scored:
            start = time.perf_counter()
            found = evaluate(run, data, **plan.evaluation.arguments(data.labelled))
            scored[point.data, point.latents] = time.perf_counter() - start, found.intervention_seconds
    size += 4 * plan.evaluation.rows * point.latents + _SCORES_BYTES
    size += 30 * 200 * 2 * 256 if point.trace else 0
    return _Cost(step, *scored[point.data, point.latents], size)


def size(count: float) -> str:
    """Return a number of bytes for people.

    >>> size(5.2e9), size(800_000)
    ('5.2 GB', '0.8 MB')
    """
    unit = min(int(math.log10(max(count, 1e6)) // 3), 4)
    return f"{count / 1000**unit:.1f} {['', 'kB', 'MB', 'GB', 'TB'][unit]}"
