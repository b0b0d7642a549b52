"""How many partners does UDR need?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.resampling import interval
from karenina.studies.results.table import wide_table

Floats = NDArray[np.float64]


def compute(
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
                low, high = interval(found)
                lines.append((*key, table.names[j], size, found.mean(), found.std(ddof=1), low, high, draws))
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
