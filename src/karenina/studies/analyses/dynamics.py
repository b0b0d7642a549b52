"""The dynamics score against metrics."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.resampling import RESAMPLES, spearman
from karenina.studies.results.table import wide_table

Floats = NDArray[np.float64]


def compute(frame: pd.DataFrame, dynamics: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation over settings of the dynamics score with the mean of each supervised score over the same seeds.

    dynamics: dynamics.parquet of the study. std is over draws of seeds; the interval resamples settings in the first
    draw. Holtz et al. (2022), Table 1.
    -> data, score, seeds, correlation, std, low, high, settings, draws
    """
    table = wide_table(frame)
    labelled = table.labelled()
    place = pd.Series(np.arange(len(table.runs)), index=table.runs["run"])
    # Runs that are to be made again since are not in the results.
    dynamics = dynamics.loc[[set(runs.split()) <= set(place.index) for runs in dynamics["runs"]]]
    lines = []
    for (data, seeds), part in dynamics.groupby(["data", "seeds"], sort=False):
        found: list[list[Floats]] = []
        for _, draw in part.groupby("draw", sort=False):
            means = [table.values[place[runs.split()]][:, labelled].mean(axis=0) for runs in draw["runs"]]
            x = np.column_stack([draw["value"], np.array(means)])
            found.append([m[0, 1:] for m in spearman(x, RESAMPLES if not found else 1)])
        values = np.array([estimate for estimate, _, _ in found])
        for k, j in enumerate(labelled):
            spread = values[:, k].std(ddof=1) if len(values) > 1 else np.nan
            bounds = (found[0][1][k], found[0][2][k])
            settings = part["setting"].nunique()
            lines.append((data, table.names[j], seeds, values[:, k].mean(), spread, *bounds, settings, len(values)))
    names = ["data", "score", "seeds", "correlation", "std", "low", "high", "settings", "draws"]
    return pd.DataFrame(lines, columns=names)
