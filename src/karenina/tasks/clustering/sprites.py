"""A world of sprites on black: three shapes, HSV colours, anti-aliased from signed distances.

A scene is an array (sprites, 7) with the columns of FACTORS; a sprite hides those before it. The frame is the unit
square, x to the right and y downwards. Ranges are those of COBRA's tasks in Spriteworld (Watters et al. 2019).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._files import atomic

Floats = NDArray[np.floating[Any]]

FACTORS = ("x", "y", "shape", "scale", "hue", "saturation", "value")
X, Y, SHAPE, SCALE, HUE, SATURATION, VALUE = range(7)
SHAPES = ("square", "triangle", "circle")
HUES = {"red": (0.9, 1.0), "blue": (0.55, 0.65), "green": (0.27, 0.37), "yellow": (0.1, 0.2), "any": (0.0, 1.0)}
CIRCLE = SHAPES.index("circle")

# Polygons as half-planes n . p <= r, four each; the triangle names one side twice. Every shape has area 1 at scale 1.
_INRADIUS = np.array([0.5, 3**-0.75])
_ANGLES = np.radians([[0, 90, 180, 270], [90, 210, 330, 330]])
_NORMALS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=-1)  # (polygon, side, 2)
_RADIUS = np.pi**-0.5


def random_sprites(
    hues: Sequence[str], rng: np.random.Generator, *, scenes: int | None = None, scale: float = 0.13
) -> Floats:
    """A scene (sprites, 7), or many (scenes, sprites, 7), one sprite per name of HUES, depth at random."""
    unknown = [name for name in hues if name not in HUES]
    if unknown:
        raise ValueError(f"no hue {unknown[0]!r}; known: {', '.join(HUES)}")
    if not 0 < scale < 1:
        raise ValueError(f"scale must be between 0 and 1, got {scale}")
    n, k = scenes or 1, len(hues)
    out = np.empty((n, k, len(FACTORS)))
    out[..., [X, Y]] = rng.uniform(0.1, 0.9, size=(n, k, 2))
    out[..., SHAPE] = rng.integers(len(SHAPES), size=(n, k))
    out[..., SCALE] = scale
    bounds = np.array([HUES[name] for name in hues]).reshape(k, 2)
    out[..., HUE] = rng.uniform(bounds[:, 0], bounds[:, 1], size=(n, k))
    out[..., SATURATION] = rng.uniform(0.3, 1.0, size=(n, k))
    out[..., VALUE] = rng.uniform(0.9, 1.0, size=(n, k))
    order = rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1)
    out = np.take_along_axis(out, order[..., None], axis=1)
    return out if scenes is not None else out[0]


def hsv_to_rgb(hsv: Floats) -> Floats:
    """(..., 3) in [0, 1] -> (..., 3) in [0, 1]."""
    h, s, v = hsv[..., 0, None], hsv[..., 1, None], hsv[..., 2, None]
    # Red, green and blue are the same tent over the hue, shifted by thirds.
    tent = np.clip(np.abs((h * 6 + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1, 0, 1)
    return v * (1 - s + s * tent)


def inside(scenes: Floats, points: Floats) -> NDArray[np.bool_]:
    """Which sprites of scenes (..., sprites, 7) are at points (..., 2): (..., sprites)."""
    p = (points[..., None, :] - scenes[..., :2]) / scenes[..., [SCALE]]
    shape = scenes[..., SHAPE].astype(int)
    polygon = np.minimum(shape, 1)
    within = ((_NORMALS[polygon] @ p[..., None])[..., 0] <= _INRADIUS[polygon][..., None]).all(axis=-1)
    return np.where(shape == CIRCLE, (p**2).sum(axis=-1) <= _RADIUS**2, within)


def clicked(scene: Floats, point: Floats) -> int | None:
    """The foremost sprite of a scene (sprites, 7) at a point (x, y), or None."""
    hit = np.flatnonzero(inside(scene, point))
    return int(hit[-1]) if len(hit) else None


def coverage(scenes: Floats, side: int) -> NDArray[np.float32]:
    """How much of each pixel a sprite covers: (n, sprites, 7) -> (n, sprites, side, side), the row being y."""
    at = (np.arange(side, dtype=np.float32) + 0.5) / side
    scale = scenes[..., SCALE, None].astype(np.float32)
    x = (at - scenes[..., X, None].astype(np.float32)) / scale  # (n, sprites, side)
    y = (at - scenes[..., Y, None].astype(np.float32)) / scale
    shape = scenes[..., SHAPE].astype(int)
    polygon = np.minimum(shape, 1)
    normals = _NORMALS[polygon].astype(np.float32)  # (n, sprites, 4, 2)
    distance = np.full((*shape.shape, side, side), -np.inf, np.float32)
    for j in range(normals.shape[2]):
        along_x, along_y = normals[..., j, :1] * x, normals[..., j, 1:] * y
        np.maximum(distance, along_y[..., :, None] + along_x[..., None, :], out=distance)
    distance -= _INRADIUS[polygon].astype(np.float32)[..., None, None]
    round_ones = shape == CIRCLE
    distance[round_ones] = np.sqrt(y[round_ones][:, :, None] ** 2 + x[round_ones][:, None, :] ** 2) - _RADIUS
    # An edge through the middle of a pixel covers half of it; it is outside from half a pixel on.
    distance *= -side * scale[..., None]
    distance += 0.5
    return np.clip(distance, 0, 1, out=distance)


def render(scenes: Floats, side: int = 64) -> NDArray[np.uint8]:
    """Images (n, 3, side, side) of scenes (n, sprites, 7); a single scene gives a single image."""
    return render_with_masks(scenes, side)[0]


def render_with_masks(scenes: Floats, side: int = 64) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Also the part of each pixel that is background (first) or shows each sprite: (n, 1 + sprites, side, side), which
    sum to 1."""
    scenes = np.asarray(scenes, float)
    if scenes.ndim not in (2, 3) or scenes.shape[-1] != len(FACTORS):
        raise ValueError(f"scenes must have shape (n, sprites, {len(FACTORS)}), got {scenes.shape}")
    if side < 1:
        raise ValueError(f"side must be at least 1 pixel, got {side}")
    many = scenes if scenes.ndim == 3 else scenes[None]
    n, k = many.shape[:2]
    shown = np.empty((n, k + 1, side, side), np.float32)
    shown[:, 0] = 1
    cover = coverage(many, side)
    for j in reversed(range(k)):  # what the sprites in front leave over
        np.multiply(shown[:, 0], cover[:, j], out=shown[:, j + 1])
        shown[:, 0] -= shown[:, j + 1]
    colours = hsv_to_rgb(many[..., [HUE, SATURATION, VALUE]]).astype(np.float32) * 255
    light = np.matmul(colours.transpose(0, 2, 1), shown[:, 1:].reshape(n, k, side * side))
    images = np.rint(light.reshape(n, 3, side, side)).astype(np.uint8)
    return (images, shown) if scenes.ndim == 3 else (images[0], shown[0])


def animation(
    path: str | Path, scenes: Sequence[Floats], actions: ArrayLike = (), *, side: int = 128, ms: int = 300
) -> None:
    """Write scenes (t, sprites, 7) as a GIF; the click of each of the actions (t - 1, 4) is a white cross in the frame
    before it. Anything but a list of scenes of one size raises."""
    from PIL import Image

    frames_of = np.asarray(scenes, float)
    if frames_of.ndim != 3 or frames_of.shape[-1] != len(FACTORS) or not len(frames_of):
        raise ValueError(f"scenes must have shape (t, sprites, {len(FACTORS)}), got {frames_of.shape}")
    images = np.ascontiguousarray(render(frames_of, side).transpose(0, 2, 3, 1))
    arm = max(side // 32, 1)
    for image, action in zip(images, np.asarray(actions, float).reshape(-1, 4)):
        x, y = np.minimum((action[:2] * side).astype(int), side - 1)
        image[max(y - arm, 0) : y + arm + 1, x] = 255
        image[y, max(x - arm, 0) : x + arm + 1] = 255
    pictures = [Image.fromarray(image) for image in images]
    with atomic(path) as part:
        pictures[0].save(part, format="GIF", save_all=True, append_images=pictures[1:], duration=ms, loop=0)
