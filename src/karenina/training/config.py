"""What a run is: every choice that decides its result, checked once."""

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from karenina._settings import SETTINGS, integer, number, setting_fields, shown
from karenina._words import meant
from karenina.data import DataSet
from karenina.data.biased import Pairs
from karenina.models.networks import Shape, is_own, resolve, rules
from karenina.models.objectives import Objective
from karenina.training.methods import METHODS, SUPERVISION, Method, find, find_for, names

TRACE_LENGTH, TRACE_IMAGES = 30, 200  # moments, and images at each
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
    """`settings`: the other arguments of `train`, with "auto" where the choice is ours."""
    name = find(method)[0]
    if not parameters.get("supervised", True):  # none: as without the word
        parameters = {key: value for key, value in parameters.items() if key not in SUPERVISION}
    described = find_for(method, parameters)
    values = {name: setting.default for name, setting in SETTINGS.items()} | dict(settings)
    shape = data.image_shape
    if values["decoder"] not in ("bernoulli", described.fixed.get("decoder", values["decoder"])):
        raise ValueError(f"{name} has its own decoder ({described.fixed['decoder']}): leave decoder out")
    values |= described.fixed  # a study names one network for all its methods
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
        # So that a strength means what it means at the papers' 64x64 pixels.
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
    """A ValueError where the data set lacks what the method learns from."""
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
            continue  # said below
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
    """A hash of some of the images and factors: equal for equal data sets, whatever they are called.

    labels=False: what it would be without factors.
    """
    images, factors = data.sample(32, np.random.default_rng(0))
    digest = hashlib.sha256(np.ascontiguousarray(images).tobytes())
    if labels:
        digest.update(np.ascontiguousarray(factors, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]
