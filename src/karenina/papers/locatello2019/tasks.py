"""Downstream tasks and reconstructions of Locatello et al. (2019)."""

import re
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.drawing.charts import colour, legend, panel_grid, plain_ticks
from karenina.drawing.figure import Figure
from karenina.drawing.pictures import mosaic, show
from karenina.papers.drawing import column, correlation_map, scatter, unique
from karenina.papers.locatello2019.tables import METRICS
from karenina.papers.tables import DCI, FACTORVAE, MIG, Metrics, name
from karenina.studies.analyses.correlations import tasks
from karenina.studies.analyses.scores import Scores, wide_table
from karenina.studies.study import NotEnough, Study

NEEDED = "tasks = true under [evaluation] in study.toml, then `karenina study run`"
# Our names of the two predictors and the paper's.
MODELS = {"logistic": "LR", "boosted": "GBT"}
GROUPS = ("lowest third", "middle third", "highest third")


def figure_5(study: Study) -> Figure:
    found = _correlations(study)
    data = next((d for d in unique(found["data"]) if d.split(":")[0] == "dsprites"), found["data"].iloc[0])
    return correlation_map(found[found["data"] == data])


def figure_19(study: Study) -> Figure:
    return correlation_map(_correlations(study))


def _correlations(study: Study) -> pd.DataFrame:
    """Return the rank correlations of downstream accuracy and efficiency with the paper's metrics, where these were
    measured."""
    frame = study.words_of(METRICS)
    _need(study)
    found = tasks(frame)
    found = found[found["task"].str.startswith("downstream") & found["score"].isin(METRICS)]
    return found[found.groupby("data")["correlation"].transform("count") > 0]


def _need(study: Study) -> None:
    if not study.frame["metric"].str.startswith("downstream").any():
        raise NotEnough(f"needs {NEEDED}")


def _efficiency(study: Study, model: str, metrics: Metrics, only: str = "") -> Figure:
    """Draw accuracy of few rows / accuracy of many against each metric: a row per data set, a column per metric."""
    _need(study)
    scores = wide_table(study.words_of(metrics))
    efficiency = column(scores, _task(scores, model, "efficiency"))
    names = [score for score in metrics if np.isfinite(column(scores, score)).any()]
    datas = unique(scores.runs["data"][np.isfinite(efficiency)])
    datas = [data for data in datas if only and data.split(":")[0] == only] or (datas[:1] if only else datas)
    figure, axes = panel_grid(len(datas), len(names), 2.4, 2.1)
    for line, data in zip(axes, datas):
        here = (scores.runs["data"] == data).to_numpy()
        for axis, score in zip(line, names):
            scatter(axis, column(scores, score)[here], efficiency[here], list(scores.runs["method"][here]))
        line[0].set_ylabel(f"{name(data)}\nefficiency ({MODELS[model]})", fontsize=6)
    for axis, score in zip(axes[-1], names):
        axis.set_xlabel(score, fontsize=7)
    legend(figure, axes[0, 0])
    return figure


figure_6 = partial(_efficiency, model="boosted", metrics=FACTORVAE, only="dsprites")
figure_20 = partial(_efficiency, model="logistic", metrics=METRICS)
figure_21 = partial(_efficiency, model="boosted", metrics=METRICS)


def _task(scores: Scores, model: str, what: str) -> str:
    found = [n for n in scores.names if n.startswith("downstream_") and model in n and n.endswith(f"_{what}")]
    if not found:
        raise NotEnough(f"needs downstream_{model}_{what}: {NEEDED}")
    return found[0]


def three_groups(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return 0, 1 or 2 for the lowest, middle and highest third of the values by rank; -1 for NaN.

    >>> three_groups(np.array([0.3, np.nan, 0.1, 0.2, 0.9, 0.5, 0.4])).tolist()
    [1, -1, 0, 0, 2, 2, 1]
    """
    known = np.flatnonzero(~np.isnan(values))
    out = np.full(len(values), -1)
    order = known[np.argsort(values[known], kind="stable")]
    out[order] = 3 * np.arange(len(order)) // max(len(order), 1)
    return out


def _three_groups(study: Study, metrics: Metrics) -> Figure:
    """Draw mean accuracy against the number of training rows, in three groups of models by a metric."""
    _need(study)
    scores = wide_table(study.words_of(metrics))
    (metric,) = metrics
    models = [model for model in MODELS if any(n.startswith("downstream_") and model in n for n in scores.names)]
    every = np.column_stack([column(scores, n) for n in scores.names if n.startswith("downstream_")])
    datas = unique(scores.runs["data"][np.isfinite(every).any(axis=1)])  # some data sets may be without tasks
    figure, axes = panel_grid(len(models), len(datas), 2.7, 2.3)
    for line, model in zip(axes, models):
        sizes = sorted(
            int(found[1]) for n in scores.names if model in n and (found := re.fullmatch(r"downstream_.*_(\d+)", n))
        )
        curves = np.column_stack([column(scores, _task(scores, model, str(size))) for size in sizes])
        for axis, data in zip(line, datas):
            here = np.flatnonzero((scores.runs["data"] == data) & np.isfinite(curves).all(axis=1))
            group = three_groups(column(scores, metric)[here])
            for g, label in enumerate(GROUPS):
                part = curves[here[group == g]]
                if len(part):
                    mean, spread = part.mean(axis=0), part.std(axis=0)
                    axis.plot(sizes, mean, marker=".", color=colour(g), label=label)
                    axis.fill_between(sizes, mean - spread, mean + spread, color=colour(g), alpha=0.15, linewidth=0)
            plain_ticks(axis, sizes, "log")
            axis.set_title(f"{name(data)}, {MODELS[model]}", fontsize=8)
            axis.set_xlabel("training rows", fontsize=6)
            axis.tick_params(labelsize=6)
        line[0].set_ylabel("accuracy", fontsize=7)
    figure.suptitle(f"Three groups of models by {metric}", fontsize=8)
    legend(figure, axes[0, 0])
    return figure


figure_22 = partial(_three_groups, metrics=DCI)
figure_23 = partial(_three_groups, metrics=MIG)


def figure_7(study: Study) -> Figure:
    """Draw images beside reconstructions: odd columns images, even ones what a random model of the data set makes."""
    study.folder()
    scores = wide_table(study.frame)
    datas = unique(scores.runs["data"])
    figure, axes = panel_grid(1, len(datas), 2.8, 2.8)
    rng = np.random.default_rng(0)
    for axis, data in zip(axes[0], datas):
        here = scores.runs[scores.runs["data"] == data]
        row = here.iloc[int(rng.integers(len(here)))]
        images = study.inputs(str(data))[0][:16]
        run = study.run(str(row["run"]))
        pairs = np.stack([images / np.float32(255), run.decode(run.encode(images)[0])], axis=1)
        side = int(np.sqrt(len(pairs)))
        tiles = pairs[: side * side].reshape(side, 2 * side, *pairs.shape[2:])
        show(axis, mosaic(tiles))
        axis.set_title(f"{name(data)}, {name(row['method'])}", fontsize=8)
    return figure
