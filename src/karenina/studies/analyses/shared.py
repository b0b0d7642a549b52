"""What figures and captions of several analyses share. A caption says what this study's numbers show, and no more."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from karenina._figures import Figure

# More panels than this cannot be read, nor drawn quickly; `scores=` chooses others.
MOST_SCORES = 12
MOST_PARTS = 3  # data sets or methods that a caption names
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")


def correlation_map(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """A heat map for each group: correlations of the two columns before "correlation", in hundredths."""
    at = list(frame.columns).index("correlation")
    by, (a, b) = list(frame.columns[: at - 2]), frame.columns[at - 2 : at]
    groups = list(frame.groupby(by, sort=False)) if by else [((), frame)]
    groups = groups[: 2 * MOST_SCORES]
    symmetric = b == "b"
    first, second = list(dict.fromkeys(frame[a])), list(dict.fromkeys(frame[b]))
    rows = cols = list(dict.fromkeys([*first, *second]))
    if not symmetric:
        rows, cols = first, second
    figure, axes = grid(len(groups), 1.2 + 0.34 * len(cols), 1.0 + 0.3 * len(rows))
    for ax, (key, part) in zip(axes, groups):
        matrix = np.full((len(rows), len(cols)), np.nan)
        i, j = (pd.Categorical(part[name], names).codes for name, names in ((a, rows), (b, cols)))
        matrix[i, j] = part["correlation"]
        if symmetric:
            matrix[j, i] = part["correlation"]
            np.fill_diagonal(matrix, 1)
        ax.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu")
        if matrix.size <= 400:
            for (y, x), value in np.ndenumerate(matrix):
                if not np.isnan(value):
                    ax.text(x, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=6, color=_ink(value))
        ax.set_xticks(range(len(cols)), [short(name) for name in cols], rotation=90, fontsize=6)
        ax.set_yticks(range(len(rows)), [short(name) for name in rows], fontsize=6)
        ax.set_title(title_of(key), fontsize=8)
    return figure


def growth_curves(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Correlation with each metric against the number of partners, or of seeds."""
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for i, (key, line) in enumerate(part.groupby(by, sort=False)):
            ax.errorbar(line[number], line["correlation"], line["std"].fillna(0), color=colour(i), label=title_of(key))
        ax.set_xlabel(number, fontsize=7)

    return panels(frame, scores, draw)


def panels(frame: pd.DataFrame, scores: Sequence[str] | None, draw: Callable[[Axes, pd.DataFrame], None]) -> Figure:
    """One panel per score, with the legend of the first."""
    found = list(dict.fromkeys(frame["score"]))
    chosen = [name for name in scores if name in found] if scores is not None else found[:MOST_SCORES]
    figure, axes = grid(len(chosen), 3.2, 2.4)
    for ax, name in zip(axes, chosen):
        draw(ax, frame[frame["score"] == name])
        ax.set_title("\n".join(map(short, name.split("\n"))), fontsize=8)
        ax.tick_params(labelsize=7)
    handles, labels = axes[0].get_legend_handles_labels() if axes else ([], [])
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=7)
    if len(chosen) < len(found) and scores is None:
        figure.suptitle(f"{len(chosen)} of {len(found)} scores", fontsize=8)
    return figure


def strength_ticks(ax: Axes, part: pd.DataFrame) -> None:
    """Ticks for strengths that are drawn by rank: their values where all methods share them."""
    grids = {tuple(sorted(line["strength"].dropna().unique())) for _, line in part.groupby(["data", "method"])} - {()}
    shared = grids.pop() if len(grids) == 1 else ()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if shared:
        ax.set_xticks(range(len(shared)), [f"{value:g}" for value in shared])
    ax.set_xlabel("strength" if shared else "strength, from least to greatest", fontsize=7)


def grid(count: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    columns = max(1, min(count, int(16 // width) or 1))
    rows = max(1, -(-count // columns))
    figure = Figure(figsize=(width * columns, height * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def title_of(key: Any) -> str:
    return ", ".join(map(short, key)) if isinstance(key, tuple) else short(key)


def short(name: object, most: int = 32) -> str:
    """The end of a long name: paths of data differ there, and a whole one would leave no room for the panel."""
    text = str(name)
    return text if len(text) <= most else f"…{text[1 - most :]}"


def colour(i: int) -> str:
    return _COLOURS[i % len(_COLOURS)]


def _ink(value: float) -> str:
    return "white" if abs(value) > 0.6 else "black"


def preferred(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """The score to speak of."""
    present = list(dict.fromkeys(frame["score"]))
    return next((name for name in prefer if name in present), present[0])


def groups(frame: pd.DataFrame, *by: str) -> list[tuple[str, pd.DataFrame]]:
    """Groups with their names, the first few; "" where there is one group only."""
    found = [(", ".join(map(str, key)), part) for key, part in frame.groupby(list(by), sort=False, dropna=False)]
    return found[:MOST_PARTS] if len(found) > 1 else [("", part) for _, part in found]


def join(lines: Sequence[tuple[str, str]], frame_groups: int) -> str:
    texts = [f"{name}: {text}" if name else text for name, text in lines]
    rest = frame_groups - len(lines)
    return " ".join(texts) + (f" The figure has {rest} more." if rest > 0 else "")


def with_interval(row: "pd.Series") -> str:
    if np.isnan(row["correlation"]):
        return "undefined"  # too few runs, or a constant score
    bounds = f" [{row['low']:.2f}, {row['high']:.2f}]" if "low" in row and np.isfinite(row["low"]) else ""
    return f"{row['correlation']:.2f}{bounds}"


def correlations_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """The strongest and the weakest correlation, and the median, of each group."""
    at = list(frame.columns).index("correlation")
    a, b, by = frame.columns[at - 2], frame.columns[at - 1], list(frame.columns[: at - 2])
    lines = []
    for name, part in groups(frame, *by) if by else [("", frame)]:
        known = part.dropna(subset=["correlation"]).sort_values("correlation")
        if known.empty:
            lines.append((name, "no correlation can be computed."))
            continue
        top, least = known.iloc[-1], known.iloc[0]
        text = f"Correlations of {len(known)} pairs have the median {known['correlation'].median():.2f}. Highest: "
        text += f"{top[a]} with {top[b]}, {with_interval(top)}. "
        text += f"Lowest: {least[a]} with {least[b]}, {with_interval(least)}." if len(known) > 1 else ""
        if "runs" in part:
            text += f" {int(known['runs'].max())} models; intervals are 95 %."
        lines.append((name, text))
    return join(lines, frame.groupby(by).ngroups if by else 1)


def growth_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """Correlation with the preferred score from the fewest to the most partners or seeds."""
    score = preferred(frame, prefer)
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]
    lines = []
    for name, part in groups(frame[frame["score"] == score], *by):
        ordered = part.sort_values(number)
        first, last = ordered.iloc[0], ordered.iloc[-1]
        text = f"With {int(first[number])} {number} the rank correlation with {score} is {with_interval(first)}"
        if len(ordered) > 1:
            text += f", with {int(last[number])} it is {with_interval(last)}"
        lines.append((name, text + "."))
    return join(lines, frame.groupby(by).ngroups)
