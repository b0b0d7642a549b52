"""Metrics from mutual information: mig, mig_sup, jemmig, modularity, dcimig.

All five read one `Tables` of entropies and informations: counted once, O(n k d), 5 ms for 10,000 rows, 10 codes and 5
factors. What bins and estimators do to the scores is in docs/metrics.md.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from karenina.metrics._inputs import Continuous, Floats, Inputs, Kind, Result, metric
from karenina.numerics.checks import one_of, positive_integer
from karenina.numerics.histograms import above_chance, both_ways, count, entropy, information
from karenina.numerics.neighbours import label_information

Estimator = Literal["plugin", "miller-madow", "jackknife", "knn"]
Normaliser = Literal["factor", "code"]
Weight = Literal["live", "all", "information"]

TIE = 1e-12  # codes whose information differs by less are tied: rounding must not choose between them


@dataclass(frozen=True)
class Binning:
    """How codes and continuous factors are binned, and how information is estimated from it.

    Parameters
    ----------
    bins : int
        Bins of a code. A constant code is one bin.
    kind : {"width", "quantile"}
        Bins of equal width on the observed range, or of equally many rows, which see only the order of values.
    limits : (low, high), optional
        The range of bins of equal width; values outside go to the end bins.
    factor_bins : int
        Bins of a continuous factor. Categorical factors are used as they are.
    estimator : {"plugin", "miller-madow", "jackknife", "knn"}
        Maximum likelihood; two with less bias; or Ross (2014), from the nearest neighbours with the same factor value
        instead of bins. Entropies of codes always come from bins.
    neighbours : int
        Of estimator "knn".

    Examples
    --------
    >>> v = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> hows = Binning(bins=10), Binning(bins=10, kind="quantile")
    >>> [round(float(mig(np.exp(9 * v), v, binning=how)), 2) for how in hows]
    [0.3, 0.98]
    """

    bins: int = 20
    kind: Kind = "width"
    limits: tuple[float, float] | None = None
    factor_bins: int = 10
    estimator: Estimator = "plugin"
    neighbours: int = 3

    def __post_init__(self) -> None:
        one_of("estimator", self.estimator, get_args(Estimator))
        positive_integer(self.neighbours, "neighbours")
        if self.limits is not None:
            object.__setattr__(self, "limits", tuple(self.limits))  # of a list, which has no hash


WIDTH = Binning()


@dataclass(frozen=True, eq=False)
class Tables:
    """Entropies and mutual information in nats of k factors and d codes.

    mi, joint_entropy : (k, d). factor_entropy : (k,). code_entropy : (d,). importance : (k, d), information above
    chance.
    """

    mi: Floats
    factor_entropy: Floats
    code_entropy: Floats
    joint_entropy: Floats
    importance: Floats
    how: Binning


def tables(inputs: Inputs, binning: Binning | Kind = WIDTH, bins: int | None = None) -> Tables:
    """Return what the five metrics read, from one count of all joint histograms; the first of them computes it.

    A pair's importance is its jackknife (or knn) information where the binned pair passes a G test against independence
    (`above_chance`), else 0: without this, the chance information of many noise codes would add up.
    """
    how = binning if isinstance(binning, Binning) else replace(WIDTH, kind=binning)
    how = how if bins is None else replace(how, bins=bins)
    if how not in inputs.shared:
        inputs.shared[how] = _tables(inputs, how)
    return inputs.shared[how]


def _tables(inputs: Inputs, how: Binning) -> Tables:
    labels = inputs.binned(how.factor_bins, how.kind)
    counts = count(labels, *both_ways(inputs.codes, how.bins, how.kind, how.limits))
    by_counts = "plugin" if how.estimator == "knn" else how.estimator
    factor_entropy = np.maximum(entropy(counts.factor, counts.n, by_counts), 0)
    code_entropy = np.where(inputs.live, np.maximum(entropy(counts.code, counts.n, by_counts), 0), 0.0)
    if how.estimator == "knn":
        mi = np.zeros((labels.shape[1], len(inputs.live)))
        for j in np.flatnonzero(inputs.live):
            mi[:, j] = [label_information(inputs.codes[:, j], label, how.neighbours) for label in labels.T]
    else:
        mi = information(counts, how.estimator)
    mi = np.minimum(mi, factor_entropy[:, None])
    certain = mi if how.estimator == "knn" else np.minimum(information(counts, "jackknife"), factor_entropy[:, None])
    least = np.maximum(factor_entropy[:, None], code_entropy) if how.estimator == "knn" else 0.0
    return Tables(
        mi=mi,
        factor_entropy=factor_entropy,
        code_entropy=code_entropy,
        joint_entropy=np.maximum(factor_entropy[:, None] + code_entropy - mi, least),  # knn can exceed a bound of bins
        importance=np.where(above_chance(counts), certain, 0.0),
        how=how,
    )


@metric
def mig(
    inputs: Inputs,
    *,
    normaliser: Normaliser = "factor",
    binning: Binning | Kind = WIDTH,
    bins: int | None = None,
    continuous: Continuous = None,
) -> Result:
    """Mutual information gap: is each factor in one code only? Compactness, in [0, 1].

    For factor v and the codes z* and z' with the most and second most information about it,

        mig_v = (I(v; z*) - I(v; z')) / H(v),

    and the mean over factors: Chen et al. (2018), equation 6; Carbonneau et al. (2022), equation 3.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    normaliser : {"factor", "code"}
        "code" divides each I(v; z) by H(z) before the gap, as Carbonneau et al. released it; not for "knn".
    binning : Binning or its kind, "width" or "quantile"
    bins : int, optional
        Bins of a code, in place of those of `binning`.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.

    Returns
    -------
    Result with per_factor (k,), matrix (k, d) of informations, details factor_entropy (k,).

    Notes
    -----
    A factor in two codes scores 0, as one in four. Factors with more values than bins cannot reach 1.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(mig(factors, factors, bins=20)), 2)
    1.0
    """
    found = tables(inputs, binning, bins)
    best, second = _top_two(_relative(found, normaliser), axis=1)
    gap = best - second
    return Result(
        value=float(gap.mean()),
        per_factor=inputs.among_given(gap),
        matrix=inputs.among_given(found.mi),
        details={"factor_entropy": inputs.among_given(found.factor_entropy)},
    )


@metric
def mig_sup(
    inputs: Inputs,
    *,
    normaliser: Normaliser = "factor",
    weight: Weight = "live",
    binning: Binning | Kind = WIDTH,
    bins: int | None = None,
    continuous: Continuous = None,
) -> Result:
    """MIG from the side of the codes: does each code tell of one factor only? Modularity, in [0, 1].

    For code z and the factors v* and v' with the largest and second largest I(v; z) / H(v),

        mig_sup_z = I(v*; z) / H(v*) - I(v'; z) / H(v'),

    and the mean over codes: Li et al. (2020); Carbonneau et al. (2022), equation 6.

    Parameters
    ----------
    codes, factors, normaliser, binning, bins, continuous
        As in `mig`.
    weight : {"live", "all", "information"}
        The mean over codes that are not constant, or over all with 0 for constant ones (Carbonneau et al., as
        released), or weighted by information above chance, so that noise codes and codes of unmeasured factors do not
        count (their suggestion, 4.4.3).

    Returns
    -------
    Result with per_code (d,), matrix (k, d) of informations, details weights (d,).

    Notes
    -----
    Unless weighted, it falls with unmeasured factors. A code of two factors scores 0, as one of all.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> codes = np.column_stack([factors, np.random.default_rng(1).normal(size=1000)])
    >>> round(float(mig_sup(codes, factors)), 2), round(float(mig_sup(codes, factors, weight="information")), 2)
    (0.66, 1.0)
    """
    found = tables(inputs, binning, bins)
    best, second = _top_two(_relative(found, normaliser), axis=0)
    return _over_codes(inputs, found, best - second, weight)


@metric
def jemmig(
    inputs: Inputs, *, binning: Binning | Kind = WIDTH, bins: int | None = None, continuous: Continuous = None
) -> Result:
    """Joint entropy minus mutual information gap: one code per factor, and nothing else in it. Holistic, in [0, 1].

    For factor v and the codes z* and z' with the most and second most information about it,

        jemmig_v = 1 - (H(v, z*) - I(v; z*) + I(v; z')) / (H(v) + log bins),

    and the mean over factors: Do and Tran (2020), scaled as in Carbonneau et al. (2022), equation 5. Of several codes
    tied for z*, the one with the smallest joint entropy is taken.

    Parameters
    ----------
    codes, factors, binning, bins, continuous
        As in `mig`.

    Returns
    -------
    Result with per_factor (k,), matrix (k, d) of informations, details joint_entropy (k, d) and log_bins.

    Notes
    -----
    A score of 1 needs a code with no more entropy than its factor: compare scores at equal numbers of bins only.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(jemmig(factors, factors, bins=4)), 2)
    1.0
    """
    found = tables(inputs, binning, bins)
    best, second = _top_two(found.mi, axis=1)
    tied = (found.mi >= best[:, None] - TIE) & inputs.live
    bound = found.factor_entropy + np.log(found.how.bins)
    joint = np.minimum(np.where(tied, found.joint_entropy, np.inf).min(axis=1), bound)  # infinite without a live code
    score = 1 - (joint - best + second) / bound
    return Result(
        value=float(score.mean()),
        per_factor=inputs.among_given(score),
        matrix=inputs.among_given(found.mi),
        details={"joint_entropy": inputs.among_given(found.joint_entropy), "log_bins": float(np.log(found.how.bins))},
    )


@metric
def modularity(
    inputs: Inputs,
    *,
    weight: Weight = "live",
    binning: Binning | Kind = WIDTH,
    bins: int | None = None,
    continuous: Continuous = None,
) -> Result:
    """Modularity score: does each code have information about one factor only? In [0, 1].

    For code z and its best factor v*, with k factors,

        modularity_z = 1 - sum_{v != v*} I(v; z)^2 / (I(v*; z)^2 (k - 1)),

    and the mean over codes: Ridgeway and Mozer (2018), section 3; Carbonneau et al. (2022), equation 7. A code without
    information scores 0; with one factor, any other scores 1.

    Parameters
    ----------
    codes, factors, weight, binning, bins, continuous
        As in `mig_sup`. Locatello et al. (2019) have weight="all".

    Returns
    -------
    Result with per_code (d,), matrix (k, d) of informations, details weights (d,).

    Notes
    -----
    It divides by the largest information, so noise scores 0.66 in the setting of Locatello et al., and squares hide
    leaks: a second factor at half the information costs 0.06 of 1 for k = 5.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(modularity(factors, factors)), 2), round(float(modularity(factors @ [[1], [1]], factors)), 2)
    (1.0, 0.0)
    """
    found = tables(inputs, binning, bins)
    best = found.mi.max(axis=0)
    relative = np.divide(found.mi, best, out=np.zeros_like(found.mi), where=best > 0)
    others = (relative**2).sum(axis=0) - 1
    score = np.where(best > 0, 1 - others / max(len(found.mi) - 1, 1), 0.0)
    return _over_codes(inputs, found, score, weight)


@metric
def dcimig(
    inputs: Inputs, *, binning: Binning | Kind = WIDTH, bins: int | None = None, continuous: Continuous = None
) -> Result:
    """DCI-style information gap: each factor's best code that is its own. Holistic, in [0, 1].

    The gap of code z between its largest and second largest I(v; z) is credited to the factor of the largest; with S_v
    the best credit of factor v,

        dcimig = sum_v S_v / sum_v H(v):

    Sepliarskaia et al. (2019); Carbonneau et al. (2022), equation 8.

    Parameters
    ----------
    codes, factors, binning, bins, continuous
        As in `mig`.

    Returns
    -------
    Result with per_factor (k,), S_v / H(v); per_code (d,), the gaps; matrix (k, d) of informations.

    Notes
    -----
    Factors weigh by entropy. Unmeasured factors, noise codes and constant codes do not matter, but redundant codes do
    not either: doubled codes score 1. A code of two equal factors scores 0.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> round(float(dcimig(np.hstack([factors, factors]), factors)), 2)
    1.0
    """
    found = tables(inputs, binning, bins)
    best, second = _top_two(found.mi, axis=0)
    credit = np.zeros_like(found.mi)
    credit[found.mi.argmax(axis=0), np.arange(len(best))] = best - second
    score = credit.max(axis=1)
    total = found.factor_entropy.sum()
    return Result(
        value=float(score.sum() / total) if total > 0 else 0.0,
        per_factor=inputs.among_given(_share(score, found.factor_entropy)),
        per_code=np.where(inputs.live, best - second, np.nan),
        matrix=inputs.among_given(found.mi),
    )


def _share(values: Floats, whole: Floats) -> Floats:
    """Return values / whole, 0 where whole is 0."""
    return np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)


def _relative(found: Tables, normaliser: Normaliser) -> Floats:
    """Return information as a share of the factor's entropy, or of the code's: (k, d)."""
    one_of("normaliser", normaliser, get_args(Normaliser))
    if normaliser == "code" and found.how.estimator == "knn":
        raise ValueError("normaliser='code' divides by the entropy of bins, which estimator='knn' does without")
    return _share(found.mi, found.factor_entropy[:, None] if normaliser == "factor" else found.code_entropy[None, :])


def _top_two(values: Floats, axis: int) -> tuple[Floats, Floats]:
    """Return best and second best along an axis; 0 is the second best of one."""
    if values.shape[axis] == 1:
        values = np.concatenate([values, np.zeros_like(values)], axis)
    ordered = np.moveaxis(np.sort(values, axis=axis), axis, 0)
    return ordered[-1], ordered[-2]


def _over_codes(inputs: Inputs, found: Tables, scores: Floats, weight: Weight) -> Result:
    """Return the weighted mean of scores per code (d,)."""
    one_of("weight", weight, get_args(Weight))
    live = inputs.live
    if weight == "information":
        weights = _share(found.importance, found.factor_entropy[:, None]).sum(axis=0)
    else:
        weights = live.astype(np.float64) if weight == "live" else np.ones(len(live))
    total = weights.sum()
    weights = weights / total if total > 0 else weights
    return Result(
        value=float(weights @ scores),
        per_code=np.where(live if weight != "all" else True, scores, np.nan),
        matrix=inputs.among_given(found.mi),
        details={"weights": weights},
    )
