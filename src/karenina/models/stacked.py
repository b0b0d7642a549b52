"""Layers of k networks of one shape, computed together: every array has the network as its first axis."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """k fully connected layers in one product: (k, n, inputs) -> (k, n, outputs).

    Weights are drawn as torch draws those of `nn.Linear`, network i from generators[i] alone, so that a network does
    not depend on those beside it.
    """

    def __init__(self, inputs: int, outputs: int, generators: list[torch.Generator]):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        weights = [torch.empty(inputs, outputs).uniform_(-bound, bound, generator=g) for g in generators]
        biases = [torch.empty(1, outputs).uniform_(-bound, bound, generator=g) for g in generators]
        self.weight, self.bias = nn.Parameter(torch.stack(weights)), nn.Parameter(torch.stack(biases))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class StackedMLP(nn.Module):
    """k fully connected networks with ReLU between layers: (k, n, widths[0]) -> (k, n, widths[-1])."""

    def __init__(self, widths: tuple[int, ...], generators: list[torch.Generator]):
        super().__init__()
        self.layers = nn.ModuleList(StackedLinear(a, b, generators) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu_()
        return self.layers[-1](x)


def generators(seeds: list[int]) -> list[torch.Generator]:
    """One generator per network."""
    return [torch.Generator().manual_seed(seed) for seed in seeds]
