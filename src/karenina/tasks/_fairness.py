"""Do predictions of one factor depend on another? (Locatello et al. 2019b, "On the fairness of disentangled
representations", section 4; Duan et al. 2020, A.8; Holtz et al. 2022, section 4.)

A classifier of a target factor is fair to a sensitive factor when its predictions are distributed alike whatever the
sensitive value. Unfairness is the total variation between the prediction's distribution overall and under each value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import as_matrix, positive_integer, ranks
from karenina.tasks._downstream import Rows, boosted_labels, rows

Labels = NDArray[np.int64]
Sampler = Callable[[Floats], ArrayLike] | Blocks

# How often rows are divided to tell unfairness from chance, and into how many parts.
DIVISIONS = 4
PARTS = 5


@dataclass(frozen=True, eq=False)
class Fairness:
    """Unfairness of each target (row) towards each sensitive factor (column); smaller is fairer.

    mean, max: (k, k) over the sensitive values, weighted by their rows; NaN on the diagonal, for constant factors and
    where no sensitive value has rows enough. intervened: by a sampler, or only conditioned on.
    """

    mean: Floats
    max: Floats
    intervened: bool

    def __float__(self) -> float:
        """Return the score of the papers: the mean over targets and sensitive factors of the mean total variation."""
        return float(np.nanmean(self.mean))

    def summary(self) -> dict[str, float]:
        """Return both scores under flat names for tables: fairness_mean, fairness_max."""
        return {"fairness_mean": float(self), "fairness_max": float(np.nanmax(self.max))}

    def scores(self) -> dict[str, float]:
        """Return all means and maxima over targets and sensitive factors, under the names of disentanglement_lib."""
        flat = {}
        for name, pairs in (("mean_fairness", self.mean), ("max_fairness", self.max)):
            for i, j in np.argwhere(np.isfinite(pairs)):
                flat[f"{name}:pred{i}:sens{j}"] = float(pairs[i, j])
            for of, over, table in (("pred", "sens", pairs), ("sens", "pred", pairs.T)):
                alive = np.flatnonzero(np.isfinite(table).any(axis=1))
                lines = table[alive]
                for summary, values in (("mean", np.nanmean(lines, axis=1)), ("max", np.nanmax(lines, axis=1))):
                    flat |= {f"{name}:{of}{i}:{summary}_{over}": float(v) for i, v in zip(alive, values)}
                    flat[f"{name}:mean_{of}:{summary}_{over}"] = float(values.mean())
                    flat[f"{name}:max_{of}:{summary}_{over}"] = float(values.max())
        return flat


def total_variation(counts: ArrayLike) -> tuple[float, float]:
    """Return mean (weighted by rows) and maximum over sensitive values of the total variation from the overall
    distribution.

    Parameters
    ----------
    counts : (predictions, sensitive values)
        How often each label was predicted under each value.

    Examples
    --------
    >>> mean, most = total_variation([[0, 100], [100, 100]])
    >>> round(9 * mean, 6), round(3 * most, 6)
    (2.0, 1.0)
    """
    table = as_matrix(counts, "counts")
    if (table < 0).any() or not table.sum():
        raise ValueError("counts must be 0 or more, and not all 0")
    table = table[:, table.sum(axis=0) > 0]
    distance = np.abs(_gaps(table)).sum(axis=0) / 2
    weight = table.sum(axis=0)
    return float((distance * weight).sum() / weight.sum()), float(distance.max())


def fairness(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    train: int = 10_000,
    test: int = 5000,
    sampler: Sampler | None = None,
    per_value: int = 100,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
    bins: int = 10,
    correct: bool = True,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
) -> Fairness:
    """Measure how unfair boosted-tree predictions of each factor are towards each other factor.

    With a sampler the sensitive factor is set to each of its values in turn, in the same rows. Without one, test rows
    are divided by their sensitive value. Divided rows differ by chance alone, and total variation counts that as
    unfairness (0.16 for 40 labels and 250 rows per value). So there the set of labels that a value favours is found on
    four fifths of the rows and its excess measured on the fifth, each fifth in turn: independent predictions get about
    0 in the mean (estimates below 0 count as 0); the maximum over values stays above 0 by chance. Differences too small
    to find are missed. Values of fewer than two rows do not count.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    train, test : int
        Rows that the classifiers learn from, and rows to test on; set aside as in `downstream`.
    sampler : (m, k) factors -> (m, d) codes, or Blocks of such codes
    per_value : int
        Rows that the sampler is asked for, per sensitive value.
    seed : int
    continuous : bool or one per factor
        Continuous factors are cut into `bins` of equally many rows; an intervention sets them to a bin's median.
    bins : int
    correct : bool
        False: the plain distance, chance included.
    test_codes, test_factors : (m, d), (m, k)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(3, size=(900, 2))
    >>> fair, leaky = v.astype(float), v + [[0, 1]] * (v[:, :1] == 2)
    >>> float(fairness(fair, v)) < 0.03 < 0.1 < float(fairness(leaky[:, 1:], v))
    True
    """
    rng = np.random.default_rng(seed)
    train, bins = positive_integer(train, "train"), positive_integer(bins, "bins")
    per_value = positive_integer(per_value, "per_value")
    data = rows(codes, factors, test, rng, continuous, test_codes, test_factors)
    kept = np.flatnonzero(data.varies).tolist()
    if len(kept) < 2:
        raise ValueError(f"fairness needs two factors that vary, got {len(kept)} of {len(data.varies)}")
    learn = np.concatenate([data.train, data.test])[:train] if sampler and test_codes is None else data.train[:train]
    labels = np.column_stack([_binned(data, j, bins) for j in range(len(data.varies))])
    if sampler is None:
        asked, groups = data.codes[data.test], [(j, slice(None), labels[data.test, j]) for j in kept]
    elif isinstance(sampler, Blocks):
        asked, groups = _of_blocks(sampler, (data.codes.shape[1], len(data.varies)), kept, per_value)
    else:
        asked, groups = _interventions(data, labels, kept, sampler, per_value, rng)
    mean = np.full((len(data.varies), len(data.varies)), np.nan)
    most = mean.copy()
    for i in kept:
        guess = boosted_labels(data.codes[learn], labels[learn, i], asked, rng)
        for j, part, value in groups:
            if i != j:
                estimate = _plain if sampler is not None or not correct else _excess
                mean[i, j], most[i, j] = estimate(guess[part], value, rng)
    if np.isnan(mean).all():
        raise ValueError(f"no value of any factor has two of the {len(data.test)} test rows: nothing can be compared")
    return Fairness(mean, most, sampler is not None)


def _binned(data: Rows, j: int, bins: int) -> Labels:
    """Return factor j as labels, a continuous one by quantiles."""
    target = data.target(j)
    if not data.continuous[j]:
        return target
    cuts = np.unique(np.quantile(target, np.arange(1, bins) / bins))
    return ranks(np.searchsorted(cuts, target))


def _of_blocks(
    blocks: Blocks, width: tuple[int, int], kept: list[int], per_value: int
) -> tuple[Floats, list[tuple[int, slice, Labels]]]:
    """Return what `_interventions` does, from rows that are encoded already. width: how many codes and factors there
    are.
    """
    if len(blocks.values) != width[1] or blocks.codes.shape[2] != width[0]:
        found = f"{blocks.codes.shape[2]} codes and {len(blocks.values)} factors"
        raise ValueError(f"the blocks have {found}, expected {width[0]} and {width[1]}")
    wanted, groups, begin = [], [], 0
    for j in kept:
        along = blocks.along(j)[:per_value]
        b, v, d = along.shape
        wanted.append(along.reshape(b * v, d))
        groups.append((j, slice(begin, begin + b * v), np.tile(np.arange(v), b)))
        begin += b * v
    return np.concatenate(wanted), groups


def _interventions(
    data: Rows,
    labels: Labels,
    kept: list[int],
    sampler: Callable[[Floats], ArrayLike],
    per_value: int,
    rng: np.random.Generator,
) -> tuple[Floats, list[tuple[int, slice, Labels]]]:
    """Return codes of rows whose factor j was set to each of its values, for all j, and where those of each j are."""
    wanted, groups, begin = [], [], 0
    for j in kept:
        values = np.array([np.median(data.factors[labels[:, j] == c, j]) for c in range(labels[:, j].max() + 1)])
        base = data.factors[rng.integers(len(data.factors), size=per_value)]
        block = np.tile(base, (len(values), 1))
        block[:, j] = np.repeat(values, per_value)
        wanted.append(block)
        groups.append((j, slice(begin, begin + len(block)), np.repeat(np.arange(len(values)), per_value)))
        begin += len(block)
    asked = np.concatenate(wanted)
    codes = as_matrix(sampler(asked), "the sampler's codes")
    if codes.shape != (len(asked), data.codes.shape[1]):
        raise ValueError(f"the sampler gave {codes.shape}, expected {(len(asked), data.codes.shape[1])}")
    return codes, groups


def _plain(guess: NDArray[Any], value: Labels, rng: np.random.Generator) -> tuple[float, float]:
    return total_variation(_counts(ranks(guess), ranks(value)))


def _excess(guess: NDArray[Any], value: Labels, rng: np.random.Generator) -> tuple[float, float]:
    """Estimate total variation, the largest excess of any set of labels: choose the set on some rows, weigh it on
    others.
    """
    guess, value = ranks(guess), ranks(value)
    table = _counts(guess, value)
    weight = table.sum(axis=0)
    enough = weight >= 2
    if not enough.any():
        return np.nan, np.nan
    distance = np.zeros(len(weight))
    for _ in range(DIVISIONS):
        order = rng.permutation(len(guess))
        order = order[np.argsort(value[order], kind="stable")]  # by value, so that every part holds every value
        for part in range(PARTS):
            rest = order[part::PARTS]
            weighed = _counts(guess[rest], value[rest], table.shape)
            favoured = np.sign(_gaps(table - weighed))
            distance += (favoured * _gaps(weighed)).sum(axis=0) / 2 * weighed.sum(axis=0)
    distance = distance[enough] / (DIVISIONS * weight[enough])
    mean = float((distance * weight[enough]).sum() / weight[enough].sum())
    return max(mean, 0.0), max(float(distance.max()), 0.0)


def _counts(guess: Labels, value: Labels, shape: tuple[int, ...] | None = None) -> Floats:
    height, columns = shape or (int(guess.max()) + 1, int(value.max()) + 1)
    return np.bincount(guess * columns + value, minlength=height * columns).reshape(height, columns).astype(np.float64)


def _gaps(table: Floats) -> Floats:
    """Return the distribution under each sensitive value minus the overall one; 0 for a value without rows."""
    size = table.sum(axis=0)
    shares = np.divide(table, size, out=np.zeros_like(table), where=size > 0)
    return np.where(size > 0, shares - (table.sum(axis=1) / table.sum())[:, None], 0.0)
