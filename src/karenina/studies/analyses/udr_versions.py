"""The versions of UDR, each in one line."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from karenina.numerics.resampling import mean_bounds
from karenina.studies.analyses import agreement, unsupervised
from karenina.studies.analyses.charts import Chart, Panel, Series, plain_number


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """Each version of UDR in one line: its correlation with supervised scores, averaged over data sets, methods and
    scores, beside that of supervised scores with one another. Duan et al. (2020), Table 7.

    -> version, correlation, std, low, high, cells (intervals resample data sets x methods x scores)
    """
    cells = unsupervised.compute(frame, ("data", "method"), ("udr",), resamples=0)
    parts = {str(version): part["correlation"] for version, part in cells.groupby("unsupervised", sort=False)}
    if cells["score"].nunique() > 1:
        parts["supervised"] = agreement.compute(frame, by=("data", "method"), resamples=0)["correlation"]
    lines = []
    for version, values in parts.items():
        known = values.dropna().to_numpy()
        std = known.std(ddof=1) if len(known) > 1 else np.nan
        lines.append((version, known.mean() if len(known) else np.nan, std, *mean_bounds(known), len(known)))
    return pd.DataFrame(lines, columns=["version", "correlation", "std", "low", "high", "cells"])


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """Mean correlation of each version of UDR with supervised scores."""
    numbers = (frame[name].tolist() for name in ("correlation", "low", "high"))
    names = tuple("metrics, with one another" if name == "supervised" else name for name in frame["version"])
    panel = Panel("", (Series("", range(len(frame)), *numbers),), "", "rank correlation with metrics", names)
    return Chart("bars", (panel,), "rank correlation", "Whiskers: 95 % interval over data sets, methods and metrics.")


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
    texts = [
        f"{'metrics with one another' if row.version == 'supervised' else row.version} {plain_number(row.correlation)}"
        + (f" ± {row.std:.2f}" if np.isfinite(row.std) else "")
        for row in frame.itertuples()
    ]
    return f"Mean rank correlation with supervised metrics: {'; '.join(texts)}."
