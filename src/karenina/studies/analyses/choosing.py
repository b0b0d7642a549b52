"""The quality of a choice: of a model by a label-free score, and of a setting by a metric."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.drawing.charts import Chart, Panel, Series, columns_of, plain_number
from karenina.evaluation.criteria import OF_ONE_MODEL
from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import INTERVAL, LEVELS, RESAMPLES, jackknife, share_bounds
from karenina.studies.analyses.scores import need, preferred, short, wide_table

# Scores that are better when small. All others that need no labels are better when large.
_SMALL = ("reconstruction", "kl", "total_correlation", "wasserstein_correlation", "mutual_information")
RESAMPLED = "middle 95 % of resamples"


def selectors(frame: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Return how good a model each label-free score chooses, judged by each supervised score.

    Choosing among all models of a data set ("all"), and among the seeds of one setting ("seeds"; mean over settings),
    where the strength cannot help. A score that is the same for all candidates, as the dynamics score within a
    setting, chooses at random among them. gain = (chosen - random) / (oracle - random): 1 is the best model, 0 what a
    random choice gives on average; regret = oracle - chosen. low, high: in "seeds" the 95 % interval, from leaving out
    one setting at a time; in "all", where the gain depends on single models, no interval, but the middle 95 % of the
    gains when the models are resampled. The column `bounds` says which.
    -> data, among, selector, score, chosen, random, oracle, gain, low, high, bounds, regret, models
    """
    table = wide_table(frame)
    labelled = table.labelled()
    free = table.columns(supervised=False)
    need(bool(free), "label-free scores")
    lines = []
    for (data,), rows in table.groups("data"):
        settings = pd.factorize(table.runs["setting"].to_numpy()[rows])[0]
        for j in free:
            selector = direction(table.names[j]) * table.values[rows, j]
            for k in labelled:
                score = table.values[rows, k]
                known = np.isfinite(selector) & np.isfinite(score)
                if known.sum() < 2:
                    continue
                a, b = selector[known], score[known]
                start = (data, "all", table.names[j], table.names[k])
                lines.append((*start, *_among_all(a, b, resamples, seed), int(known.sum())))
                groups = [np.flatnonzero(settings[known] == g) for g in np.unique(settings[known])]
                groups = [group for group in groups if len(group) > 1]
                if groups:
                    start = (data, "seeds", table.names[j], table.names[k])
                    found = _among_seeds(a, b, groups)
                    lines.append((*start, *found, sum(map(len, groups))))
    names = ["chosen", "random", "oracle", "gain", "low", "high", "bounds", "regret", "models"]
    return pd.DataFrame(lines, columns=["data", "among", "selector", "score", *names])


def direction(selector: str) -> int:
    """Return 1 for a label-free score that is better when large, -1 for one that is better when small."""
    return -1 if selector.startswith(_SMALL) or f"-{selector}" in OF_ONE_MODEL.values() else 1


def choose(selector: Floats, score: Floats) -> Floats:
    """Return the score of the model that the selector puts first, along the last axis; the mean over models that share
    the first place."""
    first = selector == selector.max(axis=-1, keepdims=True)
    chosen: Floats = np.where(first, score, 0.0).sum(axis=-1) / first.sum(axis=-1)
    return chosen


def _among_all(selector: Floats, score: Floats, resamples: int, seed: int) -> tuple[float | str, ...]:
    drawn = np.random.default_rng(seed).integers(len(score), size=(resamples, len(score)))
    low, high = np.quantile(_gain(*outcomes(selector[drawn], score[drawn])), LEVELS)
    return _summary(np.array(outcomes(selector, score)), float(low), float(high), RESAMPLED)


def _among_seeds(selector: Floats, score: Floats, groups: Sequence[NDArray[np.int64]]) -> tuple[float | str, ...]:
    parts = np.array([outcomes(selector[group], score[group]) for group in groups])
    whole = parts.mean(axis=0)
    left = (parts.sum(axis=0) - parts) / max(len(parts) - 1, 1)
    low, high = share_bounds(_gain(*whole), _gain(*left.T))
    return _summary(whole, float(low), float(high), INTERVAL)


def outcomes(selector: Floats, score: Floats) -> tuple[Floats, Floats, Floats]:
    """Return what the selector, a random choice (on average) and an oracle get, along the last axis."""
    return choose(selector, score), score.mean(axis=-1), score.max(axis=-1)


def _summary(parts: Floats, low: float, high: float, bounds: str) -> tuple[float | str, ...]:
    chosen, random, oracle = map(float, parts)
    return chosen, random, oracle, float(_gain(*parts)), low, high, bounds, oracle - chosen


def _gain(chosen: Floats, random: Floats, oracle: Floats) -> Floats:
    """Return the gain of a choice: 0 where all models are alike, so that every choice is as good."""
    room = np.asarray(oracle - random)
    gain: Floats = np.divide(chosen - random, room, out=np.zeros(room.shape), where=room > 1e-12)
    return gain


