"""A population: k models of one network shape, trained as one stacked network.

Nothing of a model depends on those beside it: it draws its batches and its noise from its own seed, as `karenina.train`
does, and every product, loss and update is its own slice of a batched one, computed as `train` computes it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina.models import fast
from karenina.models.networks import Autoencoder, Shape
from karenina.models.objectives import Batch, Objective, kl_per_latent
from karenina.models.stacked import Stack, with_parameters
from karenina.training.batches import Batches
from karenina.training.config import Config
from karenina.training.feeds import Labels
from karenina.training.learners import VAELearner, make_learner, minimise, split, total
from karenina.training.methods import Beside, Method


@dataclass(frozen=True)
class Member:
    """One model of a population: its config and its method."""

    config: Config
    method: Method

    @property
    def stackable(self) -> bool:
        """Whether its training is an objective on batches, with a network that has no buffers."""
        c, method = self.config, self.method
        trained_by_objective = method.learner is VAELearner and method.fit is None
        return trained_by_objective and not _has_buffers(method.network, c.network, c.image_shape, c.latents)

    @property
    def shape(self) -> tuple[Any, ...]:
        """What members of one population have in common."""
        c = self.config
        beside = tuple(
            (id(one), *((name, c.parameters[name]) for name in sorted(one.defaults()))) for one in self.method.beside
        )
        told = (id(self.method.share), *((name, c.parameters[name]) for name in sorted(self.method.parameters)))
        numbers = (c.network, c.latents, c.batch, c.steps, c.learning_rate, c.decoder, c.reconstruction_weight, c.trace)
        return (c.data, c.images, c.image_shape, c.precision, *numbers, beside, told)


@cache
def _has_buffers(build: Callable[..., Autoencoder], network: str, shape: Shape, latents: int) -> bool:
    """As those of batch normalisation, which a stack of networks cannot share."""
    with torch.device("meta"):
        return any(True for _ in build(network, shape, latents).buffers())


@dataclass
class Group:
    """Members start:stop of the stack, which share an objective and its parameters.

    vmap: whether torch.func.vmap computes it for all of them, to the bit as for each; otherwise it is called for each.
    """

    objective: Objective
    parameters: dict[str, Any]
    start: int
    stop: int
    vmap: bool = True
    names: list[str] = field(default_factory=list)
    sums: Tensor | None = None  # (members, values) since the last row of the history

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
        members: Sequence[Member],
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
        self.weight, self.decoder = first.weight, members[0].config.decoder
        self.groups = self.make_groups()
        self.settled = False

    def update(self, batches: Batches, rngs: Sequence[np.random.Generator], step: int) -> list[tuple[Tensor, Tensor]]:
        """One update of every member: for each group its values (members, 1 + terms), loss first, and KLs."""
        x, changed = split(batches.draw(rngs))
        mean, logvar = self.encode(x)
        if self.share is not None:
            mean, logvar = self.share(mean, logvar, changed)
        z = self.sample(mean, logvar)
        network = self.stacks["network"]
        reconstruction = self.weight * distance(self.decoder, x, network(self.shape.decoder, z).float())
        kl = torch.func.vmap(kl_per_latent)(mean, logvar)
        parts = (x, mean, logvar, z, reconstruction, kl, *self.labelled(step))
        found = self._terms(parts, step)
        loss = torch.cat([values[:, 0] for values in found]).sum()
        minimise(loss, self.optimisers["network"], others=bool(self.companions))
        recorded = [[values.detach()] for values in found]
        for companion in self.companions:
            losses = self.update_beside(companion, z.detach(), batches.draw(rngs))
            for group, values in zip(self.groups, recorded):
                values.append(losses[group.rows, None])
        return [(torch.cat(values, 1), kl[group.rows].detach()) for group, values in zip(self.groups, recorded)]

    def update_beside(self, companion: Beside, z: Tensor, x: Tensor) -> Tensor:
        """One update of a module beside each network, from the codes of its update and those of a second batch."""
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
        """Mean codes (k, m, latents) of images that have labels, and these; nothing where there are none."""
        found = [labels.at(step) for labels in self.labels if labels is not None]
        if not found:
            return ()
        x, labels = (torch.stack(part) for part in zip(*found))
        return self.encode(x)[0], labels

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance, (k, n, latents), of x (k, n, c, h, w)."""
        network = self.stacks["network"]
        outputs = network(self.shape.head, network(self.shape.features, x))
        mean, logvar = outputs.float().chunk(2, dim=2)
        return mean, logvar

    def sample(self, mean: Tensor, logvar: Tensor) -> Tensor:
        epsilon = torch.empty(mean.shape, device=self.device)
        for one, noise in zip(epsilon, self.noise):
            torch.randn(one.shape, generator=noise, device=self.device, out=one)
        return torch.addcmul(mean, (0.5 * logvar).exp(), epsilon)

    @torch.no_grad()
    def activations(self, x: Tensor) -> NDArray[np.float16]:
        """(k, images, units) of the decoders' first layers at the mean codes of images x (images, c, h, w)."""
        network = self.stacks["network"]
        mean, _ = self.encode(x.expand(len(self.members), *x.shape))
        return network(self.shape.decoder[:2], mean).flatten(2).cpu().numpy().astype(np.float16)

    def network(self, i: int) -> nn.Module:
        """The network of member i by itself."""
        member = self.members[i]
        with torch.random.fork_rng(devices=[]):
            alone = member.method.network(member.config.network, member.config.image_shape, member.config.latents)
        alone.load_state_dict(self.stacks["network"].one(i))
        return alone.to(self.device)

    def tensors(self) -> dict[str, Tensor]:
        """All that a checkpoint must hold of it, by name."""
        found: dict[str, Tensor] = {}
        for name, stack in self.stacks.items():
            found |= {f"module/{name}/{key}": value for key, value in stack.parameters.items()}
        for name, optimiser in self.optimisers.items():
            for i, state in enumerate(optimiser.state):
                found |= {f"optimiser/{name}/{i}/{key}": value for key, value in state.items()}
        return found

    def keep(self, indices: Sequence[int]) -> None:
        """Continue with these members only, between two rows of the history."""
        chosen = torch.tensor(list(indices), device=self.device)
        self.members, self.noise = [self.members[i] for i in indices], [self.noise[i] for i in indices]
        self.labels = [self.labels[i] for i in indices] if self.labels else []
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
        before = [group for group in self.groups for _ in range(group.start, group.stop)]
        self.groups = self.make_groups()
        for group in self.groups:
            old_group = before[indices[group.start]]
            group.vmap, group.names = old_group.vmap, old_group.names

    def make_groups(self) -> list[Group]:
        """Neighbours in the stack that share an objective and its parameters."""
        groups: list[Group] = []
        keys = [_objective_key(member) for member in self.members]
        for i, member in enumerate(self.members):
            assert member.method.objective is not None
            if i and keys[i] == keys[i - 1]:
                groups[-1].stop += 1
            else:
                groups.append(Group(member.method.objective, _arguments(member), i, i + 1))
        return groups

    def _terms(self, parts: tuple[Tensor, ...], step: int) -> list[Tensor]:
        """Values (members, 1 + terms) of each group, the loss first. The first call finds out how."""
        if not self.settled:
            for group in self.groups:
                group.vmap = self._exact(group, parts, step)
            self.settled = True
        beside = {name: stack.each() for name, stack in self.stacks.items() if name != "network"}
        return [self._values(group, parts, step, beside) for group in self.groups]

    def _exact(self, group: Group, parts: tuple[Tensor, ...], step: int) -> bool:
        """Whether vmap gives what the objective gives for each member, and the same gradients, to the bit.

        It does not where the objective reads a value in the middle, branches on one, or has products of matrices.
        """
        if group.stop - group.start == 1 or self.companions:
            return False
        found = []
        for vmap in (False, True):
            inputs = [part.detach().requires_grad_() for part in parts[1:]]
            group.vmap = vmap
            try:
                values = self._values(group, (parts[0], *inputs), step, {})
            except Exception:
                if not vmap:
                    raise
                return False
            gradients = torch.autograd.grad(values[:, 0].sum(), inputs, allow_unused=True)
            found.append([values, *(g for g in gradients if g is not None)])
        one, all_at_once = found
        return len(one) == len(all_at_once) and all(torch.equal(a, b) for a, b in zip(one, all_at_once))

    def _values(
        self, group: Group, parts: tuple[Tensor, ...], step: int, beside: Mapping[str, list[dict[str, Tensor]]]
    ) -> Tensor:
        names: list[str] = []

        def values(parts: tuple[Tensor, ...], own: Mapping[str, dict[str, Tensor]]) -> Tensor:
            x, mean, logvar, z, reconstruction, kl, *labels = parts
            modules = {name: Bound(self.stacks[name].template, weights) for name, weights in own.items()}
            batch = Batch(x, mean, logvar, z, reconstruction, kl, step, self.size, modules, *labels)
            terms = group.objective(batch, **group.parameters)
            loss = total(terms)
            names[:] = ["loss", *terms]
            return torch.stack([loss, *terms.values()])

        if group.vmap:
            found = torch.func.vmap(lambda *of_one: values(of_one, {}))(*(part[group.rows] for part in parts))
        else:
            each = zip(*(part[group.rows].unbind() for part in parts))
            own = [{name: of[i] for name, of in beside.items()} for i in range(group.start, group.stop)]
            found = torch.stack([values(one, weights) for one, weights in zip(each, own)])
        group.names = [*names, *(companion.name for companion in self.companions)]
        return found


