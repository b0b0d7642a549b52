"""Initial weights, by name: torch, glorot or he.

"torch" leaves what torch draws: weights and biases uniform on [-b, b] with b = sqrt(1 / inputs), so that a layer of
ReLUs passes on a sixth of the variance that it is given. The others have biases of 0 and a larger b.
"""

import math

from torch import nn

from karenina._words import hint

INITS: tuple[str, ...] = ("torch", "glorot", "he")

Layer = nn.Linear | nn.Conv2d | nn.ConvTranspose2d


def initialise(module: nn.Module, init: str) -> None:
    """Draw the weights of every layer, in the order of the layers, from torch's global generator."""
    if init not in INITS:
        raise ValueError(f"no init {init!r}; {hint(init, INITS)}")
    if init == "torch":
        return
    for layer in module.modules():
        if isinstance(layer, Layer):
            limit = bound(layer, init)
            nn.init.uniform_(layer.weight, -limit, limit)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def bound(layer: Layer, init: str) -> float:
    """b of the uniform distribution.

    glorot: sqrt(6 / (inputs + outputs)), Glorot & Bengio (2010), equation 16, counted as TensorFlow does.
    he: sqrt(6 / inputs), He et al. (2015), equation 10, where inputs are those that one output adds up.
    """
    if isinstance(layer, nn.Linear):
        inputs, outputs = float(layer.in_features), float(layer.out_features)
    else:
        taps = math.prod(layer.kernel_size)
        inputs, outputs = float(taps * layer.in_channels), float(taps * layer.out_channels)
    if init == "glorot":
        return math.sqrt(6 / (inputs + outputs))
    if isinstance(layer, nn.ConvTranspose2d):  # its stride spreads the taps over several outputs
        inputs /= math.prod(layer.stride)
    return math.sqrt(6 / inputs)
