"""The table of scores, a row per run, and the words of the figures and captions that analyses make of it.

A caption says what the numbers of the study show, and no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.drawing.charts import Panel, plain_number
from karenina.evaluation.scoring import NOISE, REGRESSION
from karenina.metrics.registry import score_name
from karenina.studies.study import TASK, UNSUPERVISED, NotEnough

ASIDE = (NOISE, REGRESSION)  # metrics with wrong labels, and metrics that are there already under another name
_RUN = ["run", "data", "method", "strength", "setting", "seed", "latents"]
# More panels than this cannot be read, nor drawn quickly; `scores=` chooses others.
MOST_SCORES = 12
WORDS = {"informative_latents": "active_latents"}  # the name in tables of results -> the glossary's word
MOST_PARTS = 3  # data sets or methods that a caption names


@dataclass(frozen=True)
class Scores:
    """The whole-representation scores of a frame: runs (R rows), values (R, K), names and families of the K scores."""

    runs: pd.DataFrame
    values: NDArray[np.float64]
    names: tuple[str, ...]
    families: tuple[str, ...]

    def columns(self, *, supervised: bool) -> list[int]:
        """Return the metrics that need labels, or the scores that need none; tasks are neither, and ASIDE is left
        out."""
        known = [j for j, family in enumerate(self.families) if family not in (TASK, *ASIDE)]
        return [j for j in known if (self.families[j] not in UNSUPERVISED) == supervised]

    def labelled(self) -> list[int]:
        """Return the metrics that need labels; NotEnough where there are none."""
        columns = self.columns(supervised=True)
        need(bool(columns), "labels")
        return columns

    def groups(self, *by: str) -> list[tuple[tuple[Any, ...], NDArray[np.int64]]]:
        """Return the rows of each group, in the order in which groups first appear."""
        found = self.runs.groupby(list(by), sort=False, dropna=False).indices
        return [(key if isinstance(key, tuple) else (key,), np.asarray(rows)) for key, rows in found.items()]


def wide_table(frame: pd.DataFrame) -> Scores:
    """Return the frame with a row per run and a column per score."""
    whole = frame[frame["factor"] == ""]
    run, runs = pd.factorize(whole["run"])
    metric, metrics = pd.factorize(whole["metric"])
    prop, properties = pd.factorize(whole["property"])
    pair, pairs = pd.factorize(metric * len(properties) + prop)
    several = np.bincount(pairs // max(len(properties), 1)) > 1
    parts = [divmod(code, len(properties)) for code in pairs.tolist()]
    named = [score_name(metrics[m], properties[p], several=bool(several[m])) for m, p in parts]
    names = list(dict.fromkeys(named))
    values = np.full((len(runs), len(names)), np.nan)
    values[run, np.array([names.index(name) for name in named], int)[pair]] = whole["value"]
    about = whole[_RUN].iloc[np.unique(run, return_index=True)[1]].reset_index(drop=True)
    family = whole["family"].to_numpy()[np.unique(pair, return_index=True)[1]]
    families = dict(zip(reversed(named), reversed(family)))  # where two have one name, that of the first
    return Scores(about, values, tuple(names), tuple(families[name] for name in names))


def need(there: bool, what: str) -> None:
    if not there:
        raise NotEnough(f"needs {what}")


def in_common(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many rows (n, k) have both of two columns: (k, k)."""
    there = np.isfinite(values).astype(np.int64)
    return there.T @ there


def panels(
    frame: pd.DataFrame, scores: Sequence[str] | None, panel: Callable[[str, pd.DataFrame], Panel]
) -> tuple[Panel, ...]:
    """Return one panel per score: those of `scores` that the frame has, or the first few."""
    found = list(dict.fromkeys(frame["score"]))
    chosen = [name for name in scores if name in found] if scores is not None else found[:MOST_SCORES]
    return tuple(panel(", ".join(map(short, name.split("\n"))), frame[frame["score"] == name]) for name in chosen)


def strength_axis(part: pd.DataFrame) -> tuple[tuple[str, ...], str]:
    """Return ticks and label for strengths that are drawn by rank: their values where all methods share them, else
    places."""
    grids = {tuple(sorted(line["strength"].dropna().unique())) for _, line in part.groupby(["data", "method"])} - {()}
    if len(grids) == 1:
        names = set(part["parameter"]) if "parameter" in part else set()
        return tuple(f"{value:g}" for value in grids.pop()), names.pop() if len(names) == 1 else "strength"
    most = max(map(len, grids), default=1)
    return ("least", *[""] * (most - 2), "greatest")[:most], "strength, in order (the legend has the values)"


def with_parameter(found: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a column "method", and the name of each method's swept parameter."""
    if "parameter" not in frame:
        return found
    return found.assign(parameter=found["method"].map(frame.groupby("method")["parameter"].first()).fillna(""))


def sweep_of(frame: pd.DataFrame, method: str) -> str:
    """Return the method and the strengths it was trained with: "beta_vae (beta 1, 4, 16)"."""
    here = frame[frame["method"] == method]
    values = sorted(here["strength"].dropna().unique())
    if not len(values):
        return method
    name = f"{here['parameter'].iloc[0]} " if "parameter" in here else ""
    return f"{method} ({name}{', '.join(f'{value:g}' for value in values)})"


def title_of(key: Any) -> str:
    return ", ".join(map(short, key)) if isinstance(key, tuple) else short(key)


def short(name: object, most: int = 32) -> str:
    """Return the end of a long name: paths of data differ there, and a whole one would leave no room for the panel."""
    text = WORDS.get(str(name), str(name))
    return text if len(text) <= most else f"…{text[1 - most :]}"


def preferred(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    """Return the score to speak of."""
    present = list(dict.fromkeys(frame["score"]))
    return next((name for name in prefer if name in present), present[0])


def groups(frame: pd.DataFrame, *by: str) -> list[tuple[str, pd.DataFrame]]:
    """Return groups with their names, the first few; "" where there is one group only."""
    found = [(", ".join(map(str, key)), part) for key, part in frame.groupby(list(by), sort=False, dropna=False)]
    return found[:MOST_PARTS] if len(found) > 1 else [("", part) for _, part in found]


def join(lines: Sequence[tuple[str, str]], frame_groups: int) -> str:
    texts = [f"{name}: {text}" if name else text for name, text in lines]
    rest = frame_groups - len(lines)
    return " ".join(texts) + (f" The figure has {rest} more." if rest > 0 else "")


def with_interval(row: "pd.Series") -> str:
    """Return a correlation with its interval, or with the range of what was drawn."""
    if np.isnan(row["correlation"]):
        return "undefined"  # too few runs, or a constant score
    text = plain_number(row["correlation"])
    if "least" in row:
        return f"{text} (range {plain_number(row['least'])} to {plain_number(row['most'])})"
    known = "low" in row and np.isfinite(row["low"])
    return f"{text} [{plain_number(row['low'])}, {plain_number(row['high'])}]" if known else text
