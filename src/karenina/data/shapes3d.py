"""shapes3d, rendered: the grid of 3D Shapes (Burgess and Kim, 2018), 480,000 pictures of an object in a room.

The colours are put in when a picture is asked for; the 480 geometries (scale, shape, orientation) are rendered when
they are first needed, about 2 ms each, and kept (41 MB).
"""

import colorsys
import math
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina.data.dataset import DataSet, FactorGrid

Array = NDArray[np.floating]
Vector = tuple[Array, Array, Array]

SIZE = 64
SAMPLES = 4  # Rays for each pixel along each axis.
SCALES = np.linspace(0.75, 1.25, 8)
ANGLES = np.deg2rad(np.linspace(-30, 30, 15))
LEVELS = np.linspace(0, 1, 6)
SKY_MAPS, FLOOR_MAPS, WALL_MAPS, OBJECT_MAPS = 0, 3, 9, 15  # where each part's maps begin
MAPS = 21

FOCAL = 57.73  # pixels: a field of view of 58 degrees
CAMERA_DISTANCE, CAMERA_HEIGHT = 0.769, 0.2635
SIDE_WALL, WALL_HEIGHT = 1.05, 0.6975
CUBE_HALF, CUBE_TOP = 0.1316, 0.2414  # objects at scale 1
CYLINDER_RADIUS, CYLINDER_TOP = 0.1368, 0.263
SPHERE_RADIUS = 0.1515
CAPSULE_RADIUS, CAPSULE_TOP = 0.1188, 0.3447  # the top is the centre of the upper cap
SKY_COLOUR = np.array([154, 226, 250]) / 255

AMBIENT = 0.316
HEADLIGHT = 0.628  # a light that travels with the camera
KEY = 0.7325  # the light that casts the shadow
TO_KEY = np.array([-0.2268, 0.1377, 0.9641])  # a unit vector
SHADOW = 0.335  # the light left on the floor in the shadow
GLOSS = 0.111  # white, even, on the parts of the object that the key light reaches
GLOSS_EDGE = 0.07  # how wide the edge of that part is

FLOOR, WALL, OBJECT, SKY = range(4)


class Room(NamedTuple):
    """The view of the camera without the object; sample arrays are (256, 256)."""

    eye: tuple[float, float, float]
    rays: Vector
    material: NDArray[np.int8]
    light: Array
    x: Array  # where the ray meets the floor, if it does
    y: Array
    maps: Array  # (21, 64, 64)


def _near_root(a: Array, half_b: Array, c: Array) -> Array:
    """Return the smaller root of a t^2 + 2 half_b t + c, infinite where there is none."""
    square = half_b * half_b - a * c
    return np.where(square > 0, (-half_b - np.sqrt(np.maximum(square, 0))) / a, np.inf)


def _meet_cube(o: Vector, d: Vector, scale: float) -> tuple[Array, Vector]:
    half, top = CUBE_HALF * scale, CUBE_TOP * scale
    enter, leave = [], []
    for start, step, low, high in zip(o, d, (-half, -half, 0.0), (half, half, top)):
        step = np.where(np.abs(step) < 1e-9, 1e-9, step)
        a, b = (low - start) / step, (high - start) / step
        enter.append(np.minimum(a, b))
        leave.append(np.maximum(a, b))
    t = np.maximum(np.maximum(enter[0], enter[1]), enter[2])
    hit = t < np.minimum(np.minimum(leave[0], leave[1]), leave[2])
    x, y, z = (np.where(side == t, -np.sign(step), 0) for side, step in zip(enter, d))
    return np.where(hit, t, np.inf), (x, y, z)


def _meet_cylinder(o: Vector, d: Vector, scale: float) -> tuple[Array, Vector]:
    radius, top = CYLINDER_RADIUS * scale, CYLINDER_TOP * scale
    t = _near_root(d[0] ** 2 + d[1] ** 2, o[0] * d[0] + o[1] * d[1], o[0] ** 2 + o[1] ** 2 - radius**2)
    side = np.where(np.isfinite(t), t, 0)
    height = o[2] + side * d[2]
    t = np.where((height > 0) & (height < top), t, np.inf)
    lid = (top - o[2]) / np.where(np.abs(d[2]) < 1e-9, 1e-9, d[2])
    on_lid = ((o[0] + lid * d[0]) ** 2 + (o[1] + lid * d[1]) ** 2 < radius**2) & (lid > 0) & (lid < t)
    x, y = ((p + side * q) / radius for p, q in zip(o[:2], d[:2]))
    normal = (np.where(on_lid, 0, x), np.where(on_lid, 0, y), np.where(on_lid, 1.0, 0))
    return np.where(on_lid, lid, t), normal


