"""Layers of k networks of one shape, computed together: every array has the network as its first axis."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

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


class Stack:
    """k modules of one structure, each with weights of its own, as one: every parameter has the module as first axis.

    Parameters
    ----------
    modules : k modules with equal layers and no buffers (batch normalisation has some).

    Attributes
    ----------
    parameters : name -> leaf tensor (k, ...). Weights of fully connected layers are kept as (k, inputs, outputs), so
        that they and their gradients are what a batched product takes and gives.

    >>> one, two = nn.Linear(3, 2), nn.Linear(3, 2)
    >>> stack = Stack([one, two])
    >>> y = stack(stack.template, torch.ones(2, 5, 3))  # (k, n, inputs) -> (k, n, outputs)
    >>> bool(torch.allclose(y[1], two(torch.ones(5, 3))))
    True
    """

    def __init__(self, modules: Sequence[nn.Module]):
        if any(True for _ in modules[0].buffers()):
            raise ValueError(f"{type(modules[0]).__name__} has buffers, which cannot be stacked")
        device = next(modules[0].parameters()).device
        self.template = copy.deepcopy(modules[0]).to("meta")
        self.names = {id(layer): name for name, layer in self.template.named_modules()}
        self.turned = {f"{n}.weight".lstrip(".") for n, m in self.template.named_modules() if isinstance(m, nn.Linear)}
        every = [dict(module.named_parameters()) for module in modules]
        self.parameters: dict[str, nn.Parameter] = {}
        for name in every[0]:
            stacked = torch.stack([self._turn(name, one[name].detach()) for one in every]).to(device).contiguous()
            self.parameters[name] = nn.Parameter(stacked)

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __call__(self, module: nn.Module, x: Tensor) -> Tensor:
        """`module`, which is the template or a part of it, applied to x (k, ...): network i to x[i]."""
        if isinstance(module, nn.Sequential):
            for layer in module:
                x = self(layer, x)
            return x
        if isinstance(module, nn.Linear):
            name = self.names[id(module)]
            prefix = f"{name}." if name else ""
            return torch.baddbmm(self.parameters[f"{prefix}bias"].unsqueeze(1), x, self.parameters[f"{prefix}weight"])
        if isinstance(module, nn.ReLU | nn.LeakyReLU | nn.Tanh):
            return module(x)
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            return self._convolution(module, x)
        parameters = self.within(module)
        if not parameters:  # a change of shape: one batch of k * n rows
            return module(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return torch.func.vmap(partial(torch.func.functional_call, module))(parameters, (x,))

    def _convolution(self, module: nn.Conv2d | nn.ConvTranspose2d, x: Tensor) -> Tensor:
        """As one convolution in k groups of channels."""
        name = self.names[id(module)]
        weight, bias = (self.parameters[f"{name}.{key}"].flatten(0, 1) for key in ("weight", "bias"))
        apply: Any = nn.functional.conv_transpose2d if isinstance(module, nn.ConvTranspose2d) else nn.functional.conv2d
        k = len(x)
        y = apply(x.transpose(0, 1).flatten(1, 2), weight, bias, stride=module.stride, padding=module.padding, groups=k)
        return y.unflatten(1, (k, -1)).transpose(0, 1)

    def within(self, module: nn.Module) -> dict[str, Tensor]:
        """The parameters of a part of the template by their names in it, as its layers want them, (k, ...)."""
        name = self.names[id(module)]
        prefix = f"{name}." if name else ""
        return {
            key.removeprefix(prefix): self._turn(key, value)
            for key, value in self.parameters.items()
            if key.startswith(prefix)
        }

    def one(self, i: int) -> dict[str, Tensor]:
        """The parameters of module i, as its own `state_dict`."""
        return {name: self._turn(name, value[i]).detach().clone() for name, value in self.parameters.items()}

    def _turn(self, name: str, value: Tensor) -> Tensor:
        return value.transpose(-1, -2) if name in self.turned else value


@contextmanager
def with_parameters(module: nn.Module, parameters: Mapping[str, Tensor]) -> Iterator[nn.Module]:
    """The module with these in place of its own parameters, for as long as the block runs: all its methods see them."""
    with torch.nn.utils.stateless._reparametrize_module(module, dict(parameters)):
        yield module
