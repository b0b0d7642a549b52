"""Every metric of one representation, from shared work, under a published protocol or our own defaults."""

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from karenina import _plugins
from karenina._words import hint
from karenina.metrics._dci import warn_of_many_classes
from karenina.metrics._inputs import Continuous, Inputs, Metric, Result, Settings, Test, check
from karenina.metrics._sampling import Simulator
from karenina.metrics.registry import METRICS, PROTOCOLS
from karenina.metrics.table import Row, Table
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import column_names, positive_integer, varying

# Names of metrics, functions of (codes, factors), or a mixture; None for all of ours.
Wanted = str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None

ALL = "all"
FEW_ROWS = 50  # below which a table says that its scores are mostly chance
_BY_FACTOR = ("per_factor", "per_factor_informativeness", "matrix")


def names() -> tuple[str, ...]:
    """All metrics known by name: ours, then those of plug-ins."""
    return tuple(METRICS | _plugins.found("metrics"))


def find(name: str) -> Metric:
    """The metric of a name."""
    if name in METRICS:
        return METRICS[name]
    if name not in _plugins.found("metrics"):
        raise ValueError(f"no metric {name!r}; {hint(name, names())}")
    added = _plugins.load("metrics", name)
    return added if isinstance(added, Metric) else of_function(added)


def of_part(name: str) -> tuple[str, str | None]:
    """The metric of a name, and the attribute of its result that the name asks for; None for all of it.

    >>> of_part("dci_lasso.disentanglement"), of_part("mig")
    (('dci_lasso', 'disentanglement'), ('mig', None))
    """
    metric, _, part = name.rpartition(".")
    if name in METRICS or name in names():
        return name, None
    if metric not in names():
        raise ValueError(f"no metric {name!r}; {hint(name.partition('.')[0], names())}")
    parts = {attribute.rpartition(".")[2]: attribute for attribute in find(metric).properties}
    if len(parts) == 1:
        raise ValueError(f"{metric} has no parts, so no {name!r}; it is {metric}")
    if part not in parts:
        raise ValueError(f"{metric} has no part {part!r}; {hint(part, parts)}")
    return metric, parts[part]


def of_function(function: Callable[..., Any]) -> Metric:
    """The metric of a plain function of codes (n, d) and factors (n, k) that returns a number, or a result.

    It is given `seed` and `continuous` if it takes them, and may say what it measures by an attribute `property`.
    """
    takes = inspect.signature(function).parameters

    def measured(inputs: Inputs, *, seed: int = 0) -> Any:
        settings = {"seed": seed, "continuous": inputs.continuous.tolist()}
        given = {key: value for key, value in settings.items() if key in takes}
        try:
            found = function(inputs.codes.copy(), inputs.factors.copy(), **given)
            return _among_given(found, inputs) if hasattr(found, "value") else Result(float(found))
        except (Exception, SystemExit) as error:  # whatever another package raises
            raise ValueError(f"raised {type(error).__name__}: {error}") from error

    return Metric(measured, "own", str(getattr(function, "property", "")))


def _among_given(result: Any, inputs: Inputs) -> Any:
    """A result for the factors that vary, its arrays with one row per factor at the places of the factors given."""
    k = len(inputs.kept)
    if k == len(inputs.declared):
        return result
    spread = copy(result)
    for name, values in getattr(result, "__dict__", {}).items():
        if name in _BY_FACTOR and values is not None and len(values) == k:
            object.__setattr__(spread, name, inputs.among_given(np.asarray(values, np.float64)))
        elif name == "importance":  # of a DCI: (d, k)
            object.__setattr__(spread, name, inputs.among_given(np.asarray(values, np.float64).T).T)
    return spread


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _ours(function: Any) -> str | None:
    """The name of a metric of ours that is given as its function, such as karenina.metrics.mig."""
    name = getattr(function, "__name__", None)
    return name if name in METRICS and METRICS[name].function is function else None


