"""The kinds of arrays, and .npy and .npz files that anyone may have written: never unpickled, no header believed."""

import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@contextmanager
def readable(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn whatever goes wrong inside into a ValueError of one line: damaged files make their parsers raise anything.

    >>> with readable("codes.npz", "an .npz file"):
    ...     zipfile.ZipFile("codes.npz")
    Traceback (most recent call last):
    ValueError: codes.npz is not readable as an .npz file: [Errno 2] No such file or directory: 'codes.npz'
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):  # the message names the file already
            raise
        # str of a KeyError is the repr of its message.
        lines = str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip().splitlines()
        raise ValueError(f"{path} is not readable as {what}: {lines[0] if lines else type(error).__name__}") from None


@dataclass(frozen=True)
class Header:
    """What a .npy file says of itself: shape and type of the array, its order, and where its bytes begin and end."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int

    @property
    def end(self) -> int:
        return self.start + self.dtype.itemsize * math.prod(self.shape)


def npy_header(file: IO[bytes], size: int) -> Header:
    """Return the header at the beginning of a .npy of `size` bytes, which must hold the array that it describes."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    header = Header(shape, dtype, fortran, file.tell())
    if header.end > size:
        raise ValueError(f"an array of {dtype} {shape} needs {header.end:,} bytes, and there are {size:,}")
    return header


def load_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a .npy file."""
    with readable(path, "a .npy array of numbers or text"), open(path, "rb") as file:
        npy_header(file, os.fstat(file.fileno()).st_size)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def load_npz(path: str | os.PathLike[str], *keys: str, limit: int | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz by name, or those of `keys` that it has. limit: the bytes that an array may have;
    None: those of the machine's memory.
    """
    most = _memory() if limit is None else limit
    found = {}
    with readable(path, "an .npz of numbers or text"), zipfile.ZipFile(path) as archive:
        for key in npz_keys(archive):
            if not keys or key in keys:
                info = archive.getinfo(f"{key}.npy")
                with archive.open(info) as file:
                    npy_header(file, info.file_size)
                if info.file_size > most:
                    raise ValueError(f"{key} has {info.file_size / 1e9:.1f} GB, more than the {most / 1e9:.1f} allowed")
                with archive.open(info) as file:
                    found[key] = np.lib.format.read_array(file, allow_pickle=False)
    return found


def npz_keys(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays in an .npz."""
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _memory() -> int:
    """Return the machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # some systems do not say
        return 1 << 62
