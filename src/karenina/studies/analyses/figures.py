"""A figure for each analysis: tidy frame -> matplotlib figure. Nothing is shown or written here."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from karenina._figures import Figure

# More panels than this cannot be read, nor drawn quickly; `scores=` chooses others.
MOST_SCORES = 12
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")


def correlations(frame: pd.DataFrame) -> Figure:
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
    figure, axes = _grid(len(groups), 1.2 + 0.34 * len(cols), 1.0 + 0.3 * len(rows))
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
        ax.set_xticks(range(len(cols)), [_short(name) for name in cols], rotation=90, fontsize=6)
        ax.set_yticks(range(len(rows)), [_short(name) for name in rows], fontsize=6)
        ax.set_title(_title(key), fontsize=8)
    return figure


def boxes(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Range, quartiles and median of each score, by method and data set."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for d, data in enumerate(datas):
            here = part[part["data"] == data]
            x = pd.Categorical(here["method"], methods).codes + 0.8 * (d + 0.5) / len(datas) - 0.4
            ax.vlines(x, here["least"], here["most"], color=_colour(d), linewidth=0.8)
            ax.vlines(x, here["q25"], here["q75"], color=_colour(d), linewidth=4, label=_short(data))
            ax.plot(x, here["median"], "o", color="white", markeredgecolor="black", markersize=3)
        ax.set_xticks(range(len(methods)), methods, rotation=30, ha="right", fontsize=7)
        ax.set_xlim(-0.6, len(methods) - 0.4)

    return _panels(frame, scores, draw)


def lines(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Median score against strength, for each method and data set. Strengths are ranked: each method has its own."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))
    styles = ("-", "--", ":", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for (data, method), line in part.groupby(["data", "method"], sort=False):
            line = line.sort_values("strength")
            m, d = methods.index(method), datas.index(data)
            name = method if d == 0 else None
            x = np.arange(len(line))
            ax.plot(x, line["median"], marker=".", color=_colour(m), linestyle=styles[d % len(styles)], label=name)
            if len(datas) == 1:
                ax.fill_between(x, line["low"], line["high"], color=_colour(m), alpha=0.15, linewidth=0)
        _strengths(ax, part)

    return _panels(frame, scores, draw)


def bars(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Variance explained by the method, and by method and strength."""
    datas = list(dict.fromkeys(frame["data"]))

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for p, predictor in enumerate(("method", "setting")):
            here = part[part["predictor"] == predictor]
            x = pd.Categorical(here["data"], datas).codes + 0.4 * p - 0.2
            ax.bar(x, here["explained"], width=0.38, color=_colour(p), label=predictor)
            ax.vlines(x, here["low"], here["high"], color="black", linewidth=0.8)
        ax.set_ylim(0, 1)
        ax.set_xticks(range(len(datas)), [_short(name) for name in datas], rotation=30, ha="right", fontsize=7)

    return _panels(frame, scores, draw)


def dependence(frame: pd.DataFrame) -> Figure:
    """Dependence between latents against strength: mean codes solid, sampled codes dashed."""
    frame = frame.assign(score=frame["score"] + "\n" + frame["data"])
    methods = list(dict.fromkeys(frame["method"]))

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for (method, kind), line in part.groupby(["method", "representation"], sort=False):
            line = line.sort_values("strength")
            style = {"mean": "-", "sampled": "--"}[str(kind)]
            name = method if kind == "mean" else None
            colour = _colour(methods.index(method))
            ax.plot(np.arange(len(line)), line["median"], style, color=colour, marker=".", label=name)
        ax.set_yscale("symlog", linthresh=0.01)
        ax.yaxis.set_major_formatter("{x:g}")
        _strengths(ax, part)

    return _panels(frame, None, draw)


def chances(frame: pd.DataFrame) -> Figure:
    """How often a choice beats a random model."""
    figure, (ax,) = _grid(1, 4, 3)
    names = [f"{m} metric,\n{d} data" for m, d in zip(frame["metric"], frame["data"])]
    ax.bar(range(len(frame)), frame["probability"], color=_colour(0))
    ax.vlines(range(len(frame)), frame["low"], frame["high"], color="black")
    ax.axhline(0.5, color="grey", linewidth=0.8)
    ax.set_xticks(range(len(frame)), names, fontsize=7)
    ax.set_ylabel("better than random, or equal")
    ax.set_ylim(0, 1)
    return figure


