"""What callers give, checked; each refusal is a ValueError that names the argument and what is wrong with it."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.arrays import EXACT, Bools, Floats, as_array, as_factors, exact


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
