"""Dependence between latents, of mean and of sampled codes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from karenina.numerics.resampling import median_bounds
from karenina.studies.analyses.charts import Chart, Panel, Series
from karenina.studies.analyses.shared import groups, join, panels, strength_axis, sweep_of, with_parameter
from karenina.studies.results.table import need, wide_table


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """Median dependence between latents, of mean and of sampled codes, against strength.

    Locatello et al. (2019), section 5.1, figures 1, 8-10 and 24-27. mean_above_sampled: share of runs whose mean codes
    depend on each other more than their sampled codes do (figure 10).
    -> data, method, strength, score, representation, median, low, high, runs, mean_above_sampled, parameter
    """
    table = wide_table(frame)
    lines = []
    measures = [name.removesuffix("_sampled") for name in table.names if name.endswith("_sampled")]
    measures = [measure for measure in measures if f"{measure}_mean" in table.names]
    need(bool(measures), "scores such as total_correlation_mean")
    for key, rows in table.groups("data", "method", "strength"):
        for measure in measures:
            pair = [table.values[rows, table.names.index(f"{measure}_{kind}")] for kind in ("mean", "sampled")]
            above = float(np.mean(pair[0] > pair[1]))
            for kind, values in zip(("mean", "sampled"), pair):
                values = np.sort(values[~np.isnan(values)])
                if len(values):
                    low, high = median_bounds([values])[0]
                    lines.append((*key, measure, kind, np.median(values), low, high, len(values), above))
    names = ["data", "method", "strength", "score", "representation", "median", "low", "high", "runs"]
    return with_parameter(pd.DataFrame(lines, columns=[*names, "mean_above_sampled"]), frame)


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Dependence between latents against strength: mean codes solid, sampled codes dashed."""
    methods = list(dict.fromkeys(frame["method"]))
    several = frame["data"].nunique() > 1
    labelled = frame.assign(score=frame["score"] + ("\n" + frame["data"] if several else ""))

    def panel(title: str, part: pd.DataFrame) -> Panel:
        ticks, label = strength_axis(part)
        series = []
        for (method, kind), line in part.groupby(["method", "representation"], sort=False):
            line = line.sort_values("strength")
            at = [f"{value:g}" for value in line["strength"]]
            style = {"colour": methods.index(method), "dash": int(kind == "sampled")}
            name = f"{method}, {kind} codes"
            series.append(Series(name, range(len(line)), line["median"].tolist(), at=at, **style))
        return Panel(title, tuple(series), label, "nats", ticks, symlog=True)

    legend: list[tuple[str, int | None, int | None]] = [(sweep_of(frame, m), i, 0) for i, m in enumerate(methods)]
    legend += [("mean codes", None, 0), ("sampled codes", None, 1)]
    note = "Medians over models. The axis is logarithmic beyond 0.01."
    return Chart("lines", panels(labelled, None, panel), note=note, legend=tuple(legend))


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    measure = "total_correlation" if "total_correlation" in set(frame["score"]) else frame["score"].iloc[0]
    here = frame[frame["score"] == measure]
    lines = []
    for name, part in groups(here, "data", "method"):
        ends = {}
        for kind in ("sampled", "mean"):
            line = part[part["representation"] == kind].sort_values("strength")["median"]
            ends[kind] = " to ".join(f"{value:.2f}" for value in [*line.iloc[:1], *line.iloc[1:][-1:]]) or "unknown"
        above = np.average(part["mean_above_sampled"], weights=part["runs"])
        several = part["strength"].nunique() > 1
        text = "From the least to the greatest strength the" if several else "The"
        text += f" total correlation of sampled codes {'goes from' if several else 'is'} {ends['sampled']}, "
        text += f"that of mean codes {'from ' if several else ''}{ends['mean']}; "
        text += f"it is higher for mean codes in {100 * above:.0f} % of the models."
        lines.append((name, text))
    return join(lines, here.groupby(["data", "method"]).ngroups)
