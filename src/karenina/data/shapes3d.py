"""shapes3d, rendered: the grid of 3D Shapes (Burgess and Kim, 2018), 480,000 pictures of an object in a room.

The colours are put in when a picture is asked for; the 480 geometries (scale, shape, orientation) are rendered when
they are first needed, about 2 ms each, and kept (41 MB).
"""

import colorsys
from functools import cache

import numpy as np
from numpy.typing import NDArray

from karenina.data import _shapes3d_scene as scene
from karenina.data.dataset import DataSet, FactorGrid

GRID = FactorGrid(("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"), (10, 10, 10, 8, 4, 15))
GEOMETRIES = FactorGrid(GRID.names[3:], GRID.sizes[3:])

# Which of the six channel levels red, green and blue have at each hue 0, 0.1 ... 0.9: (10, 3).
HUE_LEVELS = np.array([np.round(5 * np.array(colorsys.hsv_to_rgb(hue / 10, 1, 1))) for hue in range(10)], np.int64)


@cache
def _atlas() -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The maps of all geometries (480 * 21, 4096), and which geometries have been rendered (480)."""
    maps = np.empty((len(GEOMETRIES) * scene.MAPS, scene.SIZE**2), np.uint8)
    return maps, np.zeros(len(GEOMETRIES), bool)


def _render(rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
    maps, ready = _atlas()
    geometry = GEOMETRIES.index(rows[:, 3:])
    for g in np.unique(geometry[~ready[geometry]]):
        maps[g * scene.MAPS : (g + 1) * scene.MAPS] = scene.render(*GEOMETRIES.rows([g])[0]).reshape(scene.MAPS, -1)
        ready[g] = True  # only now: another thread may be reading

    first = geometry[:, None] * scene.MAPS
    images = maps.take(first + scene.SKY_MAPS + np.arange(3), axis=0)
    for hue, part in zip(rows[:, :3].T, (scene.FLOOR_MAPS, scene.WALL_MAPS, scene.OBJECT_MAPS)):
        images += maps.take(first + part + HUE_LEVELS[hue], axis=0)
    return images.reshape(-1, 3, scene.SIZE, scene.SIZE)


def shapes3d() -> DataSet:
    """Floor, wall and object hue (0, 0.1 ... 0.9), scale (0.75 to 1.25), shape (cube, cylinder, sphere, capsule) and
    orientation (-30 to 30 degrees); RGB, 64x64.

    >>> data = shapes3d()
    >>> len(data), data.images([[0, 1, 2, 3, 0, 7]]).shape
    (480000, (1, 3, 64, 64))
    """
    return DataSet("shapes3d", GRID, (3, scene.SIZE, scene.SIZE), _render)
