"""Vision, transition and reward that know the truth: what the best agent could do, and what a test can rely on."""

from collections.abc import Sequence

import numpy as np

from karenina.tasks.clustering.agent import Floats, Slots
from karenina.tasks.clustering.environment import members, quality_of, reward_of
from karenina.tasks.clustering.sprites import HUE, HUES, inside, render_with_masks


class OracleVision:
    """Each slot's codes are the seven factors of a sprite; its mask is the true one. The background has no slot."""

    def __init__(self, side: int = 32):
        self.side = side

    def see(self, scenes: Floats) -> Slots:
        masks = render_with_masks(scenes, self.side)[1][:, 1:]
        return Slots(np.asarray(scenes, float), masks)


class TrueTransition:
    """What the environment would do, on the codes of OracleVision."""

    def __init__(self, motion: float = 0.25):
        self.motion = motion

    def predict(self, codes: Floats, actions: Floats) -> Floats:
        after = np.repeat(codes[:, None], actions.shape[1], axis=1)
        hit = inside(after, actions[..., :2])
        # Only the foremost of the sprites at the click moves.
        foremost = hit & (np.cumsum(hit[..., ::-1], axis=-1)[..., ::-1] == 1)
        moved = np.clip(after[..., :2] + self.motion * (actions[..., None, 2:] - 0.5), 0, 1)
        after[..., :2] = np.where(foremost[..., None], moved, after[..., :2])
        return after


class TrueReward:
    """The reward of the environment, on the codes of OracleVision. It has nothing to learn."""

    def __init__(self, hues: Sequence[str] = ("blue", "green")):
        self.bounds = [HUES[name] for name in hues]

    def predict(self, codes: Floats) -> Floats:
        return np.asarray(reward_of(quality_of(codes[..., :2], members(codes[..., HUE], self.bounds))))

    def learn(self, codes: Floats, rewards: Floats) -> None:
        pass
