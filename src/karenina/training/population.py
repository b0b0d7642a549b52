"""What the training loop updates: k models of one network shape as one stacked network, or one model by itself.

Nothing of a model depends on those beside it: it draws its batches and its noise from its own seed, as `karenina.train`
does, and every product, loss and update is its own slice of a batched one, computed as `train` computes it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina.models import fast
from karenina.models.networks import Autoencoder
from karenina.models.objectives import Batch, Objective, kl_per_latent
from karenina.models.stacked import Bound, Stack, bernoulli, with_parameters
from karenina.models.supervised import unsupervised
from karenina.training.batches import Batches, Labels, Noise, PairBatches
from karenina.training.config import Config
from karenina.training.learners import Drawn, VAELearner, make_learner, minimise, network_of, split, total
from karenina.training.methods import METHODS, Beside, Method


@dataclass(frozen=True)
class Member:
    """One model of a population: its config and its method."""

    config: Config
    method: Method

    @property
    def stackable(self) -> bool:
        """Whether its training is an objective on batches, with networks that can share a stack."""
        c, method = self.config, self.method
        if method.learner is not VAELearner or method.fit is not None:
            return False
        if c.method not in METHODS:
            return _same_as_alone(self)
        with torch.device("meta"):
            network = method.network(c.network, c.image_shape, c.latents)
        return not any(True for _ in network.buffers())  # batch normalisation has some

    @property
    def shape(self) -> tuple[Any, ...]:
        """What members of one population have in common."""
        c = self.config
        beside = tuple(
            (id(one), *((name, c.parameters[name]) for name in sorted(one.defaults()))) for one in self.method.beside
        )
        told = (id(self.method.share), *((name, c.parameters[name]) for name in sorted(self.method.parameters)))
        numbers = (c.network, c.latents, c.batch, c.steps, c.learning_rate, c.decoder, c.reconstruction_weight, c.trace)
        return (c.data, c.images, c.image_shape, c.precision, *numbers, beside, told, self.method.network)


def _same_as_alone(member: Member) -> bool:
    """Whether the first update of a method of the user's is the same in a population, tried out with random images.

    It is not where a network does more than its parts (`features`, `head`, `decoder`) say. What draws from torch's
    global generator, such as dropout, cannot be in a population either: the generator is seeded for one run.
    """
    c, cpu, size = member.config, torch.device("cpu"), 1000.0
    noise = torch.Generator()
    x = torch.rand((c.batch if member.method.share is None else 2 * c.batch, *c.image_shape), generator=noise)
    x = x.to(memory_format=torch.channels_last)
    labels = Labels(x, torch.zeros(len(x), 1), 0, 1) if c.parameters.get("supervised") else None
    changed = None if member.method.share is None else torch.zeros(c.batch, 1, dtype=torch.bool)
    drawn, each = (x, x[None]) if changed is None else ((x, changed), (x[None], changed[None]))
    try:
        with torch.random.fork_rng(devices=[]):
            state = torch.get_rng_state()
            alone = make_learner(c, member.method, size, noise.manual_seed(0), cpu)
            assert isinstance(alone, VAELearner)
            alone.labels = labels
            trace = _activations(network_of(alone), x) if c.trace else None
            terms, kl = alone.update(lambda: drawn, 0)
            population = PopulationLearner([member], size, [noise.manual_seed(0)], cpu, [labels])
            if trace is not None and not np.allclose(population.activations(x)[0], trace, rtol=1e-2, equal_nan=True):
                return False
            values = population.update(cast(Batches, SimpleNamespace(draw=lambda: each)), 0)[0][0]
            random = not torch.equal(torch.get_rng_state(), state)
    except Exception:  # what is wrong with it is said when it is trained
        return False
    found = dict(zip(population.groups[0].names, values))  # a term may have the name of a module beside the network
    pairs = [*((terms[name], found[name]) for name in terms), (kl, values[-c.latents :])]
    return not random and all(torch.allclose(a, b, rtol=1e-3, equal_nan=True) for a, b in pairs)


@dataclass
class Group:
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
        self.epsilon = self._make_noise()
        self.weight, self.decoder = first.weight, members[0].config.decoder
        self.groups = self._grouped(_changes([_objective_key(member)[:3] for member in self.members]))
        self.settled = False

    def _make_noise(self) -> Noise:
        config = self.members[0].config
        images = config.batch * (1 if self.share is None else 2)  # pairs of images
        return Noise(self.noise, (images, config.latents), ahead=not self.companions)

    def update(self, batches: Batches, step: int) -> list[Tensor]:
        """One update of every member: for each group its values (members, 1 + terms + latents): loss, terms, KLs."""
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
        return torch.addcmul(mean, (0.5 * logvar).exp(), self.epsilon.draw())

    @torch.no_grad()
    def activations(self, x: Tensor) -> NDArray[np.float16]:
        """(k, images, units) of the decoders' first layers at the mean codes of images x (images, c, h, w)."""
        network = self.stacks["network"]
        mean, _ = self.encode(x.expand(len(self.members), *x.shape))
        return network(self.shape.decoder[:2], mean).flatten(2).cpu().numpy().astype(np.float16)

    def network(self, i: int) -> Autoencoder:
        """The network of member i by itself."""
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
        """Put the generators of noise where they would be had nothing been drawn ahead."""
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

    def _grouped(self, bounds: Sequence[int]) -> list[Group]:
        """Groups that start at these members."""
        found = []
        for start, stop in pairwise([*bounds, len(self.members)]):
            objective = self.members[start].method.objective
            assert objective is not None
            found.append(self._group(objective, [_arguments(member) for member in self.members[start:stop]], start))
        return found

    def _group(self, objective: Objective | None, arguments: list[dict[str, Any]], start: int) -> Group:
        columns = {name: [one[name] for one in arguments] for name in arguments[0]}
        swept = {
            name: torch.tensor(column, dtype=torch.float32, device=self.device)
            for name, column in columns.items()
            if any(value != column[0] for value in column)
        }
        return Group(objective, arguments, start, swept)

    def restore_groups(self, groups: Sequence[tuple[int, bool, list[str]]]) -> None:
        """Groups as a checkpoint has them: where each starts, whether it is computed at once, and its terms."""
        self.groups = self._grouped([start for start, _, _ in groups])
        for group, (_, vmap, names) in zip(self.groups, groups):
            group.vmap, group.names = bool(vmap), list(names)
        self.settled = True

    def _terms(self, parts: tuple[Tensor, ...], step: int) -> list[Tensor]:
        """Values (members, 1 + terms) of each group, the loss first. The first call finds out how."""
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

    def _exact(self, group: Group, parts: tuple[Tensor, ...], step: int) -> bool:
        """Whether vmap gives what the objective gives for each member, and the same gradients, to the bit.

        It does not where the objective reads a value in the middle, branches on one, or has products of matrices.
        """
        if len(group.arguments) == 1 or self.companions:
            return False
        found: list[list[Tensor]] = []
        for vmap in (False, True):
            group.vmap = vmap
            found.append([])
            for when in (step, step + 777):  # an argument may be multiplied by a function of the step
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
        self, group: Group, parts: tuple[Tensor, ...], step: int, beside: Mapping[str, list[dict[str, Tensor]]]
    ) -> Tensor:
        names: list[str] = []

        def values(
            parts: tuple[Tensor, ...], arguments: dict[str, Any], own: Mapping[str, dict[str, Tensor]]
        ) -> Tensor:
            x, mean, logvar, z, reconstruction, kl, *labels = parts
            modules = {name: Bound(self.stacks[name].template, weights) for name, weights in own.items()}
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
        members: Sequence[Member],
        size: float,
        noise: Sequence[torch.Generator],
        device: torch.device,
        labels: Sequence[Labels | None] = (),
    ):
        (member,), self.noise = members, list(noise)
        self.learner = make_learner(member.config, member.method, size, self.noise[0], device)
        if isinstance(self.learner, VAELearner) and labels:
            self.learner.labels = labels[0]
        self.groups = [Group(member.method.objective, [{}], 0, {}, vmap=False)]

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
        return _activations(network_of(self.learner), x)[None]

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
def _activations(network: Autoencoder, x: Tensor) -> NDArray[np.float16]:
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
    """-log p(x|z) of each member, (k,): `karenina.models.objectives.DECODERS` with the member as first axis."""
    if decoder == "bernoulli":
        # In the order of memory, channels last.
        return bernoulli(x.permute(0, 1, 3, 4, 2), outputs.permute(0, 1, 3, 4, 2))
    return (0.5 * (outputs - x).square()).flatten(1).sum(1) / x.shape[1]


