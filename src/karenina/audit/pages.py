"""Pictures and tables of an audit."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karenina._files import atomic
from karenina._plugins import MissingExtra
from karenina.audit._rules import characteristics, rules, sampling_errors, table_1
from karenina.audit.experiments import EXPERIMENTS, LARGE
from karenina.audit.running import Audit, ScoreKey
from karenina.drawing.charts import COLOURS
from karenina.metrics.registry import score_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PUBLISHED = [name for name, experiment in EXPERIMENTS.items() if experiment.section and name != "redundancy"]
FAILURES = [name for name, experiment in EXPERIMENTS.items() if not experiment.section]
PROPERTIES = ("modularity", "compactness", "explicitness", "holistic")
_FIGURES = {"noise": "4", "mixing": "5", "nonlinear": "7", "measured": "8", "samples": "9"}
_LINES = ("-", "--", ":")
_MARKS = "osD^vPX*<>d"


def write(audit: Audit, folder: str | os.PathLike[str]) -> list[Path]:
    """Write audit.md with the tables, scores.csv, and for each protocol curves-*.png and failures-*.png.

    Returns
    -------
    list of the files; without pictures where matplotlib is not installed (the extra `train`)
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / "audit.md", folder / "scores.csv"]
    pictures = []
    with suppress(MissingExtra):
        for protocol in dict.fromkeys(audit.frame.protocol):
            for kind, names in (("curves", PUBLISHED), ("failures", FAILURES)):
                path = folder / f"{kind}-{protocol}.png"
                if plot(audit, protocol, names, path):
                    pictures.append(path)
    with atomic(made[0]) as part:
        part.write_text(markdown(audit, [path.name for path in pictures]))
    with atomic(made[1]) as part:
        audit.frame.to_csv(part, index=False)
    return made + pictures


