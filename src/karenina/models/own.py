"""Networks of your own: an encoder and a decoder as modules, in place of those that have a name."""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from karenina.models.networks import PREFIX, Autoencoder, Shape, initialise

Made = nn.Module | Callable[[], nn.Module]


class Encoder(nn.Module):
    """A module of the user's as `features` of an Autoencoder: images -> means and log-variances (n, 2 * latents)."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        # Others may call .view, which our layout of images does not allow.
        found = self.module(x.clone(memory_format=torch.contiguous_format))
        return torch.cat(list(found), dim=1) if isinstance(found, tuple | list) else found


class Decoder(nn.Sequential):
    """A module of the user's as the decoder of an Autoencoder."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module


class OwnAutoencoder(Autoencoder):
    """An Autoencoder of two modules of the user's."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        super().__init__(Encoder(encoder), nn.Identity(), Decoder(decoder))

    def first_activations(self, z: Tensor) -> Tensor:
        """Outputs (n, units) of the decoder's first layer with weights."""
        layers = [layer for layer in self.decoder.modules() if next(layer.parameters(recurse=False), None) is not None]
        kept: list[Tensor] = []
        handle = layers[0].register_forward_hook(lambda layer, given, output: kept.append(output))
        try:
            self.decode(z)
        finally:
            handle.remove()
        return kept[0].flatten(1)


@dataclass(frozen=True)
class OwnNetworks:
    """Builds the network of a `Method` from modules, or from functions that make them.

    Modules are copied: each run begins from their weights, and training does not change them. Functions (also classes)
    are called with torch's generator set by the run's seed, so that every seed begins from weights of its own.
    """

    encoder: Made
    decoder: Made

    def __call__(self, name: str, shape: Shape, latents: int, *, init: str = "own") -> OwnAutoencoder:
        model = OwnAutoencoder(_made(self.encoder, "encoder"), _made(self.decoder, "decoder"))
        if init not in ("own", "torch"):
            initialise(model, init)
        return model

    def measure(self, shape: Shape) -> tuple[str, int]:
        """The name of these networks and their number of latents, tried out on images of this shape."""
        with torch.random.fork_rng(devices=[]):
            model = self(PREFIX, shape, 0).cpu().eval()
        layers = [(name, type(layer).__qualname__) for name, layer in model.named_modules()]
        tensors = [(name, tuple(tensor.shape)) for name, tensor in model.state_dict().items()]
        if not any(True for _ in model.parameters()):
            raise ValueError("encoder and decoder have no weights to train")
        images = torch.zeros(2, *shape)
        latents = _tried("encoder", lambda: _latents(model, images))
        if latents is None:
            raise ValueError(
                f"the encoder should give means and log-variances of images {(2, *shape)}: a tensor (2, 2 * latents), "
                f"or two (2, latents); got {_shape(model.features.module, images)}"
            )
        made = _tried("decoder", lambda: model.decode(torch.zeros(2, latents)))
        if not isinstance(made, Tensor) or tuple(made.shape) != (2, *shape):
            found = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise ValueError(f"the decoder should give images {(2, *shape)} of codes (2, {latents}), got {found}")
        mark = hashlib.sha256(repr((layers, tensors)).encode()).hexdigest()[:12]
        SEEN[f"{PREFIX}{mark}"] = self
        return f"{PREFIX}{mark}", latents


# Networks that this process has trained or opened, by name: their runs open again without them.
SEEN: dict[str, OwnNetworks] = {}


def own_networks(encoder: Any, decoder: Any) -> OwnNetworks | None:
    """The user's networks, checked; None if none were given. A decoder may also be the name of a likelihood."""
    if encoder is None and (decoder is None or isinstance(decoder, str)):
        return None
    for name, given, other in (("encoder", encoder, "decoder"), ("decoder", decoder, "encoder")):
        if given is None or isinstance(given, str):
            raise ValueError(f"{other}= is a network of your own, so {name}= must be one, too")
        if not callable(given):
            raise ValueError(f"{name} is a torch module or a function that makes one, got {type(given).__name__}")
    return OwnNetworks(encoder, decoder)


def _made(given: Made, name: str) -> nn.Module:
    module = copy.deepcopy(given) if isinstance(given, nn.Module) else given()
    if not isinstance(module, nn.Module):
        raise ValueError(f"{name} should be a torch module or make one, got {type(module).__name__}")
    return module


def _tried(name: str, call: Callable[[], Any]) -> Any:
    try:
        with torch.no_grad():
            return call()
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"the {name} does not take what it is given: {text}") from None


def _latents(model: Autoencoder, images: Tensor) -> int | None:
    found = model.features(images)
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(images) or found.shape[1] % 2:
        return None
    return found.shape[1] // 2 or None


def _shape(module: Any, images: Tensor) -> str:
    with torch.no_grad():
        found = module(images)
    if isinstance(found, tuple | list):
        return " and ".join(str(tuple(one.shape)) if isinstance(one, Tensor) else type(one).__name__ for one in found)
    return str(tuple(found.shape)) if isinstance(found, Tensor) else type(found).__name__
