"""Rank correlations: of metrics with one another, of label-free scores and tasks with metrics, across data sets."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from karenina._figures import Figure
from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import LEAST_FOR_CORRELATION, kendall, spearman
from karenina.studies.analyses.charts import Chart, Heat, draw, plain_number
from karenina.studies.analyses.shared import MOST_SCORES, groups, join, short, title_of, with_interval
from karenina.studies.results.table import ASIDE, TASK, Scores, in_common, need, wide_table


def agreement(frame: pd.DataFrame, kind: str = "spearman", by: Sequence[str] = ("data",)) -> pd.DataFrame:
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
        found, both = correlate(values), in_common(values)
        for i, a in enumerate(columns):
            lines += [
                (*key, table.names[a], table.names[b], *(m[i, j] for m in found), both[i, j])
                for j, b in enumerate(columns)
                if i < j
            ]
    return pd.DataFrame(lines, columns=[*by, "a", "b", "correlation", "low", "high", "runs"])


def agreement_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    negative = float((frame["correlation"] < 0).mean())
    sure = float((frame["low"] > 0).mean())
    share = f" {100 * sure:.0f} % of the pairs are positive beyond their interval, {100 * negative:.0f} % are negative."
    return correlations_caption(frame, prefer) + share


def unsupervised(frame: pd.DataFrame, by: Sequence[str] = ("data",), start: Sequence[str] = ("",)) -> pd.DataFrame:
    """Rank correlation of scores that need no labels with those that do.

    Locatello et al. (2019), section 5.4, figure 16; with by = data, method and start = udr: Duan et al. (2020), Tables
    1 and 7, figure 6.
    -> *by, unsupervised, score, correlation, low, high, runs
    """
    table = wide_table(frame)
    labelled = table.labelled()
    free = [j for j in table.columns(supervised=False) if table.names[j].startswith(tuple(start))]
    need(bool(free), f"scores {' or '.join(start)}*".replace("scores *", "label-free scores"))
    return correlate(table, "unsupervised", free, labelled, by)


def correlate(table: Scores, name: str, first: Sequence[int], second: Sequence[int], by: Sequence[str]) -> pd.DataFrame:
    """Rank correlations of each of the first columns (in column `name`) with each of the second, in each group."""
    lines = []
    for key, rows in table.groups(*by):
        values = table.values[rows][:, [*first, *second]]
        found, both = spearman(values), in_common(values)
        for i, a in enumerate(first):
            for j, b in enumerate(second, start=len(first)):
                lines.append((*key, table.names[a], table.names[b], *(m[i, j] for m in found), both[i, j]))
    return pd.DataFrame(lines, columns=[*by, name, "score", "correlation", "low", "high", "runs"])


def tasks(frame: pd.DataFrame, by: Sequence[str] = ("data",)) -> pd.DataFrame:
    """Rank correlation of what codes are good for (accuracy from few rows and many, fairness) with every other score.

    Locatello et al. (2019), section 5.5, figures 5, 6 and 19 to 23; fairness: Duan et al. (2020), figure 11, and Holtz
    et al. (2022), Table 4. fairness_* are distances: fair codes have small ones.
    -> *by, task, score, correlation, low, high, runs
    """
    table = wide_table(frame)
    useful = [j for j, family in enumerate(table.families) if family == TASK]
    others = [j for j, family in enumerate(table.families) if family not in (TASK, *ASIDE)]
    need(bool(useful) and bool(others), "labels, and tasks = true under [evaluation]")
    return correlate(table, "task", useful, others, by)


def transfer(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation between data sets of the median score of each setting: do good hyperparameters transfer?

    Locatello et al. (2019), section 5.4, figures 17 and 18. Intervals are over settings.
    -> score, a, b, correlation, low, high, settings
    """
    table = wide_table(frame)
    labelled = table.labelled()
    medians, names = _per_setting(table, labelled)
    need(len(names) > 1, "two data sets")
    lines = []
    for k, j in enumerate(labelled):
        found = spearman(medians[:, :, k].T)
        for a in range(len(names)):
            for b in range(a + 1, len(names)):
                both = int((~np.isnan(medians[[a, b], :, k])).all(axis=0).sum())
                lines.append((table.names[j], names[a], names[b], *(m[a, b] for m in found), both))
    return pd.DataFrame(lines, columns=["score", "a", "b", "correlation", "low", "high", "settings"])


