"""An agent that learns to group sprites by colour: how it sees, imagines, searches and learns (Watters et al. 2019)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina.models.fast import Adam
from karenina.models.stacked import StackedMLP, generators
from karenina.numerics.checks import positive_integer
from karenina.papers.duan2020.clustering.world import (
    HUE,
    HUES,
    Environment,
    inside,
    members,
    quality_of,
    render_with_masks,
    reward_of,
)

Floats = NDArray[np.floating[Any]]


class TransitionModels(nn.Module):
    """k models of what an action does to one slot: codes (k, n, latents) and actions (k, n, 4) -> codes after it.

    A slot is moved or not whatever the other slots are, so each is predicted alone. The networks predict the change.
    """

    def __init__(self, seeds: list[int], latents: int, units: int = 128):
        super().__init__()
        self.layers = StackedMLP((latents + 4, units, units, latents), generators(seeds))

    @property
    def models(self) -> int:
        return len(next(self.parameters()))

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return codes + self.layers(torch.cat([codes, 4 * actions - 2], dim=2))


class RewardPredictors(nn.Module):
    """k predictors of the reward of a set of slots: codes (k, n, slots, latents) -> (k, n), whatever the slots' order.

    The reward is about pairs (which two are alike, and how far apart), so a network looks at every pair of different
    slots both ways round, its outputs are averaged, and a second network reads the mean.
    """

    def __init__(self, seeds: list[int], latents: int, units: int = 64):
        super().__init__()
        drawn = generators(seeds)
        self.pair = StackedMLP((2 * latents, units, units), drawn)
        self.total = StackedMLP((units, units, 1), drawn)

    def forward(self, codes: Tensor) -> Tensor:
        k, n, slots, latents = codes.shape
        first, second = (~torch.eye(slots, dtype=torch.bool)).nonzero().T
        pairs = torch.cat([codes[:, :, first], codes[:, :, second]], dim=3)
        seen = self.pair(pairs.reshape(k, -1, 2 * latents)).relu().reshape(k, n, len(first), -1)
        return self.total(seen.mean(2))[..., 0]


class RewardLearners:
    """k predictors with their optimiser, on numpy arrays: what `karenina.papers.duan2020.clustering.agent.learn` wants.

    Rewards are divided by `scale`, and those above `most` count as that: beyond success more is no better.
    """

    def __init__(
        self,
        seeds: list[int],
        latents: int,
        *,
        learning_rate: float = 1e-3,
        units: int = 64,
        scale: float = 5.0,
        most: float = 5.0,
    ):
        self.network = RewardPredictors(seeds, latents, units)
        self.optimiser = Adam(self.network.parameters(), learning_rate)
        self.scale, self.most = scale, most

    @torch.no_grad()
    def predict(self, codes: Floats) -> Floats:
        return self.network(torch.from_numpy(codes).float()).numpy() * self.scale

    def keep(self, predictors: list[int]) -> None:
        """Keep these predictors alone."""
        for parameter, state in zip(self.optimiser.parameters, self.optimiser.state):
            parameter.data = parameter.data[predictors]
            parameter.grad = None
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = state[name][predictors]

    def learn(self, codes: Floats, rewards: Floats) -> None:
        wanted = torch.from_numpy(rewards).float().clamp(max=self.most) / self.scale
        loss = ((self.network(torch.from_numpy(codes).float()) - wanted) ** 2).mean(1).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


class Slots(NamedTuple):
    """What n agents see: codes (n, slots, latents), and masks (n, slots, side, side), which may leave pixels out."""

    codes: Floats
    masks: Floats


class Vision(Protocol):
    def see(self, scenes: Floats) -> Slots:
        """Return what agents see in scenes (n, sprites, 7), which all but an oracle render first."""


class Transition(Protocol):
    def predict(self, codes: Floats, actions: Floats) -> Floats:
        """Return codes (n, slots, latents) after each of the actions (n, a, 4): (n, a, slots, latents)."""


class Reward(Protocol):
    def predict(self, codes: Floats) -> Floats:
        """Return rewards (n, a) of codes (n, a, slots, latents)."""

    def learn(self, codes: Floats, rewards: Floats) -> None:
        """Make one update of each of n predictors on codes (n, b, slots, latents) and rewards (n, b)."""


@dataclass(frozen=True)
class Learning:
    """n agents' learning: environment steps to success, the cap where censored, and all episodes of each agent as rows
    (last step, 1 for success)."""

    steps: NDArray[np.int64]
    censored: NDArray[np.bool_]
    episodes: list[NDArray[np.int64]]


def clicks(masks: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return points (count, 2) inside masks (slots, side, side): a slot at random, then one of the pixels that are
    mostly its own. A slot without pixels is never chosen."""
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
    """Return actions (count, 4): a click inside a mask and any direction."""
    return np.concatenate([clicks(masks, count, rng), rng.random((count, 2))], axis=1)


def search(codes: Floats, actions: Floats, transition: Transition, reward: Reward) -> NDArray[np.int64]:
    """Return the index (n,) of the best of each agent's actions (n, a, 4), one step ahead. Ties: the first."""
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
    """Train each agent until a share `level` of its last `window` episodes succeeded, at most `cap` steps.

    The first `warmup` actions are random, then a share `explore`; all others are the best of `candidates`. After every
    step the reward predictors make `updates` updates on `batch` of the steps so far. Codes that are not finite raise.

    group: of this many neighbours that have all learned no more is asked: vision and transition get `keep(groups)`, the
    numbers of the groups that stay, the reward predictors `keep(agents)`. It saves time and changes nothing else.
    """
    for name, value in {"cap": cap, "window": window, "candidates": candidates, "batch": batch}.items():
        positive_integer(value, name)
    if not 0 < level <= 1:
        raise ValueError(f"level must be above 0 and at most 1, got {level}")
    agents = list(range(len(environments)))  # those that still take steps
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
    """Return the agents that remain: groups whose members have all learned are left out."""
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
    """Return the first step by which a share `level` of the last `window` episodes succeeded; episodes: rows (last
    step, success).

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
    """Return the share of successes and mean length of at least `episodes` episodes in all; choose: scenes -> actions
    (n, 4)."""
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
