"""Charts as data: one description from which a page draws SVG with numbers to point at, and matplotlib PNG and PDF."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from karenina.drawing.figure import Figure

# Okabe and Ito (2008): told apart by colour-blind readers too.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)

# A page of a journal is 7.2 inches wide, a column 3.5.
PAGE, COLUMN = 7.2, 3.5
FONT = 8
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)), (0, (8, 2)), (0, (3, 1)))
Numbers = Sequence[float]
Groups = list[tuple[str, NDArray[np.float64]]]  # the label of each group and its values


@dataclass(frozen=True)
class Series:
    """Points of one name. x: numbers, or places among the panel's ticks. low, high: an interval, or the quartiles of
    boxes, whose ends are least and most. at: what x stands for, where a tick does not say it. count: models."""

    name: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    least: Numbers = ()
    most: Numbers = ()
    count: Numbers = ()
    at: Sequence[str] = ()
    colour: int = 0
    dash: int = 0


def columns_of(frame: Any, **names: str) -> dict[str, Any]:
    """Return columns of a DataFrame as parts of a Series: y="median", low="q25"."""
    return {part: frame[name].tolist() for part, name in names.items()}


@dataclass(frozen=True)
class Panel:
    """Series between two axes. ticks: names of the places 0, 1, ... of the first axis; () for numbers. reference: where
    to draw a grey line. symlog: the second axis is logarithmic beyond 0.01. bare: the axes carry no numbers."""

    title: str
    series: tuple[Series, ...]
    x_label: str = ""
    y_label: str = ""
    ticks: tuple[str, ...] = ()
    y_range: tuple[float, float] | None = None
    reference: float | None = None
    symlog: bool = False
    bare: bool = False


@dataclass(frozen=True)
class Heat:
    """A matrix (rows, columns) of values; low, high: their intervals. limits: what the colours span; from below 0: two
    colours. off: columns that are greyed and have no values. squares: by area instead of colour (Hinton)."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    limits: tuple[float, float] = (-1.0, 1.0)
    row_label: str = ""
    column_label: str = ""
    off: tuple[int, ...] = ()
    squares: bool = False


@dataclass(frozen=True)
class Chart:
    """Panels of one kind: "lines", "boxes", "bars", "dots" or "heat". value: what the numbers are, for the colour bar.

    legend: (text, colour or None, dash or None), by default one line per series where there are several. note: what the
    marks mean.
    """

    kind: str
    panels: tuple[Panel, ...] | tuple[Heat, ...]
    value: str = ""
    note: str = ""
    legend: tuple[tuple[str, int | None, int | None], ...] = ()

    def key(self) -> tuple[tuple[str, int | None, int | None], ...]:
        """Return the legend."""
        if self.legend or self.kind == "heat":
            return self.legend
        found = dict.fromkeys((s.name, s.colour, s.dash) for panel in self.panels for s in panel.series)  # type: ignore[union-attr]
        return tuple(found) if len(found) > 1 else ()

    def to_json(self) -> dict[str, Any]:
        """Return what a page needs of it: what is empty is left out, numbers have four digits."""
        found: dict[str, Any] = _without_empty(asdict(self) | {"legend": self.key()})
        return found


def _without_empty(value: Any) -> Any:
    """Return what JSON can hold, leaving out what is empty."""
    if isinstance(value, dict):
        kept = {key: _without_empty(part) for key, part in value.items()}
        return {
            key: part for key, part in kept.items() if part is not None and part is not False and part not in ("", [])
        }
    if isinstance(value, np.ndarray | list | tuple | range):
        return [_without_empty(part) for part in value]
    return value if isinstance(value, bool | str) or value is None else four_digits(value)


def four_digits(value: float) -> float | None:
    """Return a number with four significant digits; None for what JSON cannot say.

    >>> four_digits(0.123456), four_digits(2.0), four_digits(float("nan"))
    (0.1235, 2, None)
    """
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded == int(rounded) else rounded


def colour(i: int) -> str:
    """Return the colour of the series number i."""
    return (*COLOURS, "#999999")[i % 8]


