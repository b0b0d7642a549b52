"""Classifiers on one code at a time, solved exactly on sorted values: linear SVMs and trees."""

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints, distinct


def linear_svm(codes: Floats, label: Ints, c: float) -> tuple[Floats, Floats]:
    """Slopes and intercepts of one-vs-rest linear SVMs, each on one code: two (d, classes) arrays.

    The problem of liblinear's L2-regularised squared hinge loss with balanced classes and a penalised intercept:
    min (w^2 + b^2) / 2 + c sum_i s_i max(0, 1 - y_i (w x_i + b))^2, where s_i = n / (classes * size) on the class and 1
    on the rest; with two classes one SVM with balanced weights on both, and the first class is its negative.
    Rows inside the margin are a range of the sorted code, so sums over them are differences of cumulative sums and a
    Newton step costs a few binary searches. All SVMs step at once, with halved steps where one would not descend.
    """
    n, d = codes.shape
    size = np.bincount(label)
    balance = n / (len(size) * size)
    two = len(size) == 2
    classes = np.array([1]) if two else np.arange(len(size))
    sums = _MarginSums(codes, label, classes)
    positive = np.tile(c * balance[classes], d)
    negative = np.full(len(positive), c * (balance[0] if two else 1.0))
    w, b = np.zeros(len(positive)), np.zeros(len(positive))
    loss, gradient, hessian = sums.loss(w, b, positive, negative)
    for _ in range(50):
        (gw, gb), (hww, hwb, hbb) = gradient, hessian
        determinant = hww * hbb - hwb**2
        dw, db = (hwb * gb - hbb * gw) / determinant, (hwb * gw - hww * gb) / determinant
        step = np.ones_like(w)
        for _ in range(20):
            trial = sums.loss(w + step * dw, b + step * db, positive, negative)
            worse = trial[0] > loss * (1 + 1e-14)
            if not worse.any():
                break
            step[worse] /= 2
        w, b = w + step * dw, b + step * db
        loss, gradient, hessian = trial
        if (np.abs(dw) + np.abs(db) <= 1e-9 * (np.abs(w) + np.abs(b))).all():
            break
    slope, intercept = w.reshape(d, -1), b.reshape(d, -1)
    return (np.hstack([-slope, slope]), np.hstack([-intercept, intercept])) if two else (slope, intercept)


