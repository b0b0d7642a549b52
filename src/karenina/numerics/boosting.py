"""Gradient-boosted depth-3 trees: scikit-learn's GradientBoosting with its default settings, made fast.

The losses, trees, Newton leaf values and importances are scikit-learn's: 100 rounds, learning rate 0.1, splits that
take most squared error off the residuals, thresholds half way between the values of a node on both sides. Two things
differ. Splits are sought between at most 256 bins of about equally many rows, not between all values (none is lost
where a code has no more values than bins), and splits with equal gains are drawn at random, where scikit-learn leaves
the choice to rounding. Many-class problems, which take scikit-learn minutes, take seconds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bins = NDArray[np.uint8]

BINS = 256
ROUNDS = 100
RATE = 0.1
DEPTH = 3
NODES = 2 ** (DEPTH + 1) - 1  # node i has the children 2i + 1 and 2i + 2


@dataclass(frozen=True, eq=False)
class Boosted:
    """A fitted ensemble for one target.

    start: (t,), the constants that boosting starts from; t is the number of trees per round, one per class, or 1 for
    regression and two classes. feature, cut, leaf: (rounds, t, nodes), feature -1 at leaves, rows with a value <= cut
    to the left. importance: (d,), the share of the squared error that splits on each code took away. classes: 0 for
    regression.
    """

    start: Array
    feature: NDArray[np.int32]
    cut: Array
    leaf: Array
    importance: Array
    classes: int

    def decision(self, codes: Array) -> Array:
        """Raw scores (t, n) for codes (n, d)."""
        from karenina.numerics.boosting_compiled import add_up

        out = np.tile(self.start[:, None], len(codes))
        add_up(np.ascontiguousarray(codes, dtype=np.float64), self.feature, self.cut, self.leaf, out)
        return out

    def predict(self, codes: Array) -> NDArray[Any]:
        """Labels (n,) int, or values (n,) float for regression."""
        raw = self.decision(codes)
        if not self.classes:
            return raw[0]
        return raw.argmax(axis=0) if len(raw) > 1 else (raw[0] > 0).astype(np.int64)


def edges_of(codes: Array) -> tuple[Array, ...]:
    """Per column, the midpoints between the values where one bin ends and the next begins."""
    return tuple(_edges(column) for column in codes.T)


def _edges(column: Array) -> Array:
    values, counts = np.unique(column, return_counts=True)
    last = np.arange(len(values) - 1)
    if len(values) > BINS:
        last = np.unique(np.searchsorted(np.cumsum(counts), np.arange(1, BINS) * len(column) / BINS))
        last = last[last < len(values) - 1]
    return values[last] + (values[last + 1] - values[last]) / 2


def place(codes: Array, edges: tuple[Array, ...]) -> Bins:
    """The bin of every value: (n, d)."""
    columns = [np.searchsorted(edge, column) for edge, column in zip(edges, codes.T)]
    return np.column_stack(columns).astype(np.uint8)


def boost(codes: Array, target: NDArray[Any], classes: int, rng: np.random.Generator) -> Boosted:
    """Fit one target on codes (n, d).

    target: labels 0..classes-1, all of them present, or floats with classes = 0 (regression, squared loss).

    >>> x = np.arange(40.0)[:, None]
    >>> boost(x, (x[:, 0] > 20).astype(int), 2, np.random.default_rng(0)).predict(np.array([[3.0], [30.0]]))
    array([0, 1])
    """
    from karenina.numerics.boosting_compiled import grow

    edges = edges_of(codes)
    rows = place(codes, edges)
    bins = max(len(edge) for edge in edges) + 1
    counts = np.stack([np.bincount(column, minlength=bins) for column in rows.T]).astype(np.float64)
    ends = np.zeros((codes.shape[1], bins, 2))  # the least and the largest value in each bin
    for j, (column, bin_of) in enumerate(zip(codes.T, rows.T)):
        order = np.argsort(column, kind="stable")
        first = np.searchsorted(bin_of[order], np.arange(len(edges[j]) + 1))
        last = np.append(first[1:], len(column)) - 1
        ends[j, : len(first)] = np.stack([column[order[first]], column[order[last]]], axis=1)
    start = _start(target, classes)
    trees = len(start)
    onehot = (target == np.arange(classes)[:, None]) if trees > 1 else target[None]
    onehot = onehot.astype(np.float64)
    raw = np.tile(start[:, None], len(codes))
    feature = np.full((ROUNDS, trees, NODES), -1, np.int32)
    cut = np.zeros(feature.shape)
    leaf = np.zeros(feature.shape)
    importance = np.zeros(codes.shape[1])
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    scale = RATE * ((classes - 1) / classes if classes > 2 else 1.0)
    for r in range(ROUNDS):
        expected = _expected(raw, classes)
        curvature = expected * (1 - expected) if classes else np.ones_like(raw)
        residual = onehot - expected
        for t in range(trees):
            tree = feature[r, t], cut[r, t], leaf[r, t]
            grow(rows, counts, ends, residual[t], curvature[t], scale, raw[t], *tree, importance, state)
    total = importance.sum()
    return Boosted(start, feature, cut, leaf, importance / total if total > 0 else importance, classes)


def _start(target: NDArray[Any], classes: int) -> Array:
    """The best constants: the mean, the log odds, or the log shares."""
    if not classes:
        return np.array([target.mean()])
    shares = np.bincount(target, minlength=classes) / len(target)
    if classes == 2:
        return np.array([np.log(shares[1] / shares[0])])
    return np.log(shares)


def _expected(raw: Array, classes: int) -> Array:
    if not classes:
        return raw
    if classes == 2:
        return 1 / (1 + np.exp(-raw))
    p = np.exp(raw - raw.max(axis=0))
    p /= p.sum(axis=0)
    return p
