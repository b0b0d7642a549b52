"""Ridge-penalised logistic regression as in scikit-learn: minimal sum_i s_i loss_i + ||W||^2 / (2 C), intercept free.

`multinomial` and `one_vs_rest` find the optimum at one C by Newton's method: inputs are few here (codes: ten or so) and
rows many, so second-order steps cost little more than gradients and a fit needs ten of them instead of a hundred.
`cross_validated` chooses C by the steps of scikit-learn's LogisticRegressionCV, which often stops before the optimum.
`mean_log_loss` is that of a regression without a penalty.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.compile import njit

Singles = NDArray[np.float32]

STEPS = 100  # The most that Newton's method and L-BFGS take.
# The stopping rules of scikit-learn's L-BFGS.
LBFGS: Any = {"maxiter": STEPS, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
MOST_BYTES = 2**27  # The most that products of column pairs may take: those of 10,000 rows and 57 columns.
PRODUCTS = 200  # The most products with the Hessian in one step.
# `cross_validated` chooses among these penalties by this many folds; on so few rows scikit-learn does the work.
PENALTIES = np.logspace(-4, 4, 10)
FOLDS = 5
FEW = 200
BLOCK = 1000  # It takes so many rows at a time, so that the scores stay in the cache.
NO_OVERFLOW = 100.0  # Scores within this need no shift before the exponential.
# The same of `mean_log_loss`, which works in single precision: rows at a time, and those of them whose scores stay in
# the nearest cache.
PADDED = 1024
VECTOR = 256
NO_OVERFLOW_SINGLE = 60.0


@dataclass(frozen=True, eq=False)
class Design:
    """Inputs with a column of ones (n, d + 1), and what regressions on them share, computed once.

    `products` of all pairs of columns make X' diag(w) X for many w one matrix product. `wide` designs, whose products
    would not fit into MOST_BYTES, do without: steps are then found from products with X alone.
    """

    ones: Floats

    @classmethod
    def of(cls, x: Floats) -> "Design":
        return cls(np.column_stack([x, np.ones(len(x))]))

    @property
    def wide(self) -> bool:
        n, d = self.ones.shape
        return n * d * (d + 1) // 2 * self.ones.itemsize > MOST_BYTES

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        return np.triu_indices(self.ones.shape[1])

    @cached_property
    def products(self) -> Floats:
        turned = np.ascontiguousarray(self.ones.T)
        return (turned[self.pairs[0]] * turned[self.pairs[1]]).T

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Return eigenvalues (d + 1,) and vectors of the mean of x x'."""
        values, vectors = np.linalg.eigh(self.ones.T @ self.ones / len(self.ones))
        return np.maximum(values, 0), vectors

    def ridge(self, c: float) -> Floats:
        penalty = np.full((self.ones.shape[1], 1), 1 / c)
        penalty[-1] = 0.0
        return penalty

    def weighted(self, weights: Floats) -> Floats:
        """Return X' diag(w) X of each column w of weights (n, m): (m, d + 1, d + 1)."""
        upper, size = weights.T @ self.products, self.ones.shape[1]
        full = np.empty((len(upper), size, size))
        full[:, self.pairs[0], self.pairs[1]] = upper
        full[:, self.pairs[1], self.pairs[0]] = upper
        return full

    def preconditioner(self, weights: Floats, penalty: Floats, shift: float) -> Callable[[Floats], Floats]:
        """Return a function that multiplies residuals (d + 1, m) by about (X' diag(w) X + penalty + shift)^-1, for each
        column w of weights.

        Exact, but for wide designs, where all rows count as much as their mean.
        """
        if self.wide:
            values, vectors = self.spectrum
            scale = np.outer(values, weights.sum(axis=0)) + penalty.max() + shift
            return lambda residual: vectors @ (vectors.T @ residual / scale)
        inverse = np.linalg.inv(self.weighted(weights) + (np.diag(penalty[:, 0]) + shift * np.eye(len(penalty))))
        return lambda residual: np.einsum("kij,jk->ik", inverse, residual)


def softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Return rows of class probabilities (n, classes), and the log of each row's sum of exponentials (n,)."""
    top = scores.max(axis=1)
    p = np.exp(scores - top[:, None])
    total = p.sum(axis=1)
    p /= total[:, None]
    return p, np.log(total) + top


def multinomial(
    design: Design,
    y: Ints,
    classes: int,
    *,
    weights: Floats | None = None,
    c: float = 1.0,
    tolerance: float = 1e-5,
) -> Floats:
    """Return weights (d + 1, classes), the intercept last, of the softmax regression of labels 0..classes-1 on the
    design.

    Two classes have one penalised vector, as in scikit-learn, here the difference of the columns.
    weights: (n,), how much each row counts. Newton's method with conjugate gradients inside, preconditioned by each
    class's own block of the Hessian. Stops when no entry of the gradient of the mean loss exceeds `tolerance`
    (scikit-learn: 1e-4).
    """
    ones = design.ones
    n, d = ones.shape
    # Both columns w / 2 and -w / 2 are penalised, which makes half of ||w||^2.
    penalty = design.ridge(c / 2 if classes == 2 else c)
    count = np.ones(n) if weights is None else weights
    wanted = np.stack([np.bincount(y, count * column, minlength=classes) for column in ones.T])
    rows = np.arange(n)
    w, scores = np.zeros((d, classes)), np.zeros((n, classes))
    p, log_total = softmax(scores)
    loss = float(count @ (log_total - scores[rows, y]))
    for _ in range(STEPS):
        p *= count[:, None]
        gradient = ones.T @ p - wanted + penalty * w
        size = np.abs(gradient).max() / n
        if size < tolerance:
            break
        probability = p / count[:, None]
        solve = design.preconditioner(p * (1 - probability), penalty, 1e-8 * n)  # the shift of all intercepts is free
        step = _conjugate(ones, p, probability, penalty, solve, gradient, min(0.3, np.sqrt(size)))
        towards = ones @ step
        slope = float((gradient * step).sum())
        length = 1.0
        for _ in range(30):
            trial, moved = w + length * step, scores + length * towards
            p, log_total = softmax(moved)
            new = float(count @ (log_total - moved[rows, y])) + float((penalty * trial**2).sum()) / 2
            if new <= loss + 1e-4 * length * slope:
                break
            length /= 2
        else:
            break  # no descent is left above rounding
        w, scores, loss = trial, moved, new
    return w


def _conjugate(
    ones: Floats,
    p: Floats,
    share: Floats | None,
    penalty: Floats,
    solve: Callable[[Floats], Floats],
    gradient: Floats,
    tolerance: float,
) -> Floats:
    """Return the Newton step -H^-1 gradient, to a relative residual of `tolerance`.

    H v is X' (p * (Xv - the mean of Xv with weights `share`)) + penalty v, without the mean if share is None. `solve`
    is a preconditioner. Products with H are in single precision: an inexact step costs at most another step, and it
    halves the time.
    """
    x, q = ones.astype(np.float32), p.astype(np.float32)
    mean = None if share is None else share.astype(np.float32)
    step = np.zeros_like(gradient)
    residual = -gradient
    goal = tolerance * np.linalg.norm(residual)
    direction = solved = solve(residual)
    inner = float((residual * solved).sum())
    for _ in range(min(gradient.size, PRODUCTS)):
        if np.linalg.norm(residual) <= goal:
            break
        a = x @ direction.astype(np.float32)
        if mean is not None:
            a -= np.einsum("nk,nk->n", a, mean)[:, None]
        a *= q
        curved = (x.T @ a).astype(np.float64) + penalty * direction
        bend = float((direction * curved).sum())
        if bend <= 0:  # rounding, along directions in which the loss is flat
            break
        length = inner / bend
        step = step + length * direction
        residual = residual - length * curved
        solved = solve(residual)
        inner, before = float((residual * solved).sum()), inner
        direction = solved + inner / before * direction
    return step


