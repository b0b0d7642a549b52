"""Boosted trees and random forests: scikit-learn's, with its defaults, fast enough to fit one per factor and fold.

Same losses, thresholds, leaf values and importances as scikit-learn 1.9. What differs is the random stream, which draws
bootstraps and settles ties between features, and that rounding is relative to a code's scale: scikit-learn's 1e-7 makes
small codes constant. Rows are sorted once per training set, not once per node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.columns import distinct

Array = NDArray[np.float64]

ROUNDS = 100
RATE = 0.1
DEPTH = 3
TREES = 10


@dataclass(frozen=True, eq=False)
class Sorted:
    """Codes (n, d) with each code's rows in rising order: keys (d, n), rank above and row below the bits of `mask`."""

    codes: Array
    keys: NDArray[Any]
    mask: Any

    @classmethod
    def of(cls, codes: Array) -> "Sorted":
        order = np.argsort(codes, axis=0, kind="stable").T
        values = np.take_along_axis(codes.T, order, axis=1)
        rank = np.zeros(values.shape, np.int64)
        np.cumsum(distinct(values), axis=1, out=rank[:, 1:])  # equal values, equal rank
        # Half the width keeps the keys of up to 65,536 rows in the cache.
        dtype, bits = (np.uint32, 16) if len(codes) <= 1 << 16 else (np.uint64, 32)
        keys = np.ascontiguousarray(rank << bits | order).astype(dtype)
        return cls(np.ascontiguousarray(codes), keys, dtype((1 << bits) - 1))


def boost(
    train: Sorted, test: Array, target: NDArray[Any], classes: int, rng: np.random.Generator
) -> tuple[Array, NDArray[Any]]:
    """Importances (d,) of the codes for one target, and its predictions for the rows of `test`.

    target: labels 0..classes-1, each present, or floats with classes = 0 (squared loss). GradientBoosting's defaults:
    100 rounds of depth-3 trees, learning rate 0.1; the importance is the squared error that a code's splits took away.
    """
    from karenina.numerics.trees import grow_boosted

    n, d = train.codes.shape
    trees = classes if classes > 2 else 1
    raw, guess = np.empty((trees, n)), np.empty((trees, len(test)))
    raw[:] = guess[:] = 0.0
    start = _initial(target, classes)
    raw += start
    guess += start
    importance = np.zeros(d)
    wanted = (
        (target == np.arange(classes)[:, None]).astype(np.float64) if trees > 1 else target[None].astype(np.float64)
    )
    scale = RATE * ((classes - 1) / classes if trees > 1 else 1.0)
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    room = np.empty_like(train.keys), np.empty(n, train.keys.dtype), np.empty(n, np.uint8)
    for _ in range(ROUNDS):
        p = _expected(raw, classes)
        residual = wanted - p
        curvature = p * (1 - p) if classes else np.ones_like(p)
        for t in range(trees):
            sides = (residual[t], curvature[t], scale, DEPTH, test, raw[t], guess[t])
            grow_boosted(train.codes, train.keys, train.mask, *sides, importance, state, *room)
    if importance.sum() > 0:
        importance /= importance.sum()
    if not classes:
        return importance, guess[0]
    return importance, guess.argmax(axis=0) if trees > 1 else (guess[0] > 0).astype(np.int64)


def _initial(target: NDArray[Any], classes: int) -> Array:
    """The best constant: the mean, the log odds, or the log shares."""
    if not classes:
        return np.array([[target.mean()]])
    shares = np.bincount(target, minlength=classes) / len(target)
    return np.log(shares[1:] / shares[:1])[:, None] if classes == 2 else np.log(shares)[:, None]


def _expected(raw: Array, classes: int) -> Array:
    if not classes:
        return raw
    if classes == 2:
        return 1 / (1 + np.exp(-raw))
    p = np.exp(raw - raw.max(axis=0))
    p /= p.sum(axis=0)
    return p


def forest(
    train: Sorted,
    test: Array,
    target: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    *,
    depths: Sequence[int],
    max_features: float = 1.0,
) -> tuple[Array, Array]:
    """Importances (d,) of a forest grown to the last of the rising depths, and predictions for `test` at each.

    target: labels 0..classes-1 (Gini), or floats with classes = 0 (variance). Predictions: (depths, rows, classes or
    1), mean class shares or mean values. A tree cut off at a depth is the tree grown to that depth, so that one forest
    serves every depth. max_features: the share of codes tried at a split.
    """
    from karenina.numerics.trees import add_predictions, grow_forest_tree

    n, d = train.codes.shape
    some = max(1, int(max_features * d))
    columns = max(classes, 1)
    y = target.astype(np.float64)
    guess = np.zeros((len(depths), len(test), columns))
    levels = np.asarray(depths, np.int64)
    importance = np.zeros(d)
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
    if importance.sum() > 0:
        importance /= importance.sum()
    return importance, guess / TREES


def choose(
    parts: Sequence[tuple[Sorted, Array, NDArray[np.int64], NDArray[np.int64]]],
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
            guess = forest(train, out, target[rows], classes, rng, depths=depths, max_features=share)[1]
            if classes:
                error[i] += (guess.argmax(axis=2) != target[left]).mean(axis=1)
            else:
                error[i] += ((guess[:, :, 0] - target[left]) ** 2).mean(axis=1)
    depth, share = divmod(int(error.T.argmin()), len(max_features))
    return depths[depth], max_features[share]
