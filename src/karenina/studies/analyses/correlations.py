"""Rank correlations: of metrics with one another, of label-free scores and tasks with metrics, across data sets, and of
UDR and the training dynamics by how many models they compare.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.drawing.charts import Chart, Heat, Panel, Series, plain_number
from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import LEAST_FOR_CORRELATION, jackknife, kendall, spearman
from karenina.studies.analyses.scores import (
    ASIDE,
    MOST_SCORES,
    Scores,
    groups,
    in_common,
    join,
    need,
    panels,
    preferred,
    short,
    title_of,
    wide_table,
    with_interval,
)
from karenina.studies.study import TASK


def agreement(frame: pd.DataFrame, kind: str = "spearman", by: Sequence[str] = ("data",)) -> pd.DataFrame:
    """Return the rank correlation between supervised scores on each data set.

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
    """Return the rank correlation of scores that need no labels with those that do.

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
    """Return the rank correlations of each of the first columns (in column `name`) with each of the second, in each
    group."""
    lines = []
    for key, rows in table.groups(*by):
        values = table.values[rows][:, [*first, *second]]
        found, both = spearman(values), in_common(values)
        for i, a in enumerate(first):
            for j, b in enumerate(second, start=len(first)):
                lines.append((*key, table.names[a], table.names[b], *(m[i, j] for m in found), both[i, j]))
    return pd.DataFrame(lines, columns=[*by, name, "score", "correlation", "low", "high", "runs"])


def tasks(frame: pd.DataFrame, by: Sequence[str] = ("data",)) -> pd.DataFrame:
    """Return the rank correlation of what codes are good for (accuracy from few rows and many, fairness) with every
    other score.

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
    """Return the rank correlation between data sets of the median score of each setting: do good hyperparameters
    transfer?

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
    """Return the median of each of these K scores over seeds (data sets, settings, K), and the names of the data
    sets."""
    data, names = pd.factorize(table.runs["data"])
    setting, settings = pd.factorize(table.runs["setting"])
    out = np.full((len(names), len(settings), len(labelled)), np.nan)
    frame = pd.DataFrame(table.values[:, list(labelled)]).groupby([data, setting]).median()
    out[frame.index.get_level_values(0), frame.index.get_level_values(1)] = frame.to_numpy()
    return out, list(names)


def correlation_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a heat map for each group: correlations of the two columns before "correlation"."""
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


def correlations_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """Return in words the strongest and the weakest correlation, and the median, of each group."""
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


def udr_versions(frame: pd.DataFrame) -> pd.DataFrame:
    """Return each version of UDR in one line: its correlation with supervised scores, averaged over data sets, methods
    and scores, beside that of supervised scores with one another. Duan et al. (2020), Table 7.

    The interval is that of leaving out one seed at a time, for three seeds or more; std is over the cells, which are of
    the same models.
    -> version, correlation, std, low, high, cells (data sets x methods x scores)
    """
    whole = _udr_cells(frame)
    seeds = frame["seed"].unique()
    left = [{key: cell.mean() for key, cell in _udr_cells(frame[frame["seed"] != seed]).items()} for seed in seeds]
    lines = []
    for version, known in whole.items():
        half = jackknife(np.array([one.get(version, np.nan) for one in left]))
        mean, std = known.mean(), known.std(ddof=1)
        lines.append((version, mean, std, mean - half, mean + half, len(known)))
    return pd.DataFrame(lines, columns=["version", "correlation", "std", "low", "high", "cells"])


def _udr_cells(frame: pd.DataFrame) -> dict[str, "pd.Series[float]"]:
    """Return the correlations of each version of UDR, and of supervised scores, on each data set and of each method."""
    cells = unsupervised(frame, ("data", "method"), ("udr",))
    parts = {str(version): part["correlation"].dropna() for version, part in cells.groupby("unsupervised", sort=False)}
    if cells["score"].nunique() > 1:
        parts["supervised"] = agreement(frame, by=("data", "method"))["correlation"].dropna()
    return parts


def udr_versions_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the mean correlation of each version of UDR with supervised scores."""
    numbers = (frame[name].tolist() for name in ("correlation", "low", "high"))
    names = tuple("metrics, with one another" if name == "supervised" else name for name in frame["version"])
    panel = Panel("", (Series("", range(len(frame)), *numbers),), "", "rank correlation with metrics", names)
    return Chart("bars", (panel,), "rank correlation", "Whiskers: 95 % interval, over seeds.")


def udr_versions_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    texts = [
        f"{'metrics with one another' if row.version == 'supervised' else row.version} {plain_number(row.correlation)}"
        + (f" ± {row.std:.2f}" if np.isfinite(row.std) else "")
        for row in frame.itertuples()
    ]
    return f"Mean rank correlation with supervised metrics: {'; '.join(texts)}."


def udr_partners(
    frame: pd.DataFrame,
    pairs: pd.DataFrame,
    sizes: Sequence[int] = (5, 10, 15, 20, 25, 30, 35, 40, 45),
    draws: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the rank correlation of UDR with supervised scores when each model is compared with that many partners
    only.

    pairs: pairs.parquet of the study. Partners are drawn `draws` times, without replacement; std and the range (least,
    most) are over these. Duan et al. (2020), Table 2 and figure 8.
    -> data, method, score, partners, correlation, std, least, most, draws
    """
    table = wide_table(frame)
    labelled = table.labelled()
    place = pd.Series(np.arange(len(table.runs)), index=table.runs["run"])
    known = pairs[pairs["target"].isin(place.index)]
    target = place[known["target"]].to_numpy()
    rng = np.random.default_rng(seed)
    lines = []
    group = np.full(len(table.runs), -1)
    for g, (key, rows) in enumerate(table.groups("data", "method")):
        group[rows] = g
        here = group[target] == g
        similarity, models = _rows_of(target[here], known["value"].to_numpy()[here])
        if not len(models):
            continue
        most = similarity.shape[1]
        scores = table.values[models][:, labelled]
        tried = [size for size in sizes if size <= most] or [most]
        chosen = np.empty((len(tried), len(models), draws))
        for draw in range(draws):
            # A random order in which missing partners come last; its first `size` are the partners.
            keys = rng.random(similarity.shape, dtype=np.float32) + np.isnan(similarity)
            order = np.argsort(keys, axis=1)
            drawn = np.take_along_axis(similarity, order, axis=1)
            for medians, size in zip(chosen, tried):
                medians[:, draw] = _medians(drawn[:, :size])
        for size, medians in zip(tried, chosen):
            for j, score in zip(labelled, scores.T):
                there = np.isfinite(score)
                if not there.any():  # a data set without labels
                    continue
                found = _ranks(medians[there]).T @ _ranks(score[there])
                spread = found.std(ddof=1), found.min(), found.max()
                lines.append((*key, table.names[j], size, found.mean(), *spread, draws))
    names = ["data", "method", "score", "partners", "correlation", "std", "least", "most", "draws"]
    return pd.DataFrame(lines, columns=names)


