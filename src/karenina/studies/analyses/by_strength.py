"""Scores against strength."""

from collections.abc import Sequence

import pandas as pd

from karenina.studies.analyses import by_method
from karenina.studies.analyses.charts import Chart, Panel, Series
from karenina.studies.analyses.shared import (
    groups,
    join,
    panels,
    preferred,
    short,
    strength_axis,
    sweep_of,
    with_parameter,
)


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of each score by method and strength, with an interval of the median.

    Locatello et al. (2019), figures 4, 14 and 15; Duan et al. (2020), figures 2 and 7.
    -> data, method, strength, score, runs, least, q25, median, q75, most, low, high, parameter (the strength's name)
    """
    return with_parameter(by_method.compute(frame, ("method", "strength")), frame)


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Median score against strength, for each method and data set. Strengths are ranked: each method has its own."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))

    def panel(title: str, part: pd.DataFrame) -> Panel:
        ticks, label = strength_axis(part)
        series = []
        for (data, method), line in part.groupby(["data", "method"], sort=False):
            line = line.sort_values("strength")
            m, d = methods.index(method), datas.index(data)
            bounds = (line["low"].tolist(), line["high"].tolist()) if len(datas) == 1 else ((), ())
            series.append(
                Series(
                    f"{method}, {short(data)}" if len(datas) > 1 else method,
                    range(len(line)),
                    line["median"].tolist(),
                    *bounds,
                    count=line["runs"].tolist() if "runs" in line else (),
                    at=[f"{value:g}" for value in line["strength"]],
                    colour=m,
                    dash=d,
                )
            )
        return Panel(title, tuple(series), label, "median", ticks)

    legend: list[tuple[str, int | None, int | None]] = [(sweep_of(frame, m), i, 0) for i, m in enumerate(methods)]
    legend += [(short(data), None, d) for d, data in enumerate(datas)] if len(datas) > 1 else []
    note = "Bands: 95 % interval of the median, where there are models enough." if len(datas) == 1 else ""
    return Chart("lines", panels(frame, scores, panel), note=note, legend=tuple(legend) if len(legend) > 1 else ())


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
