"""What method and strength do to scores and their variance, and to the dependence and the number of latents."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import RESAMPLES, interval, mean_bounds, median_bounds, quartiles, same_rows
from karenina.studies.analyses.charts import Chart, Panel, Series, columns_of
from karenina.studies.analyses.shared import (
    MOST_PARTS,
    groups,
    join,
    panels,
    preferred,
    short,
    strength_axis,
    sweep_of,
    with_parameter,
)
from karenina.studies.results.table import need, wide_table


def by_method(frame: pd.DataFrame, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Quartiles of each score in each group, with an interval of the median.

    by method: Locatello et al. (2019), figures 3 and 13. By method and strength: figures 4, 14 and 15, and the boxes of
    Duan et al. (2020), figures 2 and 7.
    -> data, *by, score, runs, least, q25, median, q75, most, low, high
    """
    table = wide_table(frame)
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


def by_method_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Range, quartiles and median of each score, by method and data set."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))

    def panel(title: str, part: pd.DataFrame) -> Panel:
        series = []
        for d, data in enumerate(datas):
            here = part[part["data"] == data]
            x = pd.Categorical(here["method"], methods).codes.tolist()
            numbers = columns_of(here, y="median", low="q25", high="q75", least="least", most="most", count="runs")
            series.append(Series(short(data), x, **numbers, colour=d))
        return Panel(title, tuple(series), ticks=tuple(methods))

    note = "Circle: median; thick: the middle half of the models; thin: all of them."
    return Chart("boxes", panels(frame, scores, panel), note=note)


def by_method_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    lines = []
    for name, part in groups(frame[frame["score"] == score], "data"):
        ordered = part.sort_values("median", ascending=False)
        top, last = ordered.iloc[0], ordered.iloc[-1]
        text = f"{score} of {top['method']} has the median {top['median']:.2f} and runs from {top['least']:.2f} to "
        text += f"{top['most']:.2f} over {int(top['runs'])} models"
        if len(ordered) > 1:
            overlap = "overlap" if last["most"] >= top["least"] else "do not overlap"
            text += f"; that of {last['method']}, the lowest, is {last['median']:.2f}. Their ranges {overlap}"
        lines.append((name, text + "."))
    return join(lines, frame["data"].nunique())


