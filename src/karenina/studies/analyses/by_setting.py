"""The effects of method and strength on scores and their variance, and on the dependence and the number of latents."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.drawing.charts import Chart, Panel, Series, columns_of
from karenina.numerics.arrays import Floats
from karenina.numerics.resampling import (
    INTERVAL,
    RANGE,
    median_bounds,
    quartiles,
    same_rows,
    share_bounds,
    without_each,
)
from karenina.studies.analyses.scores import (
    MOST_PARTS,
    groups,
    join,
    need,
    panels,
    preferred,
    short,
    strength_axis,
    sweep_of,
    wide_table,
    with_parameter,
)


def by_method(frame: pd.DataFrame, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Return the quartiles of each score in each group, with bounds of the median: its 95 % interval, or the range of
    fewer than six models; the column `bounds` says which.

    by method: Locatello et al. (2019), figures 3 and 13. By method and strength: figures 4, 14 and 15, and the boxes of
    Duan et al. (2020), figures 2 and 7.
    -> data, *by, score, runs, least, q25, median, q75, most, low, high, bounds
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
    lines[["low", "high"]], lines["bounds"] = median_bounds(groups)
    return lines


def by_method_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of range, quartiles and median of each score, by method and data set."""
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
    """Return the quartiles of each score by method and strength, with bounds of the median as in `by_method`.

    Locatello et al. (2019), figures 4, 14 and 15; Duan et al. (2020), figures 2 and 7.
    -> data, method, strength, score, runs, least, q25, median, q75, most, low, high, bounds, parameter (the strength's
    name)
    """
    return with_parameter(by_method(frame, ("method", "strength")), frame)


def by_strength_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the median score against strength, for each method and data set. Strengths are ranked: each
    method has its own."""
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
    note = _bands(frame) if len(datas) == 1 else ""
    return Chart("lines", panels(frame, scores, panel), note=note, legend=tuple(legend) if len(legend) > 1 else ())


def _bands(frame: pd.DataFrame) -> str:
    """Return what the bands of medians are."""
    words = {INTERVAL: "95 % interval of the median", RANGE: "range of the models, which are fewer than six"}
    there = set(frame.get("bounds", ()))
    return (
        f"Bands: {', or '.join(text for kind, text in words.items() if kind in there)}." if there & set(words) else ""
    )


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


def variance_explained(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the variance of each score that its method explains, and that its setting (method x strength)
    does.

    Locatello et al. (2019), section 5.3, Table 5. explained: the paper's share, R^2 of least squares on categories; the
    rest is due to the seed. Groups of few models differ by chance alone, so it is too large: `adjusted` takes off what
    the variance between seeds adds to it, and has a 95 % interval, from leaving out one seed at a time.
    -> data, score, predictor, explained, adjusted, low, high, runs
    """
    table = wide_table(frame)
    columns = np.array(table.labelled())
    lines = []
    for (data,), rows in table.groups("data"):
        about = table.runs.iloc[rows]
        labels = {name: pd.factorize(about[name])[0] for name in ("method", "setting", "seed")}
        for chosen, valid in same_rows(table.values[np.ix_(rows, columns)]):
            y = table.values[np.ix_(rows[valid], columns[chosen])]
            if len(y) < 3:
                continue
            seed = labels["seed"][valid]
            seeds = np.unique(seed)
            kept = np.vstack([np.ones(len(seed)), seed != (seeds if len(seeds) > 1 else seeds[:0])[:, None]])
            for predictor in ("method", "setting"):
                explained, adjusted = _explained(y, labels[predictor][valid], labels["setting"][valid], kept)
                low, high = np.clip(share_bounds(adjusted[0], adjusted[1:]), 0, 1)
                for i, j in enumerate(columns[chosen]):
                    shares = explained[0, i], adjusted[0, i], low[i], high[i]
                    lines.append((data, table.names[j], predictor, *shares, len(y)))
    return pd.DataFrame(lines, columns=["data", "score", "predictor", "explained", "adjusted", "low", "high", "runs"])


def _explained(
    y: Floats, groups: NDArray[np.int64], settings: NDArray[np.int64], kept: Floats
) -> tuple[Floats, Floats]:
    """Return R^2 (B, K) of each column of y (n, K) on group means, of the rows that are kept (B, n), and the same
    without what differences between the seeds of a setting add to it: NaN where no setting has two."""
    y = y - y.mean(axis=0)
    shift = (kept @ y) ** 2 / kept.sum(axis=1, keepdims=True)
    total = kept @ y**2 - shift
    between, count = _between(y, groups, kept)
    of_settings, number = _between(y, settings, kept)
    free = kept.sum(axis=1, keepdims=True) - number
    with np.errstate(invalid="ignore", divide="ignore"):
        seeds = np.where(free > 0, (total - (of_settings - shift)) / free, np.nan)
        return (between - shift) / total, (between - shift - (count - 1) * seeds) / total


def _between(y: Floats, groups: NDArray[np.int64], kept: Floats) -> tuple[Floats, Floats]:
    """Return the sum (B, K) over groups of their size and squared mean, and how many groups (B, 1) there are."""
    found, count = np.zeros((len(kept), y.shape[1])), np.zeros((len(kept), 1))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        size = kept[:, rows].sum(axis=1, keepdims=True)
        found += np.divide((kept[:, rows] @ y[rows]) ** 2, size, out=np.zeros_like(found), where=size > 0)
        count += size > 0
    return found, count


