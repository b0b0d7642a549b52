"""The numbers that a metric is given, and how much they matter: a column of Table 2 of Carbonneau et al. (2022)."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from karenina.audit.experiments import EXPERIMENTS
from karenina.audit.running import MetricGroup, apply, metric_groups
from karenina.metrics._dci import MODELS
from karenina.metrics.registry import METRICS

COLUMNS = ["protocol", "metric", "property", "parameter", "value", "score", "halved", "doubled"]
# The representation: codes of three factors, a fifth of each is noise, so that scores are neither 0 nor 1.
NOISE = 0.2
FACTORS = 3


def numbers_of(metric: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers that a metric computes with, by name: those of its signature, of its settings under a
    protocol, and of the model or the binning that it is given ("model.folds"). 0 is no number: half and twice of it are
    0.

    >>> numbers_of("mig", {})
    {'binning.bins': 20, 'binning.factor_bins': 10, 'binning.neighbours': 3}
    """
    all_settings = _defaults(metric) | dict(settings)
    found: dict[str, Any] = {}
    for name, value in all_settings.items():
        value = MODELS.get(value, value) if name == "model" and isinstance(value, str) else value
        if is_dataclass(value) and not isinstance(value, type):
            found |= {f"{name}.{f.name}": getattr(value, f.name) for f in fields(value)}
        else:
            found[name] = value
    return {name: value for name, value in found.items() if name != "seed" and _is_number(value)}


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool) and value != 0


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple | list):
        return tuple(dict.fromkeys(_times(one, factor) for one in value))
    return max(1, round(factor * value)) if isinstance(value, int) else factor * value


def _with(metric: str, settings: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return the settings with one number changed; a ValueError where the model does not take it."""
    outer, _, inner = name.partition(".")
    if inner:
        whole = {**_defaults(metric), **settings}[outer]
        value = replace(MODELS[whole] if isinstance(whole, str) else whole, **{inner: value})
    return {**settings, outer: value}


def _defaults(metric: str) -> dict[str, Any]:
    return {p.name: p.default for p in inspect.signature(METRICS[metric].function).parameters.values()}


def hyperparameters(
    metrics: Iterable[str] | None = None,
    protocols: Iterable[str] = ("ours",),
    *,
    rows: int = 2000,
    trees: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure how much each score moves when each of its numbers is halved and doubled, on slightly noisy codes.

    Parameters
    ----------
    metrics, protocols, trees : as in `run`
    rows : int
    seed : int

    Returns
    -------
    DataFrame
        protocol, metric, property, parameter, value, score (as it is), halved and doubled (how far the score moves; NaN
        where the metric does not take that number).

    Examples
    --------
    >>> table = hyperparameters(["mig"], rows=1000).set_index("parameter")
    >>> bool(table.loc["binning.bins", "doubled"] < -0.02), float(table.loc["binning.neighbours", "halved"])
    (True, 0.0)
    """
    codes, factors = (part[:, :FACTORS] for part in EXPERIMENTS["noise"].make(NOISE, rows, seed))

    def scores(protocol: str, metric: str, settings: Mapping[str, Any]) -> dict[str, float]:
        group = MetricGroup(protocol, False, {metric: settings})
        return {score.property: score.value for score in apply(group, codes, factors, False, seed)}

    lines = []
    for group in metric_groups(metrics, protocols, {}, trees):
        for metric, settings in group.metrics.items():
            now = scores(group.protocol, metric, settings)
            for name, value in numbers_of(metric, settings).items():
                moved = []
                for factor in (0.5, 2.0):
                    try:
                        there = scores(group.protocol, metric, _with(metric, settings, name, _times(value, factor)))
                    except (ValueError, TypeError):
                        there = {}
                    moved.append(there)
                for prop, score in now.items():
                    half, twice = (there.get(prop, np.nan) - score for there in moved)
                    lines.append((group.protocol, metric, prop, name, value, score, half, twice))
    return pd.DataFrame(lines, columns=COLUMNS)


def summary(table: pd.DataFrame, least: float = 0.0005) -> Iterator[tuple[tuple[str, str, str], int, float, str]]:
    """Yield for each score how many numbers move it by `least` or more, how far at most, and which does.

    >>> [(key, count, most) for key, count, most, name in summary(hyperparameters(["irs"], rows=500)) if count > 9]
    []
    """
    for key, part in table.groupby(["protocol", "metric", "property"], sort=False):
        moves = part[["halved", "doubled"]].abs().max(axis=1).fillna(0.0)
        count = int((moves >= least).sum())
        protocol, metric, prop = key
        top = str(part["parameter"].iloc[int(np.argmax(moves))]) if count else ""
        yield (str(protocol), str(metric), str(prop)), count, float(moves.max()), top
