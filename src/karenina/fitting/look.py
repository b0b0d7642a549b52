"""The images of a fit: opened at a size that can be trained on, and looked at for what may be in the way."""

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.data import DataSet, TableDataSet, load, names, split_name
from karenina.data.user_images import Images, Size, Survey, array_set, survey
from karenina.evaluation.scoring import inputs
from karenina.training.methods import fingerprint

# The longer side to which images are brought. Fully connected networks, which train many at a time on a CPU, see small
# images; convolutions are for devices on which they are cheap.
CPU_SIDES = (32, 24, 16)
GPU_SIDE = 64
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
        """Return whether objects lie at another place in every image, so that their place explains most of the
        variation."""
        return self.shift > 0.08 and self.moved > 0.25

    def to_json(self) -> dict[str, Any]:
        """Return what was seen as values for JSON."""
        return {**asdict(self), "shape": list(self.shape), "unaligned": self.unaligned}


def describe(look: Look) -> str:
    """Say in a sentence what was seen."""
    channels, height, width = look.shape
    kind = {1: "grey", 3: "colour"}.get(channels, f"{channels}-channel")
    flat = f"{100 * look.flat:.0f} % of the pixels hardly change"
    return (
        f"{look.count:,} {kind} images of {height}x{width}, values {look.low} to {look.high}, "
        f"{look.distinct:,} different; {flat}."
    )


def look_at(data: DataSet) -> Look:
    """Look at the images once, a thousand at a time, and at no factors.

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
    """Yield all images, or many of a set that is rendered, some at a time."""
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
    """Return how far images are from lying on one another.

    It is the spread of the shifts that bring each onto the mean, as a share of the side, and the share of the variance
    around the mean image that these shifts remove.

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


@dataclass(frozen=True)
class FitImages:
    """Images of a fit. options: of `karenina.load` (size, ...). said: what was done to them, in sentences."""

    data: DataSet
    network: str
    options: dict[str, Any]
    said: tuple[str, ...]

    def fingerprint(self) -> str:
        """Return a hash of some of the images."""
        return fingerprint(self.data)

    def sample(self) -> NDArray[np.uint8]:
        """Return the images on which models are compared: those of a report, so that both say the same."""
        return inputs(self.data, 10_000)[0]


def open_images(
    images: Images, *, longest: int, device: str, size: Size | None = None, network: str = "auto"
) -> FitImages:
    """Open images at a size and with a network that suit them.

    longest: the longer side that they are brought to, unless `size` is given or they are smaller.
    """
    found = survey(images)
    said: list[str] = []
    target = _size(found, longest, size, device, said) if _resizable(images) else None
    options: dict[str, Any] = {} if target is None else {"size": target}
    data = _open(images, options)
    if network == "auto":
        square = data.image_shape[1:] in ((64, 64), (32, 32))
        pixels = int(np.prod(data.image_shape))
        network = "auto" if device != "cpu" and square else "mlp" if pixels <= 300 else "mlp256"
    if found.alpha:
        said.append(f"{_count(found.alpha, 'file')} with transparency: it is dropped.")
    if found.sixteen_bits:
        said.append(f"{_count(found.sixteen_bits, 'file')} with 16 bits: read as 8.")
    if found.animated:
        said.append(f"{_count(found.animated, 'file')} with several frames: the first is taken.")
    return FitImages(data, network, options, tuple(said))


def _open(images: Images, options: dict[str, Any]) -> DataSet:
    """Open images with options of `karenina.load`."""
    if isinstance(images, DataSet):
        return images
    if isinstance(images, str | os.PathLike):
        return load(images, **options)
    return array_set(images, **options)


def _size(found: Survey, longest: int, size: Size | None, device: str, said: list[str]) -> Any:
    """Return the (height, width) to which images are resized, or None for as they are."""
    if size is not None:
        return size
    (height, width), _ = found.sizes.most_common(1)[0]
    if len(found.sizes) > 1:
        heights, widths = (np.repeat([s[i] for s in found.sizes], list(found.sizes.values())) for i in (0, 1))
        height, width = int(np.median(heights)), int(np.median(widths))
        shapes = f"{len(found.sizes)} sizes, from {_by(min(found.sizes))} to {_by(max(found.sizes))}"
        said.append(f"Images of {shapes}: all are resized, which distorts those of another shape.")
    if device != "cpu" and max(height, width) >= 32:
        target = (GPU_SIDE, GPU_SIDE) if max(height, width) >= GPU_SIDE else (32, 32)
    elif max(height, width) > longest:
        scale = longest / max(height, width)
        target = (max(round(height * scale), 1), max(round(width * scale), 1))
    else:
        target = (height, width)
    if len(found.sizes) == 1 and target == (height, width):
        return None
    if target != (height, width):
        said.append(f"Brought to {_by(target)} pixels from {_by((height, width))}; --size changes that.")
    return f"{target[0]}x{target[1]}"


def _resizable(images: Images) -> bool:
    """Return whether the size is ours to choose: not of a data set known by name, nor where the path has one."""
    if isinstance(images, DataSet):
        return False
    if not isinstance(images, str | os.PathLike):
        return True
    text = str(images)
    name, options = (text, {}) if text in names() or Path(text).exists() else split_name(text)
    return name not in names() and "size" not in options


def _by(size: tuple[int, int]) -> str:
    """Return a size as words."""
    return f"{size[0]}x{size[1]}"


def _count(number: int, word: str) -> str:
    """Return a number with a noun."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
