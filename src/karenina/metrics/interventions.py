"""Metrics that hold factors fixed and watch the codes: z_diff, z_min_variance, z_max_variance.

All three draw batches of rows under an intervention on one factor and ask whether that factor can be told from how the
codes spread. They make no assumption on the shape of the relation, need many rows, and do not ask for compactness: a
factor may use several codes (Carbonneau et al., 5.4, Table 1: 1.0 for doubled and fourfold codes).
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._histograms import factor_labels
from karenina.metrics._inputs import Inputs, check
from karenina.metrics._result import Result
from karenina.metrics._sampling import Simulated, Simulator, Source, Table
from karenina.numerics.columns import standardised
from karenina.numerics.logistic import Design, multinomial


def z_diff(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    batch: int = 64,
    per_pair: bool = True,
    train: int = 10_000,
    evaluate: int = 5_000,
    factor_bins: int = 10,
    standardise: bool = True,
    rescale: bool = False,
    continuous: bool | list[bool] | None = None,
    sampler: Simulator | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Can a linear classifier tell which factor two batches share? (BetaVAE score; modularity.)

    A point: a factor i drawn uniformly; `batch` pairs of different rows, the rows of a pair sharing a value of i drawn
    uniformly from the values that occur twice or more, for every pair anew (Higgins et al.; Carbonneau et al.) or with
    `per_pair=False` once for the batch (Locatello et al. and Duan et al., by their texts); the feature is the mean of
    |z1 - z2| over the pairs. Logistic regression (scikit-learn's, C = 1) predicts i from `train` points; the value is
    its accuracy on `evaluate` points, from about 1/k (chance) to 1. `rescale` maps it by (a - 1/k) / (1 - 1/k), so that
    chance is about 0.

    codes: (n, d). factors: (n, k); continuous ones are cut into `factor_bins` bins of equal width. `sampler` replaces
    the table by a simulator: it is called with rows of factors (m, k as given) and returns their codes (m, d).
    The result has per_factor (accuracy) and details: train_accuracy, active_codes.

    Assumes: independent factors, many rows per value. Fails: it says 1 where only k - 1 factors are disentangled (Kim
    and Mnih), and for codes that mix two factors each, as two small differences name the factor (Carbonneau et al.,
    5.3).
    On raw codes (`standardise=False`, both releases) the ridge penalty makes the score depend on their scale: codes
    times 0.01 fall from 1 to chance. Cost: O((train + evaluate) batch d), about 0.1 s.

    locatello: per_pair=False, standardise=False (its release draws a value for every pair). carbonneau: batch=200,
    standardise=False, rescale=True.
    Higgins et al. 2017, section 3; Carbonneau et al. (2022), 4.2.1.

    >>> v = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> float(z_diff(v, v, train=500, evaluate=200))
    1.0
    """
    inputs = _checked(codes, factors, continuous, batch=batch, train=train, evaluate=evaluate, factor_bins=factor_bins)
    rng = np.random.default_rng(seed)
    z = standardised(inputs.codes) if standardise else inputs.codes
    source = _source(inputs, z, factors, factor_labels(inputs, factor_bins), sampler)
    usable = _usable(source, inputs)
    label = rng.integers(len(usable), size=train + evaluate)
    feature = source.differences(usable[label], batch, per_pair, rng)
    w = multinomial(Design.of(feature[:train]), label[:train], len(usable), tolerance=1e-5)
    right = (feature @ w[:-1] + w[-1]).argmax(axis=1) == label
    details = {"train_accuracy": float(right[:train].mean()), "active_codes": int(inputs.live.sum())}
    per_factor = _accuracies(label[train:], right[train:], usable, inputs)
    value = _rescaled(float(right[train:].mean()), len(usable), rescale)
    return Result(value, per_factor=inputs.spread(per_factor), details=details)


