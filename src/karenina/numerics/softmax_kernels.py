"""Compiled: the loss of a softmax regression and its gradient, in single precision. Importing this imports numba."""

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.compile import njit

Singles = NDArray[np.float32]

BLOCK = 256  # rows whose scores stay in the nearest cache


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