def one_vs_rest(design: Design, y: Ints, weights: Floats, *, tolerance: float = 1e-5) -> Floats:
    """Return weights (d + 1, classes), the intercept last, of a two-class regression for each class, this class against
    the rest.

    y: (n,) labels 0..classes-1. weights: (2, classes), how much a row of the rest and of the class counts. The Hessians
    of all problems come from one matrix product; for wide designs, steps come from conjugate gradients.
    """
    ones = design.ones
    n, d = ones.shape
    penalty = design.ridge(1.0)
    todo = np.arange(weights.shape[1])
    of_class = y[:, None] == todo
    sample = np.where(of_class, weights[1], weights[0])
    w, scores = np.zeros((d, len(todo))), np.zeros((n, len(todo)))
    loss = np.full(len(todo), np.inf)
    for _ in range(50):
        p = 1 / (1 + np.exp(-scores))
        gradient = ones.T @ (sample * (p - of_class)) + penalty * w[:, todo]
        size = np.abs(gradient).max(axis=0) / n
        left = size > tolerance
        if not left.any():
            break
        if not left.all():
            todo, of_class, sample, scores = todo[left], of_class[:, left], sample[:, left], scores[:, left]
            p, gradient, loss = p[:, left], gradient[:, left], loss[left]
        bend = sample * p * (1 - p)
        if design.wide:
            solve = design.preconditioner(bend, penalty, 1e-10 * n)
            step = _conjugate(ones, bend, None, penalty, solve, gradient, min(0.3, np.sqrt(size.max())))
        else:
            hessian = design.weighted(bend) + (np.diag(penalty[:, 0]) + 1e-10 * n * np.eye(d))
            step = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
        towards = ones @ step
        slope = (gradient * step).sum(axis=0)
        length = np.ones(len(todo))
        for _ in range(30):
            trial, moved = w[:, todo] + length * step, scores + length * towards
            against = np.where(of_class, -moved, moved)
            loss_of = np.maximum(against, 0) + np.log1p(np.exp(-np.abs(against)))  # log(1 + exp) without overflow
            new = (sample * loss_of).sum(axis=0) + (penalty * trial**2).sum(axis=0) / 2
            short = new > loss + 1e-4 * length * slope + 1e-12 * np.abs(new)
            if not short.any():
                break
            length = np.where(short, length / 2, length)
        w[:, todo], scores, loss = trial, moved, new
    return w


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """A fitted regression. weights: (classes, d + 1), the intercept last; a single row for two classes. c: the penalty
    chosen.
    """

    weights: Floats
    c: float

    def predict(self, codes: Floats) -> Ints:
        return _labels(self.weights, _with_ones(codes))


def cross_validated(codes: Floats, target: Ints, classes: int) -> CrossValidated:
    """Fit labels 0..classes-1 (all present) on codes (n, d), as Locatello et al. (2019) do for downstream tasks.

    The steps of LogisticRegressionCV(Cs=10, cv=KFold(5)): L-BFGS from zero, at most 100 steps per penalty, each started
    from the solution before it, folds that are consecutive blocks of rows. On codes of unlike scale it stops before the
    optimum, so accuracies are those of this procedure. On few rows the last digit of sums decides on the penalty: there
    scikit-learn itself does the work.
    """
    if FOLDS <= len(codes) <= FEW:
        return _by_scikit_learn(codes, target)
    x = _with_ones(codes)
    scores = np.zeros(len(PENALTIES))
    paths = []
    for fold in np.array_split(np.arange(len(x)), min(FOLDS, len(x))):
        rest = np.delete(np.arange(len(x)), fold)
        path = _path(x[rest], target[rest], classes, PENALTIES)
        scores += [(_labels(w, x[fold]) == target[fold]).mean() for w in path]
        paths.append(path)
    best = int(scores.argmax())
    start = np.mean([path[best] for path in paths], axis=0)
    return CrossValidated(_path(x, target, classes, PENALTIES[best : best + 1], start)[0], float(PENALTIES[best]))


