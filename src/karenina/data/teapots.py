"""teapots: the Utah teapot from all sides and in all colours.

The data set of Eastwood & Williams (2018), section 4.1: azimuth, elevation, red, green and blue, each uniform and
independent, with constant shape and lighting and without background (white, as in the paper's renderer).

Every image is drawn when it is asked for. The camera looks at the middle of the pot; azimuth 0 has the spout on the
right, and a growing azimuth moves the camera anticlockwise around the vertical axis. Elevation 0 is a view from the
side, pi / 2 from above. The light goes around with the camera, as if the pot stood on a turntable. Each channel is
highlight + colour * shade, which never exceeds 1.
"""

from dataclasses import dataclass
from functools import cache
from math import pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.data._raster import render
from karenina.data._teapot_mesh import teapot_mesh
from karenina.data.dataset import DataSet, FactorBox, Fixed
from karenina.data.given import FactorRows

SIZE = 64
_DRAWS = 10_000

_NAMES = ("azimuth", "elevation", "red", "green", "blue")
_LOW, _HIGH = (0.0, 0.0, 0.0, 0.0, 0.0), (2 * pi, pi / 2, 1.0, 1.0, 1.0)
BOX = FactorBox(_NAMES, _LOW, _HIGH)


# What "red" means in the gap: the condition that appendix B.2 prints, and that of the authors' script.
READINGS = ("script", "printed")


def in_gap(factors: ArrayLike, reading: str = "script") -> NDArray[np.bool_]:
    """Whether factor rows (n, 5) are red teapots from above, the held-out corner of appendix B.2: (n,).

    Both readings want an elevation over pi / 4 and red over green + 0.15, as the paper prints. "script", the default,
    also wants red over blue + 0.15, as the authors' script does. The paper counts 21,238 of its 200,000 images in the
    gap: "script" holds 10.2 % of all teapots, "printed" 18.1 %.

    >>> rows = [[0, 1.2, 0.9, 0.1, 0.1], [0, 0.2, 0.9, 0.1, 0.1], [0, 1.2, 0.9, 0.1, 0.9]]
    >>> in_gap(rows).tolist(), in_gap(rows, "printed").tolist()
    ([True, False, False], [True, False, True])
    """
    if reading not in READINGS:
        raise ValueError(f"reading is {reading!r}, expected {' or '.join(map(repr, READINGS))}")
    _, elevation, red, green, blue = BOX.check(factors).T
    printed = (elevation > pi / 4) & (red > green + 0.15)
    return printed if reading == "printed" else printed & (red > blue + 0.15)


@dataclass(frozen=True)
class GapBox(FactorBox):
    """The box of all teapots, of which `sample` draws those outside the gap ("exclude") or inside it ("only")."""

    gap: str = "exclude"
    reading: str = "script"

    def weights(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether rows of the box can be drawn."""
        return in_gap(rows, self.reading) == (self.gap == "only")

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.float64]:
        rows = super().sample(n, rng, fixed)
        every = {name: np.broadcast_to(np.asarray(value), n) for name, value in (fixed or {}).items()}
        wrong = np.arange(n)
        for _ in range(_DRAWS):
            wrong = wrong[~self.weights(rows[wrong])]
            if len(wrong) == 0:
                return rows
            rows[wrong] = super().sample(len(wrong), rng, {name: value[wrong] for name, value in every.items()})
        side = "inside" if self.gap == "only" else "outside"
        raise ValueError(f"found no teapot {side} the gap with {dict(fixed or {})} in {_DRAWS} draws")


# Section 4.1: so many of 200,000 images train, validate and test.
PARTS = {"train": 160_000, "validation": 20_000, "test": 20_000}


def part_rows(part: str, seed: int, gap: str | None, reading: str) -> NDArray[np.float64]:
    """The factors (n, 5) of a part of the 200,000 teapots that a seed draws; as in the paper, teapots of the gap are
    taken away after the division."""
    drawn = BOX.sample(sum(PARTS.values()), np.random.default_rng([seed, 2018]))
    mine = np.split(drawn, np.cumsum(list(PARTS.values()))[:-1])[list(PARTS).index(part)]
    return mine if gap is None else mine[in_gap(mine, reading) == (gap == "only")]


@cache
def _scene() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """The pot with the middle of its extent at 0: vertices, normals, triangles."""
    mesh = teapot_mesh()
    middle = (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0)) / 2
    return mesh.vertices - middle, mesh.normals, mesh.triangles


def _images(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
    views, colours = np.ascontiguousarray(rows[:, :2]), np.ascontiguousarray(rows[:, 2:])
    return render(*_scene(), views, colours, SIZE)


def teapots(gap: str | None = None, reading: str = "script", part: str | None = None, seed: int = 0) -> DataSet:
    """Teapots (3, 64, 64): all of them, or with the zero-shot gap left out ("exclude"), or the gap alone ("only").

    The gap decides what `sample` draws; `images` draws any teapot. reading: which corner the gap is, see `in_gap`; give
    `karenina.tasks.zero_shot` the same. part: "train" (160,000 images), "validation" or "test" (20,000 each), fixed by
    `seed`, as in section 4.1; without it every sample is new. Runs trained on part=train are scored on part=test.

    >>> images, factors = teapots(gap="only").sample(4, np.random.default_rng(0))
    >>> images.shape, bool(in_gap(factors).all())
    ((4, 3, 64, 64), True)
    >>> len(teapots(part="test")), len(teapots(part="test", gap="exclude"))
    (20000, 17969)
    """
    if gap not in (None, "exclude", "only"):
        raise ValueError(f"gap is {gap!r}, expected None, 'exclude' or 'only'")
    if part not in (None, *PARTS):
        raise ValueError(f"part is {part!r}, expected None or one of {', '.join(map(repr, PARTS))}")
    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed is {seed!r}, expected an integer of 0 or more")
    in_gap(np.empty((0, 5)), reading)  # an unknown reading is an error now, not at the first image
    size = 200_000
    factors = BOX if gap is None else GapBox(_NAMES, _LOW, _HIGH, gap, reading)
    if part is not None:
        factors = FactorRows(_NAMES, _LOW, _HIGH, part, part_rows(part, seed, gap, reading))
        size = len(factors.rows)
    return DataSet("teapots", factors, (3, SIZE, SIZE), _images, size=size)
