"""Arrays in files: other people's files opened with care, and rows of large arrays that stay on disk.

What is in a file is found out from its content, arrays inside .npz and .h5 files are not loaded whole, and nothing in
them is executed. Rows are called with row numbers (n,) and give these rows (n, ...). They open their file at the first
call in each process, so they may be pickled, sent to workers and used after a fork.
"""

import contextlib
import errno
import glob
import hashlib
import math
import os
import shutil
import warnings
import zipfile
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
from karenina.data.download import SOURCES
from karenina.numerics.arrays import load_npz, npy_header, npz_keys, readable

with extras():
    import h5py
    from PIL import Image

IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_BLOCK_BYTES = 1 << 26
# Arrays of no more bytes than this are kept in memory.
MEMORY_LIMIT = 1 << 30

_MAGIC = (
    (b"PK\x03\x04", "a zip archive (.npz is one)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a .npy array"),
    (b"\x1f\x8b", "a gzip file"),
    (b"MATLAB 5.0", "a MATLAB 5 file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
)


def what_is(path: Path) -> str:
    """Return what a file is by its first bytes, whatever its name says."""
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        return "an empty file"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head.lstrip()[:5].lower() in (b"<!doc", b"<html", b"<?xml"):
        return "a web page (HTML)"
    if head[1:4] == b"\x4c\x3d\x1e" and 0x51 <= head[0] <= 0x56:
        return "a NORB binary matrix"
    return f"a file of an unknown kind that starts with {head[:8]!r}"


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image file by the decoders of common formats only; a ValueError says what else it is. PostScript under
    the name of a .png would make Pillow start Ghostscript, and damaged files make decoders raise anything."""
    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            yield image
    except Exception as error:
        whole = "an image that is whole" if what_is(path).endswith("image") else "an image"
        raise bad(path, whole, error) from None


def find(folder: Path | None, *names: str) -> Path | None:
    """Return the first of these files that is in a folder or in one of its direct subfolders, or None."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise ValueError(f"the data folder {str(folder)!r} does not exist")
    for name in names:
        for path in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if path.is_file():
                return path
    return None


def missing(data: str, files: str, folder: Path | None) -> ValueError:
    """Return the error for official files that are not there and that no renderer of ours can replace."""
    where = f"not in {str(folder)!r} or its subfolders" if folder else "and no data folder is set"
    sources = SOURCES.get(data, ())
    sums = [f"; {file.filename} has the md5 {file.md5}" for file in sources if file.md5]
    fetch = f", or fetch it with: karenina data get {data} --data-dir DIR" if sources else ""
    return ValueError(
        f"{data} needs {files}: {where}. Put it into a folder and name that folder by data_dir= or the environment "
        f"variable KARENINA_DATA{fetch}{''.join(sums)}"
    )


def bad(path: Path, expected: str, reason: object = None) -> ValueError:
    """Return the error for a file that is not what its name promises."""
    why = f" ({str(reason).splitlines()[0]})" if str(reason or "") else ""
    return ValueError(f"{path} is {what_is(path)}, expected {expected}{why}; delete it and get it again")


@dataclass(frozen=True)
class NpzArray:
    """An array inside an .npz. `offset` is its place in the file when it is stored without compression, else None."""

    path: Path
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int | None

    def blocks(self) -> Iterator[NDArray]:
        """Yield the array in pieces of about 64 MB along its first axis; more is never in memory."""
        row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        step = max(1, _BLOCK_BYTES // max(1, row_bytes))
        with readable(self.path, "an .npz"), zipfile.ZipFile(self.path) as archive:
            info = archive.getinfo(f"{self.key}.npy")
            with archive.open(info) as file:
                npy_header(file, info.file_size)
                for start in range(0, self.shape[0], step):
                    rows = min(step, self.shape[0] - start)
                    data = file.read(rows * row_bytes)
                    if len(data) != rows * row_bytes:
                        raise EOFError(f"{self.key} ends early; delete it and get it again")
                    yield np.frombuffer(data, self.dtype).reshape(rows, *self.shape[1:])


def npz_array(path: Path, key: str, expected: str) -> NpzArray:
    """Return where an array lies inside an .npz and what it is, without reading its data."""
    try:
        with zipfile.ZipFile(path) as archive:
            keys = npz_keys(archive)
    except Exception as error:  # A damaged archive raises anything.
        raise bad(path, expected, error) from None
    if key not in keys:
        raise ValueError(f"{path} holds the arrays {', '.join(keys) or '(none)'}, expected {expected}")
    with readable(path, expected), zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{key}.npy")
        with archive.open(info) as file:
            header = npy_header(file, info.file_size)
        if header.fortran and len(header.shape) > 1:
            raise ValueError(f"{key} is in Fortran order")
        offset = None
        if info.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as raw:
                raw.seek(info.header_offset + 26)  # the local header repeats the lengths of its name and extra field
                lengths = np.frombuffer(raw.read(4), "<u2")
            begin = info.header_offset + 30 + int(lengths.sum())
            offset = begin + header.start
            if begin + header.end > path.stat().st_size:
                raise ValueError(f"{key} is cut off")
    return NpzArray(path, key, header.shape, header.dtype, offset)


def npz_small(path: Path, *keys: str) -> dict[str, NDArray]:
    """Return those of these arrays that an .npz has, whole: labels and names, which must fit into memory."""
    return load_npz(path, *keys, limit=MEMORY_LIMIT)


@contextlib.contextmanager
def open_h5(path: Path, expected: str) -> Iterator[h5py.File]:
    """Open an HDF5 file; a ValueError says what the file is instead."""
    try:
        file = h5py.File(path, "r")
    except Exception as error:  # A damaged file raises OSError, RuntimeError or KeyError.
        raise bad(path, expected, error) from None
    with readable(path, expected), file:
        yield file


def h5_dataset(file: h5py.File, key: str, expected: str) -> Any:
    """Return a dataset that lies in this very file.

    External links, external storage and virtual datasets are refused: they would let whoever wrote the file choose
    which other files of the user's are read.
    """
    found = _follow(file, key)
    if not isinstance(found, h5py.Dataset):
        keys: list[str] = []
        file.visititems(lambda name, item: keys.append(name) if isinstance(item, h5py.Dataset) else None)
        raise ValueError(f"{file.filename} holds the arrays {', '.join(keys) or '(none)'}, expected {expected}")
    if found.external or found.is_virtual:
        raise ValueError(f"{key} is a view of other files; copy it into this one")
    return found


def _follow(file: h5py.File, key: str) -> Any:
    """Return what a path leads to by hard and soft links alone; None where it leads nowhere."""
    at: Any = file
    parts = [part.encode() for part in key.split("/")]
    for _ in range(100):  # Soft links may go in circles.
        if not parts or not isinstance(at, h5py.Group):
            break
        part = parts.pop(0)
        if part in (b"", b"."):
            continue
        links = at.id.links  # To use at.get would open the other end to see whether it is there.
        if not links.exists(part):
            return None
        kind = links.get_info(part).type
        if kind == h5py.h5l.TYPE_SOFT:
            path = links.get_val(part)
            at = file if path.startswith(b"/") else at
            parts = [*path.split(b"/"), *parts]
        elif kind == h5py.h5l.TYPE_HARD:
            at = at[part]
        else:
            raise ValueError(f"{key} is a link to another file; copy it into this one")
    return None if parts else at


def h5_small(file: h5py.File, key: str, expected: str) -> NDArray | None:
    """Return a small dataset, whole and with text as str; None where there is none."""
    if _follow(file, key) is None:
        return None
    return h5_whole(h5_dataset(file, key, expected))


def h5_whole(dataset: Any) -> NDArray:
    """Return all of a dataset of numbers or text."""
    text = h5py.check_string_dtype(dataset.dtype)
    if not text and dataset.dtype.kind not in "biuf":  # Reading damaged lists of lists can crash HDF5.
        raise ValueError(f"{dataset.name} is {dataset.dtype}, expected numbers or text")
    if dataset.dtype.itemsize * math.prod(dataset.shape) > MEMORY_LIMIT:
        raise ValueError(f"{dataset.name} is {dataset.dtype} {dataset.shape}, too large for memory")
    return np.asarray((dataset.asstr() if text else dataset)[()])


def h5_blocks(path: Path, key: str) -> Iterator[NDArray]:
    """Yield a dataset of an HDF5 file in pieces along its first axis that do not cut its chunks: each is unpacked
    once."""
    expected = f"an HDF5 file with {key}"
    with open_h5(path, expected) as file:
        dataset = h5_dataset(file, key, expected)
        row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
        chunk = dataset.chunks[0] if dataset.chunks else 1
        step = chunk * max(1, _BLOCK_BYTES // (row_bytes * chunk))
        for start in range(0, len(dataset), step):
            yield dataset[start : start + step]


_MARK = 12  # Names of caches have so many characters of a hash.

Rows = Callable[[NDArray[np.int64]], NDArray]


def memory_rows(array: NDArray) -> Rows:
    """Return the rows of an array in memory."""
    found: Any = partial(getitem, array)  # A partial, unlike a lambda, can be sent to workers.
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
            self._map = np.asarray(mapped)  # The plain array indexes faster than its subclass.
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
    """Return the quickest way to rows of an HDF5 dataset: a memory map if it is one plain block, single chunks if a row
    needs few; None if every row would unpack chunks that hold many others (then make a cache)."""
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
    """Return a short hash that changes when one of the files changes.

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
        """Return the beginning of the names of all caches of these sources, and in a shared folder of no others."""
        if self.folder is None:
            return self.sources[0].name
        place = os.path.abspath(self.sources[0].parent)
        return f"{os.path.basename(place)}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:_MARK]}"

    def _open(self) -> Rows:
        # One of many workers makes the cache, and the others wait. They lock the folder, as HDF5 locks files itself.
        with held(self.sources[0].parent, wait=True):
            # A folder beside a source is the user's: only what is left of this source's caches is removed there.
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
        # The file is written and not mapped, so that a full disk is an error and not a signal that ends the process.
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
    """Return the folder for caches of data that have no place of their own."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "karenina"


def gather(shape: tuple[int, ...], blocks: Iterable[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Put blocks together in memory, without ever holding them twice."""
    array, start = np.empty(shape, np.uint8), 0
    for block in blocks:
        array[start : start + len(block)] = block
        start += len(block)
    return array


def _start(path: Path, shape: tuple[int, ...]) -> Any:
    """Return where the array of a .npy begins if it is whole and of this shape, else None."""
    try:
        with open_regular(path) as file:
            header = npy_header(file, path.stat().st_size)
    except Exception:  # There is none, or it is damaged.
        return None
    return header.start if (header.shape, header.dtype, header.fortran) == (shape, np.uint8, False) else None
