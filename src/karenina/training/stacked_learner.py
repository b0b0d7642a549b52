"""A population: k models of one network shape, trained as one stacked network.

Nothing of a model depends on those beside it beyond rounding: it draws its batches and its noise from its own seed, as
`karenina.train` does, and every product, loss and update is its own slice of a batched one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina.models import fast
from karenina.models.networks import Autoencoder
from karenina.models.objectives import Batch, Objective, kl_per_latent
from karenina.models.stacked import Stack, with_parameters
from karenina.training.batches import Batches
from karenina.training.config import Config
from karenina.training.learners import VAELearner, make_learner, total
from karenina.training.methods import Method


@dataclass(frozen=True)
class Member:
    """One model of a population: its config and its method."""

    config: Config
    method: Method

    @property
    def stackable(self) -> bool:
        """Whether its training is an objective on batches, with a network that has no buffers."""
        return self.method.learner is VAELearner and self.method.fit is None and self.config.network != "resnet"

    @property
    def shape(self) -> tuple[Any, ...]:
        """What members of one population have in common."""
        c = self.config
        beside = tuple(
            (id(one), *((name, c.parameters[name]) for name in sorted(one.defaults()))) for one in self.method.beside
        )
        numbers = (c.network, c.latents, c.batch, c.steps, c.learning_rate, c.decoder, c.reconstruction_weight, c.trace)
        return (c.data, c.images, c.image_shape, c.precision, *numbers, beside)


@dataclass
class Group:
    """Members start:stop of the stack, which share an objective.

    constant: arguments of the objective that they share. varying: (members,) of each that differs. how: "vmap", or
    "loop" for an objective that torch.func.vmap cannot take.
    """

    objective: Objective
    start: int
    stop: int
    constant: dict[str, Any]
    varying: dict[str, Tensor]
    how: str = "vmap"
    names: list[str] = field(default_factory=list)
    sums: Tensor | None = None  # (members, values) since the last row of the history

    def __len__(self) -> int:
        return self.stop - self.start


class PopulationLearner:
    """k members as one: their networks, the modules beside them and the optimisers, stacked; one update of all.

    Parameters
    ----------
    members : of equal `shape`, in the order in which `grouped` puts them.
    size : images in the data set, or inf.
    noise : a generator for each member.
    """

    def __init__(self, members: Sequence[Member], size: float, noise: Sequence[torch.Generator], device: torch.device):
        self.members, self.size, self.noise, self.device = list(members), size, list(noise), device
        learners = [make_learner(m.config, m.method, size, g, device) for m, g in zip(members, noise)]
        first = learners[0]
        assert isinstance(first, VAELearner)
        self.stacks = {name: Stack([one.modules[name] for one in learners]) for name in first.modules}
        self.shape = cast(Autoencoder, self.stacks["network"].template)
        self.optimisers = {
            name: fast.Adam(self.stacks[name].parameters.values(), one.learning_rate, one.betas)
            for name, one in first.optimisers.items()
        }
        self.companions = first.companions
        self.weight, self.decoder = first.weight, members[0].config.decoder
        self.groups = self.make_groups(finely=False)
        self.settled = False

    def update(self, batches: Batches, rngs: Sequence[np.random.Generator], step: int) -> list[tuple[Tensor, Tensor]]:
        """One update of every member: for each group its values (members, 1 + terms), loss first, and KLs."""
        x = batches.draw(rngs)
        mean, logvar = self.encode(x)
        z = self.sample(mean, logvar)
        network = self.stacks["network"]
        reconstruction = self.weight * distance(self.decoder, x, network(self.shape.decoder, z).float())
        kl = torch.func.vmap(kl_per_latent)(mean, logvar)
        parts = (x, mean, logvar, z, reconstruction, kl)
        found = self._terms(parts, step)
        loss = torch.cat([values[:, 0] for values in found]).sum()
        minimise(loss, self.optimisers["network"], others=bool(self.companions))
        recorded = [[values.detach()] for values in found]
        for companion in self.companions:
            losses = self.update_beside(companion, z.detach(), batches.draw(rngs))
            for group, values in zip(self.groups, recorded):
                values.append(losses[group.start : group.stop, None])
        return [
            (torch.cat(values, 1), kl[group.start : group.stop].detach())
            for group, values in zip(self.groups, recorded)
        ]

    def update_beside(self, companion: Any, z: Tensor, x: Tensor) -> Tensor:
        """One update of a module beside each network, from the codes of its update and those of a second batch."""
        with torch.no_grad():
            codes = self.sample(*self.encode(x))
            other = torch.stack([companion.draw(one, noise) for one, noise in zip(codes, self.noise)])
        stack = self.stacks[companion.name]

        def loss(parameters: Mapping[str, Tensor], z: Tensor, other: Tensor) -> Tensor:
            with with_parameters(stack.template, parameters) as module:
                return companion.loss(module, z, other)

        losses = torch.func.vmap(loss)(stack.within(stack.template), z, other)
        minimise(losses.sum(), self.optimisers[companion.name], others=False)
        return losses.detach()

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
        """Go on with these members only."""
        chosen = torch.tensor(list(indices), device=self.device)
        self.members, self.noise = [self.members[i] for i in indices], [self.noise[i] for i in indices]
        for name, stack in self.stacks.items():
            old = self.optimisers[name]
            for key, value in stack.parameters.items():
                stack.parameters[key] = nn.Parameter(value.detach()[chosen])
            new = fast.Adam(stack.parameters.values(), old.learning_rate, old.betas)
            new.updates.copy_(old.updates)
            for fresh, state in zip(new.state, old.state):
                for key in ("exp_avg", "exp_avg_sq"):
                    fresh[key].copy_(state[key][chosen])
            self.optimisers[name] = new
        before = {i: (g, i - g.start) for g in self.groups for i in range(g.start, g.stop)}
        finely = any(group.how != "vmap" for group in self.groups)
        self.groups = self.make_groups(finely)
        for group in self.groups:
            of = [before[indices[i]] for i in range(group.start, group.stop)]
            group.how, group.names = of[0][0].how, of[0][0].names
            if of[0][0].sums is not None:
                group.sums = torch.stack([g.sums[row] for g, row in of if g.sums is not None])

    def make_groups(self, finely: bool) -> list[Group]:
        """Neighbours in the stack that share an objective, and all parameters but floats (finely: these, too)."""
        groups: list[Group] = []
        start = 0
        keys = [_objective_key(member, finely) for member in self.members]
        for stop in range(1, len(keys) + 1):
            if stop < len(keys) and keys[stop] == keys[start]:
                continue
            parameters = [_arguments(member) for member in self.members[start:stop]]
            constant = {key: value for key, value in parameters[0].items() if all(p[key] == value for p in parameters)}
            varying = {
                key: torch.tensor([p[key] for p in parameters], device=self.device)
                for key in parameters[0]
                if key not in constant
            }
            objective = self.members[start].method.objective
            assert objective is not None
            groups.append(Group(objective, start, stop, constant, varying))
            start = stop
        return groups

    def _terms(self, parts: tuple[Tensor, ...], step: int) -> list[Tensor]:
        """Values (members, 1 + terms) of each group, the loss first. The first call finds out how."""
        if not self.settled:
            self._settle(parts)
            self.settled = True
        return [self._values(group, parts, step) for group in self.groups]

    def _settle(self, parts: tuple[Tensor, ...]) -> None:
        """Settle how each group's objective is computed: as one, by groups of equal parameters, or one by one."""
        for attempt in ("together", "finely", "loop"):
            if attempt == "finely":
                self.groups = self.make_groups(finely=True)
            for group in self.groups:
                try:
                    self._values(group, parts, 0)
                except Exception:
                    if group.how == "loop":
                        raise
                    if attempt == "together":
                        break
                    group.how = "loop"
                    self._values(group, parts, 0)
            else:
                return

    def _values(self, group: Group, parts: tuple[Tensor, ...], step: int) -> Tensor:
        beside = {name: stack for name, stack in self.stacks.items() if name != "network"}
        names: list[str] = []

        def values(parts: tuple[Tensor, ...], varying: dict[str, Tensor], own: dict[str, Any]) -> Tensor:
            modules: dict[str, Any] = {name: Bound(beside[name].template, own[name]) for name in own}
            x, mean, logvar, z, reconstruction, kl = parts
            batch = Batch(x, mean, logvar, z, reconstruction, kl, step, self.size, modules)
            terms = group.objective(batch, **group.constant, **varying)
            loss = total(terms)
            names[:] = ["loss", *terms]
            return torch.stack([loss, *terms.values()])

        rows = slice(group.start, group.stop)
        arguments = (
            tuple(part[rows] for part in parts),
            group.varying,
            {name: {k: v[rows] for k, v in stack.within(stack.template).items()} for name, stack in beside.items()},
        )
        if group.how == "vmap":
            found = torch.func.vmap(values)(*arguments)
        else:
            each = [torch.utils._pytree.tree_map(lambda t, i=i: t[i], arguments) for i in range(len(group))]
            found = torch.stack([values(*one) for one in each])
        group.names = [*names, *(companion.name for companion in self.companions)]
        return found


