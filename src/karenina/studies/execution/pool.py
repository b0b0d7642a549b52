"""One worker process per core on this machine."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import wait
from typing import IO

from karenina.studies.execution.folder import Folder
from karenina.studies.execution.task import Outcome
from karenina.studies.execution.worker import THREADS
from karenina.studies.plan.plan import Plan, Point

# A worker that dies takes its model with it; the model gets this many chances.
_CHANCES = 2


class Pool:
    """Use as a context: leaving it ends the workers, whose models continue from their checkpoints another time."""

    def __init__(self, folder: Folder, plan: Plan, workers: int):
        self.folder, self.plan, self.size = folder, plan, workers
        self.workers: dict[int, subprocess.Popen[bytes]] = {}  # by the descriptor of their answers
        self.tasks: dict[int, Point] = {}
        self.deaths: Counter[str] = Counter()

    def __enter__(self) -> "Pool":
        self.log: IO[bytes] = open(self.folder.path / "log.txt", "ab")
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers.values():
            worker.kill()
        for worker in self.workers.values():
            worker.wait()
            _close(worker)
        self.log.close()

    def run(self, points: Sequence[Point], tick: float) -> Iterator[Outcome | None]:
        """Outcomes in the order in which they come; None every `tick` seconds without one."""
        waiting = deque(points)
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
                outcome = self._take(answers)  # type: ignore[arg-type]
                if isinstance(outcome, Point):
                    waiting.append(outcome)
                else:
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

    def _give(self, answers: int, point: Point) -> None:
        self.tasks[answers] = point
        task = {
            "study": str(self.folder.path),
            "point": point.to_json(),
            "scoring": asdict(self.plan.evaluation),
            "checkpoint_seconds": self.plan.checkpoint_seconds,
        }
        stdin = self.workers[answers].stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it died; so its answers end, too
            stdin.write(json.dumps(task).encode() + b"\n")

    def _take(self, answers: int) -> Outcome | Point:
        """The answer of a worker; if it died instead, its model, or a failure when that happened before."""
        line = b""
        while not line.endswith(b"\n") and (more := os.read(answers, 65536)):
            line += more
        point = self.tasks.pop(answers)
        if line.endswith(b"\n"):
            return Outcome(**json.loads(line))
        worker = self.workers.pop(answers)
        code = worker.wait()
        _close(worker)
        self.deaths[point.hash] += 1
        if self.deaths[point.hash] < _CHANCES:
            return point
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"the worker process died {_CHANCES} times ({end}); log.txt may say more, as may the system's log"
        self.folder.fail(point.hash, reason)
        return Outcome(point.hash, "failed", reason)


def _close(worker: "subprocess.Popen[bytes]") -> None:
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()
