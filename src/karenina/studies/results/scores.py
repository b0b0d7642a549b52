"""The frame of results with a row per run and a column per score, as the analyses use it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UNSUPERVISED = ("label-free", "selection")
TASK = "task"  # what codes are good for: neither a measure of disentanglement nor free of labels
_RUN = ["run", "data", "method", "strength", "setting", "seed", "latents"]


class NotEnough(ValueError):
    """The study has too little for this analysis; the message says what it needs."""


@dataclass(frozen=True)
class Scores:
    """The whole-representation scores of a frame: runs (R rows), values (R, K), names and families of the K scores."""

    runs: pd.DataFrame
    values: NDArray[np.float64]
    names: tuple[str, ...]
    families: tuple[str, ...]

    def columns(self, *, supervised: bool) -> list[int]:
        """The metrics that need labels, or the scores that need none; tasks are neither."""
        return [j for j, f in enumerate(self.families) if f != TASK and (f not in UNSUPERVISED) == supervised]

    def labelled(self) -> list[int]:
        """The metrics that need labels; NotEnough where there are none."""
        columns = self.columns(supervised=True)
        need(bool(columns), "labels")
        return columns

    def groups(self, *by: str) -> list[tuple[tuple[Any, ...], NDArray[np.int64]]]:
        """Rows of each group, in the order in which groups first appear."""
        found = self.runs.groupby(list(by), sort=False, dropna=False).indices
        return [(key if isinstance(key, tuple) else (key,), np.asarray(rows)) for key, rows in found.items()]


def scores(frame: pd.DataFrame) -> Scores:
    """The frame with a row per run and a column per score."""
    whole = frame[frame["factor"] == ""]
    properties = whole.groupby("metric")["property"].nunique()
    several = whole["metric"].isin(properties.index[properties > 1])
    names = whole["metric"].where(~several, whole["metric"] + " " + whole["property"])
    run, runs = pd.factorize(whole["run"])
    score, found = pd.factorize(names)
    values = np.full((len(runs), len(found)), np.nan)
    values[run, score] = whole["value"]
    families = whole.groupby(names)["family"].first()
    about = whole[_RUN].drop_duplicates("run").reset_index(drop=True)
    return Scores(about, values, tuple(found), tuple(families[name] for name in found))


def need(there: bool, what: str) -> None:
    if not there:
        raise NotEnough(f"needs {what}")
