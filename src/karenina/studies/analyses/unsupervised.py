"""Label-free scores against metrics."""

from collections.abc import Sequence

import pandas as pd

from karenina.numerics.resampling import RESAMPLES, spearman
from karenina.studies.results.table import Scores, in_common, need, wide_table


def compute(
    frame: pd.DataFrame, by: Sequence[str] = ("data",), start: Sequence[str] = ("",), resamples: int = RESAMPLES
) -> pd.DataFrame:
    """Rank correlation of scores that need no labels with those that do.

    Locatello et al. (2019), section 5.4, figure 16; with by = data, method and start = udr: Duan et al. (2020), Tables
    1 and 7, figure 6.
    -> *by, unsupervised, score, correlation, low, high, runs
    """
    table = wide_table(frame)
    labelled = table.labelled()
    free = [j for j in table.columns(supervised=False) if table.names[j].startswith(tuple(start))]
    need(bool(free), f"scores {' or '.join(start)}*".replace("scores *", "label-free scores"))
    return correlate(table, "unsupervised", free, labelled, by, resamples)


def correlate(
    table: Scores, name: str, first: Sequence[int], second: Sequence[int], by: Sequence[str], resamples: int
) -> pd.DataFrame:
    """Rank correlations of each of the first columns (in column `name`) with each of the second, in each group."""
    lines = []
    for key, rows in table.groups(*by):
        values = table.values[rows][:, [*first, *second]]
        found, both = spearman(values, resamples), in_common(values)
        for i, a in enumerate(first):
            for j, b in enumerate(second, start=len(first)):
                lines.append((*key, table.names[a], table.names[b], *(m[i, j] for m in found), both[i, j]))
    return pd.DataFrame(lines, columns=[*by, name, "score", "correlation", "low", "high", "runs"])
