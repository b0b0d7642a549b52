"""Ridge-penalised logistic regression: the optimum of scikit-learn's LogisticRegression, found by Newton's method.

Both fits minimise sum_i s_i loss_i + ||W||^2 / (2 C), the intercept free of penalty, as scikit-learn does (C = 1).
Inputs are few here (codes: ten or so) and rows many, so second-order steps cost little more than gradients and a fit
needs ten of them instead of a hundred.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _with_ones(x: Array) -> Array:
    return np.column_stack([x, np.ones(len(x))])


def _products(x: Array) -> tuple[Array, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Products of all column pairs (n, p(p+1)/2), so that X' diag(w) X is one matrix product for many w at once."""
    rows, columns = np.triu_indices(x.shape[1])
    return x[:, rows] * x[:, columns], (rows, columns)


def _symmetric(upper: Array, pairs: tuple[NDArray[np.int64], NDArray[np.int64]], size: int) -> Array:
    """(m, p(p+1)/2) upper triangles to (m, p, p) matrices."""
    full = np.empty((len(upper), size, size))
    full[:, pairs[0], pairs[1]] = upper
    full[:, pairs[1], pairs[0]] = upper
    return full


def softmax(scores: Array) -> Array:
    """Rows of class probabilities."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


def _cross_entropy(scores: Array, y: NDArray[np.int64]) -> float:
    top = scores.max(axis=1)
    return float((np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(len(y)), y]).sum())


def multinomial(
    x: Array, y: NDArray[np.int64], classes: int, *, c: float = 1.0, steps: int = 100, tolerance: float = 1e-6
) -> Array:
    """Weights (d + 1, classes), the intercept last, of the softmax regression of labels 0..classes-1 on x (n, d).

    Newton's method with conjugate gradients inside, preconditioned by each class's own block of the Hessian. Stops when
    no entry of the gradient of the mean loss exceeds `tolerance` (scikit-learn: 1e-4).
    """
    n = len(x)
    ones = _with_ones(x)
    d = ones.shape[1]
    products, pairs = _products(ones)
    penalty = np.full((d, 1), 1 / c)
    penalty[-1] = 0.0
    onehot = np.zeros((n, classes))
    onehot[np.arange(n), y] = 1.0
    w = np.zeros((d, classes))
    scores = np.zeros((n, classes))
    loss = n * np.log(classes)
    for _ in range(steps):
        p = softmax(scores)
        gradient = ones.T @ (p - onehot) + penalty * w
        size = np.abs(gradient).max() / n
        if size < tolerance:
            break
        blocks = _symmetric(((p * (1 - p)).T @ products), pairs, d)
        blocks += np.diag(penalty[:, 0]) + 1e-8 * n * np.eye(d)  # the shift of all intercepts together is free
        step = _conjugate(ones, p, penalty, np.linalg.inv(blocks), gradient, min(0.1, np.sqrt(size)))
        towards = ones @ step
        slope = float((gradient * step).sum())
        length = 1.0
        for _ in range(30):
            trial = w + length * step
            new = _cross_entropy(scores + length * towards, y) + float((penalty * trial**2).sum()) / 2
            if new <= loss + 1e-4 * length * slope:
                break
            length /= 2
        else:
            break  # no descent is left above rounding
        w, scores, loss = trial, scores + length * towards, new
    return w


def _conjugate(
    ones: Array, p: Array, penalty: Array, inverse: NDArray[np.floating], gradient: Array, tolerance: float
) -> Array:
    """The Newton step -H^-1 gradient, to a relative residual of `tolerance`."""
    step = np.zeros_like(gradient)
    residual = -gradient
    goal = tolerance * np.linalg.norm(residual)
    direction = solved = np.einsum("kij,jk->ik", inverse, residual)
    inner = float((residual * solved).sum())
    for _ in range(4 * gradient.size):
        if np.linalg.norm(residual) <= goal:
            break
        a = p * (ones @ direction)
        a -= p * a.sum(axis=1, keepdims=True)
        curved = ones.T @ a + penalty * direction
        length = inner / float((direction * curved).sum())
        step = step + length * direction
        residual = residual - length * curved
        solved = np.einsum("kij,jk->ik", inverse, residual)
        inner, before = float((residual * solved).sum()), inner
        direction = solved + inner / before * direction
    return step


def one_vs_rest(
    x: Array, targets: Array, weights: Array, *, c: float = 1.0, steps: int = 50, tolerance: float = 1e-6
) -> Array:
    """Weights (d + 1, m), the intercept last, of m two-class regressions that share x (n, d).

    targets: (n, m) of 0 and 1. weights: (2, m), how much a row of class 0 and of class 1 counts. The Hessians of all m
    problems come from one matrix product.
    """
    n, m = targets.shape
    ones = _with_ones(x)
    d = ones.shape[1]
    products, pairs = _products(ones)
    penalty = np.full((d, 1), 1 / c)
    penalty[-1] = 0.0
    sample = np.where(targets > 0, weights[1], weights[0])
    sign = 1 - 2 * targets
    w = np.zeros((d, m))
    scores = np.zeros((n, m))
    loss = sample.sum(axis=0) * np.log(2)
    todo = np.arange(m)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-scores))
        gradient = ones.T @ (sample * (p - targets)) + penalty * w[:, todo]
        going = np.abs(gradient).max(axis=0) > tolerance * n
        if not going.any():
            break
        if not going.all():
            todo, sample, sign, targets = todo[going], sample[:, going], sign[:, going], targets[:, going]
            scores, p, gradient, loss = scores[:, going], p[:, going], gradient[:, going], loss[going]
        hessian = _symmetric((sample * p * (1 - p)).T @ products, pairs, d)
        hessian += np.diag(penalty[:, 0]) + 1e-10 * n * np.eye(d)
        step = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
        towards = ones @ step
        slope = (gradient * step).sum(axis=0)
        length = np.ones(len(todo))
        for _ in range(30):
            trial = w[:, todo] + length * step
            moved = scores + length * towards
            new = (sample * np.logaddexp(0, sign * moved)).sum(axis=0) + (penalty * trial**2).sum(axis=0) / 2
            short = new > loss + 1e-4 * length * slope + 1e-12 * np.abs(loss)
            if not short.any():
                break
            length = np.where(short, length / 2, length)
        w[:, todo], scores, loss = trial, moved, new
    return w
