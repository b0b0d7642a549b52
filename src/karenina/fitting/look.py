"""A look at images before anything is trained: what there is, and what may be in the way."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.data import DataSet
from karenina.data.dataset import TableDataSet

_ROWS = 1024
_MOST_RENDERED = 20_000  # of a set that is rendered, and not the user's own
_MOST_ALIGNED = 400
FLAT = 2.0  # grey levels: a pixel whose standard deviation is below this is nearly constant


@dataclass(frozen=True)
class Look:
    """What images are like.

    Attributes
    ----------
    count : images looked at
    shape : (channels, height, width)
    low, high : the darkest and the brightest value, 0 to 255
    distinct : different images among them
    flat : share of the pixels that hardly change from image to image
    variance : of a pixel around its mean, mean over the pixels, for values in [0, 1]
    shift : spread (standard deviation) of the objects' places, as a share of the side
    moved : share of the variance around the mean image that goes away when every image is moved onto it
    """

    count: int
    shape: tuple[int, int, int]
    low: int
    high: int
    distinct: int
    flat: float
    variance: float
    shift: float
    moved: float

    @property
    def unaligned(self) -> bool:
        """Whether what is shown is at another place in every image: where it is explains more than what it is."""
        return self.shift > 0.08 and self.moved > 0.25

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape), "unaligned": self.unaligned}


def look_at(data: DataSet) -> Look:
    """Go through the images once, a thousand at a time. Factors are not looked at.

    >>> from karenina.data import load
    >>> found = look_at(load("blobs"))
    >>> found.count, found.distinct, found.unaligned
    (3072, 3072, True)
    """
    low, high, count = 255, 0, 0
    sums = np.zeros(data.image_shape)
    squares = np.zeros(data.image_shape)
    seen: set[bytes] = set()
    for images in _blocks(data):
        low, high = min(low, int(images.min())), max(high, int(images.max()))
        values = images.astype(np.float64)
        sums += values.sum(0)
        squares += (values**2).sum(0)
        count += len(images)
        seen.update(hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in images)
    variance = np.maximum(squares / count - (sums / count) ** 2, 0)
    shift, moved = alignment(data.sample(_MOST_ALIGNED, np.random.default_rng(0))[0])
    return Look(
        count,
        data.image_shape,
        low,
        high,
        len(seen),
        float((np.sqrt(variance) < FLAT).mean()),
        float(variance.mean() / 255**2),
        shift,
        moved,
    )


def _blocks(data: DataSet) -> Any:
    if isinstance(data, TableDataSet):
        for start in range(0, len(data), _ROWS):
            yield data.at(np.arange(start, min(start + _ROWS, len(data))))
        return
    rng = np.random.default_rng(0)
    count = min(len(data), _MOST_RENDERED)
    index = rng.permutation(len(data))[:count]
    for start in range(0, count, _ROWS):
        yield data.at(index[start : start + _ROWS])


def alignment(images: NDArray[np.uint8], rounds: int = 4) -> tuple[float, float]:
    """How far images are from lying on one another: the spread of the shifts that bring each onto the mean, as a share
    of the side, and the share of the variance around the mean image that these shifts remove.

    Shifts are those of the largest circular cross-correlation with the mean image, found again as the mean sharpens.

    Parameters
    ----------
    images : (n, c, h, w)

    >>> square = np.zeros((8, 1, 16, 16), np.uint8)
    >>> square[:, :, 6:10, 6:10] = 255
    >>> alignment(square)
    (0.0, 0.0)
    >>> apart = np.stack([np.roll(one, 2 * i, axis=2) for i, one in enumerate(square)])
    >>> shift, moved = alignment(apart)
    >>> shift > 0.1, moved > 0.99
    (True, True)
    """
    grey = images.mean(axis=1, dtype=np.float64) / 255
    n, h, w = grey.shape
    before = ((grey - grey.mean(0)) ** 2).sum()
    if before < 1e-9 * n:
        return 0.0, 0.0
    centred = grey - grey.mean(axis=(1, 2), keepdims=True)
    spectra = np.fft.rfft2(centred)
    template = centred[0]  # the mean of scattered images is a blur that any shift fits
    shifts = np.zeros((n, 2), int)
    placed = grey
    for _ in range(rounds):
        correlation = np.fft.irfft2(np.fft.rfft2(template)[None] * np.conj(spectra), s=(h, w))
        best = correlation.reshape(n, -1).argmax(1)
        shifts = np.stack([best // w, best % w], 1)
        placed = np.stack([np.roll(one, shift, (0, 1)) for one, shift in zip(grey, shifts)])
        template = placed.mean(0) - placed.mean()
    angles = 2 * np.pi * shifts / (h, w)  # the spread on a circle: a shift by a whole side is none
    resultant = np.abs(np.exp(1j * angles).mean(0)).clip(1e-12, 1)
    spread = np.sqrt(-2 * np.log(resultant)) / (2 * np.pi)
    after = ((placed - placed.mean(0)) ** 2).sum()
    return float(spread.max()), float(max(1 - after / before, 0.0))