def _rows_of(target: NDArray[np.int64], values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return the values (models, most partners) of each target, padded with NaN, and the targets."""
    models, row, counts = np.unique(target, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    out = np.full((len(models), counts.max(initial=0)), np.nan)
    out[row[order], np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)] = values[order]
    return out[~np.isnan(out).all(axis=1)], models[~np.isnan(out).all(axis=1)]


def _medians(rows: Floats) -> Floats:
    """Return the median of each row, leaving out NaN; sorting puts NaN last. (numpy.median takes four times as long
    on short rows.)"""
    ordered = np.sort(rows, axis=1)
    count = rows.shape[1] - np.isnan(rows).sum(axis=1)
    i = np.arange(len(rows))
    middle: Floats = 0.5 * (ordered[i, (count - 1) // 2] + ordered[i, count // 2])
    return middle


def _ranks(x: Floats) -> Floats:
    """Return the ranks of each column, centred and of length 1, so that products are Spearman correlations."""
    from scipy.stats import rankdata

    ranks = rankdata(x, axis=0, nan_policy="propagate") - (len(x) + 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return ranks / np.sqrt((ranks**2).sum(axis=0))


def dynamics(frame: pd.DataFrame, of_seeds: pd.DataFrame) -> pd.DataFrame:
    """Return the rank correlation over settings of the dynamics score with the mean of each supervised score over the
    same seeds.

    of_seeds: dynamics.parquet of the study. std is over draws of seeds; the interval is that over settings, its bounds
    those of the draws on average. Holtz et al. (2022), Table 1.
    -> data, score, seeds, correlation, std, low, high, settings, draws
    """
    table = wide_table(frame)
    labelled = table.labelled()
    place = pd.Series(np.arange(len(table.runs)), index=table.runs["run"])
    # Runs that are to be made again since are not in the results.
    of_seeds = of_seeds.loc[[set(runs.split()) <= set(place.index) for runs in of_seeds["runs"]]]
    lines = []
    for (data, seeds), part in of_seeds.groupby(["data", "seeds"], sort=False):
        found: list[list[Floats]] = []
        for _, draw in part.groupby("draw", sort=False):
            means = [table.values[place[runs.split()]][:, labelled].mean(axis=0) for runs in draw["runs"]]
            x = np.column_stack([draw["value"], np.array(means)])
            found.append([m[0, 1:] for m in spearman(x)])
        values, low, high = np.array(found).transpose(1, 0, 2)
        for k, j in enumerate(labelled):
            spread = values[:, k].std(ddof=1) if len(values) > 1 else np.nan
            bounds = (low[:, k].mean(), high[:, k].mean())
            settings = part["setting"].nunique()
            lines.append((data, table.names[j], seeds, values[:, k].mean(), spread, *bounds, settings, len(values)))
    names = ["data", "score", "seeds", "correlation", "std", "low", "high", "settings", "draws"]
    return pd.DataFrame(lines, columns=names)


def growth_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the correlation with each metric against the number of partners, or of seeds."""
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]

    def panel(title: str, part: pd.DataFrame) -> Panel:
        series = [
            Series(
                title_of(key),
                line[number].tolist(),
                line["correlation"].tolist(),
                (line["correlation"] - line["std"].fillna(0)).tolist(),
                (line["correlation"] + line["std"].fillna(0)).tolist(),
                colour=i,
            )
            for i, (key, line) in enumerate(part.groupby(by, sort=False))
        ]
        return Panel(title, tuple(series), number, "rank correlation")

    note = f"Bands: one standard deviation over draws of {number}."
    return Chart("lines", panels(frame, scores, panel), "rank correlation", note)


def growth_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """Return in words the correlation with the preferred score from the fewest to the most partners or seeds."""
    score = preferred(frame, prefer)
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]
    lines = []
    for name, part in groups(frame[frame["score"] == score], *by):
        ordered = part.sort_values(number)
        first, last = ordered.iloc[0], ordered.iloc[-1]
        few = number if first[number] != 1 else number[:-1]
        text = f"With {int(first[number])} {few} the rank correlation with {score} is {with_interval(first)}"
        if len(ordered) > 1:
            text += f", with {int(last[number])} it is {with_interval(last)}"
        lines.append((name, text + "."))
    return join(lines, frame.groupby(by).ngroups)
