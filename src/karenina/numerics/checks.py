"""What callers give, as arrays of numbers: tensors, data frames and text are read, and all of it is checked.

Each refusal is a ValueError that names the argument and what is wrong with it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.arrays import Bools, Floats, Ints

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


def as_matrix(value: ArrayLike, argument: str, *, least: int = 0) -> Floats:
    """A finite (n, columns) float array of at least so many rows; a vector becomes one column."""
    try:
        array = as_array(value)
    except ValueError as error:  # a ragged list
        raise ValueError(f"{argument} cannot be read as an array: {error}") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        columns = "d" if argument.endswith("codes") else "k" if argument.endswith("factors") else "columns"
        raise ValueError(f"{argument} has shape {array.shape}, expected (n, {columns})")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{argument} must be numbers, got dtype {array.dtype}")
    if array.shape[1] == 0:
        raise ValueError(f"{argument} has shape {array.shape}: no columns")
    if len(array) < least:
        raise ValueError(f"{argument} has {len(array)} rows (shape {array.shape}), at least {least} are needed")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        _refuse(argument, array, np.ma.getmaskarray(value).reshape(array.shape), "; it is masked: leave such rows out")
    if array.dtype.kind in "iu" and not exact(array):
        _refuse(argument, array, (array > EXACT) | (array < -EXACT), "; beyond 2^53 integers merge: number them from 0")
    array = array.astype(np.float64, order="C")
    finite = np.isfinite(array)
    if not finite.all():
        _refuse(argument, array, ~finite)
    return array


def _refuse(argument: str, array: NDArray[Any], bad: Bools, why: str = "") -> NoReturn:
    row, column = np.argwhere(bad)[0]
    raise ValueError(f"{argument} of shape {array.shape} has {array[row, column]} at row {row}, column {column}{why}")


def pair(codes: ArrayLike, factors: ArrayLike, prefix: str = "") -> tuple[Floats, Floats]:
    """Codes (n, d) and factors (n, k) of equally many rows."""
    z = as_matrix(codes, f"{prefix}codes")
    v = as_matrix(as_factors(factors, f"{prefix}factors"), f"{prefix}factors")
    if len(z) != len(v):
        raise ValueError(
            f"{prefix}codes has {len(z)} rows (shape {z.shape}) and {prefix}factors {len(v)} (shape {v.shape})"
        )
    return z, v


def flags(value: bool | Sequence[bool] | None, default: Bools, argument: str) -> Bools:
    """One bool per column from one for all, one each, or None for the default (columns,)."""
    given = default if value is None else np.asarray(value)
    if given.dtype != bool or given.shape not in [(), default.shape]:
        raise ValueError(f"{argument} must be True, False or {len(default)} of them, got {value!r}")
    return np.broadcast_to(given, default.shape).copy()


def one_of(argument: str, value: object, known: Iterable[object]) -> None:
    """Refuse what is not one of the values known.

    >>> one_of("scale", "log", ["standard", "range"])
    Traceback (most recent call last):
    ValueError: scale must be one of standard, range, got 'log'
    """
    choices = list(known)
    if value not in choices:
        raise ValueError(f"{argument} must be one of {', '.join(map(str, choices))}, got {value!r}")


def positive_integer(value: int, argument: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or value % 1 or value < least:
        raise ValueError(f"{argument} must be an integer of at least {least}, got {value!r}")
    return int(value)


def ranks(column: NDArray[Any]) -> Ints:
    """The position of each value among the sorted distinct values: (n,) in 0..size-1.

    >>> ranks(np.array([2.0, 7.0, 2.0, 5.0]))
    array([0, 2, 0, 1])
    """
    low, high = column.min(), column.max()
    whole = column.astype(np.int64) if low > -EXACT and high < EXACT else None
    if whole is None or high - low > 4 * len(column) + 1024 or (whole != column).any():
        return np.unique(column, return_inverse=True)[1].astype(np.int64)
    whole -= int(low)  # small integers need no sorting
    seen = np.bincount(whole) > 0
    return whole if seen.all() else (np.cumsum(seen) - 1)[whole]


def varying(columns: Floats) -> Bools:
    """Which columns (n, d) are not constant: (d,)."""
    varies: Bools = columns[0] != columns[-1]
    for j in np.flatnonzero(~varies):  # the ends do not tell
        varies[j] = (columns[:, j] != columns[0, j]).any()
    return varies
