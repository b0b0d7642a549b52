"""Lasso regressions of several targets on the same inputs, the penalty chosen by cross-validation.

Minimises ||y - b - X w||^2 / (2 n) + alpha |w|_1 as scikit-learn does, with the folds and the grid of penalties of its
LassoCV. Rows are read once: every fold's path and its error on the rows left out need only that fold's second moments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from karenina.numerics.arrays import Floats
from karenina.numerics.columns import range_unit

GRID = 100  # penalties, from the smallest that gives zero weights down to a thousandth of it, as in LassoCV


@dataclass(frozen=True, eq=False)
class Lasso:
    """weights: (d, k), of inputs and targets in their units. alpha: (k,), the penalty chosen for each target.

    centre, unit: (d + k,), means of inputs and targets, and the units they were measured in.
    """

    weights: Floats
    alpha: Floats
    centre: Floats
    unit: Floats

    def predict(self, x: Floats) -> Floats:
        d = len(self.weights)
        slope = self.weights / self.unit[:d, None] * self.unit[d:]
        return x @ slope + (self.centre[d:] - self.centre[:d] @ slope)


def fit(x: Floats, y: Floats, *, alphas: Sequence[float] | None = None, folds: int = 10, scale: str = "none") -> Lasso:
    """Fit targets y (n, k) on x (n, d). Folds are consecutive blocks of rows: shuffle them first if order matters.

    scale: "none", "standard" (inputs and targets in standard deviations) or "range" (in units of their range).
    """
    from karenina.numerics.lasso_kernels import lasso_paths

    n, d = x.shape
    k = y.shape[1]
    folds = min(folds, n)
    joint = np.column_stack([x, y])
    far = np.ones(d + k) if scale == "none" else range_unit(joint)
    if (far != 1).any():
        joint /= far
    centre = joint.mean(axis=0)
    joint -= centre
    blocks = np.array_split(joint, folds)
    sizes = np.array([len(block) for block in blocks])
    unit = _unit(joint, centre, scale)
    moments = np.stack([block.T @ block for block in blocks]) / np.outer(unit, unit)
    sums = np.stack([block.sum(axis=0) for block in blocks]) / unit
    total = moments.sum(axis=0)
    covariance = total[:d, d:] / n
    grid = _grid(covariance, alphas)

    rest = (n - sizes)[:, None]
    means = -sums / np.maximum(rest, 1)  # of the rows outside the fold; all rows together have mean 0
    trained = (total - moments) / rest[:, :, None] - means[:, :, None] * means[:, None, :]
    shift = sums[:, :, None] * means[:, None, :]
    outer = means[:, :, None] * means[:, None, :]
    left = moments - shift - shift.transpose(0, 2, 1) + sizes[:, None, None] * outer  # about the training means
    grams, covariances = (np.ascontiguousarray(a) for a in (trained[:, :d, :d], trained[:, :d, d:]))
    error = np.zeros((k, grid.shape[1]))
    for fold in range(folds):
        w = lasso_paths(grams[fold], covariances[fold], grid)  # (k, alphas, d)
        block = left[fold] / sizes[fold]
        error += np.diag(block[d:, d:])[:, None]
        error += ((w @ block[:d, :d] - 2 * block[:d, d:].T[:, None, :]) * w).sum(axis=2)
    best = error.argmin(axis=1)
    alpha = grid[np.arange(k), best]
    weights = lasso_paths(total[:d, :d] / n, covariance, alpha[:, None])[:, 0].T
    return Lasso(weights, alpha, centre * far, unit * far)


def _unit(centred: Floats, centre: Floats, scale: str) -> Floats:
    """What each column is divided by; a column that varies by rounding only is left alone and gets no weight."""
    if scale == "none":
        return np.ones(len(centre))
    size = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(centred))
    dead = size <= 1e-13 * np.abs(centre)
    centred[:, dead] = 0.0
    if scale == "range":
        size = centred.max(axis=0) - centred.min(axis=0)
    return np.where(dead, 1.0, size)


def _grid(covariance: Floats, alphas: Sequence[float] | None) -> Floats:
    """(k, alphas), decreasing, so that each solution starts the next."""
    if alphas is not None:
        given = np.sort(np.asarray(alphas, np.float64))[::-1]
        if given.ndim != 1 or not given.size or not (given > 0).all() or not np.isfinite(given).all():
            raise ValueError(f"alphas must be one or more positive numbers, got {alphas!r}")
        return np.tile(given, (covariance.shape[1], 1))
    most = np.maximum(np.abs(covariance).max(axis=0), np.finfo(float).tiny)
    return most[:, None] * np.geomspace(1, 1e-3, GRID)
