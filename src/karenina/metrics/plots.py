"""Pictures of scores: relation matrices as heat maps and Hinton diagrams, and bars per property."""

import os
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina._files import atomic
from karenina.drawing.charts import BLUE, GREEN, ORANGE, PURPLE, SKY, hinton
from karenina.metrics.registry import score_name
from karenina.metrics.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "modularity": BLUE,
    "compactness": ORANGE,
    "explicitness": GREEN,
    "holistic": PURPLE,
    "independence": SKY,
}


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
    """The relation matrix of every metric that has one; one that metrics share appears once, under all their names."""
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
