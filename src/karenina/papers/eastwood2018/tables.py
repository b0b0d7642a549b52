"""Tables and figures of Eastwood & Williams (2018)."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.data import join_name, split_name
from karenina.drawing.charts import hinton, panel_grid
from karenina.drawing.figure import Figure
from karenina.drawing.pictures import mosaic, show
from karenina.evaluation.scoring import has_gap
from karenina.metrics import dci
from karenina.papers.drawing import STEPS, about, wall
from karenina.papers.tables import PaperTable, name
from karenina.studies.study import NotEnough, Study

MODELS = ("lasso", "forest")
SPLITS = "regression_forest_splits"
PARTS = ("disentanglement", "completeness", "nrmse")
REGRESSION = 'also = ["regression"] under [evaluation] in study.toml, then `karenina study run`'
ZERO_SHOT = (
    'data = "teapots:gap=exclude" and also = ["zero_shot"] under [evaluation] in study.toml, then `karenina study run`'
)
BETA = "The paper's β-VAE has β = 6. Means over seeds."
POINTS = 5000  # in figure 5
RANKS = (
    "D of codes by rank, the highest first: latents have no order, so a mean over seeds of the D of one code says "
    "nothing, and the paper's D of each code has no counterpart."
)
CIRCULAR = {"azimuth": 3}  # codes shown for a factor that is an angle
ROWS = 5000  # from which importances of the figures are computed


def table_1(study: Study) -> PaperTable:
    found = _regression(study)
    found = found[found["factor"] == ""].rename(columns={"property": "part"})
    return PaperTable(_means(found, ["model", "part"]), ("data", "model", "method", "parameters"), ("part",), note=BETA)


def _full(study: Study, model: str) -> PaperTable:
    """Return D of the codes by rank, C and NRMSE of each factor, and their averages."""
    found = _regression(study)
    found = found[found["model"] == model].rename(columns={"property": "part"})
    if found.empty:
        raise NotEnough(f"needs {REGRESSION}")
    codes = found[found["factor"].str.startswith("code ")]
    rank = codes.groupby(["run", "part"])["value"].rank(method="first", ascending=False).astype(int)
    codes = codes.assign(of="rank " + rank.astype(str)).loc[rank.sort_values(kind="stable").index]
    whole = found["factor"] == ""
    factors = found[~whole & ~found.index.isin(codes.index)]
    found = pd.concat([codes, factors.assign(of=factors["factor"]), found[whole].assign(of="average")])
    frame = _means(found, ["part", "of"])
    return PaperTable(frame, ("data", "part", "method", "parameters"), ("of",), note=f"{BETA} {RANKS}")


table_3 = partial(_full, model="lasso")
table_4 = partial(_full, model="forest")


def _regression(study: Study) -> pd.DataFrame:
    """Return rows of the results that `also = ["regression"]` gives, with the column model.

    The forest's importances are decreases of impurity, scikit-learn's. The text describes shares of splits: these stand
    beside it, but cannot be what is printed, since grown trees split on every code about as often.
    """
    frame = study.frame[study.frame["metric"].isin(["regression_lasso", "regression_forest", SPLITS])]
    if frame.empty:
        raise NotEnough(f"needs {REGRESSION}")
    names = {"regression_lasso": "lasso", "regression_forest": "forest", SPLITS: "forest, by splits"}
    frame = frame.assign(model=frame["metric"].map(names))
    order = {part: i for i, part in enumerate(PARTS)}
    return frame.sort_values("property", key=lambda column: column.map(order), kind="stable")


def _means(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean and standard deviation over seeds."""
    groups = frame.groupby(["data", "method", "parameters", *by], sort=False)["value"]
    found = groups.agg(value="mean", std="std", runs="size").reset_index()
    return found if (found["runs"] > 1).any() else found.drop(columns="std")


def table_5(study: Study) -> PaperTable:
    metrics = {f"zero_shot_{model}_inside": model for model in MODELS}
    found = study.frame[study.frame["metric"].isin(list(metrics))]
    if found.empty:
        raise NotEnough(f"needs {ZERO_SHOT}")
    found = found.assign(model=found["metric"].map(metrics))
    found["factor"] = found["factor"].where(found["factor"] != "", "average")
    last = found["factor"] == "average"
    frame = _means(pd.concat([found[~last], found[last]]), ["model", "factor"])
    return PaperTable(frame, ("data", "model", "method", "parameters"), ("factor",), note=BETA)


def figure_2(study: Study) -> Figure:
    """Draw images of the data."""
    return _samples(study, str(about(study)["data"].iloc[0]))


