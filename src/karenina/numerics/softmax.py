"""Softmax regression without a penalty, by the steps of scikit-learn's LogisticRegression(penalty=None)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats, Ints

STEPS = 100
TOLERANCE = 1e-4
ROWS = 1024  # at a time, so that the scores stay in the cache
TRIED = 50  # evaluations in a line search


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
    from karenina.numerics.softmax_kernels import descend, loss_and_gradient

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
