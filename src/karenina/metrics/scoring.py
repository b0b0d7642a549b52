"""Every metric of one representation, from shared work, under a published protocol or our own defaults: computed, in
one table, printed, written and drawn.
"""

import inspect
import json
import os
import textwrap
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina import _notebook, _plugins
from karenina._console import plain_console, visible
from karenina._files import atomic
from karenina._words import hint
from karenina.drawing.charts import BLUE, GREEN, ORANGE, PURPLE, SKY, hinton
from karenina.metrics._dci import warn_of_many_classes
from karenina.metrics._inputs import Continuous, Inputs, Metric, Result, Settings, Test, check
from karenina.metrics.interventions import Simulator
from karenina.metrics.registry import METRICS, PROTOCOLS, score_name
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import column_names, positive_integer, varying

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names of metrics, functions of (codes, factors), or a mixture; None for all of ours.
Wanted = str | Callable[..., Any] | Iterable[str | Callable[..., Any]] | None

ALL = "all"
FEW_ROWS = 50  # With fewer, a table says that its scores are mostly chance.
_BY_FACTOR = ("per_factor", "per_factor_informativeness", "matrix")
COLUMNS = ("metric", "family", "property", "value", "std", "seconds", "note")
TRUST = "which to trust: docs/audit.md"
_HEADINGS = ("metric", "property", "family", "value", "std", "seconds", "note")
COLOURS = {
    "modularity": BLUE,
    "compactness": ORANGE,
    "explicitness": GREEN,
    "holistic": PURPLE,
    "independence": SKY,
}


