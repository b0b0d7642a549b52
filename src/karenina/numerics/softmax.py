"""Softmax regression without a penalty, by the steps of scikit-learn's LogisticRegression(penalty=None).

Compiled, its gradient in single precision. Importing this imports numba.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.compile import njit
from karenina.numerics.lbfgs import MEMORY, STEP, direction, first_step, next_step, remember

Singles = NDArray[np.float32]

STEPS = 100
TOLERANCE = 1e-4
TRIED = 50  # evaluations in a line search
ROWS = 1024  # at a time, so that the scores stay in the cache
BLOCK = 256  # rows whose scores stay in the nearest cache
NO_OVERFLOW = 60.0  # exponentials of numbers within this are numbers of single precision


class Rows:
    """Inputs (n, p) with a column of ones in blocks of ROWS, filled up: made once for all regressions on them."""

    def __init__(self, x: Floats):
        n, p = x.shape
        blocks = -(-n // ROWS)
        padded = np.zeros((blocks * ROWS, p + 1), np.float32)
        padded[:n, :p] = x
        padded[:n, p] = 1
        self.n = n
        self.x = np.ascontiguousarray(padded.reshape(blocks, ROWS, p + 1).transpose(0, 2, 1))
        self.longest = float(np.sqrt((padded.astype(np.float64) ** 2).sum(axis=1).max()))

    def filled(self, column: NDArray[Any]) -> NDArray[Any]:
        """A value per row (n,) in the same blocks, with zeros at the end."""
        full = np.zeros(self.x.shape[0] * ROWS, column.dtype)
        full[: self.n] = column
        return full.reshape(-1, ROWS)


def mean_log_loss(rows: Rows, y: Ints, classes: int) -> float:
    """Mean of -log p(own class) in nats over the rows that were fitted, of labels 0..classes-1 (all present).

    Classes weigh alike in the fit, rows in the mean (Hsu et al. 2023, as released). Where classes can be separated
    there is no best fit: the loss is that after at most 100 steps of L-BFGS from zero, which end when no entry of the
    gradient exceeds 1e-4, as in scikit-learn. Exponentials are in single precision, sums of losses in double.
    """
    p = rows.x.shape[1]
    count = np.bincount(y, minlength=classes)
    own = rows.filled(y)
    balanced = rows.filled((rows.n / classes / count)[y].astype(np.float32))
    once = rows.filled(np.ones(rows.n, np.float32))
    wanted = np.zeros((classes, p))
    for x, label, weight in zip(rows.x, own, balanced):
        onehot = np.zeros((classes, ROWS), np.float32)
        onehot[label, np.arange(ROWS)] = weight
        wanted += onehot @ x.T
    w, tops, _ = descend(rows.x, own, balanced, wanted, rows.n, rows.longest, STEPS, TOLERANCE, TRIED)
    scores, weighted = np.empty((classes, ROWS), np.float32), np.empty((p, ROWS), np.float32)
    loss = loss_and_gradient(w.astype(np.float32), rows.x, own, once, True, tops, scores, weighted, wanted)
    return max(0.0, loss / rows.n)


@njit(cache=True, fastmath=True)
def _exponentials(scores: Singles, top: Singles, total: Singles, shift: bool) -> None:
    """exp(scores - top) in place, (K, n), and its sums over classes, `total` (n,).

    `top` (n,) is written with `shift`: the largest score of each row. Without, it is near enough for no overflow. Every
    inner loop runs over the rows of a block without a call, so that it becomes vector instructions; hence an
    exponential of our own: 2^t = 2^i 2^f with a polynomial for 2^f, |f| <= 1/2, whose relative error is 2e-7.
    """
    classes, n = scores.shape
    power = np.empty(BLOCK, np.int32)
    power_of_two = power.view(np.float32)
    for begin in range(0, n, BLOCK):
        high, sums = top[begin : begin + BLOCK], total[begin : begin + BLOCK]
        for b in range(BLOCK):
            sums[b] = 0.0
        if shift:
            for k in range(classes):
                row = scores[k, begin : begin + BLOCK]
                for b in range(BLOCK):
                    high[b] = row[b] if k == 0 or row[b] > high[b] else high[b]
        for k in range(classes):
            row = scores[k, begin : begin + BLOCK]
            for b in range(BLOCK):
                t = (row[b] - high[b]) * np.float32(1.4426950408889634)
                t = t if t > np.float32(-126.0) else np.float32(-126.0)
                i = np.floor(t + np.float32(0.5))
                f = t - i
                power[b] = (np.int32(i) + np.int32(127)) << np.int32(23)
                p = np.float32(1.5403530e-4)
                p = p * f + np.float32(1.3333558e-3)
                p = p * f + np.float32(9.6181291e-3)
                p = p * f + np.float32(5.5504109e-2)
                p = p * f + np.float32(2.4022651e-1)
                p = p * f + np.float32(6.9314718e-1)
                row[b] = p * f + np.float32(1.0)
            for b in range(BLOCK):
                row[b] *= power_of_two[b]
                sums[b] += row[b]


@njit(cache=True, fastmath=True)
def loss_and_gradient(
    w: Singles,
    x: Singles,
    y: Ints,
    weights: Singles,
    shift: bool,
    tops: Singles,
    scores: Singles,
    weighted: Singles,
    gradient: Floats,
) -> float:
    """sum_i weight_i (-log p_i of the own class); sum_i weight_i p_i x_i is added to `gradient` (K, p).

    w (K, p). x (blocks, p, rows), y and weights (blocks, rows): rows of weight 0 fill up the last block, and a block
    has a multiple of BLOCK rows. tops (blocks, rows): what is taken off the scores of a row before exponentials, their
    largest with `shift`. scores (K, rows) and weighted (p, rows) are scratch.
    """
    rows = x.shape[2]
    total = np.empty(rows, np.float32)
    loss = 0.0
    for block in range(len(x)):
        own, weight, top = y[block], weights[block], tops[block]
        np.dot(w, x[block], scores)
        for b in range(rows):
            loss -= weight[b] * scores[own[b], b]
        _exponentials(scores, top, total, shift)
        for b in range(rows):
            loss += weight[b] * (np.log(np.float64(total[b])) + top[b])
            total[b] = weight[b] / total[b]
        for j in range(x.shape[1]):
            column, scaled = x[block, j], weighted[j]
            for b in range(rows):
                scaled[b] = column[b] * total[b]
        gradient += np.dot(scores, weighted.T)
    return loss


@njit(cache=True)
def _largest(x: Floats) -> float:
    found = 0.0
    for value in x.flat:
        found = max(found, abs(value))
    return found


@njit(cache=True)
def _farthest(x: Floats, y: Floats) -> float:
    """The largest distance of a row of x from the row of y."""
    found = 0.0
    for i in range(len(x)):
        square = 0.0
        for j in range(x.shape[1]):
            square += (x[i, j] - y[i, j]) ** 2
        found = max(found, square)
    return float(np.sqrt(found))


@njit(cache=True)
def descend(
    x: Singles, y: Ints, weights: Singles, wanted: Floats, rows: int, longest: float, most: int, flat: float, tried: int
) -> tuple[Floats, Singles, int]:
    """Weights (K, p) of least mean loss over `rows`, as L-BFGS-B finds them from zero; tops; and the steps it took.

    wanted (K, p): the sum of each class's own rows, weighted. longest: of the rows of x. At most `most` steps, each
    with at most `tried` evaluations; it ends when no entry of the gradient exceeds `flat`, or the loss falls no more.
    """
    shape = wanted.shape
    scores, weighted = np.empty((shape[0], x.shape[2]), np.float32), np.empty((shape[1], x.shape[2]), np.float32)
    # Largest scores of the rows, 0 at first, and the weights that had them: while no score can have moved far, they do.
    tops, then = np.zeros(y.shape, np.float32), np.zeros(shape)
    steps, changes = np.zeros((MEMORY, wanted.size)), np.zeros((MEMORY, wanted.size))
    kept, search = np.zeros(2, np.int64), np.zeros(15)
    w, gradient = np.zeros(shape), -wanted
    loss = loss_and_gradient(w.astype(np.float32), x, y, weights, False, tops, scores, weighted, gradient) / rows
    gradient /= rows
    for done in range(most):
        if _largest(gradient) <= flat:
            return w, tops, done
        d = direction(gradient.ravel(), steps, changes, kept)
        slope = np.dot(gradient.ravel(), d)
        if slope >= 0:  # rounding: begin again from the gradient
            kept[:] = 0
            d = -gradient.ravel()
            slope = np.dot(gradient.ravel(), d)
        first_step(search, loss, slope, 1.0 if done else 1 / np.sqrt(np.dot(d, d)))
        found = False
        for _ in range(tried):
            step = search[STEP]
            new = w + step * d.reshape(shape)
            shift = longest * _farthest(new, then) > NO_OVERFLOW
            if shift:
                then = new.copy()
            turned = -wanted
            value = loss_and_gradient(new.astype(np.float32), x, y, weights, shift, tops, scores, weighted, turned)
            value /= rows
            turned /= rows
            if next_step(search, value, np.dot(turned.ravel(), d)):
                found = True
                break
        if not found:
            if not kept[0]:
                return w, tops, done
            kept[:] = 0
            continue
        remember(step * d, (turned - gradient).ravel(), -step * slope, steps, changes, kept)
        fell, least = loss - value, 64 * np.finfo(np.float64).eps * max(abs(loss), abs(value), 1.0)
        w, gradient, loss = new, turned, value
        if fell <= least:
            return w, tops, done + 1
    return w, tops, most