class Bound:
    """A module beside the network with the parameters of one member: its methods, and itself when called, use these."""

    def __init__(self, module: nn.Module, parameters: Mapping[str, Tensor]):
        self._module, self._parameters = module, parameters

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with with_parameters(self._module, self._parameters) as module:
            return module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found):
            return self._parameters.get(name, found)

        def bound(*args: Any, **kwargs: Any) -> Any:
            with with_parameters(self._module, self._parameters):
                return found(*args, **kwargs)

        return bound


def distance(decoder: str, x: Tensor, outputs: Tensor) -> Tensor:
    """-log p(x|z) of each member, (k,): `karenina.models.objectives.DECODERS` with the member as first axis.

    Written out, because vmap of the Bernoulli one takes three times as long and rounds differently.
    """
    if decoder == "bernoulli":
        each = nn.functional.binary_cross_entropy_with_logits(outputs, x, reduction="none")
    else:
        each = 0.5 * (outputs - x).square()
    return each.flatten(1).sum(1) / x.shape[1]


def _arguments(member: Member) -> dict[str, Any]:
    """The arguments of the member's objective: its parameters but those of the method and of modules beside it."""
    taken = {*member.method.parameters, *(name for one in member.method.beside for name in one.defaults())}
    return {name: value for name, value in member.config.parameters.items() if name not in taken}


def _objective_key(member: Member) -> str:
    """Equal for members that share an objective and its parameters."""
    return json.dumps([member.config.method, _arguments(member)], sort_keys=True)


def grouped(members: Sequence[Member]) -> list[list[int]]:
    """Populations that can be trained as one, as indices, each in the order of the stack; single ones by themselves."""
    found: dict[Any, list[int]] = {}
    for i, member in enumerate(members):
        found.setdefault(member.shape if member.stackable else i, []).append(i)
    return [sorted(one, key=lambda i: _objective_key(members[i])) for one in found.values()]
