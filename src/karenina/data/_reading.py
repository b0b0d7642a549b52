"""Opening other people's files: where they are, what they really are, and the arrays inside .npz and .h5, unloaded."""

import contextlib
import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from karenina.data.download import SOURCES

_BLOCK_BYTES = 1 << 26

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
    """What a file is by its first bytes, whatever its name says."""
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


def find(folder: Path | None, *names: str) -> Path | None:
    """The first of these file names in a folder or in one of its direct subfolders."""
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
    """The error for official files that are not there and that no renderer of ours can replace."""
    where = f"not in {str(folder)!r} or its subfolders" if folder else "and no data folder is set"
    sources = SOURCES.get(data, ())
    sums = [f"; {file.filename} has the md5 {file.md5}" for file in sources if file.md5]
    fetch = f", or fetch it with: karenina data get {data} --data-dir DIR" if sources else ""
    return ValueError(
        f"{data} needs {files}: {where}. Put it into a folder and name that folder by data_dir= or the environment "
        f"variable KARENINA_DATA{fetch}{''.join(sums)}"
    )


def bad(path: Path, expected: str, reason: object = None) -> ValueError:
    """The error for a file that is not what its name promises."""
    return ValueError(
        f"{path} is {what_is(path)}, expected {expected}{f' ({reason})' if reason else ''}; delete it and get it again"
    )


@dataclass(frozen=True)
class NpzArray:
    """An array inside an .npz. `offset` is its place in the file when it is stored without compression, else None."""

    path: Path
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int | None

    def blocks(self) -> Iterator[NDArray]:
        """The array in pieces of about 64 MB along its first axis; more is never in memory."""
        row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        step = max(1, _BLOCK_BYTES // max(1, row_bytes))
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{self.key}.npy") as file:
                _npy_header(file)
                for start in range(0, self.shape[0], step):
                    rows = min(step, self.shape[0] - start)
                    data = file.read(rows * row_bytes)
                    if len(data) != rows * row_bytes:
                        raise EOFError(f"{self.key} ends early")
                    yield np.frombuffer(data, self.dtype).reshape(rows, *self.shape[1:])
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{self.path} is damaged: {error}; delete it and get it again") from None


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def npz_keys(path: Path, expected: str) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise bad(path, expected, error) from None


def npz_array(path: Path, key: str, expected: str) -> NpzArray:
    """Where and what an array inside an .npz is, without reading its data."""
    keys = npz_keys(path, expected)
    if key not in keys:
        raise ValueError(f"{path} holds the arrays {', '.join(keys) or '(none)'}, expected {expected}")
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{key}.npy")
        with archive.open(info) as file:
            try:
                shape, fortran, dtype = _npy_header(file)
            except ValueError as error:
                raise ValueError(f"{path}: {key} is not an array ({error}), expected {expected}") from None
            header = file.tell()
    if (fortran and len(shape) > 1) or dtype.hasobject:
        raise ValueError(f"{path}: {key} is {'in Fortran order' if fortran else 'pickled'}, expected {expected}")
    offset = None
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as raw:
            raw.seek(info.header_offset + 26)  # the local header repeats the lengths of its name and extra field
            lengths = np.frombuffer(raw.read(4), "<u2")
        offset = info.header_offset + 30 + int(lengths.sum()) + header
    return NpzArray(path, key, shape, dtype, offset)


def npz_small(path: Path, key: str) -> NDArray:
    """A small array of an .npz, whole."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive[key]
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise ValueError(f"{path}: {key} cannot be read: {error}") from None


@contextlib.contextmanager
def open_h5(path: Path, expected: str) -> Iterator[h5py.File]:
    """An HDF5 file, or a ValueError that says what the file is instead."""
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise bad(path, expected, error) from None
    with file:
        yield file


def h5_dataset(file: h5py.File, key: str, expected: str) -> Any:
    if key not in file or not isinstance(file[key], h5py.Dataset):
        keys: list[str] = []
        file.visititems(lambda name, item: keys.append(name) if isinstance(item, h5py.Dataset) else None)
        raise ValueError(f"{file.filename} holds the arrays {', '.join(keys) or '(none)'}, expected {expected}")
    return file[key]


def h5_blocks(path: Path, key: str) -> Iterator[NDArray]:
    """A dataset of an HDF5 file in pieces along its first axis that do not cut its chunks: each is unpacked once."""
    with open_h5(path, f"an HDF5 file with {key}") as file:
        dataset = file[key]
        row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
        chunk = dataset.chunks[0] if dataset.chunks else 1
        step = chunk * max(1, _BLOCK_BYTES // (row_bytes * chunk))
        for start in range(0, len(dataset), step):
            try:
                yield dataset[start : start + step]
            except OSError as error:
                raise ValueError(f"{path} is damaged: {error}; delete it and get it again") from None