def variance_explained_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the adjusted share of the variance that the method explains, and that method and strength
    do."""
    datas = list(dict.fromkeys(frame["data"]))
    words = {"method": "method", "setting": "method and strength"}
    if not (frame.loc[frame["predictor"] == "method", "explained"] > 0).any():  # there is one method
        words = {"setting": "strength"}

    def panel(title: str, part: pd.DataFrame) -> Panel:
        series = []
        for p, predictor in enumerate(words):
            here = part[part["predictor"] == predictor]
            x = pd.Categorical(here["data"], datas).codes.tolist()
            numbers = columns_of(here, y="adjusted", low="low", high="high")
            series.append(Series(words[predictor], x, **numbers, colour=p))
        return Panel(title, tuple(series), "", "share of variance", tuple(map(short, datas)), (0.0, 1.0))

    note = "Without what chance alone explains. Whiskers: 95 % interval. What is left is the seed's."
    return Chart("bars", panels(frame, scores, panel), "share of variance", note)


def variance_explained_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = preferred(frame, prefer)
    lines = []
    for name, part in groups(frame[frame["score"] == score], "data"):
        shares = part.set_index("predictor")
        if shares["adjusted"].isna().all():
            lines.append((name, f"With one seed of each setting, chance cannot be told from what they do to {score}."))
            continue
        of_method, of_setting = (_percent(shares.loc[key]) for key in ("method", "setting"))
        plain = " and ".join(f"{100 * shares.loc[key, 'explained']:.0f} %" for key in ("method", "setting"))
        text = (
            f"Of the variance of {score}, the method explains {of_method} and method with strength {of_setting}; the "
        )
        text += (
            f"remaining {100 * (1 - max(shares.loc['setting', 'adjusted'], 0)):.0f} % is the seed. With what chance "
        )
        text += f"explains, as the paper counts: {plain}."
        lines.append((name, text))
    return join(lines, frame["data"].nunique())


def _percent(row: "pd.Series[float]") -> str:
    """Return an adjusted share with its interval. One below 0, which chance gives, is 0."""
    bounds = f" [{100 * row['low']:.0f}, {100 * row['high']:.0f}]" if np.isfinite(row["low"]) else ""
    return f"{100 * max(row['adjusted'], 0):.0f} %{bounds}"


def total_correlation(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the median dependence between latents, of mean and of sampled codes, against strength; bounds as in
    `by_method`.

    Locatello et al. (2019), section 5.1, figures 1, 8-10 and 24-27. mean_above_sampled: share of runs whose mean codes
    depend on each other more than their sampled codes do (figure 10).
    -> data, method, strength, score, representation, median, low, high, bounds, runs, mean_above_sampled, parameter
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
                    bounds, what = median_bounds([values])
                    lines.append((*key, measure, kind, np.median(values), *bounds[0], *what, len(values), above))
    names = ["data", "method", "strength", "score", "representation", "median", "low", "high", "bounds", "runs"]
    return with_parameter(pd.DataFrame(lines, columns=[*names, "mean_above_sampled"]), frame)


def total_correlation_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the dependence between latents against strength: mean codes solid, sampled codes dashed."""
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
    """Return how many latents are switched off, by method: the polarised regime. Duan et al. (2020), appendix A.10.

    A latent is off when it is not active, by the study's kl_threshold. runs_with_off: share of runs that have one. The
    interval is that of leaving out one seed at a time, for three seeds or more.
    -> data, method, latents, off, std, low, high, runs_with_off, runs
    """
    table = wide_table(frame)
    need("informative_latents" in table.names, "the score informative_latents")
    active = table.values[:, table.names.index("informative_latents")]
    lines = []
    for (data, method, latents), rows in table.groups("data", "method", "latents"):
        rows = rows[~np.isnan(active[rows])]
        off, seed = latents - active[rows], table.runs["seed"].to_numpy()[rows]
        if len(off):
            std = off.std(ddof=1) if len(off) > 1 else np.nan
            half = without_each(seed, lambda kept: float(off[kept].mean()))  # noqa: B023 - called at once
            low, high = max(off.mean() - half, 0.0), min(off.mean() + half, latents)
            lines.append((data, method, latents, off.mean(), std, low, high, np.mean(off > 0), len(off)))
    names = ["data", "method", "latents", "off", "std", "low", "high", "runs_with_off", "runs"]
    return pd.DataFrame(lines, columns=names)


def polarised_chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Return a chart of the latents switched off, by method, number of latents (where it differs) and data set."""
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
    return Chart("bars", (panel,), "latents switched off", "Whiskers: 95 % interval of the mean, over seeds.")


def polarised_caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    lines = [
        f"{row.method} on {row.data} switches off {row.off:.1f} of {int(row.latents)} latents on average, "
        f"in {100 * row.runs_with_off:.0f} % of the models at least one"
        for row in frame.itertuples()
    ]
    rest = len(lines) - 2 * MOST_PARTS
    return "; ".join(lines[: 2 * MOST_PARTS]) + "." + (f" The figure has {rest} more." if rest > 0 else "")
