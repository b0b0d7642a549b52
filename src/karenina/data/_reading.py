"""Opening other people's files: where they are, what they really are, and the arrays inside .npz and .h5, unloaded."""

import contextlib
import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._plugins import extras
from karenina.data.download import SOURCES
from karenina.numerics.arrays import load_npz, npy_header, npz_keys, readable

with extras():
    import h5py
    from PIL import Image

IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_BLOCK_BYTES = 1 << 26
# What may be kept in memory.
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


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """An image file, opened by the decoders of common formats only: PostScript under the name of a .png would make
    Pillow start Ghostscript. Damaged files make decoders raise anything."""
    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            yield image
    except Exception as error:
        whole = "an image that is whole" if what_is(path).endswith("image") else "an image"
        raise bad(path, whole, error) from None


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
        """The array in pieces of about 64 MB along its first axis; more is never in memory."""
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
    """Where and what an array inside an .npz is, without reading its data."""
    keys = archive_keys(path, expected)
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


def archive_keys(path: Path, expected: str) -> list[str]:
    """The names of the arrays in an .npz."""
    try:
        with zipfile.ZipFile(path) as archive:
            return npz_keys(archive)
    except Exception as error:  # a damaged archive raises anything
        raise bad(path, expected, error) from None


def npz_small(path: Path, *keys: str) -> dict[str, NDArray]:
    """Those of these arrays of an .npz that are there, whole: labels and names, which memory must hold."""
    return load_npz(path, *keys, limit=MEMORY_LIMIT)


@contextlib.contextmanager
def open_h5(path: Path, expected: str) -> Iterator[h5py.File]:
    """An HDF5 file, or a ValueError that says what the file is instead."""
    try:
        file = h5py.File(path, "r")
    except Exception as error:  # a damaged file raises OSError, RuntimeError or KeyError
        raise bad(path, expected, error) from None
    with readable(path, expected), file:
        yield file


def h5_dataset(file: h5py.File, key: str, expected: str) -> Any:
    """A dataset that lies in this very file.

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
    """What a path leads to by hard and soft links alone; None where it leads nowhere."""
    at: Any = file
    parts = [part.encode() for part in key.split("/")]
    for _ in range(100):  # soft links may go in circles
        if not parts or not isinstance(at, h5py.Group):
            break
        part = parts.pop(0)
        if part in (b"", b"."):
            continue
        links = at.id.links  # at.get would open the other end to see whether it is there
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
    """A small dataset, whole, text as str; None where there is none."""
    if _follow(file, key) is None:
        return None
    return h5_whole(h5_dataset(file, key, expected))


def h5_whole(dataset: Any) -> NDArray:
    """All of a dataset of numbers or text."""
    text = h5py.check_string_dtype(dataset.dtype)
    if not text and dataset.dtype.kind not in "biuf":  # not even read: HDF5 can crash on damaged lists of lists
        raise ValueError(f"{dataset.name} is {dataset.dtype}, expected numbers or text")
    if dataset.dtype.itemsize * math.prod(dataset.shape) > MEMORY_LIMIT:
        raise ValueError(f"{dataset.name} is {dataset.dtype} {dataset.shape}, too large for memory")
    return np.asarray((dataset.asstr() if text else dataset)[()])


def h5_blocks(path: Path, key: str) -> Iterator[NDArray]:
    """A dataset of an HDF5 file in pieces along its first axis that do not cut its chunks: each is unpacked once."""
    expected = f"an HDF5 file with {key}"
    with open_h5(path, expected) as file:
        dataset = h5_dataset(file, key, expected)
        row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
        chunk = dataset.chunks[0] if dataset.chunks else 1
        step = chunk * max(1, _BLOCK_BYTES // (row_bytes * chunk))
        for start in range(0, len(dataset), step):
            yield dataset[start : start + step]
