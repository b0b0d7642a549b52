"""Do the metrics agree? Rank correlations between supervised scores."""

from collections.abc import Sequence

import pandas as pd

from karenina.numerics.resampling import RESAMPLES, kendall, spearman
from karenina.studies.analyses.shared import correlations_caption
from karenina.studies.results.table import in_common, need, wide_table


def compute(
    frame: pd.DataFrame, kind: str = "spearman", by: Sequence[str] = ("data",), resamples: int = RESAMPLES
) -> pd.DataFrame:
    """Rank correlation between supervised scores on each data set.

    Locatello et al. (2019), section 5.2, figure 12 (Spearman); Carbonneau et al. (2022), figure 3 (Kendall).
    -> *by, a, b, correlation, low, high, runs
    """
    table = wide_table(frame)
    columns = table.labelled()
    need(len(columns) > 1, "two metrics")
    correlate = {"spearman": spearman, "kendall": kendall}[kind]
    lines = []
    for key, rows in table.groups(*by):
        values = table.values[rows][:, columns]
        found, both = correlate(values, resamples), in_common(values)
        for i, a in enumerate(columns):
            lines += [
                (*key, table.names[a], table.names[b], *(m[i, j] for m in found), both[i, j])
                for j, b in enumerate(columns)
                if i < j
            ]
    return pd.DataFrame(lines, columns=[*by, "a", "b", "correlation", "low", "high", "runs"])


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    negative = float((frame["correlation"] < 0).mean())
    sure = float((frame["low"] > 0).mean())
    share = f" {100 * sure:.0f} % of the pairs are positive beyond their interval, {100 * negative:.0f} % are negative."
    return correlations_caption(frame, prefer) + share