class Asked(NamedTuple):
    """A metric to compute: its settings under the protocol, and attributes of its result, if only parts are wanted."""

    metric: Metric
    settings: Settings
    parts: frozenset[str] = frozenset()


def select(metrics: Wanted, protocol: str | None) -> dict[str, Asked]:
    """The metrics to compute, by name.

    >>> found = select(["mig", "dci_lasso.disentanglement", "dci_lasso.completeness"], None)
    >>> [(name, sorted(asked.parts)) for name, asked in found.items()]
    [('mig', []), ('dci_lasso', ['completeness', 'disentanglement'])]
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise ValueError(f"no protocol {protocol!r}; {hint(protocol, PROTOCOLS)}, and None for our defaults")
    settings = {name: metric.settings(protocol) for name, metric in METRICS.items()}
    available = {name: Asked(METRICS[name], values) for name, values in settings.items() if values is not None}
    if metrics is None:
        return {name: asked for name, asked in available.items() if not asked.metric.on_request}
    wanted = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    if wanted == [ALL]:
        return available
    if not wanted:
        raise ValueError(f"no metric asked for; there are {', '.join(names())}")
    found: dict[str, Asked] = {}
    functions: dict[str, Any] = {}
    for item in wanted:
        known = item if isinstance(item, str) else _ours(item)
        if known is None:
            name = _name(item)
            if not callable(item):
                raise ValueError(f"a metric is a name or a function of (codes, factors), got {item!r}")
            if name in names() or functions.setdefault(name, item) is not item:
                raise ValueError(f"two metrics are called {name}: give your function another __name__")
            found[name] = Asked(of_function(item), {})
            continue
        name, part = of_part(known)
        metric = find(name)
        own = metric.settings(protocol)
        if own is None:
            raise ValueError(f"the protocol {protocol} has no {name}; it has {', '.join(available)}")
        before = found[name].parts if name in found else None
        whole = part is None or before == frozenset()
        found[name] = Asked(metric, own, frozenset() if whole else (before or frozenset()) | {str(part)})
    return found


def score(
    codes: ArrayLike,
    factors: ArrayLike,
    metrics: Wanted = None,
    protocol: str | None = None,
    repeats: int = 1,
    seed: int = 0,
    *,
    factor_names: Sequence[str] | None = None,
    continuous: Continuous = None,
    sampler: Simulator | None = None,
    test: Test = None,
) -> Table:
    """All metrics of codes against factors, each with its parts, in one table.

    Parameters
    ----------
    codes : (n, d)
        An array, a tensor or a data frame, whose names of columns are kept.
    factors : (n, k)
        Likewise. Text, categories and booleans are categorical factors.
    metrics : names from `METRICS` or of plug-ins, and functions of your own
        None: all of `METRICS` but those on request (infomec, dci_es, mcc, mcc_rank, r2_affine, irs_robust); "all":
        these, too.
        "dci_lasso.disentanglement" is one part of a metric that has several.
        A function takes codes (n, d) and factors (n, k), and `seed` if it likes, and gives a number. A function of your
        own is given the factors that vary, without constant ones.
    protocol : {None, "locatello", "carbonneau"}
        Our defaults, which are the papers' definitions with the released bugs repaired, or published parameters;
        docs/metrics.md lists every difference.
    repeats : int
        Above 1, every metric is also computed on that many random halves of the rows, with new sampling seeds, and
        `std` is their standard deviation. The variance of half-sample estimates around the full one is that of the full
        one around the truth, so this is the error of the value printed. The value itself comes from all rows. A half in
        which every factor is constant is left out.
    seed : int
    factor_names : k names
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.
    sampler : function or Blocks, optional
        A simulator, rows of factors (m, k) -> codes (m, d), for the intervention metrics, in place of the rows given.
    test : (test_codes (m, d), test_factors (m, k)), optional
        Other rows on which predictors are tested, instead of held-out ones.

    Returns
    -------
    Table
        A metric that cannot be computed on this data has the value NaN and a note that says why.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(5, size=(1000, 3))
    >>> table = score(v + 0.01 * rng.normal(size=v.shape), v, metrics=["mig", "dci_lasso"])
    >>> round(table["mig"].value, 2), [row.property for row in table.rows]
    (0.99, ['compactness', 'modularity', 'compactness', 'explicitness'])
    """
    positive_integer(repeats, "repeats")
    chosen = select(metrics, protocol)
    inputs = check(codes, factors, continuous, factor_names, test)
    for asked in chosen.values():
        if asked.settings.get("model") == "boosted":  # now, as a note would be read when the minutes are over
            warn_of_many_classes(inputs.declare(asked.settings.get("continuous")))
    results, seconds, notes = measure(chosen, inputs, seed, sampler)
    halves: dict[str, list[Any]] = {name: [] for name in chosen}
    rng, used = np.random.default_rng(seed), 0
    for repeat in range(repeats if repeats > 1 else 0):
        half = np.sort(rng.permutation(len(inputs.codes))[: len(inputs.codes) // 2])
        m = 0 if inputs.test is None else len(inputs.test[0])
        half_of_test = rng.permutation(m)[: max(1, m // 2)] if m else None
        drawn = (
            sampler.of_blocks(rng.permutation(len(sampler))[: len(sampler) // 2])
            if isinstance(sampler, Blocks)
            else sampler
        )
        if not varying(inputs.given[half]).any():
            continue
        used += 1
        found, spent, _ = measure(chosen, inputs.of_rows(half, half_of_test), seed + 1 + repeat, drawn)
        for name in chosen:
            halves[name].append(found[name])
            seconds[name] += spent[name]
    if len(inputs.codes) < FEW_ROWS:
        few = f"only {len(inputs.codes)} rows, of which scores are mostly chance"
        notes = {name: "; ".join(filter(None, [note, few])) for name, note in notes.items()}
    if repeats > 1 and not used:
        none = "no standard deviation: every factor is constant in each of the halves"
        notes = {name: "; ".join(filter(None, [note, none])) for name, note in notes.items()}
    rows = []
    for name, (metric, _, parts) in chosen.items():
        for attribute, measured in metric.properties.items():
            if parts and attribute not in parts:
                continue
            read = attrgetter(attribute)
            values = [read(result) for result in halves[name] if result is not None]
            value = float(read(results[name])) if results[name] is not None else float("nan")
            std = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
            rows.append(Row(name, metric.family, measured, value, std, seconds[name], notes[name]))
    n, d = inputs.codes.shape
    about = {"protocol": protocol, "repeats": repeats, "seed": seed, "rows": n, "codes": d}
    kept = {name: result for name, result in results.items() if result is not None}
    return Table(tuple(rows), kept, inputs.given_names, about, column_names(codes) or ())


def why(error: BaseException) -> str:
    """A metric's failure as a note."""
    return str(error) if isinstance(error, ValueError) else f"raised {type(error).__name__}: {error}".rstrip(": ")


def measure(
    chosen: Mapping[str, Asked], inputs: Inputs, seed: int, sampler: Simulator | None = None
) -> tuple[dict[str, Any], dict[str, float], dict[str, str]]:
    """Result (None if it could not be had), seconds and note of every metric."""
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    notes: dict[str, str] = {}
    untested = replace(inputs, test=None)
    for name, (metric, settings, _) in chosen.items():
        offered = {"seed": seed} | ({} if sampler is None else {"sampler": sampler})
        more = {key: value for key, value in offered.items() if key in metric.parameters}
        given = inputs if metric.tests and settings.get("test_fraction") != 0 else untested
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                results[name] = metric.function(given, **more, **settings)
                for attribute in metric.properties:  # a result of another package may lack what it promised
                    float(attrgetter(attribute)(results[name]))
                notes[name] = "; ".join(dict.fromkeys(str(warning.message) for warning in caught))
            except (Exception, SystemExit) as error:  # one metric's failure, be it memory, leaves the others
                results[name] = None
                notes[name] = why(error)
        seconds[name] = time.process_time() - start
    return results, seconds, notes