def by_strength(frame: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of each score by method and strength, with an interval of the median.

    Locatello et al. (2019), figures 4, 14 and 15; Duan et al. (2020), figures 2 and 7.
    -> data, method, strength, score, runs, least, q25, median, q75, most, low, high, parameter (the strength's name)
    """
    return with_parameter(by_method(frame, ("method", "strength")), frame)


def by_strength_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Median score against strength, for each method and data set. Strengths are ranked: each method has its own."""
    methods, datas = list(dict.fromkeys(frame["method"])), list(dict.fromkeys(frame["data"]))

    def panel(title: str, part: pd.DataFrame) -> Panel:
        ticks, label = strength_axis(part)
        series = []
        for (data, method), line in part.groupby(["data", "method"], sort=False):
            line = line.sort_values("strength")
            m, d = methods.index(method), datas.index(data)
            bounds = columns_of(line, low="low", high="high") if len(datas) == 1 else {}
            series.append(
                Series(
                    f"{method}, {short(data)}" if len(datas) > 1 else method,
                    range(len(line)),
                    line["median"].tolist(),
                    **bounds,
                    count=line["runs"].tolist() if "runs" in line else (),
                    at=[f"{value:g}" for value in line["strength"]],
                    colour=m,
                    dash=d,
                )
            )
        return Panel(title, tuple(series), label, "median", ticks)

    legend: list[tuple[str, int | None, int | None]] = [(sweep_of(frame, m), i, 0) for i, m in enumerate(methods)]
    legend += [(short(data), None, d) for d, data in enumerate(datas)] if len(datas) > 1 else []
    note = "Bands: 95 % interval of the median, where there are models enough." if len(datas) == 1 else ""
    return Chart("lines", panels(frame, scores, panel), note=note, legend=tuple(legend) if len(legend) > 1 else ())


def by_strength_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    here = frame[(frame["score"] == score) & frame["strength"].notna()]
    if here.empty:
        return "No method has a strength."
    lines = []
    for name, part in groups(here, "data", "method"):
        ordered = part.sort_values("strength")
        first, last, top = ordered.iloc[0], ordered.iloc[-1], ordered.loc[ordered["median"].idxmax()]
        text = f"The median of {score} goes from {first['median']:.2f} at strength {first['strength']:g} to "
        text += (
            f"{last['median']:.2f} at {last['strength']:g}; the highest is {top['median']:.2f} at {top['strength']:g}."
        )
        lines.append((name, text))
    return join(lines, here.groupby(["data", "method"]).ngroups)


def variance_explained(frame: pd.DataFrame, resamples: int = RESAMPLES) -> pd.DataFrame:
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


def variance_explained_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
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


def variance_explained_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
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


def total_correlation(frame: pd.DataFrame) -> pd.DataFrame:
    """Median dependence between latents, of mean and of sampled codes, against strength.

    Locatello et al. (2019), section 5.1, figures 1, 8-10 and 24-27. mean_above_sampled: share of runs whose mean codes
    depend on each other more than their sampled codes do (figure 10).
    -> data, method, strength, score, representation, median, low, high, runs, mean_above_sampled, parameter
    """
    table = wide_table(frame)
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
    return with_parameter(pd.DataFrame(lines, columns=[*names, "mean_above_sampled"]), frame)


def total_correlation_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Dependence between latents against strength: mean codes solid, sampled codes dashed."""
    methods = list(dict.fromkeys(frame["method"]))
    several = frame["data"].nunique() > 1
    labelled = frame.assign(score=frame["score"] + ("\n" + frame["data"] if several else ""))

    def panel(title: str, part: pd.DataFrame) -> Panel:
        ticks, label = strength_axis(part)
        series = []
        for (method, kind), line in part.groupby(["method", "representation"], sort=False):
            line = line.sort_values("strength")
            at = [f"{value:g}" for value in line["strength"]]
            style: dict[str, Any] = {"colour": methods.index(method), "dash": int(kind == "sampled")}
            name = f"{method}, {kind} codes"
            series.append(Series(name, range(len(line)), line["median"].tolist(), at=at, **style))
        return Panel(title, tuple(series), label, "nats", ticks, symlog=True)

    legend: list[tuple[str, int | None, int | None]] = [(sweep_of(frame, m), i, 0) for i, m in enumerate(methods)]
    legend += [("mean codes", None, 0), ("sampled codes", None, 1)]
    note = "Medians over models. The axis is logarithmic beyond 0.01."
    return Chart("lines", panels(labelled, None, panel), note=note, legend=tuple(legend))


def total_correlation_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    measure = "total_correlation" if "total_correlation" in set(frame["score"]) else frame["score"].iloc[0]
    here = frame[frame["score"] == measure]
    lines = []
    for name, part in groups(here, "data", "method"):
        ends = {}
        for kind in ("sampled", "mean"):
            line = part[part["representation"] == kind].sort_values("strength")["median"]
            ends[kind] = " to ".join(f"{value:.2f}" for value in [*line.iloc[:1], *line.iloc[1:][-1:]]) or "unknown"
        above = np.average(part["mean_above_sampled"], weights=part["runs"])
        several = part["strength"].nunique() > 1
        text = "From the least to the greatest strength the" if several else "The"
        text += f" total correlation of sampled codes {'goes from' if several else 'is'} {ends['sampled']}, "
        text += f"that of mean codes {'from ' if several else ''}{ends['mean']}; "
        text += f"it is higher for mean codes in {100 * above:.0f} % of the models."
        lines.append((name, text))
    return join(lines, here.groupby(["data", "method"]).ngroups)


def polarised(frame: pd.DataFrame) -> pd.DataFrame:
    """How many latents are switched off, by method: the polarised regime. Duan et al. (2020), appendix A.10.

    A latent is off when it is not informative (`karenina._active`). runs_with_off: share of runs that have one.
    -> data, method, latents, off, std, low, high, runs_with_off, runs
    """
    table = wide_table(frame)
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


def polarised_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Latents switched off, by method, number of latents (where it differs) and data set."""
    sizes = frame["latents"].nunique() > 1
    names = frame["method"] + (", " + frame["latents"].astype(int).astype(str) + " latents" if sizes else "")
    bars = list(dict.fromkeys(names))
    series = []
    for d, data in enumerate(dict.fromkeys(frame["data"])):
        here = frame[frame["data"] == data]
        x = pd.Categorical(names[here.index], bars).codes.tolist()
        numbers = columns_of(here, y="off", low="low", high="high", count="runs")
        series.append(Series(short(data), x, **numbers, colour=d))
    panel = Panel("", tuple(series), "", "latents switched off", tuple(bars))
    return Chart("bars", (panel,), "latents switched off", "Whiskers: 95 % interval of the mean.")


def polarised_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    lines = [
        f"{row.method} on {row.data} switches off {row.off:.1f} of {int(row.latents)} latents on average, "
        f"in {100 * row.runs_with_off:.0f} % of the models at least one"
        for row in frame.itertuples()
    ]
    rest = len(lines) - 2 * MOST_PARTS
    return "; ".join(lines[: 2 * MOST_PARTS]) + "." + (f" The figure has {rest} more." if rest > 0 else "")
