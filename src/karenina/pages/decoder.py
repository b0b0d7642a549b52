"""A run's decoder as numbers that a page can carry: its layers by name, and its weights in half precision.

The page runs it with assets/decoder.js. Images are kept there as (height, width, channels), which is how the networks
lay out their fully connected layers, too (karenina.models.networks.Unflatten), so that nothing has to be turned round.
"""

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from karenina.models.networks import Unflatten

if TYPE_CHECKING:
    from karenina.training import Run

_ENDS = {"bernoulli": "sigmoid", "gaussian": "clamp"}


def size(run: "Run") -> int:
    """How many bytes `export` adds to a page."""
    return sum(parameter.numel() for parameter in run._network.decoder.parameters()) * 2 * 4 // 3


def export(run: "Run") -> dict[str, Any] | None:
    """{"shape": [h, w, c], "layers": [...], "weights": base64 of little-endian float16}; None for the residual network,
    which is too large for a page.

    A layer is {"kind": ...}. "dense" has inputs and outputs, then weights (inputs, outputs) and a bias; "up" (a 4x4
    up-convolution of stride 2) has inputs and outputs, then weights (inputs, 4, 4, outputs) and a bias.
    """
    layers: list[dict[str, Any]] = []
    weights: list[NDArray[np.float32]] = []
    for layer in run._network.decoder.children():
        if isinstance(layer, nn.Linear):
            layers.append({"kind": "dense", "inputs": layer.in_features, "outputs": layer.out_features})
            weights += [_array(layer.weight).T, _array(layer.bias)]
        elif isinstance(layer, nn.ConvTranspose2d):
            layers.append({"kind": "up", "inputs": layer.in_channels, "outputs": layer.out_channels})
            weights += [_array(layer.weight).transpose(0, 2, 3, 1), _array(layer.bias)]
        elif isinstance(layer, nn.ReLU | nn.Tanh):
            layers.append({"kind": type(layer).__name__.lower()})
        elif isinstance(layer, Unflatten):
            c, h, w = layer.shape
            layers.append({"kind": "image", "height": h, "width": w, "channels": c})
        else:
            return None
    layers.append({"kind": _ENDS[run.config.decoder]})
    flat = np.concatenate([part.ravel() for part in weights])
    # Half precision ends at 65504; a weight beyond that would become infinite.
    halves = np.clip(flat, -65504, 65504).astype("<f2")
    c, h, w = run.config.image_shape
    return {"shape": [h, w, c], "layers": layers, "weights": base64.b64encode(halves.tobytes()).decode()}


def _array(parameter: Any) -> NDArray[np.float32]:
    found: NDArray[np.float32] = parameter.detach().cpu().numpy()
    return found
