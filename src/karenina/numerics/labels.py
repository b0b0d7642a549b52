"""Factors as people have them: data frames, strings, categories and booleans, as columns of numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import as_array
from karenina.numerics.checks import exact


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
