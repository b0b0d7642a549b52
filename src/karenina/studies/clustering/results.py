"""What the clustering study found: rank correlations of scores with an agent's steps, overall and within each beta."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
SCORES = {"udr_spearman": "UDR_S", "dynamics": "dynamics score", "mig": "MIG", "dci": "DCI"}


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho of a score with steps; negative: a better score, fewer steps. Intervals are 95 % percentiles of
    bootstrap samples of the models. within: mean over the betas of the rho among models of one beta, whose samples are
    drawn within each. NaN where a rho does not exist, e.g. when all steps are equal."""

    score: str
    rho: float
    interval: tuple[float, float]
    within: float
    within_interval: tuple[float, float]
    per_beta: dict[float, float]

    @property
    def verdict(self) -> str:
        return verdict(self.interval)


def verdict(interval: tuple[float, float]) -> str:
    """What an interval of rho with steps says of "better representations learn faster"."""
    low, high = interval
    if high < 0:
        return "agrees"
    return "disagrees" if low > 0 else "cannot tell"  # NaN, too


def spearman(x: Floats, y: Floats) -> float:
    """rho; NaN when there are fewer than 3 pairs or a side is constant."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def correlations(
    rows: Sequence[dict[str, Any]], scores: Sequence[str] = tuple(SCORES), *, resamples: int = 1000, seed: int = 0
) -> list[Correlation]:
    """One per score. rows: those of `Study.measures`; a row without a value of the score does not count for it."""
    return [_correlation(rows, score, resamples, np.random.default_rng(seed)) for score in scores]


def _correlation(rows: Sequence[dict[str, Any]], score: str, resamples: int, rng: np.random.Generator) -> Correlation:
    usable = [row for row in rows if row[score] is not None and np.isfinite(row[score])]
    x, y, beta = (np.array([row[name] for row in usable], float) for name in (score, "steps", "beta"))
    groups = [np.flatnonzero(beta == b) for b in np.unique(beta)]

    def mean_within(parts: list[NDArray[np.int64]]) -> float:
        found = [spearman(x[part], y[part]) for part in parts]
        known = [rho for rho in found if not np.isnan(rho)]
        return float(np.mean(known)) if known else float("nan")

    overall, within = [], []
    for _ in range(resamples):
        drawn = rng.integers(len(x), size=len(x))
        overall.append(spearman(x[drawn], y[drawn]))
        within.append(mean_within([part[rng.integers(len(part), size=len(part))] for part in groups]))
    per_beta = {float(beta[part[0]]): spearman(x[part], y[part]) for part in groups}
    return Correlation(score, spearman(x, y), _bounds(overall), mean_within(groups), _bounds(within), per_beta)


def _bounds(values: list[float]) -> tuple[float, float]:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return float("nan"), float("nan")
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
