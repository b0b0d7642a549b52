"""Metrics that hold factors fixed and watch the codes: z_diff, z_min_variance, z_max_variance, irs.

The first three draw batches of rows under an intervention on one factor and ask whether the codes, by how far they
vary, name that factor. They need many rows, and do not ask for compactness: a factor may use several codes.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._inputs import Bools, Continuous, Floats, Inputs, Ints, Kind, Result, metric
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import one_of, positive_integer
from karenina.numerics.columns import standardised
from karenina.numerics.compile import njit
from karenina.numerics.logistic import Design, multinomial

Array = NDArray[Any]
Simulator = Callable[[Floats], ArrayLike] | Blocks
Weights = Literal["equal", "frequency"]
CodeWeights = Literal["equal", "deviation"]
STILL_BATCHES = 0.05  # The share of batches without variance above which a warning names the code.
# Random numbers are drawn for this many rows at a time, which bounds memory without changing the stream.
CHUNK = 1 << 19
FEW_ROWS = 10  # Of noise, irs exceeds 0.5 with fewer rows for each value of a factor.


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
    places = np.flatnonzero(active)
    k, d = len(inputs.kept), len(active)
    source = _source(inputs, standardised(inputs.codes), factor_bins, sampler, largest)
    usable = _usable(source, inputs)
    if not places.size:
        details: dict[str, Any] = {"active_codes": 0, "train_accuracy": 0.0}
        zeros = inputs.among_given(np.zeros((k, d)))
        return Result(0.0, zeros[:, 0], None, zeros, details)
    if not largest:
        _warn_of_still_codes(inputs.codes[:, active], places, batch)
    label = rng.integers(len(usable), size=train + evaluate)
    variance = source.variances(usable[label], batch, replace, rng)[:, active[inputs.live]]
    winner = places[variance.argmax(axis=1) if largest else variance.argmin(axis=1)]
    trained, tested = (np.zeros((d, k), np.int64) for _ in range(2))
    np.add.at(trained, (winner[:train], usable[label[:train]]), 1)
    np.add.at(tested, (winner[train:], usable[label[train:]]), 1)
    right = trained.argmax(axis=1)[winner] == usable[label]
    details = {
        "train_accuracy": float(right[:train].mean()),
        "active_codes": len(places),
        "votes": {"train": trained, "evaluate": tested},
    }
    per_factor = _accuracies(label[train:], right[train:], usable, inputs)
    totals = tested.sum(axis=0)[:, None]
    shares = np.where(totals > 0, tested.T / np.maximum(totals, 1), np.nan)
    value = _rescaled(float(right[train:].mean()), len(usable), rescale)
    return Result(value, inputs.among_given(per_factor), None, inputs.among_given(shares), details)


def _warn_of_still_codes(codes: Floats, places: Ints, batch: int) -> None:
    """Warn of codes with one value in so many rows that a batch drawn at random often has no other."""
    share = (codes == np.median(codes, axis=0)).mean(
        axis=0
    )  # a value that more than half of the rows have is the median
    still = places[share**batch > STILL_BATCHES]
    if len(still):
        which = ", ".join(map(str, still[:5])) + (", ..." if len(still) > 5 else "")
        warnings.warn(
            f"one value in nearly all rows of code {which}: batches without variance there win the vote, whatever is "
            "held; leave such codes out, or raise the threshold",
            stacklevel=4,
        )


def _check_integers(batch: int, train: int, evaluate: int, factor_bins: int) -> None:
    """Refuse numbers of rows, points and bins that are too small."""
    positive_integer(batch, "batch", 2)
    positive_integer(train, "train")
    positive_integer(evaluate, "evaluate")
    positive_integer(factor_bins, "factor_bins", 2)


def _source(
    inputs: Inputs, z: Floats, factor_bins: int, sampler: Simulator | None, rest: bool = False
) -> "GroupedRows | Simulated":
    """Return what draws batches of the live codes z, from the table or from the simulator, which is brought to the
    scale of z.
    """
    live = inputs.live
    if sampler is None:
        return GroupedRows.of(z[:, live], inputs.binned(factor_bins), rest=rest)
    scale = inputs.codes[:, live].std(axis=0) / z[:, live].std(axis=0)
    mean = inputs.codes[:, live].mean(axis=0) - scale * z[:, live].mean(axis=0)
    if isinstance(sampler, Blocks):
        if sampler.codes.shape[2] != len(live) or len(sampler.values) != inputs.given.shape[1]:
            found = f"{sampler.codes.shape[2]} codes and {len(sampler.values)} factors"
            raise ValueError(f"the blocks have {found}, expected {len(live)} and {inputs.given.shape[1]}")
        along = [(sampler.along(j)[:, :, live] - mean) / scale for j in inputs.kept]
        values = [sampler.values[j] for j in inputs.kept]
        return GroupedRows.of_blocks(along, values, z[:, live], inputs.factors, rest=rest)
    return Simulated(sampler, inputs.given, inputs.kept, mean, scale, live, rest)


def _usable(source: "GroupedRows | Simulated", inputs: Inputs) -> Ints:
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
    """Rescale an accuracy so that chance is 0. With one factor there is nothing to confuse, and the accuracy of 1
    stays.
    """
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
    code_weight = largest / largest.max() if code_weights == "deviation" else np.ones(len(largest))
    return Result(
        value=float(np.average(score[live], weights=code_weight)),
        per_code=np.where(live, score, np.nan),
        matrix=inputs.among_given(matrix),
        details={"parents": np.where(live, inputs.kept[matrix.argmax(axis=0)], np.nan)},
    )


def _warn_of_few_rows_per_value(inputs: Inputs, labels: Ints) -> None:
    """Warn of factors with so many values that few rows share one."""
    n = len(labels)
    for name, values in zip(inputs.names, labels.max(axis=0) + 1):
        if n < FEW_ROWS * values:
            held = f"{name} has {values:,} values in {n:,} rows, so holding it leaves little to vary"
            warnings.warn(f"irs is high by chance: {held}; declare it continuous, or use more rows", stacklevel=4)


def _deviation_when_held(z: Floats, label: Ints, quantile: float, weights: Weights, robust: bool) -> Floats:
    """Return the quantile of |z - group mean, or median| in groups of equal labels, averaged over groups: (d,) from z
    (n, d).
    """
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


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows of a table in groups that agree on what an intervention holds fixed. Only groups of two or more rows count.

    Group g holds the rows order[start[g] : start[g] + size[g]]; factor i has count[i] groups from first[i] on.
    """

    codes: Floats
    order: Ints
    start: Ints
    size: Ints
    first: Ints
    count: Ints

    @classmethod
    def of(cls, codes: Floats, labels: Ints, *, rest: bool = False) -> "GroupedRows":
        """Group rows that share the value of one factor, or with `rest` the values of all the others."""
        n, k = labels.shape
        orders, starts, sizes, counts = [], [], [], []
        for i in range(k):
            held = np.delete(labels, i, axis=1) if rest else labels[:, [i]]
            key = _keys(held)
            order = np.argsort(key, kind="stable")
            change = np.flatnonzero(np.diff(key[order])) + 1
            start = np.concatenate([[0], change])
            size = np.diff(np.concatenate([start, [n]]))
            orders.append(order)
            starts.append(start[size > 1] + i * n)
            sizes.append(size[size > 1])
            counts.append(int((size > 1).sum()))
        count = np.array(counts, np.int64)
        return cls(
            np.ascontiguousarray(codes),
            np.concatenate(orders),
            np.concatenate(starts),
            np.concatenate(sizes),
            np.cumsum(count) - count,
            count,
        )

    @classmethod
    def of_blocks(
        cls, blocks: Sequence[Floats], values: Sequence[Floats], rows: Floats, factors: Floats, *, rest: bool = False
    ) -> "GroupedRows":
        """Group the rows of blocks: per factor codes (b, V, d) of b rows in which it takes each of V values.

        rows (n, d), factors (n, k): other draws of the generative model, which have the value of a factor by chance.
        Where these are as many as the blocks, they alone stand for it.
        """
        orders: list[Ints] = []
        sizes: list[int] = []
        counts: list[int] = []
        begin = len(rows)
        for along, known, column in zip(blocks, values, factors.T):
            b, v = along.shape[:2]
            places = begin + np.arange(b * v).reshape(b, v)
            begin += b * v
            # In blocks all values of a factor go with the same other factors, and so with the same chance; rows do not.
            held = [
                in_rows if len(in_rows) >= b else np.append(in_blocks, in_rows)
                for in_blocks, in_rows in zip(places.T, _having(column, known))
            ]
            groups = [group for group in (list(places) if rest else held) if len(group) > 1]
            orders += groups
            sizes += [len(group) for group in groups]
            counts.append(len(groups))
        size, count = np.array(sizes, np.int64), np.array(counts, np.int64)
        flat = np.concatenate([rows, *(along.reshape(-1, along.shape[2]) for along in blocks)])
        order = np.concatenate([*orders, np.empty(0, np.int64)])
        return cls(flat, order, np.cumsum(size) - size, size, np.cumsum(count) - count, count)

    @property
    def usable(self) -> Bools:
        """Return the factors (k,) for which a batch can be drawn."""
        return self.count > 0

    def differences(self, factor: Ints, batch: int, per_pair: bool, rng: np.random.Generator) -> Floats:
        """Return the mean |z1 - z2| over `batch` pairs that share their value of factor[p], for each point p: (points,
        d).

        per_pair: every pair draws a value, otherwise all pairs of a point have the same.
        """
        out = np.empty((len(factor), self.codes.shape[1]))
        for part in _parts(len(factor), 3 * batch):
            uniform = rng.random((len(out[part]), batch, 3))
            if not per_pair:
                uniform[:, :, 0] = uniform[:, :1, 0]
            groups = (self.order, self.start, self.size, self.first, self.count)
            mean_differences(self.codes, *groups, factor[part], uniform, out[part])
        return out

    def variances(self, factor: Ints, batch: int, replace: bool, rng: np.random.Generator) -> Floats:
        """Return the variance (ddof 1) of `batch` rows under the intervention on factor[v], for each vote v: (votes,
        d).
        """
        out = np.empty((len(factor), self.codes.shape[1]))
        room = np.empty(int(self.size.max(initial=1)), np.int64)
        for part in _parts(len(factor), batch + 1):
            uniform = rng.random((len(out[part]), batch + 1))
            group = self.first[factor[part]] + _below(uniform[:, 0], self.count[factor[part]])
            groups = (self.order, self.start, self.size)
            local_variances(self.codes, *groups, group, uniform[:, 1:], replace, room, out[part])
        return out


