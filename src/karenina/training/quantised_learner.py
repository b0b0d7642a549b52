"""The update of QLAE: codes that are rounded in place of codes with noise, and weights that decay."""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from karenina.models.quantised import NO_SPREAD, DecayedAdam, QuantisedAutoencoder, entropy_per_latent
from karenina.training.learners import VAELearner

if TYPE_CHECKING:
    from karenina.training.config import Config
    from karenina.training.methods import Method


class QuantisedLearner(VAELearner):
    """The objective finds the codebook in `batch.beside`, the codes before rounding in `batch.mean`."""

    def __init__(self, config: "Config", method: "Method", size: float, noise: torch.Generator, device: torch.device):
        super().__init__(config, method, size, noise, device)
        self.quantised = cast(QuantisedAutoencoder, self.network)
        self.beside = {"codebook": self.quantised.codebook}
        decay = config.parameters["weight_decay"]
        self.optimisers = {"network": DecayedAdam(self.network, config.learning_rate, decay)}

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codes = self.quantised.continuous(x).float()
        return codes, torch.full_like(codes, NO_SPREAD)

    def sample(self, mean: Tensor, logvar: Tensor) -> Tensor:
        return self.quantised.codebook.straight_through(mean)

    @torch.no_grad()
    def kl(self, mean: Tensor, logvar: Tensor) -> Tensor:
        return entropy_per_latent(self.quantised.codebook(mean))
