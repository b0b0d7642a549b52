"""The plan of a study: data sets x methods x strengths x seeds, from a TOML file or a preset.

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

A package adds presets by an entry point of the group "karenina.papers", which names a package with a file preset.toml:
a table for each study, and in it a study file for each of SCALES. It adds a kind of study that does not train models on
a data set by one of the group "karenina.studies", which names a module with the functions of `Kind`.

>>> len(preset("locatello2019", "paper").points)
12600
"""

import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from karenina import _plugins
from karenina._active import ACTIVE_KL
from karenina._files import open_regular
from karenina._settings import SETTINGS, Setting, canonical, hash_of, identity, setting_fields, setting_of
from karenina._words import hint
from karenina.evaluation.criteria import UDR_VERSIONS, full_name

# Counts the releases in which a score of the same codes changed (CHANGELOG): older scores of a study are made anew.
NUMBERS = 2
Value = float | int | str | bool
# The settings of training of which a study may list several values, in the order of its grid.
SWEPT = tuple(name for name in reversed(SETTINGS) if SETTINGS[name].swept)


@dataclass(frozen=True)
@setting_fields(after="seed")
class Point:
    """One model of a study: all arguments of `karenina.train`, the settings of training among them.

    parameter: the name of the strength among the parameters.
    """

    data: str
    method: str
    parameters: tuple[tuple[str, Value], ...]
    seed: int
    parameter: str = field(default="", compare=False)

    if TYPE_CHECKING:

        def __init__(self, *values: Any, **more: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    @cached_property
    def hash(self) -> str:
        """Return the name of the run's directory. The same model has the same name in every plan."""
        return hash_of({"data": self.data, "seed": self.seed, **identity(self)})[:16]

    @cached_property
    def setting(self) -> str:
        """Return what models that differ in data and seed alone have in common."""
        return setting_of(self)

    @property
    def strength(self) -> float:
        """Return the value of the swept parameter; NaN for a method without a strength."""
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
        """Return the keyword arguments of `karenina.train`."""
        own = ("data", "method", "parameters", "parameter")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own} | dict(self.parameters)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Point":
        before = {name: setting.before for name, setting in SETTINGS.items() if setting.before is not None}
        return cls(**{**before, **value, "parameters": tuple(value["parameters"].items())})