def _meet_capsule(o: Vector, d: Vector, radius: float, top: float) -> tuple[Array, Vector]:
    """Return where rays first meet a capsule standing on the floor, and the normal there.

    The centre of its upper cap is at height `top`; it is a sphere if `top` is `radius`.
    """
    flat_a, flat_b = d[0] ** 2 + d[1] ** 2, o[0] * d[0] + o[1] * d[1]
    flat_c = o[0] ** 2 + o[1] ** 2 - radius**2
    t = _near_root(flat_a, flat_b, flat_c)
    height = o[2] + np.where(np.isfinite(t), t, 0) * d[2]
    t = np.where((height > radius) & (height < top), t, np.inf)
    for centre in {radius, top}:
        up = o[2] - centre
        t = np.minimum(t, _near_root(flat_a + d[2] ** 2, flat_b + up * d[2], flat_c + up**2))
    at = np.where(np.isfinite(t), t, 0)
    x, y, z = (p + at * q for p, q in zip(o, d))
    return t, (x / radius, y / radius, (z - np.clip(z, radius, top)) / radius)


def _meet(shape: int, o: Vector, d: Vector, scale: float) -> tuple[Array, Vector]:
    """Return where rays o + t d first meet the object: t (infinite for a miss), and the outward normal there."""
    if shape == 0:
        return _meet_cube(o, d, scale)
    if shape == 1:
        return _meet_cylinder(o, d, scale)
    if shape == 2:
        return _meet_capsule(o, d, SPHERE_RADIUS * scale, SPHERE_RADIUS * scale)
    return _meet_capsule(o, d, CAPSULE_RADIUS * scale, CAPSULE_TOP * scale)


# The radius and the height of an upright cylinder around each object at scale 1.
_EXTENT = (
    (2**0.5 * CUBE_HALF, CUBE_TOP),
    (CYLINDER_RADIUS, CYLINDER_TOP),
    (SPHERE_RADIUS, 2 * SPHERE_RADIUS),
    (CAPSULE_RADIUS, CAPSULE_TOP + CAPSULE_RADIUS),
)


def _smears(along: Array, z: Array, centre: float) -> Array:
    """Return the walls' texture: faint dark smears every 0.69, running down to the right."""
    across = (along - centre + 0.345) % 0.69 - 0.345
    down = 0.36 - z
    lengthwise, sidewise = 0.6 * across + 0.8 * down, 0.8 * across - 0.6 * down
    return -0.045 * np.exp(-((lengthwise / 0.12) ** 2) - (sidewise / 0.045) ** 2)


def _wall_light(side: NDArray[np.int8], x: Array, y: Array, z: Array, angle: float, facing: Array) -> Array:
    """Return the light on the back wall (side 0), the right wall (1) and the left wall (2)."""
    back = 0.3076 + 0.4246 * math.cos(angle) + 0.3055 * facing - 0.0533 * x - 0.0451 * z + _smears(x, z, 0.2)
    right = 0.4987 - 0.4346 * math.sin(angle) - 0.0221 * y - 0.0589 * z + _smears(-y, z, -0.42)
    left = 0.6337 + 0.4454 * math.sin(angle) - 0.1198 * y - 0.0366 * z + _smears(y, z, 0.56)
    return np.choose(side, (back, right, left))


def _floor_light(x: Array, y: Array) -> Array:
    """Return the light on the floor: the bright pool of the key light, with a faint grain."""
    u, v = x + 0.4815, y - 0.0874
    pool = 0.9436 * np.exp(-(0.779 * u * u + 0.9088 * v * v - 0.1703 * u * v))
    return SHADOW + pool + 0.012 * np.sin(67 * x + 11 * y) * np.sin(61 * y - 17 * x)