def _by_scikit_learn(codes: Floats, target: Ints) -> CrossValidated:
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import KFold

    with warnings.catch_warnings():  # steps run out (see above), and defaults are announced to change
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=PENALTIES, cv=KFold(FOLDS), scoring="accuracy", max_iter=STEPS)
        model.fit(codes, target)
    return CrossValidated(np.column_stack([model.coef_, model.intercept_]), float(np.ravel(model.C_)[0]))


def _with_ones(codes: Floats) -> Floats:
    return np.column_stack([codes, np.ones(len(codes))])


def _labels(weights: Floats, x: Floats) -> Ints:
    scores = weights @ x.T
    return scores.argmax(axis=0) if len(scores) > 1 else (scores[0] > 0).astype(np.int64)


def _path(x: Floats, y: Ints, classes: int, penalties: Floats, start: Floats | None = None) -> list[Floats]:
    """Return weights for each penalty C of mean loss + ||W||^2 / (2 C n), the intercept free."""
    from scipy.optimize import minimize

    shape = (classes if classes > 2 else 1, x.shape[1])
    part = _multinomial if classes > 2 else _binary
    blocks = [(x[i : i + BLOCK], y[i : i + BLOCK]) for i in range(0, len(x), BLOCK)]
    longest = np.sqrt((x**2).sum(axis=1).max())
    of_own_class = np.zeros(shape)  # the sum of each class's own rows
    np.add.at(of_own_class, y if classes > 2 else np.zeros_like(y), x if classes > 2 else y[:, None] * x)

    def objective(flat: Floats, ridge: float) -> tuple[float, Floats]:
        w = flat.reshape(shape)
        small = longest * np.sqrt((w**2).sum(axis=1).max()) < NO_OVERFLOW
        loss, gradient = 0.0, -of_own_class
        for rows, labels in blocks:
            part_loss, slope = part(w, rows, labels, small)
            loss += part_loss
            gradient += slope
        gradient /= len(x)
        gradient[:, :-1] += ridge * w[:, :-1]
        return loss / len(x) + ridge / 2 * float((w[:, :-1] ** 2).sum()), gradient.ravel()

    w = np.zeros(shape) if start is None else start
    path = []
    for c in penalties:
        found = minimize(objective, w.ravel(), (1 / (c * len(x)),), method="L-BFGS-B", jac=True, options=LBFGS)
        w = found.x.reshape(shape)
        path.append(w)
    return path


def _multinomial(w: Floats, x: Floats, y: Ints, small: bool) -> tuple[float, Floats]:
    """Return the cross-entropy summed over rows, and sum_i p_i x_i. Scores are (classes, n), so that sums run along
    rows.
    """
    p = w @ x.T
    if not small:
        p -= p.max(axis=0)
    hit = p[y, np.arange(len(y))].sum()
    np.exp(p, out=p)
    total = p.sum(axis=0)
    return float(np.log(total).sum() - hit), p @ (x / total[:, None])


def _binary(w: Floats, x: Floats, y: Ints, small: bool) -> tuple[float, Floats]:
    score = x @ w[0]
    loss = np.logaddexp(0, score) - y * score
    return float(loss.sum()), (np.exp(-np.logaddexp(0, -score)) @ x)[None]


