"""Scores that compare models, against metrics: versions of UDR, its number of partners, and training dynamics."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import jackknife, spearman
from karenina.studies.analyses.charts import Chart, Panel, Series, plain_number
from karenina.studies.analyses.correlations import agreement, unsupervised
from karenina.studies.analyses.shared import groups, join, panels, preferred, title_of, with_interval
from karenina.studies.results.table import wide_table


def udr_versions(frame: pd.DataFrame) -> pd.DataFrame:
    """Each version of UDR in one line: its correlation with supervised scores, averaged over data sets, methods and
    scores, beside that of supervised scores with one another. Duan et al. (2020), Table 7.

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
    """Correlations of each version of UDR, and of supervised scores, on each data set and of each method."""
    cells = unsupervised(frame, ("data", "method"), ("udr",))
    parts = {str(version): part["correlation"].dropna() for version, part in cells.groupby("unsupervised", sort=False)}
    if cells["score"].nunique() > 1:
        parts["supervised"] = agreement(frame, by=("data", "method"))["correlation"].dropna()
    return parts


def udr_versions_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Mean correlation of each version of UDR with supervised scores."""
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
    """Rank correlation of UDR with supervised scores when each model is compared with that many partners only.

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
    """Values (models, most partners) of each target, padded with NaN, and the targets."""
    models, row, counts = np.unique(target, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    out = np.full((len(models), counts.max(initial=0)), np.nan)
    out[row[order], np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)] = values[order]
    return out[~np.isnan(out).all(axis=1)], models[~np.isnan(out).all(axis=1)]


def _medians(rows: Floats) -> Floats:
    """Of what is not NaN in each row; sorting puts NaN last. (numpy.median takes four times as long on short rows.)"""
    ordered = np.sort(rows, axis=1)
    count = rows.shape[1] - np.isnan(rows).sum(axis=1)
    i = np.arange(len(rows))
    middle: Floats = 0.5 * (ordered[i, (count - 1) // 2] + ordered[i, count // 2])
    return middle


def _ranks(x: Floats) -> Floats:
    """Ranks of each column, centred and of length 1, so that products are Spearman correlations."""
    from scipy.stats import rankdata

    ranks = rankdata(x, axis=0, nan_policy="propagate") - (len(x) + 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return ranks / np.sqrt((ranks**2).sum(axis=0))


def dynamics(frame: pd.DataFrame, of_seeds: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation over settings of the dynamics score with the mean of each supervised score over the same seeds.

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
    """Correlation with each metric against the number of partners, or of seeds."""
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
    """Correlation with the preferred score from the fewest to the most partners or seeds."""
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
