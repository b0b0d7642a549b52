"""Files that are either the old or the new, never half: write beside, then rename."""

import errno
import hashlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make the error of a full disk, which does not say which file it is about, name this one.

    >>> with naming("table.csv"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'table.csv'
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


@contextmanager
def atomic(path: str | os.PathLike[str], *, older: Path | None = None) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it takes the place of `path`, on failure it is removed.

    older: keep what was at `path` under this name.

    >>> with atomic("table.csv") as part:
    ...     _ = part.write_text("a,b")
    >>> Path("table.csv").read_text()
    'a,b'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = _begin(path)
    try:
        # mkstemp makes the file private; give it the permissions that a plain open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        with naming(path):
            yield part
            with part.open("rb+") as file:  # on the disk before the name changes, so a power cut leaves no hole
                os.fsync(file.fileno())
        if older is not None and path.exists():
            path.replace(older)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _begin(path: Path) -> tuple[int | None, Path]:
    """Return a new temporary file, locked as long as its handle is open, so that `sweep` leaves it alone."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=f".part{path.suffix}")
        if fcntl is None:
            os.close(handle)  # where there are no locks, an open file cannot be renamed either
            return None, Path(name)
        if lock(handle) is not False and os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # swept before it was locked


def lock(handle: int) -> bool | None:
    """Try to lock an open file, and return whether this process has it now; None where the file system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock on a file or folder, which the system drops if the process dies; yield whether it is ours.

    wait: until another process lets go of it. Where there are no locks it is always ours.
    """
    if fcntl is None:
        yield True
        return
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place must not be waited for
    try:
        mine = lock(handle)
        if mine is False and wait:
            fcntl.flock(handle, fcntl.LOCK_EX)
            mine = True
        yield mine is not False
    finally:
        os.close(handle)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make the folder of this path unless it is there, and return the path."""
    if not os.fspath(path):
        raise ValueError("out is empty; expected a directory")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{folder} is not a directory, nor can it be made one: a file is in the way") from None
    except PermissionError:
        raise ValueError(f"{folder} cannot be made: permission denied") from None
    return folder


def sweep(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left in a folder when they were writing files of this name (a pattern); what is
    being written now stays."""
    for part in leftovers(folder, name):
        try:
            handle = os.open(part, os.O_RDWR)
        except OSError:
            continue  # renamed meanwhile, or not ours to remove
        try:
            if lock(handle):
                part.unlink(missing_ok=True)
        finally:
            os.close(handle)


def leftovers(folder: Path, name: str = "*") -> set[Path]:
    """Return what `atomic` leaves in a folder, for files of this name, when its process is killed."""
    return set(folder.glob(f".{name}.????????.part*"))


def save_array(path: str | os.PathLike[str], array: "NDArray[Any]") -> None:
    """Write an .npy file, at once. The OSError of np.save would not say that the disk is full."""
    import numpy as np  # here, for a look at a study needs no numpy

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    with atomic(path) as part:
        part.write_bytes(buffer.getbuffer())


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file for reading bytes; a ValueError for a pipe or a device, which might never end, and for a folder."""
    # To open a pipe waits for whoever writes to it, unless that is declined.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{os.fspath(path)} is a folder, a pipe or a device, expected a file")
    return open(handle, "rb")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError where `path` is a folder, a pipe or a device: for readers that open files by themselves."""
    open_regular(path).close()


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return what a JSON file says; a ValueError in one line where it is none. A missing file stays an OSError."""
    with open_regular(path) as file:
        content = file.read()
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{os.fspath(path)} is not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not JSON: {error}") from None


def as_utf8(text: str) -> str:
    """Return a text that can be written as UTF-8: bytes of file names that are none are spelled out.

    >>> as_utf8(os.fsdecode(b"caf\\xe9.png"))
    'caf\\\\udce9.png'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, at once."""
    with atomic(path) as part:
        part.write_text(as_utf8(text), encoding="utf-8")
