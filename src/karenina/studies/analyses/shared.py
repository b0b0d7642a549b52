"""What figures and captions of several analyses share. A caption says what this study's numbers show, and no more."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from karenina._figures import Figure
from karenina.studies.analyses.charts import Chart, Heat, Panel, Series, colour, draw, plain_number

__all__ = ["colour"]

# More panels than this cannot be read, nor drawn quickly; `scores=` chooses others.
MOST_SCORES = 12
WORDS = {"informative_latents": "active_latents"}  # the name in tables of results -> the glossary's word
MOST_PARTS = 3  # data sets or methods that a caption names


def correlation_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """A heat map for each group: correlations of the two columns before "correlation"."""
    at = list(frame.columns).index("correlation")
    by, (a, b) = list(frame.columns[: at - 2]), frame.columns[at - 2 : at]
    groups = list(frame.groupby(by, sort=False)) if by else [((), frame)]
    symmetric = b == "b"
    first, second = list(dict.fromkeys(frame[a])), list(dict.fromkeys(frame[b]))
    rows = cols = list(dict.fromkeys([*first, *second]))
    if not symmetric:
        rows, cols = first, second
    panels = []
    for key, part in groups[: 2 * MOST_SCORES]:
        i, j = (pd.Categorical(part[name], names).codes for name, names in ((a, rows), (b, cols)))
        parts = {}
        for name in ("correlation", "low", "high"):
            matrix = np.full((len(rows), len(cols)), np.nan)
            if name in part:
                matrix[i, j] = part[name]
                if symmetric:
                    matrix[j, i] = part[name]
                    np.fill_diagonal(matrix, 1)
            parts[name] = matrix
        names = [tuple(map(short, names)) for names in (rows, cols)]
        bounds = (parts["low"], parts["high"]) if "low" in part else (None, None)
        panels.append(Heat(title_of(key), names[0], names[1], parts["correlation"], *bounds))
    return Chart("heat", tuple(panels), "rank correlation")


def correlation_map(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """`correlation_chart`, drawn."""
    return draw(correlation_chart(frame, scores))


def growth_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Correlation with each metric against the number of partners, or of seeds."""
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]

    def panel(title: str, part: pd.DataFrame) -> Panel:
        series = [
            Series(
                title_of(key),
                line[number].tolist(),
                line["correlation"].tolist(),
                (line["correlation"] - line["std"].fillna(0)).tolist(),
                (line["correlation"] + line["std"].fillna(0)).tolist(),
                colour=i,
            )
            for i, (key, line) in enumerate(part.groupby(by, sort=False))
        ]
        return Panel(title, tuple(series), number, "rank correlation")

    note = f"Bands: one standard deviation over draws of {number}."
    return Chart("lines", panels(frame, scores, panel), "rank correlation", note)


def panels(
    frame: pd.DataFrame, scores: Sequence[str] | None, panel: Callable[[str, pd.DataFrame], Panel]
) -> tuple[Panel, ...]:
    """One panel per score: those of `scores` that the frame has, or the first few."""
    found = list(dict.fromkeys(frame["score"]))
    chosen = [name for name in scores if name in found] if scores is not None else found[:MOST_SCORES]
    return tuple(panel(", ".join(map(short, name.split("\n"))), frame[frame["score"] == name]) for name in chosen)


def strength_axis(part: pd.DataFrame) -> tuple[tuple[str, ...], str]:
    """Ticks and label for strengths that are drawn by rank: their values where all methods share them, else places."""
    grids = {tuple(sorted(line["strength"].dropna().unique())) for _, line in part.groupby(["data", "method"])} - {()}
    if len(grids) == 1:
        names = set(part["parameter"]) if "parameter" in part else set()
        return tuple(f"{value:g}" for value in grids.pop()), names.pop() if len(names) == 1 else "strength"
    most = max(map(len, grids), default=1)
    return ("least", *[""] * (most - 2), "greatest")[:most], "strength, in order (the legend has the values)"


def with_parameter(found: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """A table with a column "method", and the name of each method's swept parameter."""
    if "parameter" not in frame:
        return found
    return found.assign(parameter=found["method"].map(frame.groupby("method")["parameter"].first()).fillna(""))


def sweep_of(frame: pd.DataFrame, method: str) -> str:
    """The method and the strengths it was trained with: "beta_vae (beta 1, 4, 16)"."""
    here = frame[frame["method"] == method]
    values = sorted(here["strength"].dropna().unique())
    if not len(values):
        return method
    name = f"{here['parameter'].iloc[0]} " if "parameter" in here else ""
    return f"{method} ({name}{', '.join(f'{value:g}' for value in values)})"


def strength_ticks(ax: Axes, part: pd.DataFrame) -> None:
    """Ticks for strengths that are drawn by rank: their values where all methods share them."""
    grids = {tuple(sorted(line["strength"].dropna().unique())) for _, line in part.groupby(["data", "method"])} - {()}
    shared = grids.pop() if len(grids) == 1 else ()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if shared:
        ax.set_xticks(range(len(shared)), [f"{value:g}" for value in shared])
    ax.set_xlabel("strength" if shared else "strength, from least to greatest", fontsize=7)


def title_of(key: Any) -> str:
    return ", ".join(map(short, key)) if isinstance(key, tuple) else short(key)


def short(name: object, most: int = 32) -> str:
    """The end of a long name: paths of data differ there, and a whole one would leave no room for the panel."""
    text = WORDS.get(str(name), str(name))
    return text if len(text) <= most else f"…{text[1 - most :]}"


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
    bounds = (
        f" [{plain_number(row['low'])}, {plain_number(row['high'])}]"
        if "low" in row and np.isfinite(row["low"])
        else ""
    )
    return f"{plain_number(row['correlation'])}{bounds}"


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
        median = plain_number(known["correlation"].median())
        text = f"The correlation of {top[a]} with {top[b]} is {with_interval(top)}."
        if len(known) > 1:
            text = f"Correlations of {len(known)} pairs have the median {median}. Highest: "
            text += f"{top[a]} with {top[b]}, {with_interval(top)}. "
            text += f"Lowest: {least[a]} with {least[b]}, {with_interval(least)}."
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
        few = number if first[number] != 1 else number[:-1]
        text = f"With {int(first[number])} {few} the rank correlation with {score} is {with_interval(first)}"
        if len(ordered) > 1:
            text += f", with {int(last[number])} it is {with_interval(last)}"
        lines.append((name, text + "."))
    return join(lines, frame.groupby(by).ngroups)
