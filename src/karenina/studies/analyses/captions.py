"""What each analysis of a study shows on this study's data, with its numbers. No conclusions that the numbers lack."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

TITLES = {
    "agreement": "Do the metrics agree?",
    "agreement_kendall": "Do the metrics agree? (Kendall)",
    "by_method": "Scores by method",
    "by_strength": "Scores against strength",
    "variance_explained": "Method, strength or luck?",
    "total_correlation": "Dependence between latents",
    "unsupervised": "Label-free scores against metrics",
    "transfer": "Do good settings transfer to other data?",
    "beats_random": "Does choosing beat chance?",
    "udr": "UDR against metrics, by method",
    "udr_versions": "Versions of UDR",
    "udr_partners": "How many partners does UDR need?",
    "dynamics": "Training dynamics against metrics",
    "polarised": "Latents switched off",
    "tasks": "What codes are good for, against scores",
}
MOST_PARTS = 3  # data sets or methods that a sentence names


def sentence(name: str, frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """What the analysis `name` shows. prefer: the supervised scores to speak of, the most important first."""
    speak = SENTENCES.get(name, _correlations)
    if "correlation" not in frame and name not in SENTENCES:
        return f"{len(frame)} lines; see the figure."
    return speak(frame, prefer)


def _score(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """The score to speak of."""
    present = list(dict.fromkeys(frame["score"]))
    return next((name for name in prefer if name in present), present[0])


def _parts(frame: pd.DataFrame, *by: str) -> list[tuple[str, pd.DataFrame]]:
    """Groups with their names, the first few; "" where there is one group only."""
    found = [(", ".join(map(str, key)), part) for key, part in frame.groupby(list(by), sort=False, dropna=False)]
    return found[:MOST_PARTS] if len(found) > 1 else [("", part) for _, part in found]


def _join(lines: Sequence[tuple[str, str]], frame_groups: int) -> str:
    texts = [f"{name}: {text}" if name else text for name, text in lines]
    rest = frame_groups - len(lines)
    return " ".join(texts) + (f" The figure has {rest} more." if rest > 0 else "")


def _with(row: "pd.Series") -> str:
    bounds = f" [{row['low']:.2f}, {row['high']:.2f}]" if "low" in row and np.isfinite(row["low"]) else ""
    return f"{row['correlation']:.2f}{bounds}"


def _correlations(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """The strongest and the weakest correlation, and the median, of each group."""
    at = list(frame.columns).index("correlation")
    a, b, by = frame.columns[at - 2], frame.columns[at - 1], list(frame.columns[: at - 2])
    groups = _parts(frame, *by) if by else [("", frame)]
    lines = []
    for name, part in groups:
        known = part.dropna(subset=["correlation"]).sort_values("correlation")
        if known.empty:
            lines.append((name, "no correlation can be computed."))
            continue
        top, least = known.iloc[-1], known.iloc[0]
        text = f"Correlations of {len(known)} pairs have the median {known['correlation'].median():.2f}. Highest: "
        text += f"{top[a]} with {top[b]}, {_with(top)}. "
        text += f"Lowest: {least[a]} with {least[b]}, {_with(least)}." if len(known) > 1 else ""
        if "runs" in part:
            text += f" {int(known['runs'].max())} models; intervals are 95 %."
        lines.append((name, text))
    return _join(lines, frame.groupby(by).ngroups if by else 1)


def _agreement(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    negative = float((frame["correlation"] < 0).mean())
    sure = float((frame["low"] > 0).mean())
    share = f" {100 * sure:.0f} % of the pairs are positive beyond their interval, {100 * negative:.0f} % are negative."
    return _correlations(frame, prefer) + share


def _by_method(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = _score(frame, prefer)
    lines = []
    for name, part in _parts(frame[frame["score"] == score], "data"):
        ordered = part.sort_values("median", ascending=False)
        top, last = ordered.iloc[0], ordered.iloc[-1]
        text = f"{score} of {top['method']} has the median {top['median']:.2f} and runs from {top['least']:.2f} to "
        text += f"{top['most']:.2f} over {int(top['runs'])} models"
        if len(ordered) > 1:
            overlap = "overlap" if last["most"] >= top["least"] else "do not overlap"
            text += f"; that of {last['method']}, the lowest, is {last['median']:.2f}. Their ranges {overlap}"
        lines.append((name, text + "."))
    return _join(lines, frame["data"].nunique())


def _by_strength(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = _score(frame, prefer)
    here = frame[(frame["score"] == score) & frame["strength"].notna()]
    if here.empty:
        return "No method has a strength."
    lines = []
    for name, part in _parts(here, "data", "method"):
        ordered = part.sort_values("strength")
        first, last, top = ordered.iloc[0], ordered.iloc[-1], ordered.loc[ordered["median"].idxmax()]
        text = f"The median of {score} goes from {first['median']:.2f} at strength {first['strength']:g} to "
        text += (
            f"{last['median']:.2f} at {last['strength']:g}; the highest is {top['median']:.2f} at {top['strength']:g}."
        )
        lines.append((name, text))
    return _join(lines, here.groupby(["data", "method"]).ngroups)


def _variance(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    score = _score(frame, prefer)
    lines = []
    for name, part in _parts(frame[frame["score"] == score], "data"):
        share = part.set_index("predictor")["explained"]
        text = (
            f"Of the variance of {score}, the method explains {100 * share['method']:.0f} % and method with strength "
        )
        text += f"{100 * share['setting']:.0f} %; the remaining {100 * (1 - share['setting']):.0f} % is the seed."
        lines.append((name, text))
    return _join(lines, frame["data"].nunique())


def _total_correlation(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    measure = "total_correlation" if "total_correlation" in set(frame["score"]) else frame["score"].iloc[0]
    here = frame[frame["score"] == measure]
    lines = []
    for name, part in _parts(here, "data", "method"):
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
    return _join(lines, here.groupby(["data", "method"]).ngroups)


def _beats_random(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    texts = [
        f"by {'the same metric' if row.metric == 'same' else 'another metric'} on "
        f"{'the same' if row.data == 'same' else 'other'} data {100 * row.probability:.0f} % "
        f"[{100 * row.low:.0f}, {100 * row.high:.0f}]"
        for row in frame.itertuples()
    ]
    return (
        "A setting chosen by a metric on one seed does at least as well on another seed as a random one, judged "
        + "; ".join(texts)
        + ". Chance is 50 % or a little more, because of ties."
    )


def _udr_versions(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    texts = [
        f"{'metrics with one another' if row.version == 'supervised' else row.version} {row.correlation:.2f}"
        + (f" ± {row.std:.2f}" if np.isfinite(row.std) else "")
        for row in frame.itertuples()
    ]
    return f"Mean rank correlation with supervised metrics: {'; '.join(texts)}."


def _growth(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """Correlation with the preferred score from the fewest to the most partners or seeds."""
    score = _score(frame, prefer)
    number = "partners" if "partners" in frame else "seeds"
    by = [name for name in ("data", "method") if name in frame]
    lines = []
    for name, part in _parts(frame[frame["score"] == score], *by):
        ordered = part.sort_values(number)
        first, last = ordered.iloc[0], ordered.iloc[-1]
        text = f"With {int(first[number])} {number} the rank correlation with {score} is {_with(first)}"
        if len(ordered) > 1:
            text += f", with {int(last[number])} it is {_with(last)}"
        lines.append((name, text + "."))
    return _join(lines, frame.groupby(by).ngroups)


def _polarised(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    lines = [
        f"{row.method} on {row.data} switches off {row.off:.1f} of {int(row.latents)} latents on average, "
        f"in {100 * row.runs_with_off:.0f} % of the models at least one"
        for row in frame.itertuples()
    ]
    rest = len(lines) - 2 * MOST_PARTS
    return "; ".join(lines[: 2 * MOST_PARTS]) + "." + (f" The figure has {rest} more." if rest > 0 else "")


SENTENCES: dict[str, Callable[[pd.DataFrame, Sequence[str]], str]] = {
    "agreement": _agreement,
    "agreement_kendall": _agreement,
    "by_method": _by_method,
    "by_strength": _by_strength,
    "variance_explained": _variance,
    "total_correlation": _total_correlation,
    "beats_random": _beats_random,
    "udr_versions": _udr_versions,
    "udr_partners": _growth,
    "dynamics": _growth,
    "polarised": _polarised,
}
