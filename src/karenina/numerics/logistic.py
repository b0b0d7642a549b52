"""Ridge-penalised logistic regression: the optimum of scikit-learn's LogisticRegression, found by Newton's method.

Both fits minimise sum_i s_i loss_i + ||W||^2 / (2 C), the intercept free of penalty, as scikit-learn does (C = 1).
Inputs are few here (codes: ten or so) and rows many, so second-order steps cost little more than gradients and a fit
needs ten of them instead of a hundred.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Design:
    """Inputs with a column of ones, and the products of all column pairs: made once for all regressions on them."""

    ones: Array
    products: Array
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, x: Array) -> "Design":
        ones = np.column_stack([x, np.ones(len(x))])
        rows, columns = np.triu_indices(ones.shape[1])
        turned = np.ascontiguousarray(ones.T)
        # X' diag(w) X for many w at once is then one matrix product
        return cls(ones, (turned[rows] * turned[columns]).T, (rows, columns))

    def ridge(self, c: float) -> Array:
        penalty = np.full((self.ones.shape[1], 1), 1 / c)
        penalty[-1] = 0.0
        return penalty


def _symmetric(upper: Array, pairs: tuple[NDArray[np.int64], NDArray[np.int64]], size: int) -> Array:
    """(m, p(p+1)/2) upper triangles to (m, p, p) matrices."""
    full = np.empty((len(upper), size, size))
    full[:, pairs[0], pairs[1]] = upper
    full[:, pairs[1], pairs[0]] = upper
    return full


def softmax(scores: Array) -> tuple[Array, Array]:
    """Rows of class probabilities (n, classes), and the log of each row's sum of exponentials (n,)."""
    top = scores.max(axis=1)
    p = np.exp(scores - top[:, None])
    total = p.sum(axis=1)
    p /= total[:, None]
    return p, np.log(total) + top


def multinomial(
    design: Design,
    y: NDArray[np.int64],
    classes: int,
    *,
    weights: Array | None = None,
    c: float = 1.0,
    steps: int = 100,
    tolerance: float = 1e-5,
) -> Array:
    """Weights (d + 1, classes), the intercept last, of the softmax regression of labels 0..classes-1 on the design.

    Two classes have one penalised vector, as in scikit-learn, here the difference of the columns.
    weights: (n,), how much each row counts. Newton's method with conjugate gradients inside, preconditioned by each
    class's own block of the Hessian. Stops when no entry of the gradient of the mean loss exceeds `tolerance`
    (scikit-learn: 1e-4).
    """
    ones, products, pairs = design.ones, design.products, design.pairs
    n, d = ones.shape
    # Both columns w / 2 and -w / 2 are penalised, which makes half of ||w||^2.
    penalty = design.ridge(c / 2 if classes == 2 else c)
    count = np.ones(n) if weights is None else weights
    wanted = np.stack([np.bincount(y, count * column, minlength=classes) for column in ones.T])
    rows = np.arange(n)
    w, scores = np.zeros((d, classes)), np.zeros((n, classes))
    p, log_total = softmax(scores)
    loss = float(count @ (log_total - scores[rows, y]))
    for _ in range(steps):
        p *= count[:, None]
        gradient = ones.T @ p - wanted + penalty * w
        size = np.abs(gradient).max() / n
        if size < tolerance:
            break
        blocks = _symmetric((p * (1 - p / count[:, None])).T @ products, pairs, d)
        blocks += np.diag(penalty[:, 0]) + 1e-8 * n * np.eye(d)  # the shift of all intercepts together is free
        step = _conjugate(ones, p, count, penalty, np.linalg.inv(blocks), gradient, min(0.3, np.sqrt(size)))
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
    ones: Array,
    p: Array,
    count: Array,
    penalty: Array,
    inverse: NDArray[np.floating],
    gradient: Array,
    tolerance: float,
) -> Array:
    """The Newton step -H^-1 gradient, to a relative residual of `tolerance`.

    Products with H are in single precision: an inexact step costs at most another step, and it halves the time.
    """
    x, q, share = ones.astype(np.float32), p.astype(np.float32), (p / count[:, None]).astype(np.float32)
    step = np.zeros_like(gradient)
    residual = -gradient
    goal = tolerance * np.linalg.norm(residual)
    direction = solved = np.einsum("kij,jk->ik", inverse, residual)
    inner = float((residual * solved).sum())
    for _ in range(gradient.size):
        if np.linalg.norm(residual) <= goal:
            break
        a = x @ direction.astype(np.float32)
        a -= np.einsum("nk,nk->n", a, share)[:, None]
        a *= q
        curved = (x.T @ a).astype(np.float64) + penalty * direction
        bend = float((direction * curved).sum())
        if bend <= 0:  # rounding, along directions in which the loss is flat
            break
        length = inner / bend
        step = step + length * direction
        residual = residual - length * curved
        solved = np.einsum("kij,jk->ik", inverse, residual)
        inner, before = float((residual * solved).sum()), inner
        direction = solved + inner / before * direction
    return step


def one_vs_rest(
    design: Design, y: NDArray[np.int64], weights: Array, *, c: float = 1.0, steps: int = 50, tolerance: float = 1e-5
) -> Array:
    """Weights (d + 1, classes), the intercept last, of one two-class regression per class, this class against the rest.

    y: (n,) labels 0..classes-1. weights: (2, classes), how much a row of the rest and of the class counts. The Hessians
    of all problems come from one matrix product.
    """
    ones, products, pairs = design.ones, design.products, design.pairs
    n, d = ones.shape
    penalty = design.ridge(c)
    todo = np.arange(weights.shape[1])
    own = y[:, None] == todo
    sample = np.where(own, weights[1], weights[0])
    w, scores = np.zeros((d, len(todo))), np.zeros((n, len(todo)))
    loss = np.full(len(todo), np.inf)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-scores))
        gradient = ones.T @ (sample * (p - own)) + penalty * w[:, todo]
        going = np.abs(gradient).max(axis=0) > tolerance * n
        if not going.any():
            break
        if not going.all():
            todo, own, sample, scores = todo[going], own[:, going], sample[:, going], scores[:, going]
            p, gradient, loss = p[:, going], gradient[:, going], loss[going]
        hessian = _symmetric((sample * p * (1 - p)).T @ products, pairs, d)
        hessian += np.diag(penalty[:, 0]) + 1e-10 * n * np.eye(d)
        step = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
        towards = ones @ step
        slope = (gradient * step).sum(axis=0)
        length = np.ones(len(todo))
        for _ in range(30):
            trial, moved = w[:, todo] + length * step, scores + length * towards
            new = (sample * _softplus(np.where(own, -moved, moved))).sum(axis=0) + (penalty * trial**2).sum(axis=0) / 2
            short = new > loss + 1e-4 * length * slope + 1e-12 * np.abs(new)
            if not short.any():
                break
            length = np.where(short, length / 2, length)
        w[:, todo], scores, loss = trial, moved, new
    return w


def _softplus(a: Array) -> Array:
    """log(1 + exp(a)) without overflow."""
    return np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))
