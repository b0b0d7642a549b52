"""The representations that an audit is made of, against explicit formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, spearmanr

from karenina.audit import EXPERIMENTS
from karenina.metrics import dci_from_importance

SMALL = [(name, value) for name, experiment in EXPERIMENTS.items() for value in experiment.values]


@pytest.mark.parametrize(("name", "value"), SMALL)
def test_shapes_numbers_and_truths(name, value):
    experiment = EXPERIMENTS[name]
    codes, factors = experiment.make(value, rows=1000, seed=3)
    assert len(codes) == len(factors) == (round(5000 * value) if name == "samples" else 1000)
    assert np.isfinite(codes).all()
    assert np.isfinite(factors).all()
    assert all(0 <= score <= 1 for score in experiment.truth(value).values())
    again = experiment.make(value, rows=1000, seed=3)
    assert np.array_equal(again[0], codes)
    assert np.array_equal(again[1], factors)
    other = experiment.make(value, rows=1000, seed=4)[1]
    assert other.shape == factors.shape
    assert not np.array_equal(other, factors)


def test_a_value_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="noise has no share of noise 0.3"):
        EXPERIMENTS["noise"].make(0.3)


def test_neutral_values_all_give_the_same_perfect_representation():
    pairs = [e.make(e.neutral, rows=50, seed=1) for e in EXPERIMENTS.values() if e.neutral is not None]
    assert len(pairs) == 8
    for codes, factors in pairs:
        assert np.array_equal(codes, factors)
        assert np.array_equal(codes, pairs[0][0])


@pytest.mark.parametrize("alpha", EXPERIMENTS["mixing"].values)
def test_mixing_is_the_matrix_of_the_review(alpha):
    R = (1 - alpha) * np.eye(8)
    for row in range(8):
        R[row, (row + 1) % 8] += alpha
    codes, factors = EXPERIMENTS["mixing"].make(alpha, rows=20)
    assert np.allclose(codes, factors @ R)
    truth = EXPERIMENTS["mixing"].truth(alpha)
    # The importance of a code for a factor is its weight: rows of the matrix that DCI takes are codes.
    weights = dci_from_importance(R.T)
    assert truth["modularity"] == pytest.approx(weights.disentanglement)
    assert truth["compactness"] == pytest.approx(weights.completeness)
    assert ("explicitness" in truth) == (np.linalg.matrix_rank(R) == 8)


@given(alpha=st.sampled_from(EXPERIMENTS["nonlinear"].values), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_the_tangent_is_monotone_and_keeps_the_ends(alpha, seed):
    codes, factors = EXPERIMENTS["nonlinear"].make(alpha, rows=200, seed=seed)
    for j in range(8):
        order = np.argsort(factors[:, j])
        assert (np.diff(codes[order, j]) >= 0).all()
    assert codes.min() >= 0
    assert codes.max() <= 1
    middle = np.abs(codes - 0.5) - np.abs(factors - 0.5)
    assert (middle <= 1e-12).all()  # bent towards the middle


def test_equation_10_at_one_point():
    codes, factors = EXPERIMENTS["nonlinear"].make(1.0, rows=10)
    omega = 2 * np.arctan(1000**0.75 / 2)
    assert np.allclose(codes, 1000**-0.75 * np.tan(omega * (factors - 0.5)) + 0.5)


def test_noise_is_equation_9_with_uniform_noise():
    codes, factors = EXPERIMENTS["noise"].make(0.4, rows=20_000)
    noise = (codes - 0.6 * factors) / 0.4
    assert kstest(noise.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(noise.ravel(), factors.ravel())[0, 1]) < 0.01


@pytest.mark.parametrize(("case", "factors_left"), [("cos, sin", 4), ("twice", 4), ("four times", 2)])
def test_redundant_codes(case, factors_left):
    codes, factors = EXPERIMENTS["redundancy"].make(case, rows=100)
    assert codes.shape == (100, 8)
    assert factors.shape == (100, factors_left)
    if case == "cos, sin":
        assert np.allclose(np.arctan2(codes[:, 1::2], codes[:, 0::2]) % (2 * np.pi), factors)
    else:
        assert np.array_equal(codes, np.repeat(factors, 8 // factors_left, axis=1))


def test_samples_are_nested():
    whole = EXPERIMENTS["samples"].make(1.0, rows=1000, seed=2)
    part = EXPERIMENTS["samples"].make(0.01, rows=1000, seed=2)
    assert all(np.array_equal(a[:50], b) for a, b in zip(whole, part))


def test_correlated_factors_are_uniform_and_correlated_in_pairs():
    codes, factors = EXPERIMENTS["correlated"].make(0.6, rows=20_000)
    assert np.array_equal(codes, factors)
    ranks = spearmanr(factors).statistic
    assert ranks[0, 1] == pytest.approx(6 / np.pi * np.arcsin(0.3), abs=0.02)
    assert abs(ranks[0, 2]) < 0.03
    assert kstest(factors[:, 1], "uniform").pvalue > 1e-3


def test_categories_can_be_read_off_one_code_each_but_not_in_order():
    codes, names = EXPERIMENTS["categories"].make(8, rows=2000)
    disorder = 0
    for j in range(8):
        pairs = set(zip(names[:, j], codes[:, j]))
        assert len(pairs) == 8
        disorder += [code for _, code in sorted(pairs)] != sorted(set(codes[:, j]))
    assert disorder >= 7


def test_scale_multiplies_all_codes_or_the_noisy_half():
    base, factors = EXPERIMENTS["scale"].make(1.0, rows=500)
    assert np.array_equal(base[:, 0::2], factors[:, 0::2])
    assert np.corrcoef(base[:, 1], factors[:, 1])[0, 1] == pytest.approx(0.6 / np.hypot(0.6, 0.4), abs=0.05)
    assert np.allclose(EXPERIMENTS["scale"].make(100.0, rows=500)[0], 100 * base)
    uneven = EXPERIMENTS["scale"].make("noisy x 100", rows=500)[0]
    assert np.allclose(uneven, base * np.tile([1, 100], 4))


def test_outliers_and_dead_codes():
    codes, factors = EXPERIMENTS["outlier"].make(10, rows=500)
    changed = codes != factors
    assert changed.sum(axis=0).tolist() == [1] * 8
    assert (codes[changed] == 10).all()
    codes, factors = EXPERIMENTS["dead"].make(4, rows=500)
    assert np.array_equal(codes[:, :8], factors)
    assert (codes[:, 8:].std(axis=0) < 2e-3).all()
    assert (codes[:, 8:].std(axis=0) > 0).all()


def test_dead_codes_beside_mixed_ones():
    experiment = EXPERIMENTS["dead_mixed"]
    codes, factors = experiment.make(4, rows=500)
    weights = np.linalg.lstsq(factors, codes[:, :8], rcond=None)[0]
    assert np.allclose(np.abs(weights), 1 / 8)
    assert np.linalg.matrix_rank(weights) == 8  # nothing is lost
    assert codes[:, 8:].shape == (500, 4)
    assert (codes[:, 8:].std(axis=0) < 2e-3).all()
    found = dci_from_importance(np.abs(weights.T))
    truth = experiment.truth(4)
    assert (truth["modularity"], truth["compactness"]) == pytest.approx((found.disentanglement, found.completeness))


def test_rotation_keeps_distances():
    codes, factors = EXPERIMENTS["rotated"].make(30, rows=50)
    assert np.allclose(np.linalg.norm(codes[0] - codes, axis=1), np.linalg.norm(factors[0] - factors, axis=1))
    assert np.corrcoef(codes[:, 0], factors[:, 0])[0, 1] < 0.99
