"""The data set of a run, the images of it on which runs are compared, and interventions on its factors."""

import os
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina.data import DataSet, FactorGrid, join_name, load, load_again, split_name
from karenina.data.dataset import FactorBox, TableDataSet
from karenina.numerics.blocks import Blocks

if TYPE_CHECKING:
    from karenina.training import Run

Data = DataSet | str | os.PathLike[str] | NDArray[Any]
Sampler = Callable[[NDArray[Any]], NDArray[np.float32]] | Blocks

# Where interventions are drawn from: the generative model, or the encoded rows.
WAYS = ("model", "rows")
# A grid of at most this many images is encoded whole, and interventions are drawn from all of it.
WHOLE_GRID = 20_000
# Values that a continuous factor, or one with more values, is set to: enough for the 40 orientations of dSprites.
MOST_VALUES = 40
LEAST_BLOCKS = 32

load_cached = lru_cache(maxsize=2)(load)  # for workers, which score many models of few data sets


def data_of(run: "Run", data: Data | None = None, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """Return the data set that a run was trained on, with its options: the one way to find it.

    Parameters
    ----------
    run : Run
    data : DataSet, path or array (n, c, h, w), optional
        The data set, or where it is; needed for data of your own. Other images than those of the training are an error
        under another name, and a warning under the same.
    data_dir : path, optional
        The folder with official files.

    >>> import karenina
    >>> data_of(karenina.train("blobs", latents=2, steps=1)).name
    'blobs'
    """
    from karenina.training.methods import fingerprint
    from karenina.training.trainer import as_data

    named = data is None or isinstance(data, str | os.PathLike)
    found = load_again(run.config.data, data, data_dir=data_dir) if named else as_data(data)  # type: ignore[arg-type]
    # Labels may have come after the training.
    if run.config.images not in (fingerprint(found), fingerprint(found, labels=False)):
        expected, name = (split_name(text)[0] for text in (run.config.data, found.name))
        unnamed = name == "array" != expected  # images without a name or factors can only have the wrong shape
        if found.image_shape != run.config.image_shape or not (unnamed or expected in (name, "array")):
            shapes = ("x".join(map(str, shape)) for shape in (run.config.image_shape, found.image_shape))
            words = [f"{text} with images of {shape}" for text, shape in zip((run.config.data, found.name), shapes)]
            raise ValueError(f"the run was trained on {words[0]}, not on {words[1]}")
        if not unnamed:
            warnings.warn(
                f"{found.name} ({found.source}) does not give the images that the run was trained on", stacklevel=3
            )
    return found


def inputs(data: DataSet, rows: int = 10_000, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the images (rows, c, h, w) and factors (rows, k) on which all runs of a data set are compared.

    Factors are uniform, also where those of the training were not (karenina.data.sampling; Träuble et al. 2021). Of a
    data set that is divided (part=train) they are from its part to test on.
    """
    data = data.whole
    name, options = split_name(data.name)
    if options.get("part") == "train":
        data = load_cached(join_name(name, {**options, "part": "test"}))
    return data.sample(rows, np.random.default_rng([seed, 20_190_612]))


def check_way(way: str) -> None:
    """Raise ValueError if this is no way to draw interventions."""
    if way not in WAYS:
        raise ValueError(f"interventions is {way!r}, expected 'model' (from the generative model) or 'rows'")


def sampler_of(run: "Run", data: DataSet, way: str = "model", rows: int = 10_000, seed: int = 0) -> Sampler | None:
    """Return what interventions are drawn from; None for the encoded rows.

    Locatello et al. (2019), appendices C and D, and Duan et al. (2020), A.8, draw them from the generative model.
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
    """Return how many blocks there are: as many as twice the encoded rows have room for."""
    return max(LEAST_BLOCKS, 2 * rows // sum(map(len, values)))


def _values(data: DataSet, seed: int) -> list[NDArray[Any]] | None:
    """Return the values that each factor is set to; None where not every row of factors has an image."""
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
