"""MONet (Burgess et al. 2019): attention divides an image into slots, one VAE codes what is in each. And its training.

The attention is a U-Net that breaks a stick: of what is not yet explained (the scope) each slot takes a part, the last
slot the rest. The component VAE sees what a mask cuts out and the mask, and decodes both. Small relatives of the
paper's networks, our choice: the VAE's convolutions do not overlap, so that they are matrix products and many VAEs
train as one (`karenina.models.stacked`), and the spatial broadcast decoder works on a grid of 4x4 pixels.

Each function that trains takes where its result goes. It resumes after a kill at any moment with the same result, and
returns what is there when it was already done. All random numbers of a step come from (seed, step), so a checkpoint
needs no generators, and a network of a stack depends on its own seed and the data, not on its neighbours.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from karenina._process import stop_waits, stopped, stops_wait
from karenina.models.fast import Adam, keep_memory
from karenina.models.stacked import StackedLinear, StackedMLP, generators
from karenina.papers.duan2020.clustering.agent import TransitionModels
from karenina.training.loop import TrainingDiverged, trace_steps
from karenina.training.run import FORMAT, BadFile, load_weights, read_tensors, within, write_tensors

PATCH = 4


def to_patches(x: Tensor) -> Tensor:
    """Return (..., cells, c * 16) of (..., c, side, side): tiles of 4x4 pixels, four neighbours in a row, then the next
    four.

    In this order both convolutions of the encoder are reshapes, and a sum over pixels needs no other.
    """
    *lead, c, side, _ = x.shape
    g = side // (2 * PATCH)
    x = x.reshape(-1, c, g, 2, PATCH, g, 2, PATCH).permute(0, 2, 5, 3, 6, 1, 4, 7)
    return x.reshape(*lead, 4 * g * g, c * PATCH**2)


def from_patches(x: Tensor) -> Tensor:
    """Return what `to_patches` was given."""
    *lead, cells, size = x.shape
    g, c = math.isqrt(cells // 4), size // PATCH**2
    x = x.reshape(-1, g, g, 2, 2, c, PATCH, PATCH).permute(0, 5, 1, 3, 6, 2, 4, 7)
    return x.reshape(*lead, c, 2 * PATCH * g, 2 * PATCH * g)


class ComponentVAE(nn.Module):
    """k VAEs of one shape. Objects are patches (k, n, cells, 64): the image times the mask (48), and the mask (16).

    >>> vae = ComponentVAE([0, 1, 2], side=32, latents=8)
    >>> mean, logvar = vae.encode(to_patches(torch.zeros(3, 5, 4, 32, 32)))
    >>> pixels, logits = vae.decode(mean)
    >>> tuple(mean.shape), tuple(from_patches(pixels).shape), tuple(from_patches(logits).shape)
    ((3, 5, 8), (3, 5, 3, 32, 32), (3, 5, 1, 32, 32))
    """

    coordinates: Tensor

    def __init__(self, seeds: list[int], side: int, latents: int, units: int = 64):
        super().__init__()
        if side % (2 * PATCH) or side < 2 * PATCH:
            raise ValueError(f"the side of images must be a multiple of {2 * PATCH}, got {side}")
        if latents < 1:
            raise ValueError(f"latents must be at least 1, got {latents}")
        self.side, self.latents, self.units = side, latents, units
        drawn = generators(seeds)
        cells = side // PATCH
        self.pixels = StackedLinear(4 * PATCH**2, units // 2, drawn)
        self.cells = StackedLinear(4 * units // 2, units, drawn)
        self.head = StackedMLP((units * (cells // 2) ** 2, 2 * units, 2 * latents), drawn)
        self.first = StackedLinear(latents, units, drawn)
        self.broadcast = StackedLinear(units, units, drawn)
        self.position = StackedLinear(6, units, drawn)
        self.paint = StackedMLP((units, units, 4 * PATCH**2), drawn)
        at = (torch.arange(side) + 0.5) * 2 / side - 1
        y, x = (to_patches(axis[None]).mean(1) for axis in torch.meshgrid(at, at, indexing="ij"))
        waves = [torch.sin(math.pi * x), torch.cos(math.pi * x), torch.sin(math.pi * y), torch.cos(math.pi * y)]
        self.register_buffer("coordinates", torch.stack([x, y, *waves], dim=1), persistent=False)

    def encode(self, objects: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance (k, n, latents) of q(z|x)."""
        k, n, cells, size = objects.shape
        x = self.pixels(objects.reshape(k, n * cells, size)).relu_()
        x = self.cells(x.reshape(k, n * cells // 4, -1)).relu_()
        mean, logvar = self.head(x.reshape(k, n, -1)).chunk(2, dim=2)
        return mean, logvar

    def first_activations(self, z: Tensor) -> Tensor:
        """Return activations (k, n, units) of the decoder's first layer, which the training trace records."""
        return self.first(z).relu_()

    def decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return patches of the pixels' means (k, n, cells, 48) and of the mask's logits (k, n, cells, 16)."""
        k, n = z.shape[:2]
        content = self.broadcast(self.first_activations(z))[:, :, None]
        place = self.position(self.coordinates.expand(k, -1, -1))[:, None]
        x = (content + place).relu_()
        x = self.paint(x.reshape(k, -1, self.units)).reshape(k, n, len(self.coordinates), -1)
        return x[..., : 3 * PATCH**2], x[..., 3 * PATCH**2 :]


def reparameterise(mean: Tensor, logvar: Tensor, noise: Tensor) -> Tensor:
    return mean + torch.exp(0.5 * logvar) * noise


def gaussian_kl(mean: Tensor, logvar: Tensor) -> Tensor:
    """Return the KL of q(z|x) from the prior N(0, 1), per latent."""
    return 0.5 * (mean**2 + torch.exp(logvar) - logvar - 1)


def object_losses(
    vae: ComponentVAE, objects: Tensor, noise: Tensor, beta: Tensor, gamma: float = 0.5, sigma: float = 0.11
) -> Tensor:
    """Return the loss (k,) of component VAEs on objects that a frozen attention cut out, each with its own beta (k,).

    The terms of MONet that a slot can change on its own: -sum m log N(x | mean, sigma), with the mask m in place of the
    slot's share of the mixture, beta KL(q(z|x) || p(z)), and gamma times the cross entropy of mask and decoded mask.
    """
    seen, mask = objects.split((3 * PATCH**2, PATCH**2), dim=-1)
    mean, logvar = vae.encode(objects)
    pixels, logits = vae.decode(reparameterise(mean, logvar, noise))
    # Objects are already multiplied by their masks: m (x - mean)^2 is (m x - m mean)^2 / m.
    k, n, cells, _ = objects.shape
    error = (seen.reshape(k, n, cells, 3, -1) - mask[..., None, :] * pixels.reshape(k, n, cells, 3, -1)) ** 2
    painted = (error.sum(3) / mask.clamp(min=0.05)).sum((2, 3)) / (2 * sigma**2)
    shaped = functional.binary_cross_entropy_with_logits(logits, mask, reduction="none").sum((2, 3))
    return (painted + gamma * shaped).mean(1) + beta * gaussian_kl(mean, logvar).sum(2).mean(1)


class _Block(nn.Sequential):
    """3x3 convolution, normalisation of groups of four channels, ReLU."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(outputs // 4, outputs), nn.ReLU()
        )


class Attention(nn.Module):
    """Images (n, 3, side, side) -> log masks (n, slots, side, side) that sum to 1 over the slots.

    The U-Net also sees where each pixel is, our addition: two sprites of one colour differ in nothing else.
    """

    place: Tensor

    def __init__(self, side: int, slots: int, widths: tuple[int, ...] = (8, 16, 16), units: int = 64):
        super().__init__()
        if slots < 2:
            raise ValueError(f"slots must be at least 2, got {slots}")
        if side % 2 ** (len(widths) - 1):
            raise ValueError(f"the side of images must be a multiple of {2 ** (len(widths) - 1)}, got {side}")
        self.slots = slots
        corner = side // 2 ** (len(widths) - 1)
        self.down = nn.ModuleList(_Block(a, b) for a, b in zip((6, *widths), widths))
        flat = widths[-1] * corner**2
        self.bottom = nn.Sequential(
            nn.Flatten(), nn.Linear(flat, units), nn.ReLU(), nn.Linear(units, flat), nn.ReLU(),
            nn.Unflatten(1, (widths[-1], corner, corner)),
        )  # fmt: skip
        self.up = nn.ModuleList(_Block(2 * b, a) for a, b in zip((widths[0], *widths[:-1]), widths))
        self.last = nn.Conv2d(widths[0], 1, 1)
        at = (torch.arange(side) + 0.5) * 2 / side - 1
        self.register_buffer("place", torch.stack(torch.meshgrid(at, at, indexing="ij")), persistent=False)

    def logits(self, x: Tensor) -> Tensor:
        """Return for (n, 6, side, side) logits (n, side, side): where the next slot takes from the scope."""
        skips = []
        for i, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if i else x)
            skips.append(x)
        x = self.bottom(x)
        for i in reversed(range(len(skips))):
            x = self.up[i](torch.cat([x, skips[i]], dim=1))
            if i:
                x = functional.interpolate(x, scale_factor=2)
        return self.last(x)[:, 0]

    def forward(self, images: Tensor) -> Tensor:
        scope = torch.zeros_like(images[:, 0])
        seen = torch.cat([images, self.place.expand(len(images), -1, -1, -1)], dim=1)
        masks = []
        for _ in range(self.slots - 1):
            # What is far below the threshold of any use would only be a large number to the network.
            alpha = self.logits(torch.cat([seen, scope[:, None].clamp(min=-10)], dim=1))
            masks.append(scope + functional.logsigmoid(alpha))
            scope = scope + functional.logsigmoid(-alpha)
        return torch.stack([*masks, scope], dim=1)


