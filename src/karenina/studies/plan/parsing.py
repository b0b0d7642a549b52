"""From the text of a study file, or the plain values of a preset, to a plan. Mistakes are reported with their line."""

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from karenina._files import open_regular
from karenina._words import hint
from karenina.evaluation.udr_versions import UDR_VERSIONS, full_name
from karenina.studies.plan.plan import Plan, Scoring, Selection, Value, canonical

MOST_MODELS = 1_000_000  # the largest study of the papers has 12,600
Reader = Callable[..., Any]  # (source, value, *keys) -> the value for the plan
_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_STEP = re.compile(r"""[\w"'-]\s*\.\s*(?=[\w"'-])""")
_DEEP = 100
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True)
class Source:
    """Where values came from: a name for messages, and the text if there is one."""

    name: str
    text: str = ""

    @classmethod
    def read(cls, path: Path) -> "Source":
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
        """The line of the value at `keys`, or of the nearest table around it; None if neither can be found."""
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

    def fail(self, message: str, *keys: str) -> NoReturn:
        line = self.line(*keys)
        raise ValueError(f"{self.name}{f', line {line}' if line else ''}: {message}")


def parse(text: str, name: str = "the study", *, check: bool = True, **absent: Any) -> Plan:
    """A plan from the text of a study file; a ValueError says what is wrong and on which line.

    check: also compare method, parameter, network, data and metric names with those that exist (this loads torch).
    absent: values of keys that the text lacks, also in tables, where these are not the plan's defaults.
    """
    return _parsed(Source(name, text), check, absent)


def _parsed(source: Source, check: bool, absent: Mapping[str, Any]) -> Plan:
    values = source.parse()
    for key, value in absent.items():
        own = values.get(key, {})
        if isinstance(value, Mapping) and isinstance(own, Mapping):
            values[key] = {**value, **own}
        else:
            values.setdefault(key, value)
    return from_values(values, source, check=check)


def read(path: Path, *, check: bool = True, **absent: Any) -> Plan:
    return _parsed(Source.read(path), check, absent)


def from_values(values: Mapping[str, Any], source: Source, *, check: bool = True) -> Plan:
    found = _fields(source, values, _PLAN)
    for key in ("data", "methods", "seeds"):
        if key not in found:
            source.fail(f"{key} is missing; a study needs data, methods and seeds")
    plan = Plan(**{"name": Path(source.name).stem, **found})
    _check_grid(source, plan)
    if check:
        _check_names(source, plan)
    return plan


