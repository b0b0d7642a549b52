"""Rows of large arrays that stay on disk.

All are called with row numbers (n,) and give these rows (n, ...). They open their file at the first call in each
process, so they may be pickled, sent to workers and used after a fork.
"""

import errno
import glob
import hashlib
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from karenina._files import atomic, held, open_regular, sweep
from karenina._plugins import extras
from karenina.data._reading import MEMORY_LIMIT, h5_dataset, open_h5
from karenina.numerics.arrays import npy_header, readable

with extras():
    import h5py

_MARK = 12  # characters of a hash in the name of a cache

Rows = Callable[[NDArray[np.int64]], NDArray]


def memory_rows(array: NDArray) -> Rows:
    """Rows of an array in memory."""
    found: Any = partial(getitem, array)  # which workers can be sent
    return found


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
        with readable(self.path, "an HDF5 file"):
            if self._pid != os.getpid():
                self._dataset = h5_dataset(h5py.File(self.path, "r"), self.key, "rows")
                self._pid = os.getpid()
            # HDF5 wants increasing row numbers without repeats.
            unique, back = np.unique(index, return_inverse=True)
            return self._dataset[unique][back]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dataset": None, "_pid": 0}


def h5_rows(path: Path, key: str) -> Rows | None:
    """The quickest way to rows of an HDF5 dataset: a memory map if it is one plain block, single chunks if a row needs
    few; None if every row would unpack chunks that hold many others (then make a cache)."""
    expected = f"an HDF5 file with {key}"
    with open_h5(path, expected) as file:
        dataset = h5_dataset(file, key, expected)
        offset = dataset.id.get_offset()
        if dataset.chunks is None and offset is not None:
            if offset + dataset.dtype.itemsize * math.prod(dataset.shape) > path.stat().st_size:
                raise ValueError(f"{key} is cut off")
            return MappedRows(path, dataset.shape, offset, dataset.dtype)
        if dataset.chunks is None or dataset.chunks[0] <= 8:
            return H5Rows(path, key)
    return None


def signature(sources: tuple[Path, ...], *, here: bool) -> str:
    """A short hash that changes when one of the files changes.

    Of name, size and time, which stay when a folder is copied with its cache. here: also of what a copy changes: the
    path, the inode number and the time of its last change, which nobody can set back.
    """
    marks = []
    for path in sources:
        about = path.stat()
        own = (os.path.abspath(path), about.st_ino, about.st_ctime_ns) if here else (path.name,)
        marks.append((*own, about.st_size, about.st_mtime_ns))
    return hashlib.sha256(repr(marks).encode()).hexdigest()[:_MARK]


@dataclass
class CachedRows:
    """Rows that are computed once from source files and kept as a .npy, which is then memory-mapped.

    sources: the files, whose sizes and times the cache must match. shape: of the whole array, uint8. blocks: gives the
    array in pieces. The cache lies beside the first source, or in `folder` with those of other sources; where it cannot
    be written, `otherwise` gives the rows, or the array goes to memory if it is under 1 GB. Both are said by a warning.
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
        folder, shared = self.folder or self.sources[0].parent, self.folder is not None
        return folder / f"{self._stem}.{signature(self.sources, here=shared)}.{self.tag}.npy"

    @property
    def _stem(self) -> str:
        """What caches of these sources have in common, and in a shared folder no others."""
        if self.folder is None:
            return self.sources[0].name
        place = os.path.abspath(self.sources[0].parent)
        return f"{os.path.basename(place)}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:_MARK]}"

    def _open(self) -> Rows:
        # Of many workers one makes the cache, and the others wait. The folder, as HDF5 has locks of its own on files.
        with held(self.sources[0].parent, wait=True):
            # A folder beside a source is not ours: there we take away what we left of this source alone.
            sweep(self.path.parent, "*" if self.folder is not None else f"{glob.escape(self._stem)}.{'?' * _MARK}.*")
            try:
                start = _start(self.path, self.shape)
                if start is None:
                    self._write()
                    start = _start(self.path, self.shape)
                return MappedRows(self.path, self.shape, start)
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
        for old in self.path.parent.glob(f"{glob.escape(self._stem)}.{'?' * _MARK}.{self.tag}.npy"):
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
        return memory_rows(gather(self.shape, self.blocks()))


def cache_folder() -> Path:
    """Where caches of data that have no place of their own are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "karenina"


def gather(shape: tuple[int, ...], blocks: Iterable[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Blocks put together in memory, without ever holding them twice."""
    array, start = np.empty(shape, np.uint8), 0
    for block in blocks:
        array[start : start + len(block)] = block
        start += len(block)
    return array


def _start(path: Path, shape: tuple[int, ...]) -> Any:
    """Where the array of a .npy begins if it is whole and of this shape, else None."""
    try:
        with open_regular(path) as file:
            header = npy_header(file, path.stat().st_size)
    except Exception:  # there is none, or it is damaged
        return None
    return header.start if (header.shape, header.dtype, header.fortran) == (shape, np.uint8, False) else None
