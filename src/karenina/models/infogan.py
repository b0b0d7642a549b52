"""InfoGAN as in Eastwood & Williams (2018, appendix A): the generator has no input but the codes.

The objective is that of the improved Wasserstein GAN (Gulrajani et al. 2017) plus the lower bound on the mutual
information of InfoGAN (Chen et al. 2016). Q shares every layer of the critic but the last; the code of an image is the
mean that Q gives, and decoding is the generator.
"""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from karenina.models import networks
from karenina.models.networks import Autoencoder, Shape


class InfoGAN(Autoencoder):
    """An autoencoder whose encoder and decoder are critic and generator: the encoder's outputs are the critic's value
    and the mean of Q(c|x); the decoder is the generator."""

    def posterior(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean = outputs[:, 1:]
        return mean, torch.zeros_like(mean)  # The standard deviations of Q are fixed at 1.

    @property
    def latents(self) -> int:
        return cast(nn.Linear, self.decoder[0]).in_features

    def criticise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the critic's values (n,) and Q's means (n, latents)."""
        outputs = self.head(self.features(x))
        return outputs[:, 0], outputs[:, 1:]

    def generate(self, codes: Tensor) -> Tensor:
        return torch.sigmoid(self.decoder(codes))


def build(name: str, shape: Shape, latents: int, *, init: str = "torch") -> Any:
    """Return an untrained InfoGAN. The critic has layer normalisation, which keeps the images of a batch apart, as its
    gradient penalty needs."""
    return networks.build(
        name, shape, latents, init=init, outputs=latents + 1, norm=partial(nn.GroupNorm, 1), make=InfoGAN
    )


def draw_codes(n: int, latents: int, noise: torch.Generator) -> Tensor:
    """Draw codes uniform on [-1, 1], as in Chen et al. (2016)."""
    return 2 * torch.rand((n, latents), generator=noise, device=noise.device) - 1


def critic_terms(
    model: InfoGAN, x: Tensor, noise: torch.Generator, *, mi_weight: float, gradient_penalty: float
) -> dict[str, Tensor]:
    """Return the terms of equation 3 of Gulrajani et al. (2017) and the mutual-information term, for the critic and
    Q."""
    with torch.no_grad():
        codes = draw_codes(len(x), model.latents, noise)
        fake = model.generate(codes)
    mix = torch.rand((len(x), 1, 1, 1), generator=noise, device=x.device)
    between = (mix * x + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(model.criticise(between)[0].sum(), between, create_graph=True)
    value_fake, mean = model.criticise(fake)
    return {
        "critic": value_fake.mean() - model.criticise(x)[0].mean(),
        "gradient_penalty": gradient_penalty * (slope.flatten(1).norm(dim=1) - 1).square().mean(),
        "information": mi_weight * _surprise(codes, mean),
    }


def generator_terms(model: InfoGAN, n: int, noise: torch.Generator, *, mi_weight: float) -> dict[str, Tensor]:
    codes = draw_codes(n, model.latents, noise)
    value, mean = model.criticise(model.generate(codes))
    return {"generator": -value.mean(), "generator_information": mi_weight * _surprise(codes, mean)}


def _surprise(codes: Tensor, mean: Tensor) -> Tensor:
    """Return -log Q(c|x) without its constant. Chen et al. (2016), equation 5."""
    return 0.5 * (codes - mean).square().sum(1).mean()
