"""QLAE, the autoencoder with quantised latents of Hsu et al. (2023), "Disentanglement via latent quantization"."""

from functools import partial

import torch
from torch import Tensor, nn

from karenina.models.fast import Adam
from karenina.models.networks import Autoencoder, Shape
from karenina.models.networks import build as build_network
from karenina.models.objectives import Batch, Terms

VALUES = 10
# A posterior without spread, in the form in which others have theirs: samples equal the mean.
NO_SPREAD = -100.0
_PIXELS = 64 * 64


class Codebook(nn.Module):
    """The values that each latent can take: rounds codes (n, latents) to the nearest.

    >>> Codebook(1, values=3)(torch.tensor([[0.2], [0.3]])).flatten().tolist()  # of -0.5, 0, 0.5
    [0.0, 0.5]
    """

    def __init__(self, latents: int, values: int = VALUES):
        super().__init__()
        self.values = nn.Parameter(torch.linspace(-0.5, 0.5, values).repeat(latents, 1))

    def forward(self, codes: Tensor) -> Tensor:
        """Hsu et al. (2023): the nearest of the latent's values. Gradients go to the values alone."""
        nearest = (codes.detach().unsqueeze(2) - self.values.detach()).abs().argmin(dim=2)
        return self.values.gather(1, nearest.T).T

    def straight_through(self, codes: Tensor) -> Tensor:
        """The same values; gradients go to the codes as if these had not been rounded."""
        return codes + (self(codes) - codes).detach()


class QuantisedAutoencoder(Autoencoder):
    """An autoencoder whose codes are rounded to a codebook that is trained with it."""

    def __init__(self, features: nn.Module, head: nn.Module, decoder: nn.Sequential, *, latents: int):
        super().__init__(features, head, decoder)
        self.codebook = Codebook(latents)

    def continuous(self, x: Tensor) -> Tensor:
        """The codes (n, latents) before they are rounded."""
        return self.head(self.features(x))

    def posterior(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        codes = self.codebook(outputs)
        return codes, torch.full_like(codes, NO_SPREAD)


def build(name: str, shape: Shape, latents: int, *, init: str = "torch") -> Autoencoder:
    """The network of this name with one output per latent and a codebook."""
    make = partial(QuantisedAutoencoder, latents=latents)
    return build_network(name, shape, latents, init=init, outputs=latents, make=make)


def qlae(batch: Batch, *, quantisation: float = 0.01, commitment: float = 0.01) -> Terms:
    """Hsu et al. (2023): the codebook moves to the codes (quantisation) and they to it (commitment).

    `batch.mean` are the codes before rounding, `batch.z` after it. The paper's weights are for a likelihood that is
    averaged over pixels; ours is a sum over 64x64 pixels, or as much (`reconstruction_weight`), so they are multiplied
    by as many. As released; gradients of weights, of that mean, are clipped there at 1 entry by entry, which we leave
    out.
    """
    rounded = batch.beside["codebook"](batch.mean)
    scale = _PIXELS * batch.x.shape[1]
    return {
        "reconstruction": batch.reconstruction,
        "quantisation": quantisation * scale * (batch.mean.detach() - rounded).square().mean(),
        "commitment": commitment * scale * (batch.mean - rounded.detach()).square().mean(),
    }


def entropy_per_latent(codes: Tensor) -> Tensor:
    """Entropy in nats of the values that each latent takes in a batch: (n, latents) -> (latents,).

    What stands for the KL: see karenina.numerics.gaussian.entropy_per_latent.

    >>> entropy_per_latent(torch.tensor([[0.0, 1.0], [0.5, 1.0]]))
    tensor([0.6931, 0.0000])
    """
    same = (codes[:, None] == codes[None]).float().mean(0)  # (n, latents): the share of each row's value
    return same.log().neg().mean(0).abs()  # of equal values 0, not -0


class DecayedAdam(Adam):
    """AdamW, Loshchilov & Hutter (2019): Adam whose weights, but not biases and codebooks, shrink at every step."""

    def __init__(self, network: nn.Module, learning_rate: float, decay: float):
        super().__init__(network.parameters(), learning_rate)
        self.decay = decay
        self.shrinking = [parameter for name, parameter in network.named_parameters() if name.endswith("weight")]

    @torch.no_grad()
    def step(self) -> None:
        torch._foreach_mul_([p for p in self.shrinking if p.grad is not None], 1 - self.learning_rate * self.decay)
        super().step()
