"""The main comparisons of papers since 2020: pairs, few labels, correlated factors, quantised latents."""

import math
import re
from collections.abc import Sequence

import pandas as pd

from karenina.data import split_name
from karenina.metrics.registry import score_name
from karenina.papers.tables import PaperTable
from karenina.studies.analyses.scores import ASIDE
from karenina.studies.study import TASK, UNSUPERVISED, NotEnough, Study


def scores(study: Study) -> pd.DataFrame:
    """Return the metrics of all runs, one row each: data, method, parameters, setting, seed, score, value."""
    frame = study.frame
    metrics = ~frame["family"].isin([*UNSUPERVISED, TASK, *ASIDE])
    frame = frame[(frame["factor"] == "") & metrics & frame["value"].notna()]
    if frame.empty:
        raise NotEnough("needs metrics under [evaluation] in study.toml, then `karenina study run`")
    several = frame.groupby("metric")["property"].nunique() > 1
    names = [
        score_name(metric, prop, several=several[metric]) for metric, prop in zip(frame["metric"], frame["property"])
    ]
    return frame.assign(score=names)


def medians(found: pd.DataFrame, by: Sequence[str] = ("data", "method")) -> pd.DataFrame:
    """Return the median over the seeds of each setting, and of the settings of each group the one whose median is best.

    -> *by, parameters, score, value, runs
    """
    keys = [*by, "score", "setting", "parameters"]
    table = found.groupby(keys, sort=False)["value"].agg(value="median", runs="size").reset_index()
    best = table.groupby([*by, "score"], sort=False)["value"].idxmax()
    return table.loc[best].drop(columns="setting").reset_index(drop=True)


def pairs(study: Study) -> PaperTable:
    """Return the main comparison of Locatello et al. (2020), "Weakly-supervised disentanglement without
    compromises"."""
    note = (
        "Medians over seeds. best: of the setting whose median is highest, which labels choose. reconstruction: of the "
        "model that reconstructs best of all settings and seeds, which needs no labels; so the paper chooses."
    )
    found = scores(study)
    chosen = medians(found).assign(choice="best")
    label_free = study.frame[study.frame["metric"] == "reconstruction"]
    rows = [chosen]
    if len(label_free):
        lowest = label_free.groupby(["data", "method"], sort=False)["value"].idxmin()
        runs = label_free.loc[lowest, "run"]
        rows.append(found[found["run"].isin(runs)].assign(choice="reconstruction", runs=1))
    columns = ["data", "method", "choice", "parameters", "score", "value", "runs"]
    frame = pd.concat([part[columns] for part in rows], ignore_index=True)
    return PaperTable(frame, ("data", "method", "choice"), ("score",), note=note)


def few_labels(study: Study) -> PaperTable:
    """Return the main comparison of Locatello et al. (2020), "Disentangling factors of variation using few labels"."""
    note = "Medians over seeds, of the setting whose median is highest. labels: images with labels in training."
    found = scores(study)
    given = found["parameters"].map(labels)
    if given.nunique() < 2:
        raise NotEnough(
            "needs models with and without labels: supervised = [0, 100] of a method in study.toml, "
            "then `karenina study run`"
        )
    frame = medians(found.assign(labels=given), ("data", "method", "labels"))
    return PaperTable(frame, ("data", "method", "labels"), ("score",), note=note)


def labels(parameters: str) -> int:
    """Return how many images had labels, from the parameters of a run.

    >>> labels("beta=4 supervised=100"), labels("beta=4")
    (100, 0)
    """
    matched = re.search(r"\bsupervised=(\d+)", parameters)
    return int(matched[1]) if matched else 0


def correlated(study: Study) -> PaperTable:
    """Return the main comparison of Träuble et al. (2021): correlated factors."""
    note = (
        "Medians over seeds, of the setting whose median is highest. Scores are those on uniform factors, whatever the "
        "training's. sigma: of the correlation, inf for none."
    )
    found = scores(study)
    options = [split_name(name) for name in found["data"]]
    sigma = [float(given.get("sigma", 0.2)) if given.get("correlate") else math.inf for _, given in options]
    if all(math.isinf(value) for value in sigma):
        raise NotEnough('needs correlated data such as "blobs:correlate=x+y,sigma=0.2", then `karenina study run`')
    found = found.assign(set=[name for name, _ in options], sigma=sigma)
    frame = medians(found, ("set", "sigma", "method"))
    frame = frame.sort_values(["set", "sigma"], kind="stable", ascending=[True, False])
    return PaperTable(frame, ("set", "sigma", "method"), ("score",), note=note)


def quantised(study: Study) -> PaperTable:
    """Return the main comparison of Hsu et al. (2023): quantised latents."""
    note = "Medians over seeds, of the setting whose median is highest."
    return PaperTable(medians(scores(study)), ("data", "method"), ("score",), note=note)
