"""Tables and figures of Locatello et al. (2019), but for its downstream tasks."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from karenina.drawing.charts import colour, distributions, legend, panel_grid
from karenina.drawing.figure import Figure
from karenina.papers.drawing import (
    by_hyperparameter,
    column,
    correlation_map,
    first_known,
    scatter,
    strength_groups,
    unique,
)
from karenina.papers.tables import BETAVAE, DCI, FACTORVAE, MIG, PaperTable, name
from karenina.studies.analyses.by_setting import by_strength, total_correlation, variance_explained
from karenina.studies.analyses.choosing import beats_random
from karenina.studies.analyses.correlations import agreement, transfer, unsupervised
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import NotEnough, Study

MODULARITY = {"Modularity": ("modularity", "modularity")}
SAP = {"SAP": ("sap", "compactness")}
METRICS = {**BETAVAE, **FACTORVAE, **MIG, **DCI, **MODULARITY, **SAP}
# Section 5.4, figure 16: what is known of a model without labels.
UNSUPERVISED = {
    "reconstruction": "reconstruction",
    "elbo": "ELBO",
    "kl": "KL",
    "total_correlation_sampled": "total correlation (sampled)",
}


def table_1(study: Study) -> PaperTable:
    found = beats_random(study.words_of(METRICS)).rename(columns={"probability": "value"})
    note = "Share of all comparisons with a random setting in which the chosen one does at least as well."
    if found["data"].nunique() < 2:
        study.note("without other data sets: a second one under `data` in study.toml, then `karenina study run`")
    return PaperTable(found, ("metric",), ("data",), digits=3, note=note)


table_6 = table_1  # the appendix prints it again


def table_5(study: Study) -> PaperTable:
    found = variance_explained(study.words_of(METRICS)).rename(columns={"adjusted": "value"})
    found = found.sort_values("predictor", kind="stable")
    if study.frame["method"].nunique() < 2:
        found = found[found["predictor"] != "method"]
        study.note("without part (a): a second method under [methods] in study.toml, then `karenina study run`")
    note = (
        "Fractions of the variance: predictor method is the paper's part (a), setting (method x strength) part (b). "
        "Ours are without what chance explains in groups of few models; the paper's, of 50 seeds, are with it, as the "
        "column `explained` of the CSV is."
    )
    return PaperTable(found, ("predictor", "data"), ("score",), note=note)


def figure_1(study: Study) -> Figure:
    """Draw sampled codes on the left, mean codes on the right, on one data set, without AnnealedVAE."""
    found = _dependence(study, "total_correlation", annealed=False)
    data = _one_of(found["data"], "color_dsprites")
    return _against_strength(found[found["data"] == data], [(data, "sampled"), (data, "mean")], "total correlation")


def figure_10(study: Study) -> Figure:
    """Draw log total correlation of mean against sampled codes of every model, a panel per data set."""
    scores = wide_table(study.frame)
    first_known(scores, ["total_correlation_mean"], "models with a posterior: PCA alone has no sampled codes")
    datas = unique(scores.runs["data"])
    figure, axes = panel_grid(1, len(datas), 2.8, 2.6)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (np.log(column(scores, f"total_correlation_{kind}")) for kind in ("sampled", "mean"))
    for axis, data in zip(axes[0], datas):
        here = (scores.runs["data"] == data).to_numpy() & np.isfinite(x) & np.isfinite(y)
        scatter(axis, x[here], y[here], list(scores.runs["method"][here]))
        ends = [np.min([x[here], y[here]], initial=0), np.max([x[here], y[here]], initial=0)]
        axis.plot(ends, ends, color="grey", linewidth=0.8)
        axis.set_title(name(data), fontsize=8)
        axis.set_xlabel("log total correlation, sampled codes", fontsize=6)
    axes[0, 0].set_ylabel("log total correlation, mean codes", fontsize=6)
    legend(figure, axes[0, 0])
    return figure


def _dependence(study: Study, measure: str, annealed: bool = True) -> pd.DataFrame:
    found = total_correlation(study.frame)
    found = found[(found["score"] == measure) & (annealed | (found["method"] != "annealed_vae"))]
    if found.empty:
        raise NotEnough(f"needs {measure} of a method other than annealed_vae")
    return found


def _per_data(study: Study, measure: str, kind: str, annealed: bool = True) -> Figure:
    found = _dependence(study, measure, annealed)
    return _against_strength(found, [(data, kind) for data in unique(found["data"])], measure.replace("_", " "))


figure_8 = partial(_per_data, measure="total_correlation", kind="sampled", annealed=False)
figure_9 = partial(_per_data, measure="total_correlation", kind="mean", annealed=False)
figure_24 = partial(_per_data, measure="total_correlation", kind="sampled")
figure_25 = partial(_per_data, measure="total_correlation", kind="mean")
figure_26 = partial(_per_data, measure="mutual_information", kind="sampled")
figure_27 = partial(_per_data, measure="mutual_information", kind="mean")


def _against_strength(found: pd.DataFrame, panels: Sequence[tuple[str, str]], label: str) -> Figure:
    methods = unique(found["method"])
    figure, axes = panel_grid(1, len(panels), 2.8, 2.5)
    for axis, (data, kind) in zip(axes[0], panels):
        part = found[(found["data"] == data) & (found["representation"] == kind)]
        _medians(axis, part, methods, bands=True)
        # Strengths are drawn by rank; their values are shown where all methods share them.
        grids = {tuple(sorted(line["strength"].dropna().unique())) for _, line in part.groupby("method")} - {()}
        shared = grids.pop() if len(grids) == 1 else ()
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        if shared:
            axis.set_xticks(range(len(shared)), [f"{value:g}" for value in shared])
        axis.set_xlabel("strength" if shared else "strength, from least to greatest", fontsize=7)
        axis.set_title(f"{name(data)}, {kind} codes", fontsize=8)
        axis.tick_params(labelsize=6)
    axes[0, 0].set_ylabel(f"{label} (median)", fontsize=7)
    legend(figure, axes[0, 0])
    return figure


def _medians(axis: Axes, part: pd.DataFrame, methods: Sequence[str], bands: bool = False) -> None:
    """Draw the medians of each method by the rank of its strengths."""
    for method, line in part.groupby("method", sort=False):
        line = line.sort_values("strength")
        x, shade = np.arange(len(line)), colour(methods.index(method))
        axis.plot(x, line["median"], marker=".", color=shade, label=name(method))
        if bands:
            axis.fill_between(x, line["low"], line["high"], color=shade, alpha=0.15, linewidth=0)


def figure_2(study: Study) -> Figure:
    frame = study.words_of(METRICS)
    data = _one_of(frame["data"], "noisy_dsprites")
    return correlation_map(agreement(frame[frame["data"] == data]))


def figure_12(study: Study) -> Figure:
    return correlation_map(agreement(study.words_of(METRICS)))


def figure_11(study: Study) -> Figure:
    """Draw every metric against every other on dSprites (or the first data set); distributions on the diagonal."""
    scores = wide_table(study.words_of(METRICS))
    here = (scores.runs["data"] == _one_of(scores.runs["data"], "dsprites")).to_numpy()
    names = [score for score in METRICS if np.isfinite(column(scores, score)[here]).any()]
    figure, axes = panel_grid(len(names), len(names), 1.5, 1.5)
    for line, down in zip(axes, names):
        for axis, across in zip(line, names):
            x, y = column(scores, across)[here], column(scores, down)[here]
            if across == down:
                axis.hist(x[np.isfinite(x)], bins=15, color=colour(0))
                axis.tick_params(labelsize=5)
            else:
                scatter(axis, x, y, list(scores.runs["method"][here]))
        line[0].set_ylabel(down, fontsize=6)
    for axis, across in zip(axes[-1], names):
        axis.set_xlabel(across, fontsize=6)
    if len(names) > 1:
        legend(figure, axes[0, 1])
    return figure


def figure_3(study: Study) -> Figure:
    """Draw the FactorVAE score of each method on the left, and by strength of FactorVAE (or the first method) on the
    right."""
    scores = wide_table(study.words_of(FACTORVAE))
    data = _one_of(scores.runs["data"], "cars3d")
    method = _one_of(scores.runs["method"], "factor_vae")
    values = column(scores, "FactorVAE score")
    here = (scores.runs["data"] == data).to_numpy()
    figure, axes = panel_grid(1, 2, 3.2, 2.6)
    methods = unique(scores.runs["method"][here])
    parts = [(name(m), values[here & (scores.runs["method"] == m).to_numpy()]) for m in methods]
    distributions(axes[0, 0], parts, "violin")
    axes[0, 0].tick_params(axis="x", rotation=20)
    own = here & (scores.runs["method"] == method).to_numpy()
    distributions(axes[0, 1], strength_groups(scores, values, own), "violin")
    axes[0, 1].set_xlabel("strength", fontsize=7)
    for axis, title in zip(axes[0], (name(data), f"{name(method)} on {name(data)}")):
        axis.set_title(title, fontsize=8)
    axes[0, 0].set_ylabel("FactorVAE score", fontsize=7)
    return figure


def figure_13(study: Study) -> Figure:
    """Draw violins of every method: a row per data set, a column per metric."""
    scores = wide_table(study.words_of(METRICS))
    names = [score for score in METRICS if np.isfinite(column(scores, score)).any()]
    datas = unique(scores.runs["data"])
    methods = unique(scores.runs["method"])
    figure, axes = panel_grid(len(datas), len(names))
    for line, data in zip(axes, datas):
        for axis, score in zip(line, names):
            here = (scores.runs["data"] == data).to_numpy()
            values = column(scores, score)
            of_method = [values[here & (scores.runs["method"] == method).to_numpy()] for method in methods]
            distributions(axis, [(str(i), found) for i, found in enumerate(of_method)], "violin")
        line[0].set_ylabel(name(data), fontsize=7)
    for axis, score in zip(axes[0], names):
        axis.set_title(score, fontsize=8)
    figure.supxlabel(", ".join(f"{i} = {name(m)}" for i, m in enumerate(methods)), fontsize=7)
    return figure


def figure_14(study: Study) -> Figure:
    frame = study.words_of(METRICS)
    frame = frame[frame["data"] == _one_of(frame["data"], "cars3d")]
    return by_hyperparameter(wide_table(frame), list(METRICS), "violin")


def figure_4(study: Study) -> Figure:
    """Draw medians of the FactorVAE score, unsupervised scores, and the transfer of DCI between data sets."""
    frame = study.words_of(METRICS)
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, centre, right = figure.subplots(1, 3)
    data = _one_of(frame["data"], "cars3d")
    score = "FactorVAE score" if "FactorVAE score" in set(frame["metric"]) else next(iter(METRICS))
    medians = by_strength(frame[frame["data"] == data])
    here = medians[medians["score"] == score]
    _medians(left, here, unique(here["method"]))
    left.set_title(f"{score} on {name(data)}", fontsize=8)
    left.set_xlabel("strength, from least to greatest", fontsize=7)
    left.set_xticks(range(int(medians.groupby("method")["strength"].nunique().max())))
    left.tick_params(labelsize=6)
    left.legend(fontsize=6)
    free = _unsupervised(frame[frame["data"] == _one_of(frame["data"], "shapes3d")])
    _heat(centre, free, "unsupervised", "score")
    centre.set_title(f"unsupervised scores, {name(_one_of(frame['data'], 'shapes3d'))}", fontsize=8)
    try:
        moved = transfer(frame)
        shown = _one_of(moved["score"], "DCI Disentanglement")
        both = moved[moved["score"] == shown]
        _heat(right, pd.concat([both, both.rename(columns={"a": "b", "b": "a"})]), "a", "b")
        right.set_title(f"transfer of {shown}", fontsize=8)
    except NotEnough as error:
        study.note(f"without transfer, which {error}: add one under `data` in study.toml, then `karenina study run`")
        right.axis("off")
    return figure


def _heat(axis: Axes, frame: pd.DataFrame, rows: str, columns: str) -> None:
    """Draw correlations in hundredths, in one panel."""
    down, across = unique(frame[rows]), unique(frame[columns])
    across = down if set(down) == set(across) else across
    matrix = np.full((len(down), len(across)), np.nan)
    i, j = (pd.Categorical(frame[key], names).codes for key, names in ((rows, down), (columns, across)))
    matrix[i, j] = frame["correlation"]
    axis.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu", aspect="auto")
    for (y, x), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            shade = "white" if abs(value) > 0.6 else "black"
            axis.text(x, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=shade)
    axis.set_xticks(range(len(across)), [name(key) for key in across], rotation=60, ha="right", fontsize=6)
    axis.set_yticks(range(len(down)), [name(key) for key in down], fontsize=6)


def figure_15(study: Study) -> Figure:
    """Draw median against strength: a row per data set, a column per metric."""
    found = by_strength(study.words_of(METRICS))
    names = [score for score in METRICS if score in set(found["score"])]
    datas, methods = unique(found["data"]), unique(found["method"])
    figure, axes = panel_grid(len(datas), len(names))
    for line, data in zip(axes, datas):
        for axis, score in zip(line, names):
            part = found[(found["data"] == data) & (found["score"] == score)]
            _medians(axis, part, methods)
            axis.set_xticks(range(int(part.groupby("method")["strength"].nunique().max()) if len(part) else 0))
            axis.tick_params(labelsize=6)
        line[0].set_ylabel(name(data), fontsize=7)
    for axis, score in zip(axes[0], names):
        axis.set_title(score, fontsize=8)
    for axis in axes[-1]:  # one label for all would lie under the legend
        axis.set_xlabel("strength, from least to greatest", fontsize=6)
    legend(figure, axes[0, 0])
    return figure


def figure_16(study: Study) -> Figure:
    return correlation_map(_unsupervised(study.words_of(METRICS)))


def _unsupervised(frame: pd.DataFrame) -> pd.DataFrame:
    found = unsupervised(frame)
    kept = found[found["unsupervised"].isin([*UNSUPERVISED])]
    found = kept if len(kept) else found
    return found.assign(unsupervised=found["unsupervised"].replace(UNSUPERVISED))


def figure_17(study: Study) -> Figure:
    return correlation_map(_transfer(study))


def figure_18(study: Study) -> Figure:
    """Draw median scores of every setting on one data set (dSprites) against those on each other: a column per
    metric."""
    scores = wide_table(study.words_of(METRICS))
    _transfer(study)  # says what is missing
    names = [score for score in METRICS if np.isfinite(column(scores, score)).any()]
    base = _one_of(scores.runs["data"], "dsprites")
    others = [data for data in unique(scores.runs["data"]) if data != base]
    figure, axes = panel_grid(len(others), len(names))
    for j, score in enumerate(names):
        table = scores.runs.assign(value=column(scores, score))
        medians = table.groupby(["setting", "data"])["value"].median().unstack("data")
        methods = table.groupby("setting")["method"].first().reindex(medians.index)
        for i, data in enumerate(others):
            scatter(axes[i, j], medians[base].to_numpy(), medians[data].to_numpy(), list(methods))
            axes[i, 0].set_ylabel(name(data), fontsize=7)
        axes[0, j].set_title(score, fontsize=8)
        axes[-1, j].set_xlabel(name(base), fontsize=7)
    legend(figure, axes[0, 0])
    return figure


def _transfer(study: Study) -> pd.DataFrame:
    try:
        return transfer(study.words_of(METRICS))
    except NotEnough as error:
        raise NotEnough(f"{error}: add one under `data` in study.toml, then `karenina study run`") from None


def _one_of(values: "pd.Series[str]", wanted: str) -> str:
    """Return the value of this name, whatever its options, which the paper shows; else the first."""
    found = unique(values)
    return next((value for value in found if str(value).split(":")[0] == wanted), found[0])
