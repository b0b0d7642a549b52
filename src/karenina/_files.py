"""Files that are either the old or the new, never half: write beside, then rename."""

import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=f".part{path.suffix}")
    os.close(handle)
    part = Path(name)
    try:
        # mkstemp makes the file private; give it the permissions that a plain open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        yield part
        with part.open("rb+") as file:  # on the disk before the name changes, so a power cut leaves no hole
            os.fsync(file.fileno())
        if older is not None and path.exists():
            path.replace(older)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def leftovers(folder: Path, name: str = "*") -> set[Path]:
    """What `atomic` leaves in a folder, for files of this name, when its process is killed."""
    return set(folder.glob(f".{name}.????????.part*"))


def save_array(path: str | os.PathLike[str], array: "NDArray[Any]") -> None:
    """An .npy file, at once. Not by np.save to the disk, whose OSError does not say that the disk is full."""
    import numpy as np  # here, for a look at a study needs no numpy

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    with atomic(path) as part:
        part.write_bytes(buffer.getbuffer())


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
