"""The two analyses that need more than the results: those of UDR's pairs, and those of training dynamics."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.studies.analyses.bootstrap import RESAMPLES, interval, spearman
from karenina.studies.results.scores import scores

Floats = NDArray[np.float64]


def udr_partners(
    frame: pd.DataFrame,
    pairs: pd.DataFrame,
    sizes: Sequence[int] = (5, 10, 15, 20, 25, 30, 35, 40, 45),
    draws: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank correlation of UDR with supervised scores when each model is compared with that many partners only.

    pairs: pairs.parquet of the study. Partners are drawn `draws` times, without replacement; std and the interval are
    over these. Duan et al. (2020), Table 2 and figure 8.
    -> data, method, score, partners, correlation, std, low, high, draws
    """
    table = scores(frame)
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
        y = _ranks(table.values[models][:, labelled])
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
            values = _ranks(medians).T @ y
            low, high = interval(values)
            for k, j in enumerate(labelled):
                spread = values[:, k].std(ddof=1)
                lines.append((*key, table.names[j], size, values[:, k].mean(), spread, low[k], high[k], draws))
    names = ["data", "method", "score", "partners", "correlation", "std", "low", "high", "draws"]
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


def dynamics_agreement(frame: pd.DataFrame, dynamics: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation over settings of the dynamics score with the mean of each supervised score over the same seeds.

    dynamics: dynamics.parquet of the study. std is over draws of seeds; the interval resamples settings in the first
    draw. Holtz et al. (2022), Table 1.
    -> data, score, seeds, correlation, std, low, high, settings, draws
    """
    table = scores(frame)
    labelled = table.labelled()
    place = pd.Series(np.arange(len(table.runs)), index=table.runs["run"])
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