class MONet(nn.Module):
    """Attention and one component VAE for all slots. sigmas: of the first slot, which takes the background, and of the
    others (Burgess et al. 2019)."""

    def __init__(
        self,
        seed: int,
        side: int = 32,
        slots: int = 5,
        latents: int = 8,
        units: int = 64,
        widths: tuple[int, ...] = (8, 16, 16),
    ):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.attention = Attention(side, slots, widths)
        self.vae = ComponentVAE([seed], side, latents, units)
        self.sigmas = (0.09, 0.11)

    def forward(self, images: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """Return everything the loss needs, slots on axis 1 and pixels as patches: image (n, 1, cells, 48), log_masks
        (n, slots, cells, 16), pixels, logits, mean, logvar (n, slots, latents)."""
        image, log_masks = to_patches(images)[:, None], to_patches(self.attention(images)[:, :, None])
        objects = cut_out(image, log_masks.exp())
        n, slots = objects.shape[:2]
        mean, logvar = self.vae.encode(objects.reshape(1, n * slots, *objects.shape[2:]))
        pixels, logits = self.vae.decode(reparameterise(mean, logvar, noise.reshape(mean.shape)))
        found = {"pixels": pixels, "logits": logits, "mean": mean, "logvar": logvar}
        by_image = {name: value[0].reshape(n, slots, *value.shape[2:]) for name, value in found.items()}
        return {"image": image, "log_masks": log_masks} | by_image

    def losses(self, images: Tensor, noise: Tensor, beta: float, gamma: float) -> dict[str, Tensor]:
        """Return means over images of the terms of equation 3: loss = mixture + beta kl + gamma mask_kl."""
        out = self(images, noise)
        log_masks = out["log_masks"]
        mixture = mixture_nll(out["image"], out["pixels"], log_masks, self.sigmas).mean()
        kl = gaussian_kl(out["mean"], out["logvar"]).sum((1, 2)).mean()
        decoded = functional.log_softmax(out["logits"], dim=1)
        # A mask of exactly 0 has log -inf, and 0 log 0 is 0.
        mask_kl = (log_masks.exp() * (log_masks.clamp(min=-80) - decoded)).sum((1, 2, 3)).mean()
        return {"loss": mixture + beta * kl + gamma * mask_kl, "mixture": mixture, "kl": kl, "mask_kl": mask_kl}


def cut_out(image: Tensor, masks: Tensor) -> Tensor:
    """Return objects (..., cells, 64) of patches of images (..., cells, 48) and masks (..., cells, 16)."""
    seen = image.unflatten(-1, (3, -1)) * masks[..., None, :]
    return torch.cat([seen.flatten(-2), masks], dim=-1)


def mixture_nll(image: Tensor, pixels: Tensor, log_masks: Tensor, sigmas: tuple[float, float]) -> Tensor:
    """Return -sum over pixels of log sum_k m_k N(x | pixels_k, sigma_k), per image: (n,).

    Patches: image (n, 1, cells, 48), pixels (n, slots, cells, 48), log_masks (n, slots, cells, 16).
    sigmas: of the first slot and of the rest.
    """
    sigma = torch.full((pixels.shape[1], 1, 1), sigmas[1], dtype=image.dtype, device=image.device)
    sigma[0] = sigmas[0]
    error = ((image - pixels) ** 2).unflatten(-1, (3, -1)).sum(-2)
    log_normal = -error / (2 * sigma**2) - 3 * torch.log(sigma * math.sqrt(2 * math.pi))
    return -torch.logsumexp(log_masks + log_normal, dim=1).sum((1, 2))


Progress = Callable[[int, int, dict[str, float]], None]
ROWS = 200  # of the history


@stops_wait()
def fit(
    path: Path,
    network: nn.Module,
    update: Callable[[int], dict[str, Tensor]],
    config: dict[str, Any],
    *,
    steps: int,
    learning_rate: float,
    trace: Callable[[], Tensor] | None = None,
    progress: Progress | None = None,
    checkpoint_every: float = 60.0,
) -> tuple[list[dict[str, float]], Tensor | None]:
    """Train `network` for `steps` steps and write it to `path`; then the history of its terms, and its trace.

    update: a step's number -> named terms, the first being the loss to descend. trace: called at the steps of
    `trace_steps`. The last fifth of the steps has a tenth of the learning rate.
    """
    config = json.loads(json.dumps(config | {"steps": steps, "learning_rate": learning_rate}))
    checkpoint = path.with_suffix(".checkpoint")
    if path.exists():
        tensors, about = _read(path, config)
        kept = tensors.pop("trace", None)
        load_weights(network, tensors, path)
        return about["history"], kept
    keep_memory()
    optimiser = Adam(network.parameters(), learning_rate)
    state: dict[str, Any] = {"step": 0, "history": []}
    traces: list[Tensor] = []
    if checkpoint.exists():
        try:
            state, traces = _resume(checkpoint, config, network, optimiser)
        except BadFile:  # a damaged checkpoint costs time, not the result
            state, traces = {"step": 0, "history": []}, []
    moments = trace_steps(steps) if trace is not None else []
    if trace is not None and not traces:
        traces.append(trace())
    row_every = max(steps // ROWS, 1)
    saved = time.monotonic()
    for step in range(state["step"], steps):
        optimiser.learning_rate = learning_rate * (0.1 if step >= 0.8 * steps else 1.0)
        terms = update(step)
        optimiser.zero_grad()
        next(iter(terms.values())).backward()
        optimiser.step()
        if trace is not None and step + 1 in moments:
            traces.append(trace())
        if (step + 1) % row_every == 0 or step + 1 == steps:
            row = {name: float(value.detach()) for name, value in terms.items()}
            if not all(np.isfinite(list(row.values()))):
                raise TrainingDiverged(f"{path.stem}: {row} by step {step + 1}: try a smaller learning rate")
            state["history"].append({"step": step + 1} | row)
            if progress is not None:
                progress(step + 1, steps, row)
        if (stop_waits() and step + 1 < steps) or time.monotonic() - saved > checkpoint_every:
            _save(checkpoint, config, network, optimiser, state | {"step": step + 1}, traces)
            saved = time.monotonic()
        if stop_waits() and step + 1 < steps:
            raise stopped(f"stopped at step {step + 1:,} of {steps:,}; the same call resumes")
    about = {"format": FORMAT, "config": config, "history": state["history"]}
    kept = torch.stack(traces) if traces else None
    write_tensors(path, dict(network.state_dict()) | ({} if kept is None else {"trace": kept}), about)
    checkpoint.unlink(missing_ok=True)
    return state["history"], kept


def _read(path: Path, config: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, about = read_tensors(path)
    if about.get("config") != config:
        raise ValueError(f"{path} was made with {about.get('config')}, not {config}: choose another folder")
    return tensors, about


def _save(
    path: Path, config: dict[str, Any], network: nn.Module, optimiser: Adam, state: dict[str, Any], traces: list[Tensor]
) -> None:
    tensors = {f"network/{name}": value for name, value in network.state_dict().items()}
    for i, moments in enumerate(optimiser.state):
        tensors |= {f"optimiser/{i}/{name}": value for name, value in moments.items()}
    if traces:
        tensors["trace"] = torch.stack(traces)
    write_tensors(path, tensors, {"format": FORMAT, "config": config} | state)


def _resume(
    path: Path, config: dict[str, Any], network: nn.Module, optimiser: Adam
) -> tuple[dict[str, Any], list[Tensor]]:
    tensors, about = _read(path, config)
    load_weights(network, within(tensors, "network/"), path)
    for i, moments in enumerate(optimiser.state):
        for name, value in moments.items():
            value.copy_(tensors[f"optimiser/{i}/{name}"])
    return {"step": about["step"], "history": about["history"]}, list(tensors.get("trace", ()))


def train_monet(
    path: Path,
    draw: Callable[[int, np.random.Generator], NDArray[np.uint8]],
    *,
    seed: int,
    side: int,
    slots: int,
    latents: int,
    steps: int,
    batch: int = 16,
    beta: float = 0.5,
    gamma: float = 0.5,
    learning_rate: float = 2e-3,
    units: int = 64,
    widths: tuple[int, ...] = (8, 16, 16),
    trace: Callable[[MONet], Tensor] | None = None,
    **options: Any,
) -> tuple[MONet, list[dict[str, float]], Tensor | None]:
    """Train a MONet; return it, the history of its terms, and what `trace` gave at the steps of `trace_steps`.

    draw: a number and a generator -> images (n, 3, side, side).
    """
    network = MONet(seed, side, slots, latents, units, widths)

    def update(step: int) -> dict[str, Tensor]:
        rng = np.random.default_rng([seed, step])
        images = torch.from_numpy(draw(batch, rng)).float().div_(255)
        noise = torch.from_numpy(rng.standard_normal((batch, slots, latents), np.float32))
        return network.losses(images, noise, beta, gamma)

    config: dict[str, Any] = {"seed": seed, "side": side, "slots": slots, "latents": latents, "batch": batch}
    config |= {"beta": beta, "gamma": gamma}
    options["trace"] = None if trace is None else lambda: trace(network)
    history, traces = fit(path, network, update, config, steps=steps, learning_rate=learning_rate, **options)
    return network.eval(), history, traces


def train_components(
    path: Path,
    objects: Callable[[NDArray[np.int64]], Tensor],
    count: int,
    watched: Tensor,
    *,
    seeds: Sequence[int],
    betas: Sequence[float],
    side: int,
    latents: int,
    steps: int,
    batch: int = 64,
    learning_rate: float = 3e-3,
    units: int = 64,
    **options: Any,
) -> tuple[ComponentVAE, Tensor]:
    """Train component VAEs as one stack; return them and their traces (epochs, k, watched objects, units).

    objects: rows (k, n) of `count` objects -> their patches (k, n, cells, 64). watched: patches (m, cells, 64) at which
    the first layer of the decoder is recorded.
    """
    network = ComponentVAE(list(seeds), side, latents, units)
    strengths = torch.tensor(betas)

    def update(step: int) -> dict[str, Tensor]:
        rngs = [np.random.default_rng([seed, step]) for seed in seeds]
        rows = np.stack([rng.integers(count, size=batch) for rng in rngs])
        noise = np.stack([rng.standard_normal((batch, latents), np.float32) for rng in rngs])
        losses = object_losses(network, objects(rows), torch.from_numpy(noise), strengths)
        # The sum: each network gets the gradient of its own loss.
        return {"loss": losses.sum(), "least": losses.min(), "most": losses.max()}

    def trace() -> Tensor:
        with torch.no_grad():
            mean, _ = network.encode(watched.expand(len(strengths), *watched.shape))
            return network.first_activations(mean).half()

    config = {"seeds": list(seeds), "betas": list(betas), "side": side, "latents": latents, "batch": batch}
    config["count"] = count
    _, traces = fit(path, network, update, config, steps=steps, learning_rate=learning_rate, trace=trace, **options)
    assert traces is not None
    return network.eval(), traces


def train_transitions(
    path: Path,
    rows: Callable[[], tuple[Tensor, Tensor, Tensor]],
    *,
    latents: int,
    seeds: Sequence[int],
    steps: int,
    batch: int = 256,
    units: int = 128,
    learning_rate: float = 1e-3,
    **options: Any,
) -> TransitionModels:
    """Train transition models as one stack. rows: codes (k, n, latents), actions (n, 4) and the codes after them; asked
    for only when there is something to train."""
    network = TransitionModels(list(seeds), latents, units)
    models = torch.arange(len(seeds))[:, None]
    known = cache(rows)

    def update(step: int) -> dict[str, Tensor]:
        codes, actions, after = known()
        drawn = [np.random.default_rng([seed, step]).integers(codes.shape[1], size=batch) for seed in seeds]
        picked = torch.from_numpy(np.stack(drawn))
        predicted = network(codes[models, picked], actions[picked])
        losses = ((predicted - after[models, picked]) ** 2).mean((1, 2))
        return {"loss": losses.sum(), "least": losses.min(), "most": losses.max()}

    config = {"seeds": list(seeds), "batch": batch, "units": units}
    fit(path, network, update, config, steps=steps, learning_rate=learning_rate, **options)
    return network.eval()
