"""The clustering task as an environment with the interface of dm_env, which is not needed.

Two sprites of each of two hues; an action clicks a place and a direction; the reward is dense and grows with the
quality of the clustering, 1 / Davies-Bouldin index; an episode ends in success when that reaches 2.5.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.tasks.clustering.sprites import HUE, HUES, clicked, random_sprites, render

Floats = NDArray[np.floating[Any]]

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
    """Davies-Bouldin index of points (n, d) in clusters `labels` (n,); smaller is better.

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
    """The index of points (..., n, d) when member (..., clusters, n) has 1 / size where a point is in a cluster."""
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
    """1 / index, at most BEST_QUALITY; arguments as for `_index`."""
    return 1 / np.maximum(_index(points, member), 1 / BEST_QUALITY)


def members(hue: Floats, bounds: Sequence[tuple[float, float]]) -> Floats:
    """(..., clusters, n) from hues (..., n): 1 / size of the cluster where a hue lies within its bounds."""
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
        """action: click (x, y) and direction (x, y), all in [0, 1]. The foremost sprite at the click moves; without one
        nothing does. Centres stay in the frame. After the last step of an episode, and at the start, it resets."""
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
        """1 / Davies-Bouldin index of the positions, the clusters being the hues; 0 when centroids coincide."""
        return float(quality_of(self.scene[:, :2], self._member))

    def render(self, side: int = 64) -> NDArray[np.uint8]:
        """The present scene (3, side, side)."""
        return render(self.scene, side)


def reward_of(quality: Floats | np.float64) -> Floats | np.float64:
    """Dense reward: above 0 from success on."""
    return 5 * (quality - THRESHOLD)


def checked(action: ArrayLike) -> Floats:
    """Four finite numbers in [0, 1], or a ValueError."""
    try:
        out = np.asarray(action, float)
    except (TypeError, ValueError):
        raise ValueError(f"an action is 4 numbers (click x, y and direction x, y), got {action!r}") from None
    if out.shape != (4,):
        raise ValueError(f"an action is 4 numbers (click x, y and direction x, y), got shape {out.shape}")
    if not ((out >= 0) & (out <= 1)).all():  # NaN, too
        raise ValueError(f"an action's numbers must be in [0, 1], got {out.tolist()}")
    return out