@dataclass(frozen=True)
class Scoring:
    """The settings of scoring: arguments of `karenina.evaluate`. metrics: names, or None for all.

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
        return hash_of({**values, "numbers": NUMBERS})[:8]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Scoring":
        """Return what was written by `dataclasses.asdict`, with the tuples that JSON makes lists."""
        values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
        return cls(**values)

    def arguments(self, labelled: bool) -> dict[str, Any]:
        """Return the keyword arguments of `karenina.evaluate`. A plan has one list of metrics for all its data sets;
        those without labels go without them."""
        return asdict(self) | ({} if labelled else {"metrics": None, "tasks": False, "also": ()})


@dataclass(frozen=True)
class Selection:
    """The settings of what is computed from all models of a data set together.

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
@setting_fields(after="seeds", default=lambda setting: (setting.default,) if setting.swept else setting.default)
class Plan:
    """A study. `points` are its models: the product of data, methods, seeds and the settings that a study may sweep.

    data: names, or paths of your own; options follow a colon, as in "teapots:gap=exclude".
    methods: method -> parameters; those given as lists are swept, and the first of these is the strength.
    population: how many models are trained as one at most; "auto" where that is faster, 1 for one by one.
    """

    name: str
    data: tuple[str, ...]
    methods: tuple[tuple[str, tuple[tuple[str, tuple[Value, ...] | Value], ...]], ...]
    seeds: tuple[int, ...]
    checkpoint_seconds: float = 60.0
    population: int | str = "auto"
    evaluation: Scoring = Scoring()
    selection: Selection = Selection()

    if TYPE_CHECKING:

        def __init__(self, *values: Any, **more: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Return the models seed by seed, so that an unfinished study has whole grids of the first seeds."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        grid = itertools.product(self.seeds, self.data, self.methods, *(settings[name] for name in SWEPT))
        return tuple(
            Point(data, method, chosen, seed, parameter=name, **settings | dict(zip(SWEPT, swept)))
            for seed, data, (method, parameters), *swept in grid
            for name, chosen in _sweep(parameters)
        )

    def to_toml(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["methods"] = {method: dict(parameters) for method, parameters in self.methods}
        values["seeds"] = len(self.seeds) if self.seeds == tuple(range(len(self.seeds))) else self.seeds
        for name in (*SWEPT, "data"):
            values[name] = values[name][0] if len(values[name]) == 1 else values[name]
        tables = {"methods": values.pop("methods"), **{k: asdict(values.pop(k)) for k in ("evaluation", "selection")}}
        return dump(values | tables)

    def with_seeds(self, seeds: int) -> "Plan":
        return replace(self, seeds=tuple(range(seeds)))

    def with_precision(self, precision: str) -> "Plan":
        return replace(self, **{"precision": SETTINGS["precision"].check("precision", precision)})


def shown(parameters: Mapping[str, Any]) -> str:
    """Return parameters as tables and pages show them.

    >>> shown({"beta": 16.0, "estimator": "weighted"})
    'beta=16 estimator=weighted'
    """
    return " ".join(f"{name}={canonical(value)}" for name, value in parameters.items())


def _sweep(
    parameters: Sequence[tuple[str, tuple[Value, ...] | Value]],
) -> list[tuple[str, tuple[tuple[str, Value], ...]]]:
    """Return the name of the strength with each combination of values: all lists are swept."""
    names = [name for name, _ in parameters]
    swept = [name for name, value in parameters if isinstance(value, tuple)]
    strength = (swept or names or [""])[0]
    columns = [value if isinstance(value, tuple) else (value,) for _, value in parameters]
    return [(strength, tuple(zip(names, chosen))) for chosen in itertools.product(*columns)]


def dump(values: Mapping[str, Any]) -> str:
    """Return TOML of plain values, lists of them and tables; None is left out."""
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


MOST_MODELS = 1_000_000  # the largest study of the papers has 12,600
Reader = Callable[[str, Any], Any]  # name of a key and its value -> the value for the plan, or Wrong
_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_STEP = re.compile(r"""[\w"'-]\s*\.\s*(?=[\w"'-])""")
_DEEP = 100
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True)
class StudyFile:
    """A study file, or whatever values came from: a name for messages, and the text if there is one."""

    name: str
    text: str = ""

    @classmethod
    def read(cls, path: Path) -> "StudyFile":
        """Return the text of a file, not parsed yet."""
        try:
            with open_regular(path) as file:
                return cls(str(path), file.read().decode("utf-8").replace("\r\n", "\n"))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a text file") from None

    def parse(self) -> dict[str, Any]:
        # Of a key with thousands of parts, tomllib keeps every beginning: gigabytes for some kilobytes.
        if any(len(_STEP.findall(piece)) > _DEEP for piece in re.split(r"[,=\[\]{}\n]", self.text)):
            raise ValueError(f"{self.name} is not a study: its keys are nested too deeply")
        try:
            return tomllib.loads(self.text)
        except RecursionError:
            raise ValueError(f"{self.name} is not a study: its values are nested too deeply") from None
        except ValueError as error:  # also numbers of thousands of digits
            raise ValueError(f"{self.name} is not TOML: {error}") from None

    def line(self, *keys: str) -> int | None:
        """Return the line of the value at `keys`, or of the nearest table around it; None if neither can be found."""
        table: list[str] = []
        best, depth = None, 0
        for number, line in enumerate(self.text.splitlines(), start=1):
            header, key = _HEADER.match(line), _KEY.match(line)
            if header:
                table = [part.strip("\"'") for part in _PART.findall(header[1])]
            elif not key:
                continue
            found = table + [part.strip("\"'") for part in _PART.findall(key[1])] if key and not header else table
            if len(found) > depth and list(keys[: len(found)]) == found:
                best, depth = number, len(found)
        return best


class Wrong(ValueError):
    """An error about the value at some keys, not yet about a file and a line."""

    def __init__(self, message: str, *keys: str):
        super().__init__(message)
        self.message, self.keys = message, keys


def parse(text: str, name: str = "the study", *, check: bool = True, **absent: Any) -> Plan:
    """Return a plan from the text of a study file; a ValueError says what is wrong and on which line.

    check: also compare method, parameter, network, data and metric names with those that exist (this loads torch).
    absent: values of keys that the text lacks, also in tables, where these are not the plan's defaults.
    """
    return _parsed(StudyFile(name, text), check, absent)


def read(path: Path, *, check: bool = True, **absent: Any) -> Plan:
    """Return a plan from a study file, as `parse` does."""
    return _parsed(StudyFile.read(path), check, absent)


def _parsed(source: StudyFile, check: bool, absent: Mapping[str, Any]) -> Plan:
    values = source.parse()
    for key, value in absent.items():
        there = values.get(key, {})
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            values[key] = {**value, **there}
        else:
            values.setdefault(key, value)
    return from_values(values, source, check=check)


def from_values(values: Mapping[str, Any], source: StudyFile, *, check: bool = True) -> Plan:
    """Return a plan from the values of a study file; a ValueError names the source and the line."""
    try:
        found = _table("study", values, _PLAN)
        for key in ("data", "methods", "seeds"):
            if key not in found:
                raise Wrong(f"{key} is missing; a study needs data, methods and seeds", key)
        plan = Plan(**{"name": Path(source.name).stem, **found})
        _check_grid(plan)
        if check:
            _check_names(plan)
        return plan
    except Wrong as wrong:
        line = source.line(*wrong.keys)
        raise ValueError(f"{source.name}{f', line {line}' if line else ''}: {wrong.message}") from None


def _table(name: str, values: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Return what the readers make of a table."""
    if not isinstance(values, Mapping):
        raise Wrong(f"{name} should be a table; got {_shown(values)}")
    found = {}
    for key, value in values.items():
        _one_of("key", key, readers, key)
        with _within(key):
            found[key] = readers[key](key, value)
    return found


@contextmanager
def _within(*keys: str) -> Iterator[None]:
    """Prefix errors raised inside the block with these keys, below which they are."""
    try:
        yield
    except Wrong as wrong:
        raise Wrong(wrong.message, *keys, *wrong.keys) from None


def _one_of(what: str, name: str, known: Iterable[str], *keys: str) -> None:
    known = list(known)
    if name not in known:
        raise Wrong(f"no {what} {name!r}; {hint(name, known)}", *keys)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong(f"{name} should be text; got {_shown(value)}")
    return value


def _integer(least: int, most: int = 2**63 - 1) -> Reader:
    """Return a reader of integers. most: by default what a column of the results can hold."""

    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            bound = f"{least} or more" if value.__class__ is not int or value < least else f"at most {most:,}"
            raise Wrong(f"{name} should be an integer, {bound}; got {_shown(value)}")
        return value

    return read


def _shown(value: Any) -> str:
    """Return a value in a message: not all digits of a huge number, nor all of a deeply nested table."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"one that is too long to show ({type(value).__name__})"
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"


def _finite(value: Any) -> bool:
    """Return whether a number, however long an integer, fits a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _number(*words: str) -> Reader:
    """Return a reader of numbers from 0 on, and of these words."""

    def read(name: str, value: Any) -> float | str:
        if isinstance(value, str) and value in words:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value) or value < 0:
            expected = " or ".join(["a number from 0 on", *words])
            raise Wrong(f"{name} should be {expected}; got {_shown(value)}")
        return float(value)

    return read


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"{name} should be true or false; got {_shown(value)}")
    return value


def _several(one: Reader) -> Reader:
    """Return a reader of a list, or of a single value for a list of one."""
    return lambda name, value: tuple(one(name, item) for item in (value if isinstance(value, list) else [value]))


def _seeds(name: str, value: Any) -> tuple[int, ...]:
    """Read a number of seeds, counted from 0, or a list of them."""
    if isinstance(value, list):
        return tuple(_integer(0)(name, item) for item in value)
    return tuple(range(_integer(0, MOST_MODELS)(name, value)))


def _methods(name: str, values: Any) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
    if not isinstance(values, Mapping):
        raise Wrong("methods should be tables such as [methods.beta_vae]")
    for method, parameters in values.items():
        if not isinstance(parameters, Mapping):
            raise Wrong(f"{method} should be a table of parameters, got {_shown(parameters)}", method)
    return tuple(
        (method, tuple((name, _parameter(method, name, value)) for name, value in parameters.items()))
        for method, parameters in values.items()
    )


def _parameter(method: str, name: str, value: Any) -> Value | tuple[Value, ...]:
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, Value) or (isinstance(item, int | float) and not _finite(item)):
            raise Wrong(f"{name} should be a finite value or a list of them; got {_shown(value)}", method, name)
    return tuple(value) if isinstance(value, list) else value


def _versions(name: str, value: Any) -> tuple[str, ...]:
    # Before the versions had one name each, study files had them without "udr_".
    found = [f"udr_{one}" if f"udr_{one}" in UDR_VERSIONS else full_name(one) for one in _several(_text)(name, value)]
    for version in found:
        _one_of("version of UDR", version, UDR_VERSIONS)
    return tuple(found)


def _setting(setting: Setting) -> Reader:
    """Return what reads a setting of training, or several values of one that a study may sweep."""
    words = ("auto",) if setting.default == "auto" else ()
    one = {int: _integer(1), float: _number(*words), str: _text, bool: _flag}[setting.kind]
    return _several(one) if setting.swept else one


_SCORING: dict[str, Reader] = {
    "metrics": _several(_text),
    "protocol": _text,
    "rows": _integer(1),
    "repeats": _integer(1),
    "seed": _integer(0),
    "tasks": _flag,
    "also": _several(_text),
    "interventions": _text,
}
_SELECTION: dict[str, Reader] = {
    "udr": _versions,
    "partners": _integer(1),
    "spearman_rows": _integer(3),
    "kl_threshold": _number(),
    "dynamics_seeds": _several(_integer(2)),
    "a2a_seeds": _integer(0),
}
_PLAN: dict[str, Reader] = {
    "name": _text,
    "data": _several(_text),
    "methods": _methods,
    "seeds": _seeds,
    **{name: _setting(setting) for name, setting in SETTINGS.items()},
    "checkpoint_seconds": _number(),
    "population": lambda name, value: value if value == "auto" else _integer(1)(name, value),
    "evaluation": lambda name, values: Scoring(**_table(name, values, _SCORING)),
    "selection": lambda name, values: Selection(**_table(name, values, _SELECTION)),
}
assert list(_PLAN) == [f.name for f in fields(Plan)]


def _check_grid(plan: Plan) -> None:
    """Check that there is no empty axis, no model twice, and no more models than a machine can list."""
    axes: dict[tuple[str, ...], tuple[Any, ...]] = {(key,): getattr(plan, key) for key in ("data", "seeds", *SWEPT)}
    axes["methods",] = tuple(method for method, _ in plan.methods)
    for method, parameters in plan.methods:
        axes |= {("methods", method, name): value for name, value in parameters if isinstance(value, tuple)}
    for keys, axis in axes.items():
        if not axis:
            raise Wrong(f"the grid is empty: {keys[-1]} has no value", *keys)
        seen: set[str] = set()
        for value in (json.dumps(canonical(item)) for item in axis):
            if value in seen:
                raise Wrong(f"{keys[-1]} has {value} twice: these would be the same models", *keys)
            seen.add(value)
    sweeps = [math.prod(len(v) for _, v in parameters if isinstance(v, tuple)) for _, parameters in plan.methods]
    models = sum(sweeps) * math.prod(len(getattr(plan, key)) for key in ("data", "seeds", *SWEPT))
    if models > MOST_MODELS:
        raise Wrong(f"the grid has {models:,} models; a study has at most {MOST_MODELS:,}")


def _check_names(plan: Plan) -> None:
    """Check the names that only the rest of the package knows."""
    from karenina import data
    from karenina.data import split_name
    from karenina.evaluation.scoring import WAYS, has_gap, measures
    from karenina.metrics import PROTOCOLS
    from karenina.metrics.scoring import of_part
    from karenina.training.methods import SUPERVISION, defaults, names

    with _within("data"):
        for entry in plan.data:
            name = split_name(entry)[0]
            if data.own_path(name) is None:
                _one_of("data set and no file", name, data.names())
    with _within("methods"):
        for method, parameters in plan.methods:
            _one_of("method", method, names(), method)
            for name, _ in parameters:
                known = [*defaults(method), *(SUPERVISION if name in SUPERVISION else ())]
                _one_of(f"parameter of {method}", name, known, method, name)
    for name, setting in SETTINGS.items():
        if setting.kind is str:
            words = ("auto",) if setting.default == "auto" else ()
            for value in getattr(plan, name) if setting.swept else (getattr(plan, name),):
                _one_of(name, value, (*words, *setting.known()), name)
    scoring = plan.evaluation
    with _within("evaluation"):
        for metric in scoring.metrics or ():
            try:
                of_part(metric)
            except ValueError as error:
                raise Wrong(str(error), "metrics") from None
        for measure in scoring.also:
            _one_of("measure", measure, measures(), "also")
        _one_of("interventions from", scoring.interventions, WAYS, "interventions")
        if "zero_shot" in scoring.also and not all(map(has_gap, plan.data)):
            raise Wrong("zero_shot needs data with a gap, such as teapots:gap=exclude", "also")
        if scoring.protocol is not None:
            _one_of("protocol", scoring.protocol, PROTOCOLS, "protocol")


# Seconds; two cores and under an hour; the paper's numbers.
SCALES = ("smoke", "laptop", "paper")


class Kind(Protocol):
    """A kind of study with its own plan, folder and page. Its functions print what they are asked."""

    def owns(self, folder: Path) -> bool:
        """Return whether a folder holds a study of this kind."""

    def find(self, what: str, scale: str | None, seeds: int | None) -> Any:
        """Return the plan that a name, a study file or a folder stands for; None if it is another study's."""

    def models(self, plan: Any) -> int: ...
    def grid(self, plan: Any) -> str: ...
    def show_plan(self, plan: Any, workers: int, *, toml: bool, measure: bool, as_json: bool) -> None: ...
    def run(self, plan: Any, out: Path, workers: int | None, *, as_json: bool, **given: Any) -> None: ...
    def status(self, folder: Path, *, as_json: bool) -> None: ...
    def analyse(self, folder: Path, paper: str | None, *, figures: bool, as_json: bool) -> None: ...
    def report(self, folder: Path, out: Path) -> Path: ...


@cache
def presets() -> dict[str, dict[str, dict[str, Any]]]:
    """Return name -> scale -> the values of a study file."""
    found: dict[str, Any] = {}
    for name, point in _plugins.found("papers").items():
        with _plugins.blamed(f"the presets of {name} ({point.value}) cannot be read"):
            found |= tomllib.loads(files(point.value).joinpath("preset.toml").read_text(encoding="utf-8"))
    return found


def preset(name: str, scale: str = "laptop") -> Plan:
    """Return the plan of a named study."""
    if name not in presets():
        raise ValueError(f"no preset {name!r}; {hint(name, presets())}")
    if scale not in SCALES:
        raise ValueError(f"no scale {scale!r}; {hint(scale, SCALES)}")
    values = {"name": f"{name} at {scale} scale", **presets()[name][scale]}
    return from_values(values, StudyFile(f"preset {name}"), check=False)


def kinds() -> dict[str, Kind]:
    """Return the kinds of study that packages add, by the name that starts one."""
    return {name: _plugins.load("studies", name) for name in _plugins.found("studies")}


def kind_of(folder: Path) -> Kind | None:
    """Return the kind of the study in a folder; None for one that trains models on data sets."""
    return next((kind for kind in kinds().values() if kind.owns(folder)), None)