def z_min_variance(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    batch: int = 64,
    train: int = 10_000,
    evaluate: int = 5_000,
    factor_bins: int = 10,
    threshold: float = 0.0,
    replace: bool = True,
    rescale: bool = False,
    continuous: bool | list[bool] | None = None,
    sampler: Simulator | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Does the code that varies least name the factor held fixed? (FactorVAE score; modularity.)

    A vote: a factor i and one of its values, drawn uniformly; `batch` rows that have it; j = argmin over active codes
    of local variance / global variance; the vote is (i, j). The majority of `train` votes gives each code its
    factor; the value is the accuracy of that table on `evaluate` votes. No active code: 0.

    A code is active when it varies and its variance reaches `threshold`, in the codes' own units: with a threshold the
    score is not free of the codes' scale, so the default is 0. `replace=False` draws a batch by shuffled passes over
    the group. Other parameters as in `z_diff`.
    The result has per_factor (accuracy), matrix (k, d; the share of a factor's votes that went to each code) and
    details: train_accuracy, active_codes (the released code counts all codes), votes (d, k; train and evaluate).

    Assumes: a code that follows a factor stands still with it. Fails (Carbonneau et al.): scores stay high for
    imperfect codes (5.3, Figure 5); equal-width bins of a monotone non-linear factor bring it down (5.5); the estimate
    is good to about 0.03 at 10,000 rows (5.7). Cost: O((train + evaluate) batch d), about 0.03 s.

    locatello: threshold=0.05 (its release compares the standard deviation with 0.05: threshold=0.05**2).
    carbonneau: batch=200, train=800, evaluate=800, threshold=0.02**2, replace=False, rescale=True.
    Kim and Mnih 2018, section 4; Carbonneau et al. (2022), 4.2.2.

    >>> v = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> float(z_min_variance(v, v, train=500, evaluate=200))
    1.0
    """
    inputs = _checked(codes, factors, continuous, batch=batch, train=train, evaluate=evaluate, factor_bins=factor_bins)
    votes = (batch, train, evaluate, threshold, replace, rescale)
    return _vote(inputs, factors, factor_bins, sampler, np.random.default_rng(seed), votes, largest=False)


def z_max_variance(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    batch: int = 64,
    train: int = 10_000,
    evaluate: int = 5_000,
    factor_bins: int = 10,
    threshold: float = 0.0,
    replace: bool = True,
    rescale: bool = False,
    continuous: bool | list[bool] | None = None,
    sampler: Simulator | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Does the code that varies most name the one factor left free? (R-FactorVAE score; modularity.)

    As `z_min_variance`, but all factors except i are held at a combination that occurs twice or more in the table, and
    the vote goes to the argmax of local / global variance. Same result fields.

    Needs dense combinations of factors: with k factors of b values there are b^(k-1) of them. A factor for which none
    occurs twice is left out with a warning (NaN in per_factor); if that is every factor, ValueError. Coarser
    `factor_bins` or a `sampler` help.

    Fails (Carbonneau et al.): sparse combinations bias it, down for perfect codes and up for noise (5.2, Figure 4; 5.7,
    Figure 9: eight factors in ten bins), and unmeasured factors move the codes too (5.6). Cost: k sorts of the rows,
    then as `z_min_variance`; about 0.05 s.

    carbonneau: batch=200, train=800, evaluate=800, threshold=0.02**2, replace=False, rescale=True (its release takes
    3 bins for this metric, its text 10). Not part of Locatello et al. (2019).
    Kim et al. 2019 (Relevance Factor VAE), section 4; Carbonneau et al. (2022), 4.2.3.

    >>> v = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> float(z_max_variance(v, v, train=500, evaluate=200))
    1.0
    """
    inputs = _checked(codes, factors, continuous, batch=batch, train=train, evaluate=evaluate, factor_bins=factor_bins)
    votes = (batch, train, evaluate, threshold, replace, rescale)
    return _vote(inputs, factors, factor_bins, sampler, np.random.default_rng(seed), votes, largest=True)


def _vote(
    inputs: Inputs,
    factors: ArrayLike,
    factor_bins: int,
    sampler: Simulator | None,
    rng: np.random.Generator,
    votes: tuple[int, int, int, float, bool, bool],
    largest: bool,
) -> Result:
    batch, train, evaluate, threshold, replace, rescale = votes
    if threshold < 0:
        raise ValueError(f"threshold is {threshold}, expected 0 or more")
    active = inputs.live & (inputs.codes.var(axis=0, ddof=1) >= threshold)
    where = np.flatnonzero(active)
    k, d = len(inputs.kept), len(active)
    source = _source(inputs, standardised(inputs.codes), factors, factor_labels(inputs, factor_bins), sampler, largest)
    usable = _usable(source, inputs)
    if not where.size:
        details: dict[str, Any] = {"active_codes": 0, "train_accuracy": 0.0}
        zeros = np.zeros((k, d))
        return Result(0.0, inputs.spread(zeros[:, 0]), None, inputs.spread(zeros), details)
    label = rng.integers(len(usable), size=train + evaluate)
    variance = source.variances(usable[label], batch, replace, rng)[:, active[inputs.live]]
    winner = where[variance.argmax(axis=1) if largest else variance.argmin(axis=1)]
    trained, tested = (np.zeros((d, k), np.int64) for _ in range(2))
    np.add.at(trained, (winner[:train], usable[label[:train]]), 1)
    np.add.at(tested, (winner[train:], usable[label[train:]]), 1)
    right = trained.argmax(axis=1)[winner] == usable[label]
    details = {
        "train_accuracy": float(right[:train].mean()),
        "active_codes": len(where),
        "votes": {"train": trained, "evaluate": tested},
    }
    per_factor = _accuracies(label[train:], right[train:], usable, inputs)
    totals = tested.sum(axis=0)[:, None]
    shares = np.where(totals > 0, tested.T / np.maximum(totals, 1), np.nan)
    value = _rescaled(float(right[train:].mean()), len(usable), rescale)
    return Result(value, inputs.spread(per_factor), None, inputs.spread(shares), details)


def _checked(codes: ArrayLike, factors: ArrayLike, continuous: bool | list[bool] | None, **numbers: int) -> Inputs:
    inputs = check(codes, factors, continuous)
    for name, number in numbers.items():
        least = 2 if name in ("batch", "factor_bins") else 1
        if number != int(number) or number < least:
            raise ValueError(f"{name} is {number}, expected an integer of {least} or more")
    return inputs


def _source(
    inputs: Inputs,
    z: NDArray[np.float64],
    factors: ArrayLike,
    labels: NDArray[np.int64],
    sampler: Simulator | None,
    rest: bool = False,
) -> Source:
    """Batches of the live codes z, from the table or from the simulator, which is brought to the scale of z."""
    live = inputs.live
    if sampler is None:
        return Table.of(z[:, live], labels, rest=rest)
    scale = inputs.codes[:, live].std(axis=0) / z[:, live].std(axis=0)
    mean = inputs.codes[:, live].mean(axis=0) - scale * z[:, live].mean(axis=0)
    rows = np.asarray(factors, np.float64)
    rows = rows[:, None] if rows.ndim == 1 else rows
    return Simulated(sampler, rows, inputs.kept, mean, scale, live, rest)


def _usable(source: Source, inputs: Inputs) -> NDArray[np.int64]:
    usable = source.usable
    if not usable.any():
        held = f"no two of the {len(inputs.codes)} rows agree on what is held fixed, for any factor"
        raise ValueError(f"{held}: use more rows, fewer factor_bins or a sampler")
    if not usable.all():
        gone = ", ".join(inputs.names[i] for i in np.flatnonzero(~usable))
        warnings.warn(f"no two rows agree on what is held fixed for: {gone}; use fewer factor_bins", stacklevel=4)
    return np.flatnonzero(usable)


def _accuracies(
    label: NDArray[np.int64], right: NDArray[np.bool_], usable: NDArray[np.int64], inputs: Inputs
) -> NDArray[np.float64]:
    per_factor = np.full(len(inputs.kept), np.nan)
    drawn = np.bincount(label, minlength=len(usable))
    hits = np.bincount(label, right, minlength=len(usable))
    per_factor[usable] = np.where(drawn > 0, hits / np.maximum(drawn, 1), np.nan)
    return per_factor


def _rescaled(accuracy: float, k: int, rescale: bool) -> float:
    """Chance to 0. With one factor there is nothing to confuse, and the accuracy of 1 stays."""
    return (accuracy - 1 / k) / (1 - 1 / k) if rescale and k > 1 else accuracy
