"""What the system says to this process: the signals that stop it, and the cores that it may use."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

# Seconds that a worker has for the step that it is in and for its checkpoint, before it is killed.
_GRACE = 15.0
_waiting = 0  # how many `stops_wait` the main thread is in
_noted: int | None = None  # the signal that waits
_heard = False


class Terminated(KeyboardInterrupt):
    """SIGTERM came. Whatever catches Ctrl-C catches it as well."""


def exit_code(stop: BaseException) -> int:
    """Return what a shell expects of a program that a signal ended: 143 after SIGTERM, 130 after Ctrl-C."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def stops_heard() -> Iterator[None]:
    """Make SIGTERM raise `Terminated` inside the block, as Ctrl-C raises KeyboardInterrupt."""
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread may
        usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        for number, handler in usual.items():
            # Whoever handles a signal otherwise, or ignores it, knows better.
            if signal.getsignal(number) is handler:
                before[number] = signal.signal(number, _hear)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def stops_wait() -> Iterator[None]:
    """Delay the first Ctrl-C or SIGTERM in the block until nothing is half done; a second one ends at once.

    `stop_waits` says that there is one, for `stopped` to make it an exception; what does not look has it at the end.
    """
    global _waiting, _noted, _heard
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with stops_heard():
        _waiting += 1
        try:
            yield
            if _waiting == 1 and _noted is not None:
                raise stopped("stopped")
        finally:
            _waiting -= 1
            if not _waiting:
                _noted, _heard = None, False


def stop_waits() -> bool:
    return _noted is not None and threading.current_thread() is threading.main_thread()


def stopped(words: str) -> KeyboardInterrupt:
    """Return the exception for the signal that `stops_wait` made wait, with what to say of it."""
    return Terminated(words) if _noted == signal.SIGTERM else KeyboardInterrupt(words)


def _hear(number: int, frame: FrameType | None) -> None:
    global _noted, _heard
    if _waiting and not _heard:  # the end of a worker's input, which may come first, is no signal
        _noted, _heard = _noted or number, True
    elif number == signal.SIGTERM:
        raise Terminated
    else:
        raise KeyboardInterrupt


def obey_input() -> Iterator[str]:
    """Yield the lines of our input; when it ends, stop this process, as SIGTERM would, and at the latest after a while.

    For a thread of a worker, whose input ends with the process that started it, however that ended.
    """
    global _noted
    yield from sys.stdin
    if _waiting:  # else there is nothing to keep
        _noted = signal.SIGTERM
        time.sleep(_GRACE)
    os._exit(0)


def end_workers(workers: Iterable["subprocess.Popen[Any]"]) -> None:
    """End processes that obey their input, with their checkpoints written; a second Ctrl-C ends them at once."""
    workers = list(workers)
    try:
        for worker in workers:
            if worker.stdin is not None:
                with suppress(OSError):
                    worker.stdin.close()
        until = time.monotonic() + _GRACE
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(until - time.monotonic(), 0))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may use: those of its CPU affinity, as far as the quota of its cgroup goes.

    root: where proc and sys are.

    >>> 1 <= cores() <= os.cpu_count()
    True
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        allowed = os.cpu_count() or 1
    return max(math.ceil(min(allowed, _quota(root))), 1)


def _quota(root: Path) -> float:
    """Return how many cores the cgroup of this process and those above it allow; inf where they do not say."""
    least = math.inf
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            mount = root / "sys/fs/cgroup" / ("" if not controllers else "cpu")
            # In a container the path may be that of the host; then the limits are in the root of the mount.
            place = mount / path.strip("/")
            for folder in (place, *place.parents):
                least = min(least, _limit(folder, old=bool(controllers)))
                if folder == mount:
                    break
    return least


def _limit(folder: Path, *, old: bool) -> float:
    """Return how many cores one cgroup allows, of version 1 (old) or 2."""
    try:
        if old:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        else:
            quota, period = (folder / "cpu.max").read_text().split()
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