@dataclass(frozen=True)
class Row:
    """One line of a table: a metric and one property that it measures. `std` is NaN without repeats; `note` says what
    failed.
    """

    metric: str
    family: str
    property: str
    value: float
    std: float
    seconds: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Any]):
    """Scores of one representation: `table["mig"].value`, `.per_factor`, `.matrix`; `table.frame`; `print(table)`.

    Attributes
    ----------
    rows : one per metric and property
    results : metric -> its result on all rows of codes
    factor_names : k names
    settings : how the scores were computed
    code_names : d names, if the codes had any (a data frame)
    """

    rows: tuple[Row, ...]
    results: Mapping[str, Any]
    factor_names: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    code_names: tuple[str, ...] = ()

    def __getitem__(self, metric: str) -> Any:
        if metric not in self.results:
            raise KeyError(f"{metric!r} was not computed; there is {', '.join(self.results)}")
        return self.results[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @cached_property
    def frame(self) -> Any:
        """Return a pandas frame, a row per metric and property: metric, family, property, value, std, seconds, note."""
        import pandas as pd

        return pd.DataFrame([[getattr(row, name) for name in COLUMNS] for row in self.rows], columns=list(COLUMNS))

    @cached_property
    def per_factor(self) -> Any:
        """Return a tidy pandas frame of values per factor: metric, property ("" where it has one), factor, value."""
        import pandas as pd

        lines = []
        listed = {(row.metric, row.property) for row in self.rows}
        for metric, result in self.results.items():
            found = getattr(result, "by_property", None) or {"": getattr(result, "per_factor", None)}
            for measured, values in found.items():
                if values is None or (measured and (metric, measured) not in listed):  # a part that was not asked for
                    continue
                lines += [(metric, measured, name, float(v)) for name, v in zip(self.factor_names, np.asarray(values))]
        return pd.DataFrame(lines, columns=["metric", "property", "factor", "value"])

    @cached_property
    def per_code(self) -> Any:
        """Return a tidy pandas frame of the values per code: metric, code, value.

        Codes are called by their names where they have any, and by numbers if a metric has made them (dci_aligned).
        """
        import pandas as pd

        lines = []
        for metric, result in self.results.items():
            values = getattr(result, "per_code", None)
            if values is not None:
                have_names = len(self.code_names) == len(values) and not getattr(result, "new_codes", False)
                named = self.code_names if have_names else range(len(values))
                lines += [(metric, name, float(value)) for name, value in zip(named, values)]
        return pd.DataFrame(lines, columns=["metric", "code", "value"])

    def flat(self, prefix: str = "") -> dict[str, float]:
        """Return the scores as {name: number}, for loggers; what could not be computed is left out.

        A part of a metric that has several follows a dot, as in `metrics=["dci_lasso.disentanglement"]`.
        """
        count = Counter(row.metric for row in self.rows)
        found = {}
        for row in self.rows:
            parts = METRICS[row.metric].properties if row.metric in METRICS else {}
            suffix = next(
                (part.rpartition(".")[2] for part, measured in parts.items() if measured == row.property), None
            )
            name = f"{row.metric}.{suffix or row.property}" if len(parts) > 1 or count[row.metric] > 1 else row.metric
            if not np.isnan(row.value):
                found[prefix + name] = float(row.value)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and None: what to_json writes."""
        return {
            "settings": dict(self.settings),
            "factor_names": list(self.factor_names),
            **({"code_names": list(self.code_names)} if self.code_names else {}),
            "scores": [{name: _plain(getattr(row, name)) for name in COLUMNS} for row in self.rows],
            "details": {
                metric: {
                    name: _plain(getattr(result, name, None)) for name in ("value", "per_factor", "per_code", "matrix")
                }
                for metric, result in self.results.items()
            },
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the table as JSON, and write it to `path` if there is one."""
        return _written(json.dumps(self.to_dict(), indent=2, allow_nan=False), path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the frame as CSV, and write it to `path` if there is one."""
        return _written(self.frame.to_csv(index=False), path)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and lines of the table as text; columns in which there is nothing are left out."""
        lines = [
            {
                "metric": score_name(row.metric, row.property),
                "property": row.property,
                "family": row.family,
                "value": _number(row.value),
                "std": _number(row.std),
                "seconds": f"{row.seconds:.2f}" if i == 0 or self.rows[i - 1].metric != row.metric else "",
                "note": row.note,
            }
            for i, row in enumerate(self.rows)
        ]
        nothing = {"std": "-", "note": ""}
        used = [name for name in _HEADINGS if any(line[name] != nothing.get(name) for line in lines)]
        return used, [[line[name] for name in used] for line in lines]

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        headings, lines = self._cells()
        found = RichTable(box=None, pad_edge=False, header_style="bold")
        for heading in headings:
            numeric = heading in ("value", "std", "seconds")
            found.add_column(heading, justify="right" if numeric else "left", no_wrap=heading != "note")
        for line in lines:
            found.add_row(*(Text(visible(cell)) for cell in line))  # a name may look like markup
        return Group(found, Text(TRUST, style="dim"))

    def __str__(self) -> str:
        console = plain_console(width=150, color_system=None)
        with console.capture() as captured:
            console.print(self.__rich__())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{_notebook.table(*self._cells())}<p>{TRUST}</p>"


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with atomic(path) as part:
            part.write_text(text)
    return text


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _plain(value: Any) -> Any:
    """Return the value as JSON can hold it, which has no NaN and no infinity: they become None."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value


def names() -> tuple[str, ...]:
    """Return all metrics known by name: ours, then those of plug-ins."""
    return tuple(METRICS | _plugins.found("metrics"))


def find(name: str) -> Metric:
    """Return the metric of a name."""
    if name in METRICS:
        return METRICS[name]
    if name not in _plugins.found("metrics"):
        raise ValueError(f"no metric {name!r}; {hint(name, names())}")
    added = _plugins.load("metrics", name)
    return added if isinstance(added, Metric) else of_function(added)


def of_part(name: str) -> tuple[str, str | None]:
    """Return the metric of a name, and the attribute of its result that the name asks for; None for all of it.

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
    """Return the metric of a plain function of codes (n, d) and factors (n, k) that returns a number, or a result.

    It is given `seed` and `continuous` if it takes them, and may say what it measures by an attribute `property`.
    """
    takes = inspect.signature(function).parameters

    def measured(inputs: Inputs, *, seed: int = 0) -> Any:
        settings = {"seed": seed, "continuous": inputs.continuous.tolist()}
        taken = {key: value for key, value in settings.items() if key in takes}
        try:
            found = function(inputs.codes.copy(), inputs.factors.copy(), **taken)
            return _among_given(found, inputs) if hasattr(found, "value") else Result(float(found))
        except (Exception, SystemExit) as error:  # whatever another package raises
            raise ValueError(f"raised {type(error).__name__}: {error}") from error

    return Metric(measured, "own", str(getattr(function, "property", "")))


def _among_given(result: Any, inputs: Inputs) -> Any:
    """Return the result for all factors from that for those that vary: arrays have a row per factor, at the place where
    it was given.
    """
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
    """Return the name of a metric of ours from its function, such as karenina.metrics.mig; None for others."""
    name = getattr(function, "__name__", None)
    return name if name in METRICS and METRICS[name].function is function else None


class Asked(NamedTuple):
    """A metric to compute: its settings under the protocol, and attributes of its result, if only parts are wanted."""

    metric: Metric
    settings: Settings
    parts: frozenset[str] = frozenset()


def select(metrics: Wanted, protocol: str | None) -> dict[str, Asked]:
    """Return the metrics to compute, by name.

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
        its_settings = metric.settings(protocol)
        if its_settings is None:
            raise ValueError(f"the protocol {protocol} has no {name}; it has {', '.join(available)}")
        before = found[name].parts if name in found else None
        whole = part is None or before == frozenset()
        found[name] = Asked(metric, its_settings, frozenset() if whole else (before or frozenset()) | {str(part)})
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
    """Compute metrics of codes against factors, each with its parts, in one table.

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
        if asked.settings.get("model") == "boosted":  # said at once, as a note would be read when the minutes are over
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
    """Return a metric's failure as a note."""
    return str(error) if isinstance(error, ValueError) else f"raised {type(error).__name__}: {error}".rstrip(": ")


def measure(
    chosen: Mapping[str, Asked], inputs: Inputs, seed: int, sampler: Simulator | None = None
) -> tuple[dict[str, Any], dict[str, float], dict[str, str]]:
    """Return result (None if it could not be had), seconds and note of every metric."""
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    notes: dict[str, str] = {}
    untested = replace(inputs, test=None)
    for name, (metric, settings, _) in chosen.items():
        offered = {"seed": seed} | ({} if sampler is None else {"sampler": sampler})
        extra = {key: value for key, value in offered.items() if key in metric.parameters}
        data = inputs if metric.tests and settings.get("test_fraction") != 0 else untested
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                results[name] = metric.function(data, **extra, **settings)
                for attribute in metric.properties:  # a result of another package may lack what it promised
                    float(attrgetter(attribute)(results[name]))
                notes[name] = "; ".join(dict.fromkeys(str(warning.message) for warning in caught))
            except (
                Exception,
                SystemExit,
            ) as error:  # the failure of one metric, even for lack of memory, leaves the others
                results[name] = None
                notes[name] = why(error)
        seconds[name] = time.process_time() - start
    return results, seconds, notes


def _label(axis: "Axes", title: str, names: tuple[str, ...], columns: int) -> None:
    axis.set_title(title, fontsize=9)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.set_xticks(range(columns), [str(j) for j in range(columns)], fontsize=6)
    axis.set_xlabel("code", fontsize=7)
    axis.tick_params(length=0)


def plot_scores(table: Table, path: str | os.PathLike[str]) -> None:
    """Draw a table of scores: bars per property, then every relation matrix (factors x codes). PNG, PDF or SVG."""
    from karenina.drawing.figure import Figure

    matrices = _matrices(table)
    columns = 4
    # Label-free scores have no common range, so they have no place among bars from 0 to 1.
    bars = [row for row in table.rows if np.isfinite(row.value) and row.family != "label-free"]
    if not bars and not matrices:
        raise ValueError("there is nothing to draw: a plot shows metrics, and every metric needs labels")
    lines = -(-len(matrices) // columns)
    k, d = next((matrix.shape for matrix in matrices.values()), (1, 1))
    line_height = 0.9 + 2.7 * max(0.35, min(1.6, k / d))
    bar_height = 0.8 + 0.2 * len(bars)
    figure = Figure(figsize=(13, bar_height + lines * line_height), dpi=110, layout="constrained")
    grid = figure.add_gridspec(1 + lines, columns, height_ratios=[bar_height] + [line_height] * lines)
    _bars(figure.add_subplot(grid[0, :]), bars)
    for i, (name, matrix) in enumerate(matrices.items()):
        axis = figure.add_subplot(grid[1 + i // columns, i % columns])
        if name.startswith("dci_"):
            hinton(axis, matrix)
            _label(axis, f"{name}: importance", table.factor_names, matrix.shape[1])
        else:
            shown = axis.imshow(matrix, cmap="viridis", vmin=0, aspect="equal")
            _label(axis, "\n".join(textwrap.wrap(name, 36)), table.factor_names, matrix.shape[1])
            figure.colorbar(shown, ax=axis, shrink=0.7).ax.tick_params(labelsize=6)
    with atomic(path) as part:
        figure.savefig(part)


def _matrices(table: Table) -> dict[str, NDArray[np.float64]]:
    """Return the relation matrix of every metric that has one; one that metrics share appears once, under all their
    names.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for name, result in table.items():
        matrix = getattr(result, "matrix", None)
        if matrix is None:
            continue
        same = next((other for other, m in found.items() if np.array_equal(m, matrix, equal_nan=True)), None)
        if same is None:
            found[name] = matrix
        else:
            found = {f"{key}, {name}" if key == same else key: m for key, m in found.items()}
    return found


def _bars(axis: "Axes", rows: list[Any]) -> None:
    order = list(COLOURS)
    rows = sorted(rows, key=lambda row: order.index(row.property) if row.property in order else len(order))
    positions = np.arange(len(rows))
    values = np.array([row.value for row in rows])
    errors = np.nan_to_num([row.std for row in rows])
    colours = [COLOURS.get(row.property, "#777777") for row in rows]
    axis.barh(positions, np.clip(values, 0, 1), xerr=errors if errors.any() else None, color=colours, height=0.75)
    for position, value in zip(positions, values):
        axis.text(min(max(value, 0), 1) + 0.01, float(position), f"{value:.2f}", va="center", fontsize=7)
    names = [f"{score_name(row.metric, row.property)}  ({row.property})" for row in rows]
    axis.set_yticks(positions, names, fontsize=7)
    axis.set(xlim=(0, 1.08), ylim=(len(rows) - 0.4, -0.6))
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title("Scores by property", fontsize=10, loc="left")
