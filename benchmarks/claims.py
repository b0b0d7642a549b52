"""Ten claims of the five papers, each with our number, its interval and a verdict by a rule that was fixed beforehand.

An interval is that of the delete-one-seed jackknife (Student's t with seeds - 1 degrees of freedom): the seed is what
would be drawn anew if the study were run again. A claim is put as "this number is above (or below) that bound":
it agrees if the whole interval is on the claimed side, disagrees if the whole interval is on the other, and otherwise
the study cannot tell. A claim of two numbers agrees if both do, and disagrees if either does.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from karenina.drawing.charts import plain_number
from karenina.numerics import resampling
from karenina.papers.locatello2019.tables import METRICS, UNSUPERVISED
from karenina.studies.analyses.by_setting import variance_explained
from karenina.studies.analyses.choosing import beats_random
from karenina.studies.analyses.correlations import dynamics, udr_versions
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import Study

Statistic = Callable[[pd.DataFrame], float]


@dataclass(frozen=True)
class Number:
    """A statistic of the study with its interval, and the value that the paper prints, if it prints one."""

    what: str
    value: float
    low: float
    high: float
    paper: float | None = None

    def __str__(self) -> str:
        value, low, high = map(plain_number, (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True)
class Claim:
    """side: "above" or "below" the bound is what is claimed of each number."""

    text: str
    source: str
    numbers: tuple[Number, ...]
    bounds: tuple[tuple[str, float], ...]

    @property
    def verdict(self) -> str:
        found = {_side(number, *bound) for number, bound in zip(self.numbers, self.bounds)}
        return "agrees" if found == {"agrees"} else "disagrees" if "disagrees" in found else "cannot tell"


def _side(number: Number, side: str, bound: float) -> str:
    if not math.isfinite(number.low + number.high):
        return "cannot tell"
    inside = number.low > bound if side == "above" else number.high < bound
    outside = number.high < bound if side == "above" else number.low > bound
    return "agrees" if inside else "disagrees" if outside else "cannot tell"


def jackknife(statistic: Statistic, frame: pd.DataFrame, what: str, paper: float | None = None) -> Number:
    """The statistic of a tidy frame, with its interval from leaving out one seed at a time."""
    value = statistic(frame)
    left = [statistic(frame[frame["seed"] != seed]) for seed in sorted(frame["seed"].unique())]
    half = resampling.jackknife(np.array(left))
    return Number(what, value, value - half, value + half, paper)


def claims(frame: pd.DataFrame, traced: Study, teapots: pd.DataFrame) -> list[Claim]:
    """frame: published results. traced: a study of the dynamics score. teapots: results of `eastwood2018`."""
    six = Study(frame=frame).words_of(METRICS)
    return [
        Claim(
            "Regularisation lowers the total correlation of sampled codes, and not that of mean codes.",
            "Locatello et al. (2019), section 5.1, figure 1",
            (
                jackknife(
                    lambda f: tc_trend(f, "sampled"),
                    frame,
                    "rank correlation of total correlation and strength, sampled codes",
                ),
                jackknife(lambda f: tc_trend(f, "mean"), frame, "mean codes"),
            ),
            (("below", 0.0), ("above", 0.0)),
        ),
        _variance(six),
        Claim(
            "All metrics but Modularity are correlated.",
            "Locatello et al. (2019), section 5.2, figures 2 and 12",
            (
                jackknife(lambda f: agreement(f, modularity=False), six, "mean rank correlation of the other five"),
                jackknife(
                    lambda f: agreement(f, modularity=False) - agreement(f, modularity=True),
                    six,
                    "that minus the mean rank correlation of Modularity with them",
                ),
            ),
            (("above", 0.0), ("above", 0.0)),
        ),
        Claim(
            "No label-free score (reconstruction, ELBO, KL, total correlation) identifies disentangled models.",
            "Locatello et al. (2019), section 5.4, figure 16",
            (jackknife(best_unsupervised, six, "largest mean rank correlation of one of them with the metrics"),),
            (("below", 0.5),),
        ),
        _transfer(six),
        Claim(
            "UDR's ranking of models correlates with that of supervised metrics.",
            "Duan et al. (2020), section 5, Table 7",
            (jackknife(lambda f: udr(f, "udr_lasso"), six, "mean rank correlation of UDR_L, all methods", 0.54),),
            (("above", 0.0),),
        ),
        Claim(
            "Comparing all models with all (A2A) gives UDR slightly higher correlations than seeds of one setting.",
            "Duan et al. (2020), appendix A.7, Table 7",
            (
                jackknife(lambda f: udr(f, "udr_lasso_a2a"), six, "mean rank correlation of UDR_L A2A", 0.60),
                jackknife(
                    lambda f: udr(f, "udr_lasso_a2a") - udr(f, "udr_lasso"),
                    six,
                    "that minus UDR_L",
                    round(0.6 - 0.54, 2),
                ),
            ),
            (("above", 0.0), ("above", 0.0)),
        ),
        _dynamics(traced),
        Claim(
            "Practitioners who tune by different metrics choose different models.",
            "Carbonneau et al. (2022), section 5.1, figure 3",
            (jackknife(different_choices, six, "share of pairs of metrics that choose different models"),),
            (("above", 0.5),),
        ),
        _infogan(teapots),
    ]


def tc_trend(frame: pd.DataFrame, kind: str) -> float:
    """Mean over data sets and methods (but AnnealedVAE, whose strength is a capacity) of Spearman's correlation of
    strength and total correlation."""
    rows = frame[(frame["metric"] == f"total_correlation_{kind}") & (frame["method"] != "annealed_vae")]
    groups = rows.groupby(["data", "method"])
    return float(np.mean([stats.spearmanr(part["strength"], part["value"])[0] for _, part in groups]))


def explained(frame: pd.DataFrame, by: str) -> float:
    """Mean over data sets and metrics of the share of the variance that method or setting explains, adjusted."""
    found = variance_explained(frame)
    return float(found.loc[found["predictor"] == by, "adjusted"].mean())


def agreement(frame: pd.DataFrame, modularity: bool) -> float:
    """Mean over data sets of Spearman's correlation of pairs of metrics: with Modularity, or without it."""
    table = wide_table(frame)
    columns = table.columns(supervised=True)
    pairs = [
        p for p in itertools.combinations(columns, 2) if ("Modularity" in {table.names[j] for j in p}) == modularity
    ]
    return _mean_correlation(frame, [(table.names[a], table.names[b]) for a, b in pairs])


