"""What an audit measures: metrics of karenina under each protocol, and functions of one's own."""

import hashlib
import importlib
import inspect
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.metrics.registry import METRICS, PROTOCOLS
from karenina.metrics.scoring import measure

# Our defaults, the published protocols, and our defaults with bins of equal population instead of equal width.
AUDITED = ("ours", "quantile", *PROTOCOLS)
MINE = "mine"
# The property of a metric that does not say what it measures.
OWN = "own"
TREES = ("dci_forest", "dci_boosted")
_LEVELS = 10
# Functions of one's own draw from other seeds than the data: their noise must not be the answer.
_OTHER_SEEDS = 1_000_000


@dataclass(frozen=True)
class Subject:
    """Metrics that are measured together: `metrics` maps names to parameters, or a name to a function of one's own."""

    protocol: str
    trees: bool
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Score:
    """One number of one metric: NaN and a note that says why when there is none."""

    protocol: str
    metric: str
    property: str
    value: float
    note: str


def audited() -> list[str]:
    """The metrics that an audit can take: all that look at factors."""
    return [name for name, metric in METRICS.items() if not metric.codes_only]


def subjects(
    metrics: Iterable[str] | None, protocols: Iterable[str], mine: Mapping[str, Callable[..., Any]], trees: bool
) -> list[Subject]:
    """Groups of metrics to measure together. Trees stand apart: they are slow, and see fewer rows."""
    asked = None if metrics is None else list(dict.fromkeys(known for name in metrics for known in _known(name)))
    found = []
    for kind in dict.fromkeys([protocols] if isinstance(protocols, str) else protocols):
        if kind not in AUDITED:
            raise ValueError(f"no protocol {kind!r}; there are {', '.join(AUDITED)}")
        chosen = {name: parameters(name, kind) for name in (audited() if asked is None else asked)}
        known = {name: values for name, values in chosen.items() if values is not None}
        quick = {name: values for name, values in known.items() if name not in TREES}
        slow = {name: values for name, values in known.items() if name in TREES and (trees or asked is not None)}
        found += [Subject(kind, False, quick)] if quick else []
        found += [Subject(kind, True, slow)] if slow else []
    if mine:
        found.append(Subject(MINE, False, dict(mine)))
    if not found:
        raise ValueError(f"nothing to audit: {', '.join(asked or [])} under {', '.join(protocols)}")
    return found


def _known(name: str) -> list[str]:
    """The metric of this name; "dci" stands for all that begin with dci_."""
    found = [name] if name in METRICS else [known for known in METRICS if known.startswith(f"{name}_")]
    if not found:
        raise ValueError(f"no metric {name!r}; there are {', '.join(audited())}")
    if METRICS[found[0]].codes_only:
        raise ValueError(f"{name} does not look at factors, which is what the experiments are about")
    return found


def parameters(name: str, protocol: str) -> dict[str, Any] | None:
    """The parameters of a metric under this protocol; None where it does not have it."""
    metric = METRICS[name]
    if protocol == "quantile":
        return {**(metric.ours or {}), "binning": "quantile"} if metric.tables and metric.ours is not None else None
    own = metric.settings(None if protocol == "ours" else protocol)
    return None if own is None else dict(own)


def uses_bins(name: str, protocol: str, mine: Mapping[str, Callable[..., Any]]) -> bool | None:
    """Whether the metric cuts values into bins, by its parameters. A function of one's own may say so itself, with an
    attribute `bins`; without that or a parameter that is called bins, None."""
    if protocol != MINE:
        return METRICS[name].tables or "factor_bins" in _signature(METRICS[name].function())
    if any("bin" in parameter for parameter in _signature(mine[name])):
        return True
    said = getattr(mine[name], "bins", None)
    return None if said is None else bool(said)


def fingerprint(function: Callable[..., Any]) -> str:
    """Changes when the source of the function's module does, so that old scores are not taken for its own."""
    try:
        source = inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):  # typed in by hand, or compiled
        code = getattr(function, "__code__", None)
        source = repr((code.co_code, code.co_consts) if code else type(function))
    where = (getattr(function, "__module__", ""), getattr(function, "__qualname__", ""))
    digest = hashlib.sha256(repr((*where, getattr(function, "property", ""), source)).encode())
    return digest.hexdigest()[:16]


def _signature(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a compiled function may not say
        return ()


def apply(subject: Subject, codes: NDArray[Any], factors: NDArray[Any], labels: bool, seed: int) -> list[Score]:
    """Every score of the subject. Metrics of karenina share their tables; a function of one's own may do anything."""
    if subject.protocol == MINE:
        return [
            score
            for name, function in subject.metrics.items()
            for score in _own(name, function, codes, factors, labels, seed)
        ]
    if subject.protocol == "locatello" and not labels:  # that study knows factors with a few values only
        factors = np.floor(_LEVELS * factors / (factors.max(axis=0) * (1 + 1e-12)))
        labels = True
    continuous = np.full(factors.shape[1], not labels)
    results: dict[str, Any] = dict.fromkeys(subject.metrics)
    notes = dict.fromkeys(subject.metrics, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results, _, notes = measure(subject.metrics, codes, factors, continuous, seed, None)
        except ValueError as error:  # too few rows for any metric
            notes = dict.fromkeys(subject.metrics, str(error))
    found = []
    for name in subject.metrics:
        for attribute, prop in METRICS[name].properties.items():
            value = math.nan if results[name] is None else float(attrgetter(attribute)(results[name]))
            found.append(Score(subject.protocol, name, prop, value, notes[name]))
    return found


def _own(
    name: str, function: Callable[..., Any], codes: NDArray[Any], factors: NDArray[Any], labels: bool, seed: int
) -> list[Score]:
    """A function that raises, or returns what is not a number, is reported; it gets copies, and may spoil them."""
    more = {"seed": seed + _OTHER_SEEDS, "continuous": not labels}
    more = {key: value for key, value in more.items() if key in _signature(function)}
    prop = str(getattr(function, "property", OWN))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(codes.copy(), factors.copy(), **more)
            parts = result if isinstance(result, Mapping) else {prop: getattr(result, "value", result)}
            numbers = {str(part): _number(value) for part, value in parts.items()}
    except (Exception, SystemExit) as error:
        numbers = {prop: (math.nan, f"raised {type(error).__name__}: {error}")}
    return [Score(MINE, name, part, *number) for part, number in (numbers or {prop: (math.nan, "returned {}")}).items()]


def _number(value: Any) -> tuple[float, str]:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan, f"returned {type(value).__name__}, not a number"
    return (number, "") if math.isfinite(number) else (math.nan, f"returned {number}")


def load(reference: str) -> Callable[..., Any]:
    """The function that "module:function" names; modules of the working directory count."""
    module, _, name = reference.partition(":")
    if not module or not name:
        raise ValueError(f"expected module:function, got {reference!r}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = attrgetter(name)(importlib.import_module(module))
    except ImportError as error:
        raise ValueError(f"cannot import {module!r}: {error}") from None
    except AttributeError:
        raise ValueError(f"{module!r} has no {name!r}") from None
    except Exception as error:
        raise ValueError(f"importing {module!r} raised {type(error).__name__}: {error}") from None
    if not callable(function):
        raise ValueError(f"{reference} is a {type(function).__name__}, not a function")
    found: Callable[..., Any] = function
    return found
