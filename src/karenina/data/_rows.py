"""Rows of large arrays that stay on disk.

Each class is called with row numbers (n,) and gives these rows (n, ...). They open their file at the first call in each
process, so they may be pickled, sent to workers and used after a fork.
"""

import contextlib
import errno
import hashlib
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

from karenina._files import atomic

Rows = Callable[[NDArray[np.int64]], NDArray]

# What may be kept in memory when it cannot be kept on disk.
MEMORY_LIMIT = 1 << 30


@dataclass
class MemoryRows:
    """Rows of an array in memory."""

    array: NDArray

    def __call__(self, index: NDArray[np.int64]) -> NDArray:
        return self.array[index]


@dataclass
class MappedRows:
    """Rows of an array that lies uncompressed in a file, by memory map: only the pages asked for are read."""

    path: Path
    shape: tuple[int, ...]
    offset: int
    dtype: DTypeLike = np.uint8
    _map: NDArray | None = field(default=None, repr=False)

    def __call__(self, index: NDArray[np.int64]) -> NDArray:
        if self._map is None:
            mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
            self._map = np.asarray(mapped)  # the plain array indexes faster than its subclass
        return self._map[index]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None}


@dataclass
class H5Rows:
    """Rows of a dataset in an HDF5 file. HDF5 handles do not survive a fork, so each process opens its own."""

    path: Path
    key: str
    _dataset: Any = field(default=None, repr=False)
    _pid: int = field(default=0, repr=False)

    def __call__(self, index: NDArray[np.int64]) -> NDArray:
        if self._pid != os.getpid():
            self._dataset, self._pid = h5py.File(self.path, "r")[self.key], os.getpid()
        # HDF5 wants increasing row numbers without repeats.
        unique, back = np.unique(index, return_inverse=True)
        return self._dataset[unique][back]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dataset": None, "_pid": 0}


def h5_rows(path: Path, key: str) -> Rows | None:
    """The quickest way to rows of an HDF5 dataset: a memory map if it is one plain block, single chunks if a row needs
    few; None if every row would unpack chunks that hold many others (then make a cache)."""
    with h5py.File(path, "r") as file:
        dataset = file[key]
        offset = dataset.id.get_offset()
        if dataset.chunks is None and offset is not None and not dataset.external:
            return MappedRows(path, dataset.shape, offset, dataset.dtype)
        if dataset.chunks is None or dataset.chunks[0] <= 8:
            return H5Rows(path, key)
    return None


def signature(sources: tuple[Path, ...]) -> str:
    """A short mark that changes when one of the files changes in name, size or time."""
    marks = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    return hashlib.sha256(repr(marks).encode()).hexdigest()[:12]


@dataclass
class CachedRows:
    """Rows that are worked out once from source files and kept as a .npy, from then on a memory map.

    sources: the files, whose sizes and times the cache must match. shape: of the whole array, uint8. blocks: gives the
    array in pieces. The cache lies beside the first source (or in `folder`); where it cannot be written, `otherwise`
    gives the rows, or the array goes to memory if it is under 1 GB. Both are said by a warning.
    """

    sources: tuple[Path, ...]
    shape: tuple[int, ...]
    blocks: Callable[[], Iterator[NDArray[np.uint8]]]
    otherwise: Rows | None = None
    folder: Path | None = None
    tag: str = "rows"
    _rows: Rows | None = field(default=None, repr=False)

    def __call__(self, index: NDArray[np.int64]) -> NDArray:
        if self._rows is None:
            self._rows = self._open()
        return self._rows(index)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}

    @property
    def path(self) -> Path:
        folder = self.folder or self.sources[0].parent
        return folder / f"{self.sources[0].name}.{signature(self.sources)}.{self.tag}.npy"

    def _open(self) -> Rows:
        with _only_one(self.sources[0].parent):
            try:
                if not _is_whole(self.path, self.shape):
                    self._write()
                return MappedRows(self.path, self.shape, _header_bytes(self.path))
            except OSError as error:
                return self._fall_back(error)

    def _write(self) -> None:
        size = math.prod(self.shape)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self.path.parent).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Written, not mapped: a full disk is then an error, and not the signal that ends the process.
        with atomic(self.path) as part, part.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": self.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for block in self.blocks():
                file.write(np.ascontiguousarray(block).data)
        if self.folder is None:  # in a shared folder another set may have files of the same names
            for old in self.path.parent.glob(f"{self.sources[0].name}.*.{self.tag}.npy"):
                if old != self.path:
                    old.unlink(missing_ok=True)

    def _fall_back(self, error: OSError) -> Rows:
        size = math.prod(self.shape)
        trouble = f"no cache of {size / 1e9:.1f} GB in {self.path.parent} ({error.strerror or error})"
        if self.otherwise is not None:
            warnings.warn(f"{trouble}: reading the file itself, which is slow", RuntimeWarning, stacklevel=4)
            return self.otherwise
        if size > MEMORY_LIMIT:
            raise ValueError(f"{trouble}, and it is too large for memory; free some space or move the file") from error
        warnings.warn(f"{trouble}: keeping it in memory", RuntimeWarning, stacklevel=4)
        return MemoryRows(gather(self.shape, self.blocks()))


def gather(shape: tuple[int, ...], blocks: Iterable[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Blocks put together in memory, without ever holding them twice."""
    array, start = np.empty(shape, np.uint8), 0
    for block in blocks:
        array[start : start + len(block)] = block
        start += len(block)
    return array


def _header_bytes(path: Path) -> int:
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        return file.tell()


def _is_whole(path: Path, shape: tuple[int, ...]) -> bool:
    try:
        return path.stat().st_size == _header_bytes(path) + math.prod(shape)
    except (FileNotFoundError, ValueError):
        return False


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that of many workers one makes the cache and the others wait for it.

    The folder, because HDF5 puts locks of its own on the files.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: several workers may then do the same work twice
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network disks have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