def best_unsupervised(frame: pd.DataFrame) -> float:
    """The largest, over scores without labels, of the mean over metrics and data sets of the absolute mean correlation.

    A score may point either way, but the same way everywhere: the sign is taken after averaging.
    """
    means = [abs(_mean_correlation(frame, [(name, metric) for metric in METRICS])) for name in UNSUPERVISED]
    return float(max(means))


def udr(frame: pd.DataFrame, version: str) -> float:
    """Mean over data sets, methods and the paper's four metrics; its Table 7 has three methods and two data sets.

    Where a seed is left out, the UDR of the others is still that from all of their partners.
    """
    known = frame[~frame["metric"].isin(["Modularity", "SAP"])]
    found = udr_versions(known).set_index("version")
    return float(found.loc[version, "correlation"]) if version in found.index else math.nan


def different_choices(frame: pd.DataFrame) -> float:
    """Share of pairs of metrics that have no best model in common; several can be equally good.

    As in the paper, a metric chooses among one model of each setting, here those of a seed: the mean over seeds, and
    then over data sets. (The best of all seeds would depend on single models, and its jackknife would not be valid.)
    """
    table = wide_table(frame)
    found: dict[str, list[float]] = {}
    for (data, _), rows in table.groups("data", "seed"):
        values = table.values[np.ix_(rows, table.columns(supervised=True))]
        best = (values == np.nanmax(values, axis=0)).T
        apart = [not (one & other).any() for one, other in itertools.combinations(best, 2)]
        found.setdefault(data, []).append(float(np.mean(apart)))
    return float(np.mean([np.mean(shares) for shares in found.values()]))


def _mean_correlation(frame: pd.DataFrame, pairs: list[tuple[str, str]]) -> float:
    table = wide_table(frame)
    found = []
    for _, rows in table.groups("data"):
        for pair in pairs:
            x, y = (table.values[rows, table.names.index(name)] for name in pair)
            known = np.isfinite(x) & np.isfinite(y)
            found.append(stats.spearmanr(x[known], y[known])[0])
    return float(np.mean(found))


def _variance(frame: pd.DataFrame) -> Claim:
    """Table 5."""
    text = "Strength and seed matter more than the method: the method explains less than half of the variance."
    source = "Locatello et al. (2019), section 5.3, Table 5"
    return Claim(
        text,
        source,
        (
            jackknife(lambda f: explained(f, "method"), frame, "variance explained by the method", 0.37),
            jackknife(lambda f: explained(f, "setting"), frame, "by method and strength", 0.59),
        ),
        (("below", 0.5), ("below", 0.9)),
    )


def _transfer(frame: pd.DataFrame) -> Claim:
    """Table 1."""
    text = "Settings chosen by a metric transfer to other seeds, and hardly to other data sets and metrics."
    source = "Locatello et al. (2019), section 5.4, Table 1"
    found = beats_random(frame).set_index(["metric", "data"])[["probability", "low", "high"]]
    same, other = (tuple(map(float, found.loc[(one, one)])) for one in ("same", "other"))
    return Claim(
        text,
        source,
        (
            Number("beats a random model, same metric and data", *same, 0.807),
            Number("other metric and data", *other, 0.549),
        ),
        (("above", 0.7), ("below", 0.7)),
    )


def _dynamics(study: Study) -> Claim:
    """Over settings, with the mean of MIG over the same seeds; the interval is over settings."""
    text = "The dynamics score's ranking of settings correlates with that of supervised metrics."
    source = "Holtz et al. (2022), section 4, Table 1"
    found = dynamics(study.words_of(METRICS), study.extra("dynamics", "traces"))
    most = found[(found["seeds"] == found["seeds"].max()) & (found["score"] == "MIG")]
    numbers = tuple(
        Number(
            f"rank correlation with MIG on {row.data}, {row.settings} settings of {row.seeds} seeds",
            row.correlation,
            row.low,
            row.high,
            0.65,
        )
        for row in most.itertuples()
    )
    return Claim(text, source, numbers, (("above", 0.0),) * len(numbers))


def _infogan(frame: pd.DataFrame) -> Claim:
    """Table 1, by the lasso."""
    text = "InfoGAN's codes are more disentangled than PCA's and than the VAE's."
    source = "Eastwood & Williams (2018), section 4.4, Table 1"
    rows = frame[(frame["metric"] == "regression_lasso") & (frame["property"] == "disentanglement")]
    rows = rows[rows["factor"] == ""]

    def minus(other: str) -> Statistic:
        def difference(part: pd.DataFrame) -> float:
            mean = part.groupby("method")["value"].mean()
            return float(mean["infogan"] - mean[other])

        return difference

    return Claim(
        text,
        source,
        (
            jackknife(minus("pca"), rows, "D by the lasso, InfoGAN minus PCA", round(0.75 - 0.29, 2)),
            jackknife(minus("vae"), rows, "InfoGAN minus VAE", round(0.75 - 0.67, 2)),
        ),
        (("above", 0.0), ("above", 0.0)),
    )
