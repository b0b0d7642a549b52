"""Layers of k networks of one shape, computed together: every array has the network as its first axis."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from karenina.models.fast import UpConv


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
    """Return a generator for each network."""
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
        """Apply `module`, which is the template or a part of it, to x (k, ...): network i to x[i]."""
        if isinstance(module, nn.Sequential):
            for dense, run in groupby(module, _is_dense):
                layers = list(run)
                if dense and _alternate(layers) and not torch.is_autocast_enabled(x.device.type):
                    x = self._dense(layers, x)
                else:
                    for layer in layers:
                        x = self(layer, x)
            return x
        if type(module) is nn.Linear and module.bias is not None:
            return torch.baddbmm(self._of(module, "bias").unsqueeze(1), x, self._of(module, "weight").transpose(1, 2))
        if isinstance(module, nn.ReLU | nn.LeakyReLU | nn.Tanh):
            return module(x)
        if _is_plain(module):
            return self._convolution(module, x)
        parameters = self.within(module)
        if not parameters:  # A mere change of shape takes one batch of k * n rows.
            return module(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return torch.func.vmap(partial(torch.func.functional_call, module))(parameters, (x,))

    def _dense(self, layers: Sequence[nn.Module], x: Tensor) -> Tensor:
        """Compute fully connected layers and activations in a row, as one function."""
        kinds = tuple(type(layer) for layer in layers)
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        return _Dense.apply(kinds, x, *(self._of(layer, key) for layer in linear for key in ("weight", "bias")))

    def _of(self, module: nn.Module, key: str) -> nn.Parameter:
        name = self.names[id(module)]
        return self.parameters[f"{name}.{key}" if name else key]

    def _convolution(self, module: Any, x: Tensor) -> Tensor:
        """Compute k convolutions as one, in k groups of channels."""
        weight, bias = (self._of(module, key).flatten(0, 1) for key in ("weight", "bias"))
        apply: Any = nn.functional.conv_transpose2d if isinstance(module, nn.ConvTranspose2d) else nn.functional.conv2d
        k = len(x)
        y = apply(x.transpose(0, 1).flatten(1, 2), weight, bias, stride=module.stride, padding=module.padding, groups=k)
        return y.unflatten(1, (k, -1)).transpose(0, 1)

    def within(self, module: nn.Module) -> dict[str, Tensor]:
        """Return the parameters of a part of the template by their names in it, (k, ...)."""
        name = self.names[id(module)]
        prefix = f"{name}." if name else ""
        return {key.removeprefix(prefix): value for key, value in self.parameters.items() if key.startswith(prefix)}

    def each(self) -> list[dict[str, Tensor]]:
        """Return the parameters of every module, through which gradients flow back to the stack."""
        parts = {name: value.unbind() for name, value in self.parameters.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(len(self))]

    def one(self, i: int) -> dict[str, Tensor]:
        """Return the parameters of module i, as its own `state_dict`."""
        return {name: value[i].detach().clone() for name, value in self.parameters.items()}


def _is_dense(layer: nn.Module) -> bool:
    """Return whether `_Dense` computes this layer: exact types only, as derived ones may compute something else."""
    return type(layer) in (nn.ReLU, nn.Tanh) or (type(layer) is nn.Linear and layer.bias is not None)


def _alternate(layers: Sequence[nn.Module]) -> bool:
    """Return whether no two activations follow each other: the derivative of the first needs what the second
    overwrites."""
    return all(type(one) is nn.Linear or type(next_one) is nn.Linear for one, next_one in pairwise(layers))


def _is_plain(layer: nn.Module) -> bool:
    """Return whether it is a convolution with a bias and no options but stride and padding; others are left to vmap."""
    if type(layer) not in (nn.Conv2d, nn.ConvTranspose2d, UpConv):
        return False
    options: Any = layer
    plain = options.dilation == (1, 1) and options.groups == 1 and options.padding_mode == "zeros"
    return plain and options.output_padding == (0, 0) and options.bias is not None


class _Dense(torch.autograd.Function):
    """k networks of fully connected layers (k, n, inputs) -> (k, n, outputs), with their derivatives written out.

    The products and the order of their factors are those of `nn.Linear`, so that each network's are the same to the
    bit; what is saved is the tape, and a copy wherever a result can be overwritten.
    """

    @staticmethod
    def forward(ctx: Any, kinds: tuple[type[nn.Module], ...], x: Tensor, *weights: Tensor) -> Tensor:
        inputs, pairs = [], iter(zip(weights[::2], weights[1::2]))
        for kind in kinds:
            if kind is nn.Linear:
                weight, bias = next(pairs)
                inputs.append(x)
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
            else:
                # The product before it may be changed in place; what came from outside may not.
                ours = x if inputs else x.clone()
                x = ours.relu_() if kind is nn.ReLU else ours.tanh_()
        ctx.kinds = kinds
        ctx.save_for_backward(x, *inputs, *weights[::2])
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        y, *kept = ctx.saved_tensors
        inputs, weights = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        found: list[Tensor] = []
        ours = False  # the gradient that is given must not be overwritten
        for kind in reversed(ctx.kinds):
            if kind is nn.Linear:
                y, weight = inputs.pop(), weights.pop()
                found += [grad.sum(1), torch.bmm(grad.transpose(1, 2), y)]
                if inputs or ctx.needs_input_grad[1]:
                    grad, ours = torch.bmm(grad, weight), True
            elif kind is nn.ReLU:
                out = grad if ours else torch.empty_like(grad)
                grad = torch.ops.aten.threshold_backward.grad_input(grad, y, 0.0, grad_input=out)
            else:
                out = grad if ours else torch.empty_like(grad)
                grad = torch.ops.aten.tanh_backward.grad_input(grad, y, grad_input=out)
        return None, grad if ctx.needs_input_grad[1] else None, *reversed(found)


def bernoulli(x: Tensor, logits: Tensor) -> Tensor:
    """Return -log p(x|z) of independent Bernoulli pixels for each of k networks, mean over n images: (k, n, ...) ->
    (k,)."""
    return _Bernoulli.apply(x, logits)


_FACTORS = 32  # The product of so many factors of 1/2 or more is far from the smallest float.


class _Bernoulli(torch.autograd.Function):
    """The sum of softplus(logit) - x logit: log(1 + e^-|logit|) is -log p of the likelier value, and the logarithm of
    32 such p is taken at once. Twice as fast as binary_cross_entropy_with_logits, and the same gradient to the bit."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, logits: Tensor) -> Tensor:
        k, n = x.shape[:2]
        p = logits.sigmoid()
        ctx.save_for_backward(p - x)
        size = math.gcd(p[0].numel(), _FACTORS)
        likelier = torch.maximum(p, 1 - p, out=p).reshape(k, -1, size).prod(2)
        linear = (logits.relu() - logits * x).reshape(k, -1).sum(1)
        return (linear - likelier.log_().sum(1)) / n

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (difference,) = ctx.saved_tensors
        each = (grad / difference.shape[1]).reshape(-1, *(1 for _ in difference.shape[1:]))
        return None, difference.mul_(each)


@contextmanager
def with_parameters(module: nn.Module, parameters: Mapping[str, Tensor]) -> Iterator[nn.Module]:
    """Give a module these parameters in place of its own inside the block, so that all its methods use them."""
    with torch.nn.utils.stateless._reparametrize_module(module, dict(parameters)):
        yield module


class ModuleWithParameters:
    """A module with other parameters than its own: its methods, and itself when called, use these."""

    def __init__(self, module: nn.Module, parameters: Mapping[str, Tensor]):
        self._module, self._parameters = module, parameters

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with with_parameters(self._module, self._parameters) as module:
            return module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found):
            return self._parameters.get(name, found)

        def bound(*args: Any, **kwargs: Any) -> Any:
            with with_parameters(self._module, self._parameters):
                return found(*args, **kwargs)

        return bound
