"""A paper's table beside ours: the interval of every cell, and one plain sentence by a rule that was fixed beforehand.

A table has intervals of its own, or else it is made again without one seed at a time, and each cell gets the interval
of the delete-one-seed jackknife (also where its own is only that of averaging). Where a score is one
number for all seeds of a setting, settings are left out in their place. A cell with a printed value then

- differs if the printed value is outside our interval,
- cannot be told if the interval holds the printed value and 0 as well, and
- agrees otherwise.

The table goes with more than half of these cells, and cannot tell where no answer has as many.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd

from karenina.numerics.resampling import jackknife
from karenina.papers import Item, printed
from karenina.papers.tables import PaperTable, compared
from karenina.studies.study import NotEnough, Study

JACKKNIFE = {  # what is left out, one at a time
    **{("eastwood2018", table): "seed" for table in ("table_1", "table_3", "table_4", "table_5")},
    **{("duan2020", table): "seed" for table in ("table_2", "table_7")},
    ("holtz2022", "table_3"): "seed",
    ("holtz2022", "table_4"): "setting",
}
ANSWERS = {  # of one value, of several
    "agrees": ("agrees", "agree"),
    "disagrees": ("differs", "differ"),
    "cannot tell": ("cannot be told", "cannot be told"),
}


def with_intervals(item: Item, study: Study) -> PaperTable:
    """Our table with columns low and high."""
    table: PaperTable = item.function()(study)
    unit = JACKKNIFE.get((item.paper, item.name))
    if unit is None or study.frame[unit].nunique() < 3:
        return table
    notes = list(study.notes)
    keys = [*table.rows, *table.columns]
    frames = []
    for one in study.frame[unit].unique():
        rest = study.with_frame(study.frame[study.frame[unit] != one])
        try:
            frames.append(item.function()(rest).frame.set_index(keys)["value"])
        except NotEnough:
            return table
    study.notes[:] = notes
    at = table.frame.set_index(keys).index
    left_out = pd.concat(frames, axis=1).reindex(at).to_numpy(float)
    half = np.array([jackknife(cell) for cell in left_out])
    value = table.frame["value"].to_numpy(float)
    return replace(table, frame=table.frame.assign(low=value - half, high=value + half))


def sentence(item: Item, table: PaperTable) -> str:
    """What the table says of the printed one; empty where nothing is printed or nothing has an interval."""
    found = compared(table.frame, printed(item.paper, item.name))
    if not {"low", "high"} <= set(found.columns):
        return ""
    # An interval of no width: what is so by construction, e.g. scores without labels under wrong labels.
    found = found[found["paper"].notna() & np.isfinite(found["low"] + found["high"]) & (found["low"] < found["high"])]
    if found.empty:
        return ""
    count = Counter(_answer(row.paper, row.low, row.high) for row in found.itertuples())
    most, n = count.most_common(1)[0]
    verdict = most if n > len(found) / 2 else "cannot tell"
    parts = ", ".join(f"{count[key]} {words[count[key] > 1]}" for key, words in ANSWERS.items() if count[key])
    if len(found) == 1:
        only, difference = ANSWERS[most][0], found["difference"].iloc[0]
        return f"**{verdict.capitalize()}.** The one value that has a printed one beside it {only}: {difference:+z.2f}."
    above = int((found["difference"] > 0).sum())
    return (
        f"**{verdict.capitalize()}.** Of {len(found)} values that have a printed one beside them, {parts}; "
        f"ours are larger in {above}, and the median distance is {found['difference'].abs().median():.2f}."
    )


def _answer(paper: float, low: float, high: float) -> str:
    if not low <= paper <= high:
        return "disagrees"
    return "cannot tell" if low <= 0 <= high else "agrees"
