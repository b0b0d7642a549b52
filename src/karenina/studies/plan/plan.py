"""What a study is: data sets x methods x strengths x seeds, from a TOML file or a preset.

>>> from karenina.studies.plan.parsing import parse
>>> plan = parse('''
... name = "two strengths"
... data = "blobs"
... seeds = 3
... steps = 6000
... latents = 8
... [methods.beta_vae]
... beta = [1, 16]
... ''')
>>> len(plan.points), plan.points[0].label
(6, 'blobs, beta_vae beta=1, 8 latents, seed 0')
"""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from karenina._active import ACTIVE_KL
from karenina._words import hint
from karenina.evaluation.udr_versions import UDR_VERSIONS

# Counts the releases in which a score of the same codes changed (CHANGELOG): older scores of a study are made anew.
NUMBERS = 2
Value = float | int | str | bool


@dataclass(frozen=True)
class Point:
    """One model of a study: all arguments of `karenina.train`. `parameter` names the strength among the parameters."""

    data: str
    method: str
    parameters: tuple[tuple[str, Value], ...]
    seed: int
    latents: int
    network: str
    steps: int
    batch: int
    learning_rate: float | str
    decoder: str
    reconstruction_weight: float | str
    init: str
    trace: bool
    parameter: str = field(default="", compare=False)
    precision: str = "float32"

    @cached_property
    def hash(self) -> str:
        """The name of the run's directory. The same model has the same name in every plan."""
        return _digest(self._identity())[:16]

    @cached_property
    def setting(self) -> str:
        """What models that differ in data and seed alone have in common."""
        return _digest({k: v for k, v in self._identity().items() if k not in ("data", "seed")})[:8]

    def _identity(self) -> dict[str, Any]:
        values = {f.name: canonical(getattr(self, f.name)) for f in fields(self) if f.compare}
        for name, before in (("init", "torch"), ("precision", "float32")):  # as before there was a choice
            if values[name] == before:
                del values[name]
        return {**values, "parameters": {name: canonical(value) for name, value in self.parameters}}

    @property
    def strength(self) -> float:
        """NaN for a method without a strength."""
        value = dict(self.parameters).get(self.parameter, math.nan)
        return float(value) if isinstance(value, int | float) else math.nan

    @property
    def settings(self) -> str:
        return shown(dict(self.parameters))

    @property
    def label(self) -> str:
        what = " ".join([self.method, self.settings]).strip()
        return f"{self.data}, {what}, {self.latents} latents, seed {self.seed}"

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `karenina.train`."""
        own = ("data", "method", "parameters", "parameter")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own} | dict(self.parameters)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Point":
        return cls(**{**value, "parameters": tuple(value["parameters"].items())})


@dataclass(frozen=True)
class Scoring:
    """How runs are scored: arguments of `karenina.evaluate`. metrics: names, or None for all.

    tasks: also downstream prediction and fairness, about a minute per model. also: further measures of papers, of
    "regression", "zero_shot" and "label_noise". interventions: drawn from the generative "model", or from the "rows".
    """

    metrics: tuple[str, ...] | None = None
    protocol: str | None = None
    rows: int = 10_000
    repeats: int = 1
    seed: int = 0
    tasks: bool = False
    also: tuple[str, ...] = ()
    interventions: str = "model"

    @cached_property
    def hash(self) -> str:
        values = asdict(self)
        for name, before in (("also", ()), ("interventions", "rows")):  # as studies were scored without a choice
            if values[name] == before:
                del values[name]
        return _digest({**values, "numbers": NUMBERS})[:8]

    def arguments(self, labelled: bool) -> dict[str, Any]:
        """Keyword arguments of `karenina.evaluate`. A plan has one list of metrics for all its data sets; those without
        labels go without them."""
        return asdict(self) | ({} if labelled else {"metrics": None, "tasks": False, "also": ()})


@dataclass(frozen=True)
class Selection:
    """What is computed from all models of a data set together.

    udr: versions of UDR. partners: how many partners a model has at most. spearman_rows: inputs for the Spearman
    versions (the lasso ones use all). kl_threshold: a latent is active above this. dynamics_seeds: how many seeds
    the dynamics score is computed from, in a study with trace = true. a2a_seeds: all-to-all versions as in Duan et al.
    (2020), A.5, among that many seeds of each setting of a method, and all of these; 0: among all models of a data set.
    """

    udr: tuple[str, ...] = UDR_VERSIONS
    partners: int = 50
    spearman_rows: int = 1000
    kl_threshold: float = ACTIVE_KL
    dynamics_seeds: tuple[int, ...] = (5, 10, 25)
    a2a_seeds: int = 0


@dataclass(frozen=True)
class Plan:
    """A study. `points` are its models: the product of data, methods, latents, network, steps and seeds.

    data: names, or paths of your own; options follow a colon, as in "teapots:gap=exclude".
    methods: method -> parameters; those given as lists are swept, and the first of these is the strength.
    population: how many models are trained as one at most; "auto" where that is faster, 1 for one by one.
    """

    name: str
    data: tuple[str, ...]
    methods: tuple[tuple[str, tuple[tuple[str, tuple[Value, ...] | Value], ...]], ...]
    seeds: tuple[int, ...]
    latents: tuple[int, ...] = (10,)
    network: tuple[str, ...] = ("auto",)
    steps: tuple[int, ...] = (10_000,)
    batch: int = 64
    learning_rate: float | str = "auto"
    decoder: str = "bernoulli"
    reconstruction_weight: float | str = "auto"
    init: str = "auto"
    trace: bool = False
    precision: str = "float32"
    checkpoint_seconds: float = 60.0
    population: int | str = "auto"
    evaluation: Scoring = Scoring()
    selection: Selection = Selection()

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Seed by seed, so that an unfinished study has whole grids of the first seeds."""
        shared = (self.batch, self.learning_rate, self.decoder, self.reconstruction_weight, self.init)
        grid = itertools.product(self.seeds, self.data, self.methods, self.latents, self.network, self.steps)
        return tuple(
            Point(data, method, chosen, seed, latents, network, steps, *shared, self.trace, name, self.precision)
            for seed, data, (method, parameters), latents, network, steps in grid
            for name, chosen in _sweep(parameters)
        )

    def to_toml(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["methods"] = {method: dict(parameters) for method, parameters in self.methods}
        values["seeds"] = len(self.seeds) if self.seeds == tuple(range(len(self.seeds))) else self.seeds
        for name in ("latents", "network", "steps", "data"):
            values[name] = values[name][0] if len(values[name]) == 1 else values[name]
        tables = {"methods": values.pop("methods"), **{k: asdict(values.pop(k)) for k in ("evaluation", "selection")}}
        return dump(values | tables)

    def with_seeds(self, seeds: int) -> "Plan":
        return replace(self, seeds=tuple(range(seeds)))

    def with_precision(self, precision: str) -> "Plan":
        from karenina.training.config import PRECISIONS

        if precision not in PRECISIONS:
            raise ValueError(f"no precision {precision!r}; {hint(precision, PRECISIONS)}")
        return replace(self, precision=precision)


def shown(parameters: Mapping[str, Any]) -> str:
    """Parameters as tables and pages show them.

    >>> shown({"beta": 16.0, "estimator": "weighted"})
    'beta=16 estimator=weighted'
    """
    return " ".join(f"{name}={canonical(value)}" for name, value in parameters.items())


def canonical(value: Any) -> Any:
    """1 and 1.0 are the same strength."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _sweep(
    parameters: Sequence[tuple[str, tuple[Value, ...] | Value]],
) -> list[tuple[str, tuple[tuple[str, Value], ...]]]:
    """The name of the strength with each combination of values: all lists are swept."""
    names = [name for name, _ in parameters]
    swept = [name for name, value in parameters if isinstance(value, tuple)]
    strength = (swept or names or [""])[0]
    columns = [value if isinstance(value, tuple) else (value,) for _, value in parameters]
    return [(strength, tuple(zip(names, chosen))) for chosen in itertools.product(*columns)]


def dump(values: Mapping[str, Any]) -> str:
    """TOML of plain values, lists of them and tables; None is left out."""
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if _plain(value)]
    tables = [(name, value) for name, value in values.items() if isinstance(value, Mapping)]
    while tables:
        name, table = tables.pop(0)
        nested = [(f"{name}.{key}", value) for key, value in table.items() if isinstance(value, Mapping)]
        plain = [f"{key} = {_value(value)}" for key, value in table.items() if _plain(value)]
        if plain or not nested:
            lines += ["", f"[{name}]", *plain]
        tables = nested + tables
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans are written alike in both
