"""What codes are good for, against scores."""

from collections.abc import Sequence

import pandas as pd

from karenina.numerics.resampling import RESAMPLES
from karenina.studies.analyses.unsupervised import correlate
from karenina.studies.results.table import ASIDE, TASK, need, wide_table


def compute(frame: pd.DataFrame, by: Sequence[str] = ("data",), resamples: int = RESAMPLES) -> pd.DataFrame:
    """Rank correlation of what codes are good for (accuracy from few rows and many, fairness) with every other score.

    Locatello et al. (2019), section 5.5, figures 5, 6 and 19 to 23; fairness: Duan et al. (2020), figure 11, and Holtz
    et al. (2022), Table 4. fairness_* are distances: fair codes have small ones.
    -> *by, task, score, correlation, low, high, runs
    """
    table = wide_table(frame)
    useful = [j for j, family in enumerate(table.families) if family == TASK]
    others = [j for j, family in enumerate(table.families) if family not in (TASK, *ASIDE)]
    need(bool(useful) and bool(others), "labels, and tasks = true under [evaluation]")
    return correlate(table, "task", useful, others, by, resamples)
