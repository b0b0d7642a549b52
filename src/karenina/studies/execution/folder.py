"""A study's directory, and who is doing what in it. Nothing here loads numpy: a look at 10,000 runs is quick.

study.toml                    the plan
runs/<hash>/                  a run as `karenina.train` leaves it, with codes.npy (rows, L) and kl.npy (L,)
scores/<hash>.<scoring>.json  its scores, with a digest; this file appears last, so it says that the run is done
failed/<hash>.json            why a run failed
claims/<hash>                 locked by the process that works on the run, which writes there how far it is
results.parquet               all scores; written when the study is complete or is stopped
"""

import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from karenina._files import atomic, lock, read_json, sweep
from karenina.studies.plan.parsing import parse, read
from karenina.studies.plan.plan import Plan

try:
    import fcntl
except ImportError:  # Windows: no locks, so do not run two studies in one directory
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Claimed:
    """A model that a process is working on. `step` of `steps`: training; step = steps: scoring."""

    hash: str
    host: str
    pid: int
    step: int
    steps: int
    started: float

    @property
    def who(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid else "a process that has just begun"

    @property
    def at(self) -> str:
        return f"step {self.step:,} of {self.steps:,}" if self.step < self.steps else "scoring"


@dataclass(frozen=True)
class Status:
    """How far a study is; hashes in the plan's order. `stale`: scored, but with other settings or an
    earlier release whose numbers differ."""

    plan: Plan
    done: tuple[str, ...]
    failed: tuple[str, ...]
    running: tuple[Claimed, ...]
    stale: int

    @property
    def total(self) -> int:
        return len(self.plan.points)

    @property
    def waiting(self) -> int:
        return self.total - len(self.done) - len(self.failed) - len(self.running)


class Folder:
    """Paths in a study's directory, and questions about them."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def run(self, name: str) -> Path:
        return self.path / "runs" / name

    def scores(self, name: str, scoring: str) -> Path:
        return self.path / "scores" / f"{name}.{scoring}.json"

    def failure(self, name: str) -> Path:
        return self.path / "failed" / f"{name}.json"

    def trained(self, name: str) -> bool:
        """Whether the run is finished, scored or not."""
        try:
            about = read_json(self.run(name) / "run.json")
        except (OSError, ValueError):
            return False
        return isinstance(about, dict) and about.get("status") == "finished"

    @property
    def results(self) -> Path:
        return self.path / "results.parquet"

    def plan(self) -> Plan:
        """The plan, which was checked when it was written. What an older one does not say was done in one way then."""
        file = self.path / "study.toml"
        if not file.exists():
            raise ValueError(f"{self.path} is not a study: it has no study.toml")
        before = {"init": "torch", "population": 1, "evaluation": {"interventions": "rows"}}
        return read(file, check=False, **before)

    def adopt(self, plan: Plan) -> Plan:
        """Make this the directory of `plan`. A plan that holds all models of the one before replaces it.

        Gives the plan with the initial weights and populations that the study began with, if they are left to us.
        """
        file = self.path / "study.toml"
        if file.exists():
            begun = self.plan()
            plan = replace(plan, init=begun.init) if plan.init == "auto" else plan
            plan = replace(plan, population=begun.population) if plan.population == "auto" else plan
            lost = {point.hash for point in begun.points} - {point.hash for point in plan.points}
            if lost:
                raise ValueError(
                    f"{self.path} holds another study: {len(lost)} of its models are not in this one. "
                    "Seeds, strengths and data sets can be added, not taken away; choose another directory"
                )
        elif self._has_files() and not file.exists():  # asked again: another process may be making the study just now
            raise ValueError(f"{self.path} is not empty and not a study")
        text = plan.to_toml()
        assert parse(text, check=False) == plan
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            with atomic(file) as part:
                part.write_text(text, encoding="utf-8")
        for name in ("runs", "scores", "failed", "claims"):
            (self.path / name).mkdir(exist_ok=True)
        for name in (".", "scores", "failed"):
            sweep(self.path / name)
        return plan

    def _has_files(self) -> bool:
        """Whether there is anything but hidden files, which are parts of files that are being written."""
        return self.path.is_dir() and any(not entry.name.startswith(".") for entry in self.path.iterdir())

    def names(self, what: str) -> set[str]:
        """Names of the whole files in a folder of the study: a hidden one is still being written."""
        try:
            return {entry.name for entry in os.scandir(self.path / what) if not entry.name.startswith(".")}
        except FileNotFoundError:
            return set()

    def status(self, plan: Plan | None = None) -> Status:
        """How far the study is; a caller that has the plan spares reading it."""
        plan = plan or self.plan()
        hashes = [point.hash for point in plan.points]
        scored = self.names("scores")
        done = {name.removesuffix(f".{plan.evaluation.hash}.json") for name in scored}
        failed = {name.removesuffix(".json") for name in self.names("failed")} - done
        running = [claim for name in sorted(self.names("claims")) if (claim := read_claim(self.path, name))]
        planned = set(hashes)
        open_ = planned - done - failed
        return Status(
            plan,
            tuple(name for name in hashes if name in done),
            tuple(name for name in hashes if name in failed),
            tuple(claim for claim in running if claim.hash in open_),
            len({name.split(".")[0] for name in scored} & planned - done),
        )

    def fail(self, name: str, reason: str, details: str = "", *, fresh: bool = False) -> None:
        """Record why a run failed. fresh: what is in its directory is no good, a retry starts from nothing."""
        with atomic(self.failure(name)) as part:
            part.write_text(json.dumps({"reason": reason, "details": details, "fresh": fresh}, indent=2))

    def reason(self, name: str) -> str:
        return str(self._failure(name).get("reason", "unknown"))

    def forget(self, name: str) -> None:
        """Let a failed run be tried again: from its checkpoint, unless that is no good."""
        if self._failure(name).get("fresh"):
            shutil.rmtree(self.run(name), ignore_errors=True)
        self.failure(name).unlink(missing_ok=True)

    def _failure(self, name: str) -> dict[str, Any]:
        try:
            found = read_json(self.failure(name))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def status(path: str | os.PathLike[str]) -> Status:
    """How far the study in a directory is."""
    return Folder(path).status()


def digest(scores: Mapping[str, Any]) -> str:
    """SHA-256 of what a file of scores says, so that a changed number is noticed."""
    kept = {name: value for name, value in scores.items() if name != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


class Claim:
    """A lock on one model, held as long as the process lives and has not let go."""

    def __init__(self, handle: int, name: str):
        self.handle, self.name = handle, name
        self.started, self.written = time.time(), 0.0

    def progress(self, step: int, steps: int) -> None:
        """Write how far the model is, every few seconds at most."""
        if time.monotonic() - self.written < 2 and step < steps:
            return
        self.written = time.monotonic()
        about = {"host": socket.gethostname(), "pid": os.getpid(), "step": step, "steps": steps}
        line = json.dumps({**about, "started": self.started}).ljust(255) + "\n"
        os.pwrite(self.handle, line.encode(), 0)


@contextmanager
def claim(folder: Path, name: str) -> Iterator[Claim | None]:
    """Hold the model's lock; None if another process does. The system frees it when the process dies."""
    path = folder / "claims" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if lock(handle) is False:
            yield None
            return
        yield Claim(handle, name)
        # Who got hold of the file before it went looks for scores and failures first, so nothing is done twice.
        path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def read_claim(folder: Path, name: str) -> Claimed | None:
    """Who works on a model; None if that process is gone."""
    path = folder / "claims" / name
    try:
        # Network file systems lock only what may be written; somebody else's study may only be read.
        handle = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    except OSError:
        return None
    try:
        if fcntl is not None and lock(handle) is not False:
            return None
        about = json.loads(os.pread(handle, 256, 0) or "{}")
        pid, step, steps = (int(about[key]) for key in ("pid", "step", "steps"))
        return Claimed(name, str(about["host"]), pid, step, steps, float(about["started"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return Claimed(name, "", 0, 0, 1, time.time())  # just begun
    finally:
        os.close(handle)


@contextmanager
def exclusive(folder: Path, name: str) -> Iterator[None]:
    """Wait for a lock of this name in the study's directory; `read_claim` of .NAME says who has it."""
    handle = os.open(folder / "claims" / f".{name}", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        Claim(handle, name).progress(0, 1)
        yield
    finally:
        os.close(handle)
