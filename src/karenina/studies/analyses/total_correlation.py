"""Dependence between latents, of mean and of sampled codes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from karenina._figures import Figure
from karenina.numerics.resampling import median_bounds
from karenina.studies.analyses.shared import colour, groups, join, panels, strength_ticks
from karenina.studies.results.table import need, wide_table


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """Median dependence between latents, of mean and of sampled codes, against strength.

    Locatello et al. (2019), section 5.1, figures 1, 8-10 and 24-27. mean_above_sampled: share of runs whose mean codes
    depend on each other more than their sampled codes do (figure 10).
    -> data, method, strength, score, representation, median, low, high, runs, mean_above_sampled
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
    return pd.DataFrame(lines, columns=[*names, "mean_above_sampled"])


def figure(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Dependence between latents against strength: mean codes solid, sampled codes dashed."""
    frame = frame.assign(score=frame["score"] + "\n" + frame["data"])
    methods = list(dict.fromkeys(frame["method"]))

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        for (method, kind), line in part.groupby(["method", "representation"], sort=False):
            line = line.sort_values("strength")
            style = {"mean": "-", "sampled": "--"}[str(kind)]
            name = method if kind == "mean" else None
            ax.plot(
                np.arange(len(line)), line["median"], style, color=colour(methods.index(method)), marker=".", label=name
            )
        ax.set_yscale("symlog", linthresh=0.01)
        ax.yaxis.set_major_formatter("{x:g}")
        strength_ticks(ax, part)

    return panels(frame, None, draw)


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
