"""The networks of a model-based agent in the manner of COBRA (Watters et al. 2019), many of them as one stack.

The papers do not print them all, so these are our choice: fully connected, ReLU, one hidden width.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina.models.fast import Adam
from karenina.models.stacked import StackedMLP, generators

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
    """k predictors with their optimiser, on numpy arrays: what `karenina.tasks.clustering.learn` wants.

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
        """Go on with these alone."""
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
