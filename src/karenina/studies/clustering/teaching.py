"""Agents of the clustering study learn the task."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from karenina.models.cobra import RewardLearners
from karenina.studies.clustering.slots import SlotTransition, SlotVision, part_of
from karenina.studies.clustering.study import Study
from karenina.tasks.clustering import Environment, Learning, learn


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
        progress=_progress(study, models),
    )
    return found, agents


def _progress(study: Study, models: list[int]) -> Callable[[int, int], None]:
    def show(step: int, learning: int) -> None:
        if step % 100 == 0:
            study.say(f"agents {step}/{study.plan.cap} of models {models}: {learning} still learning")

    return show
