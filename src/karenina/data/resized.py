"""SmallerImages images of any data set, "dsprites:side=16": each pixel is the mean of the block that it replaces."""

import hashlib
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._files import atomic, check_regular, held, sweep
from karenina.data.dataset import DataSet, FactorRows, TableDataSet
from karenina.data.files import cache_folder

# Small versions of no more bytes than this are made once and kept.
_MOST_BYTES = 1 << 29
_ROWS = 4096  # So many images are made at a time.
_FEW = 20_000  # After so many images of a grid it is worth making all of them.


def with_side(data: DataSet, side: Any) -> DataSet:
    """Return the data set with images of side x side pixels.

    Parameters
    ----------
    data : with square images, whose side is a multiple of the new one.
    side : pixels.

    >>> from karenina.data import load
    >>> with_side(load("dsprites"), 16).image_shape
    (1, 16, 16)
    """
    c, height, width = data.image_shape
    if isinstance(side, bool) or not isinstance(side, int) or side < 1 or height != width or height % side:
        divisors = [str(s) for s in range(4, height) if height % s == 0]
        raise ValueError(
            f"{data.name} has images of {height}x{width} pixels; "
            f"side can be {', '.join(divisors) or height}, got {side!r}"
        )
    if side == height:
        return data
    found, smaller = copy(data), SmallerImages(data, side)  # The copy keeps pairs and bias.
    found.image_shape = (c, side, side)
    found.whole = found if data.whole is data else with_side(data.whole, side)
    if isinstance(found, TableDataSet):
        found._fetch, found._render = smaller.at, found._lookup
    else:
        found._render = smaller
    return found


@dataclass
class SmallerImages:
    """Images (n, c, side, side) of factor rows, or of row numbers; from a cache where the whole set is small."""

    data: DataSet
    side: int
    _kept: NDArray[np.uint8] | None = field(default=None, repr=False)
    _made: int = 0

    def __call__(self, rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
        factors, index = self.data.factors, None
        if not self.data.stochastic and factors.numbered and self._small:
            index = factors.find(rows)
        return shrink(self.data._render(rows, rng), self.side) if index is None else self.at(index)

    def at(self, index: NDArray[np.int64]) -> NDArray[np.uint8]:
        if self._kept is None and self._small:
            self._kept = self._open()
        if self._kept is not None:
            return self._kept[index]
        self._made += len(index)
        return shrink(self.data.at(index), self.side)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    @property
    def _small(self) -> bool:
        return len(self.data) * self.data.image_shape[0] * self.side**2 <= _MOST_BYTES

    @cached_property
    def path(self) -> Path:
        """Return where the small images are kept: the name says what they are made of, so that other images have
        another file."""
        images, factors = self.data.sample(64, np.random.default_rng(0))
        mark = hashlib.sha256(images.tobytes() + factors.tobytes() + str(self.data.source).encode()).hexdigest()[:12]
        return cache_folder() / f"{Path(self.data.name).name}-{mark}.side{self.side}.npy"

    def _open(self) -> NDArray[np.uint8] | None:
        """Return all images: those that were kept before, or made and kept now if many have been asked for; else
        None."""
        shape = (len(self.data), self.data.image_shape[0], self.side, self.side)
        path = self.path
        if (found := _read(path, shape)) is not None:
            return found
        few = len(self.data) // 2 if isinstance(self.data.factors, FactorRows) else min(len(self.data), _FEW)
        if few > self._made:
            return None
        images = np.empty(shape, np.uint8)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            sweep(path.parent)
            with held(path.parent, wait=True):  # One of many workers makes them, and the others wait.
                if (found := _read(path, shape)) is not None:
                    return found
                self._fill(images)
                with atomic(path) as part, part.open("wb") as file:
                    np.save(file, images)
        except OSError:  # There is no room on the disk, so they stay in memory.
            self._fill(images)
        return images

    def _fill(self, images: NDArray[np.uint8]) -> None:
        for start in range(0, len(images), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(images)))
            images[rows] = shrink(self.data.at(rows), self.side)


def _read(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    try:
        check_regular(path)
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
    return np.asarray(found) if (found.shape, found.dtype) == (shape, np.uint8) else None


def shrink(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return images (n, c, h, h) as (n, c, side, side): the mean of each block, rounded.

    >>> shrink(np.array([[[[0, 255], [0, 0]]]], np.uint8), 1).ravel().tolist()
    [64]
    """
    block = images.shape[2] // side
    kind: Any = np.uint16 if block <= 16 else np.uint32  # The largest sum of 16 bits is 16 * 16 * 255 + 128.
    sums = images[:, :, ::block].astype(kind)
    for i in range(1, block):
        sums += images[:, :, i::block]
    small = sums[..., ::block] + kind(block**2 // 2)
    for i in range(1, block):
        small += sums[..., i::block]
    small //= kind(block**2)
    return small.astype(np.uint8)
