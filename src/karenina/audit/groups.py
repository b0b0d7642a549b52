"""What an audit measures: metrics of karenina under each protocol, and the user's own functions."""

import hashlib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._words import hint
from karenina.metrics._inputs import check
from karenina.metrics.information import Binning
from karenina.metrics.registry import METRICS, PROTOCOLS
from karenina.metrics.scoring import ALL, Asked, measure

# Our defaults, the same with bins of equal population instead of equal width, and the published protocols.
AUDITED_PROTOCOLS = ("ours", "quantile", *PROTOCOLS)
# In place of a protocol, for the user's own functions.
MINE = "mine"
# The property of a function that does not say what it measures.
UNKNOWN_PROPERTY = "own"
TREES = ("dci_forest", "dci_boosted")
# Values of a factor under "locatello", a protocol for categorical factors.
LEVELS = 10
# The user's own functions draw from other seeds than the data: their noise must not be the answer.
_OTHER_SEEDS = 1_000_000


@dataclass(frozen=True)
class MetricGroup:
    """Metrics that are measured together: `metrics` maps names to settings, or to the user's own functions."""

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


def audited(*, by_default: bool = False) -> list[str]:
    """The metrics that an audit can take: all that look at factors; or those that it takes if none is named."""
    able = [name for name, metric in METRICS.items() if not metric.codes_only]
    return [name for name in able if not METRICS[name].on_request] if by_default else able


def metric_groups(
    metrics: Iterable[str] | None, protocols: Iterable[str], mine: Mapping[str, Callable[..., Any]], trees: bool
) -> list[MetricGroup]:
    """Metrics to measure together. Those with trees stand apart: they are slow, and see fewer rows."""
    wanted = [metrics] if isinstance(metrics, str) else metrics
    asked = None if wanted is None else list(dict.fromkeys(known for name in wanted for known in _known(name)))
    groups = []
    protocols = list(dict.fromkeys([protocols] if isinstance(protocols, str) else protocols))
    for protocol in protocols:
        if protocol not in AUDITED_PROTOCOLS:
            raise ValueError(f"no protocol {protocol!r}; {hint(protocol, AUDITED_PROTOCOLS)}")
        chosen = {name: settings(name, protocol) for name in (audited(by_default=True) if asked is None else asked)}
        known = {name: values for name, values in chosen.items() if values is not None}
        quick = {name: values for name, values in known.items() if name not in TREES}
        slow = {name: values for name, values in known.items() if name in TREES and (trees or asked is not None)}
        groups += [MetricGroup(protocol, False, quick)] if quick else []
        groups += [MetricGroup(protocol, True, slow)] if slow else []
    if mine:
        groups.append(MetricGroup(MINE, False, dict(mine)))
    if not groups:
        raise ValueError(f"nothing to audit: {', '.join(asked or [])} under {', '.join(protocols)}")
    return groups


def _known(name: str) -> list[str]:
    """The metric of this name; "dci" stands for all that begin with dci_, "all" for all."""
    found = [name] if name in METRICS else [known for known in METRICS if known.startswith(f"{name}_")]
    if name == ALL:
        return audited()
    if not found:
        raise ValueError(f"no metric {name!r}; {hint(name, audited())}")
    if METRICS[found[0]].codes_only:
        raise ValueError(f"{name} does not look at factors, which is what the experiments are about")
    return found


def settings(name: str, protocol: str) -> dict[str, Any] | None:
    """The settings of a metric under this protocol; None where it does not have it."""
    metric = METRICS[name]
    if protocol == "quantile":
        binning = {"binning": Binning(kind="quantile")}
        return {**(metric.ours or {}), **binning} if metric.family == "information" else None
    own = metric.settings(None if protocol == "ours" else protocol)
    return None if own is None else dict(own)


def uses_bins(name: str, protocol: str, mine: Mapping[str, Callable[..., Any]]) -> bool | None:
    """Whether the metric cuts values into bins, by its parameters.

    The user's own function may say so itself, with an attribute `bins`; without that or a parameter that is called
    bins, None.
    """
    if protocol != MINE:
        return METRICS[name].family == "information" or "factor_bins" in METRICS[name].parameters
    if any(re.search(r"(^|_)(n?bins?|binning)(_|$)", parameter) for parameter in _parameters(mine[name])):
        return True
    declared = getattr(mine[name], "bins", None)
    return None if declared is None else bool(declared)


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


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a compiled function may not say
        return ()


def apply(group: MetricGroup, codes: NDArray[Any], factors: NDArray[Any], categorical: bool, seed: int) -> list[Score]:
    """Every score of the group. Metrics of karenina share their tables; the user's own function may do anything."""
    if group.protocol == MINE:
        return [
            score
            for name, function in group.metrics.items()
            for score in _own(name, function, codes, factors, categorical, seed)
        ]
    if group.protocol == "locatello" and not categorical:
        factors = np.floor(LEVELS * factors / (factors.max(axis=0) * (1 + 1e-12)))
        categorical = True
    chosen = {name: Asked(METRICS[name], settings) for name, settings in group.metrics.items()}
    results: dict[str, Any] = dict.fromkeys(chosen)
    notes = dict.fromkeys(group.metrics, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results, _, notes = measure(chosen, check(codes, factors, not categorical), seed)
        except ValueError as error:  # too few rows for any metric
            notes = dict.fromkeys(group.metrics, str(error))
    found = []
    for name in group.metrics:
        for attribute, measured in METRICS[name].properties.items():
            value = math.nan if results[name] is None else float(attrgetter(attribute)(results[name]))
            found.append(Score(group.protocol, name, measured, value, notes[name]))
    return found


def _own(
    name: str, function: Callable[..., Any], codes: NDArray[Any], factors: NDArray[Any], categorical: bool, seed: int
) -> list[Score]:
    """A function that raises, or returns what is not a number, is reported; it gets copies, and may spoil them."""
    offered = {"seed": seed + _OTHER_SEEDS, "continuous": not categorical}
    taken = {key: value for key, value in offered.items() if key in _parameters(function)}
    measured = str(getattr(function, "property", UNKNOWN_PROPERTY))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(codes.copy(), factors.copy(), **taken)
            parts = result if isinstance(result, Mapping) else {measured: getattr(result, "value", result)}
            numbers = {str(part): _number(value) for part, value in parts.items()}
    except (Exception, SystemExit) as error:
        numbers = {measured: (math.nan, f"raised {type(error).__name__}: {error}")}
    numbers = numbers or {measured: (math.nan, "returned {}")}
    return [Score(MINE, name, part, *number) for part, number in numbers.items()]


def _number(value: Any) -> tuple[float, str]:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan, f"returned {type(value).__name__}, not a number"
    return (number, "") if math.isfinite(number) else (math.nan, f"returned {number}")