class Bound:
    """A module beside the network with the parameters of one member: its methods, and itself when called, use these."""

    def __init__(self, module: nn.Module, parameters: Mapping[str, Tensor]):
        self._module, self._parameters = module, parameters

    def __call__(self, *args: Any) -> Any:
        return torch.func.functional_call(self._module, dict(self._parameters), args)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found):
            return self._parameters.get(name, found)

        def bound(*args: Any, **kwargs: Any) -> Any:
            with with_parameters(self._module, self._parameters):
                return found(*args, **kwargs)

        return bound


def distance(decoder: str, x: Tensor, outputs: Tensor) -> Tensor:
    """-log p(x|z) of each member, (k,): `karenina.models.objectives.DECODERS` with the member as first axis."""
    if decoder == "bernoulli":
        each = nn.functional.binary_cross_entropy_with_logits(outputs, x, reduction="none")
    else:
        each = 0.5 * (outputs - x).square()
    return each.flatten(1).sum(1) / x.shape[1]


def minimise(loss: Tensor, optimiser: fast.Adam, *, others: bool) -> None:
    optimiser.zero_grad()
    loss.backward(inputs=optimiser.parameters if others else None)
    optimiser.step()


def _arguments(member: Member) -> dict[str, Any]:
    """The arguments of the member's objective: its parameters but those of the modules beside the network."""
    taken = {name for one in member.method.beside for name in one.defaults()}
    return {name: value for name, value in member.config.parameters.items() if name not in taken}


def _objective_key(member: Member, finely: bool) -> tuple[Any, ...]:
    arguments = _arguments(member)
    fixed = {k: v for k, v in arguments.items() if finely or not isinstance(v, float)}
    return (member.config.method, tuple(sorted(arguments)), tuple(sorted(fixed.items(), key=lambda item: item[0])))


def grouped(members: Sequence[Member]) -> list[list[int]]:
    """Populations that can be trained as one, as indices, each in the order of the stack; single ones by themselves."""
    found: dict[Any, list[int]] = {}
    for i, member in enumerate(members):
        found.setdefault(member.shape if member.stackable else i, []).append(i)
    return [sorted(one, key=lambda i: repr(_objective_key(members[i], finely=True))) for one in found.values()]
