"""The same task on a Ray cluster. Workers share the study's directory and nothing else."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from karenina._process import cores
from karenina.studies.plan import Plan, Point, Scoring
from karenina.studies.study import Study
from karenina.studies.worker import Outcome, Task, execute, execute_together

_SECONDS_TO_ANSWER = 5.0
_SECONDS = 40.0  # for joining a cluster; importing Ray takes some of them
_CONNECT = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='error')"


class RayPool:
    """Use as a context, as `karenina.studies.runner.Pool`. address: "local", "auto", HOST:PORT or ray://HOST:PORT.

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
        self.task = ray.remote(num_cpus=1, max_retries=4)(_execute)
        self.population = ray.remote(num_cpus=1, max_retries=4)(_execute_together)
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
                study, seconds, here = str(self.study.path), self.plan.checkpoint_seconds, os.getcwd()
                if isinstance(task, Point):
                    reference = self.task.remote(study, task, self.plan.evaluation, seconds, here)
                else:
                    reference = self.population.remote(study, task, seconds, here)
                running[reference] = task
            ready, _ = self.ray.wait(list(running), num_returns=1, timeout=tick)
            if not ready:
                yield None
            for reference in ready:
                task = running.pop(reference)
                outcome = self._take(reference, task)
                if isinstance(task, tuple) and outcome.status == "trained":
                    waiting += reversed(task)  # now each by itself
                yield outcome

    def _room(self) -> int:
        """Return a few more tasks than CPUs, so that no CPU waits for us."""
        return self.workers or 2 * int(self.ray.cluster_resources().get("CPU", 1)) + 1

    def _take(self, reference: Any, task: Task) -> Outcome:
        try:
            outcome: Outcome = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            if not isinstance(task, Point):
                return Outcome(task[0].hash, "trained")
            point = task
            reason = f"lost on the cluster: {type(error).__name__}: {str(error).splitlines()[0]}"
            self.study.fail(point.hash, reason, str(error))
            return Outcome(point.hash, "failed", reason)
        return outcome


def _execute(study: str, point: Point, scoring: Scoring, checkpoint_seconds: float, here: str) -> Outcome:
    return _prepare(study, point, here) or execute(study, point, scoring, checkpoint_seconds)


def _execute_together(study: str, points: tuple[Point, ...], checkpoint_seconds: float, here: str) -> Outcome:
    return _prepare(study, points[0], here) or execute_together(study, points, checkpoint_seconds)


def _prepare(study: str, point: Point, here: str) -> Outcome | None:
    """Make ready to train; return an outcome if the study cannot be seen.

    here: from where a relative path of a data set leads on."""
    import torch

    torch.set_num_threads(1)
    with suppress(OSError):
        os.chdir(here)
    if Path(study).is_dir():
        return None
    where = socket.gethostname()
    return Outcome(point.hash, "unshared", f"the machine {where} does not see {study}: put it on shared storage")


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
            said = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"what answers at {address} is no Ray cluster that this machine can join") from None
    if said.returncode:
        lines = said.stderr.strip().splitlines() or ["no reason given"]
        raise ValueError(f"no Ray cluster at {address}: {lines[-1]}")
