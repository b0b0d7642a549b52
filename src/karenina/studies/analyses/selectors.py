"""Which label-free score chooses best? The chosen model beside the best one and a random one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from karenina._figures import Figure
from karenina.numerics.resampling import RESAMPLES, interval
from karenina.studies.analyses.shared import colour, grid, preferred, short
from karenina.studies.results.table import need, wide_table

Floats = NDArray[np.float64]

# Scores that are better when small. All others that need no labels are better when large.
_SMALL = ("reconstruction", "kl", "total_correlation", "wasserstein_correlation", "mutual_information")


def compute(frame: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """How good a model each label-free score chooses, judged by each supervised score.

    Choosing among all models of a data set ("all"), and among the seeds of one setting ("seeds"; mean over settings),
    where the strength cannot help. A score that is the same for all candidates, as the dynamics score within a
    setting, chooses at random among them. gain = (chosen - random) / (oracle - random): 1 is the best model, 0 what a
    random choice gives on average; regret = oracle - chosen. Intervals resample the models ("all") or the settings
    ("seeds").
    -> data, among, selector, score, chosen, random, oracle, gain, low, high, regret, models
    """
    table = wide_table(frame)
    labelled = table.labelled()
    free = table.columns(supervised=False)
    need(bool(free), "label-free scores")
    lines = []
    for (data,), rows in table.groups("data"):
        settings = pd.factorize(table.runs["setting"].to_numpy()[rows])[0]
        for j in free:
            selector = _sign(table.names[j]) * table.values[rows, j]
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
                    found = _among_seeds(a, b, groups, resamples, seed)
                    lines.append((*start, *found, sum(map(len, groups))))
    names = ["chosen", "random", "oracle", "gain", "low", "high", "regret", "models"]
    return pd.DataFrame(lines, columns=["data", "among", "selector", "score", *names])


def _sign(selector: str) -> int:
    return -1 if selector.startswith(_SMALL) else 1


def choose(selector: Floats, score: Floats) -> Floats:
    """The score of the model that the selector puts first, along the last axis; the mean over models that share the
    first place."""
    first = selector == selector.max(axis=-1, keepdims=True)
    chosen: Floats = np.where(first, score, 0.0).sum(axis=-1) / first.sum(axis=-1)
    return chosen


def _among_all(selector: Floats, score: Floats, resamples: int, seed: int) -> tuple[float, ...]:
    drawn = np.random.default_rng(seed).integers(len(score), size=(resamples, len(score)))
    return _summary(*_outcomes(selector, score), *_outcomes(selector[drawn], score[drawn]))


def _among_seeds(
    selector: Floats, score: Floats, groups: Sequence[NDArray[np.int64]], resamples: int, seed: int
) -> tuple[float, ...]:
    parts = np.array([_outcomes(selector[group], score[group]) for group in groups])
    drawn = np.random.default_rng(seed).integers(len(parts), size=(resamples, len(parts)))
    return _summary(*parts.mean(axis=0), *parts[drawn].mean(axis=1).T)


def _outcomes(selector: Floats, score: Floats) -> tuple[Floats, Floats, Floats]:
    """What the selector, a random choice (on average) and an oracle get, along the last axis."""
    return choose(selector, score), score.mean(axis=-1), score.max(axis=-1)


def _summary(
    chosen: float, random: float, oracle: float, *resampled: Floats
) -> tuple[float, float, float, float, float, float, float]:
    low, high = interval(_gain(*resampled))
    gain = float(_gain(*np.atleast_1d(chosen, random, oracle))[0])
    return float(chosen), float(random), float(oracle), gain, float(low), float(high), float(oracle - chosen)


def _gain(chosen: Floats, random: Floats, oracle: Floats) -> Floats:
    """0 where all models are alike, so that every choice is as good."""
    room = oracle - random
    gain: Floats = np.divide(chosen - random, room, out=np.zeros_like(chosen), where=room > 1e-12)
    return gain


def figure(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
    """Gain of each selector, a panel per data set: among all models, and among seeds."""
    score = preferred(frame, scores or ("mig",))
    part = frame[frame["score"] == score]
    sets = list(dict.fromkeys(part["data"]))
    selectors = list(dict.fromkeys(part["selector"]))
    figure, axes = grid(len(sets), 4.6, 0.9 + 0.22 * len(selectors))
    for ax, data in zip(axes, sets):
        _draw(ax, part[part["data"] == data], selectors)
        ax.set_title(f"{short(data)}, by {score}", fontsize=8)
    if axes:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)
    return figure


def _draw(ax: Axes, part: pd.DataFrame, selectors: Sequence[str]) -> None:
    for shift, (among, lines) in enumerate(part.groupby("among", sort=False)):
        y = np.array([selectors.index(name) for name in lines["selector"]]) + 0.25 * shift
        ax.hlines(y, lines["low"], lines["high"], color=colour(shift), linewidth=1)
        label = "among all models" if among == "all" else "among the seeds of a setting"
        ax.plot(lines["gain"], y, "o", markersize=3.5, color=colour(shift), label=label)
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.axvline(1, color="grey", linewidth=0.8)
    ax.set_yticks(range(len(selectors)), [short(name) for name in selectors], fontsize=6)
    ax.set_xlabel("gain: 0 random, 1 the best model", fontsize=7)
    ax.tick_params(axis="x", labelsize=7)
    ax.invert_yaxis()


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    texts = []
    for among, words in (("all", "among all models of a data set"), ("seeds", "among the seeds of a setting")):
        part = frame[(frame["score"] == score) & (frame["among"] == among)]
        if part.empty:
            continue
        mean = part.groupby("selector", sort=False)["gain"].mean().sort_values()
        texts.append(
            f"{words}, {mean.index[-1]} chooses best (gain {mean.iloc[-1]:.2f}) and {mean.index[0]} worst "
            f"({mean.iloc[0]:.2f})"
        )
    return f"Judged by {score}, " + "; ".join(texts) + ". A gain of 0 is a random choice, 1 the best model."
