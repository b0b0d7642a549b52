"""Codes and factors from the user's files: .npz, .csv, .parquet, or two .npy."""

import os
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import load_npy, load_npz, npz_keys, readable
from karenina.numerics.checks import as_factors

Read = tuple[NDArray[Any], NDArray[Any], tuple[str, ...] | None]


def read_codes(paths: Sequence[str | os.PathLike[str]]) -> Read:
    """(codes (n, d), factors (n, k), factor names or None).

    One .npz holds `codes`, `factors` and perhaps `factor_names`. A .csv or .parquet has one row per example; columns
    whose names begin with "code" are codes, those that begin with "factor" are factors ("factor_shape" is named
    "shape"); text in a factor column, and integers beyond 2^53, become labels in sorted order. Other columns of numbers
    are an error, other columns of text are left out with a warning. Two .npy files are codes and factors, in this
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
        return load_npy(files[0]), load_npy(files[1]), None
    given = " ".join(path.name for path in files)
    raise ValueError(f"cannot read {given}: expected one .npz, .csv or .parquet, or two .npy (codes, then factors)")


def _read_npz(path: Path) -> Read:
    arrays = load_npz(path, "codes", "factors", "factor_names")
    missing = [name for name in ("codes", "factors") if name not in arrays]
    if missing:
        with zipfile.ZipFile(path) as archive:
            there = ", ".join(npz_keys(archive)) or "nothing"
        raise ValueError(f"{path} has no array {' and no '.join(missing)}; it holds {there}")
    names = arrays.get("factor_names")
    if names is None:
        return arrays["codes"], arrays["factors"], None
    if names.ndim > 1 or names.dtype.kind not in "USiu":
        raise ValueError(f"{path}: factor_names is {names.dtype} {names.shape}, expected one name per factor")
    if names.dtype.kind == "S":
        names = np.strings.decode(names, "utf-8", "replace")
    return arrays["codes"], arrays["factors"], tuple(map(str, np.atleast_1d(names)))


def _read_table(path: Path) -> Read:
    import pandas as pd

    with readable(path, f"a {path.suffix} table"):
        frame = pd.read_csv(path) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    frame.columns = [str(name).strip() for name in frame.columns]
    columns = list(frame.columns)
    codes = [name for name in columns if name.lower().startswith("code")]
    factors = [name for name in columns if name.lower().startswith("factor")]
    rest = [name for name in columns if name not in codes and name not in factors]
    rule = "columns of codes must begin with 'code' and columns of factors with 'factor'"
    if not codes or not factors:
        raise ValueError(f"{path} has the columns {', '.join(columns)}; {rule}")
    if len(set(columns)) < len(columns):
        raise ValueError(f"{path} has several columns of one name: {', '.join(columns)}")
    unclear = [name for name in rest if frame[name].dtype.kind in "biuf" and not name.startswith("Unnamed: ")]
    if unclear:
        raise ValueError(f"{path}: {', '.join(unclear)} could be codes or factors; {rule}: rename or remove the others")
    if rest:
        warnings.warn(f"{path}: left out {', '.join(rest)}; {rule}", stacklevel=3)
    not_numbers = [name for name in codes if frame[name].dtype.kind not in "biuf"]
    if not_numbers:
        raise ValueError(f"{path}: the code column {not_numbers[0]!r} is not numbers")
    for name in factors:
        if (missing := frame[name].isna()).any():
            row = int(np.flatnonzero(missing)[0])
            raise ValueError(f"{path}: factor column {name!r} has no value in row {row}")
    names = tuple(name[len("factor") :].lstrip("_:.- ") or name for name in factors)
    return frame[codes].to_numpy(float, na_value=np.nan), as_factors(frame[factors], str(path)), names
