"""All methods in one place: what each minimises, what is trained beside its network, and its default parameters.

Your own method is an objective (one function of a batch), or a `Method` where that is not enough:

>>> import karenina
>>> def factor_vae_with_free_bits(batch, *, gamma=10.0, free=0.1):
...     tc = batch.beside["discriminator"].total_correlation(batch.z)
...     kl = batch.kl.clamp(min=free).sum()
...     return {"reconstruction": batch.reconstruction, "kl": kl, "total_correlation": gamma * tc}
>>> mine = Method(factor_vae_with_free_bits, beside=(DISCRIMINATOR,))
>>> run = karenina.train("blobs", mine, gamma=20, discriminator_units=8, steps=2)

A package registers a method under a name of its choice by an entry point of the group "karenina.methods"; `karenina
train` and study files then know it like the ones here.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from karenina import _plugins
from karenina._words import hint
from karenina.models import infogan, networks, objectives, pairs, quantised, supervised, support
from karenina.models.discriminator import Discriminator, permute_dims
from karenina.models.networks import Autoencoder
from karenina.models.objectives import Objective
from karenina.models.pca import fit_pca
from karenina.training.learners import InfoGANLearner, Learner, QuantisedLearner, VAELearner


@dataclass(frozen=True)
class Beside:
    """A module that is trained beside the network, such as an adversary; the objective finds it in `batch.beside`.

    name: its key there. make: (latents, **parameters) -> module. loss: (module, z, other) -> what it minimises after
    each update of the network, where z (n, latents) are the codes of that update and `other` the codes of a second
    batch, of which `draw`: (other, generator) -> other makes something at random first, if that is needed. parameters:
    arguments of `make` and their defaults. betas: of its Adam. The method's parameters are these, prefixed by the name,
    and NAME_learning_rate.
    """

    name: str
    make: Callable[..., nn.Module]
    loss: Callable[[Any, Tensor, Tensor], Tensor]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    draw: Callable[[Tensor, torch.Generator], Tensor] = lambda other, _: other

    def defaults(self) -> dict[str, Any]:
        own = {f"{self.name}_{key}": value for key, value in self.parameters.items()}
        return own | {f"{self.name}_learning_rate": self.learning_rate}

    def build(self, latents: int, parameters: Mapping[str, Any]) -> nn.Module:
        return self.make(latents, **{key: parameters[f"{self.name}_{key}"] for key in self.parameters})


@dataclass(frozen=True)
class Method:
    """What `karenina.train` needs to know of a method.

    Parameters
    ----------
    objective : a function from a batch to named loss terms, optional
        Its keyword arguments are parameters of the method.
    beside : modules trained beside the network
    learner : makes an update, where an objective is not enough
    fit : a closed form in place of steps, optional
        (images, latents, seed) -> network.
    network : (network's name, image shape, latents) -> model
    parameters : dict
        Parameters that are not arguments of the objective, with their defaults.
    choices : dict
        Name of a parameter -> the values that it takes.
    fixed : dict
        Settings of `train` that the method decides.
    bound : how far from 0 a traversal goes, where the prior is bounded; None where it is not
    share : for methods that learn from pairs of images, what makes the posteriors of a pair agree
        (mean, logvar, changed, known=...) -> mean, logvar. Such a method has the parameters "k" and "known".
    """

    objective: Objective | None = None
    beside: tuple[Beside, ...] = ()
    learner: Callable[..., Learner] = VAELearner
    fit: Callable[..., Autoencoder] | None = None
    network: Callable[..., Autoencoder] = networks.build
    parameters: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    bound: float | None = None
    share: Callable[..., tuple[Tensor, Tensor]] | None = None

    def defaults(self) -> dict[str, Any]:
        """All parameters and their default values; inspect.Parameter.empty for those that must be given."""
        found: dict[str, Any] = {}
        if self.objective is not None:
            arguments = list(inspect.signature(self.objective).parameters.values())[1:]
            found = {argument.name: argument.default for argument in arguments}
        for module in self.beside:
            found |= module.defaults()
        return found | dict(self.parameters)


# Kim & Mnih (2018), appendix A.
DISCRIMINATOR = Beside(
    "discriminator",
    Discriminator,
    Discriminator.loss,
    {"layers": 6, "units": 1000},
    learning_rate=1e-4,
    betas=(0.5, 0.9),
    draw=permute_dims,  # algorithm 2: codes of the first batch are told from shuffled codes of a second one
)


def _from_pairs(average: pairs.Average) -> Method:
    """The beta-VAE of posteriors that pairs share. k: how many factors a pair differs in. known: what is told of it."""
    return Method(
        objectives.beta_vae,
        share=partial(pairs.share, average=average),
        parameters={"k": 1, "known": "nothing"},
        choices={"k": (*range(1, 10), "random"), "known": pairs.KNOWN},
    )


METHODS: dict[str, Method] = {
    "vae": Method(objectives.vae),
    "beta_vae": Method(objectives.beta_vae),
    "annealed_vae": Method(objectives.annealed_vae),
    "factor_vae": Method(objectives.factor_vae, beside=(DISCRIMINATOR,)),
    "beta_tcvae": Method(objectives.beta_tcvae, choices={"estimator": ("weighted", "stratified")}),
    "dip_vae_i": Method(objectives.dip_vae_i),
    "dip_vae_ii": Method(objectives.dip_vae_ii),
    "infogan": Method(
        learner=InfoGANLearner,
        network=infogan.build,
        parameters={"mi_weight": 6.0, "gradient_penalty": 10.0, "critic_steps": 5},
        fixed={"decoder": "bernoulli"},  # a generator, whose images are in [0, 1], in place of a likelihood
        bound=1.0,
    ),
    "ada_gvae": _from_pairs(pairs.arithmetic),
    "ada_mlvae": _from_pairs(pairs.product),
    "hfs": Method(support.hfs),
    "qlae": Method(
        quantised.qlae,
        learner=QuantisedLearner,
        network=quantised.build,
        parameters={"weight_decay": 0.1},
    ),
    "pca": Method(fit=fit_pca, fixed={"network": "linear", "decoder": "gaussian", "trace": False}),
}


def names() -> tuple[str, ...]:
    """All methods known by name: ours, then those of plug-ins."""
    return tuple(METHODS | _plugins.found("methods"))


def find(method: "str | Objective | Method") -> tuple[str, Method]:
    """Name and method: of a name, of an objective, or of a method.

    What is not registered is named after its objective's module.
    """
    if isinstance(method, str):
        if method in METHODS:
            return method, METHODS[method]
        if method not in _plugins.found("methods"):
            raise ValueError(f"no method {method!r}; {hint(method, names())}")
        added = _plugins.load("methods", method)
        return method, added if isinstance(added, Method) else Method(added)
    own = method if isinstance(method, Method) else Method(method)
    for name, known in METHODS.items():
        if known == own or (known.objective is method and method is not None):
            return name, known
    function: Any = own.objective or own.fit or own.learner
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}", own


# Parameters of every method that has an objective: how many images have labels, and what these are used for.
SUPERVISION: dict[str, Any] = {"supervised": 100, **supervised.ARGUMENTS}


def find_for(method: "str | Objective | Method", parameters: Mapping[str, Any]) -> Method:
    """The method that these parameters ask for: with supervised= it also learns from labels."""
    name, found = find(method)
    if not parameters.get("supervised"):
        return found
    if found.objective is None:
        raise ValueError(f"supervised= adds a term to an objective, and {name} has none")
    return replace(
        found,
        objective=supervised.supervised(found.objective),
        parameters={**found.parameters, "supervised": SUPERVISION["supervised"]},
        choices={**found.choices, "supervised_loss": tuple(supervised.LOSSES)},
    )


def of_run(name: str) -> Method:
    """The method of a stored run: a plain one where it was trained with an objective that is not registered."""
    return find(name)[1] if name in names() else Method()


def defaults(method: "str | Objective | Method") -> dict[str, Any]:
    """The parameters of a method and their default values.

    >>> defaults("beta_vae")
    {'beta': 4.0}
    """
    return find(method)[1].defaults()
