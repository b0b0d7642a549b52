"""The discriminator of FactorVAE (Kim & Mnih, 2018)."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Discriminator(nn.Module):
    """Tells codes q(z) from codes whose dimensions were shuffled, prod_j q(z_j): codes (n, latents) -> logits (n, 2).

    Six layers of 1000 leaky ReLU units: Kim & Mnih (2018), appendix A. They do not print the slope; 0.2 is what
    released implementations use.
    """

    def __init__(self, latents: int, *, layers: int = 6, units: int = 1000):
        super().__init__()
        stack: list[nn.Module] = []
        for before in (latents, *(units,) * (layers - 1)):
            stack += [nn.Linear(before, units), nn.LeakyReLU(0.2, inplace=True)]
        self.layers = nn.Sequential(*stack, nn.Linear(units, 2))

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(z).to(z.dtype)  # whatever the layers computed in

    def total_correlation(self, z: Tensor) -> Tensor:
        """E[log D(z) - log(1 - D(z))], the density-ratio estimate of TC(z). Kim & Mnih (2018), equation 3."""
        logits = self(z)
        return (logits[:, 0] - logits[:, 1]).mean()

    def loss(self, z: Tensor, shuffled: Tensor) -> Tensor:
        """Cross entropy of telling z (class 0) from `shuffled` (class 1). Algorithm 2, last line."""
        real, fake = self(z), self(shuffled)
        zeros = torch.zeros(len(z), dtype=torch.long, device=z.device)
        ones = torch.ones(len(shuffled), dtype=torch.long, device=z.device)
        return 0.5 * (functional.cross_entropy(real, zeros) + functional.cross_entropy(fake, ones))


def permute_dims(z: Tensor, generator: torch.Generator) -> Tensor:
    """Shuffle each column of z (n, latents) on its own: a sample of prod_j q(z_j). Algorithm 1."""
    order = torch.rand(z.shape, generator=generator, device=z.device).argsort(0)
    return z.gather(0, order)
