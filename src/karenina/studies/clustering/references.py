"""What bounds an agent of the clustering study: chance, knowing everything, and knowing all but the reward."""

import time
from typing import Any

import numpy as np

from karenina.models.cobra import RewardLearners
from karenina.studies.clustering.plan import Plan
from karenina.tasks.clustering import (
    Environment,
    OracleVision,
    TrueReward,
    TrueTransition,
    learn,
    random_actions,
    search,
)
from karenina.tasks.clustering.agent import Floats, success_rate

AGENTS = 20


class FactorLearners(RewardLearners):
    """Reward predictors on the true position and hue of each sprite, at about unit variance."""

    def features(self, codes: Floats) -> Floats:
        return np.concatenate([4 * codes[..., :2] - 2, 6 * codes[..., 4:5] - 2.7], axis=-1).astype(np.float32)

    def predict(self, codes: Floats) -> Floats:
        return super().predict(self.features(codes))

    def learn(self, codes: Floats, rewards: Floats) -> None:
        super().learn(self.features(codes), rewards)


def references(plan: Plan) -> dict[str, Any]:
    """Success rates of a random agent and of one that knows everything, steps of one that knows positions and hues but
    must learn the reward, and the speed of the environment."""
    episodes = min(400, plan.cap)
    rngs = [np.random.default_rng([plan.seed, 5, i]) for i in range(AGENTS)]
    vision, transition, reward = OracleVision(plan.side), TrueTransition(), TrueReward()

    def environments() -> list[Environment]:
        return [Environment(np.random.default_rng([plan.seed, 6, i]), scale=plan.scale) for i in range(AGENTS)]

    def random(scenes: Floats) -> Floats:
        masks = vision.see(scenes).masks
        return np.stack([random_actions(masks[i], 1, rngs[i])[0] for i in range(AGENTS)])

    def best(scenes: Floats) -> Floats:
        slots = vision.see(scenes)
        actions = np.stack([random_actions(slots.masks[i], 64, rngs[i]) for i in range(AGENTS)])
        chosen: Floats = actions[np.arange(AGENTS), search(slots.codes, actions, transition, reward)]
        return chosen

    found: dict[str, Any] = {
        name: dict(zip(("rate", "length"), success_rate(environments(), choose, episodes)))
        for name, choose in {"random": random, "oracle": best}.items()
    }
    predictors = FactorLearners(list(range(AGENTS)), 3)
    learned = learn(environments(), vision, transition, predictors, rngs, cap=plan.cap, window=plan.window)
    environment = Environment(0)
    actions = np.random.default_rng(0).random((5000, 4))
    started = time.process_time()
    for action in actions:
        environment.step(action)
    return found | {
        "learned": {"steps": learned.steps.tolist(), "censored": int(learned.censored.sum())},
        "steps_per_second": len(actions) / (time.process_time() - started),
    }
