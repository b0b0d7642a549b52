"""Scores by method."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from karenina.numerics.resampling import median_bounds, quartiles
from karenina.studies.analyses.charts import Chart, Panel, Series
from karenina.studies.analyses.shared import groups, join, panels, preferred, short
from karenina.studies.results.table import wide_table


def compute(frame: pd.DataFrame, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Quartiles of each score in each group, with an interval of the median.

    by method: Locatello et al. (2019), figures 3 and 13. By method and strength: figures 4, 14 and 15, and the boxes of
    Duan et al. (2020), figures 2 and 7.
    -> data, *by, score, runs, least, q25, median, q75, most, low, high
    """
    table = wide_table(frame)
    keys, groups = [], []
    for key, rows in table.groups("data", *by):
        for j, name in enumerate(table.names):
            values = table.values[rows, j]
            values = np.sort(values[~np.isnan(values)])
            if len(values):
                keys.append((*key, name, len(values)))
                groups.append(values)
    lines = pd.DataFrame(keys, columns=["data", *by, "score", "runs"])
    lines[["least", "q25", "median", "q75", "most"]] = quartiles(groups)
    lines[["low", "high"]] = median_bounds(groups)
    return lines


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Range, quartiles and median of each score, by method and data set."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))

    def panel(title: str, part: pd.DataFrame) -> Panel:
        series = []
        for d, data in enumerate(datas):
            here = part[part["data"] == data]
            x = pd.Categorical(here["method"], methods).codes.tolist()
            numbers = (here[name].tolist() for name in ("median", "q25", "q75", "least", "most", "runs"))
            series.append(Series(short(data), x, *numbers, colour=d))
        return Panel(title, tuple(series), ticks=tuple(methods))

    note = "Circle: median; thick: the middle half of the models; thin: all of them."
    return Chart("boxes", panels(frame, scores, panel), note=note)


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    lines = []
    for name, part in groups(frame[frame["score"] == score], "data"):
        ordered = part.sort_values("median", ascending=False)
        top, last = ordered.iloc[0], ordered.iloc[-1]
        text = f"{score} of {top['method']} has the median {top['median']:.2f} and runs from {top['least']:.2f} to "
        text += f"{top['most']:.2f} over {int(top['runs'])} models"
        if len(ordered) > 1:
            overlap = "overlap" if last["most"] >= top["least"] else "do not overlap"
            text += f"; that of {last['method']}, the lowest, is {last['median']:.2f}. Their ranges {overlap}"
        lines.append((name, text + "."))
    return join(lines, frame["data"].nunique())
