"""The factors of variation of a data set: a grid of values, or a box of continuous ones.

A factor row has one value per factor. `sample` draws rows uniformly with replacement, as in Locatello et al. (2019: no
epochs, no split); `fixed` holds some factors at given values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Fixed = Mapping[str, ArrayLike]


def _check_width(rows: NDArray, names: tuple[str, ...]) -> NDArray:
    if rows.ndim == 1 and len(names) and rows.shape == (len(names),):
        rows = rows[None]
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ValueError(
            f"factor rows have shape {rows.shape}, expected (n, {len(names)}) for {', '.join(names) or 'no factors'}"
        )
    return rows


def _first_bad(bad: NDArray, rows: NDArray, names: tuple[str, ...]) -> str:
    row, column = np.argwhere(bad)[0]
    return f"row {row} has {names[column]} = {rows[row, column]}"


def _fixed(factors: "FactorGrid | FactorBox", rows: NDArray, fixed: Fixed | None) -> NDArray:
    """The rows (n, k) with some factors set to the values at which they are held."""
    for name, value in (fixed or {}).items():
        if name not in factors.names:
            raise ValueError(f"no factor {name!r}; the factors are {', '.join(factors.names)}")
        rows[:, factors.names.index(name)] = value
    return factors.check(rows) if fixed else rows


@dataclass(frozen=True)
class FactorGrid:
    """Every combination of k discrete factors, numbered row-major: the last factor changes fastest.

    Parameters
    ----------
    names : k names, all different
    sizes : k integers, the number of values of each factor

    Examples
    --------
    >>> grid = FactorGrid(("shape", "x"), (3, 4))
    >>> len(grid), grid.rows([0, 5]).tolist(), grid.index([[1, 1]]).tolist()
    (12, [[0, 0], [1, 1]], [5])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    continuous = False

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names):
            raise ValueError(f"{len(self.names)} factor names {self.names} for {len(self.sizes)} sizes {self.sizes}")
        if any(size < 1 for size in self.sizes):
            raise ValueError(f"factor sizes must be at least 1, got {self.sizes}")

    @cached_property
    def _strides(self) -> NDArray[np.int64]:
        return np.cumprod((1, *self.sizes[:0:-1]), dtype=np.int64)[::-1]

    def __len__(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    def rows(self, index: ArrayLike) -> NDArray[np.int64]:
        """Flat indices (n,) to factor rows (n, k)."""
        flat = np.atleast_1d(np.asarray(index))
        if flat.ndim != 1 or flat.dtype.kind not in "iu":
            raise ValueError(f"indices must be integers of shape (n,), got {flat.dtype} {flat.shape}")
        if flat.size and (flat.min() < 0 or flat.max() >= len(self)):
            raise ValueError(f"index {flat[(flat < 0) | (flat >= len(self))][0]} is outside 0..{len(self) - 1}")
        return np.stack(np.unravel_index(flat, self.sizes), axis=1).astype(np.int64, copy=False)

    def index(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Factor rows (n, k) to flat indices (n,)."""
        return self.index_of_checked(self.check(rows))

    def index_of_checked(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """`index` of rows that are known to be integers within the grid: five times faster for a batch."""
        return rows @ self._strides

    def check(self, rows: ArrayLike) -> NDArray[np.int64]:
        """The rows as (n, k) int64, or a ValueError that names the first bad entry."""
        rows = _check_width(np.asarray(rows), self.names)
        if rows.dtype.kind not in "iu":
            if rows.dtype.kind != "f":
                raise ValueError(f"factor rows must be numbers, got {rows.dtype}")
            bad = ~np.isfinite(rows) | (rows != np.round(rows))
            if bad.any():
                raise ValueError(f"{_first_bad(bad, rows, self.names)}, expected an integer")
        bad = (rows < 0) | (rows >= np.array(self.sizes))
        if bad.any():
            column = int(np.argwhere(bad)[0, 1])
            raise ValueError(f"{_first_bad(bad, rows, self.names)}, expected 0..{self.sizes[column] - 1}")
        return rows.astype(np.int64, copy=False)

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.int64]:
        """n rows (n, k), uniform with replacement; `fixed` maps factor names to a value or to n values."""
        return _fixed(self, rng.integers(0, np.array(self.sizes), size=(n, len(self.sizes))), fixed)


@dataclass(frozen=True)
class FactorBox:
    """k continuous factors, each uniform on [low, high).

    Parameters
    ----------
    names : k names
    low, high : k numbers each

    Examples
    --------
    >>> box = FactorBox(("azimuth",), (0.0,), (6.28,))
    >>> box.sample(2, np.random.default_rng(0)).shape
    (2, 1)
    """

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    continuous = True

    @property
    def sizes(self) -> tuple[None, ...]:
        return (None,) * len(self.names)

    def check(self, rows: ArrayLike) -> NDArray[np.float64]:
        rows = _check_width(np.asarray(rows), self.names)
        if rows.dtype.kind not in "iuf":
            raise ValueError(f"factor rows must be numbers, got {rows.dtype}")
        rows = rows.astype(np.float64, copy=False)
        bad = ~((rows >= np.array(self.low)) & (rows <= np.array(self.high)))  # NaN is bad too
        if bad.any():
            column = int(np.argwhere(bad)[0, 1])
            raise ValueError(
                f"{_first_bad(bad, rows, self.names)}, expected {self.low[column]:g}..{self.high[column]:g}"
            )
        return rows

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.float64]:
        return _fixed(self, rng.uniform(self.low, self.high, size=(n, len(self.names))), fixed)
