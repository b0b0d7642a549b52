"""Encoder and decoder networks: those of the papers, by name, and a user's own; their initial weights.

An encoder is `features` (convolutions) followed by `head` (fully connected layers); the decoder mirrors it. Images are
(n, channels, height, width) in [0, 1]; a decoder gives logits (Bernoulli) or means (Gaussian) of that shape.
"""

import copy
import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from karenina._words import hint
from karenina.models.fast import UpConv

Shape = tuple[int, int, int]
Parts = tuple[nn.Module, nn.Module, nn.Sequential]
# A function from channels to a normalisation layer. Only the critic of InfoGAN asks for one.
Norm = Callable[[int], nn.Module]
INITS: tuple[str, ...] = ("torch", "glorot", "he")

Layer = nn.Linear | nn.Conv2d | nn.ConvTranspose2d


class Autoencoder(nn.Module):
    """A network from images (n, c, h, w) to Gaussian codes (n, latents), and from codes to images.

    >>> network = build("conv64", (1, 64, 64), latents=10)
    >>> mean, logvar = network.encode(torch.zeros(2, 1, 64, 64))
    >>> tuple(mean.shape), tuple(network.decode(mean).shape)
    ((2, 10), (2, 1, 64, 64))
    """

    def __init__(self, features: nn.Module, head: nn.Module, decoder: nn.Sequential):
        super().__init__()
        self.features = features
        self.head = head
        self.decoder = decoder

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of q(z|x)."""
        return self.posterior(self.head(self.features(x)))

    def posterior(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, logvar = outputs.chunk(2, dim=1)
        return mean, logvar

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)

    def first_activations(self, z: Tensor) -> Tensor:
        """Return activations (n, units) of the decoder's first fully connected layer, which the training trace records.

        The layer's own: ReLU or tanh where that follows it, and none where only the shape changes (resnet, linear).
        """
        return self.decoder[:2](z).flatten(1)


class Flatten(nn.Module):
    """A layer from (n, c, h, w) to (n, h * w * c): height first, as convolutions keep their images, so nothing is
    copied."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


class Unflatten(nn.Module):
    """A layer from (n, h * w * c) to (n, c, h, w), the reverse of Flatten."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        c, h, w = self.shape
        return x.view(-1, h, w, c).permute(0, 3, 1, 2)


def _none(channels: int) -> nn.Module:
    return nn.Identity()


def _relu() -> nn.Module:
    return nn.ReLU(inplace=True)


def _sequence(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*(layer for layer in layers if not isinstance(layer, nn.Identity)))


def _conv(widths: tuple[int, ...], kernels: tuple[int, ...]) -> Callable[[Shape, int, int, Norm], Parts]:
    """Return what builds convolutions of stride 2 down to 4x4, a layer of 256 units, and the mirror image of that.

    Widths 32, 32, 64, 64 are Table 2 of Locatello et al. (2019) and Table 4 of Duan et al. (2020).
    """

    def parts(shape: Shape, latents: int, outputs: int, norm: Norm) -> Parts:
        down: list[nn.Module] = []
        for before, width, kernel in zip((shape[0], *widths), widths, kernels):
            padding = 1 if kernel == 4 else 0
            down += [nn.Conv2d(before, width, kernel, stride=2, padding=padding), norm(width), _relu()]
        corner = 4 * 4 * widths[-1]
        head = nn.Sequential(Flatten(), nn.Linear(corner, 256), _relu(), nn.Linear(256, outputs))
        up: list[nn.Module] = [nn.Linear(latents, 256), _relu(), nn.Linear(256, corner), _relu()]
        up.append(Unflatten((widths[-1], 4, 4)))
        for before, width in zip(widths[::-1], widths[-2::-1]):
            up += [UpConv(before, width), _relu()]
        up.append(UpConv(widths[0], shape[0]))
        return _sequence(*down), head, nn.Sequential(*up)

    return parts


def _dense(
    encoder: tuple[int, ...], decoder: tuple[int, ...], activation: Callable[[], nn.Module]
) -> Callable[[Shape, int, int, Norm], Parts]:
    """Return what builds fully connected layers with these numbers of units; `activation` is the decoder's."""

    def parts(shape: Shape, latents: int, outputs: int, norm: Norm) -> Parts:
        pixels = shape[0] * shape[1] * shape[2]
        head: list[nn.Module] = []
        for before, units in zip((pixels, *encoder), encoder):
            head += [nn.Linear(before, units), norm(units), _relu()]
        head.append(nn.Linear((pixels, *encoder)[-1], outputs))
        up: list[nn.Module] = []
        for before, units in zip((latents, *decoder), decoder):
            up += [nn.Linear(before, units), activation()]
        up += [nn.Linear((latents, *decoder)[-1], pixels), Unflatten(shape)]
        return Flatten(), _sequence(*head), nn.Sequential(*up)

    return parts