def _per_setting(table: Scores, labelled: Sequence[int]) -> tuple[Floats, list[str]]:
    """Median of each of these K scores over seeds (data sets, settings, K), and the names of the data sets."""
    data, names = pd.factorize(table.runs["data"])
    setting, settings = pd.factorize(table.runs["setting"])
    out = np.full((len(names), len(settings), len(labelled)), np.nan)
    frame = pd.DataFrame(table.values[:, list(labelled)]).groupby([data, setting]).median()
    out[frame.index.get_level_values(0), frame.index.get_level_values(1)] = frame.to_numpy()
    return out, list(names)


def correlation_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """A heat map for each group: correlations of the two columns before "correlation"."""
    at = list(frame.columns).index("correlation")
    by, (a, b) = list(frame.columns[: at - 2]), frame.columns[at - 2 : at]
    groups = list(frame.groupby(by, sort=False)) if by else [((), frame)]
    symmetric = b == "b"
    first, second = list(dict.fromkeys(frame[a])), list(dict.fromkeys(frame[b]))
    rows = cols = list(dict.fromkeys([*first, *second]))
    if not symmetric:
        rows, cols = first, second
    panels = []
    for key, part in groups[: 2 * MOST_SCORES]:
        i, j = (pd.Categorical(part[name], names).codes for name, names in ((a, rows), (b, cols)))
        parts = {}
        for name in ("correlation", "low", "high"):
            matrix = np.full((len(rows), len(cols)), np.nan)
            if name in part:
                matrix[i, j] = part[name]
                if symmetric:
                    matrix[j, i] = part[name]
                    np.fill_diagonal(matrix, 1)
            parts[name] = matrix
        names = [tuple(map(short, names)) for names in (rows, cols)]
        bounds = (parts["low"], parts["high"]) if "low" in part else (None, None)
        panels.append(Heat(title_of(key), names[0], names[1], parts["correlation"], *bounds))
    return Chart("heat", tuple(panels), "rank correlation")


def correlation_map(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """`correlation_chart`, drawn."""
    return draw(correlation_chart(frame, scores))


def correlations_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """The strongest and the weakest correlation, and the median, of each group."""
    at = list(frame.columns).index("correlation")
    a, b, by = frame.columns[at - 2], frame.columns[at - 1], list(frame.columns[: at - 2])
    lines = []
    for name, part in groups(frame, *by) if by else [("", frame)]:
        known = part.dropna(subset=["correlation"]).sort_values("correlation")
        if known.empty:
            lines.append((name, "no correlation can be computed."))
            continue
        top, least = known.iloc[-1], known.iloc[0]
        median = plain_number(known["correlation"].median())
        text = f"The correlation of {top[a]} with {top[b]} is {with_interval(top)}."
        if len(known) > 1:
            text = f"Correlations of {len(known)} pairs have the median {median}. Highest: "
            text += f"{top[a]} with {top[b]}, {with_interval(top)}. "
            text += f"Lowest: {least[a]} with {least[b]}, {with_interval(least)}."
        if "runs" in part:
            models = int(known["runs"].max())
            few = f"fewer than {LEAST_FOR_CORRELATION}, too few for an interval"
            text += f" {models} models; {'intervals are 95 %' if models >= LEAST_FOR_CORRELATION else few}."
        lines.append((name, text))
    return join(lines, frame.groupby(by).ngroups if by else 1)
