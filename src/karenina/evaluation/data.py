"""The data set of a run, and the images of it on which runs are compared."""

import os
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina.data import DataSet, load, load_again
from karenina.data.naming import join_name, split_name

if TYPE_CHECKING:
    from karenina.training import Run

Data = DataSet | str | os.PathLike[str] | NDArray[Any]

load_cached = lru_cache(maxsize=2)(load)  # for workers, which score many models of few data sets


def data_of(run: "Run", data: Data | None = None, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """The data set that a run was trained on, with its options: the one way to find it.

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
    from karenina.training.config import fingerprint
    from karenina.training.single import as_data

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
    """The images (rows, c, h, w) and factors (rows, k) on which runs of one data set are compared: the same for all.

    Factors are uniform, also where those of the training were not (karenina.data.biased; Träuble et al. 2021). Of a
    data set that is divided (part=train) they are from its part to test on.
    """
    data = data.whole
    name, options = split_name(data.name)
    if options.get("part") == "train":
        data = load_cached(join_name(name, {**options, "part": "test"}))
    return data.sample(rows, np.random.default_rng([seed, 20_190_612]))
