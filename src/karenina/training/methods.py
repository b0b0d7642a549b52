"""All methods in one place: what each minimises, what is trained beside its network, and its default parameters; the
config of a run, which holds every choice that decides its result.

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

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from karenina import _plugins
from karenina._settings import SETTINGS, integer, number, setting_fields, shown
from karenina._words import hint, meant
from karenina.data import DataSet
from karenina.data.sampling import Pairs
from karenina.models import infogan, networks, objectives
from karenina.models.networks import Autoencoder, Shape, is_own, resolve, rules
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
    """A method: all that `karenina.train` needs to know of it.

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
        """Return all parameters and their default values; inspect.Parameter.empty for those that must be given."""
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
    objectives.Discriminator,
    objectives.Discriminator.loss,
    {"layers": 6, "units": 1000},
    learning_rate=1e-4,
    betas=(0.5, 0.9),
    draw=objectives.permute_dims,  # Algorithm 2 tells codes of a batch from shuffled codes of a second one.
)


def _from_pairs(average: objectives.Average) -> Method:
    """Return the beta-VAE of posteriors that pairs share. Parameter k: how many factors a pair differs in; known: what
    is known of that."""
    return Method(
        objectives.beta_vae,
        share=partial(objectives.share_posteriors, average=average),
        parameters={"k": 1, "known": "nothing"},
        choices={"k": (*range(1, 10), "random"), "known": objectives.KNOWN_OF_PAIRS},
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
        fixed={"decoder": "bernoulli"},  # It has a generator, with images in [0, 1], and no likelihood.
        bound=1.0,
    ),
    "ada_gvae": _from_pairs(objectives.gvae_average),
    "ada_mlvae": _from_pairs(objectives.mlvae_average),
    "hfs": Method(objectives.hfs),
    "qlae": Method(
        objectives.qlae,
        learner=QuantisedLearner,
        network=objectives.build_quantised,
        parameters={"weight_decay": 0.1},
    ),
    "pca": Method(fit=fit_pca, fixed={"network": "linear", "decoder": "gaussian", "trace": False}),
}


def names() -> tuple[str, ...]:
    """Return all methods known by name: ours, then those of plug-ins."""
    return tuple(METHODS | _plugins.found("methods"))


def find(method: "str | Objective | Method") -> tuple[str, Method]:
    """Find the name and the method that belong to a name, an objective or a method.

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


# Every method with an objective has these parameters: how many images have labels, and how these are used.
SUPERVISION: dict[str, Any] = {"supervised": 100, **objectives.SUPERVISED_ARGUMENTS}


def find_for(method: "str | Objective | Method", parameters: Mapping[str, Any]) -> Method:
    """Return the method that these parameters ask for: with supervised= it also learns from labels."""
    name, found = find(method)
    if not parameters.get("supervised"):
        return found
    if found.objective is None:
        raise ValueError(f"supervised= adds a term to an objective, and {name} has none")
    return replace(
        found,
        objective=objectives.supervised(found.objective),
        parameters={**found.parameters, "supervised": SUPERVISION["supervised"]},
        choices={**found.choices, "supervised_loss": tuple(objectives.SUPERVISED_LOSSES)},
    )


def of_run(name: str) -> Method:
    """Return the method of a stored run: a plain one where it was trained with an objective that is not registered."""
    return find(name)[1] if name in names() else Method()


def defaults(method: "str | Objective | Method") -> dict[str, Any]:
    """Return the parameters of a method and their default values.

    >>> defaults("beta_vae")
    {'beta': 4.0}
    """
    return find(method)[1].defaults()


TRACE_LENGTH, TRACE_IMAGES = 30, 200  # Moments of a trace, and images at each.
_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
@setting_fields(after="seed")
class Config:
    """Every choice that decides the result of a training.

    Two runs with equal configs give the same bytes on the same machine, also with equal networks of your own. What
    layers such as dropout draw depends on the seed, too; a run that is resumed on a GPU draws it anew.

    data: name of the data set with its options, as `load` takes it. images: a hash of some of its images, so that
    another set of the same name is noticed. parameters: all parameters of the method, defaults included. The other
    fields are the settings of `karenina.train`, from the table of settings.
    """

    data: str
    images: str
    image_shape: Shape
    method: str
    parameters: Mapping[str, Any]
    seed: int

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {**asdict(self), "image_shape": list(self.image_shape)}

    @classmethod
    def from_json(cls, value: Any) -> "Config":
        """Return a config from a file that may have been written by anyone: nothing in it is believed unchecked."""
        expected = [one.name for one in fields(cls)]
        if isinstance(value, dict):
            value = {name: one.before for name, one in SETTINGS.items() if one.before is not None} | value
        if not isinstance(value, dict) or set(value) != set(expected):
            raise ValueError(f"expected a config with the keys {', '.join(expected)}")
        shape = value["image_shape"]
        if not isinstance(shape, list) or len(shape) != 3:
            raise ValueError(f"image_shape should be three integers, got {shown(shape)}")
        for name in ("data", "images", "method"):
            if not isinstance(value[name], str):
                raise ValueError(f"{name} should be text, got {shown(value[name])}")
        parameters = value["parameters"]
        if not isinstance(parameters, dict) or not all(_plain(found) for found in parameters.values()):
            raise ValueError(f"parameters should be a table of numbers and text, got {shown(parameters)}")
        c, h, w = (integer(f"image_shape[{i}]", side, 1) for i, side in enumerate(shape))
        return cls(**{**value, **check_settings(value), "image_shape": (c, h, w)})


def check_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return seed and settings in range; a ValueError names the one that is not."""
    found = {"seed": integer("seed", values["seed"], 0)}
    own = is_own(values["network"])
    for name, setting in SETTINGS.items():
        if own and (name == "network" or (name, values[name]) == ("init", "own")):
            found[name] = values[name]
        else:
            found[name] = setting.check(name, values[name])
    return found


