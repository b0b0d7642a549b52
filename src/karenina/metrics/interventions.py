"""Metrics that hold factors fixed and watch the codes: z_diff, z_min_variance, z_max_variance, irs.

The first three draw batches of rows under an intervention on one factor and ask whether the codes, by how far they
vary, name that factor. They need many rows, and do not ask for compactness: a factor may use several codes.
"""

import warnings
from typing import Any, Literal, get_args

import numpy as np

from karenina.metrics._inputs import Bools, Continuous, Floats, Inputs, Ints, Kind, Result, metric
from karenina.metrics._sampling import Simulated, Simulator, Source, Table
from karenina.numerics.arrays import standardised
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import one_of, positive_integer
from karenina.numerics.columns import group_means, largest_deviations
from karenina.numerics.logistic import Design, multinomial

Weights = Literal["equal", "frequency"]
CodeWeights = Literal["equal", "deviation"]
STILL_BATCHES = 0.05  # share of batches without variance, above which a code is named
FEW_ROWS = 10  # for each value of a factor, below which irs of noise exceeds 0.5


@metric
def z_diff(
    inputs: Inputs,
    *,
    batch: int = 64,
    per_pair: bool = True,
    train: int = 10_000,
    evaluate: int = 5_000,
    factor_bins: int = 10,
    standardise: bool = True,
    rescale: bool = False,
    continuous: Continuous = None,
    sampler: Simulator | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Can a linear classifier tell which factor two batches share? (BetaVAE score; modularity.)

    A point: a factor v drawn uniformly, and `batch` pairs of different rows, each with one value of v,

        feature = mean over pairs of |z1 - z2|  (d,),    label = v.

    Logistic regression (that of scikit-learn, C = 1) is fitted to `train` points; the score is its accuracy a on
    `evaluate` points: Higgins et al. (2017), section 3; Carbonneau et al. (2022), section 4.2.1.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    batch, train, evaluate : int
    per_pair : bool
        Draw a value of v for every pair (Higgins et al., Carbonneau et al.), or one for the batch (Locatello et al.
        2019 and Duan et al. 2020, by their texts).
    factor_bins : int
        Bins of equal width of a continuous factor.
    standardise : bool
        On raw codes, as in both releases, the ridge penalty makes the score depend on their scale: codes times 0.01
        fall from 1 to chance.
    rescale : bool
        (a - 1/k) / (1 - 1/k), so that chance is about 0.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.
    sampler : function or Blocks, optional
        A simulator, rows of factors (m, k) -> codes (m, d), in place of the rows given; or codes of interventions that
        the three metrics share, `karenina.numerics.blocks.Blocks`.
    seed : int or numpy Generator

    Returns
    -------
    Result with per_factor (k,), accuracies, never rescaled, so with `rescale` their mean is not the value; details
    train_accuracy, active_codes.

    Notes
    -----
    Scores 1 where only k - 1 factors are disentangled (Kim and Mnih, 2018), and for codes that mix two factors each.
    O((train + evaluate) batch d), about 0.1 s.

    Examples
    --------
    >>> v = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> float(z_diff(v, v, train=500, evaluate=200))
    1.0
    """
    _check_integers(batch, train, evaluate, factor_bins)
    rng = np.random.default_rng(seed)
    z = standardised(inputs.codes) if standardise else inputs.codes
    source = _source(inputs, z, factor_bins, sampler)
    usable = _usable(source, inputs)
    label = rng.integers(len(usable), size=train + evaluate)
    feature = source.differences(usable[label], batch, per_pair, rng)
    w = multinomial(Design.of(feature[:train]), label[:train], len(usable))
    right = (feature @ w[:-1] + w[-1]).argmax(axis=1) == label
    details = {"train_accuracy": float(right[:train].mean()), "active_codes": int(inputs.live.sum())}
    per_factor = _accuracies(label[train:], right[train:], usable, inputs)
    value = _rescaled(float(right[train:].mean()), len(usable), rescale)
    return Result(value, per_factor=inputs.among_given(per_factor), details=details)


@metric
def z_min_variance(
    inputs: Inputs,
    *,
    batch: int = 64,
    train: int = 10_000,
    evaluate: int = 5_000,
    factor_bins: int = 10,
    threshold: float = 0.0,
    replace: bool = True,
    rescale: bool = False,
    continuous: Continuous = None,
    sampler: Simulator | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Does the code that varies least name the factor held fixed? (FactorVAE score; modularity.)

    A vote: a factor v and one of its values, drawn uniformly, and `batch` rows that have it,

        (v, argmin over active codes of (variance in the batch / variance in all rows)).

    The majority of `train` votes gives each code its factor; the score is the accuracy of that table on `evaluate`
    votes: Kim and Mnih (2018), section 4; Carbonneau et al. (2022), section 4.2.2. Without an active code it is 0.

    Parameters
    ----------
    codes, factors, batch, train, evaluate, factor_bins, rescale, continuous, sampler, seed
        As in `z_diff`.
    threshold : float
        A code is active when its variance reaches this, in its own units. Locatello et al. (2019) have 0.05 in their
        text, and 0.05**2 in their release.
    replace : bool
        Draw rows of a batch with replacement, or by shuffled passes over the rows with that value.

    Returns
    -------
    Result with per_factor (k,), accuracies, never rescaled, so with `rescale` their mean is not the value; matrix
    (k, d), the share of a factor's votes for each code; details train_accuracy, active_codes, votes (d, k; train and
    evaluate).

    Notes
    -----
    Stays high for imperfect codes; bins of equal width of a bent factor bring it down. A sparse code, with one value in
    nearly all rows, has no variance in most batches and wins their votes: one that moves in a single row of 5,000
    lowers 1.0 to 0.34. It is noted. About 0.03 s.

    Examples
    --------
    >>> v = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> float(z_min_variance(v, v, train=500, evaluate=200))
    1.0
    """
    votes = (batch, train, evaluate, factor_bins, threshold, replace, rescale, sampler, seed)
    return _vote(inputs, *votes, largest=False)


@metric
def z_max_variance(
    inputs: Inputs,
    *,
    batch: int = 64,
    train: int = 10_000,
    evaluate: int = 5_000,
    factor_bins: int = 10,
    threshold: float = 0.0,
    replace: bool = True,
    rescale: bool = False,
    continuous: Continuous = None,
    sampler: Simulator | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Does the code that varies most name the one factor left free? (R-FactorVAE score; modularity.)

    As `z_min_variance`, but all factors except v are held, at a combination that occurs twice or more, and the vote
    goes to the argmax: Kim et al. (2019, Relevance Factor VAE), section 4; Carbonneau et al. (2022), section 4.2.3.

    Parameters
    ----------
    codes, factors, batch, train, evaluate, factor_bins, threshold, replace, rescale, continuous, sampler, seed
        As in `z_min_variance`.

    Returns
    -------
    Result, as of `z_min_variance`.

    Notes
    -----
    Needs dense combinations of factors: of k factors with b values there are b^(k-1). A factor for which none occurs
    twice is left out with a warning; if that is every factor, ValueError: use fewer factor_bins or a sampler. Sparse
    combinations bias it, down for perfect codes and up for noise. About 0.05 s.

    Examples
    --------
    >>> v = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> float(z_max_variance(v, v, train=500, evaluate=200))
    1.0
    """
    votes = (batch, train, evaluate, factor_bins, threshold, replace, rescale, sampler, seed)
    return _vote(inputs, *votes, largest=True)


def _vote(
    inputs: Inputs,
    batch: int,
    train: int,
    evaluate: int,
    factor_bins: int,
    threshold: float,
    replace: bool,
    rescale: bool,
    sampler: Simulator | None,
    seed: int | np.random.Generator,
    *,
    largest: bool,
) -> Result:
    _check_integers(batch, train, evaluate, factor_bins)
    if threshold < 0:
        raise ValueError(f"threshold is {threshold}, expected 0 or more")
    rng = np.random.default_rng(seed)
    active = inputs.live & (inputs.codes.var(axis=0, ddof=1) >= threshold)
    where = np.flatnonzero(active)
    k, d = len(inputs.kept), len(active)
    source = _source(inputs, standardised(inputs.codes), factor_bins, sampler, largest)
    usable = _usable(source, inputs)
    if not where.size:
        details: dict[str, Any] = {"active_codes": 0, "train_accuracy": 0.0}
        zeros = inputs.among_given(np.zeros((k, d)))
        return Result(0.0, zeros[:, 0], None, zeros, details)
    if not largest:
        _warn_of_still_codes(inputs.codes[:, active], where, batch)
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
    return Result(value, inputs.among_given(per_factor), None, inputs.among_given(shares), details)


def _warn_of_still_codes(codes: Floats, where: Ints, batch: int) -> None:
    """Say which codes have one value in so many rows that a batch of any rows often has no other."""
    share = (codes == np.median(codes, axis=0)).mean(
        axis=0
    )  # a value that more than half of the rows have is the median
    still = where[share**batch > STILL_BATCHES]
    if len(still):
        which = ", ".join(map(str, still[:5])) + (", ..." if len(still) > 5 else "")
        warnings.warn(
            f"one value in nearly all rows of code {which}: batches without variance there win the vote, whatever is "
            "held; leave such codes out, or raise the threshold",
            stacklevel=4,
        )


def _check_integers(batch: int, train: int, evaluate: int, factor_bins: int) -> None:
    positive_integer(batch, "batch", 2)
    positive_integer(train, "train")
    positive_integer(evaluate, "evaluate")
    positive_integer(factor_bins, "factor_bins", 2)


def _source(inputs: Inputs, z: Floats, factor_bins: int, sampler: Simulator | None, rest: bool = False) -> Source:
    """Batches of the live codes z, from the table or from the simulator, which is brought to the scale of z."""
    live = inputs.live
    if sampler is None:
        return Table.of(z[:, live], inputs.binned(factor_bins), rest=rest)
    scale = inputs.codes[:, live].std(axis=0) / z[:, live].std(axis=0)
    mean = inputs.codes[:, live].mean(axis=0) - scale * z[:, live].mean(axis=0)
    if isinstance(sampler, Blocks):
        if sampler.codes.shape[2] != len(live) or len(sampler.values) != inputs.given.shape[1]:
            found = f"{sampler.codes.shape[2]} codes and {len(sampler.values)} factors"
            raise ValueError(f"the blocks have {found}, expected {len(live)} and {inputs.given.shape[1]}")
        along = [(sampler.along(j)[:, :, live] - mean) / scale for j in inputs.kept]
        values = [sampler.values[j] for j in inputs.kept]
        return Table.of_blocks(along, values, z[:, live], inputs.factors, rest=rest)
    return Simulated(sampler, inputs.given, inputs.kept, mean, scale, live, rest)


def _usable(source: Source, inputs: Inputs) -> Ints:
    usable = source.usable
    if not usable.any():
        held = f"no two of the {len(inputs.codes)} rows agree on what is held fixed, for any factor"
        raise ValueError(f"{held}: use more rows, fewer factor_bins or a sampler")
    if not usable.all():
        gone = ", ".join(inputs.names[i] for i in np.flatnonzero(~usable))
        warnings.warn(f"no two rows agree on what is held fixed for: {gone}; use fewer factor_bins", stacklevel=5)
    return np.flatnonzero(usable)


def _accuracies(label: Ints, right: Bools, usable: Ints, inputs: Inputs) -> Floats:
    per_factor = np.full(len(inputs.kept), np.nan)
    drawn = np.bincount(label, minlength=len(usable))
    hits = np.bincount(label, right, minlength=len(usable))
    per_factor[usable] = np.where(drawn > 0, hits / np.maximum(drawn, 1), np.nan)
    return per_factor


def _rescaled(accuracy: float, k: int, rescale: bool) -> float:
    """Chance to 0. With one factor there is nothing to confuse, and the accuracy of 1 stays."""
    return (accuracy - 1 / k) / (1 - 1 / k) if rescale and k > 1 else accuracy


@metric
def irs(
    inputs: Inputs,
    *,
    quantile: float = 0.99,
    factor_bins: int = 10,
    binning: Kind = "width",
    bin_labels: bool = False,
    weights: Weights = "equal",
    code_weights: CodeWeights = "equal",
    robust: bool = False,
    continuous: Continuous = None,
) -> Result:
    """Interventional robustness: does a code stay put while its factor is held and all others change? Holistic, <= 1.

    With D_z = max |z - mean z|, and D_z(v) the mean over values of factor v of the largest |z - group mean| among the
    rows with that value,

        irs_z = max_v (1 - D_z(v) / D_z),

    and the mean over codes: Suter et al. (2019); Carbonneau et al. (2022), section 4.2.4.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    quantile : float
        Taken in place of the largest of D_z(v), the 1 of the paper. D_z stays the largest deviation unless `robust`.
    factor_bins, binning : int, {"width", "quantile"}
        Bins of continuous factors, and their kind; neither helps against wild rows of the codes.
    bin_labels : bool
        Bin categorical factors, too (Locatello et al., 2019).
    weights : {"equal", "frequency"}
        Of the values of a factor; "frequency" is the text of the paper.
    code_weights : {"equal", "deviation"}
        Weighting codes by D_z, as both releases do, makes the score depend on the scale of each code.
    robust : bool
        Take the quantile in D_z, too, and deviations from medians instead of means (`irs_robust` in tables). A code
        whose D_z is then 0, as it moves in fewer rows than the quantile leaves out, counts as constant.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.

    Returns
    -------
    Result with per_code (d,), matrix (k, d), details parents (d,): the best factor of each code.

    Notes
    -----
    Falls when some factors are not measured, and does not see redundant codes. Clean codes of continuous factors in 10
    bins score 0.9. Noise codes score 0.39 in the setting of Locatello et al. (2019), for the quantile is in D_z(v) and
    not in D_z: one wild row in 5,000 makes it 0.997, noise of heavy tails has 0.8 and more. `robust` gives such noise
    0.1 or less. A factor with fewer than 10 rows for each value, such as a row's number, is noted: holding it leaves
    nothing to vary, and noise scores up to 1. O(n d k): 5 ms for 10,000 rows, 10 codes and 5 factors.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> float(irs(factors, factors))
    1.0
    """
    if not 0 <= quantile <= 1:
        raise ValueError(f"quantile must be in 0..1, got {quantile!r}")
    one_of("weights", weights, get_args(Weights))
    one_of("code_weights", code_weights, get_args(CodeWeights))
    labels = inputs.binned(factor_bins, binning, categorical=bin_labels)
    _warn_of_few_rows_per_value(inputs, labels)
    live = inputs.live.copy()
    k, d = labels.shape[1], len(live)
    z = inputs.codes if live.all() else np.ascontiguousarray(inputs.codes[:, live])
    if max(z.max(initial=0), -z.min(initial=0)) > 1e300:  # sums would overflow; a common scale changes nothing
        z = z * 2.0**-100
    largest = _deviation_when_held(z, np.zeros(len(z), np.int64), quantile if robust else 1.0, "equal", robust)
    moving = largest > 0
    if not moving.all():
        live[live] = moving
        z, largest = np.ascontiguousarray(z[:, moving]), largest[moving]
    if not live.any():
        nothing = np.full(d, np.nan)
        return Result(0.0, per_code=nothing, matrix=inputs.among_given(np.zeros((k, d))), details={"parents": nothing})
    columns = np.ascontiguousarray(labels.T)
    held = np.array([_deviation_when_held(z, label, quantile, weights, robust) for label in columns])
    matrix = np.zeros((k, d))
    matrix[:, live] = 1 - held / largest
    score = matrix.max(axis=0)
    share = largest / largest.max() if code_weights == "deviation" else np.ones(len(largest))
    return Result(
        value=float(np.average(score[live], weights=share)),
        per_code=np.where(live, score, np.nan),
        matrix=inputs.among_given(matrix),
        details={"parents": np.where(live, inputs.kept[matrix.argmax(axis=0)], np.nan)},
    )


def _warn_of_few_rows_per_value(inputs: Inputs, labels: Ints) -> None:
    n = len(labels)
    for name, values in zip(inputs.names, labels.max(axis=0) + 1):
        if n < FEW_ROWS * values:
            held = f"{name} has {values:,} values in {n:,} rows, so holding it leaves little to vary"
            warnings.warn(f"irs is high by chance: {held}; declare it continuous, or use more rows", stacklevel=4)


def _deviation_when_held(z: Floats, label: Ints, quantile: float, weights: Weights, robust: bool) -> Floats:
    """Quantile of |z - group mean, or median| in groups of equal labels, averaged over groups: (d,) from z (n, d)."""

    size = np.bincount(label)
    if robust:
        groups = np.split(z[np.argsort(label, kind="stable")], np.cumsum(size)[:-1])
        centre = np.array([np.median(group, axis=0) for group in groups])
    else:
        centre = group_means(z, label, size)
    at = (size - 1) * quantile
    low = at.astype(np.int64)
    reach = np.empty((2, len(size), z.shape[1]))
    largest_deviations(z, label, size, centre, size - low, reach)
    reached = reach[0] + (reach[1] - reach[0]) * (at - low)[:, None]  # linear, as np.quantile
    return reached.mean(axis=0) if weights == "equal" else (size / len(label)) @ reached
