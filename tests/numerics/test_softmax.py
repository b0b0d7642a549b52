"""The compiled loss of softmax regression and its gradient, against numpy in double precision."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from karenina.numerics.logistic import PADDED, PaddedRows, loss_and_gradient, mean_log_loss


def problem(seed, separable=False):
    rng = np.random.default_rng(seed)
    n, p, classes = 1400, int(rng.integers(2, 6)), int(rng.integers(2, 7))
    x = rng.normal(size=(n, p)) * rng.uniform(0.5, 2, size=p)
    scores = x @ rng.normal(size=(p, classes))
    y = (scores if separable else scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return x, np.unique(y, return_inverse=True)[1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("far", [1.0, 50.0])  # without a shift, such scores would overflow
def test_loss_and_gradient_are_those_of_numpy(seed, far):
    x, y = problem(seed)
    rng = np.random.default_rng(seed)
    rows, classes = PaddedRows(x), int(y.max()) + 1
    ones = np.column_stack([x, np.ones(len(x))])
    w = far * rng.normal(size=(classes, ones.shape[1]))
    weight = rng.uniform(0.5, 2, size=len(x)).astype(np.float32)
    gradient = np.zeros(w.shape)
    assert rows.x.shape == (2, ones.shape[1], PADDED)
    tops = np.zeros((2, PADDED), np.float32)
    room = np.empty((classes, PADDED), np.float32), np.empty((ones.shape[1], PADDED), np.float32)
    arrays = w.astype(np.float32), rows.x, rows.filled(y), rows.filled(weight)
    loss = loss_and_gradient(*arrays, far > 1, tops, *room, gradient)
    scores = ones @ w.T
    expected = -(weight * log_softmax(scores, axis=1)[np.arange(len(y)), y]).sum()
    assert loss == pytest.approx(expected, rel=1e-5)
    slope = (softmax(scores, axis=1) * weight[:, None]).T @ ones
    np.testing.assert_allclose(gradient, slope, atol=2e-5 * np.abs(slope).max())


@pytest.mark.parametrize("seed", range(4))
def test_classes_that_can_be_separated_have_next_to_no_loss(seed):
    x, y = problem(seed, separable=True)
    assert 0 <= mean_log_loss(PaddedRows(x), y, int(y.max()) + 1) < 0.1


def test_inputs_that_tell_nothing_leave_the_loss_of_a_guess():
    x, y = np.tile([[1.0], [-1.0]], (8, 1)), np.tile([0, 0, 1, 1], 4)
    assert mean_log_loss(PaddedRows(x), y, 2) == pytest.approx(np.log(2), abs=1e-6)
