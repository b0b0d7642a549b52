"""Every metric of one representation, from shared work, under a published protocol or our own defaults."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from karenina.metrics._inputs import Inputs, as_matrix, check
from karenina.metrics._sampling import Simulator
from karenina.metrics.dci import warn_of_many_classes
from karenina.metrics.information import InformationTables, information_tables
from karenina.metrics.registry import METRICS, PROTOCOLS, TABLE_SETTINGS, Metric
from karenina.metrics.table import Row, Table


def select(metrics: Iterable[str] | str | None, protocol: str | None) -> dict[str, Mapping[str, Any]]:
    """The names of the metrics to compute, each with its parameters under the protocol."""
    if protocol is not None and protocol not in PROTOCOLS:
        raise ValueError(f"no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}, and None for our defaults")
    settings = {name: metric.settings(protocol) for name, metric in METRICS.items()}
    available = {name: values for name, values in settings.items() if values is not None}
    if metrics is None:
        return available
    asked = [metrics] if isinstance(metrics, str) else list(metrics)
    if not asked:
        raise ValueError(f"no metric asked for; there are {', '.join(available)}")
    for name in asked:
        if name not in METRICS:
            raise ValueError(f"no metric {name!r}; there are {', '.join(METRICS)}")
        if name not in available:
            raise ValueError(f"the protocol {protocol} has no {name}; it has {', '.join(available)}")
    return {name: available[name] for name in dict.fromkeys(asked)}


def score(
    codes: ArrayLike,
    factors: ArrayLike,
    metrics: Iterable[str] | str | None = None,
    protocol: str | None = None,
    repeats: int = 1,
    seed: int = 0,
    *,
    factor_names: Sequence[str] | None = None,
    continuous: bool | Sequence[bool] | None = None,
    sampler: Simulator | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
) -> Table:
    """All metrics of codes (n, d) against factors (n, k), each with its parts, in one table.

    metrics: names from `karenina.metrics.METRICS`; None: all. protocol: None for our defaults (the papers' definitions
    with the released bugs repaired), "locatello" or "carbonneau" for the published parameters; docs/metrics.md lists
    every difference. factor_names, continuous: one per factor; whole-number factors are labels unless declared.
    sampler: a simulator, (m, k) rows of factors -> (m, d) codes, for the intervention metrics; None: they draw from the
    table. test: codes and factors of other rows, on which predictors are tested; None: they hold rows of the table out.

    With repeats > 1 every metric is also computed on that many random halves of the rows, with new sampling seeds, and
    `std` is their standard deviation. The variance of half-sample estimates around the full one is that of the full one
    around the truth, so this is the error of the value printed. The value itself always comes from all rows.

    A metric that cannot be computed on this data has the value NaN and a note that says why; the others go on.

    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(5, size=(1000, 3))
    >>> table = score(v + 0.01 * rng.normal(size=v.shape), v, metrics=["mig", "dci_lasso"])
    >>> round(table["mig"].value, 2), [row.property for row in table.rows]
    (0.99, ['compactness', 'modularity', 'compactness', 'explicitness'])
    """
    if repeats < 1 or repeats != int(repeats):
        raise ValueError(f"repeats must be a whole number from 1 on, got {repeats}")
    chosen = select(metrics, protocol)
    inputs = check(codes, factors, continuous, factor_names)
    declared = np.zeros(np.atleast_2d(np.asarray(factors).T).shape[0], bool)
    declared[inputs.kept] = inputs.continuous
    for settings in chosen.values():
        if settings.get("model") == "boosted":  # now, as a note would be read when the minutes are over
            numbers = inputs.continuous & (settings.get("continuous") is not False)
            warn_of_many_classes(replace(inputs, continuous=numbers))
    z, v = inputs.codes, np.asarray(factors, dtype=np.float64).reshape(len(inputs.codes), -1)
    if test is not None:
        test = as_matrix(test[0], "test_codes"), as_matrix(test[1], "test_factors")
        if len(test[0]) != len(test[1]) or [a.shape[1] for a in test] != [z.shape[1], v.shape[1]]:
            expected = f"(m, {z.shape[1]}) and (m, {v.shape[1]})"
            raise ValueError(f"test has shapes {test[0].shape} and {test[1].shape}, expected {expected}")
    results, seconds, notes = measure(chosen, z, v, declared, seed, sampler, test)
    halves: dict[str, list[Any]] = {name: [] for name in chosen}
    rng = np.random.default_rng(seed)
    for repeat in range(repeats if repeats > 1 else 0):
        rows = np.sort(rng.permutation(len(z))[: len(z) // 2])
        half = None
        if test is not None:
            some = rng.permutation(len(test[0]))[: max(1, len(test[0]) // 2)]
            half = test[0][some], test[1][some]
        found, spent, _ = measure(chosen, z[rows], v[rows], declared, seed + 1 + repeat, sampler, half)
        for name in chosen:
            halves[name].append(found[name])
            seconds[name] += spent[name]
    rows_of_table = []
    for name in chosen:
        metric = METRICS[name]
        for attribute, prop in metric.properties.items():
            read = attrgetter(attribute)
            values = [read(result) for result in halves[name] if result is not None]
            rows_of_table.append(
                Row(
                    metric=name,
                    family=metric.family,
                    property=prop,
                    value=float(read(results[name])) if results[name] is not None else float("nan"),
                    std=float(np.std(values, ddof=1)) if len(values) > 1 else float("nan"),
                    seconds=seconds[name],
                    note=notes[name],
                )
            )
    names = tuple(factor_names) if factor_names is not None else tuple(f"factor {j}" for j in range(len(declared)))
    about = {"protocol": protocol, "repeats": repeats, "seed": seed, "rows": len(z), "codes": z.shape[1]}
    kept = {name: result for name, result in results.items() if result is not None}
    return Table(tuple(rows_of_table), kept, names, about)


def measure(
    chosen: Mapping[str, Mapping[str, Any]],
    z: np.ndarray,
    v: np.ndarray,
    continuous: np.ndarray,
    seed: int,
    sampler: Simulator | None,
    test: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[dict[str, Any], dict[str, float], dict[str, str]]:
    """Result (None if it could not be had), seconds and note of every metric. Information tables are made once."""
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    notes: dict[str, str] = {}
    shared: dict[Any, InformationTables] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant factors have been named once, by the check of the whole table
        inputs = check(z, v, continuous.tolist())
    for name, settings in chosen.items():
        metric = METRICS[name]
        more: dict[str, Any] = {"seed": seed} if metric.random else {}
        if metric.samples and sampler is not None:
            more["sampler"] = sampler
        if metric.tests and test is not None and not settings.get("in_sample"):
            more |= {"test_codes": test[0], "test_factors": test[1]}
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if metric.tables:
                    results[name] = _from_tables(metric, settings, inputs, shared)
                elif metric.codes_only:
                    results[name] = metric.function()(z, **settings)
                else:
                    # A protocol may treat all factors as numbers, or all as labels.
                    given = {"continuous": continuous.tolist(), **more, **settings}
                    results[name] = metric.function()(z, v, **given)
                said = dict.fromkeys(str(w.message) for w in caught)
                notes[name] = "; ".join(text for text in said if "dropped constant" not in text)
            except ValueError as error:
                results[name] = None
                notes[name] = str(error)
        seconds[name] = time.process_time() - start
    return results, seconds, notes


def _from_tables(
    metric: Metric, settings: Mapping[str, Any], inputs: Inputs, shared: dict[Any, InformationTables]
) -> Any:
    of_tables = {key: value for key, value in settings.items() if key in TABLE_SETTINGS}
    key = tuple(sorted(of_tables.items()))
    if key not in shared:
        shared[key] = information_tables(inputs, **of_tables)
    return metric.function()(shared[key], **{k: v for k, v in settings.items() if k not in TABLE_SETTINGS})
