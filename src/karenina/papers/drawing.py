"""Forms of figures that several papers share: boxes and violins by strength, scatter plots, walls of traversals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from karenina.drawing.charts import Groups, colour, distributions, draw, panel_grid
from karenina.drawing.figure import Figure
from karenina.drawing.pictures import mosaic, show_rows, traverse
from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import spearman
from karenina.papers.tables import name
from karenina.studies.analyses.correlations import correlation_chart
from karenina.studies.analyses.scores import Scores, short
from karenina.studies.study import NotEnough, Study

LATENTS, STEPS = 10, 7  # of a wall of traversals: lines and columns at most


def column(scores: Scores, score: str) -> Floats:
    """Return the score of this name for every run; NaN where a run has none."""
    if score not in scores.names:
        return np.full(len(scores.runs), np.nan)
    return scores.values[:, scores.names.index(score)]


def unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def by_hyperparameter(scores: Scores, wanted: Sequence[str], form: str) -> Figure:
    """Draw a box or violin for every strength: a row per data set and score, a column per method.

    The strength with the best median is in bold: do scores choose the same?
    """
    shown = [score for score in wanted if np.isfinite(column(scores, score)).any()]
    datas, methods = unique(scores.runs["data"]), unique(scores.runs["method"])
    lines = [(data, score) for data in datas for score in shown]
    figure, axes = panel_grid(len(lines), len(methods))
    for row, (data, score) in zip(axes, lines):
        values = column(scores, score)
        for axis, method in zip(row, methods):
            here = ((scores.runs["data"] == data) & (scores.runs["method"] == method)).to_numpy()
            groups = strength_groups(scores, values, here)
            distributions(axis, groups, form)
            medians = [np.median(known) if len(known := v[~np.isnan(v)]) else -np.inf for _, v in groups]
            axis.get_xticklabels()[int(np.argmax(medians))].set_fontweight("bold")
        row[0].set_ylabel(f"{short(name(data), 20)}\n{short(score, 22)}", fontsize=7)
    for axis, method in zip(axes[0], methods):
        axis.set_title(name(method), fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("strength (bold: the best median)", fontsize=7)
    return figure


def correlation_map(frame: pd.DataFrame) -> Figure:
    """Draw a heat map of rank correlations for each group."""
    return draw(correlation_chart(frame))


def strength_groups(scores: Scores, values: Floats, here: NDArray[np.bool_]) -> Groups:
    """Return the values of the runs `here` in a group for each strength, in rising order; in one group if none has a
    strength."""
    strength = scores.runs["strength"].to_numpy(float)
    found = sorted({s for s in strength[here] if not np.isnan(s)})
    if not found:
        return [("", values[here])]
    return [(f"{s:g}", values[here & (strength == s)]) for s in found]


def scatter(axis: Axes, x: Floats, y: Floats, groups: Sequence[Any]) -> float:
    """Draw points by group with Spearman's rho in the corner; return rho (NaN of fewer than three points)."""
    labels = np.asarray(list(map(str, groups)))
    for i, label in enumerate(unique(labels)):
        here = labels == label
        axis.plot(x[here], y[here], ".", color=colour(i), markersize=4, alpha=0.7, label=name(label), rasterized=True)
    rho = float(spearman(np.column_stack([x, y]))[0][0, 1])
    axis.margins(0.08, 0.16)  # room for what is written in the corner
    axis.text(0.03, 0.97, f"ρ = {rho:.2f}", transform=axis.transAxes, va="top", fontsize=7)
    axis.tick_params(labelsize=6)
    return rho


def walls(
    study: Study, groups: Sequence[tuple[str, Sequence[str]]], label: Callable[[str], str], **options: Any
) -> Any:
    """Draw traversals of models: a line of panels for each (title, runs). Latents by KL, inactive ones faded.

    options: as of `wall`.
    """
    columns = max(len(runs) for _, runs in groups)
    shown = [run for _, runs in groups for run in runs]
    lines = min(int(about(study)["latents"][shown].max()), options.get("latents", LATENTS))
    figure, axes = panel_grid(len(groups), columns, 2.6, 2.4 * lines / STEPS + 0.7)
    for line, (title, runs) in zip(axes, groups):
        for axis, run in zip(line, runs):
            wall(axis, study, run, **options)
            axis.set_title(label(run), fontsize=7)
        for axis in line[len(runs) :]:
            axis.remove()
        line[0].set_ylabel(title, fontsize=8)
    return figure


def wall(
    axis: Axes,
    study: Study,
    run: str,
    *,
    deviations: float = 2.0,
    steps: int = STEPS,
    latents: int = LATENTS,
    order: str | Sequence[int] = "kl",
    fade: bool = True,
) -> None:
    """Draw traversals of one model, a row of images per latent: by KL ("kl"), as they are numbered ("own"), or as
    given.

    fade: inactive latents; to no use for methods without a posterior.
    """
    data = str(study.frame.loc[study.frame["run"] == run, "data"].iloc[0])
    images = study.inputs(data)[0][:256]
    found = traverse(study.run(run), images, steps=steps, deviations=deviations, kl_threshold=study.kl_threshold)
    place = np.argsort(found.order)  # of each latent among the rows by KL
    rows = np.arange(len(place)) if order == "kl" else place if order == "own" else place[np.asarray(order)]
    rows = rows[:latents]
    pixels = mosaic(found.images[rows], found.informative[rows] if fade else None)
    show_rows(axis, pixels, found.order[rows], 5)


def about(study: Study) -> pd.DataFrame:
    """Return one row per run: data, method, parameters, strength, setting, seed, latents."""
    columns = ["run", "data", "method", "parameters", "strength", "setting", "seed", "latents"]
    return study.frame[columns].drop_duplicates("run").set_index("run")


def first_known(scores: Scores, wanted: Sequence[str], what: str) -> str:
    """Return the first of these scores that the study has; NotEnough says `what` it needs."""
    for score in wanted:
        if np.isfinite(column(scores, score)).any():
            return score
    raise NotEnough(f"needs {what}")
