"""Softmax regression without a penalty, by the steps of scikit-learn's LogisticRegression(penalty=None).

Compiled, its gradient in single precision.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.compile import njit

MEMORY = 10  # pairs of steps and changes of the gradient
SUFFICIENT, CURVATURE, NARROW = 1e-3, 0.9, 0.1  # ftol, gtol and xtol of the line search
LONGEST = 1e10

# Places of the line search's numbers in its array.
STEP, BEST, BEST_VALUE, BEST_SLOPE, OTHER, OTHER_VALUE, OTHER_SLOPE, START_VALUE, START_SLOPE, LOW, HIGH = range(11)
BRACKETED, FIRST_STAGE, WIDTH, WIDTH_BEFORE = range(11, 15)


@njit(cache=True)
def direction(gradient: Floats, steps: Floats, changes: Floats, kept: Ints) -> Floats:
    """-H gradient, H the inverse Hessian of the pairs steps, changes (MEMORY, n); kept: (how many, the next place)."""
    d = -gradient
    count, place = kept
    alpha = np.empty(count)
    for i in range(count):  # the newest first
        j = (place - 1 - i) % MEMORY
        alpha[i] = np.dot(steps[j], d) / np.dot(steps[j], changes[j])
        d -= alpha[i] * changes[j]
    if count:
        j = (place - 1) % MEMORY
        d *= np.dot(steps[j], changes[j]) / np.dot(changes[j], changes[j])
    for i in range(count - 1, -1, -1):
        j = (place - 1 - i) % MEMORY
        d += (alpha[i] - np.dot(changes[j], d) / np.dot(steps[j], changes[j])) * steps[j]
    return d


@njit(cache=True)
def remember(step: Floats, change: Floats, fall: float, steps: Floats, changes: Floats, kept: Ints) -> None:
    """Add a pair in place, unless it bends no more than rounding. fall: minus the slope along the step at its start."""
    if np.dot(step, change) <= np.finfo(np.float64).eps * fall:
        return
    for i in range(len(step)):  # slower to compile as steps[place] = step
        steps[kept[1], i], changes[kept[1], i] = step[i], change[i]
    kept[0] = min(kept[0] + 1, MEMORY)
    kept[1] = (kept[1] + 1) % MEMORY


@njit(cache=True)
def first_step(search: Floats, value: float, slope: float, step: float) -> None:
    """Begin a line search (Moré & Thuente, 1994) from a value with a negative slope."""
    search[:] = 0.0
    search[STEP] = step
    search[BEST_VALUE] = search[OTHER_VALUE] = search[START_VALUE] = value
    search[BEST_SLOPE] = search[OTHER_SLOPE] = search[START_SLOPE] = slope
    search[HIGH] = 5.0 * step
    search[FIRST_STAGE] = 1.0
    search[WIDTH], search[WIDTH_BEFORE] = LONGEST, 2 * LONGEST


@njit(cache=True)
def next_step(search: Floats, value: float, slope: float) -> bool:
    """Take what was found at search[STEP]; True if that step will do, otherwise search[STEP] is the next to try."""
    step, low, high = search[STEP], search[LOW], search[HIGH]
    wanted = SUFFICIENT * search[START_SLOPE]
    test = search[START_VALUE] + step * wanted
    if search[FIRST_STAGE] and value <= test and slope >= 0:
        search[FIRST_STAGE] = 0.0
    stuck = search[BRACKETED] and (step <= low or step >= high or high - low <= NARROW * high)
    too_long = step == LONGEST and value <= test and slope <= wanted
    if stuck or too_long or (value <= test and abs(slope) <= -CURVATURE * search[START_SLOPE]):
        return True
    if search[FIRST_STAGE] and value <= search[BEST_VALUE] and value > test:
        # Until a step falls enough, search the function less the fall that is asked for.
        for place in (BEST, OTHER):
            search[place + 1] -= search[place] * wanted
            search[place + 2] -= wanted
        _narrow(search, value - step * wanted, slope - wanted)
        for place in (BEST, OTHER):
            search[place + 1] += search[place] * wanted
            search[place + 2] += wanted
    else:
        _narrow(search, value, slope)
    if search[BRACKETED]:
        if abs(search[OTHER] - search[BEST]) >= 0.66 * search[WIDTH_BEFORE]:
            search[STEP] = search[BEST] + 0.5 * (search[OTHER] - search[BEST])
        search[WIDTH_BEFORE] = search[WIDTH]
        search[WIDTH] = abs(search[OTHER] - search[BEST])
        search[LOW], search[HIGH] = min(search[BEST], search[OTHER]), max(search[BEST], search[OTHER])
    else:
        search[LOW] = search[STEP] + 1.1 * (search[STEP] - search[BEST])
        search[HIGH] = search[STEP] + 4.0 * (search[STEP] - search[BEST])
    search[STEP] = min(max(search[STEP], 0.0), LONGEST)
    low, high = search[LOW], search[HIGH]
    if search[BRACKETED] and (search[STEP] <= low or search[STEP] >= high or high - low <= NARROW * high):
        search[STEP] = search[BEST]
    return False


@njit(cache=True)
def _narrow(search: Floats, value: float, slope: float) -> None:
    """The next step by interpolation, and the interval that holds a minimum: Moré & Thuente (1994), section 4."""
    x, fx, dx = search[BEST], search[BEST_VALUE], search[BEST_SLOPE]
    y, fy, dy = search[OTHER], search[OTHER_VALUE], search[OTHER_SLOPE]
    t = search[STEP]
    turned = slope * (dx / abs(dx)) < 0
    if value > fx or turned or abs(slope) < abs(dx):  # a cubic through both ends
        theta = 3 * (fx - value) / (t - x) + dx + slope
        s = max(abs(theta), abs(dx), abs(slope))
    if value > fx:  # case 1: higher
        gamma = s * np.sqrt((theta / s) ** 2 - (dx / s) * (slope / s))
        gamma = -gamma if t < x else gamma
        cubic = x + ((gamma - dx) + theta) / (((gamma - dx) + gamma) + slope) * (t - x)
        square = x + dx / ((fx - value) / (t - x) + dx) / 2 * (t - x)
        new = cubic if abs(cubic - x) < abs(square - x) else cubic + (square - cubic) / 2
        search[BRACKETED] = 1.0
    elif turned:  # case 2: lower, with a slope of the other sign
        gamma = s * np.sqrt((theta / s) ** 2 - (dx / s) * (slope / s))
        gamma = -gamma if t > x else gamma
        cubic = t + ((gamma - slope) + theta) / (((gamma - slope) + gamma) + dx) * (x - t)
        secant = t + slope / (slope - dx) * (x - t)
        new = cubic if abs(cubic - t) > abs(secant - t) else secant
        search[BRACKETED] = 1.0
    elif abs(slope) < abs(dx):  # case 3: lower, with a flatter slope of the same sign
        gamma = s * np.sqrt(max(0.0, (theta / s) ** 2 - (dx / s) * (slope / s)))
        gamma = -gamma if t > x else gamma
        r = ((gamma - slope) + theta) / ((gamma + (dx - slope)) + gamma)
        if r < 0 and gamma != 0:
            cubic = t + r * (x - t)
        else:
            cubic = search[HIGH] if t > x else search[LOW]
        secant = t + slope / (slope - dx) * (x - t)
        if search[BRACKETED]:
            new = cubic if abs(cubic - t) < abs(secant - t) else secant
            bound = t + 0.66 * (y - t)
            new = min(bound, new) if t > x else max(bound, new)
        else:
            new = cubic if abs(cubic - t) > abs(secant - t) else secant
            new = min(max(new, search[LOW]), search[HIGH])
    elif search[BRACKETED]:  # case 4: lower, with a slope as steep
        theta = 3 * (value - fy) / (y - t) + dy + slope
        s = max(abs(theta), abs(dy), abs(slope))
        gamma = s * np.sqrt((theta / s) ** 2 - (dy / s) * (slope / s))
        gamma = -gamma if t > y else gamma
        new = t + ((gamma - slope) + theta) / (((gamma - slope) + gamma) + dy) * (y - t)
    else:
        new = search[HIGH] if t > x else search[LOW]
    if value > fx:
        search[OTHER], search[OTHER_VALUE], search[OTHER_SLOPE] = t, value, slope
    else:
        if turned:
            search[OTHER], search[OTHER_VALUE], search[OTHER_SLOPE] = x, fx, dx
        search[BEST], search[BEST_VALUE], search[BEST_SLOPE] = t, value, slope
    search[STEP] = new


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
