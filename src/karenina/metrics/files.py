"""Codes and factors from the user's files: .npz, .csv, .parquet, or two .npy."""

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_codes(
    paths: Sequence[str | os.PathLike[str]],
) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...] | None]:
    """(codes (n, d), factors (n, k), factor names or None).

    One .npz holds `codes`, `factors` and perhaps `factor_names`. A .csv or .parquet has one row per example; columns
    whose names begin with "code" are codes, those that begin with "factor" are factors ("factor_shape" is named
    "shape"); text in a factor column becomes labels in sorted order. Two .npy files are codes and factors, in this
    order. Nothing is unpickled.
    """
    files = [Path(path) for path in paths]
    for path in files:
        if not path.is_file():
            raise ValueError(f"no file {str(path)!r}")
    endings = [path.suffix.lower() for path in files]
    if endings == [".npz"]:
        return _read_npz(files[0])
    if endings in ([".csv"], [".parquet"]):
        return _read_table(files[0])
    if endings == [".npy", ".npy"]:
        return _load(files[0]), _load(files[1]), None
    given = " ".join(path.name for path in files)
    raise ValueError(f"cannot read {given}: expected one .npz, .csv or .parquet, or two .npy (codes, then factors)")


def _load(path: Path) -> Any:
    """An array, or a dictionary of arrays. Everything is read while the file is open, so that none is left open."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a readable {path.suffix} file of plain numbers: {error}") from None


def _read_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...] | None]:
    arrays = _load(path)
    if not isinstance(arrays, dict):
        raise ValueError(f"{path} is not an .npz archive but a single array")
    missing = [name for name in ("codes", "factors") if name not in arrays]
    if missing:
        raise ValueError(f"{path} has no array {' and no '.join(missing)}; it holds {', '.join(arrays) or 'nothing'}")
    names = arrays.get("factor_names")
    return arrays["codes"], arrays["factors"], None if names is None else tuple(map(str, np.atleast_1d(names)))


def _read_table(path: Path) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    import pandas as pd

    try:
        frame = pd.read_csv(path) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    except Exception as error:  # the parsers raise many kinds, all of which mean this
        raise ValueError(f"{path} is not a readable {path.suffix} table: {str(error).splitlines()[0]}") from None
    columns = [str(name) for name in frame.columns]
    codes = [name for name in columns if name.lower().startswith("code")]
    factors = [name for name in columns if name.lower().startswith("factor")]
    if not codes or not factors:
        raise ValueError(
            f"{path} has the columns {', '.join(columns)}; columns of codes must begin with 'code' and columns of "
            "factors with 'factor'"
        )
    values = [_numbers(frame[name], name, path) for name in factors]
    names = tuple(name[len("factor") :].lstrip("_:.- ") or name for name in factors)
    not_numbers = [name for name in codes if frame[name].dtype.kind not in "biuf"]
    if not_numbers:
        raise ValueError(f"{path}: the code column {not_numbers[0]!r} is not numbers")
    return frame[codes].to_numpy(float), np.column_stack(values), names


def _numbers(column: Any, name: str, path: Path) -> NDArray[Any]:
    if column.isna().any():
        raise ValueError(f"{path}: factor column {name!r} has no value in row {int(np.flatnonzero(column.isna())[0])}")
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    return np.unique(column.astype(str), return_inverse=True)[1]
