"""Learners: a model, its optimisers, and one update. The training loop needs no more than that of any method."""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import Tensor, nn

from karenina.models import fast, infogan
from karenina.models.networks import Autoencoder, initialise
from karenina.models.objectives import DECODERS, Batch, kl_per_latent
from karenina.models.quantised import NO_SPREAD, DecayedAdam, QuantisedAutoencoder, entropy_per_latent

if TYPE_CHECKING:
    from karenina.training.batches import Labels
    from karenina.training.config import Config
    from karenina.training.methods import Beside, Method

# Images; of pairs the first and then the second of each, and which of their factors changed if that is known.
Drawn = Tensor | tuple[Tensor, Tensor | None]
Draw = Callable[[], Any]


class Learner(Protocol):
    """`modules` and `optimisers` are what a checkpoint holds; modules["network"] is the model."""

    modules: dict[str, nn.Module]
    optimisers: dict[str, fast.Adam]

    def update(self, draw: Draw, step: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """One update from batches of images `draw()`: "loss", its terms, and the KL of each latent if there is one."""
        ...


class VAELearner:
    """Any objective, and the modules trained beside its network."""

    def __init__(self, config: "Config", method: "Method", size: float, noise: torch.Generator, device: torch.device):
        network = method.network(config.network, config.image_shape, config.latents, init=config.init)
        self.network = network.to(device)
        self.modules: dict[str, nn.Module] = {"network": self.network}
        self.optimisers = {"network": fast.Adam(self.network.parameters(), config.learning_rate)}
        self.companions = method.beside
        self.beside: dict[str, nn.Module] = {}
        parameters = dict(config.parameters)
        for companion in method.beside:
            module = companion.build(config.latents, parameters)
            initialise(module, "torch" if config.init == "own" else config.init)
            self.modules[companion.name] = self.beside[companion.name] = module.to(device)
            rate = parameters[f"{companion.name}_learning_rate"]
            self.optimisers[companion.name] = fast.Adam(module.parameters(), rate, companion.betas)
            for name in companion.defaults():
                del parameters[name]
        for name in method.parameters:
            del parameters[name]
        self.share = sharing(method, config)
        self.labels: Labels | None = None
        assert method.objective is not None
        self.objective, self.parameters = method.objective, parameters
        self.distance = DECODERS[config.decoder][0]
        self.weight, self.size, self.noise = config.reconstruction_weight, size, noise

    def update(self, draw: Draw, step: int) -> tuple[dict[str, Tensor], Tensor]:
        x, changed = split(draw())
        mean, logvar = self.encode(x)
        if self.share is not None:
            mean, logvar = self.share(mean, logvar, changed)
        z = self.sample(mean, logvar)
        reconstruction = self.weight * self.distance(x, self.decode(z).float())
        kl = self.kl(mean, logvar)
        batch = Batch(x, mean, logvar, z, reconstruction, kl, step, self.size, self.beside, *self.labelled(step))
        terms = self.objective(batch, **self.parameters)
        loss = total(terms)
        minimise(loss, self.optimisers["network"], others=bool(self.companions))
        recorded = {"loss": loss, **terms}
        for companion in self.companions:
            recorded[companion.name] = self.update_beside(companion, z.detach(), split(draw())[0])
        return recorded, kl

    def update_beside(self, companion: "Beside", z: Tensor, x: Tensor) -> Tensor:
        """One update of a module beside the network, from the codes of its update and those of a second batch x."""
        with torch.no_grad():
            other = self.sample(*self.encode(x))
        loss = companion.loss(self.beside[companion.name], z, companion.draw(other, self.noise))
        minimise(loss, self.optimisers[companion.name], others=False)
        return loss

    def labelled(self, step: int) -> tuple[Tensor, ...]:
        """Mean codes of some of the images that have labels, and these; nothing where there are none."""
        if self.labels is None:
            return ()
        x, labels = self.labels.at(step)
        return self.encode(x)[0], labels

    def kl(self, mean: Tensor, logvar: Tensor) -> Tensor:
        return kl_per_latent(mean, logvar)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, logvar = self.network.encode(x)
        return mean.float(), logvar.float()  # whatever the layers computed in

    def decode(self, z: Tensor) -> Tensor:
        return self.network.decode(z)

    def sample(self, mean: Tensor, logvar: Tensor) -> Tensor:
        epsilon = torch.randn(mean.shape, generator=self.noise, device=mean.device)
        return torch.addcmul(mean, (0.5 * logvar).exp(), epsilon)


class QuantisedLearner(VAELearner):
    """QLAE: codes that are rounded in place of codes with noise, and weights that decay.

    The objective finds the codebook in `batch.beside`, the codes before rounding in `batch.mean`.
    """

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


class InfoGANLearner:
    """Several updates of the critic and Q, then one of the generator."""

    def __init__(self, config: "Config", method: "Method", size: float, noise: torch.Generator, device: torch.device):
        network = method.network(config.network, config.image_shape, config.latents, init=config.init)
        self.network: Any = network.to(device)
        self.modules: dict[str, nn.Module] = {"network": self.network}
        critic = [*self.network.features.parameters(), *self.network.head.parameters()]
        # Gulrajani et al. (2017), algorithm 1: no momentum.
        self.optimisers = {
            "critic": fast.Adam(critic, config.learning_rate, (0.0, 0.9)),
            "generator": fast.Adam(self.network.decoder.parameters(), config.learning_rate, (0.0, 0.9)),
        }
        self.batch, self.noise = config.batch, noise
        self.mi_weight = config.parameters["mi_weight"]
        self.gradient_penalty = config.parameters["gradient_penalty"]
        self.critic_steps = config.parameters["critic_steps"]

    def update(self, draw: Draw, step: int) -> tuple[dict[str, Tensor], None]:
        for _ in range(self.critic_steps):
            terms = infogan.critic_terms(
                self.network,
                draw(),
                self.noise,
                mi_weight=self.mi_weight,
                gradient_penalty=self.gradient_penalty,
            )
            minimise(total(terms), self.optimisers["critic"], others=True)
        made = infogan.generator_terms(self.network, self.batch, self.noise, mi_weight=self.mi_weight)
        minimise(total(made), self.optimisers["generator"], others=True)
        return {"loss": total(terms | made), **terms, **made}, None


def make_learner(
    config: "Config", method: "Method", size: float, noise: torch.Generator, device: torch.device
) -> Learner:
    """A fresh learner. The initial weights are drawn from the seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return method.learner(config, method, size, noise, device)


def sharing(method: "Method", config: "Config") -> Callable[..., tuple[Tensor, Tensor]] | None:
    """What makes the posteriors of a pair agree, for methods that learn from pairs."""
    return None if method.share is None else partial(method.share, known=config.parameters["known"])


def split(drawn: Drawn) -> tuple[Tensor, Tensor | None]:
    return drawn if isinstance(drawn, tuple) else (drawn, None)


def network_of(learner: Learner) -> Autoencoder:
    return cast(Autoencoder, learner.modules["network"])


def total(terms: dict[str, Tensor]) -> Tensor:
    if not isinstance(terms, dict) or not all(isinstance(v, Tensor) and v.ndim == 0 for v in terms.values()):
        raise ValueError(f"an objective must return a dict of named scalar tensors, got {terms!r}")
    for name in terms:
        if name == "step" or (name == "loss" and len(terms) > 1) or re.fullmatch(r"kl_\d+", name):
            raise ValueError(f"a term of an objective must not be called {name!r}, as another column of the history is")
    loss: Any = sum(terms.values())
    return loss


def minimise(loss: Tensor, optimiser: fast.Adam, *, others: bool) -> None:
    """One step of this optimiser. `others`: the loss also depends on weights that this optimiser must not change."""
    optimiser.zero_grad()
    # Naming the weights saves the gradients of the others; where there are none it would only cost time.
    loss.backward(inputs=optimiser.parameters if others else None)
    optimiser.step()