def _arguments(member: Member) -> dict[str, Any]:
    """The arguments of the member's objective: its parameters but those of the method and of modules beside it."""
    taken = {*member.method.parameters, *(name for one in member.method.beside for name in one.defaults())}
    return {name: value for name, value in member.config.parameters.items() if name not in taken}


def _objective_key(member: Member) -> tuple[str, int, str, str]:
    """The name and the identity of the member's objective, its arguments that are no floats, and those that are.

    Members that share the first three can be computed at once; those that share all need not even tell numbers apart.
    """
    arguments = _arguments(member)
    kinds = {name: type(value).__name__ if isinstance(value, float) else value for name, value in arguments.items()}
    floats = {name: value for name, value in arguments.items() if isinstance(value, float)}
    objective = id(unsupervised(member.method.objective))  # functions made by one function have one name
    return member.config.method, objective, json.dumps(kinds, sort_keys=True), json.dumps(floats, sort_keys=True)


def _changes(arguments: Sequence[Any]) -> list[int]:
    """Where runs of equal ones start."""
    return [i for i, one in enumerate(arguments) if i == 0 or one != arguments[i - 1]]


def grouped(members: Sequence[Member]) -> list[list[int]]:
    """Populations that can be trained as one, as indices, each in the order of the stack; single ones by themselves."""
    found: dict[Any, list[int]] = {}
    keys = [_objective_key(member) for member in members]
    stackable: dict[Any, bool] = {}
    for i, member in enumerate(members):
        kind = (member.shape, keys[i][:2])
        if kind not in stackable:
            stackable[kind] = member.stackable
        found.setdefault(member.shape if stackable[kind] else i, []).append(i)
    place = {key[1]: i for i, key in reversed(list(enumerate(keys)))}  # where an objective is first used
    order = [(name, place[objective], *arguments) for name, objective, *arguments in keys]
    return [sorted(one, key=order.__getitem__) for one in found.values()]
