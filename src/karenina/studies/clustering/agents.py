"""Agents of the clustering study: they learn the task, episodes of theirs are animated, and references bound them."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from karenina.models.cobra import RewardLearners
from karenina.studies.clustering.files import write_json
from karenina.studies.clustering.plan import Plan
from karenina.studies.clustering.slots import SlotTransition, SlotVision, part_of
from karenina.studies.clustering.study import Study
from karenina.tasks.clustering import (
    Environment,
    Learning,
    OracleVision,
    TrueReward,
    TrueTransition,
    animation,
    learn,
    random_actions,
    search,
)
from karenina.tasks.clustering.agent import Floats, Reward, Transition, Vision, success_rate

CANDIDATES = 64
AGENTS = 20


class Agents(NamedTuple):
    """What agents see, expect and hope for."""

    vision: SlotVision
    transition: SlotTransition
    reward: RewardLearners


def teach(study: Study, names: list[tuple[int, int]]) -> tuple[Learning, Agents]:
    """Let agents learn, named by (model, initialisation), those of a model being neighbours and equally many."""
    plan = study.plan
    models = list(dict.fromkeys(model for model, _ in names))
    drawn = [(plan.seed, plan.first + model, i) for model, i in names]
    seeds = [int(np.random.default_rng([*name, 1]).integers(2**31)) for name in drawn]
    centre, scale = study.scaling

    def show(step: int, learning: int) -> None:
        if step % 100 == 0:
            study.say(f"agents {step}/{plan.cap} of models {models}: {learning} still learning")

    agents = Agents(
        SlotVision(study.look, study.cut, part_of(study.components[0], models), centre[models], scale[models]),
        SlotTransition(part_of(study.transitions, models)),
        RewardLearners(seeds, plan.latents),
    )
    found = learn(
        [Environment(np.random.default_rng([*name, 0]), scale=plan.scale) for name in drawn],
        *agents,
        [np.random.default_rng([*name, 2]) for name in drawn],
        cap=plan.cap,
        window=plan.window,
        updates=plan.updates,
        batch=plan.batch,
        group=len(names) // len(models),
        progress=show,
    )
    return found, agents


def play(study: Study, name: str, vision: Vision, transition: Transition, reward: Reward) -> dict[str, Any]:
    """One episode without exploration, as episodes/NAME.gif; how it went."""
    environment = Environment(np.random.default_rng([study.plan.seed, 7]), scale=study.plan.scale)
    rng = np.random.default_rng([study.plan.seed, 8])
    step = environment.reset()
    scenes, clicked = [step.observation], []
    while not step.last():
        slots = vision.see(step.observation[None])
        actions = random_actions(slots.masks[0], CANDIDATES, rng)
        action = actions[search(slots.codes, actions[None], transition, reward)[0]]
        step = environment.step(action)
        scenes.append(step.observation)
        clicked.append(action)
    animation(study.folder / "episodes" / f"{name}.gif", scenes, clicked)
    return {"name": name, "length": len(clicked), "success": bool(step.discount == 0)}


def episodes(study: Study, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Play and animate; episodes.json lists them. The learned agents learn once more, as nothing of theirs is kept."""
    plan = study.plan
    found = [play(study, "oracle", OracleVision(plan.side), TrueTransition(), TrueReward())]
    ranked = sorted(rows, key=lambda row: (row["steps"], row["model"]))
    for name, row in (("fewest_steps", ranked[0]), ("most_steps", ranked[-1])):
        model = row["model"]
        study.say(f"episodes: an agent of model {model} learns")
        learning, agents = teach(study.part(model), [(0, 0)]) if plan.own else teach(study, [(model, 0)])
        about = {"model": model, "beta": row["beta"], "seed": row["seed"], "mean_steps": row["steps"]}
        about |= {"steps": int(learning.steps[0]), "censored": bool(learning.censored[0])}
        found.append(play(study, name, *agents) | about)
    write_json(study.folder / "episodes.json", found)
    return found


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
        actions = np.stack([random_actions(slots.masks[i], CANDIDATES, rngs[i]) for i in range(AGENTS)])
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
