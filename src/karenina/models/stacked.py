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
from torch.autograd.function import once_differentiable


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
    parameters : name -> leaf tensor (k, ...).

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
        every = [dict(module.named_parameters()) for module in modules]
        self.parameters: dict[str, nn.Parameter] = {}
        for name in every[0]:
            self.parameters[name] = nn.Parameter(torch.stack([one[name].detach() for one in every]).to(device))

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
            return linear(x, self.parameters[f"{prefix}weight"], self.parameters[f"{prefix}bias"])
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
        """The parameters of a part of the template by their names in it, (k, ...)."""
        name = self.names[id(module)]
        prefix = f"{name}." if name else ""
        return {key.removeprefix(prefix): value for key, value in self.parameters.items() if key.startswith(prefix)}

    def each(self) -> list[dict[str, Tensor]]:
        """The parameters of every module, through which gradients flow back to the stack."""
        parts = {name: value.unbind() for name, value in self.parameters.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(len(self))]

    def one(self, i: int) -> dict[str, Tensor]:
        """The parameters of module i, as its own `state_dict`."""
        return {name: value[i].detach().clone() for name, value in self.parameters.items()}


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """k fully connected layers: x (k, n, inputs), weight (k, outputs, inputs), bias (k, outputs) -> (k, n, outputs)."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
    return _Linear.apply(x, weight, bias)


class _Linear(torch.autograd.Function):
    """The products that `nn.Linear` computes, in its order of factors, so that each layer's are the same to the bit."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        grad_x = torch.bmm(grad, weight) if ctx.needs_input_grad[0] else None
        return grad_x, torch.bmm(grad.transpose(1, 2), x), grad.sum(1)


@contextmanager
def with_parameters(module: nn.Module, parameters: Mapping[str, Tensor]) -> Iterator[nn.Module]:
    """The module with these in place of its own parameters, for as long as the block runs: all its methods see them."""
    with torch.nn.utils.stateless._reparametrize_module(module, dict(parameters)):
        yield module