class Residual(nn.Module):
    """A residual block: norm, ReLU, 3x3, norm, ReLU, 3x3, plus the input, each brought to the size and width of the
    output.

    Down: mean pooling after the last layer. Up: nearest-neighbour before the first.
    """

    def __init__(self, before: int, middle: int, after: int, norm: Norm, *, up: bool):
        super().__init__()
        resize: nn.Module = nn.Upsample(scale_factor=2) if up else nn.AvgPool2d(2)
        first = [norm(before), nn.ReLU(), *([resize] if up else []), nn.Conv2d(before, middle, 3, padding=1)]
        second = [norm(middle), nn.ReLU(), nn.Conv2d(middle, after, 3, padding=1), *([] if up else [resize])]
        self.layers = nn.Sequential(*first, *second)
        match = [nn.Conv2d(before, after, 1)] if before != after else []
        # The 1x1 convolution and the resizing commute, so the convolution runs at the smaller of the two sizes.
        self.shortcut = nn.Sequential(*match, resize) if up else nn.Sequential(resize, *match)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) + self.shortcut(x)


def _resnet(shape: Shape, latents: int, outputs: int, norm: Norm) -> Parts:
    """Build the layers of table 2 of Eastwood & Williams (2018). Batch normalisation, unless `norm` says otherwise (the
    critic)."""
    c = shape[0]
    encoder_norm: Norm = nn.BatchNorm2d if norm is _none else norm
    down = [(64, 64, 128), (128, 128, 256), (256, 256, 512), (512, 512, 512)]
    up = [(512, 512, 512), (512, 256, 256), (256, 128, 128), (128, 64, 64)]
    features = nn.Sequential(
        nn.Conv2d(c, 64, 3, padding=1), *(Residual(*widths, encoder_norm, up=False) for widths in down)
    )
    head = nn.Sequential(Flatten(), nn.Linear(4 * 4 * 512, outputs))
    decoder = nn.Sequential(
        nn.Linear(latents, 4 * 4 * 512),
        Unflatten((512, 4, 4)),
        *(Residual(*widths, nn.BatchNorm2d, up=True) for widths in up),
        nn.BatchNorm2d(64),
        _relu(),
        nn.Conv2d(64, c, 3, padding=1),
    )
    return features, head, decoder


@dataclass(frozen=True)
class Network:
    """A kind of network: how to build it, which images it takes (side None: any), its best initial weights, and its
    learning rates for Adam: that of a long run, and the largest (docs/methods.md)."""

    parts: Callable[[Shape, int, int, Norm], Parts]
    side: int | None
    init: str = "torch"
    learning_rate: float = 1e-4
    largest_rate: float = 1e-4

    def rate(self, steps: int, init: str) -> float:
        """Return the learning rate of a run of so many steps: larger in shorter runs, if the initial weights do not
        collapse.

        >>> [NETWORKS["conv64"].rate(steps, "he") for steps in (1000, 10_000, 50_000, 300_000)]
        [0.001, 0.001, 0.0002, 0.0001]
        """
        return (
            min(max(10 / steps, self.learning_rate), self.largest_rate) if init in ("he", "own") else self.learning_rate
        )

    def check(self, name: str, shape: Shape) -> None:
        if self.side is None:
            return
        if shape[0] not in (1, 3) or shape[1:] != (self.side, self.side):
            c, h, w = shape
            raise ValueError(
                f"network {name!r} takes images of 1 or 3 channels and {self.side}x{self.side} pixels, "
                f"got {c} channels and {h}x{w}; {', '.join(suitable(shape))} would do"
            )


