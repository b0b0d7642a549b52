"""What decoders make: how a picture moves when a latent does, and whether two kinds of pictures can be told apart."""

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from karenina.numerics.checks import as_array

if TYPE_CHECKING:
    from karenina.training.run import Run

STEP = 1e-4  # in float64 the error of a central difference is about 1e-8 of the decoder's curvature


@torch.inference_mode()
def decoder_jacobian(run: "Run", codes: ArrayLike) -> NDArray[np.float64]:
    """d decoder(z) / d z at codes (n, L): (n, pixels, L), of the decoder's output before the last non-linearity.

    By central differences on a float64 copy of the network, so that it works for any decoder.
    """
    z = as_array(codes).astype(np.float64, copy=False)
    if z.ndim != 2 or z.shape[1] != run.latents:
        raise ValueError(f"codes have shape {z.shape}, expected (n, {run.latents})")
    network = copy.deepcopy(run.module).double().cpu()
    columns = []
    for latent in range(run.latents):
        step = np.zeros(run.latents)
        step[latent] = STEP
        ahead, behind = (network.decode(torch.from_numpy(z + sign * step)) for sign in (1, -1))
        columns.append(((ahead - behind) / (2 * STEP)).reshape(len(z), -1))
    return torch.stack(columns, dim=-1).numpy()


BATCH = 64


def discriminator_accuracy(
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    *,
    steps: int = 400,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> float:
    """Accuracy, on the half that is held out, of a network that tells two kinds of pictures (n, c, h, w) apart.

    Convolutions 4 x 4 with stride 2 down to a side of 4 or less, batch normalisation, Adam, a fixed number of steps, as
    Estermann and Wattenhofer (2023) released it, with fewer and larger steps: theirs has another layer of 512 units,
    a rate of 1e-4, and is measured after 50,000 pictures in batches of 32.

    >>> rng = np.random.default_rng(0)
    >>> dark, bright = (rng.random((80, 1, 8, 8), dtype=np.float32) * half for half in (0.4, 1.0))
    >>> discriminator_accuracy(dark, bright, steps=30) > 0.9
    True
    """
    if first.shape[1:] != second.shape[1:] or min(len(first), len(second)) < 8:
        raise ValueError(f"two sets of 8 pictures or more of one shape are needed, got {first.shape}, {second.shape}")
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(np.concatenate([first, second])).float()
    kind = torch.cat([torch.zeros(len(first)), torch.ones(len(second))])
    order = torch.from_numpy(np.concatenate([rng.permutation(len(first)), len(first) + rng.permutation(len(second))]))
    halves = order[: len(first)].tensor_split(2), order[len(first) :].tensor_split(2)
    train, held = (torch.cat([one[i] for one in halves]) for i in (0, 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _network(*first.shape[1:])
    optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate)
    for _ in range(steps):
        rows = train[torch.from_numpy(rng.integers(len(train), size=BATCH))]
        loss = binary_cross_entropy_with_logits(network(images[rows])[:, 0], kind[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    network.eval()
    with torch.inference_mode():
        told = torch.cat([network(images[rows])[:, 0] for rows in held.split(512)]) > 0
    return float((told == (kind[held] > 0)).float().mean())


def _network(channels: int, height: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    wide = 32
    while min(height, width) > 4:
        layers += [nn.Conv2d(channels, wide, 4, 2, 1), nn.BatchNorm2d(wide), nn.ReLU()]
        channels, height, width, wide = wide, height // 2, width // 2, 64
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, 1))