def figure_4(study: Study) -> Figure:
    """Draw images of the corner that the data leave out."""
    data = next((str(one) for one in about(study)["data"] if has_gap(one)), None)
    if data is None:
        raise NotEnough(f"needs {ZERO_SHOT}")
    head, options = split_name(data)
    return _samples(study, join_name(head, {**options, "gap": "only"}))


def _samples(study: Study, data: str) -> Figure:
    images = study.data(data).sample(32, np.random.default_rng(0))[0].astype(np.float32) / np.float32(255)
    figure, axes = panel_grid(1, 1, 6, 3)
    show(axes[0, 0], mosaic(images.reshape(4, 8, *images.shape[1:])))
    axes[0, 0].set_title(name(data), fontsize=8)
    return figure


def figure_3(study: Study) -> Figure:
    """Draw importances as Hinton diagrams: codes down, factors across; lasso above, forest below, a column per
    model."""
    runs = _one_of_each(study)
    figure, axes = panel_grid(2, len(runs), 2.3, 3.2)
    for j, (run, row) in enumerate(runs.iterrows()):
        for i, model in enumerate(MODELS):
            names = study.data(row["data"]).factor_names
            hinton(axes[i, j], np.nan_to_num(_importance(study, str(run), str(row["data"]), model)))
            axes[i, j].set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=6)
            axes[i, j].set_ylabel(f"{model}: code", fontsize=6)
            axes[i, j].set_yticks(range(len(study.codes(str(run))[1])))
            axes[i, j].tick_params(labelsize=6)
        axes[0, j].set_title(_label(row), fontsize=7)
    return figure


def figure_5(study: Study) -> Figure:
    """Draw each factor against its most important code by the forest, an angle against three: a column per model."""
    runs = _one_of_each(study)
    names = study.data(runs["data"].iloc[0]).factor_names
    lines = [(k, place) for k, factor in enumerate(names) for place in range(CIRCULAR.get(factor, 1))]
    figure, axes = panel_grid(len(lines), len(runs), 2.2, 1.7)
    for j, (run, row) in enumerate(runs.iterrows()):
        codes = np.array(study.codes(str(run))[0][:POINTS])
        factors = study.inputs(str(row["data"]))[1][: len(codes)].astype(float)
        importance = np.nan_to_num(_importance(study, str(run), str(row["data"]), "forest"))
        for i, (k, place) in enumerate(lines):
            code = int(np.argsort(-importance[:, k], kind="stable")[min(place, len(importance) - 1)])
            axes[i, j].plot(factors[:, k], codes[:, code], ".", markersize=1.2, alpha=0.4, rasterized=True)
            axes[i, j].set_xlabel(names[k], fontsize=6)
            axes[i, j].set_ylabel(f"code {code}", fontsize=6)
            axes[i, j].tick_params(labelsize=5)
        axes[0, j].set_title(_label(row), fontsize=7)
    return figure


def figure_6(study: Study) -> Figure:
    """Draw traversals over three deviations of the prior, InfoGAN's over its range; codes by the factor they
    capture."""
    runs = _one_of_each(study)
    figure, (axes,) = panel_grid(1, len(runs), 2.8, 2.4 * int(runs["latents"].max()) / STEPS + 0.5)
    for axis, (run, row) in zip(axes, runs.iterrows()):
        importance = np.nan_to_num(_importance(study, str(run), str(row["data"]), "forest"))
        order = np.lexsort((-importance.max(axis=1), importance.argmax(axis=1)))
        wall(axis, study, str(run), deviations=3.0, latents=len(order), order=order.tolist(), fade=False)
        names = study.data(row["data"]).factor_names
        labels = [f"{names[importance[code].argmax()]}: {code}" for code in order]
        axis.set_yticks(axis.get_yticks(), labels, fontsize=5)
        axis.set_title(_label(row), fontsize=7)
    return figure


def _one_of_each(study: Study) -> pd.DataFrame:
    """Return the first seed of every setting on the first data set."""
    study.folder()
    runs = about(study)
    runs = runs[runs["data"] == runs["data"].iloc[0]]
    return runs.sort_values("seed", kind="stable").drop_duplicates("setting")


def _label(row: "pd.Series[Any]") -> str:
    return f"{name(row['method'])} {row['parameters']}".strip()


def _importance(study: Study, run: str, data: str, model: str) -> NDArray[np.float64]:
    """Return importances (codes, factors)."""
    if not study.data(data).labelled:
        raise NotEnough("needs labels")
    codes = np.array(study.codes(run)[0][:ROWS])
    factors = study.inputs(data)[1][: len(codes)]
    return dci(codes, factors, model=model, continuous=True).importance  # type: ignore[no-any-return]