NETWORKS: dict[str, Network] = {
    "conv64": Network(_conv((32, 32, 64, 64), (4, 4, 4, 4)), 64, "he", 1e-4, 1e-3),
    # This is the encoder of disentanglement_lib's release, which differs from the paper's table in two kernels.
    "conv64_released": Network(_conv((32, 32, 64, 64), (4, 4, 2, 2)), 64, "he", 1e-4, 1e-3),
    "conv32": Network(_conv((32, 32, 64), (4, 4, 4)), 32, "he", 1e-4, 1e-3),
    "resnet": Network(_resnet, 64, "he"),
    # Higgins et al. (2017), with ReLU down and tanh up as in disentanglement_lib.
    "fc": Network(_dense((1200, 1200), (1200, 1200, 1200), nn.Tanh), None, "he", 1e-4, 1e-3),
    "mlp": Network(_dense((128, 128), (128, 128), _relu), None, "torch", 1e-3, 1e-3),
    "mlp256": Network(_dense((256, 256), (256, 256), _relu), None, "torch", 1e-3, 1e-3),
    # PCA has no hidden layer.
    "linear": Network(_dense((), (), _relu), None, "torch", 1e-3, 1e-3),
}
# A run's config calls networks of the user's by this and a hash of their layers, see OwnNetworks.
PREFIX = "own-"
_OWN = Network(lambda *_: (nn.Identity(), nn.Identity(), nn.Sequential()), None, "own", 1e-4, 1e-3)


def is_own(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(f"{PREFIX}[0-9a-f]{{12}}", name) is not None


def rules(name: str) -> Network:
    """Return how the network of a name is trained; one of the user's is trained as our networks of convolutions are."""
    return _OWN if is_own(name) else NETWORKS[name]


def suitable(shape: Shape) -> list[str]:
    """Return the networks that take images of this shape, the one that "auto" picks first."""
    sized = [name for name, network in NETWORKS.items() if network.side == shape[1] == shape[2] and shape[0] in (1, 3)]
    return [*sized, "mlp", "fc", "linear"]


def resolve(name: str, shape: Shape) -> str:
    """Return the network's name, with "auto" replaced: conv64 or conv32 where the size fits, otherwise mlp."""
    if name == "auto":
        return suitable(shape)[0]
    if not isinstance(name, str) or name not in NETWORKS:
        raise ValueError(f"no network {name!r}; {hint(name, ('auto', *NETWORKS))}")
    NETWORKS[name].check(name, shape)
    return name


def build(
    name: str,
    shape: Shape,
    latents: int,
    *,
    init: str = "torch",
    outputs: int | None = None,
    norm: Norm = _none,
    make: Callable[..., Autoencoder] = Autoencoder,
) -> Autoencoder:
    """Return an untrained network, in the memory layout that is fast on a CPU; its weights come from torch's global
    generator.

    `init`: see `initialise`.
    `outputs`: width of the encoder's last layer (default: a mean and a log-variance for each latent).
    """
    network = NETWORKS[resolve(name, shape)]
    model = make(*network.parts(shape, latents, 2 * latents if outputs is None else outputs, norm))
    initialise(model, init)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def initialise(module: nn.Module, init: str) -> None:
    """Draw the weights of every layer, in the order of the layers, from torch's global generator.

    "torch" leaves what torch draws: weights and biases uniform on [-b, b] with b = sqrt(1 / inputs), so that a layer of
    ReLUs passes on a sixth of the variance that it is given. The others have biases of 0 and a larger b.
    """
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
    """Return b of the uniform distribution.

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
    if isinstance(layer, nn.ConvTranspose2d):  # Its stride spreads the taps over several outputs.
        inputs /= math.prod(layer.stride)
    return math.sqrt(6 / inputs)


Made = nn.Module | Callable[[], nn.Module]


# The names of these two classes are in the hash by which runs remember networks of the user's.
class Encoder(nn.Module):
    """A module of the user's as `features` of an Autoencoder: images -> means and log-variances (n, 2 * latents)."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        # The user's module may call .view, which our layout of images does not allow.
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
        """Return outputs (n, units) of the decoder's first layer with weights."""
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
    """A user's encoder and decoder, from which the network of a `Method` is built: modules, or functions that make
    them.

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
        """Return the name of these networks and their number of latents, tried out on images of this shape."""
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
    """Return the user's networks, checked; None if none were given. A decoder may also be the name of a likelihood."""
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
