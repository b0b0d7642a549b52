"""Learners: what the training loop updates, a model by itself or k models of one network shape as one stacked network.

A learner is a model, its optimisers, and one update; `Solo` gives it to the loop as a population of one. Nothing of a
model depends on those beside it: in a population it draws its batches and its noise from its own seed, and every
product, loss and update is its own slice of a batched one, computed as for a model by itself.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina.models import fast, infogan
from karenina.models.networks import Autoencoder, initialise
from karenina.models.objectives import (
    DECODERS,
    NO_SPREAD,
    Batch,
    DecayedAdam,
    Objective,
    QuantisedAutoencoder,
    entropy_per_latent,
    kl_per_latent,
    unsupervised,
)
from karenina.models.stacked import ModuleWithParameters, Stack, bernoulli, with_parameters
from karenina.training.batches import Batches, Labels, Noise, PairBatches

if TYPE_CHECKING:
    from karenina.training.methods import Beside, Config, Method
    from karenina.training.trainer import Member

# Images; or of pairs the first and then the second of each, and which of their factors changed if that is known.
Drawn = Tensor | tuple[Tensor, Tensor | None]
Draw = Callable[[], Any]


class Learner(Protocol):
    """A model, its optimisers and one update. `modules` and `optimisers` are kept in checkpoints; modules["network"] is
    the model."""

    modules: dict[str, nn.Module]
    optimisers: dict[str, fast.Adam]

    def update(self, draw: Draw, step: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Update the model from batches of images `draw()`; return "loss", its terms, and the KL of each latent if
        there is one."""
        ...


class VAELearner:
    """A learner for any objective, and for the modules trained beside its network."""

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
        share = method.share  # It makes the posteriors of a pair agree.
        self.share = None if share is None else partial(share, known=config.parameters["known"])
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
        """Update a module beside the network, from the codes of its update and those of a second batch x."""
        with torch.no_grad():
            other = self.sample(*self.encode(x))
        loss = companion.loss(self.beside[companion.name], z, companion.draw(other, self.noise))
        minimise(loss, self.optimisers[companion.name], others=False)
        return loss

    def labelled(self, step: int) -> tuple[Tensor, ...]:
        """Return mean codes of some of the images that have labels, and the labels; nothing where there are none."""
        if self.labels is None:
            return ()
        x, labels = self.labels.at(step)
        return self.encode(x)[0], labels

    def kl(self, mean: Tensor, logvar: Tensor) -> Tensor:
        return kl_per_latent(mean, logvar)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, logvar = self.network.encode(x)
        return mean.float(), logvar.float()  # The layers may compute in bf16.

    def decode(self, z: Tensor) -> Tensor:
        return self.network.decode(z)

    def sample(self, mean: Tensor, logvar: Tensor) -> Tensor:
        epsilon = torch.randn(mean.shape, generator=self.noise, device=mean.device)
        return torch.addcmul(mean, (0.5 * logvar).exp(), epsilon)


class QuantisedLearner(VAELearner):
    """The learner of QLAE: codes that are rounded in place of codes with noise, and weights that decay.

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
    """The learner of InfoGAN: several updates of the critic and Q, then one of the generator."""

    def __init__(self, config: "Config", method: "Method", size: float, noise: torch.Generator, device: torch.device):
        network = method.network(config.network, config.image_shape, config.latents, init=config.init)
        self.network: Any = network.to(device)
        self.modules: dict[str, nn.Module] = {"network": self.network}
        critic = [*self.network.features.parameters(), *self.network.head.parameters()]
        # There is no momentum in algorithm 1 of Gulrajani et al. (2017).
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
    """Return a fresh learner. The initial weights are drawn from the seed; torch's global generator is left as it
    was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return method.learner(config, method, size, noise, device)


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
    """Make one step of this optimiser. `others`: the loss also depends on weights that this optimiser must not
    change."""
    optimiser.zero_grad()
    # Naming the weights saves the gradients of the others; where there are none it would only cost time.
    loss.backward(inputs=optimiser.parameters if others else None)
    optimiser.step()


