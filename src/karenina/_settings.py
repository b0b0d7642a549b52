"""The settings of training, in one table.

From it come the fields of a run's config, the arguments of `karenina.train` and of DisentanglingVAE, the keys of a
study file and the options of `karenina train`. A new setting is one entry here, and the place that reads it.
"""

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from karenina._words import hint

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class")


@dataclass(frozen=True)
class Setting:
    """What can be chosen of a training, whatever the method.

    kind: int (1 or more), float (more than 0), str or bool. default: what training takes without it; "auto" where that
    depends on the rest. choices: the values it takes, or "module:name" of what holds them. swept: whether a study may
    give several values. before: the value that runs have which were stored before there was a choice.
    """

    kind: type
    default: Any
    about: str
    choices: str | tuple[str, ...] = ()
    swept: bool = False
    before: Any = None

    def known(self) -> tuple[str, ...]:
        """Return the values that it takes; nothing where any of its kind is one."""
        if isinstance(self.choices, tuple):
            return self.choices
        module, _, name = self.choices.partition(":")
        return tuple(getattr(import_module(module), name))

    def check(self, name: str, value: Any) -> Any:
        """Return the value as its kind; a ValueError says what is wrong with it."""
        if self.kind is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false, got {shown(value)}")
            return value
        if self.kind is int:
            return integer(name, value, 1)
        if self.kind is float:
            return positive(name, value)
        if value not in self.known():
            raise ValueError(f"no {name} {shown(value)}; {hint(value, self.known())}")
        return value


SETTINGS = {
    "steps": Setting(int, 10_000, "Updates, each from a batch of images.", swept=True),
    "network": Setting(
        str, "auto", "Architecture: auto (by image size) or one of docs/methods.md.",
        choices="karenina.models.networks:NETWORKS", swept=True,
    ),
    "latents": Setting(int, 10, "Number of latents.", swept=True),
    "batch": Setting(int, 64, "Images of an update."),
    "learning_rate": Setting(float, "auto", "Rate of Adam; auto goes by network and steps."),
    "decoder": Setting(
        str, "bernoulli", "Likelihood of images: bernoulli or gaussian.",
        choices="karenina.models.objectives:DECODERS",
    ),
    "reconstruction_weight": Setting(float, "auto", "Factor of -log p(x|z); auto is 64 * 64 / (height * width)."),
    "trace": Setting(bool, False, "Record what the dynamics score reads."),
    "init": Setting(
        str, "auto", "Initial weights: auto, torch, glorot or he.",
        choices="karenina.models.networks:INITS", before="torch",
    ),
    "precision": Setting(
        str, "float32", "Precision of matrix products: float32, tf32 or bf16.",
        choices=("float32", "tf32", "bf16"), before="float32",
    ),
}  # fmt: skip


def with_settings(names: Iterable[str] = SETTINGS) -> Callable[[Function], Function]:
    """Return a decorator that adds settings to the signature of a function that takes them as **keywords."""

    def decorate(function: Function) -> Function:
        known = inspect.signature(function)
        kinds = {name: SETTINGS[name].kind for name in names}
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=SETTINGS[name].default,
                annotation=kind if isinstance(SETTINGS[name].default, kind) else kind | str,
            )
            for name, kind in kinds.items()
        ]
        own = list(known.parameters.values())
        rest = [one for one in own if one.kind is inspect.Parameter.VAR_KEYWORD]
        ours = [one for one in own if one not in rest]
        function.__signature__ = known.replace(parameters=[*ours, *added, *rest])  # type: ignore[attr-defined]
        return function

    return decorate


def setting_fields(after: str, default: Callable[[Setting], Any] | None = None) -> Callable[[type[Class]], type[Class]]:
    """Return a decorator, to stand below @dataclass, that gives a class a field for each setting, after this one."""

    def decorate(cls: type[Class]) -> type[Class]:
        own = dict(cls.__annotations__)
        place = list(own).index(after) + 1
        ours = {name: setting.kind for name, setting in SETTINGS.items()}
        cls.__annotations__ = dict([*list(own.items())[:place], *ours.items(), *list(own.items())[place:]])
        if default is not None:
            for name, setting in SETTINGS.items():
                setattr(cls, name, default(setting))
        return cls

    return decorate


def split_settings(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all settings, defaults included, and whatever else was given, such as parameters of the method."""
    settings = {name: given.get(name, setting.default) for name, setting in SETTINGS.items()}
    return settings, {name: value for name, value in given.items() if name not in SETTINGS}


def canonical(value: Any) -> Any:
    """Return an integer for a float that is one: 1 and 1.0 are the same strength."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def identity(model: Any) -> dict[str, Any]:
    """Return what a model's hash is made of, data set and seed aside: its method, its parameters and its settings.

    model: the config of a run, or a point of a study. Settings that have the value from before there was a choice are
    left out, so that models have the hash that they had then.
    """
    parameters = {name: canonical(value) for name, value in dict(model.parameters).items()}
    settings = {name: canonical(getattr(model, name)) for name in SETTINGS}
    chosen = {name: value for name, value in settings.items() if value != SETTINGS[name].before}
    return {"method": model.method, "parameters": parameters, **chosen}


def hash_of(value: Any) -> str:
    """Return the SHA-256 of what JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def setting_of(model: Any) -> str:
    """Return the short hash of what a model shares with those that differ from it in data set and seed alone.

    model: the config of a run, or a point of a study. They have one hash where the plan leaves no choice to us: a point
    keeps its "auto", while a config says what that became, and has the defaults among its parameters.
    """
    return hash_of(identity(model))[:8]


def number(name: str, value: Any) -> float:
    """Return a finite number as a float; a ValueError that names it where it is none."""
    try:
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy's
            value = value.item()
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:  # an integer beyond the largest float
        pass
    raise ValueError(f"{name} must be a finite number, got {shown(value)}")


def positive(name: str, value: Any) -> float:
    """Return a number above 0 as a float; a ValueError that names it where it is none."""
    if number(name, value) <= 0:
        raise ValueError(f"{name} must be more than 0, got {shown(value)}")
    return float(value)


def integer(name: str, value: Any, least: int) -> int:
    """Return an integer of at least so much; a ValueError that names it where it is none."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer, {least} or more, got {shown(value)}")
    if value >= 2**63:  # more than files and torch's generator hold
        raise ValueError(f"{name} must be an integer below 2**63, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return what was given, for a message of one line: any repr at all, cut short.

    >>> shown("x"), shown(10**400)[-8:]
    ("'x'", '00000...')
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists within lists within lists
        return f"something of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."
