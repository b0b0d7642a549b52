"""Scores of settings, and of the best setting of each method: what the main tables of papers since 2020 show."""

from collections.abc import Sequence

import pandas as pd

from karenina.metrics.registry import score_name
from karenina.studies.papers.study import Study
from karenina.studies.results.table import ASIDE, TASK, UNSUPERVISED, NotEnough


def scores(study: Study) -> pd.DataFrame:
    """The metrics of all runs, one row each: data, method, parameters, setting, seed, score, value."""
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
    """Median over the seeds of each setting, and of the settings of each group the one whose median is best.

    -> *by, parameters, score, value, runs
    """
    keys = [*by, "score", "setting", "parameters"]
    table = found.groupby(keys, sort=False)["value"].agg(value="median", runs="size").reset_index()
    best = table.groupby([*by, "score"], sort=False)["value"].idxmax()
    return table.loc[best].drop(columns="setting").reset_index(drop=True)