def _fields(source: Source, values: Any, readers: Mapping[str, Reader], *table: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        source.fail(f"{'.'.join(table)} should be a table; got {_shown(values)}", *table)
    for key in values:
        _one_of(source, "key", key, readers, *table, key)
    return {key: readers[key](source, value, *table, key) for key, value in values.items()}


def _one_of(source: Source, what: str, given: str, known: Iterable[str], *keys: str) -> None:
    known = list(known)
    if given not in known:
        source.fail(f"no {what} {given!r}; {hint(given, known)}", *keys)


def _text(source: Source, value: Any, *keys: str) -> str:
    if not isinstance(value, str):
        source.fail(f"{keys[-1]} should be text; got {_shown(value)}", *keys)
    return str(value)


def _integer(least: int, most: int = 2**63 - 1) -> Reader:
    """most: by default what a column of the results can hold."""

    def read(source: Source, value: Any, *keys: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            bound = f"{least} or more" if value.__class__ is not int or value < least else f"at most {most:,}"
            source.fail(f"{keys[-1]} should be an integer, {bound}; got {_shown(value)}", *keys)
        return int(value)

    return read


def _shown(value: Any) -> str:
    """A value in a message: not all digits of a huge number, nor all of a deeply nested table."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"one that is too long to show ({type(value).__name__})"
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"


def _finite(value: Any) -> bool:
    """Whether a number, however long an integer, fits a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _number(*words: str) -> Reader:
    def read(source: Source, value: Any, *keys: str) -> float | str:
        if isinstance(value, str) and value in words:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value) or value < 0:
            given = _shown(value)
            source.fail(f"{keys[-1]} should be {' or '.join(['a number from 0 on', *words])}; got {given}", *keys)
        return float(value)

    return read


def _flag(source: Source, value: Any, *keys: str) -> bool:
    if not isinstance(value, bool):
        source.fail(f"{keys[-1]} should be true or false; got {_shown(value)}", *keys)
    return bool(value)


def _many(one: Reader) -> Reader:
    """A list, or a single value for a list of one."""

    def read(source: Source, value: Any, *keys: str) -> tuple[Any, ...]:
        return tuple(one(source, item, *keys) for item in (value if isinstance(value, list) else [value]))

    return read


def _seeds(source: Source, value: Any, *keys: str) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or a list of them."""
    if isinstance(value, list):
        return tuple(_integer(0)(source, item, *keys) for item in value)
    return tuple(range(_integer(0, MOST_MODELS)(source, value, *keys)))


def _methods(source: Source, values: Any, *keys: str) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
    if not isinstance(values, Mapping):
        source.fail("methods should be tables such as [methods.beta_vae]", *keys)
    for method, parameters in values.items():
        if not isinstance(parameters, Mapping):
            source.fail(f"{method} should be a table of parameters, got {_shown(parameters)}", *keys, method)
    return tuple(
        (method, tuple((name, _parameter(source, value, *keys, method, name)) for name, value in parameters.items()))
        for method, parameters in values.items()
    )


def _parameter(source: Source, value: Any, *keys: str) -> Value | tuple[Value, ...]:
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, Value) or (isinstance(item, int | float) and not _finite(item)):
            source.fail(f"{keys[-1]} should be a finite value or a list of them; got {_shown(value)}", *keys)
    return tuple(value) if isinstance(value, list) else value


def _versions(source: Source, value: Any, *keys: str) -> tuple[str, ...]:
    given: tuple[str, ...] = _many(_text)(source, value, *keys)
    # Before the versions had one name each, study files had them without "udr_".
    found = tuple(f"udr_{name}" if f"udr_{name}" in UDR_VERSIONS else full_name(name) for name in given)
    for version in found:
        _one_of(source, "version of UDR", version, UDR_VERSIONS, *keys)
    return found


def _population(source: Source, value: Any, *keys: str) -> int | str:
    found: int | str = "auto" if value == "auto" else _integer(1)(source, value, *keys)
    return found


_SCORING: dict[str, Reader] = {
    "metrics": _many(_text),
    "protocol": _text,
    "rows": _integer(1),
    "repeats": _integer(1),
    "seed": _integer(0),
    "tasks": _flag,
    "also": _many(_text),
    "interventions": _text,
}
_SELECTION: dict[str, Reader] = {
    "udr": _versions,
    "partners": _integer(1),
    "spearman_rows": _integer(3),
    "kl_threshold": _number(),
    "dynamics_seeds": _many(_integer(2)),
    "a2a_seeds": _integer(0),
}
_PLAN: dict[str, Reader] = {
    "name": _text,
    "data": _many(_text),
    "methods": _methods,
    "seeds": _seeds,
    "latents": _many(_integer(1)),
    "network": _many(_text),
    "steps": _many(_integer(1)),
    "batch": _integer(1),
    "learning_rate": _number("auto"),
    "decoder": _text,
    "reconstruction_weight": _number("auto"),
    "init": _text,
    "trace": _flag,
    "precision": _text,
    "checkpoint_seconds": _number(),
    "population": _population,
    "evaluation": lambda source, values, *keys: Scoring(**_fields(source, values, _SCORING, *keys)),
    "selection": lambda source, values, *keys: Selection(**_fields(source, values, _SELECTION, *keys)),
}
assert list(_PLAN) == [f.name for f in fields(Plan)]


def _check_grid(source: Source, plan: Plan) -> None:
    """No empty axis, no model twice, and no more models than a machine can list."""
    axes: dict[tuple[str, ...], tuple[Any, ...]] = {
        (key,): getattr(plan, key) for key in ("data", "seeds", "latents", "network", "steps")
    }
    axes["methods",] = tuple(method for method, _ in plan.methods)
    for method, parameters in plan.methods:
        axes |= {("methods", method, name): value for name, value in parameters if isinstance(value, tuple)}
    for keys, axis in axes.items():
        if not axis:
            source.fail(f"the grid is empty: {keys[-1]} has no value", *keys)
        seen: set[str] = set()
        for value in (json.dumps(canonical(item)) for item in axis):
            if value in seen:
                source.fail(f"{keys[-1]} has {value} twice: these would be the same models", *keys)
            seen.add(value)
    sweeps = [math.prod(len(v) for _, v in given if isinstance(v, tuple)) for _, given in plan.methods]
    shared = math.prod(len(axis) for keys, axis in axes.items() if len(keys) == 1 and keys != ("methods",))
    if shared * sum(sweeps) > MOST_MODELS:
        source.fail(f"the grid has {shared * sum(sweeps):,} models; a study has at most {MOST_MODELS:,}")


def _check_names(source: Source, plan: Plan) -> None:
    """Names that only the rest of the package knows."""
    from karenina import data
    from karenina.data.naming import split_name
    from karenina.evaluation.data import WAYS
    from karenina.evaluation.more import has_gap, measures
    from karenina.metrics.registry import PROTOCOLS
    from karenina.metrics.scoring import of_part
    from karenina.models.networks import INITS, NETWORKS
    from karenina.models.objectives import DECODERS
    from karenina.training.config import PRECISIONS
    from karenina.training.methods import SUPERVISION, defaults, names

    for entry in plan.data:
        name = split_name(entry)[0]
        if data.own_path(name) is None:
            _one_of(source, "data set and no file", name, data.names(), "data")
    for method, parameters in plan.methods:
        _one_of(source, "method", method, names(), "methods", method)
        for name, _ in parameters:
            known = [*defaults(method), *(SUPERVISION if name in SUPERVISION else ())]
            _one_of(source, f"parameter of {method}", name, known, "methods", method, name)
    for network in plan.network:
        _one_of(source, "network", network, ("auto", *NETWORKS), "network")
    _one_of(source, "decoder", plan.decoder, DECODERS, "decoder")
    _one_of(source, "init", plan.init, ("auto", *INITS), "init")
    _one_of(source, "precision", plan.precision, PRECISIONS, "precision")
    for metric in plan.evaluation.metrics or ():
        try:
            of_part(metric)
        except ValueError as error:
            source.fail(str(error), "evaluation", "metrics")
    for measure in plan.evaluation.also:
        _one_of(source, "measure", measure, measures(), "evaluation", "also")
    _one_of(source, "interventions from", plan.evaluation.interventions, WAYS, "evaluation", "interventions")
    if "zero_shot" in plan.evaluation.also and not all(map(has_gap, plan.data)):
        source.fail("zero_shot needs data with a gap, such as teapots:gap=exclude", "evaluation", "also")
    if plan.evaluation.protocol is not None:
        _one_of(source, "protocol", plan.evaluation.protocol, PROTOCOLS, "evaluation", "protocol")
