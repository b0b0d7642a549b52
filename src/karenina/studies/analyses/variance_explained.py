"""Method, strength or luck? Variance of scores explained by method and by setting."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.resampling import RESAMPLES, interval, same_rows
from karenina.studies.analyses.charts import Chart, Panel, Series, columns_of
from karenina.studies.analyses.shared import groups, join, panels, preferred, short
from karenina.studies.results.table import wide_table

Floats = NDArray[np.float64]


def compute(frame: pd.DataFrame, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Share of the variance of each score that its method explains, and that its setting (method x strength) does.

    R^2 of least squares on categories, as a fraction; the rest is due to the seed. Locatello et al. (2019), section
    5.3, Table 5. `adjusted` takes off what random groups would explain. The interval has the spread of resamples of
    the seeds within settings, about the estimate: a resample varies less than its original, so their mean is above it.
    -> data, score, predictor, explained, low, high, adjusted, runs
    """
    table = wide_table(frame)
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
                resampled = _r2(y, label[valid], weights)
                low, high = (explained + bound for bound in interval(resampled - resampled.mean(axis=0)))
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


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Variance explained by the method, and by method and strength."""
    datas = list(dict.fromkeys(frame["data"]))
    words = {"method": "method", "setting": "method and strength"}
    if not (frame.loc[frame["predictor"] == "method", "explained"] > 0).any():  # there is one method
        words = {"setting": "strength"}

    def panel(title: str, part: pd.DataFrame) -> Panel:
        series = []
        for p, predictor in enumerate(words):
            here = part[part["predictor"] == predictor]
            x = pd.Categorical(here["data"], datas).codes.tolist()
            numbers = columns_of(here, y="explained", low="low", high="high")
            series.append(Series(words[predictor], x, **numbers, colour=p))
        return Panel(title, tuple(series), "", "share of variance", tuple(map(short, datas)), (0.0, 1.0))

    note = "Whiskers: 95 % interval. What is left is the seed's."
    return Chart("bars", panels(frame, scores, panel), "share of variance", note)


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    lines = []
    for name, part in groups(frame[frame["score"] == score], "data"):
        share = part.set_index("predictor")["explained"]
        text = (
            f"Of the variance of {score}, the method explains {100 * share['method']:.0f} % and method with strength "
        )
        text += f"{100 * share['setting']:.0f} %; the remaining {100 * (1 - share['setting']):.0f} % is the seed."
        lines.append((name, text))
    return join(lines, frame["data"].nunique())
