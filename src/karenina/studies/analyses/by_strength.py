"""Scores against strength."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from karenina._figures import Figure
from karenina.studies.analyses import by_method
from karenina.studies.analyses.shared import colour, groups, join, panels, preferred, strength_ticks


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of each score by method and strength, with an interval of the median.

    Locatello et al. (2019), figures 4, 14 and 15; Duan et al. (2020), figures 2 and 7.
    -> data, method, strength, score, runs, least, q25, median, q75, most, low, high
    """
    return by_method.compute(frame, ("method", "strength"))


def figure(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Median score against strength, for each method and data set. Strengths are ranked: each method has its own."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))
    styles = ("-", "--", ":", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for (data, method), line in part.groupby(["data", "method"], sort=False):
            line = line.sort_values("strength")
            m, d = methods.index(method), datas.index(data)
            name = method if d == 0 else None
            x = np.arange(len(line))
            ax.plot(x, line["median"], marker=".", color=colour(m), linestyle=styles[d % len(styles)], label=name)
            if len(datas) == 1:
                ax.fill_between(x, line["low"], line["high"], color=colour(m), alpha=0.15, linewidth=0)
        strength_ticks(ax, part)

    return panels(frame, scores, draw)


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    here = frame[(frame["score"] == score) & frame["strength"].notna()]
    if here.empty:
        return "No method has a strength."
    lines = []
    for name, part in groups(here, "data", "method"):
        ordered = part.sort_values("strength")
        first, last, top = ordered.iloc[0], ordered.iloc[-1], ordered.loc[ordered["median"].idxmax()]
        text = f"The median of {score} goes from {first['median']:.2f} at strength {first['strength']:g} to "
        text += (
            f"{last['median']:.2f} at {last['strength']:g}; the highest is {top['median']:.2f} at {top['strength']:g}."
        )
        lines.append((name, text))
    return join(lines, here.groupby(["data", "method"]).ngroups)
