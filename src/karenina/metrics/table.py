"""The result of `karenina.score`: every metric, with its family, property, standard deviation and time."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from karenina._console import plain_console, visible
from karenina._files import atomic
from karenina._notebook import table
from karenina.metrics.registry import METRICS, score_name

COLUMNS = ("metric", "family", "property", "value", "std", "seconds", "note")
TRUST = "which to trust: docs/audit.md"
_HEADINGS = ("metric", "property", "family", "value", "std", "seconds", "note")


@dataclass(frozen=True)
class Row:
    """One line: a metric and one property that it measures. `std` is NaN without repeats; `note` says what failed."""

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
        """A pandas frame, one row per metric and property: metric, family, property, value, std, seconds, note."""
        import pandas as pd

        return pd.DataFrame([[getattr(row, name) for name in COLUMNS] for row in self.rows], columns=list(COLUMNS))

    @cached_property
    def per_factor(self) -> Any:
        """A tidy pandas frame of the values per factor: metric, property ("" where it has one), factor, value."""
        import pandas as pd

        lines = []
        listed = {(row.metric, row.property) for row in self.rows}
        for metric, result in self.results.items():
            for measured, values in per_factor_values(result).items():
                if measured and (metric, measured) not in listed:  # a part that was not asked for
                    continue
                lines += [(metric, measured, name, float(v)) for name, v in zip(self.factor_names, values)]
        return pd.DataFrame(lines, columns=["metric", "property", "factor", "value"])

    @cached_property
    def per_code(self) -> Any:
        """A tidy pandas frame of the values per code: metric, code, value.

        Codes are called by their names where they have any, and by numbers if a metric has made them (dci_aligned).
        """
        import pandas as pd

        lines = []
        for metric, result in self.results.items():
            values = getattr(result, "per_code", None)
            if values is not None:
                own = len(self.code_names) == len(values) and not getattr(result, "new_codes", False)
                named = self.code_names if own else range(len(values))
                lines += [(metric, name, float(value)) for name, value in zip(named, values)]
        return pd.DataFrame(lines, columns=["metric", "code", "value"])

    def flat(self, prefix: str = "") -> dict[str, float]:
        """The scores as {name: number}, for loggers; what could not be computed is left out.

        A part of a metric that has several follows a dot, as in `metrics=["dci_lasso.disentanglement"]`.
        """
        count = Counter(row.metric for row in self.rows)
        found = {}
        for row in self.rows:
            parts = METRICS[row.metric].properties if row.metric in METRICS else {}
            own = next((part.rpartition(".")[2] for part, measured in parts.items() if measured == row.property), None)
            name = f"{row.metric}.{own or row.property}" if len(parts) > 1 or count[row.metric] > 1 else row.metric
            if not np.isnan(row.value):
                found[prefix + name] = float(row.value)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and None: what to_json writes."""
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
        return _written(json.dumps(self.to_dict(), indent=2, allow_nan=False), path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        return _written(self.frame.to_csv(index=False), path)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Headings and lines of the table as text; columns in which there is nothing are left out."""
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
        return f"{table(*self._cells())}<p>{TRUST}</p>"


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with atomic(path) as part:
            part.write_text(text)
    return text


def per_factor_values(result: Any) -> dict[str, np.ndarray]:
    """The values per factor of a result, by property ("" where the metric has just one)."""
    found = getattr(result, "by_property", None) or {"": getattr(result, "per_factor", None)}
    return {measured: np.asarray(values) for measured, values in found.items() if values is not None}


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become None."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
