"""The papers' analyses. Each is one function from the frame of `karenina.results` to a tidy frame with intervals.

ANALYSES lists them with the figure of each. Intervals are 95 % bootstrap percentiles
over runs, unless said otherwise.
A score is a metric, followed by the property where a metric measures several ("dci_gbt modularity").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.studies.analyses.bootstrap import (
    RESAMPLES,
    interval,
    kendall,
    mean_bounds,
    median_bounds,
    quartiles,
    same_rows,
    share_bounds,
    spearman,
)
from karenina.studies.analyses.choosers import dynamics_agreement, udr_partners
from karenina.studies.results.scores import TASK, Scores, need, scores

Floats = NDArray[np.float64]


def agreement(
    frame: pd.DataFrame, kind: str = "spearman", by: Sequence[str] = ("data",), resamples: int = RESAMPLES
) -> pd.DataFrame:
    """Rank correlation between supervised scores on each data set.

    Locatello et al. (2019), section 5.2, figure 12 (Spearman); Carbonneau et al. (2022), figure 3 (Kendall).
    -> *by, a, b, correlation, low, high, runs
    """
    table = scores(frame)
    columns = table.labelled()
    need(len(columns) > 1, "two metrics")
    correlate = {"spearman": spearman, "kendall": kendall}[kind]
    lines = []
    for key, rows in table.groups(*by):
        found = correlate(table.values[rows][:, columns], resamples)
        for i, a in enumerate(columns):
            lines += [
                (*key, table.names[a], table.names[b], *(m[i, j] for m in found), len(rows))
                for j, b in enumerate(columns)
                if i < j
            ]
    return pd.DataFrame(lines, columns=[*by, "a", "b", "correlation", "low", "high", "runs"])


def distribution(frame: pd.DataFrame, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Quartiles of each score in each group, with an interval of the median.

    by method: Locatello et al. (2019), figures 3 and 13. By method and strength: figures 4, 14 and 15, and the boxes of
    Duan et al. (2020), figures 2 and 7.
    -> data, *by, score, runs, least, q25, median, q75, most, low, high
    """
    table = scores(frame)
    keys, groups = [], []
    for key, rows in table.groups("data", *by):
        for j, name in enumerate(table.names):
            values = table.values[rows, j]
            values = np.sort(values[~np.isnan(values)])
            if len(values):
                keys.append((*key, name, len(values)))
                groups.append(values)
    lines = pd.DataFrame(keys, columns=["data", *by, "score", "runs"])
    lines[["least", "q25", "median", "q75", "most"]] = quartiles(groups)
    lines[["low", "high"]] = median_bounds(groups)
    return lines