class PaddedRows:
    """Inputs (n, p) with a column of ones, in blocks of PADDED rows that are filled up with zeros."""

    def __init__(self, x: Floats):
        n, p = x.shape
        blocks = -(-n // PADDED)
        padded = np.zeros((blocks * PADDED, p + 1), np.float32)
        padded[:n, :p] = x
        padded[:n, p] = 1
        self.n = n
        self.x = np.ascontiguousarray(padded.reshape(blocks, PADDED, p + 1).transpose(0, 2, 1))
        self.longest = float(np.sqrt((padded.astype(np.float64) ** 2).sum(axis=1).max()))

    def filled(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a value per row (n,) in the same blocks, with zeros at the end."""
        full = np.zeros(self.x.shape[0] * PADDED, column.dtype)
        full[: self.n] = column
        return full.reshape(-1, PADDED)


def mean_log_loss(rows: PaddedRows, y: Ints, classes: int) -> float:
    """Return the mean of -log p(own class) in nats over the rows (n,) fitted, of labels 0..classes-1 (all present).

    It is that of softmax regression without a penalty, by the steps of scikit-learn's LogisticRegression(C=inf).
    Classes weigh alike in the fit, rows in the mean (Hsu et al. 2023, as released). Where classes can be separated
    there is no best fit: the loss is that after at most 100 steps of L-BFGS from zero, which end when no entry of the
    gradient exceeds 1e-4. Exponentials are in single precision, sums of losses in double.
    """
    from scipy.optimize import minimize

    p = rows.x.shape[1]
    labels = rows.filled(y)
    balanced = rows.filled((rows.n / classes / np.bincount(y, minlength=classes))[y].astype(np.float32))
    wanted = np.zeros((classes, p))  # the sum of each class's own rows, weighted
    for x, label, weight in zip(rows.x, labels, balanced):
        onehot = np.zeros((classes, PADDED), np.float32)
        onehot[label, np.arange(PADDED)] = weight
        wanted += onehot @ x.T
    room = np.empty((classes, PADDED), np.float32), np.empty((p, PADDED), np.float32)
    # Largest scores of the rows, 0 at first, and the weights that had them: while no score can have moved far, they do.
    tops, then = np.zeros(labels.shape, np.float32), np.zeros(wanted.shape)

    def objective(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(wanted.shape)
        shift = rows.longest * float(np.sqrt(((w - then) ** 2).sum(axis=1).max())) > NO_OVERFLOW_SINGLE
        if shift:
            then[:] = w
        gradient = -wanted
        loss = loss_and_gradient(w.astype(np.float32), rows.x, labels, balanced, shift, tops, *room, gradient)
        return loss / rows.n, gradient.ravel() / rows.n

    w = minimize(objective, np.zeros(wanted.size), method="L-BFGS-B", jac=True, options=LBFGS).x.reshape(wanted.shape)
    once = rows.filled(np.ones(rows.n, np.float32))
    loss = loss_and_gradient(w.astype(np.float32), rows.x, labels, once, True, tops, *room, np.zeros(wanted.shape))
    return max(0.0, loss / rows.n)


@njit(cache=True, fastmath=True)
def _exponentials(scores: Singles, top: Singles, total: Singles, shift: bool) -> None:
    """Write exp(scores - top) in place, (K, n), and its sums over classes into `total` (n,).

    `top` (n,) is written with `shift`: the largest score of each row. Without, it is near enough for no overflow. Every
    inner loop runs over the rows of a block without a call, so that it becomes vector instructions; hence an
    exponential of our own: 2^t = 2^i 2^f with a polynomial for 2^f, |f| <= 1/2, whose relative error is 2e-7.
    """
    classes, n = scores.shape
    power = np.empty(VECTOR, np.int32)
    power_of_two = power.view(np.float32)
    for begin in range(0, n, VECTOR):
        high, sums = top[begin : begin + VECTOR], total[begin : begin + VECTOR]
        for b in range(VECTOR):
            sums[b] = 0.0
        if shift:
            for k in range(classes):
                row = scores[k, begin : begin + VECTOR]
                for b in range(VECTOR):
                    high[b] = row[b] if k == 0 or row[b] > high[b] else high[b]
        for k in range(classes):
            row = scores[k, begin : begin + VECTOR]
            for b in range(VECTOR):
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
            for b in range(VECTOR):
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
    """Return sum_i weight_i (-log p_i of the own class), and add sum_i weight_i p_i x_i to `gradient` (K, p).

    w (K, p). x (blocks, p, rows), y and weights (blocks, rows): rows of weight 0 fill up the last block, and a block
    has a multiple of VECTOR rows. tops (blocks, rows): what is taken off the scores of a row before exponentials, their
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