def selectors_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the gain of each selector, a panel per data set: among all models, and among seeds."""
    score = preferred(frame, scores or ("mig",))
    part = frame[frame["score"] == score]
    selectors = list(dict.fromkeys(part["selector"]))
    words = {"all": "among all models", "seeds": "among the seeds of a setting"}
    panels = []
    for data, here in part.groupby("data", sort=False):
        series = []
        for i, (among, lines) in enumerate(here.groupby("among", sort=False)):
            x = [selectors.index(name) for name in lines["selector"]]
            numbers = columns_of(lines, y="gain", low="low", high="high", count="models")
            series.append(Series(words[str(among)], x, **numbers, colour=i))
        names = tuple(map(short, selectors))
        panels.append(Panel(f"{short(data)}, by {score}", tuple(series), "", "gain", names, reference=1.0))
    note = (
        "0 is a random choice, the grey line at 1 the best model. Whiskers: among all models the middle 95 % of gains "
    )
    note += "of resampled models, which is no interval; among seeds the 95 % interval, over settings."
    return Chart("bars", tuple(panels), "gain", note)


def selectors_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    texts = []
    for among, words in (("all", "among all models of a data set"), ("seeds", "among the seeds of a setting")):
        part = frame[(frame["score"] == score) & (frame["among"] == among)]
        if part.empty:
            continue
        mean = part.groupby("selector", sort=False)["gain"].mean().sort_values()
        texts.append(
            f"{words}, {mean.index[-1]} chooses best (gain {plain_number(mean.iloc[-1])}) and {mean.index[0]} worst "
            f"({plain_number(mean.iloc[0])})"
        )
    return f"Judged by {score}, " + "; ".join(texts) + ". A gain of 0 is a random choice, 1 the best model."


def beats_random(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how often choosing a setting by a metric on one seed beats a random model on another seed, or equals it.

    On a seed, by a metric and on a data set, the best setting is taken. It is compared with a random setting: by the
    same or another metric, on the same or another data set, for another seed. Locatello et al. (2019), section 5.4,
    Tables 1 and 6, where 10,000 such comparisons are drawn: here it is the mean of all, over data sets and metrics
    alike. The interval is that of leaving out one seed at a time, for three seeds or more.
    -> metric, data, probability, low, high, seeds
    """
    table = wide_table(frame)
    labelled = table.labelled()
    index = [pd.factorize(table.runs[name]) for name in ("data", "setting", "seed")]
    (data, datas), (setting, settings), (seed, seeds) = index
    need(len(settings) > 1 and len(seeds) > 1, "two settings and two seeds")
    scores = np.full((len(datas), len(labelled), len(seeds), len(settings)), np.nan)
    scores[data, :, seed, setting] = table.values[:, labelled]
    best = np.where(np.isnan(scores), -np.inf, scores).argmax(-1)  # of all seeds, by each metric, on each data set
    chosen = np.where(np.isnan(scores).all(-1), -1, best)
    shares = _shares(scores)
    both = [(d, m, e, n) for d, m in np.ndindex(chosen.shape[:2]) for e, n in np.ndindex(chosen.shape[:2])]
    lines = []
    for same_metric in (True, False):
        for same_data in (True, False):
            kept = [(d, m, e, n) for d, m, e, n in both if (m == n) is same_metric and (d == e) is same_data]
            if not kept:
                continue
            means = np.array([_means(shares[e, n], chosen[d, m]) for d, m, e, n in kept])
            value, *left = (one[np.isfinite(one)].mean() if np.isfinite(one).any() else np.nan for one in means.T)
            half = jackknife(np.array(left))
            words = ["same" if same else "other" for same in (same_metric, same_data)]
            lines.append((*words, value, max(value - half, 0.0), min(value + half, 1.0), len(seeds)))
    return pd.DataFrame(lines, columns=["metric", "data", "probability", "low", "high", "seeds"])


def _shares(scores: Floats) -> Floats:
    """Return for scores (..., settings) the share of settings that are no better than each; NaN where it is unknown."""
    from scipy.stats import rankdata

    known = ~np.isnan(scores)
    below = rankdata(np.where(known, scores, np.inf), "max", axis=-1)
    return np.where(known, below / np.maximum(known.sum(-1, keepdims=True), 1), np.nan)


def _means(shares: Floats, chosen: NDArray[np.int64]) -> Floats:
    """Return the mean share over pairs of seeds, one to choose by and another to compare on: (1 + seeds,), of all seeds
    and without each. shares: (seeds, settings). chosen: (seeds,), -1 where there was no choice."""
    wins = np.where(chosen < 0, np.nan, shares[:, chosen])
    np.fill_diagonal(wins, np.nan)
    known = ~np.isnan(wins)
    found = []
    for one in (np.where(known, wins, 0.0), known.astype(float)):
        found.append(np.append(one.sum(), one.sum() - one.sum(0) - one.sum(1)))
    return np.where(found[1] > 0.5, found[0] / np.maximum(found[1], 1), np.nan)


def beats_random_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of how often a choice beats a random model."""
    names = tuple(f"{m} metric, {d} data" for m, d in zip(frame["metric"], frame["data"]))
    bars = Series("", range(len(frame)), frame["probability"].tolist(), frame["low"].tolist(), frame["high"].tolist())
    panel = Panel("", (bars,), "", "better than random, or equal", names, (0.0, 1.0), 0.5)
    whiskers = "Whiskers: 95 % interval, from leaving out one seed at a time."
    return Chart("bars", (panel,), "share of comparisons", f"Grey line: chance. {whiskers}")


def beats_random_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    texts = [
        f"by {'the same metric' if row.metric == 'same' else 'another metric'} on "
        f"{'the same' if row.data == 'same' else 'other'} data {100 * row.probability:.0f} %"
        + (f" [{100 * row.low:.0f}, {100 * row.high:.0f}]" if np.isfinite(row.low) else "")
        for row in frame.itertuples()
    ]
    return (
        "A setting chosen by a metric on one seed does at least as well on another seed as a random one, judged "
        + "; ".join(texts)
        + ". Chance is 50 % or a little more, because of ties."
    )
