"""What an audit measures: metrics of karenina under each protocol, and functions of one's own."""

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
TREES = ("dci_forest", "dci_boosted")
# A parameter of one of these names means that a metric cuts codes or factors into bins.
BINS = ("bins", "factor_bins")
_LEVELS = 10


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
    for kind in protocols:
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


def uses_bins(name: str, protocol: str, mine: Mapping[str, Callable[..., Any]]) -> bool:
    """Whether the metric has a parameter that cuts values into bins, and this protocol uses it."""
    if protocol == MINE:
        return any(parameter in _signature(mine[name]) for parameter in BINS)
    if METRICS[name].tables:
        return (parameters(name, protocol) or {}).get("estimator") != "knn"
    return any(parameter in _signature(METRICS[name].function()) for parameter in BINS)


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _, notes = measure(subject.metrics, codes, factors, continuous, seed, None)
    found = []
    for name in subject.metrics:
        for attribute, prop in METRICS[name].properties.items():
            value = math.nan if results[name] is None else float(attrgetter(attribute)(results[name]))
            found.append(Score(subject.protocol, name, prop, value, notes[name] if math.isnan(value) else ""))
    return found


def _own(
    name: str, function: Callable[..., Any], codes: NDArray[Any], factors: NDArray[Any], labels: bool, seed: int
) -> list[Score]:
    """A function that raises, or returns what is not a number, is reported; it gets copies, and may spoil them."""
    more = {"seed": seed, "continuous": not labels}
    more = {key: value for key, value in more.items() if key in _signature(function)}
    prop = str(getattr(function, "property", "own"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(codes.copy(), factors.copy(), **more)
    except Exception as error:
        return [Score(MINE, name, prop, math.nan, f"raised {type(error).__name__}: {error}")]
    parts = result if isinstance(result, Mapping) else {prop: getattr(result, "value", result)}
    return [Score(MINE, name, str(part), *_number(value)) for part, value in parts.items()]


def _number(value: Any) -> tuple[float, str]:
    try:
        number = float(value)
    except (TypeError, ValueError):
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
