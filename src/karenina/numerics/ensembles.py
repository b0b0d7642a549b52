"""Ensembles of trees, scikit-learn's with its defaults, fast enough to fit one per factor and fold.

Gradient boosting of depth-3 trees (Friedman 2001): 100 rounds, learning rate 0.1, splits that take most squared error
off the residuals, Newton leaf values. The training set decides where splits are sought: `Sorted` between all values of
a code, `Binned` between at most 256 bins of about equally many rows (the same splits where a code has no more values
than bins). Splits with equal gains are drawn at random, where scikit-learn leaves the choice to rounding.

Random forests (Breiman 2001). What differs is the random stream, which draws bootstraps and settles ties between
features, and that rounding is relative to a code's scale: scikit-learn's 1e-7 makes small codes constant. Rows are
sorted once per training set, not once per node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.columns import distinct

BINS = 256
ROUNDS = 100
RATE = 0.1
DEPTH = 3
NODES = 2 ** (DEPTH + 1) - 1  # node i has the children 2i + 1 and 2i + 2
TREES = 10  # of a forest


@dataclass(frozen=True, eq=False)
class Sorted:
    """Codes (n, d) with each code's rows in rising order: keys (d, n), rank above and row below the bits of `mask`."""

    codes: Floats
    keys: NDArray[Any]
    mask: Any

    @classmethod
    def of(cls, codes: Floats) -> "Sorted":
        order = np.argsort(codes, axis=0, kind="stable").T
        values = np.take_along_axis(codes.T, order, axis=1)
        rank = np.zeros(values.shape, np.int64)
        np.cumsum(distinct(values), axis=1, out=rank[:, 1:])  # equal values, equal rank
        # Half the width keeps the keys of up to 65,536 rows in the cache.
        dtype, bits = (np.uint32, 16) if len(codes) <= 1 << 16 else (np.uint64, 32)
        keys = np.ascontiguousarray(rank << bits | order).astype(dtype)
        return cls(np.ascontiguousarray(codes), keys, dtype((1 << bits) - 1))

    def grower(self) -> Callable[..., None]:
        """What grows a tree on these codes into given arrays."""
        from karenina.numerics.trees import grow_boosted

        room = np.empty_like(self.keys), np.empty(len(self.codes), self.keys.dtype), np.empty(len(self.codes), np.uint8)
        return partial(grow_boosted, self.codes, self.keys, self.mask, *room)


@dataclass(frozen=True, eq=False)
class Binned:
    """Codes (n, d) in bins: bin_of (n, d), counts (d, bins), ends (d, bins, 2), the least and largest value per bin."""

    codes: Floats
    bin_of: NDArray[np.uint8]
    counts: Floats
    ends: Floats

    @classmethod
    def of(cls, codes: Floats) -> "Binned":
        edges = [_edges(column) for column in codes.T]
        bin_of = np.column_stack([np.searchsorted(edge, column) for edge, column in zip(edges, codes.T)])
        bins = max(len(edge) for edge in edges) + 1
        counts = np.stack([np.bincount(column, minlength=bins) for column in bin_of.T]).astype(np.float64)
        ends = np.zeros((codes.shape[1], bins, 2))
        for j, (column, own) in enumerate(zip(codes.T, bin_of.T)):
            order = np.argsort(column, kind="stable")
            first = np.searchsorted(own[order], np.arange(len(edges[j]) + 1))
            last = np.append(first[1:], len(column)) - 1
            ends[j, : len(first)] = np.stack([column[order[first]], column[order[last]]], axis=1)
        return cls(codes, bin_of.astype(np.uint8), counts, ends)

    def grower(self) -> Callable[..., None]:
        """What grows a tree on these codes into given arrays."""
        from karenina.numerics.binned_trees import grow_boosted

        return partial(grow_boosted, self.bin_of, self.counts, self.ends)


def _edges(column: Floats) -> Floats:
    """The midpoints between the values where one bin ends and the next begins."""
    values, counts = np.unique(column, return_counts=True)
    last = np.arange(len(values) - 1)
    if len(values) > BINS:
        last = np.unique(np.searchsorted(np.cumsum(counts), np.arange(1, BINS) * len(column) / BINS))
        last = last[last < len(values) - 1]
    return values[last] + (values[last + 1] - values[last]) / 2


@dataclass(frozen=True, eq=False)
class Boosted:
    """A fitted ensemble for one target.

    start: (t,), the constants that boosting starts from; t is the number of trees per round, one per class, or 1 for
    regression and two classes. feature, cut, leaf: (rounds, t, nodes), feature -1 at leaves, rows with a value <= cut
    to the left. importance: (d,), the share of the squared error that splits on each code took away. classes: 0 for
    regression.
    """

    start: Floats
    feature: NDArray[np.int32]
    cut: Floats
    leaf: Floats
    importance: Floats
    classes: int

    def decision(self, codes: Floats) -> Floats:
        """Raw scores (t, n) for codes (n, d)."""
        from karenina.numerics.trees import add_up

        raw = np.tile(self.start[:, None], len(codes))
        add_up(np.ascontiguousarray(codes, dtype=np.float64), self.feature, self.cut, self.leaf, raw)
        return raw

    def predict(self, codes: Floats) -> NDArray[Any]:
        """Labels (n,) int, or values (n,) float for regression."""
        raw = self.decision(codes)
        if not self.classes:
            return raw[0]
        return raw.argmax(axis=0) if len(raw) > 1 else (raw[0] > 0).astype(np.int64)