@dataclass
class ObjectiveGroup:
    """Members of the stack from `start` on whose objectives are one function, each with its own arguments.

    vmap: whether torch.func.vmap computes it for all of them, to the bit as for each; otherwise it is called for each.
    """

    objective: Objective | None
    arguments: list[dict[str, Any]]
    start: int
    swept: dict[str, Tensor]  # the arguments in which members differ, which are floats: (members,)
    vmap: bool = True
    names: list[str] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return self.start + len(self.arguments)

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)


class PopulationLearner:
    """k members as one: their networks, the modules beside them and the optimisers, stacked; one update of all.

    Parameters
    ----------
    members : of equal `shape`, in the order in which `grouped` puts them.
    size : images in the data set, or inf.
    noise : a generator for each member.
    labels : of each member, the images that have some; None for members without.
    """

    def __init__(
        self,
        members: Sequence["Member"],
        size: float,
        noise: Sequence[torch.Generator],
        device: torch.device,
        labels: Sequence[Labels | None] = (),
    ):
        self.members, self.size, self.noise, self.device = list(members), size, list(noise), device
        learners = [make_learner(m.config, m.method, size, g, device) for m, g in zip(members, noise)]
        first = learners[0]
        assert isinstance(first, VAELearner)
        self.stacks = {name: Stack([one.modules[name] for one in learners]) for name in first.modules}
        self.shape = cast(Autoencoder, self.stacks["network"].template)
        self.optimisers = {
            name: fast.StackedAdam(self.stacks[name].parameters.values(), one.learning_rate, one.betas)
            for name, one in first.optimisers.items()
        }
        self.companions, self.share, self.labels = first.companions, first.share, list(labels)
        self.epsilon = self._make_noise()
        self.weight, self.decoder = first.weight, members[0].config.decoder
        self.groups = self._grouped(_changes([objective_key(member)[:3] for member in self.members]))
        self.settled = False

    def _make_noise(self) -> Noise:
        config = self.members[0].config
        images = config.batch * (1 if self.share is None else 2)  # Methods that learn from pairs take two images each.
        return Noise(self.noise, (images, config.latents), ahead=not self.companions)

    def update(self, batches: Batches, step: int) -> list[Tensor]:
        """Update every member; return for each group its values (members, 1 + terms + latents): loss, terms, KLs."""
        x, changed = split(batches.draw())
        mean, logvar = self.encode(x)
        if self.share is not None:
            mean, logvar = self.share(mean, logvar, changed)
        z = self.sample(mean, logvar)
        network = self.stacks["network"]
        reconstruction = self.weight * distance(self.decoder, x, network(self.shape.decoder, z).float())
        kl = kl_per_latent(mean, logvar, dim=1)
        parts = (x, mean, logvar, z, reconstruction, kl, *self.labelled(step))
        found = self._terms(parts, step)
        loss = torch.cat([values[:, 0] for values in found]).sum()
        minimise(loss, self.optimisers["network"], others=bool(self.companions))
        recorded = [[values.detach()] for values in found]
        for companion in self.companions:
            losses = self.update_beside(companion, z.detach(), split(batches.draw())[0])
            for group, values in zip(self.groups, recorded):
                values.append(losses[group.rows, None])
        return [torch.cat([*values, kl[group.rows].detach()], 1) for group, values in zip(self.groups, recorded)]

    def update_beside(self, companion: "Beside", z: Tensor, x: Tensor) -> Tensor:
        """Update a module beside each network, from the codes of its update and those of a second batch."""
        with torch.no_grad():
            codes = self.sample(*self.encode(x))
            other = [companion.draw(one, noise) for one, noise in zip(codes, self.noise)]
        stack = self.stacks[companion.name]
        losses = []
        for own, z_one, other_one in zip(stack.each(), z, other):
            with with_parameters(stack.template, own) as module:
                losses.append(companion.loss(module, z_one, other_one))
        found = torch.stack(losses)
        minimise(found.sum(), self.optimisers[companion.name], others=False)
        return found.detach()

    def labelled(self, step: int) -> tuple[Tensor, ...]:
        """Return mean codes (k, m, latents) of images that have labels, and the labels; nothing where there are
        none."""
        found = [labels.at(step) for labels in self.labels if labels is not None]
        if not found:
            return ()
        x, labels = (torch.stack(part) for part in zip(*found))
        return self.encode(x)[0], labels

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance, (k, n, latents), of x (k, n, c, h, w)."""
        network = self.stacks["network"]
        outputs = network(self.shape.head, network(self.shape.features, x))
        mean, logvar = outputs.float().chunk(2, dim=2)
        return mean, logvar

    def sample(self, mean: Tensor, logvar: Tensor) -> Tensor:
        return torch.addcmul(mean, (0.5 * logvar).exp(), self.epsilon.draw())

    @torch.no_grad()
    def activations(self, x: Tensor) -> NDArray[np.float16]:
        """Return the activations (k, images, units) of the decoders' first layers at the mean codes of images x
        (images, c, h, w)."""
        network = self.stacks["network"]
        mean, _ = self.encode(x.expand(len(self.members), *x.shape))
        return network(self.shape.decoder[:2], mean).flatten(2).cpu().numpy().astype(np.float16)

    def network(self, i: int) -> Autoencoder:
        """Return the network of member i by itself."""
        member = self.members[i]
        with torch.random.fork_rng(devices=[]):
            alone = member.method.network(member.config.network, member.config.image_shape, member.config.latents)
        alone.load_state_dict(self.stacks["network"].one(i))
        return alone.to(self.device)

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a checkpoint must hold of it, by name."""
        return _tensors({name: stack.parameters for name, stack in self.stacks.items()}, self.optimisers)

    def finite(self) -> list[bool]:
        """Return for each member whether its weights are finite."""
        weights = self.stacks["network"].parameters.values()
        norms = torch.stack([weight.detach().flatten(1).norm(dim=1) for weight in weights])
        return norms.isfinite().all(0).tolist()

    def settle(self) -> None:
        """Reset the generators of noise to where they would be had nothing been drawn ahead."""
        self.epsilon.settle()

    def keep(self, indices: Sequence[int]) -> None:
        """Continue with these members only, between two rows of the history."""
        chosen = torch.tensor(list(indices), device=self.device)
        self.epsilon.settle()
        self.members, self.noise = [self.members[i] for i in indices], [self.noise[i] for i in indices]
        self.labels = [self.labels[i] for i in indices] if self.labels else []
        self.epsilon = self._make_noise()
        for name, stack in self.stacks.items():
            old = self.optimisers[name]
            for key, value in stack.parameters.items():
                stack.parameters[key] = nn.Parameter(value.detach()[chosen])
            new = fast.StackedAdam(stack.parameters.values(), old.learning_rate, old.betas)
            new.updates.copy_(old.updates)
            for fresh, state in zip(new.state, old.state):
                for key in ("exp_avg", "exp_avg_sq"):
                    fresh[key].copy_(state[key][chosen])
            self.optimisers[name] = new
        before = [group for group in self.groups for _ in group.arguments]
        old_groups = [before[i] for i in indices]
        bounds = [i for i, group in enumerate(old_groups) if i == 0 or group is not old_groups[i - 1]]
        self.groups = self._grouped(bounds)
        for start, group in zip(bounds, self.groups):
            group.vmap, group.names = old_groups[start].vmap, old_groups[start].names

    def _grouped(self, bounds: Sequence[int]) -> list[ObjectiveGroup]:
        """Return groups that start at these members."""
        found = []
        for start, stop in pairwise([*bounds, len(self.members)]):
            objective = self.members[start].method.objective
            assert objective is not None
            found.append(self._group(objective, [_arguments(member) for member in self.members[start:stop]], start))
        return found

    def _group(self, objective: Objective | None, arguments: list[dict[str, Any]], start: int) -> ObjectiveGroup:
        columns = {name: [one[name] for one in arguments] for name in arguments[0]}
        swept = {
            name: torch.tensor(column, dtype=torch.float32, device=self.device)
            for name, column in columns.items()
            if any(value != column[0] for value in column)
        }
        return ObjectiveGroup(objective, arguments, start, swept)

    def restore_groups(self, groups: Sequence[tuple[int, bool, list[str]]]) -> None:
        """Restore the groups as a checkpoint has them: where each starts, whether it is computed at once, and its
        terms."""
        self.groups = self._grouped([start for start, _, _ in groups])
        for group, (_, vmap, names) in zip(self.groups, groups):
            group.vmap, group.names = bool(vmap), list(names)
        self.settled = True

    def _terms(self, parts: tuple[Tensor, ...], step: int) -> list[Tensor]:
        """Return values (members, 1 + terms) of each group, the loss first. The first call finds out how."""
        if not self.settled:
            bounds: dict[int, bool] = {}
            for group in self.groups:
                bounds[group.start] = self._exact(group, parts, step)
                if not bounds[group.start] and not self.companions:  # then perhaps those with equal arguments
                    for start, stop in pairwise([*_changes(group.arguments), len(group.arguments)]):
                        part = self._group(group.objective, group.arguments[start:stop], group.start + start)
                        bounds[part.start] = self._exact(part, parts, step)
            self.restore_groups([(start, vmap, []) for start, vmap in sorted(bounds.items())])
        beside = {name: stack.each() for name, stack in self.stacks.items() if name != "network"}
        return [self._values(group, parts, step, beside) for group in self.groups]

    def _exact(self, group: ObjectiveGroup, parts: tuple[Tensor, ...], step: int) -> bool:
        """Return whether vmap gives what the objective gives for each member, and the same gradients, to the bit.

        It does not where the objective reads a value in the middle, branches on one, or has products of matrices.
        """
        if len(group.arguments) == 1 or self.companions:
            return False
        found: list[list[Tensor]] = []
        for vmap in (False, True):
            group.vmap = vmap
            found.append([])
            for when in (step, step + 777):  # An argument may be multiplied by a function of the step.
                inputs = [part.detach().requires_grad_() for part in parts[1:]]
                try:
                    values = self._values(group, (parts[0], *inputs), when, {})
                except Exception:
                    if not vmap:
                        raise
                    return False
                gradients = torch.autograd.grad(values[:, 0].sum(), inputs, allow_unused=True)
                found[-1] += [values, *(g[group.rows] for g in gradients if g is not None)]
        one, all_at_once = found
        return len(one) == len(all_at_once) and all(torch.equal(a, b) for a, b in zip(one, all_at_once))

    def _values(
        self, group: ObjectiveGroup, parts: tuple[Tensor, ...], step: int, beside: Mapping[str, list[dict[str, Tensor]]]
    ) -> Tensor:
        names: list[str] = []

        def values(
            parts: tuple[Tensor, ...], arguments: dict[str, Any], own: Mapping[str, dict[str, Tensor]]
        ) -> Tensor:
            x, mean, logvar, z, reconstruction, kl, *labels = parts
            modules = {name: ModuleWithParameters(self.stacks[name].template, weights) for name, weights in own.items()}
            batch = Batch(x, mean, logvar, z, reconstruction, kl, step, self.size, modules, *labels)
            assert group.objective is not None
            terms = group.objective(batch, **arguments)
            loss = total(terms)
            names[:] = ["loss", *terms]
            return torch.stack([loss, *terms.values()])

        if group.vmap:
            whole = group.start == 0 and group.stop == len(self.members)
            mine = parts if whole else tuple(part[group.rows] for part in parts)
            shared = group.arguments[0]
            found = torch.func.vmap(lambda of_one, own: values(of_one, {**shared, **own}, {}))(mine, group.swept)
        else:
            each = zip(*(part[group.rows].unbind() for part in parts))
            own = [{name: of[i] for name, of in beside.items()} for i in range(group.start, group.stop)]
            found = torch.stack([values(*of_one) for of_one in zip(each, group.arguments, own)])
        group.names = [*names, *(companion.name for companion in self.companions)]
        return found