@dataclass(frozen=True, eq=False)
class Simulated:
    """Fresh codes for any rows of factors, in the place of `GroupedRows`: `simulator((m, all factors)) -> (m, d)`.

    Rows start as rows of the table of factors; the intervened factor takes a value drawn from those it has there.
    """

    simulator: Callable[[Floats], ArrayLike]
    factors: Floats
    kept: Ints
    mean: Floats
    scale: Floats
    live: Bools
    rest: bool = False

    @property
    def usable(self) -> Bools:
        return np.ones(len(self.kept), bool)

    def differences(self, factor: Ints, batch: int, per_pair: bool, rng: np.random.Generator) -> Floats:
        out = np.empty((len(factor), int(self.live.sum())))
        for part in _parts(len(factor), 2 * batch):
            held = np.repeat(factor[part], batch)
            value = self._values(held, rng) if per_pair else np.repeat(self._values(factor[part], rng), batch)
            first, second = (self._held(held, value, rng) for _ in range(2))
            gap = np.abs(self._codes(first) - self._codes(second))
            out[part] = gap.reshape(len(factor[part]), batch, out.shape[1]).mean(axis=1)
        return out

    def variances(self, factor: Ints, batch: int, replace: bool, rng: np.random.Generator) -> Floats:
        out = np.empty((len(factor), int(self.live.sum())))
        for part in _parts(len(factor), batch):
            if self.rest:
                rows = self.factors[np.repeat(rng.integers(len(self.factors), size=len(factor[part])), batch)]
                changed = np.repeat(factor[part], batch)
                rows[np.arange(len(rows)), self.kept[changed]] = self._values(changed, rng)
            else:
                value = np.repeat(self._values(factor[part], rng), batch)
                rows = self._held(np.repeat(factor[part], batch), value, rng)
            out[part] = self._codes(rows).reshape(len(factor[part]), batch, out.shape[1]).var(axis=1, ddof=1)
        return out

    def _values(self, factor: Ints, rng: np.random.Generator) -> Floats:
        chosen = np.empty(len(factor))
        uniform = rng.random(len(factor))
        for i, column in enumerate(self.kept):
            values = np.unique(self.factors[:, column])
            here = factor == i
            chosen[here] = values[_below(uniform[here], np.int64(len(values)))]
        return chosen

    def _held(self, factor: Ints, value: Floats, rng: np.random.Generator) -> Floats:
        rows = self.factors[rng.integers(len(self.factors), size=len(factor))]
        rows[np.arange(len(rows)), self.kept[factor]] = value
        return rows

    def _codes(self, rows: Floats) -> Floats:
        codes = np.asarray(self.simulator(rows), np.float64)
        if codes.shape != (len(rows), len(self.live)):
            raise ValueError(f"sampler gave {codes.shape} for {len(rows)} rows, expected {(len(rows), len(self.live))}")
        if not np.isfinite(codes).all():
            raise ValueError("sampler gave codes that are not finite")
        return (codes[:, self.live] - self.mean) / self.scale


