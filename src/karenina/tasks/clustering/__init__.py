"""The clustering task of COBRA (Watters et al. 2019): an agent learns to group sprites by colour.

>>> from karenina.tasks.clustering import Environment
>>> environment = Environment(seed=0)
>>> step = environment.reset()
>>> x, y = step.observation[0, :2]                        # click the first sprite, move it to the right
>>> step = environment.step([x, y, 1.0, 0.5])
>>> step.reward < 0, environment.render(side=32).shape
(True, (3, 32, 32))
"""

from karenina.tasks.clustering.agent import Learning, Slots, clicks, learn, random_actions, search, steps_to_success
from karenina.tasks.clustering.environment import Environment, TimeStep, davies_bouldin
from karenina.tasks.clustering.oracle import OracleVision, TrueReward, TrueTransition
from karenina.tasks.clustering.sprites import (
    FACTORS,
    HUES,
    SHAPES,
    animation,
    clicked,
    random_sprites,
    render,
    render_with_masks,
)

__all__ = [
    "FACTORS",
    "HUES",
    "SHAPES",
    "Environment",
    "Learning",
    "OracleVision",
    "Slots",
    "TimeStep",
    "TrueReward",
    "TrueTransition",
    "animation",
    "clicked",
    "clicks",
    "davies_bouldin",
    "learn",
    "random_actions",
    "random_sprites",
    "render",
    "render_with_masks",
    "search",
    "steps_to_success",
]