def draw(chart: Chart) -> "Figure":
    """Draw a chart for print: at most a page wide unless a matrix needs more, one size of letters."""
    from karenina.drawing.figure import Figure

    heat = chart.kind == "heat"
    sizes = [_heat_size(panel) if isinstance(panel, Heat) else _panel_size(panel) for panel in chart.panels]
    width, height = (max(side) for side in zip(*sizes))
    columns = max(1, min(len(sizes), int((PAGE + 0.2) // width)))
    lines = -(-len(sizes) // columns)
    total = max(COLUMN, columns * width) + (0.5 if heat else 0.0)
    key = chart.key()
    rows = -(-len(key) // max(1, int(total // 1.7)))
    figure = Figure(figsize=(total, lines * height + 0.17 * rows + 0.1), layout="constrained", dpi=110)
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    shown = None
    every: tuple[Panel | Heat, ...] = chart.panels
    for ax, panel in zip(axes, every):
        if isinstance(panel, Heat):
            shown = _draw_heat(ax, panel) or shown
        else:
            _draw_panel(ax, panel, chart.kind)
        ax.set_title(panel.title, fontsize=FONT)
        ax.tick_params(labelsize=FONT - 1)
        ax.xaxis.label.set_size(FONT)
        ax.yaxis.label.set_size(FONT)
    for ax in axes[len(sizes) :]:
        ax.remove()
    if shown is not None:
        bar = figure.colorbar(shown, ax=axes[: len(sizes)], shrink=0.8, aspect=25, pad=0.02)
        bar.set_label(chart.value, fontsize=FONT)
        bar.ax.tick_params(labelsize=FONT - 1)
    if key:
        from matplotlib.lines import Line2D

        mark: dict[str, dict[str, Any]] = {
            "lines": {"linewidth": 1.5},
            "dots": {"linestyle": "", "marker": "o", "markersize": 4},
        }
        plain = mark.get(chart.kind, {"linewidth": 5})
        handles = [
            Line2D([], [], color="0.3" if c is None else colour(c), **{"linestyle": DASHES[d or 0], **plain})
            for _, c, d in key
        ]
        figure.legend(
            handles, [text for text, _, _ in key], loc="outside lower center", ncols=max(1, int(total // 1.7)),
            fontsize=FONT - 1, frameon=False,
        )  # fmt: skip
    return figure


def _draw_panel(ax: Any, panel: Panel, kind: str) -> None:
    """Draw a panel of a chart of this kind on an axis."""
    offset, width = _apart(panel) if kind in ("boxes", "bars") else (np.zeros(len(panel.series)), 0.0)
    for shift, s in zip(offset, panel.series):
        x, y, c = np.asarray(s.x, float) + shift, np.asarray(s.y, float), colour(s.colour)
        if kind == "lines":
            ax.plot(x, y, marker=".", markersize=4, linewidth=1.2, color=c, linestyle=DASHES[s.dash % len(DASHES)])
            if len(s.low):
                ax.fill_between(
                    x, np.asarray(s.low, float), np.asarray(s.high, float), color=c, alpha=0.15, linewidth=0
                )
        elif kind == "boxes":
            ax.vlines(x, s.least, s.most, color=c, linewidth=0.8)
            ax.vlines(x, s.low, s.high, color=c, linewidth=max(2.0, min(7.0, 40 * width)))
            ax.plot(x, y, "o", color="white", markeredgecolor="black", markersize=3)
        elif kind == "bars":
            ax.bar(x, y, width=width, color=c)
            if len(s.low):
                ax.vlines(x, s.low, s.high, color="black", linewidth=0.8)
        else:
            ax.plot(x, y, ".", markersize=2, color=c, alpha=0.6)
    if panel.reference is not None:
        ax.axhline(panel.reference, color="0.5", linewidth=0.8, zorder=0)
    if panel.symlog:
        from matplotlib.ticker import SymmetricalLogLocator

        ax.set_yscale("symlog", linthresh=0.01)
        ax.yaxis.set_major_formatter("{x:g}")
        low, high = ax.get_ylim()
        if sum(low <= value <= high for value in (0, *10.0 ** np.arange(-2, 5))) < 3:  # powers of ten are too few
            ax.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=0.01, subs=(1, 2, 5)))
    if panel.ticks:
        long = sum(len(text) + 1 for text in panel.ticks) > 26
        turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
        ax.set_xticks(range(len(panel.ticks)), panel.ticks, **turned)
        ax.set_xlim(-0.6, len(panel.ticks) - 0.4)
    if panel.y_range:
        ax.set_ylim(*panel.y_range)
    if panel.bare:
        ax.set_xticks([])
        ax.set_yticks([])
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.spines[["top", "right"]].set_visible(False)


def _apart(panel: Panel) -> tuple[NDArray[np.float64], float]:
    """Return how far series stand from their place, and how wide a bar may be."""
    count = len(panel.series)
    return 0.8 * (np.arange(count) + 0.5) / count - 0.4, 0.74 / count


def _panel_size(panel: Panel) -> tuple[float, float]:
    """Return the inches of a panel: wider with many ticks, taller with long ones."""
    longest = max(map(len, panel.ticks), default=0)
    turned = sum(len(text) + 1 for text in panel.ticks) > 26
    return min(PAGE, max(2.35, 0.24 * len(panel.ticks))), 1.9 + (0.03 * longest if turned else 0.0)


def _heat_size(panel: Heat) -> tuple[float, float]:
    """Return the inches of a matrix."""
    longest = [max(map(len, names), default=0) for names in (panel.rows, panel.columns)]
    turned = _is_turned(panel)
    width = 0.6 + 0.055 * longest[0] + 0.34 * len(panel.columns)
    width = max(
        width, 0.3 + 0.062 * max(len(panel.title), len(panel.column_label))
    )  # Titles of two matrices must not run into each other.
    return width, 0.5 + (0.055 * longest[1] if turned else 0.15) + 0.24 * len(panel.rows)


def _is_turned(panel: Heat) -> bool:
    """Return whether the names of columns stand upright."""
    return max(map(len, panel.columns), default=0) > 4


def _draw_heat(ax: Any, panel: Heat) -> Any:
    """Draw a matrix, and return the image to which the colour bar belongs; None for squares."""
    shown = None
    values = np.array(panel.values, float)
    values[:, list(panel.off)] = np.nan
    low, high = panel.limits
    if panel.squares:
        hinton(ax, values)
    else:
        shown = ax.imshow(values, vmin=low, vmax=high, cmap="RdBu" if low < 0 else "Blues", aspect="auto")
        if values.size <= 900:
            for (y, x), value in np.ndenumerate(values):
                if not np.isnan(value):
                    strong = abs(value) > 0.6 * max(high, -low)
                    ax.text(
                        x, y, plain_number(value), ha="center", va="center", fontsize=FONT - 2,
                        color="white" if strong else "black", in_layout=False,
                    )  # fmt: skip
    for j in panel.off:
        ax.axvspan(j - 0.5, j + 0.5, color="0.85", linewidth=0, zorder=3)
    ax.set_xticks(range(len(panel.columns)), panel.columns, rotation=90 if _is_turned(panel) else 0)
    ax.set_yticks(range(len(panel.rows)), panel.rows)
    ax.set(xlabel=panel.column_label, ylabel=panel.row_label)
    ax.tick_params(length=0)
    return shown


def hinton(axis: Any, weights: NDArray[np.float64]) -> None:
    """Draw a Hinton diagram: a square per entry of `weights` (rows, columns), its area the weight.

    Eastwood and Williams (2018), Figure 3.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    top = np.nanmax(np.abs(weights), initial=0)
    sides = np.sqrt(np.nan_to_num(np.abs(weights)) / top) * 0.92 if top > 0 else np.zeros_like(weights)
    squares = [
        Rectangle((j - side / 2, i - side / 2), side, side) for (i, j), side in np.ndenumerate(sides) if side > 0.01
    ]
    axis.add_collection(PatchCollection(squares, facecolor="#222222", edgecolor="none"))
    axis.set(xlim=(-0.5, weights.shape[1] - 0.5), ylim=(weights.shape[0] - 0.5, -0.5), aspect="equal")
    axis.set_facecolor("#f2f2f2")


def panel_grid(rows: int, columns: int, width: float = 2.3, height: float = 1.9) -> tuple["Figure", NDArray[Any]]:
    """Return a figure and its axes (rows, columns), each so many inches wide and high."""
    from karenina.drawing.figure import Figure

    figure = Figure(figsize=(width * columns + 0.6, height * rows + 0.6), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def distributions(axis: Any, groups: Groups, form: str) -> None:
    """Draw boxes ("box") or violins ("violin") side by side; a group of fewer than two values is a point."""
    for x, (_, values) in enumerate(groups):
        known = values[~np.isnan(values)]
        if len(known) and (form == "box" and len(known) > 1):
            look: dict[str, Any] = {"flierprops": {"markersize": 2}, "medianprops": {"color": VERMILION}}
            axis.boxplot(known, positions=[x], widths=0.6, manage_ticks=False, **look)
        elif len(known) > 1 and np.ptp(known) > 0:
            shape = axis.violinplot(known, positions=[x], widths=0.8, showmedians=True)
            for body in shape["bodies"]:  # type: ignore[attr-defined]
                body.set_facecolor(colour(0))
            for line in ("cmins", "cmaxes", "cbars", "cmedians"):
                shape[line].set_color(colour(0))
        else:
            axis.plot([x] * len(known), known, ".", color=colour(0), markersize=4)
    axis.set_xticks(range(len(groups)), [label for label, _ in groups], fontsize=6)
    axis.set_xlim(-0.6, len(groups) - 0.4)
    axis.tick_params(axis="y", labelsize=6)


def plain_ticks(axis: Any, values: Sequence[float], scale: str) -> None:
    """Set ticks at these values, written as numbers: powers would need formulas."""
    axis.set_xscale(scale)
    axis.set_xticks(list(values), [f"{value:g}" for value in values])
    axis.set_xticks([], minor=True)


def legend(figure: "Figure", axis: Any) -> None:
    """Write the legend of an axis below the figure, if it has one."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        columns = max(1, min(6, int(figure.get_figwidth() / 1.8)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7)


def plain_number(value: float, digits: int = 2) -> str:
    """Return a number with so many digits, and never -0.00.

    >>> plain_number(-0.001), plain_number(0.5), plain_number(float("nan"))
    ('0.00', '0.50', '–')
    """
    return "–" if math.isnan(value) else f"{value:z.{digits}f}"