def _keys(held: Ints) -> Ints:
    """Return one integer per row that tells the rows' combinations of labels apart."""
    key = np.zeros(len(held), np.int64)
    span = 1
    for column in held.T:
        size = int(column.max()) + 1
        if span * size > 2**62:
            key = np.unique(key, return_inverse=True)[1]
            span = len(held)
        key = key * size + column
        span *= size
    return key


def _having(column: Floats, values: Floats) -> list[Ints]:
    """Return for each of the values the rows (m,) that have exactly it."""
    order = np.argsort(column, kind="stable")
    low, high = (np.searchsorted(column[order], values, side) for side in ("left", "right"))
    return [order[a:b] for a, b in zip(low, high)]


def _below(uniform: Floats, size: Any) -> Ints:
    """Turn uniform numbers in [0, 1) into integers in [0, size)."""
    return np.minimum((uniform * size).astype(np.int64), size - 1)


def _parts(points: int, width: int) -> list[slice]:
    step = max(1, CHUNK // width)
    return [slice(a, min(a + step, points)) for a in range(0, points, step)]


@njit(cache=True)
def mean_differences(
    z: Array, order: Array, start: Array, size: Array, first: Array, count: Array, factor: Array, u: Array, out: Array
) -> None:
    """Write the mean |z1 - z2| of pairs of different rows of one group; u (points, batch, 3) picks group and rows."""
    points, batch, _ = u.shape
    d = z.shape[1]
    for p in range(points):
        f = factor[p]
        for j in range(d):
            out[p, j] = 0.0
        for b in range(batch):
            g = first[f] + min(int(u[p, b, 0] * count[f]), count[f] - 1)
            m = size[g]
            one = min(int(u[p, b, 1] * m), m - 1)
            two = min(int(u[p, b, 2] * (m - 1)), m - 2)
            if two >= one:
                two += 1
            r, s = order[start[g] + one], order[start[g] + two]
            for j in range(d):
                out[p, j] += abs(z[r, j] - z[s, j])
        for j in range(d):
            out[p, j] /= batch


@njit(cache=True)
def local_variances(
    z: Array, order: Array, start: Array, size: Array, group: Array, u: Array, replace: bool, rows: Array, out: Array
) -> None:
    """Write the variance (ddof 1) of a batch of rows of one group, which u (votes, batch) picks. rows: working room."""
    votes, batch = u.shape
    d = z.shape[1]
    total, square = np.empty(d), np.empty(d)
    for v in range(votes):
        s, m = start[group[v]], size[group[v]]
        for j in range(d):
            total[j] = square[j] = 0.0
        if not replace:
            for i in range(m):
                rows[i] = order[s + i]
        origin = order[s]
        for b in range(batch):
            if replace:
                row = order[s + min(int(u[v, b] * m), m - 1)]
            else:  # shuffle as it goes, and begin a new pass at the end
                done = b % m
                t = done + min(int(u[v, b] * (m - done)), m - done - 1)
                row = rows[t]
                rows[t] = rows[done]
                rows[done] = row
            for j in range(d):
                gap = z[row, j] - z[origin, j]  # from a row of the group, so that equal codes give exactly 0
                total[j] += gap
                square[j] += gap * gap
        for j in range(d):
            out[v, j] = max(0.0, square[j] - total[j] * total[j] / batch) / (batch - 1)


@njit(cache=True)
def group_means(z: Array, label: Array, size: Array) -> Array:
    """Return the mean of the rows of z (n, d) in each group: (groups, d)."""
    n, d = z.shape
    mean = np.zeros((len(size), d))
    for r in range(n):
        for j in range(d):
            mean[label[r], j] += z[r, j]
    for g in range(len(size)):
        for j in range(d):
            mean[g, j] /= size[g]
    return mean


@njit(cache=True)
def largest_deviations(z: Array, label: Array, size: Array, centre: Array, top: Array, reach: Array) -> None:
    """Write the top[g]-th largest |z[:, j] - centre[g, j]| of group g to reach[0, g, j], and the next larger (itself if
    none) to reach[1, g, j].

    numpy would sort every group to read its few largest rows.
    """
    n, d = z.shape
    first, room = np.empty(len(size), np.int64), 0
    for g in range(len(size)):
        first[g] = room
        room += top[g] * d
    heap = np.full(room, -1.0)  # per group and code a min-heap of the largest deviations so far
    least = np.full((len(size), d), -1.0)  # their roots, side by side for the common case
    for r in range(n):
        g = label[r]
        for j in range(d):
            value = abs(z[r, j] - centre[g, j])
            if value > least[g, j]:  # replace the root and sift down
                root = first[g] + j * top[g]
                at = 0
                child = 1
                while child < top[g]:
                    if child + 1 < top[g] and heap[root + child + 1] < heap[root + child]:
                        child += 1
                    if heap[root + child] >= value:
                        break
                    heap[root + at] = heap[root + child]
                    at = child
                    child = 2 * at + 1
                heap[root + at] = value
                least[g, j] = heap[root]
    for g in range(len(size)):
        for j in range(d):
            root = first[g] + j * top[g]
            reach[0, g, j] = heap[root]
            reach[1, g, j] = heap[root + 1] if top[g] > 1 else heap[root]
            if top[g] > 2:
                reach[1, g, j] = min(heap[root + 1], heap[root + 2])
