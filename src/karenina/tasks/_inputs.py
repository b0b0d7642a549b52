"""What every task does first: check its arrays, tell labels from numbers, and set rows aside for the test."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.checks import as_matrix

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows, some to train on and some to test on.

    codes, factors: (n, d), (n, k) float64. train, test: row numbers. continuous, varies: (k,) bool; a factor that does
    not vary has no task.
    """

    codes: Array
    factors: Array
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    continuous: NDArray[np.bool_]
    varies: NDArray[np.bool_]

    def target(self, j: int) -> NDArray[Any]:
        """Factor j of all rows: labels 0..size-1, or floats where it is continuous."""
        column = self.factors[:, j]
        return column if self.continuous[j] else np.unique(column, return_inverse=True)[1].astype(np.int64)


def pair(codes: ArrayLike, factors: ArrayLike, prefix: str = "") -> tuple[Array, Array]:
    """Codes (n, d) and factors (n, k) of equally many rows."""
    z, v = as_matrix(codes, f"{prefix}codes"), as_matrix(factors, f"{prefix}factors")
    if len(z) != len(v):
        raise ValueError(
            f"{prefix}codes has {len(z)} rows (shape {z.shape}) and {prefix}factors {len(v)} (shape {v.shape})"
        )
    return z, v


def flags(value: bool | Sequence[bool] | None, default: NDArray[np.bool_], argument: str) -> NDArray[np.bool_]:
    """One bool per factor from one for all, one each, or None for the default."""
    given = default if value is None else np.asarray(value)
    if given.dtype != bool or given.shape not in [(), default.shape]:
        raise ValueError(f"{argument} must be True, False or {len(default)} of them, got {value!r}")
    return np.broadcast_to(given, default.shape).copy()


def whole(value: int, argument: str) -> int:
    if isinstance(value, bool) or value != int(value) or value < 1:
        raise ValueError(f"{argument} must be a whole number from 1 on, got {value!r}")
    return int(value)


def rows(
    codes: ArrayLike,
    factors: ArrayLike,
    test: int,
    rng: np.random.Generator,
    continuous: bool | Sequence[bool] | None = None,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
) -> Rows:
    """Check everything and divide the rows.

    With test rows of their own, both tables are read in the order given, the test one up to `test` rows. Otherwise
    `test` random rows are set aside, but never more than a third, and the rest is shuffled.
    """
    z, v = pair(codes, factors)
    test = whole(test, "test")
    if (test_codes is None) != (test_factors is None):
        raise ValueError("test_codes and test_factors go together: one of them is missing")
    if test_codes is None or test_factors is None:
        if len(z) < 3:
            raise ValueError(f"codes and factors have {len(z)} rows, at least 3 are needed to train and test")
        order = rng.permutation(len(z))
        held = min(test, len(z) // 3)
        train, tested = order[held:], order[:held]
    else:
        more_z, more_v = pair(test_codes, test_factors, "test_")
        if (more_z.shape[1], more_v.shape[1]) != (z.shape[1], v.shape[1]):
            raise ValueError(
                f"test_codes {more_z.shape} and test_factors {more_v.shape} do not have the columns of "
                f"codes {z.shape} and factors {v.shape}"
            )
        if not len(z) or not len(more_z):
            raise ValueError(f"there are {len(z)} rows to train on and {len(more_z)} to test on, at least 1 is needed")
        train = np.arange(len(z))
        tested = len(z) + np.arange(min(test, len(more_z)))
        z, v = np.concatenate([z, more_z]), np.concatenate([v, more_v])
    varies = (v != v[0]).any(axis=0)
    if not varies.any():
        raise ValueError(f"every factor is constant (factors has shape {v.shape}), so there is nothing to predict")
    if not varies.all():
        gone = ", ".join(str(j) for j in np.flatnonzero(~varies))
        warnings.warn(f"no task for constant factors: column {gone}", stacklevel=3)
    declared = flags(continuous, (v != np.round(v)).any(axis=0), "continuous")
    return Rows(z, v, train, tested, declared, varies)
