"""dsprites: the 737,280 pictures of a white square, ellipse or heart on black, drawn instead of read from the file.

The original (Matthey et al. 2017, https://github.com/deepmind/dsprites-dataset) was drawn as polygons by a graphics
card. The geometry below was fitted to genuine frames and reproduces all 129 of them pixel by pixel:

- every sprite is a polygon of "radius" 9.6 pixels (0.15 of the canvas) times the scale 0.5, 0.6, ... 1;
- square: 4 corners; ellipse: 100 corners on the half axes 1.33 and 1 / 1.33; heart: 150 corners on
  (sin^3 t, (13 cos t - 5 cos 2t - 2 cos 3t - cos 4t) / 14.5 + 0.15), height counted upwards;
- orientation k turns it by 2 pi k / 39 counter-clockwise on the screen, so 0 and 39 are the same picture;
- its origin is at 16 + 32 i / 31 pixels from the left and from the top, so x runs right and y runs down;
- corners are rounded to 1/256 of a pixel, and a pixel is white when its centre lies in the polygon.

color_dsprites, noisy_dsprites and scream_dsprites (Locatello et al. 2019, https://arxiv.org/abs/1811.12359) let chance
paint on the binary pictures. A sprite pixel is 255 and any other 0, so their rules are one bitwise operation each:
sprite & colour, noise | sprite, and background ^ sprite, since x ^ 255 = 255 - x.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from karenina.data.dataset import DataSet, FactorGrid, Render
from karenina.data.files import open_image

GRID = FactorGrid(("shape", "scale", "orientation", "x", "y"), (3, 6, 40, 32, 32))

PAINTING_FILES = ("scream.jpg", "scream.jpeg", "scream.png")
PAINTING_SIZE = (350, 274)  # Width and height: a larger painting is shrunk to fit.

_RADIUS = 9.6
_ASPECT = 1.33
_CORNERS = 150
_SUBPIXEL = 256
_BLOCK = 1024  # Images drawn at once, which bounds the memory for the whole grid.


def _polygons() -> NDArray[np.float64]:
    """Return the three closed outlines (3, 151, 2) at radius 1, y down; the first corner fills up the shorter ones."""
    t = 2 * np.pi * np.arange(100) / 100
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    ellipse = np.stack([_ASPECT * np.cos(t), np.sin(t) / _ASPECT], axis=1)
    t = 2 * np.pi * np.arange(_CORNERS) / _CORNERS
    up = (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 14.5 + 0.15
    heart = np.stack([np.sin(t) ** 3, -up], axis=1)
    closed = [np.append(p, np.repeat(p[:1], _CORNERS + 1 - len(p), axis=0), axis=0) for p in (square, ellipse, heart)]
    return np.stack(closed)


@cache
def _outlines() -> NDArray[np.float64]:
    """Return the outlines of every shape, scale and orientation around the origin, in subpixels: (3 * 6 * 40, 2,
    151)."""
    shapes, scales, orientations = GRID.sizes[:3]
    turn = 2 * np.pi * (np.arange(orientations) % 39) / 39  # The picture is exactly the same at 0 and 39.
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.stack([cos, sin, -sin, cos], axis=1).reshape(-1, 2, 2)
    size = _SUBPIXEL * _RADIUS * (0.5 + 0.1 * np.arange(scales))
    outlines = np.einsum("k,oij,scj->skoic", size, rotation, _polygons())
    return outlines.reshape(shapes * scales * orientations, 2, _CORNERS + 1)


def _draw(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Scan conversion of n polygons at once, in integer arithmetic: factor rows (n, 5) -> images (n, 1, 64, 64).

    An image row is a 64-bit word. Every edge that crosses the line through the pixel centres of the row flips all
    pixels right of the crossing, which leaves the inside set.
    """
    n = len(rows)
    shape, scale, orientation = rows[:, :3].T
    outline = _outlines()[(shape * GRID.sizes[1] + scale) * GRID.sizes[2] + orientation]
    origin = _SUBPIXEL * (16 + 32 / 31 * rows[:, 3:, None])
    corners = np.rint(outline + origin).astype(np.int64)
    x, y = corners[:, 0].ravel(), corners[:, 1].ravel()

    half = _SUBPIXEL // 2
    top = (y + half - 1) // _SUBPIXEL  # the first row whose centre line is at or below the corner
    crossings = np.abs(np.diff(top))
    crossings[_CORNERS :: _CORNERS + 1] = 0  # the last corner of a picture is not joined to the first of the next
    edges = np.flatnonzero(crossings)
    crossings = crossings[edges]
    edge = np.repeat(edges, crossings)
    nth = np.arange(len(edge)) - np.repeat(np.cumsum(crossings) - crossings, crossings)
    row = np.minimum(top[edge], top[edge + 1]) + nth
    dx, dy = x[edge + 1] - x[edge], y[edge + 1] - y[edge]
    # Where the edge meets the centre line of the row, times dy; the pixel centres there or to the right are flipped.
    meets = (x[edge] - half) * dy + (row * _SUBPIXEL + half - y[edge]) * dx
    column = -(-meets // (dy * _SUBPIXEL))

    words = np.zeros(n * 64, np.uint64)
    flips = np.uint64(2**64 - 1) << column.astype(np.uint64)
    np.bitwise_xor.at(words, edge // (_CORNERS + 1) * 64 + row, flips)
    bits = np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return np.multiply(bits, 255, out=bits).reshape(n, 1, 64, 64)


def _render(rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
    if len(rows) <= _BLOCK:
        return _draw(rows)
    images = np.empty((len(rows), 1, 64, 64), np.uint8)
    for start in range(0, len(rows), _BLOCK):
        images[start : start + _BLOCK] = _draw(rows[start : start + _BLOCK])
    return images


def dsprites() -> DataSet:
    """Return dSprites on its official grid, images 1x64x64 of 0 and 255, drawn on demand (0.3 ms for 64 pictures, 2 MB
    of tables).

    >>> dsprites().images([[2, 5, 0, 16, 16]]).shape
    (1, 1, 64, 64)
    """
    _outlines()
    return DataSet("dsprites", GRID, (1, 64, 64), _render)


def _variant(name: str, base: DataSet, render: Render) -> DataSet:
    channels, height, width = base.image_shape
    first = base.at([0])
    if channels != 1 or not np.isin(first, (0, 255)).all():
        raise ValueError(
            f"{name} needs black and white pictures (one channel, 0 or 255), got {base.name} with "
            f"{channels} channel(s) and values {first.min()}..{first.max()}"
        )
    return DataSet(name, base.factors, (3, height, width), render, source=base.source, stochastic=True)


def color_dsprites(base: DataSet) -> DataSet:
    """Return dSprites with the sprite in a random colour: every image draws red, green and blue uniformly from [0.5,
    1]."""

    def render(rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
        sprite = base.images(rows, rng)
        colour = np.rint(255 * rng.uniform(0.5, 1, (len(rows), 3, 1, 1))).astype(np.uint8)
        return sprite & colour

    return _variant("color_dsprites", base, render)


def noisy_dsprites(base: DataSet) -> DataSet:
    """Return dSprites with the white sprite on uniform noise, independent for every pixel and channel: min(sprite +
    noise, 1)."""

    def render(rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
        sprite = base.images(rows, rng)
        n, _, height, width = sprite.shape
        noise = rng.integers(0, 256, (n, 3, height, width), dtype=np.uint8)
        return np.bitwise_or(noise, sprite, out=noise)

    return _variant("noisy_dsprites", base, render)


def scream_dsprites(base: DataSet, painting: NDArray[np.uint8]) -> DataSet:
    """Return dSprites with the sprite as the negative of its background: (random patch of the painting + random colour)
    / 2.

    `painting` is (height, width, 3) uint8, see `load_painting`. Every image draws a patch and an RGB colour in [0, 1].
    """
    height, width = base.image_shape[1:]
    painting = np.asarray(painting)
    if painting.dtype != np.uint8 or painting.ndim != 3 or painting.shape[2] != 3:
        raise ValueError(f"the painting is {painting.dtype} {painting.shape}, expected uint8 (height, width, 3)")
    if painting.shape[0] < height or painting.shape[1] < width:
        raise ValueError(f"the painting has {painting.shape[:2]} pixels, expected at least {(height, width)}")
    channels_first = np.ascontiguousarray(painting.transpose(2, 0, 1))
    patches = sliding_window_view(channels_first, (height, width), axis=(1, 2)).transpose(1, 2, 0, 3, 4)

    def render(rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
        sprite = base.images(rows, rng)
        n = len(rows)
        down, right = rng.integers(0, patches.shape[:2], (n, 2)).T
        # One more than the colour, so that dropping the last bit of the sum rounds the mean instead of cutting it.
        colour = (255 * rng.uniform(0, 1, (n, 3, 1, 1)) + 1).astype(np.uint16)
        mean = patches[down, right] + colour
        mean >>= 1
        background = mean.astype(np.uint8)
        return np.bitwise_xor(background, sprite, out=background)

    return _variant("scream_dsprites", base, render)


def load_painting(data_dir: Path | None = None, path: Path | None = None) -> NDArray[np.uint8]:
    """Return the user's picture for scream_dsprites as RGB (height, width, 3), shrunk to fit into 350 x 274.

    The file is `path`, or else scream.jpg, scream.jpeg or scream.png in `data_dir`.
    """
    if path is None:
        found = [data_dir / name for name in PAINTING_FILES if (data_dir / name).is_file()] if data_dir else []
        if not found:
            where = f"none is in {data_dir}" if data_dir else "no folder is given"
            raise ValueError(
                "scream_dsprites needs a picture of The Scream, which is not part of this package: put scream.jpg or "
                f"scream.png into the folder that KARENINA_DATA or data_dir names ({where}), or give painting="
            )
        path = found[0]
    elif not path.is_file():
        raise ValueError(f"no painting at {path}, expected an image file")
    with open_image(path) as image:
        picture = image.convert("RGB")
    full = picture.size
    picture.thumbnail(PAINTING_SIZE)
    if min(picture.size) < 64:
        raise ValueError(
            f"{path} is {full[0]} x {full[1]} pixels, {picture.width} x {picture.height} once it fits into "
            f"{PAINTING_SIZE[0]} x {PAINTING_SIZE[1]}; expected at least 64 x 64"
        )
    return np.array(picture)
