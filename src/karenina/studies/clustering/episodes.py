"""Episodes of a clustering study as animations: an agent that knows everything, and agents that learned the reward from
the vision models that needed the fewest and the most steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from karenina.studies.clustering.files import write_json
from karenina.studies.clustering.study import Study
from karenina.studies.clustering.teaching import teach
from karenina.tasks.clustering import (
    Environment,
    OracleVision,
    TrueReward,
    TrueTransition,
    animation,
    random_actions,
    search,
)
from karenina.tasks.clustering.agent import Reward, Transition, Vision

CANDIDATES = 64


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
