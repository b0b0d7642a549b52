"""A model-based agent in the manner of COBRA (Watters et al. 2019), on arrays: the networks are given to it as objects.

It sees a scene as a set of slots, explores by clicks inside their masks, and chooses the action whose predicted slots
have the highest predicted reward. Only the reward predictor learns. Many agents are stepped together, so that networks
see batches; each has its own environment and generator. Where the papers are silent the choices are ours: actions are
drawn afresh at each step, a share of them is random, and rewards are learned from all steps so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.checks import positive_integer
from karenina.tasks.clustering.environment import Environment

Floats = NDArray[np.floating[Any]]


class Slots(NamedTuple):
    """What n agents see: codes (n, slots, latents), and masks (n, slots, side, side), which may leave pixels out."""

    codes: Floats
    masks: Floats


class Vision(Protocol):
    def see(self, scenes: Floats) -> Slots:
        """Scenes (n, sprites, 7), which all but an oracle render first."""


class Transition(Protocol):
    def predict(self, codes: Floats, actions: Floats) -> Floats:
        """Codes (n, slots, latents) after each of the actions (n, a, 4): (n, a, slots, latents)."""


class Reward(Protocol):
    def predict(self, codes: Floats) -> Floats:
        """Rewards (n, a) of codes (n, a, slots, latents)."""

    def learn(self, codes: Floats, rewards: Floats) -> None:
        """One update of each of n predictors on codes (n, b, slots, latents) and rewards (n, b)."""


@dataclass(frozen=True)
class Learning:
    """n agents' learning: environment steps to success, the cap where censored, and all episodes of each agent as rows
    (last step, 1 for success)."""

    steps: NDArray[np.int64]
    censored: NDArray[np.bool_]
    episodes: list[NDArray[np.int64]]


def clicks(masks: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Points (count, 2) inside masks (slots, side, side): a slot at random, then one of the pixels that are mostly its
    own. A slot without pixels is never chosen."""
    slots, side = masks.shape[0], masks.shape[-1]
    weights = masks.reshape(slots, -1) > 0.5
    owners = np.flatnonzero(weights.any(axis=1))
    if not len(owners):
        return rng.random((count, 2))
    ends = np.cumsum(weights.sum(axis=1))
    slot = rng.choice(owners, size=count)
    size = weights.sum(axis=1)[slot]
    place = ends[slot] - size + (rng.random(count) * size).astype(int)
    pixel = np.flatnonzero(weights)[place] % side**2
    return (np.stack([pixel % side, pixel // side], axis=1) + rng.random((count, 2))) / side


def random_actions(masks: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Actions (count, 4): a click inside a mask and any direction."""
    return np.concatenate([clicks(masks, count, rng), rng.random((count, 2))], axis=1)


def search(codes: Floats, actions: Floats, transition: Transition, reward: Reward) -> NDArray[np.int64]:
    """Index (n,) of the best of each agent's actions (n, a, 4), one step ahead. Ties: the first."""
    return np.argmax(reward.predict(transition.predict(codes, actions)), axis=1)


def learn(
    environments: Sequence[Environment],
    vision: Vision,
    transition: Transition,
    reward: Reward,
    rngs: Sequence[np.random.Generator],
    *,
    cap: int = 3000,
    window: int = 20,
    level: float = 0.9,
    candidates: int = 64,
    warmup: int = 50,
    explore: float = 0.1,
    batch: int = 64,
    updates: int = 1,
    group: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Learning:
    """Let each agent learn until a share `level` of its last `window` episodes succeeded, at most `cap` steps.

    The first `warmup` actions are random, then a share `explore`; all others are the best of `candidates`. After every
    step the reward predictors make `updates` updates on `batch` of the steps so far. Codes that are not finite raise.

    group: of this many neighbours that have all learned no more is asked: vision and transition get `keep(groups)`, the
    numbers of the groups that stay, the reward predictors `keep(agents)`. It saves time and changes nothing else.
    """
    for name, value in {"cap": cap, "window": window, "candidates": candidates, "batch": batch}.items():
        positive_integer(value, name)
    if not 0 < level <= 1:
        raise ValueError(f"level must be above 0 and at most 1, got {level}")
    agents = list(range(len(environments)))  # that are stepped still
    for environment in environments:
        environment.reset()
    slots = _see(vision, environments, agents)
    memory = np.empty((len(environments), cap, *slots.codes.shape[1:]), np.float32)
    rewards = np.empty((len(environments), cap), np.float32)
    episodes: list[list[tuple[int, int]]] = [[] for _ in agents]
    learning = set(agents)
    for t in range(cap):
        actions = np.stack([random_actions(slots.masks[row], candidates, rngs[i]) for row, i in enumerate(agents)])
        best = search(slots.codes, actions, transition, reward)
        fresh = []
        for row, i in enumerate(agents):
            chance = rngs[i].random()
            if i not in learning:
                continue
            choice = 0 if t < warmup or chance < explore else best[row]
            step = environments[i].step(actions[row, choice])
            rewards[i, t] = step.reward
            if step.last():
                episodes[i].append((t + 1, int(step.discount == 0)))
                fresh.append(i)
        slots = _see(vision, environments, agents)
        memory[agents, t] = slots.codes
        for i in fresh:
            environments[i].reset()
            if steps_to_success(np.array(episodes[i]), window, level) is not None:
                learning.discard(i)
        if not learning:
            break
        if fresh:
            if group is not None:
                agents = _kept(agents, learning, group, vision, transition, reward)
            slots = _see(vision, environments, agents)
        those = np.array(agents)[:, None]
        for _ in range(updates):
            rows = np.stack([rngs[i].integers(t + 1, size=batch) for i in agents])
            reward.learn(memory[those, rows], rewards[those, rows])
        if progress is not None:
            progress(t + 1, len(learning))
    tables = [np.array(rows, np.int64).reshape(-1, 2) for rows in episodes]
    found = [steps_to_success(table, window, level) for table in tables]
    steps = np.array([cap if steps is None else steps for steps in found], np.int64)
    return Learning(steps, np.array([steps is None for steps in found]), tables)


def _kept(agents: list[int], learning: set[int], group: int, vision: Any, transition: Any, reward: Any) -> list[int]:
    """The agents without those of groups that have learned."""
    groups = [agents[start : start + group] for start in range(0, len(agents), group)]
    staying = [j for j, members in enumerate(groups) if learning & set(members)]
    if len(staying) == len(groups):
        return agents
    vision.keep(staying)
    transition.keep(staying)
    reward.keep([j * group + i for j in staying for i in range(group)])
    return [i for j in staying for i in groups[j]]


def _see(vision: Vision, environments: Sequence[Environment], agents: Sequence[int]) -> Slots:
    slots = vision.see(np.stack([environments[i].scene for i in agents]))
    if not np.isfinite(slots.codes).all():
        raise ValueError("the vision model gives codes that are not finite")
    return slots


def steps_to_success(episodes: NDArray[np.int64], window: int, level: float) -> int | None:
    """First step by which a share `level` of the last `window` episodes succeeded; episodes: rows (last step, success).

    >>> steps_to_success(np.array([[50, 0], [60, 1], [70, 1]]), window=2, level=0.9)
    70
    """
    if len(episodes) < window:
        return None
    total = np.concatenate([[0], np.cumsum(episodes[:, 1])])
    reached = np.flatnonzero(total[window:] - total[:-window] >= level * window - 1e-9)
    return int(episodes[reached[0] + window - 1, 0]) if len(reached) else None


def success_rate(
    environments: Sequence[Environment], choose: Callable[[Floats], Floats], episodes: int
) -> tuple[float, float]:
    """Share of successes and mean length of at least `episodes` episodes in all; choose: scenes -> actions (n, 4)."""
    for environment in environments:
        environment.reset()
    started = np.zeros(len(environments), int)
    lengths: list[int] = []
    successes = 0
    while len(lengths) < episodes:
        actions = choose(np.stack([environment.scene for environment in environments]))
        started += 1
        for i, environment in enumerate(environments):
            step = environment.step(actions[i])
            if step.last():
                lengths.append(int(started[i]))
                successes += step.discount == 0
                started[i] = 0
                environment.reset()
    return successes / len(lengths), float(np.mean(lengths))