class Solo:
    """A model by itself, of any learner, as the training loop takes a population: one group of one member."""

    def __init__(
        self,
        members: Sequence["Member"],
        size: float,
        noise: Sequence[torch.Generator],
        device: torch.device,
        labels: Sequence[Labels | None] = (),
    ):
        (member,), self.noise = members, list(noise)
        self.learner = make_learner(member.config, member.method, size, self.noise[0], device)
        if isinstance(self.learner, VAELearner) and labels:
            self.learner.labels = labels[0]
        self.groups = [ObjectiveGroup(member.method.objective, [{}], 0, {}, vmap=False)]

    def update(self, batches: Batches, step: int) -> list[Tensor]:
        """Update the model; return its values (1, values): loss, terms and, where there are some, KLs."""

        def draw() -> Drawn:
            x, changed = split(batches.draw())
            alone = x[0], None if changed is None else changed[0]
            return alone if isinstance(batches, PairBatches) else alone[0]

        terms, kl = self.learner.update(draw, step)
        self.groups[0].names = list(terms)
        values = [*terms.values(), *([] if kl is None else [kl])]
        return [torch.cat([value.detach().reshape(-1) for value in values])[None]]

    def activations(self, x: Tensor) -> NDArray[np.float16]:
        """Return (1, images, units), see PopulationLearner."""
        return first_activations(network_of(self.learner), x)[None]

    def network(self, i: int) -> Autoencoder:
        """Return the network."""
        return network_of(self.learner)

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a checkpoint must hold of it, by name."""
        modules = {name: module.state_dict() for name, module in self.learner.modules.items()}
        return _tensors(modules, self.learner.optimisers)

    def finite(self) -> list[bool]:
        """Return whether its weights are finite."""
        norms = torch.stack([weight.detach().norm() for weight in network_of(self.learner).parameters()])
        return [bool(norms.isfinite().all())]

    def settle(self) -> None:
        """Do nothing: no noise is drawn ahead."""

    def keep(self, indices: Sequence[int]) -> None:
        """Do nothing: there is no other member."""

    def restore_groups(self, groups: Sequence[tuple[int, bool, list[str]]]) -> None:
        """Restore the names of the terms from a checkpoint."""
        self.groups[0].names = list(groups[0][2])


@torch.no_grad()
def first_activations(network: Autoencoder, x: Tensor) -> NDArray[np.float16]:
    """Return (images, units) of the decoder's first layer, at the mean codes of the present encoder."""
    network.eval()
    units = network.first_activations(network.encode(x)[0])
    network.train()
    return units.cpu().numpy().astype(np.float16)


