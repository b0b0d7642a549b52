"""Metrics from mutual information: mig, mig_sup, jemmig, modularity, dcimig.

All five read one `InformationTables`: count once, derive all. Each public metric is check, tables, and one small
function of the tables (`mig_of` and so on) that can share the tables with the others.

Common to all. Cost: O(n k d) to count, 5 ms for 10,000 rows, 10 codes and 5 factors. Known failures: equal-width bins
make the scores fall for codes that are a monotone but non-linear function of the factor (review 5.5: use
binning="quantile") and when one wild outlier stretches the range (the same cure); noise moves rows to neighbouring
bins, so all five fall steeply with it (review 5.2); the plug-in estimate sees information in pure noise, about
(factor values - 1)(bins - 1) / 2n nats (use estimator="jackknife" when n is small). Values that lie exactly on bin
edges, as integer codes can, go towards the half of the code's range that has fewer rows; where neither has, entropies
are the mean of both ways. So z and -z have the same scores, which they have not in the released code.

"Review" is Carbonneau et al. 2022, Measuring Disentanglement: A Review of Metrics; "the study" is Locatello et al.
2019, Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._histograms import Binning, Estimator, InformationTables, information_tables
from karenina.metrics._inputs import check
from karenina.metrics._result import Result

Floats = NDArray[np.float64]
Normaliser = Literal["factor", "code"]
Weight = Literal["live", "all", "information"]

# Codes whose information differs by less than this are tied: rounding must not choose between them.
TIE = 1e-12


def _top_two(values: Floats, axis: int) -> tuple[Floats, Floats]:
    """Best and second best along an axis; 0 is the second best of one."""
    if values.shape[axis] == 1:
        values = np.concatenate([values, np.zeros_like(values)], axis)
    ordered = np.moveaxis(np.sort(values, axis=axis), axis, 0)
    return ordered[-1], ordered[-2]


def _normalised(tables: InformationTables, normaliser: Normaliser) -> Floats:
    if normaliser not in ("factor", "code"):
        raise ValueError(f"normaliser must be factor or code, got {normaliser!r}")
    entropies = tables.factor_entropy[:, None] if normaliser == "factor" else tables.code_entropy[None, :]
    return np.divide(tables.mi, entropies, out=np.zeros_like(tables.mi), where=entropies > 0)


def _over_codes(tables: InformationTables, scores: Floats, weight: Weight) -> Result:
    """The weighted mean of scores per code (d,)."""
    live = tables.inputs.live
    if weight == "information":
        share = np.divide(
            tables.importance,
            tables.factor_entropy[:, None],
            out=np.zeros_like(tables.importance),
            where=tables.factor_entropy[:, None] > 0,
        ).sum(axis=0)
    elif weight in ("live", "all"):
        share = live.astype(np.float64) if weight == "live" else np.ones(len(live))
    else:
        raise ValueError(f"weight must be live, all or information, got {weight!r}")
    total = share.sum()
    share = share / total if total > 0 else share
    return Result(
        value=float(share @ scores),
        per_code=np.where(live if weight != "all" else True, scores, np.nan),
        matrix=tables.inputs.spread(tables.mi),
        details={"weights": share},
    )


def mig_of(tables: InformationTables, *, normaliser: Normaliser = "factor") -> Result:
    """`mig` from tables."""
    best, second = _top_two(_normalised(tables, normaliser), axis=1)
    gap = best - second
    return Result(
        value=float(gap.mean()),
        per_factor=tables.inputs.spread(gap),
        matrix=tables.inputs.spread(tables.mi),
        details={"factor_entropy": tables.inputs.spread(tables.factor_entropy)},
    )


def mig_sup_of(tables: InformationTables, *, normaliser: Normaliser = "factor", weight: Weight = "live") -> Result:
    """`mig_sup` from tables."""
    best, second = _top_two(_normalised(tables, normaliser), axis=0)
    return _over_codes(tables, best - second, weight)


def jemmig_of(tables: InformationTables) -> Result:
    """`jemmig` from tables."""
    best, second = _top_two(tables.mi, axis=1)
    # Among codes tied for the best, the one that carries least besides the factor.
    tied = (tables.mi >= best[:, None] - TIE) & tables.inputs.live
    bound = tables.factor_entropy + np.log(tables.bins)
    joint = np.where(tied, tables.joint_entropy, np.inf).min(axis=1)
    joint = np.minimum(joint, bound)  # infinite without a live code, which is the worst score
    score = 1 - (joint - best + second) / bound
    return Result(
        value=float(score.mean()),
        per_factor=tables.inputs.spread(score),
        matrix=tables.inputs.spread(tables.mi),
        details={"joint_entropy": tables.inputs.spread(tables.joint_entropy), "log_bins": float(np.log(tables.bins))},
    )


def modularity_of(tables: InformationTables, *, weight: Weight = "live") -> Result:
    """`modularity` from tables."""
    best = tables.mi.max(axis=0)
    relative = np.divide(tables.mi, best, out=np.zeros_like(tables.mi), where=best > 0)
    others = (relative**2).sum(axis=0) - 1
    score = np.where(best > 0, 1 - others / max(len(tables.mi) - 1, 1), 0.0)
    return _over_codes(tables, score, weight)


def dcimig_of(tables: InformationTables) -> Result:
    """`dcimig` from tables."""
    best, second = _top_two(tables.mi, axis=0)
    credit = np.zeros_like(tables.mi)
    codes = np.arange(len(best))
    credit[tables.mi.argmax(axis=0), codes] = best - second
    score = credit.max(axis=1)
    total = tables.factor_entropy.sum()
    return Result(
        value=float(score.sum() / total) if total > 0 else 0.0,
        per_factor=tables.inputs.spread(
            np.divide(score, tables.factor_entropy, out=np.zeros_like(score), where=tables.factor_entropy > 0)
        ),
        per_code=np.where(tables.inputs.live, best - second, np.nan),
        matrix=tables.inputs.spread(tables.mi),
    )


def mig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    normaliser: Normaliser = "factor",
    bins: int = 20,
    binning: Binning = "width",
    limits: tuple[float, float] | None = None,
    estimator: Estimator = "plugin",
    neighbours: int = 3,
    factor_bins: int = 10,
    continuous: bool | Sequence[bool] | None = None,
) -> Result:
    """Mutual information gap: is each factor in one code only? Compactness, in [0, 1], higher is better.

    Chen et al. 2018, equation 6; the study, appendix C; review equation 3: per factor (I1 - I2) / H(factor) for the two
    codes with the most information about it, then the mean over factors. Also called RMIG with labels (Do & Tran 2020).
    codes (n, d), factors (n, k) -> per_factor (k,), matrix of information (k, d).

    normaliser="code" divides each information by H(code) before the gap, as the review's release does though its text
    says H(factor). Parameters of the bins and the estimate are those of `information_tables`.

    Assumes that the factors are measured without error and that a factor is one-dimensional. Fails: the gap sees two
    codes only, so a factor in two codes and in four both score 0 (review 5.4, table 1), also when the two are an honest
    two-dimensional code, as cosine and sine of an angle. Says nothing of codes that mix factors. Factors with more
    values than bins cannot reach 1: identity codes of dSprites score 0.896.

    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(mig(factors, factors)), 2)
    1.0
    """
    tables = information_tables(
        check(codes, factors, continuous),
        bins=bins,
        binning=binning,
        limits=limits,
        estimator=estimator,
        neighbours=neighbours,
        factor_bins=factor_bins,
    )
    return mig_of(tables, normaliser=normaliser)


def mig_sup(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    normaliser: Normaliser = "factor",
    weight: Weight = "live",
    bins: int = 20,
    binning: Binning = "width",
    limits: tuple[float, float] | None = None,
    estimator: Estimator = "plugin",
    neighbours: int = 3,
    factor_bins: int = 10,
    continuous: bool | Sequence[bool] | None = None,
) -> Result:
    """MIG from the side of the codes: does each code tell of one factor only? Modularity, in [0, 1].

    Li et al. 2020; review equation 6: per code the gap between its two largest I / H(factor), and the mean.
    codes (n, d), factors (n, k) -> per_code (d,), matrix of information (k, d).

    weight: "live" is the plain mean over codes that are not constant; "all" counts constant codes as 0 (the review's
    release); "information" weights a code by its information above chance, as DCI weights by importance, so that noise
    codes and codes of unmeasured factors do not count. The review suggests this (4.4.3), because the paper's threshold
    of "meaningful" codes has no objective value. normaliser="code" is the review's release, which divides by H(code).

    Assumes that all factors that the codes encode were measured. Fails without weight="information": the score falls
    in proportion to the unmeasured factors (review 5.6). A code of two factors scores 0, as one of all (review 5.3).

    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> codes = np.column_stack([factors, np.random.default_rng(1).normal(size=1000)])
    >>> round(float(mig_sup(codes, factors)), 2), round(float(mig_sup(codes, factors, weight="information")), 2)
    (0.66, 1.0)
    """
    tables = information_tables(
        check(codes, factors, continuous),
        bins=bins,
        binning=binning,
        limits=limits,
        estimator=estimator,
        neighbours=neighbours,
        factor_bins=factor_bins,
    )
    return mig_sup_of(tables, normaliser=normaliser, weight=weight)


def jemmig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    bins: int = 20,
    binning: Binning = "width",
    limits: tuple[float, float] | None = None,
    estimator: Estimator = "plugin",
    neighbours: int = 3,
    factor_bins: int = 10,
    continuous: bool | Sequence[bool] | None = None,
) -> Result:
    """Joint entropy minus mutual information gap: one code per factor, and nothing else in it. Holistic, in [0, 1].

    Do & Tran 2020, scaled as in review equation 5: per factor, with z* its best code,
    1 - (H(v, z*) - I1 + I2) / (H(v) + log bins), then the mean.
    codes (n, d), factors (n, k) -> per_factor (k,), matrix of information (k, d), details log_bins and joint_entropy.

    A score of 1 needs a code with no more entropy than its factor: with 20 bins, a clean code of a continuous factor in
    10 bins scores 0.87, and noise codes score above 0. Compare scores only at the same number of bins (log_bins is
    reported with the result). Of several codes tied for the best, the one with the smallest joint entropy is taken.

    Fails: doubled and fourfold codes score the same 0.5 (review table 1); falls fastest of all with noise (review 5.2).

    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(jemmig(factors, factors, bins=4)), 2)
    1.0
    """
    tables = information_tables(
        check(codes, factors, continuous),
        bins=bins,
        binning=binning,
        limits=limits,
        estimator=estimator,
        neighbours=neighbours,
        factor_bins=factor_bins,
    )
    return jemmig_of(tables)


def modularity(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    weight: Weight = "live",
    bins: int = 20,
    binning: Binning = "width",
    limits: tuple[float, float] | None = None,
    estimator: Estimator = "plugin",
    neighbours: int = 3,
    factor_bins: int = 10,
    continuous: bool | Sequence[bool] | None = None,
) -> Result:
    """Modularity score: does each code have information about one factor only? In [0, 1].

    Ridgeway & Mozer 2018, section 3; review equation 7: per code 1 - sum over other factors of I^2 / (Imax^2 (k - 1)),
    then the mean. A code without information scores 0, and with one factor any informative code scores 1.
    codes (n, d), factors (n, k) -> per_code (d,), matrix of information (k, d).

    weight: "live" is the plain mean over codes that are not constant; "all" counts constant codes as 0 (locatello);
    "information" weights a code by its information above chance, so that noise codes and codes of unmeasured factors do
    not count.

    Fails: it divides by the largest information, so pure noise scores 0.66 in the study's setting and 0.8 is a poor
    score (review 5.2); squares hide leaks (a second factor at half the information costs 0.06 of 1 for k = 5);
    unmeasured factors lower it without weight="information" (review 5.6).

    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(modularity(factors, factors)), 2), round(float(modularity(factors @ [[1], [1]], factors)), 2)
    (1.0, 0.0)
    """
    tables = information_tables(
        check(codes, factors, continuous),
        bins=bins,
        binning=binning,
        limits=limits,
        estimator=estimator,
        neighbours=neighbours,
        factor_bins=factor_bins,
    )
    return modularity_of(tables, weight=weight)


def dcimig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    bins: int = 20,
    binning: Binning = "width",
    limits: tuple[float, float] | None = None,
    estimator: Estimator = "plugin",
    neighbours: int = 3,
    factor_bins: int = 10,
    continuous: bool | Sequence[bool] | None = None,
) -> Result:
    """DCI-style information gap: each factor's best code that is its own. Holistic, in [0, 1].

    Sepliarskaia et al. 2019; review equation 8: per code the gap between its two largest informations, which
    is credited to the factor of the largest; per factor the best credited gap; their sum over that of the entropies.
    codes (n, d), factors (n, k) -> per_factor (k,) relative to each entropy, per_code gaps (d,), matrix (k, d).

    Factors with many values weigh more, by entropy. Noise codes and dead codes do not matter (review 5.6: it holds when
    few factors are measured). Fails: meant as holistic, it does not punish redundant codes, doubled codes score 1
    (review 5.4, table 1); a code of two equal factors scores 0.

    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(dcimig(np.hstack([factors, factors]), factors)), 2)
    1.0
    """
    tables = information_tables(
        check(codes, factors, continuous),
        bins=bins,
        binning=binning,
        limits=limits,
        estimator=estimator,
        neighbours=neighbours,
        factor_bins=factor_bins,
    )
    return dcimig_of(tables)