def make_config(
    data: DataSet, method: str | Objective | Method, parameters: Mapping[str, Any], settings: Mapping[str, Any]
) -> Config:
    """Make the config of a run. `settings`: the other arguments of `train`, with "auto" where the choice is ours."""
    name = find(method)[0]
    if not parameters.get("supervised", True):  # No labels are as without the word.
        parameters = {key: value for key, value in parameters.items() if key not in SUPERVISION}
    described = find_for(method, parameters)
    values = {name: setting.default for name, setting in SETTINGS.items()} | dict(settings)
    shape = data.image_shape
    if values["decoder"] not in ("bernoulli", described.fixed.get("decoder", values["decoder"])):
        raise ValueError(f"{name} has its own decoder ({described.fixed['decoder']}): leave decoder out")
    values |= described.fixed  # A study names one network for all its methods.
    if not is_own(values["network"]):
        values["network"] = resolve(values["network"], shape)
    chosen = rules(values["network"])
    if values["init"] == "auto":
        values["init"] = chosen.init
    if values["learning_rate"] == "auto":
        steps = integer("steps", values["steps"], 1)
        # A critic and a generator that chase each other need small steps, however few there are.
        values["learning_rate"] = chosen.rate(steps, values["init"]) if described.objective else chosen.learning_rate
    if values["reconstruction_weight"] == "auto":
        # A strength then means what it means at the papers' 64x64 pixels.
        values["reconstruction_weight"] = 64 * 64 / (shape[1] * shape[2])
    values |= check_settings(values)
    if values["trace"] and values["steps"] < TRACE_LENGTH - 1:
        raise ValueError(f"a trace has {TRACE_LENGTH} moments, so steps must be {TRACE_LENGTH - 1} or more")
    config = Config(
        data=data.name,
        images=fingerprint(data),
        image_shape=shape,
        method=name,
        parameters=_check_parameters(name, described, parameters, known=name in METHODS or name in names()),
        **values,
    )
    check_data(data, described, config)
    return config


def check_data(data: DataSet, method: Method, config: Config) -> None:
    """Raise a ValueError where the data set lacks what the method learns from."""
    given, factors = config.parameters, len(data.factor_names)
    if method.share is not None:
        Pairs(data, given["k"])
        if data.pairs is not None and given["known"] != "nothing":
            raise ValueError(f"{config.method}: pairs of your own do not say what they share; known is 'nothing'")
    if given.get("supervised"):
        if not data.labelled:
            raise ValueError(f"supervised= needs labels, and {data.name} has no factors")
        if factors > config.latents:
            raise ValueError(f"supervised= needs a latent for each of the {factors} factors, got {config.latents}")


def _check_parameters(method: str, described: Method, given: Mapping[str, Any], *, known: bool) -> dict[str, Any]:
    expected = described.defaults()
    for name in given:
        if name not in expected:
            words = meant(name, [*expected, *SETTINGS])
            end = f"did you mean {words}? It has" if words else "it has"
            raise ValueError(f"{method} has no parameter {name!r}; {end}: {', '.join(expected) or '(none)'}")
    values = {**expected, **given}
    for name, value in values.items():
        if value is _REQUIRED:
            raise ValueError(f"{method} needs the parameter {name!r}")
        default = expected[name]
        choices = described.choices.get(name, ())
        if value in choices and not isinstance(value, bool):
            values[name] = choices[choices.index(value)]
            continue
        if choices and not isinstance(default, str):
            continue  # The next loop raises that.
        if isinstance(default, str):
            if not isinstance(value, str):
                raise ValueError(f"{method}: {name} should be text such as {default!r}, got {shown(value)}")
        elif isinstance(default, int) and not isinstance(default, bool):
            values[name] = integer(f"{method}: {name}", value, 1) if known else value
        elif known and value is not None:
            values[name] = number(f"{method}: {name}", value)
            if values[name] < 0:
                raise ValueError(f"{method}: {name} must not be negative, got {shown(value)}")
        elif not _plain(value):
            raise ValueError(f"{method}: {name} must be a number, text or true or false, got {shown(value)}")
    for name, known_values in described.choices.items():
        if values[name] not in known_values or isinstance(values[name], bool):
            raise ValueError(f"{method}: {name} is {' or '.join(map(str, known_values))}, got {shown(values[name])}")
    return values


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def fingerprint(data: DataSet, *, labels: bool = True) -> str:
    """Return a hash of some of the images and factors: equal for equal data sets, whatever they are called.

    labels=False: what it would be without factors.
    """
    images, factors = data.sample(32, np.random.default_rng(0))
    digest = hashlib.sha256(np.ascontiguousarray(images).tobytes())
    if labels:
        digest.update(np.ascontiguousarray(factors, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]
