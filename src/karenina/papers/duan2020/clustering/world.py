"""The world of the clustering task of COBRA (Watters et al. 2019): sprites and their environment."""

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

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
    """Return a scene (sprites, 7), or many (scenes, sprites, 7), one sprite per name of HUES, depth at random."""
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
    """Return colours (..., 3) in [0, 1] of hue, saturation and value (..., 3) in [0, 1]."""
    h, s, v = hsv[..., 0, None], hsv[..., 1, None], hsv[..., 2, None]
    # Red, green and blue are the same tent over the hue, shifted by thirds.
    tent = np.clip(np.abs((h * 6 + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1, 0, 1)
    return v * (1 - s + s * tent)


def inside(scenes: Floats, points: Floats) -> NDArray[np.bool_]:
    """Return which sprites of scenes (..., sprites, 7) are at points (..., 2): (..., sprites)."""
    p = (points[..., None, :] - scenes[..., :2]) / scenes[..., [SCALE]]
    shape = scenes[..., SHAPE].astype(int)
    polygon = np.minimum(shape, 1)
    within = ((_NORMALS[polygon] @ p[..., None])[..., 0] <= _INRADIUS[polygon][..., None]).all(axis=-1)
    return np.where(shape == CIRCLE, (p**2).sum(axis=-1) <= _RADIUS**2, within)


def clicked(scene: Floats, point: Floats) -> int | None:
    """Return the foremost sprite of a scene (sprites, 7) at a point (x, y), or None."""
    hit = np.flatnonzero(inside(scene, point))
    return int(hit[-1]) if len(hit) else None


def coverage(scenes: Floats, side: int) -> NDArray[np.float32]:
    """Return how much of each pixel a sprite covers: (n, sprites, 7) -> (n, sprites, side, side), the row being y."""
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
    """Return images (n, 3, side, side) of scenes (n, sprites, 7); a single scene gives a single image."""
    return render_with_masks(scenes, side)[0]


def render_with_masks(scenes: Floats, side: int = 64) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return images, and the part of each pixel that is background (first) or shows each sprite: (n, 1 + sprites, side,
    side), which sum to 1."""
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


THRESHOLD = 2.5
# Quality when the sprites of each cluster sit on one spot, and the index is 0 or nearly so: keeps rewards finite.
BEST_QUALITY = 100.0


class StepType(IntEnum):
    FIRST = 0
    MID = 1
    LAST = 2


class TimeStep(NamedTuple):
    """What the environment answers. reward and discount are None at the first step of an episode; discount is 0 when
    the episode ended in success and 1 when it ran out of steps. observation: the scene (sprites, 7)."""

    step_type: StepType
    reward: float | None
    discount: float | None
    observation: Floats

    def first(self) -> bool:
        return self.step_type == StepType.FIRST

    def last(self) -> bool:
        return self.step_type == StepType.LAST


def davies_bouldin(points: ArrayLike, labels: ArrayLike) -> float:
    """Return the Davies-Bouldin index of points (n, d) in clusters `labels` (n,); smaller is better.

    Mean over clusters of the worst (s_i + s_j) / d_ij: s is the mean distance to the centroid, d between centroids.
    Two clusters with the same centroid give infinity, also when both are single spots: they are not apart.

    >>> davies_bouldin([[0, 0], [0, 2], [8, 0], [8, 2]], [0, 0, 1, 1])
    0.25
    """
    points, labels = np.asarray(points, float), np.asarray(labels)
    if points.ndim != 2 or labels.shape != points.shape[:1]:
        raise ValueError(f"points must be (n, d) and labels (n,), got {points.shape} and {labels.shape}")
    names = np.unique(labels)
    if len(names) < 2:
        raise ValueError(f"the Davies-Bouldin index needs at least 2 clusters, got {len(names)}")
    member = (labels == names[:, None]).astype(float)
    member /= member.sum(axis=1, keepdims=True)
    return float(_index(points, member))


def _index(points: Floats, member: Floats) -> Floats:
    """Return the index of points (..., n, d) when member (..., clusters, n) has 1 / size where a point is in a
    cluster."""
    centroids = member @ points
    from_centroid = np.sqrt(((points[..., None, :, :] - centroids[..., None, :]) ** 2).sum(axis=-1))
    scatter = (member * from_centroid).sum(axis=-1)
    apart = np.sqrt(((centroids[..., None, :] - centroids[..., None, :, :]) ** 2).sum(axis=-1))
    sums = scatter[..., None] + scatter[..., None, :]
    ratio = np.divide(sums, apart, out=np.full(apart.shape, np.inf), where=apart > 1e-12)
    clusters = np.arange(member.shape[-2])
    ratio[..., clusters, clusters] = -np.inf
    return ratio.max(axis=-1).mean(axis=-1)


def quality_of(points: Floats, member: Floats) -> Floats:
    """Return 1 / index, at most BEST_QUALITY; arguments as for `_index`."""
    return 1 / np.maximum(_index(points, member), 1 / BEST_QUALITY)


def members(hue: Floats, bounds: Sequence[tuple[float, float]]) -> Floats:
    """Return (..., clusters, n) from hues (..., n): 1 / size of the cluster where a hue lies within its bounds."""
    low, high = np.array(bounds).T[..., None]
    member = ((low <= hue[..., None, :]) & (hue[..., None, :] <= high)).astype(float)
    return member / np.maximum(member.sum(axis=-1, keepdims=True), 1)


class Environment:
    """reset() and step(action) of the clustering task.

    hues: names of HUES, one cluster each ("blue", "green" to train, "red", "yellow" to test); per_cluster sprites of
    each, at least 2. motion: a move is motion * (direction - 0.5). A scene that is already clustered is drawn again.
    """

    def __init__(
        self,
        seed: int | np.random.Generator = 0,
        *,
        hues: Sequence[str] = ("blue", "green"),
        per_cluster: int = 2,
        episode: int = 50,
        motion: float = 0.25,
        scale: float = 0.13,
    ):
        if len(set(hues)) < 2 or len(set(hues)) < len(hues):
            raise ValueError(f"clustering needs at least 2 different hues, got {tuple(hues)}")
        if per_cluster < 2:  # one sprite each has no scatter: always clustered
            raise ValueError(f"per_cluster must be at least 2 sprites, got {per_cluster}")
        if episode < 1:
            raise ValueError(f"episode must be at least 1 step, got {episode}")
        if not 0 < motion <= 1:
            raise ValueError(f"motion must be above 0 and at most 1, got {motion}")
        self.rng = np.random.default_rng(seed)
        self.hues = tuple(name for name in hues for _ in range(per_cluster))
        self.per_cluster, self.episode, self.motion, self.scale = per_cluster, episode, motion, scale
        self.scene = random_sprites(self.hues, np.random.default_rng(0), scale=scale)  # until the first reset
        self.bounds = [HUES[name] for name in hues]
        self._over = True
        self._steps = 0
        self._member = members(self.scene[:, HUE], self.bounds)

    def reset(self) -> TimeStep:
        while True:
            self.scene = random_sprites(self.hues, self.rng, scale=self.scale)
            self._member = members(self.scene[:, HUE], self.bounds)
            if self.quality() < THRESHOLD:
                break
        self._steps, self._over = 0, False
        return TimeStep(StepType.FIRST, None, None, self.scene.copy())

    def step(self, action: ArrayLike) -> TimeStep:
        """Move a sprite. action: click (x, y) and direction (x, y), all in [0, 1]. The foremost sprite at the click
        moves; without one nothing does. Centres stay in the frame. After the last step of an episode, and at the
        start, it resets."""
        action = checked(action)
        if self._over:
            return self.reset()
        hit = clicked(self.scene, action[:2])
        if hit is not None:
            self.scene[hit, :2] = np.clip(self.scene[hit, :2] + self.motion * (action[2:] - 0.5), 0, 1)
        self._steps += 1
        quality = self.quality()
        success = quality >= THRESHOLD
        self._over = success or self._steps >= self.episode
        kind = StepType.LAST if self._over else StepType.MID
        return TimeStep(kind, float(reward_of(np.float64(quality))), 0.0 if success else 1.0, self.scene.copy())

    def quality(self) -> float:
        """Return 1 / Davies-Bouldin index of the positions, the clusters being the hues; 0 when centroids coincide."""
        return float(quality_of(self.scene[:, :2], self._member))

    def render(self, side: int = 64) -> NDArray[np.uint8]:
        """Return the present scene (3, side, side)."""
        return render(self.scene, side)


def reward_of(quality: Floats | np.float64) -> Floats | np.float64:
    """Return the dense reward: above 0 from success on."""
    return 5 * (quality - THRESHOLD)


def checked(action: ArrayLike) -> Floats:
    """Return four finite numbers in [0, 1], or a ValueError."""
    try:
        out = np.asarray(action, float)
    except (TypeError, ValueError):
        raise ValueError(f"an action is 4 numbers (click x, y and direction x, y), got {action!r}") from None
    if out.shape != (4,):
        raise ValueError(f"an action is 4 numbers (click x, y and direction x, y), got shape {out.shape}")
    if not ((out >= 0) & (out <= 1)).all():  # NaN, too
        raise ValueError(f"an action's numbers must be in [0, 1], got {out.tolist()}")
    return out