def _tensors(modules: Mapping[str, Mapping[str, Tensor]], optimisers: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return weights and moments by the names that checkpoints have for them."""
    found = {f"module/{name}/{key}": value for name, weights in modules.items() for key, value in weights.items()}
    for name, optimiser in optimisers.items():
        for i, state in enumerate(optimiser.state):
            found |= {f"optimiser/{name}/{i}/{key}": value for key, value in state.items()}
    return found


def distance(decoder: str, x: Tensor, outputs: Tensor) -> Tensor:
    """Return -log p(x|z) of each member, (k,): `karenina.models.objectives.DECODERS` with the member as first axis."""
    if decoder == "bernoulli":
        # The sums go in the order of memory, channels last.
        return bernoulli(x.permute(0, 1, 3, 4, 2), outputs.permute(0, 1, 3, 4, 2))
    return (0.5 * (outputs - x).square()).flatten(1).sum(1) / x.shape[1]


def _arguments(member: "Member") -> dict[str, Any]:
    """Return the arguments of the member's objective: its parameters but those of the method and of modules beside
    it."""
    taken = {*member.method.parameters, *(name for one in member.method.beside for name in one.defaults())}
    return {name: value for name, value in member.config.parameters.items() if name not in taken}


def objective_key(member: "Member") -> tuple[str, int, str, str]:
    """Return the name and the identity of the member's objective, its arguments that are no floats, and those that are.

    Members that share the first three can be computed at once; those that share all need not even tell numbers apart.
    """
    arguments = _arguments(member)
    kinds = {name: type(value).__name__ if isinstance(value, float) else value for name, value in arguments.items()}
    floats = {name: value for name, value in arguments.items() if isinstance(value, float)}
    objective = id(unsupervised(member.method.objective))  # Functions made by one function have one name.
    return member.config.method, objective, json.dumps(kinds, sort_keys=True), json.dumps(floats, sort_keys=True)


def _changes(arguments: Sequence[Any]) -> list[int]:
    """Return where runs of equal entries start."""
    return [i for i, one in enumerate(arguments) if i == 0 or one != arguments[i - 1]]
