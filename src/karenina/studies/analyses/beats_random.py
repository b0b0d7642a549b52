"""Does choosing a setting by a metric beat chance?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina.numerics.resampling import share_bounds
from karenina.studies.analyses.charts import Chart, Panel, Series
from karenina.studies.results.table import need, wide_table


def compute(frame: pd.DataFrame, draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """How often choosing a setting by a metric on one seed beats a random model on another seed, or equals it.

    A seed, a metric and a data set are drawn, and the best setting taken. It is compared with a random setting: by the
    same or another metric, on the same or another data set, for another seed. Locatello et al. (2019), section 5.4,
    Tables 1 and 6. The interval is that of the drawing (Wilson's).
    -> metric, data, probability, low, high, draws
    """
    table = wide_table(frame)
    labelled = table.labelled()
    index = [pd.factorize(table.runs[name]) for name in ("data", "setting", "seed")]
    (data, datas), (setting, settings), (seeds, numbers) = index
    need(len(settings) > 1 and len(numbers) > 1, "two settings and two seeds")
    by_seed = np.full((len(datas), len(settings), len(numbers), len(labelled)), np.nan)
    by_seed[data, setting, seeds] = table.values[:, labelled]
    rng = np.random.default_rng(seed)

    def other(than: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        return (than + rng.integers(1, size, len(than))) % size

    lines = []
    for same_metric in (True, False):
        for same_data in (True, False):
            if (not same_metric and len(labelled) < 2) or (not same_data and len(datas) < 2):
                continue
            d, m, s = (rng.integers(size, size=draws) for size in (len(datas), len(labelled), len(numbers)))
            candidates = by_seed[d, :, s, m]
            best = np.argmax(np.where(np.isnan(candidates), -np.inf, candidates), axis=1)
            d2 = d if same_data else other(d, len(datas))
            m2 = m if same_metric else other(m, len(labelled))
            s2 = other(s, len(numbers))
            chosen = by_seed[d2, best, s2, m2]
            random = by_seed[d2, rng.integers(len(settings), size=draws), s2, m2]
            valid = ~(np.isnan(chosen) | np.isnan(random) | np.isnan(candidates).all(axis=1))
            wins, trials = int((chosen >= random)[valid].sum()), int(valid.sum())
            words = ["same" if same else "other" for same in (same_metric, same_data)]
            share = wins / trials if trials else np.nan
            lines.append((*words, share, *share_bounds(wins, trials), trials))
    return pd.DataFrame(lines, columns=["metric", "data", "probability", "low", "high", "draws"])


def chart(frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Chart:
    """How often a choice beats a random model."""
    names = tuple(f"{m} metric, {d} data" for m, d in zip(frame["metric"], frame["data"]))
    bars = Series("", range(len(frame)), frame["probability"].tolist(), frame["low"].tolist(), frame["high"].tolist())
    panel = Panel("", (bars,), "", "better than random, or equal", names, (0.0, 1.0), 0.5)
    return Chart("bars", (panel,), "share of draws", "Grey line: chance. Whiskers: 95 % interval.")


def caption(frame: pd.DataFrame, prefer: Sequence[str]) -> str:
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
