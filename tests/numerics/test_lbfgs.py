"""L-BFGS takes the steps of scipy's L-BFGS-B: the same weights after any number of them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from karenina.numerics.softmax import ROWS, STEP, Rows, descend, first_step, next_step


def problem(seed, separable=False):
    rng = np.random.default_rng(seed)
    n, p, classes = 400, int(rng.integers(2, 6)), int(rng.integers(2, 7))
    x = rng.normal(size=(n, p)) * rng.uniform(0.5, 2, size=p)
    scores = x @ rng.normal(size=(p, classes))
    y = (scores if separable else scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return x, np.unique(y, return_inverse=True)[1]


def by_scipy(x, y, steps):
    """Weights (classes, p + 1), and how many steps were taken."""
    ones = np.column_stack([x, np.ones(len(x))])
    shape = (y.max() + 1, ones.shape[1])
    own = np.eye(shape[0])[y]

    def objective(flat):
        scores = ones @ flat.reshape(shape).T
        gradient = (softmax(scores, axis=1) - own).T @ ones / len(x)
        return -(own * log_softmax(scores, axis=1)).sum() / len(x), gradient.ravel()

    options = {"maxiter": steps, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
    found = minimize(objective, np.zeros(shape).ravel(), method="L-BFGS-B", jac=True, options=options)
    return found.x.reshape(shape), found.nit


def by_us(x, y, steps):
    rows, classes = Rows(x), int(y.max()) + 1
    once = np.ones(len(x), np.float32)
    wanted = np.stack([np.column_stack([x, once])[y == c].sum(axis=0) for c in range(classes)])
    w, _, taken = descend(rows.x, rows.filled(y), rows.filled(once), wanted, rows.n, rows.longest, steps, 1e-4, 50)
    assert rows.x.shape[2] == ROWS
    return w, taken


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("steps", [1, 2, 5, 15])  # beyond its memory of ten, too
def test_the_weights_after_some_steps_are_those_of_scipy(seed, steps):
    x, y = problem(seed)
    theirs, nit = by_scipy(x, y, steps)
    ours, taken = by_us(x, y, steps)
    assert taken == nit
    np.testing.assert_allclose(ours, theirs, atol=2e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_where_the_gradient_is_flat(seed):
    x, y = problem(seed)
    ours, taken = by_us(x, y, 1000)
    assert taken < 100
    np.testing.assert_allclose(ours, by_scipy(x, y, 1000)[0], atol=0.02)


def test_classes_that_can_be_separated_end_after_the_last_step_or_without_a_loss():
    x, y = problem(0, separable=True)
    w, taken = by_us(x, y, 100)
    scores = np.column_stack([x, np.ones(len(x))]) @ w.T
    assert np.isfinite(w).all()
    assert (scores.argmax(axis=1) == y).mean() > 0.99
    assert taken <= 100


def test_a_flat_start_is_the_end():
    w, taken = by_us(np.tile([[1.0], [-1.0]], (8, 1)), np.tile([0, 0, 1, 1], 4), 10)
    assert taken == 0
    assert not w.any()


@pytest.mark.parametrize("step", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize(
    "function",
    [  # the first of the test problems of Moré & Thuente (1994), and one that is steep
        (lambda t: -t / (t**2 + 2), lambda t: (t**2 - 2) / (t**2 + 2) ** 2),
        (lambda t: np.exp(3 * t) - 40 * t, lambda t: 3 * np.exp(3 * t) - 40),
    ],
)
def test_a_line_search_ends_with_enough_fall_and_a_flatter_slope(function, step):
    value, slope = function
    search = np.zeros(15)
    first_step(search, value(0.0), slope(0.0), step)
    for _ in range(60):
        t = search[STEP]
        if next_step(search, value(t), slope(t)):
            break
    else:
        raise AssertionError("no step was found")
    assert value(t) <= value(0.0) + 1e-3 * t * slope(0.0)
    assert abs(slope(t)) <= 0.9 * abs(slope(0.0))
