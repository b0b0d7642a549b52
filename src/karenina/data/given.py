"""Given rows of continuous factors, a fixed part of a data set: its images have numbers though there is no grid."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.data.dataset import FactorBox, Fixed, check_index


@dataclass(frozen=True, eq=False)
class FactorRows(FactorBox):
    """`sample` draws of these rows, uniformly with replacement.

    Parameters
    ----------
    names, low, high : as of a `FactorBox`
    part : which part of the data set they are
    rows : (m, k), no two of which agree in a factor
    """

    part: str
    rows: NDArray[np.float64]

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.rows[:, 0])

    def at(self, index: ArrayLike) -> NDArray[np.float64]:
        """The rows (n, k) of these numbers (n,)."""
        return self.rows[check_index(index, len(self.rows))]

    def draw_index(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers (n,) of random rows."""
        return rng.integers(0, len(self.rows), n)

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.float64]:
        if fixed:
            raise ValueError(f"part={self.part} has {len(self.rows):,} images, none with given factors: leave out part")
        return self.rows[self.draw_index(n, rng)]

    def weights(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        raise ValueError(
            f"part={self.part} has {len(self.rows):,} images, no two of which agree in a factor, "
            "so there are no pairs of them: leave out part"
        )

    def find(self, rows: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """The numbers (n,) of these rows (n, k), or None if one of them is not here."""
        place = np.searchsorted(self.rows[:, 0], rows[:, 0], sorter=self._order)
        index = self._order[np.minimum(place, len(self._order) - 1)]
        return index if np.array_equal(self.rows[index], rows) else None
