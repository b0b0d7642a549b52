"""Latents switched off: the polarised regime."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from karenina.numerics.resampling import mean_bounds
from karenina.studies.analyses.charts import Chart, Panel, Series, columns_of
from karenina.studies.analyses.shared import MOST_PARTS, short
from karenina.studies.results.table import need, wide_table


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """How many latents are switched off, by method: the polarised regime. Duan et al. (2020), appendix A.10.

    A latent is off when it is not informative (`karenina._active`). runs_with_off: share of runs that have one.
    -> data, method, latents, off, std, low, high, runs_with_off, runs
    """
    table = wide_table(frame)
    need("informative_latents" in table.names, "the score informative_latents")
    informative = table.values[:, table.names.index("informative_latents")]
    lines = []
    for (data, method, latents), rows in table.groups("data", "method", "latents"):
        off = latents - informative[rows]
        off = off[~np.isnan(off)]
        if len(off):
            std = off.std(ddof=1) if len(off) > 1 else np.nan
            lines.append((data, method, latents, off.mean(), std, *mean_bounds(off), np.mean(off > 0), len(off)))
    names = ["data", "method", "latents", "off", "std", "low", "high", "runs_with_off", "runs"]
    return pd.DataFrame(lines, columns=names)


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Latents switched off, by method, number of latents (where it differs) and data set."""
    sizes = frame["latents"].nunique() > 1
    names = frame["method"] + (", " + frame["latents"].astype(int).astype(str) + " latents" if sizes else "")
    bars = list(dict.fromkeys(names))
    series = []
    for d, data in enumerate(dict.fromkeys(frame["data"])):
        here = frame[frame["data"] == data]
        x = pd.Categorical(names[here.index], bars).codes.tolist()
        numbers = columns_of(here, y="off", low="low", high="high", count="runs")
        series.append(Series(short(data), x, **numbers, colour=d))
    panel = Panel("", tuple(series), "", "latents switched off", tuple(bars))
    return Chart("bars", (panel,), "latents switched off", "Whiskers: 95 % interval of the mean.")


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    lines = [
        f"{row.method} on {row.data} switches off {row.off:.1f} of {int(row.latents)} latents on average, "
        f"in {100 * row.runs_with_off:.0f} % of the models at least one"
        for row in frame.itertuples()
    ]
    rest = len(lines) - 2 * MOST_PARTS
    return "; ".join(lines[: 2 * MOST_PARTS]) + "." + (f" The figure has {rest} more." if rest > 0 else "")