def boost(train: Sorted | Binned, target: NDArray[Any], classes: int, rng: np.random.Generator) -> Boosted:
    """Fit one target (n,): labels 0..classes-1, all of them present, or floats with classes = 0 (squared loss).

    >>> x = np.arange(40.0)[:, None]
    >>> fitted = boost(Binned.of(x), (x[:, 0] > 20).astype(int), 2, np.random.default_rng(0))
    >>> fitted.predict(np.array([[3.0], [30.0]]))
    array([0, 1])
    """
    n, d = train.codes.shape
    unit = 1.0 if classes else _unit(target)
    target = target / unit if unit != 1 else target
    start = _start(target, classes)
    trees = len(start)
    wanted = ((target == np.arange(classes)[:, None]) if trees > 1 else target[None]).astype(np.float64)
    raw = np.tile(start[:, None], n)
    feature = np.full((ROUNDS, trees, NODES), -1, np.int32)
    cut, leaf = np.zeros(feature.shape), np.zeros(feature.shape)
    importance = np.zeros(d)
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    scale = RATE * ((classes - 1) / classes if classes > 2 else 1.0)
    grow = train.grower()
    for r in range(ROUNDS):
        expected = _expected(raw, classes)
        curvature = expected * (1 - expected) if classes else np.ones_like(raw)
        residual = wanted - expected
        for t in range(trees):
            tree = feature[r, t], cut[r, t], leaf[r, t]
            grow(residual[t], curvature[t], scale, raw[t], *tree, importance, state)
    total = importance.sum()
    shares = importance / total if total > 0 else importance
    return Boosted(start * unit, feature, cut, leaf * unit, shares, classes)


def _unit(target: Floats) -> float:
    """A power of two to divide numbers by: trees take a variance below 2e-16 for rounding, and square residuals."""
    width = float(np.ptp(target))
    return 2.0 ** np.floor(np.log2(width)) if 0 < width < 1 or width > 1e100 else 1.0


def _start(target: NDArray[Any], classes: int) -> Floats:
    """The best constants: the mean, the log odds, or the log shares."""
    if not classes:
        return np.array([target.mean()])
    shares = np.bincount(target, minlength=classes) / len(target)
    return np.log(shares[1:] / shares[:1]) if classes == 2 else np.log(shares)


def _expected(raw: Floats, classes: int) -> Floats:
    if not classes:
        return raw
    if classes == 2:
        return 1 / (1 + np.exp(-raw))
    p = np.exp(raw - raw.max(axis=0))
    p /= p.sum(axis=0)
    return p


class Forest(NamedTuple):
    """What a forest says. importance, splits: (d,), both with sum 1. guess: (depths, rows, classes or 1)."""

    importance: Floats
    guess: Floats
    splits: Floats


def forest(
    train: Sorted,
    test: Floats,
    target: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    *,
    depths: Sequence[int],
    max_features: float = 1.0,
) -> Forest:
    """Importances of a forest grown to the last of the rising depths, and predictions for `test` at each.

    target: labels 0..classes-1 (Gini), or floats with classes = 0 (variance). Predictions: (depths, rows, classes or
    1), mean class shares or mean values. Importances: the mean over trees of the decrease of impurity by each code, and
    of its share of the splits (Breiman et al. 1984). A tree cut off at a depth is the tree grown to that depth, so that
    one forest serves every depth. max_features: the share of codes tried at a split.
    """
    from karenina.numerics.trees import add_predictions, grow_forest_tree

    n, d = train.codes.shape
    some = max(1, int(max_features * d))
    columns = max(classes, 1)
    y = target.astype(np.float64)
    guess = np.zeros((len(depths), len(test), columns))
    levels = np.asarray(depths, np.int64)
    importance, splits = np.zeros(d), np.zeros(d)
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    spare, side = np.empty(n, train.keys.dtype), np.empty(n, np.uint8)
    for _ in range(TREES):
        weight = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        drawn = weight > 0
        keys = train.keys[drawn[train.keys & train.mask]].reshape(d, -1)
        settings = (weight, y, columns, int(levels[-1]), some, state, spare, side)
        feature, threshold, child, values, gains = grow_forest_tree(train.codes, keys, train.mask, *settings)
        add_predictions(test, feature, threshold, child, values, levels, guess)
        if gains.sum() > 0:
            importance += gains / gains.sum()
            times = np.bincount(feature[feature >= 0], minlength=d)
            splits += times / times.sum()
    total = max(float(splits.sum()), 1.0)  # trees of one leaf have none
    return Forest(importance / (importance.sum() or 1.0), guess / TREES, splits / total)


def choose(
    parts: Sequence[tuple[Sorted, Floats, NDArray[np.int64], NDArray[np.int64]]],
    target: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    *,
    depths: Sequence[int],
    max_features: Sequence[float],
) -> tuple[int, float]:
    """The depth and max_features with the lowest error on the rows left out.

    parts: per fold its sorted training codes, its codes left out, and the rows of both in `target`.
    """
    depths = sorted(depths)
    if len(depths) == 1 and len(max_features) == 1:
        return depths[0], max_features[0]
    error = np.zeros((len(max_features), len(depths)))
    for train, out, rows, left in parts:
        for i, share in enumerate(max_features):
            guess = forest(train, out, target[rows], classes, rng, depths=depths, max_features=share).guess
            if classes:
                error[i] += (guess.argmax(axis=2) != target[left]).mean(axis=1)
            else:
                error[i] += ((guess[:, :, 0] - target[left]) ** 2).mean(axis=1)
    depth, share = divmod(int(error.T.argmin()), len(max_features))
    return depths[depth], max_features[share]