class _MarginSums:
    """Sums of 1, x and x^2 over the rows of a class, or of the rest, below or above a value of each code.

    SVMs are numbered code by code, class by class. Rows lie in the order (code, class, x).
    """

    def __init__(self, codes: Floats, label: Ints, classes: Ints) -> None:
        n, d = codes.shape
        of_class = np.bincount(label)
        size = len(of_class)
        order = np.argsort(codes, axis=0)
        self.sorted = np.ascontiguousarray(np.take_along_axis(codes, order, axis=0).T)
        self.n, self.svm = n, (np.arange(d)[:, None] * size + classes).ravel()
        self.code = np.repeat(np.arange(d), len(classes))
        small = label.astype(np.uint16) if size <= 2**16 else label  # sorting small integers takes linear time
        rank = np.argsort(small[order], axis=0, kind="stable").T
        self.keys = (rank + (np.arange(d)[:, None] * size + np.repeat(np.arange(size), of_class)) * n).ravel()
        ends = np.cumsum(np.tile(of_class, d))
        self.end = ends[self.svm]
        self.start = self.end - np.tile(of_class[classes], d)
        by_class = np.take_along_axis(self.sorted, rank, axis=1).ravel()
        self.rows = _cumulative(by_class)
        self.all = _cumulative(self.sorted.ravel())

    def loss(self, w: Floats, b: Floats, positive: Floats, negative: Floats) -> tuple[Floats, Floats, Floats]:
        """Loss (m,), gradient (2, m) and Hessian (3: ww, wb, bb; m) of every SVM."""
        on, _ = self._active(w, b)
        _, off = self._active(-w, -b)
        # On the class the margin is 1 - f, on the rest 1 + f: the same sums with f of opposite sign.
        losses = (w**2 + b**2) / 2 + positive * _squares(on, w, b) + negative * _squares(off, -w, -b)
        h0, h1, h2 = (2 * (positive * one + negative * other) for one, other in zip(on, off))
        pull0 = 2 * (positive * on[0] - negative * off[0])
        pull1 = 2 * (positive * on[1] - negative * off[1])
        gradient = np.array([w + w * h2 + b * h1 - pull1, b + w * h1 + b * h0 - pull0])
        return losses, gradient, np.array([1 + h2, h1, 1 + h0])

    def _active(self, w: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Sums over rows with w x + b < 1: (3, m) of the class and of the rest."""
        flat = w == 0
        edge = np.where(flat, np.where(b < 1, np.inf, -np.inf), (1 - b) / np.where(flat, 1, w))
        below = np.empty(len(w), np.int64)
        for j, values in enumerate(self.sorted):
            mine = slice(*np.searchsorted(self.code, [j, j + 1]))
            below[mine] = np.searchsorted(values, edge[mine])
        here = np.searchsorted(self.keys, self.svm * self.n + below)
        low = w >= 0  # active below the edge, else above it
        first, last = np.where(low, self.start, here), np.where(low, here, self.end)
        origin = self.code * self.n
        one = self.rows[:, last] - self.rows[:, first]
        every = self.all[:, origin + np.where(low, below, self.n)] - self.all[:, origin + np.where(low, 0, below)]
        return one, every - one


def _cumulative(x: Floats) -> Floats:
    """Sums of 1, x and x^2 over the first 0..len(x) values: (3, len(x) + 1)."""
    sums = np.zeros((3, len(x) + 1))
    sums[0] = np.arange(len(x) + 1)
    np.cumsum(x, out=sums[1, 1:])
    np.cumsum(x * x, out=sums[2, 1:])
    return sums


def _squares(sums: Floats, w: Floats, b: Floats) -> Floats:
    """Sum of (1 - w x - b)^2."""
    return (1 - b) ** 2 * sums[0] - 2 * (1 - b) * w * sums[1] + w**2 * sums[2]


def predict(codes: Floats, w: Floats, b: Floats) -> Ints:
    """The class with the highest line at each value: (n, d)."""
    found = np.empty(codes.shape, np.int64)
    for j, column in enumerate(codes.T):
        found[:, j] = np.argmax(column[:, None] * w[j] + b[j], axis=1)
    return found


def tree_levels(x: Floats, label: Ints, classes: int, depth: int) -> list[tuple[Floats, Ints]]:
    """Classification trees of depth 1..depth on one code: for each the thresholds and the class of each interval.

    CART with the Gini impurity, as scikit-learn grows it; a tree of depth l is the top of a tree of depth l + 1. On a
    sorted code a node is an interval, so all nodes of a level are split in one pass of running class counts.
    """
    order = np.argsort(x, kind="stable")
    x, label = x[order], label[order]
    n = len(x)
    earlier = np.empty(n, np.int64)  # rows of the same class before each row
    by_class = np.argsort(label, kind="stable")
    size = np.bincount(label, minlength=classes)
    earlier[by_class] = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    splittable = np.append(distinct(x[None])[0], False)
    start = np.array([0])
    levels = []
    for level in range(depth + 1):
        rows = np.diff(np.append(start, n))
        node = np.repeat(np.arange(len(start)), rows)
        counts = np.bincount(node * classes + label, minlength=len(start) * classes).reshape(-1, classes)
        if level:
            below, above = x[start[1:] - 1], x[start[1:]]
            middle = below / 2 + above / 2
            middle = np.where((below <= middle) & (middle < above), middle, below)  # neighbouring floats have none
            levels.append((middle, counts.argmax(axis=1)))
        if level < depth:
            start = np.union1d(start, _best_splits(label, earlier, splittable, start, node, counts))
    return levels


def _best_splits(
    label: Ints, earlier: Ints, splittable: NDArray[np.bool_], start: Ints, node: Ints, counts: Ints
) -> Ints:
    """The first row after the best cut of each node that can be cut. Best: the largest sum of squares over sizes."""
    before = np.cumsum(counts, axis=0) - counts
    left = earlier - before[node, label]  # rows of the same class and node before each row
    in_node = counts[node, label]
    rows = counts.sum(axis=1)
    left_squares = _running(2 * left + 1, start, rows)
    right_squares = np.repeat((counts**2).sum(axis=1), rows) - _running(2 * (in_node - left) - 1, start, rows)
    taken = np.arange(len(label)) - np.repeat(start, rows) + 1
    rest = np.repeat(rows, rows) - taken
    impure = np.repeat(counts.max(axis=1) < rows, rows)
    valid = splittable & (rest > 0) & impure
    quality = np.where(valid, left_squares / taken + right_squares / np.maximum(rest, 1), -1.0)
    best = np.maximum.reduceat(quality, start)
    hit = np.flatnonzero((quality == np.repeat(best, rows)) & valid)
    return hit[np.unique(node[hit], return_index=True)[1]] + 1


def _running(values: Ints, start: Ints, rows: Ints) -> Ints:
    """Cumulative sums that begin anew at each start."""
    total = np.cumsum(values)
    return total - np.repeat(total[start] - values[start], rows)