def plot(audit: Audit, protocol: str, names: Sequence[str], path: str | os.PathLike[str]) -> bool:
    """Draw curves of these experiments under this protocol: a line of panels for each, a column for each property.

    Means over seeds, with the standard deviation; the right answer, where there is one, in grey. For "samples" the
    error against the whole sample, as in Figure 9 of Carbonneau et al. (2022). False when there is nothing to draw.
    """
    from karenina.drawing.figure import Figure

    keys = [key for key in audit.keys if key.protocol == protocol]
    measured = [name for name in names if name in set(audit.frame.experiment)]
    if not keys or not measured:
        return False
    found = list(dict.fromkeys(key.property for key in keys))
    columns = [p for p in PROPERTIES if p in found] + [p for p in found if p not in PROPERTIES]
    metrics = list(dict.fromkeys(key.metric for key in keys))
    style = {
        metric: (COLOURS[i % len(COLOURS)], _LINES[i // len(COLOURS) % len(_LINES)], _MARKS[i % len(_MARKS)])
        for i, metric in enumerate(metrics)
    }
    legend = 0.22 * max(sum(key.property == column for key in keys) for column in columns)
    height = 2.3 * len(measured) + legend + 0.7
    figure = Figure(figsize=(3.1 * len(columns) + 0.5, height), layout="constrained", dpi=110)
    axes = figure.subplots(len(measured), len(columns), squeeze=False)
    for line, name in zip(axes, measured):
        for axis, column in zip(line, columns):
            _panel(axis, audit, name, column, [key for key in keys if key.property == column], style)
        line[0].set_ylabel(_title(name), fontsize=8)
    for axis, column in zip(axes[0], columns):
        axis.set_title(column, fontsize=10, fontweight="bold")
    for axis in axes[-1]:
        handles, labels = axis.get_legend_handles_labels()
        axis.legend(
            handles, labels, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.32), frameon=False, ncols=1
        )
    what = f"{audit.seeds_text}, {audit.about['rows']:,} rows"
    known = set(columns) & set(PROPERTIES)  # where a function does not say its property, no right answer is known
    grey = ["Grey: the right answer (when codes mix, DCI's formula)."] if known else []
    between = " " if len(columns) > 1 else "\n"
    figure.suptitle(between.join([f"Protocol: {protocol} ({what}).", *grey]), fontsize=10)
    with atomic(Path(path)) as part:
        figure.savefig(part)
    return True


def _title(name: str) -> str:
    experiment = EXPERIMENTS[name]
    figure = f"\n(Carbonneau et al., Figure {_FIGURES[name]})" if name in _FIGURES else ""
    return experiment.title + figure


def _panel(
    axis: "Axes", audit: Audit, name: str, column: str, keys: list[ScoreKey], style: dict[str, tuple[str, str, str]]
) -> None:
    experiment = EXPERIMENTS[name]
    places = np.arange(len(experiment.values))
    truth = [experiment.truth(value).get(column, np.nan) for value in experiment.values]
    axis.plot(places, truth, color="0.75", linewidth=5, solid_capstyle="round", zorder=0)
    for key in keys:
        curve = audit.curve(*key, name)
        mean, std = curve["mean"].to_numpy(), curve["std"].to_numpy()
        if experiment.nested:
            mean, std = sampling_errors(audit, key).reindex(list(experiment.values)).to_numpy(), np.zeros(len(places))
        colour, line, mark = style[key.metric]
        axis.errorbar(
            places, mean, np.nan_to_num(std), color=colour, linestyle=line, marker=mark, markersize=3.5, linewidth=1.2,
            label=key.metric,
        )  # fmt: skip
    labels = [f"{value:g}" if isinstance(value, (int, float)) else value for value in experiment.values]
    if experiment.nested:
        labels = [f"{round(float(share) * LARGE * audit.about['rows']):,}" for share in experiment.values]
    axis.set_xticks(places, labels, fontsize=7)
    axis.set_xlabel("rows" if experiment.nested else experiment.parameter, fontsize=7)
    axis.set_ylim(-0.03, None if experiment.nested else 1.05)
    axis.tick_params(labelsize=7)
    axis.grid(color="0.93")


def markdown(audit: Audit, pictures: Sequence[str] = ()) -> str:
    """Return Table 1, the characteristics with their rules, what could not be measured, and the pictures."""
    about = audit.about
    parts = [
        "# Audit",
        f"{audit.seeds_text}, {about['rows']:,} rows ({about['tree_rows']:,} for metrics that grow trees). "
        "Means over seeds.",
    ]
    if "redundancy" in set(audit.frame.experiment):
        title = "## Modular, not compact (Table 1 of Carbonneau et al., 2022)"
        parts += [title, markdown_table(table_1_text(audit))]
    title = "## Characteristics (Table 2 of Carbonneau et al., 2022, and failures)"
    parts += [title, markdown_table(characteristics_text(audit)), rules_text()]
    failed = audit.failures()
    if len(failed):
        parts += ["## What could not be measured", markdown_table(failed)]
    parts += [f"![{name.removesuffix('.png')}]({name})" for name in pictures]
    return "\n\n".join(parts) + "\n"


def rules_text() -> str:
    """Return the rule of each column of the characteristics, and the legend."""
    text = "\n".join(f"- **{title}**: {rule}" for title, rule in rules().items())
    return f"{text}\n\n✓ the rule holds, ✗ it does not, – it does not apply or was not run, ? a score could not be had."


def table_1_text(audit: Audit) -> pd.DataFrame:
    """Return `table_1` with its index as columns, scores under their names and numbers to two decimals."""
    text = table_1(audit).map(lambda value: "?" if np.isnan(value) else f"{value:.2f}").reset_index()
    return text.assign(metric=[score_name(*pair) for pair in zip(text.metric, text.property)])


def characteristics_text(audit: Audit, *, short: bool = False) -> pd.DataFrame:
    """Return `characteristics` as text: protocol, metric, property, and a column per rule."""
    return pd.DataFrame(
        {
            "protocol": key.protocol,
            "metric": score_name(key.metric, key.property),
            "property": key.property,
            **{title: cell.short() if short else str(cell) for title, cell in cells.items()},
        }
        for key, cells in characteristics(audit).items()
    )


def markdown_table(frame: pd.DataFrame) -> str:
    """Return the frame as a table in Markdown."""
    lines = [list(map(str, frame.columns)), ["---"] * len(frame.columns)]
    lines += [[str(value).replace("|", "\\|").replace("\n", " ") for value in line] for line in frame.to_numpy()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
