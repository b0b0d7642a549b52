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
    """Return the numpy array of an array-like or of a tensor: also one on a GPU, with gradients, or of bfloat16.

    >>> as_array([[1, 2]]).shape
    (1, 2)
    """
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array  # jax


def column_names(value: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame, or of one named column; None for what has no names.

    >>> column_names(np.zeros((2, 2))) is None
    True
    """
    if hasattr(value, "columns"):
        return tuple(map(str, getattr(value, "column_names", value.columns)))  # the former: an Arrow table
    name = getattr(value, "name", None)
    return (name,) if isinstance(name, str) and hasattr(value, "to_numpy") else None


def as_factors(value: Any, argument: str = "factors") -> NDArray[Any]:
    """Return factors (n, k) as numbers, ready to be checked.

    Parameters
    ----------
    value : array (n, k) or (n,), tensor, data frame (pandas, polars, Arrow) or a column of one
        Text and booleans become labels 0, 1, ... in sorted order, unless all text of a column reads as numbers;
        categories become their positions, so that ordered ones keep their order.
    argument : what it is called in messages

    >>> as_factors([["red", "0.5"], ["blue", "1.5"]]).tolist()
    [[1.0, 0.5], [0.0, 1.5]]
    """
    columns = _columns(value, argument)
    if columns is None:
        return value if isinstance(value, np.ma.MaskedArray) else as_array(value)  # a mask is seen when it is checked
    coded = [_coded(_values(column, what), what) for column, what in columns]
    return np.column_stack(coded) if coded else np.empty(np.shape(value))


def as_factors_alike(value: Any, other: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return factors (n, k) and test factors of other rows (m, k) as numbers: equal values have equal numbers in both.

    Categories are their positions among those of the first, followed by those that only the other has.

    >>> one, two = as_factors_alike(["red", "blue"], ["red", "green"])
    >>> one.ravel().tolist(), two.ravel().tolist()
    ([2, 0], [2, 1])
    """
    first, second = _columns(value, "factors"), _columns(other, "test_factors")
    if first is None and second is None:
        return as_factors(value), as_factors(other, "test_factors")
    first = _of_numbers(value, "factors") if first is None else first
    second = _of_numbers(other, "test_factors") if second is None else second
    if not first or len(first) != len(second):
        return as_factors(value), as_factors(other, "test_factors")  # refused for their shapes
    parts = [
        _alike(column, other_column, what, other_what)
        for (column, what), (other_column, other_what) in zip(first, second)
    ]
    return np.column_stack([part for part, _ in parts]), np.column_stack([part for _, part in parts])


Columns = list[tuple[Any, str]]


def _columns(value: Any, argument: str) -> Columns | None:
    """Return the columns of a data frame, or of a table of text, with what they are called; None for an array of
    numbers.
    """
    if hasattr(value, "to_pandas"):
        value = value.to_pandas()
    if hasattr(value, "iloc"):
        names = column_names(value) or (argument,)
        columns = [value.iloc[:, i] for i in range(value.shape[1])] if value.ndim == 2 else [value]
        return [(column, f"{argument}: {name!r}") for column, name in zip(columns, names)]
    array = as_array(value)
    if array.dtype.kind not in "USOT" or array.ndim not in (1, 2):
        return None
    columns = [array] if array.ndim == 1 else list(array.T)
    return [(column, f"{argument}: column {j}") for j, column in enumerate(columns)]


def _of_numbers(value: Any, argument: str) -> Columns:
    return [(column, f"{argument}: column {j}") for j, column in enumerate(as_matrix(value, argument).T)]


def _alike(column: Any, other: Any, what: str, other_what: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a column and the same column of other rows as numbers."""
    if hasattr(column, "cat"):
        return _values(column, what), _by_categories(column.cat.categories, other, what, other_what)
    values, others = _values(column, what), _plain(other, other_what)
    coded = _coded(values, what), _coded(others, other_what)
    text = [part.dtype.kind in "USOT" for part in (values, others)]
    if text[0] != text[1]:
        if coded[text.index(True)].dtype.kind != "f":
            words, numbers = (what, other_what) if text[0] else (other_what, what)
            raise ValueError(f"{words} is text and {numbers} numbers, so that their values have nothing in common")
        return coded
    both = _coded(np.concatenate([values, others]), what)
    return both[: len(values)], both[len(values) :]


def _by_categories(known: Any, other: Any, what: str, other_what: str) -> NDArray[Any]:
    """Return the positions of a column's values among known categories; values that are none of them follow."""
    values = _plain(other, other_what)
    place = known.get_indexer(values).astype(np.int64)
    unknown = place < 0
    if unknown.all() and not hasattr(other, "cat"):
        raise ValueError(f"{other_what} has none of the categories of {what}: {', '.join(map(str, known[:5]))}")
    place[unknown] = len(known) + _labels(values[unknown].astype(str))
    return place


def _plain(column: Any, what: str) -> NDArray[Any]:
    """Return the values of a column, and of categories the values themselves and not their positions."""
    if not hasattr(column, "cat"):
        return _values(column, what)
    _refuse_missing(column.isna().to_numpy(), what)
    return np.asarray(column)


def _values(column: Any, what: str) -> NDArray[Any]:
    """Return a column as an array of numbers, of the positions of its categories, or of its text and other objects."""
    if isinstance(column, np.ndarray):
        return column
    missing = column.isna().to_numpy()
    kind = getattr(column.dtype, "kind", "O")
    if hasattr(column, "cat"):
        _refuse_missing(missing, what)
        return column.cat.codes.to_numpy().astype(np.int64)
    if kind == "f":
        return column.to_numpy(np.float64, na_value=np.nan)  # its place is named when it is checked
    _refuse_missing(missing, what)
    if kind in "biu":
        return column.to_numpy({"b": np.bool_, "i": np.int64, "u": np.uint64}[kind])
    if kind in "mMc":
        raise ValueError(f"{what} is {column.dtype}, expected numbers or labels")
    return column.to_numpy(object)


def _coded(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Return numbers as they are, unless they are integers that floats would merge; labels of all else."""
    if values.dtype.kind in "USOT":
        return _of_words(values, what)
    return values if values.dtype.kind in "bf" or exact(values) else _labels(values)


def _of_words(column: NDArray[Any], what: str) -> NDArray[Any]:
    """Return labels of a column of text, or of mixed objects; its numbers where all of it is numbers."""
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
    merged = (np.abs(numbers) >= EXACT).any() and len(np.unique(numbers)) < len(np.unique(words))
    return _labels(words) if merged or not np.isfinite(numbers).all() else numbers


def _labels(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _refuse_missing(missing: NDArray[np.bool_], what: str) -> None:
    if missing.any():
        raise ValueError(f"{what} has no value in row {int(np.flatnonzero(missing)[0])}")


def exact(integers: NDArray[Any]) -> bool:
    """Return whether floats hold all of these integers."""
    return not integers.size or bool(integers.min() >= -EXACT and integers.max() <= EXACT)


def as_matrix(value: ArrayLike, argument: str, *, least: int = 0) -> Floats:
    """Return a finite (n, columns) float array of at least `least` rows; a vector becomes one column."""
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
    """Return codes (n, d) and factors (n, k), which must have equally many rows."""
    z = as_matrix(codes, f"{prefix}codes")
    v = as_matrix(as_factors(factors, f"{prefix}factors"), f"{prefix}factors")
    if len(z) != len(v):
        raise ValueError(
            f"{prefix}codes has {len(z)} rows (shape {z.shape}) and {prefix}factors {len(v)} (shape {v.shape})"
        )
    return z, v


def flags(value: bool | Sequence[bool] | None, default: Bools, argument: str) -> Bools:
    """Return a bool for each column: `value` is one for all, one for each, or None for the default (columns,)."""
    asked = default if value is None else np.asarray(value)
    if asked.dtype != bool or asked.shape not in [(), default.shape]:
        raise ValueError(f"{argument} must be True, False or {len(default)} of them, got {value!r}")
    return np.broadcast_to(asked, default.shape).copy()


def are_continuous(continuous: bool | Sequence[bool] | None, factors: Floats) -> Bools:
    """Return which factors (n, k) are continuous: those that are declared so, or for None those that are not integers.

    Numbers beyond 2^53 are no integers that anyone meant: there floats have no fractions.
    """
    default = ((factors != np.round(factors)) | (np.abs(factors) > EXACT)).any(axis=0)
    return flags(continuous, default, "continuous")


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
    """Return `value` as an int; refuse what is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or value % 1 or value < least:
        raise ValueError(f"{argument} must be an integer of at least {least}, got {value!r}")
    return int(value)


def ranks(column: NDArray[Any]) -> Ints:
    """Return the position of each value among the sorted distinct values: (n,) in 0..size-1.

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
    """Return which columns (n, d) are not constant: (d,)."""
    varies: Bools = columns[0] != columns[-1]
    for j in np.flatnonzero(~varies):  # where the ends are equal, the rest decides
        varies[j] = (columns[:, j] != columns[0, j]).any()
    return varies
