"""Do good settings transfer to other data sets?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.resampling import spearman
from karenina.studies.results.table import Scores, need, wide_table

Floats = NDArray[np.float64]


def compute(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation between data sets of the median score of each setting: do good hyperparameters transfer?

    Locatello et al. (2019), section 5.4, figures 17 and 18. Intervals resample settings.
    -> score, a, b, correlation, low, high, settings
    """
    table = wide_table(frame)
    labelled = table.labelled()
    medians, names = _per_setting(table, labelled)
    need(len(names) > 1, "two data sets")
    lines = []
    for k, j in enumerate(labelled):
        found = spearman(medians[:, :, k].T)
        for a in range(len(names)):
            for b in range(a + 1, len(names)):
                both = int((~np.isnan(medians[[a, b], :, k])).all(axis=0).sum())
                lines.append((table.names[j], names[a], names[b], *(m[a, b] for m in found), both))
    return pd.DataFrame(lines, columns=["score", "a", "b", "correlation", "low", "high", "settings"])


def _per_setting(table: Scores, labelled: Sequence[int]) -> tuple[Floats, list[str]]:
    """Median of each of these K scores over seeds (data sets, settings, K), and the names of the data sets."""
    data, names = pd.factorize(table.runs["data"])
    setting, settings = pd.factorize(table.runs["setting"])
    out = np.full((len(names), len(settings), len(labelled)), np.nan)
    frame = pd.DataFrame(table.values[:, list(labelled)]).groupby([data, setting]).median()
    out[frame.index.get_level_values(0), frame.index.get_level_values(1)] = frame.to_numpy()
    return out, list(names)
