"""Tables of factors beside a folder of images: a CSV, or CelebA's attribute file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Factors:
    """names and table (n, k) of factors; details, the words behind numbers; kept, which of the images have a row."""

    names: tuple[str, ...]
    table: NDArray
    details: dict[str, tuple[str, ...]]
    kept: NDArray[np.int64]


def read_factors(path: Path, images: list[str], strict: bool) -> Factors:
    """The factors of these images, in their order.

    The first column names the image, with or without its suffix. Words become the numbers of their sorted values; a
    table of -1 and 1 only (CelebA) becomes 0 and 1.
    """
    frame = _read(path)
    names = [str(name) for name in frame.index]
    repeated = frame.index[frame.index.duplicated()]
    if len(repeated):
        raise ValueError(f"{path}: {_some(list(repeated))} more than once")
    known = set(names)
    if not known.intersection(images):
        stems = [image.rsplit(".", 1)[0] for image in images]
        images = stems if known.intersection(stems) else images
    without_row = [image for image in images if image not in known]
    without_image = sorted(known.difference(images))
    if strict and without_row:
        raise ValueError(f"{path} has no row for {_some(without_row)}; strict=False leaves these images out")
    if strict and without_image:
        raise ValueError(f"{path} has rows without an image: {_some(without_image)}; strict=False leaves them out")
    kept = np.array([i for i, image in enumerate(images) if image in known], np.int64)
    if not len(kept):
        raise ValueError(f"{path} names none of the images; it starts with {_some(names)}")
    frame = frame.loc[[images[i] for i in kept]]
    return _numbers(path, frame, kept)


def _read(path: Path) -> "pd.DataFrame":
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"there is no factors file {str(path)!r}")
    try:
        with path.open(encoding="utf-8-sig") as file:
            first, second = file.readline().strip(), file.readline().split()
        if first.isdigit():  # CelebA: the number of images, the attributes' names, then a file name and its values
            return pd.read_csv(path, sep=r"\s+", skiprows=2, header=None, names=["file", *second], index_col=0)
        return pd.read_csv(path, index_col=0, dtype={0: str}, skipinitialspace=True, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError) as error:  # pandas' parser errors are ValueErrors
        raise ValueError(f"{path} is no table of factors: {error}") from None


def _numbers(path: Path, frame: "pd.DataFrame", kept: NDArray[np.int64]) -> Factors:
    import pandas as pd

    if frame.shape[1] == 0:
        raise ValueError(f"{path} has the images' names but no factors beside them")
    empty = frame.isna().to_numpy()
    if empty.any():
        row, column = np.argwhere(empty)[0]
        raise ValueError(f"{path} has no {frame.columns[column]} for {frame.index[row]} (it is empty, NA, nan or None)")
    details, columns = {}, []
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            values, numbers = np.unique(column.astype(str).to_numpy(dtype=str), return_inverse=True)
            details[str(name)] = tuple(values.tolist())
            columns.append(numbers)
        else:
            columns.append(column.to_numpy())
    table = np.column_stack(columns)
    if table.dtype.kind == "u" and table.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"{path}: factors go up to {table.max()}, beyond 64-bit integers with a sign")
    table = table.astype(np.float64 if table.dtype.kind == "f" else np.int64)
    if not np.isfinite(table).all():
        row, column_number = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{path} has {frame.columns[column_number]} = {table[row, column_number]} for {frame.index[row]}"
        )
    if not details and np.isin(table, (-1, 1)).all() and (table == -1).any():
        table = (table > 0).astype(np.int64)
    return Factors(tuple(str(name) for name in frame.columns), table, details, kept)


def _some(names: list[str]) -> str:
    """The first few of many names."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(map(str, names[:3]))}{rest}"
