"""Random forests (Breiman 2001): scikit-learn's, with its defaults, fast enough to fit one per factor and fold.

What differs is the random stream, which draws bootstraps and settles ties between features, and that rounding is
relative to a code's scale: scikit-learn's 1e-7 makes small codes constant. Rows are sorted once per training set, not
once per node.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.boosting import Sorted

TREES = 10


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