def variance_explained(frame: pd.DataFrame, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Share of the variance of each score that its method explains, and that its setting (method x strength) does.

    R^2 of least squares on categories, as a fraction; the rest is due to the seed. Locatello et al. (2019), section
    5.3, Table 5. `adjusted` takes off what random groups would explain. The interval is about that: seeds are resampled
    within settings, and the bounds reflected about the estimate, since a resample varies less than its original.
    -> data, score, predictor, explained, low, high, adjusted, runs
    """
    table = scores(frame)
    columns = np.array(table.labelled())
    lines = []
    for (data,), rows in table.groups("data"):
        about = table.runs.iloc[rows]
        labels = {"method": pd.factorize(about["method"])[0], "setting": pd.factorize(about["setting"])[0]}
        for chosen, valid in same_rows(table.values[np.ix_(rows, columns)]):
            y = table.values[np.ix_(rows[valid], columns[chosen])]
            if len(y) < 3:
                continue
            weights = _within(labels["setting"][valid], resamples)
            for predictor, label in labels.items():
                explained = _r2(y, label[valid], np.ones((1, len(y))))[0]
                low, high = (2 * explained - bound for bound in reversed(interval(_r2(y, label[valid], weights))))
                free = len(y) - len(np.unique(label[valid]))
                adjusted = 1 - (1 - explained) * (len(y) - 1) / free if free else explained * np.nan
                for i, j in enumerate(columns[chosen]):
                    bounds = np.clip([low[i], high[i]], 0, 1)
                    lines.append((data, table.names[j], predictor, explained[i], *bounds, adjusted[i], len(y)))
    return pd.DataFrame(lines, columns=["data", "score", "predictor", "explained", "low", "high", "adjusted", "runs"])


def _within(groups: NDArray[np.int64], resamples: int, seed: int = 0) -> Floats:
    """How often each row is in each resample (B, n) when rows are drawn anew within their group."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((resamples, len(groups)))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        weights[:, rows] = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), resamples)
    return weights


def _r2(y: Floats, groups: NDArray[np.int64], weights: Floats) -> Floats:
    """R^2 (B, K) of each column of y (n, K) on group means, with rows weighted."""
    y = y - y.mean(axis=0)
    shift = (weights @ y) ** 2 / weights.sum(axis=1, keepdims=True)
    between = -shift
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        size = weights[:, rows].sum(axis=1, keepdims=True)
        between += np.divide((weights[:, rows] @ y[rows]) ** 2, size, out=np.zeros_like(between), where=size > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return between / (weights @ y**2 - shift)


def total_correlation(frame: pd.DataFrame) -> pd.DataFrame:
    """Median dependence between latents, of mean and of sampled codes, against strength.

    Locatello et al. (2019), section 5.1, figures 1, 8-10 and 24-27. mean_above_sampled: share of runs whose mean codes
    depend on each other more than their sampled codes do (figure 10).
    -> data, method, strength, score, representation, median, low, high, runs, mean_above_sampled
    """
    table = scores(frame)
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


def unsupervised(
    frame: pd.DataFrame, by: Sequence[str] = ("data",), start: Sequence[str] = ("",), resamples: int = RESAMPLES
) -> pd.DataFrame:
    """Rank correlation of scores that need no labels with those that do.

    Locatello et al. (2019), section 5.4, figure 16; with by = data, method and start = udr: Duan et al. (2020), Tables
    1 and 7, figure 6.
    -> *by, unsupervised, score, correlation, low, high, runs
    """
    table = scores(frame)
    labelled = table.labelled()
    free = [j for j in table.columns(supervised=False) if table.names[j].startswith(tuple(start))]
    need(bool(free), f"scores {' or '.join(start)}*".replace("scores *", "label-free scores"))
    return _between(table, "unsupervised", free, labelled, by, resamples)


def _between(
    table: Scores, name: str, first: Sequence[int], second: Sequence[int], by: Sequence[str], resamples: int
) -> pd.DataFrame:
    """Rank correlations of each of the first columns (in column `name`) with each of the second, in each group."""
    lines = []
    for key, rows in table.groups(*by):
        found = spearman(table.values[rows][:, [*first, *second]], resamples)
        for i, a in enumerate(first):
            for j, b in enumerate(second, start=len(first)):
                lines.append((*key, table.names[a], table.names[b], *(m[i, j] for m in found), len(rows)))
    return pd.DataFrame(lines, columns=[*by, name, "score", "correlation", "low", "high", "runs"])


def tasks(frame: pd.DataFrame, by: Sequence[str] = ("data",), resamples: int = RESAMPLES) -> pd.DataFrame:
    """Rank correlation of what codes are good for (accuracy from few rows and many, fairness) with every other score.

    Locatello et al. (2019), section 5.5, figures 5, 6 and 19 to 23; fairness: Duan et al. (2020), figure 11, and Holtz
    et al. (2022), Table 4. fairness_* are distances: fair codes have small ones.
    -> *by, task, score, correlation, low, high, runs
    """
    table = scores(frame)
    useful = [j for j, family in enumerate(table.families) if family == TASK]
    others = [j for j, family in enumerate(table.families) if family != TASK]
    need(bool(useful) and bool(others), "labels, and tasks = true under [evaluation]")
    return _between(table, "task", useful, others, by, resamples)


def udr_versions(frame: pd.DataFrame) -> pd.DataFrame:
    """Each version of UDR in one line: its correlation with supervised scores, averaged over data sets, methods and
    scores, beside that of supervised scores with one another. Duan et al. (2020), Table 7.

    -> version, correlation, std, low, high, cells (intervals resample data sets x methods x scores)
    """
    cells = unsupervised(frame, ("data", "method"), ("udr",), resamples=0)
    parts = {str(version): part["correlation"] for version, part in cells.groupby("unsupervised", sort=False)}
    if cells["score"].nunique() > 1:
        parts["supervised"] = agreement(frame, by=("data", "method"), resamples=0)["correlation"]
    lines = []
    for version, values in parts.items():
        known = values.dropna().to_numpy()
        std = known.std(ddof=1) if len(known) > 1 else np.nan
        lines.append((version, known.mean() if len(known) else np.nan, std, *mean_bounds(known), len(known)))
    return pd.DataFrame(lines, columns=["version", "correlation", "std", "low", "high", "cells"])


def transfer(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation between data sets of the median score of each setting: do good hyperparameters transfer?

    Locatello et al. (2019), section 5.4, figures 17 and 18. Intervals resample settings.
    -> score, a, b, correlation, low, high, settings
    """
    table = scores(frame)
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


def beats_random(frame: pd.DataFrame, draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """How often choosing a setting by a metric on one seed beats a random model on another seed, or equals it.

    A seed, a metric and a data set are drawn, and the best setting taken. It is compared with a random setting: by the
    same or another metric, on the same or another data set, for another seed. Locatello et al. (2019), section 5.4,
    Tables 1 and 6. The interval is that of the drawing (Wilson's).
    -> metric, data, probability, low, high, draws
    """
    table = scores(frame)
    labelled = table.labelled()
    index = [pd.factorize(table.runs[name]) for name in ("data", "setting", "seed")]
    (data, datas), (setting, settings), (seeds, numbers) = index
    need(len(settings) > 1 and len(numbers) > 1, "two settings and two seeds")
    cube = np.full((len(datas), len(settings), len(numbers), len(labelled)), np.nan)
    cube[data, setting, seeds] = table.values[:, labelled]
    rng = np.random.default_rng(seed)

    def other(than: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        return (than + rng.integers(1, size, len(than))) % size

    lines = []
    for same_metric in (True, False):
        for same_data in (True, False):
            if (not same_metric and len(labelled) < 2) or (not same_data and len(datas) < 2):
                continue
            d, m, s = (rng.integers(size, size=draws) for size in (len(datas), len(labelled), len(numbers)))
            candidates = cube[d, :, s, m]
            best = np.argmax(np.where(np.isnan(candidates), -np.inf, candidates), axis=1)
            d2 = d if same_data else other(d, len(datas))
            m2 = m if same_metric else other(m, len(labelled))
            s2 = other(s, len(numbers))
            chosen = cube[d2, best, s2, m2]
            random = cube[d2, rng.integers(len(settings), size=draws), s2, m2]
            valid = ~(np.isnan(chosen) | np.isnan(random) | np.isnan(candidates).all(axis=1))
            wins, trials = int((chosen >= random)[valid].sum()), int(valid.sum())
            words = ["same" if same else "other" for same in (same_metric, same_data)]
            share = wins / trials if trials else np.nan
            lines.append((*words, share, *share_bounds(wins, trials), trials))
    return pd.DataFrame(lines, columns=["metric", "data", "probability", "low", "high", "draws"])


def polarised(frame: pd.DataFrame) -> pd.DataFrame:
    """How many latents are switched off, by method: the polarised regime. Duan et al. (2020), appendix A.10.

    A latent is off when it is not informative (`karenina._active`). runs_with_off: share of runs that have one.
    -> data, method, latents, off, std, low, high, runs_with_off, runs
    """
    table = scores(frame)
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


@dataclass(frozen=True)
class Analysis:
    """A function of the results (and of another table of the study), and the name of its figure in `figures`."""

    function: Callable[..., pd.DataFrame]
    figure: str
    extra: str = ""


ANALYSES: dict[str, Analysis] = {
    "agreement": Analysis(agreement, "correlations"),
    "agreement_kendall": Analysis(partial(agreement, kind="kendall"), "correlations"),
    "by_method": Analysis(distribution, "boxes"),
    "by_strength": Analysis(partial(distribution, by=("method", "strength")), "lines"),
    "variance_explained": Analysis(variance_explained, "bars"),
    "total_correlation": Analysis(total_correlation, "dependence"),
    "unsupervised": Analysis(unsupervised, "correlations"),
    "transfer": Analysis(transfer, "correlations"),
    "beats_random": Analysis(beats_random, "chances"),
    "udr": Analysis(partial(unsupervised, by=("data", "method"), start=("udr",)), "correlations"),
    "udr_versions": Analysis(udr_versions, "versions"),
    "udr_partners": Analysis(udr_partners, "growth", "pairs"),
    "dynamics": Analysis(dynamics_agreement, "growth", "dynamics"),
    "polarised": Analysis(polarised, "polarised"),
    "tasks": Analysis(tasks, "correlations"),
}