def versions(frame: pd.DataFrame) -> Figure:
    """Mean correlation of each version of UDR with supervised scores."""
    figure, (ax,) = _grid(1, 4, 3)
    ax.bar(range(len(frame)), frame["correlation"], color=_colour(0))
    ax.vlines(range(len(frame)), frame["low"], frame["high"], color="black")
    ax.set_xticks(range(len(frame)), frame["version"], rotation=20, ha="right", fontsize=7)
    ax.set_ylabel("Spearman correlation with metrics")
    return figure


def growth(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Correlation with each metric against the number of partners, or of seeds."""
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for i, (key, line) in enumerate(part.groupby(by, sort=False)):
            ax.errorbar(line[number], line["correlation"], line["std"].fillna(0), color=_colour(i), label=_title(key))
        ax.set_xlabel(number, fontsize=7)

    return _panels(frame, scores, draw)


def polarised(frame: pd.DataFrame) -> Figure:
    """Latents switched off, by method and data set."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))
    figure, (ax,) = _grid(1, 5, 3)
    width = 0.8 / len(datas)
    for d, data in enumerate(datas):
        here = frame[frame["data"] == data].groupby("method", sort=False).mean(numeric_only=True)
        x = pd.Categorical(here.index, methods).codes + width * (d + 0.5) - 0.4
        ax.bar(x, here["off"], width=width, color=_colour(d), label=_short(data))
        ax.vlines(x, here["low"], here["high"], color="black", linewidth=0.8)
    ax.set_xticks(range(len(methods)), methods, rotation=20, ha="right", fontsize=7)
    ax.set_ylabel("latents switched off")
    ax.legend(fontsize=6)
    return figure


def _panels(frame: pd.DataFrame, scores: Sequence[str] | None, draw: Callable[[Axes, pd.DataFrame], None]) -> Figure:
    """One panel a score, with the legend of the first."""
    found = list(dict.fromkeys(frame["score"]))
    chosen = [name for name in scores if name in found] if scores is not None else found[:MOST_SCORES]
    figure, axes = _grid(len(chosen), 3.2, 2.4)
    for ax, name in zip(axes, chosen):
        draw(ax, frame[frame["score"] == name])
        ax.set_title("\n".join(map(_short, name.split("\n"))), fontsize=8)
        ax.tick_params(labelsize=7)
    handles, labels = axes[0].get_legend_handles_labels() if axes else ([], [])
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=7)
    if len(chosen) < len(found) and scores is None:
        figure.suptitle(f"{len(chosen)} of {len(found)} scores", fontsize=8)
    return figure


def _strengths(ax: Axes, part: pd.DataFrame) -> None:
    """Ticks for strengths that are drawn by rank: their values where all methods share them."""
    grids = {tuple(sorted(line["strength"].dropna().unique())) for _, line in part.groupby(["data", "method"])} - {()}
    shared = grids.pop() if len(grids) == 1 else ()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if shared:
        ax.set_xticks(range(len(shared)), [f"{value:g}" for value in shared])
    ax.set_xlabel("strength" if shared else "strength, from least to greatest", fontsize=7)


def _grid(count: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    columns = max(1, min(count, int(16 // width) or 1))
    rows = max(1, -(-count // columns))
    figure = Figure(figsize=(width * columns, height * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def _title(key: Any) -> str:
    return ", ".join(map(_short, key)) if isinstance(key, tuple) else _short(key)


def _short(name: object, most: int = 32) -> str:
    """The end of a long name: paths of data differ there, and a whole one would leave no room for the panel."""
    text = str(name)
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _colour(i: int) -> str:
    return _COLOURS[i % len(_COLOURS)]


def _ink(value: float) -> str:
    return "white" if abs(value) > 0.6 else "black"
