"""Files that are either the old or the new, never half: write beside, then rename."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it takes the place of `path`, on failure it is removed.

    >>> with atomic("table.csv") as part:      # doctest: +SKIP
    ...     part.write_text("a,b")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = _begin(path)
    try:
        # mkstemp makes the file private; give it the permissions that a plain open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        yield part
        with part.open("rb+") as file:  # on the disk before the name changes, so a power cut leaves no hole
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _begin(path: Path) -> tuple[int | None, Path]:
    """A temporary file that is locked as long as its handle is open, so that `sweep` leaves it alone."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=f".part{path.suffix}")
        if fcntl is None:
            os.close(handle)  # where there are no locks, an open file cannot be renamed either
            return None, Path(name)
        if lock(handle) is not False and os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # swept before it was locked


def lock(handle: int) -> bool | None:
    """Try to lock an open file: whether this process has it now. None where the file system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder when they were writing; what is being written now stays."""
    for part in folder.glob(".*.????????.part*"):
        try:
            handle = os.open(part, os.O_RDWR)
        except OSError:
            continue  # renamed meanwhile, or not ours to remove
        try:
            if lock(handle):
                part.unlink(missing_ok=True)
        finally:
            os.close(handle)