def _pool(samples: Array) -> Array:
    """Return means over the rays of each pixel: (k, 4 h, 4 w) -> (k, h, w)."""
    k, h, w = samples.shape
    return samples.reshape(k, h // SAMPLES, SAMPLES, w // SAMPLES, SAMPLES).mean(axis=(2, 4))


def _maps(material: NDArray[np.int8], light: Array, gloss: Array) -> Array:
    """Sample arrays (4 h, 4 w) to maps (21, h, w)."""
    shown = np.minimum(1, LEVELS.astype(np.float32)[:, None, None] * light + gloss)
    sky = _pool((material == SKY)[None].astype(np.float32)) * SKY_COLOUR[:, None, None]
    return np.concatenate([sky, *(_pool(shown * (material == part)) for part in (FLOOR, WALL, OBJECT))])


@lru_cache(maxsize=len(ANGLES))
def room(orientation: int) -> Room:
    angle = float(ANGLES[orientation])
    sin, cos = math.sin(angle), math.cos(angle)  # Plain floats keep the sample arrays in float32.
    eye = (CAMERA_DISTANCE * sin, -CAMERA_DISTANCE * cos, CAMERA_HEIGHT)
    pixel = (np.arange(SIZE * SAMPLES, dtype=np.float32) + 0.5) / SAMPLES - SIZE / 2
    right, up = np.meshgrid(pixel / np.float32(FOCAL), -pixel / np.float32(FOCAL))
    dx, dy, dz = (a.astype(np.float32) for a in (cos * right - sin, sin * right + cos, up))

    to_back = (1 - eye[1]) / dy  # the view is never so wide that dy <= 0
    to_side = (np.copysign(SIDE_WALL, dx) - eye[0]) / np.where(np.abs(dx) < 1e-6, 1e-6, dx)
    to_wall = np.minimum(to_back, to_side)
    side = np.where(to_back <= to_side, 0, np.where(dx > 0, 1, 2)).astype(np.int8)
    x, y, z = (start + to_wall * step for start, step in zip(eye, (dx, dy, dz)))
    facing = (1 - eye[1]) / (to_wall * np.sqrt(dx**2 + dy**2 + dz**2))
    light = _wall_light(side, x, y, z, angle, facing)
    material = np.where(z > WALL_HEIGHT, SKY, WALL).astype(np.int8)

    floor = z < 0
    to_floor = eye[2] / np.maximum(-dz, 1e-6)
    x, y = np.where(floor, eye[0] + to_floor * dx, np.inf), np.where(floor, eye[1] + to_floor * dy, np.inf)
    light[floor] = _floor_light(x[floor], y[floor])
    material[floor] = FLOOR
    return Room(eye, (dx, dy, dz), material, light, x, y, _maps(material, light, np.zeros_like(light)))


def _window(reach: float, top: float) -> tuple[slice, slice]:
    """Return the rows and columns of samples, cut at whole pixels, in which an object of this extent lies."""
    nearest, farthest = CAMERA_DISTANCE - reach, CAMERA_DISTANCE + reach
    above = top - CAMERA_HEIGHT
    highest = FOCAL * max(above / nearest, above / farthest)
    lowest, widest = FOCAL * CAMERA_HEIGHT / nearest, FOCAL * reach / np.sqrt(nearest * farthest)
    rows = np.clip([np.floor(SIZE / 2 - highest), np.ceil(SIZE / 2 + lowest)], 0, SIZE)
    columns = np.clip([np.floor(SIZE / 2 - widest), np.ceil(SIZE / 2 + widest)], 0, SIZE)
    (r0, r1), (c0, c1) = rows.astype(int) * SAMPLES, columns.astype(int) * SAMPLES
    return slice(r0, r1), slice(c0, c1)


def _add_shadow(view: Room, light: Array, scale: float, shape: int) -> NDArray[np.bool_]:
    """Remove the key light from the floor behind the object; return which samples changed."""
    width, height = (scale * extent for extent in _EXTENT[shape])
    reach = width + height * np.hypot(*TO_KEY[:2]) / TO_KEY[2]
    near = view.x**2 + view.y**2 < reach**2
    x, y = view.x[near], view.y[near]
    zero, one = np.zeros_like(x), np.ones_like(x)
    t, _ = _meet(shape, (x, y, zero), tuple(one * c for c in TO_KEY.astype(np.float32)), scale)  # type: ignore[arg-type]
    changed = np.zeros(near.shape, bool)
    changed[near] = np.isfinite(t) & (t > 0)
    light[changed] = SHADOW
    return changed


def render(scale: int, shape: int, orientation: int) -> NDArray[np.uint8]:
    """Return the maps (21, 64, 64) of one geometry, in 255ths; sums of one map of each part stay within 0..255."""
    view, size, angle = room(orientation), float(SCALES[scale]), ANGLES[orientation]
    material, light, gloss = view.material.copy(), view.light.copy(), np.zeros_like(view.light)
    changed = _add_shadow(view, light, size, shape)

    window = _window(*(size * extent for extent in _EXTENT[shape]))
    eye: Vector = tuple(np.asarray(c, np.float32) for c in view.eye)  # type: ignore[assignment]
    rays: Vector = tuple(d[window] for d in view.rays)  # type: ignore[assignment]
    t, normal = _meet(shape, eye, rays, size)
    hit = np.isfinite(t)
    nx, ny, nz = (n[hit] for n in normal)
    head = np.maximum(0, nx * np.sin(angle) - ny * np.cos(angle))
    key = nx * TO_KEY[0] + ny * TO_KEY[1] + nz * TO_KEY[2]
    material[window][hit] = OBJECT
    light[window][hit] = AMBIENT + HEADLIGHT * head + KEY * np.maximum(0, key)
    gloss[window][hit] = GLOSS * np.clip(key / GLOSS_EDGE + 0.5, 0, 1)
    changed[window] |= hit

    # Only the pixels that the object or its shadow touches differ from the empty room.
    rows, columns = (np.flatnonzero(changed.any(axis=axis)) // SAMPLES for axis in (1, 0))
    r0, r1, c0, c1 = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    box = slice(r0 * SAMPLES, r1 * SAMPLES), slice(c0 * SAMPLES, c1 * SAMPLES)
    maps = view.maps.copy()
    maps[:, r0:r1, c0:c1] = _maps(material[box], light[box], gloss[box])
    # Four maps are added, so four shares of less than a quarter keep the sum under 256.
    return (255 * maps + 0.24).astype(np.uint8)


GRID = FactorGrid(("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"), (10, 10, 10, 8, 4, 15))
GEOMETRIES = FactorGrid(GRID.names[3:], GRID.sizes[3:])

# Which of the six channel levels red, green and blue have at each hue 0, 0.1 ... 0.9: (10, 3).
HUE_LEVELS = np.array([np.round(5 * np.array(colorsys.hsv_to_rgb(hue / 10, 1, 1))) for hue in range(10)], np.int64)


@cache
def _atlas() -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the maps of all geometries (480 * 21, 4096), and which geometries have been rendered (480)."""
    maps = np.empty((len(GEOMETRIES) * MAPS, SIZE**2), np.uint8)
    return maps, np.zeros(len(GEOMETRIES), bool)


def _render(rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
    maps, ready = _atlas()
    geometry = GEOMETRIES.index(rows[:, 3:])
    for g in np.unique(geometry[~ready[geometry]]):
        maps[g * MAPS : (g + 1) * MAPS] = render(*GEOMETRIES.rows([g])[0]).reshape(MAPS, -1)
        ready[g] = True  # This comes last, because another thread may be reading.

    first = geometry[:, None] * MAPS
    images = maps.take(first + SKY_MAPS + np.arange(3), axis=0)
    for hue, part in zip(rows[:, :3].T, (FLOOR_MAPS, WALL_MAPS, OBJECT_MAPS)):
        images += maps.take(first + part + HUE_LEVELS[hue], axis=0)
    return images.reshape(-1, 3, SIZE, SIZE)


def shapes3d() -> DataSet:
    """Return 3D Shapes: floor, wall and object hue (0, 0.1 ... 0.9), scale (0.75 to 1.25), shape (cube, cylinder,
    sphere, capsule) and orientation (-30 to 30 degrees); RGB, 64x64.

    >>> data = shapes3d()
    >>> len(data), data.images([[0, 1, 2, 3, 0, 7]]).shape
    (480000, (1, 3, 64, 64))
    """
    return DataSet("shapes3d", GRID, (3, SIZE, SIZE), _render)
