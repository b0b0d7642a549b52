"""Rows of factors in blocks, in each of which one factor at a time is set to each of its values.

For factor j and a value, the rows of all blocks that have it are draws of the other factors; the rows of one block
along j are draws of j with all others held. So few codes tell what holding a factor does, and what freeing one does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats


@dataclass(frozen=True, eq=False)
class Blocks:
    """Codes of interventions.

    Parameters
    ----------
    values : k arrays (V_j,)
        The values that factor j is set to.
    codes : (b, sum of V_j, d)
        Of b rows of factors drawn at random: factor 0 set to each of its values, then factor 1, and so on.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> base, values = rng.integers(3, size=(10, 2)), [np.arange(3), np.arange(3)]
    >>> blocks = Blocks.of(base, values, lambda rows: 2.0 * rows)
    >>> blocks.along(1).shape, blocks.along(1)[:, 2, 1].tolist() == [4.0] * 10
    ((10, 3, 2), True)
    """

    values: tuple[Floats, ...]
    codes: Floats

    @classmethod
    def of(
        cls,
        base: NDArray[np.generic],
        values: Sequence[NDArray[np.generic]],
        encode: Callable[[NDArray[np.generic]], NDArray[np.floating]],
        chunk: int = 2000,
    ) -> "Blocks":
        """Encode the blocks of rows `base` (b, k), at most `chunk` rows of factors at a time."""
        wide = np.repeat(base[:, None], sum(map(len, values)), axis=1)
        start = 0
        for j, column in enumerate(values):
            wide[:, start : start + len(column), j] = column
            start += len(column)
        rows = wide.reshape(-1, base.shape[1])
        parts = [np.asarray(encode(rows[i : i + chunk]), np.float64) for i in range(0, len(rows), chunk)]
        codes = np.concatenate(parts).reshape(len(base), start, -1)
        return cls(tuple(np.asarray(column, np.float64) for column in values), codes)

    def __len__(self) -> int:
        return len(self.codes)

    def along(self, j: int) -> Floats:
        """Return the codes (b, V_j, d) of the rows in which factor j is set to each of its values."""
        start = sum(len(column) for column in self.values[:j])
        return self.codes[:, start : start + len(self.values[j])]

    def of_blocks(self, chosen: NDArray[np.int64]) -> "Blocks":
        """Return the chosen blocks alone."""
        return replace(self, codes=self.codes[chosen])
