"""Arrays from whatever holds them: tensors, data frames, text, and .npy and .npz files that anyone may have written.

Files are never unpickled, and no header is believed unchecked.
"""

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

# Beyond this, floats do not tell neighbouring integers apart.
EXACT = 2**53


def as_array(value: Any) -> NDArray[Any]:
    """The numpy array of an array-like or of a tensor: also one on a GPU, with gradients, or of bfloat16.

    >>> as_array([[1, 2]]).shape
    (1, 2)
    """
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array  # jax


def column_names(value: Any) -> tuple[str, ...] | None:
    """The names of the columns of a data frame, or of one named column; None for what has no names.

    >>> column_names(np.zeros((2, 2))) is None
    True
    """
    if hasattr(value, "columns"):
        return tuple(map(str, getattr(value, "column_names", value.columns)))  # the former: an Arrow table
    name = getattr(value, "name", None)
    return (name,) if isinstance(name, str) and hasattr(value, "to_numpy") else None


def as_factors(value: Any, argument: str = "factors") -> NDArray[Any]:
    """Factors (n, k) as numbers, ready to be checked.

    Parameters
    ----------
    value : array (n, k) or (n,), tensor, data frame (pandas, polars, Arrow) or a column of one
        Text and booleans become labels 0, 1, ... in sorted order, unless all text of a column reads as numbers;
        categories become their positions, so that ordered ones keep their order.
    argument : what it is called in messages

    >>> as_factors([["red", "0.5"], ["blue", "1.5"]]).tolist()
    [[1.0, 0.5], [0.0, 1.5]]
    """
    if hasattr(value, "to_pandas"):
        value = value.to_pandas()
    if hasattr(value, "iloc"):
        names = column_names(value) or (argument,)
        columns = [value.iloc[:, i] for i in range(value.shape[1])] if value.ndim == 2 else [value]
        return _stacked([_of_series(column, f"{argument}: {name!r}") for column, name in zip(columns, names)], value)
    array = as_array(value)
    if array.dtype.kind not in "USOT" or array.ndim not in (1, 2):
        return value if isinstance(value, np.ma.MaskedArray) else array  # a mask is seen when it is checked
    columns = [array] if array.ndim == 1 else list(array.T)
    return _stacked([_of_words(column, f"{argument}: column {j}") for j, column in enumerate(columns)], array)


def _stacked(columns: list[NDArray[Any]], value: Any) -> NDArray[Any]:
    return np.column_stack(columns) if columns else np.empty(np.shape(value))


def _of_series(column: Any, what: str) -> NDArray[Any]:
    missing = column.isna().to_numpy()
    kind = getattr(column.dtype, "kind", "O")
    if hasattr(column, "cat"):
        _refuse_missing(missing, what)
        return column.cat.codes.to_numpy().astype(np.int64)
    if kind in "biuf":
        if kind == "f":
            return column.to_numpy(np.float64, na_value=np.nan)  # said with its place when it is checked
        _refuse_missing(missing, what)
        numbers = column.to_numpy({"b": np.bool_, "i": np.int64, "u": np.uint64}[kind])
        return numbers if kind == "b" or exact(numbers) else _labels(numbers)
    _refuse_missing(missing, what)
    if kind in "mMc":
        raise ValueError(f"{what} is {column.dtype}, expected numbers or labels")
    return _of_words(column.to_numpy(object), what)


def _of_words(column: NDArray[Any], what: str) -> NDArray[Any]:
    """Labels of a column of text, or of mixed objects; its numbers where all of it is numbers."""
    for i, item in enumerate(column.tolist()):
        if item is None or item != item:
            raise ValueError(f"{what} has no value in row {i}")
        if not isinstance(item, str | bytes | bool | int | float | np.generic):
            raise ValueError(f"{what} has {type(item).__name__} in row {i}, expected numbers or labels")
    words = column.astype(str)
    try:
        numbers = words.astype(np.float64)
    except ValueError:
        return _labels(words)
    return numbers if np.isfinite(numbers).all() else _labels(words)


def _labels(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _refuse_missing(missing: NDArray[np.bool_], what: str) -> None:
    if missing.any():
        raise ValueError(f"{what} has no value in row {int(np.flatnonzero(missing)[0])}")


def exact(integers: NDArray[Any]) -> bool:
    """Whether floats hold all of these integers."""
    return not integers.size or bool(integers.min() >= -EXACT and integers.max() <= EXACT)


@contextmanager
def readable(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes a ValueError of one line: damaged files make their parsers raise anything.

    >>> with readable("codes.npz", "an .npz file"):
    ...     zipfile.ZipFile("codes.npz")
    Traceback (most recent call last):
    ValueError: codes.npz is not readable as an .npz file: [Errno 2] No such file or directory: 'codes.npz'
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):  # said already
            raise
        # str of a KeyError is the repr of its message.
        lines = str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip().splitlines()
        raise ValueError(f"{path} is not readable as {what}: {lines[0] if lines else type(error).__name__}") from None


@dataclass(frozen=True)
class Header:
    """What a .npy says of itself: shape and type of the array, its order, and where its bytes begin and end."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int

    @property
    def end(self) -> int:
        return self.start + self.dtype.itemsize * math.prod(self.shape)


def npy_header(file: IO[bytes], size: int) -> Header:
    """The header at the beginning of a .npy of `size` bytes, which must hold the array that it describes."""
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
    """The array of a .npy."""
    with readable(path, "a .npy array of numbers or text"), open(path, "rb") as file:
        npy_header(file, os.fstat(file.fileno()).st_size)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def load_npz(path: str | os.PathLike[str], *keys: str, limit: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz by name, or of those `keys` that are there. limit: bytes that one may have (the memory)."""
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
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _memory() -> int:
    """The machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not said by every system
        return 1 << 62
