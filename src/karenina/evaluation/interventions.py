"""Interventions on a run's data set: codes of rows of factors that were set, drawn from the generative model.

Locatello et al. (2019), appendices C and D, and Duan et al. (2020), A.8, draw them from it, whatever rows were encoded.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina.data import FactorGrid
from karenina.data.dataset import FactorBox, TableDataSet
from karenina.numerics.blocks import Blocks

if TYPE_CHECKING:
    from karenina.data import DataSet
    from karenina.training import Run

Sampler = Callable[[NDArray[Any]], NDArray[np.float32]] | Blocks

WAYS = ("model", "rows")
# A grid of at most this many images is encoded whole, and interventions are drawn from all of it.
WHOLE_GRID = 20_000
# Values that a continuous factor, or one with more values, is set to: enough for the 40 orientations of dSprites.
MOST_VALUES = 40
LEAST_BLOCKS = 32


def check_way(way: str) -> None:
    if way not in WAYS:
        raise ValueError(f"interventions is {way!r}, expected 'model' (from the generative model) or 'rows'")


def sampler_of(run: "Run", data: "DataSet", way: str = "model", rows: int = 10_000, seed: int = 0) -> Sampler | None:
    """What interventions are drawn from; None for the encoded rows.

    A small grid is encoded whole. Of any other data set whose factors can be set one by one, twice `rows` images are
    encoded in blocks, which all that intervenes shares. Rows of the user's own table, and data that leaves out a corner
    of its factors, have no images of other rows. way="rows" makes no blocks.
    """
    check_way(way)
    grid = data.factors
    if isinstance(grid, FactorGrid) and not data.stochastic and len(grid) <= WHOLE_GRID:
        codes = run.encode(data.at(np.arange(len(grid))))[0]
        return lambda wanted: codes[grid.index(wanted)]
    values = _values(data, seed) if way == "model" else None
    if values is None:
        return None
    rng = np.random.default_rng([seed, 2, 20_190_612])
    count = blocks_for(rows, values)
    return Blocks.of(grid.sample(count, rng), values, lambda wanted: run.encode(data.images(wanted, rng))[0])


def blocks_for(rows: int, values: Iterable[NDArray[Any]]) -> int:
    """How many blocks: as many as twice the encoded rows have room for."""
    return max(LEAST_BLOCKS, 2 * rows // sum(map(len, values)))


def _values(data: "DataSet", seed: int) -> list[NDArray[Any]] | None:
    """The values that each factor is set to; None where not every row of factors has an image."""
    factors = data.factors
    if isinstance(factors, FactorGrid):
        rng = np.random.default_rng([seed, 3, 20_190_612])
        return [
            np.arange(size) if size <= MOST_VALUES else np.sort(rng.choice(size, MOST_VALUES, replace=False))
            for size in factors.sizes
        ]
    if type(factors) is not FactorBox or isinstance(data, TableDataSet):
        return None
    middles = (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES
    return [low + (high - low) * middles for low, high in zip(factors.low, factors.high)]
