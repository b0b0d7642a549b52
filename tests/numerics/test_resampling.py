"""Intervals of correlations and of medians against resampled rows and scipy, and by how often they cover."""

import numpy as np
import pytest
from scipy.stats import kendalltau, quantile_test, spearmanr

from karenina.numerics.resampling import (
    LEAST_FOR_CORRELATION,
    jackknife,
    kendall,
    least_for_interval,
    medians,
    spearman,
)


@pytest.mark.parametrize(("correlate", "slow"), [(spearman, spearmanr), (kendall, kendalltau)])
def test_intervals_of_tied_columns_are_those_of_resampled_rows(correlate, slow):
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(200, 2)))
    x[:, 1] = np.round(x[:, 0] + x[:, 1])
    estimate, low, high = correlate(x)
    resampled = [slow(*x[rng.integers(200, size=200)].T).statistic for _ in range(1000)]
    assert estimate[0, 1] == pytest.approx(slow(*x.T).statistic)
    np.testing.assert_allclose([low[0, 1], high[0, 1]], np.quantile(resampled, [0.025, 0.975]), atol=0.02)


def test_the_error_of_kendall_is_that_of_leaving_out_each_row():
    x = np.random.default_rng(0).normal(size=(15, 2))
    estimate, low, high = (matrix[0, 1] for matrix in kendall(x))
    left = np.array([kendalltau(*np.delete(x, i, axis=0).T).statistic for i in range(15)])
    error = np.sqrt(14 / 15 * np.square(left - left.mean()).sum())
    half = 1.959964 * error / np.sqrt(1 - estimate**2)
    np.testing.assert_allclose([low, high], np.sin(np.arcsin(estimate) + [-half, half]), atol=1e-5)


@pytest.mark.parametrize("correlate", [spearman, kendall])
def test_few_rows_and_constant_columns_have_no_interval(correlate):
    x = np.random.default_rng(0).normal(size=(LEAST_FOR_CORRELATION, 3))
    x[:, 2] = 1
    estimate, low, high = correlate(x)
    assert low[0, 1] < estimate[0, 1] < high[0, 1]
    assert np.isnan([estimate[0, 2], low[0, 2], high[2, 1]]).all()
    estimate, low, high = correlate(x[1:, :2])
    assert np.isfinite(estimate).all()
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize("correlate", [spearman, kendall])
def test_equal_columns_are_certain(correlate):
    binary = (np.random.default_rng(0).random(60) < 0.1).astype(float)
    for bound in correlate(np.column_stack([binary, binary, -binary])):
        np.testing.assert_allclose(bound, [[1, 1, -1], [1, 1, -1], [-1, -1, 1]], atol=1e-9)


def test_no_spread_is_no_interval():
    assert np.isnan(jackknife(np.array([1.0, 2.0])))
    assert np.isnan(jackknife(np.ones(5)))
    found = jackknife(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]]))
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(jackknife(np.array([2.0, 3.0, 5.0])))


def runs(groups):
    return np.concatenate([[0], np.cumsum([len(group) for group in groups])]), np.concatenate(groups)


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.95, 0.99])
def test_bounds_equal_scipys(confidence):
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 49, 200)] + [np.empty(0)]
    found, bounds = medians(*runs(groups), confidence)
    for group, median, (low, high) in zip(groups, found, bounds):
        assert median == pytest.approx(np.median(group)) if len(group) else np.isnan(median)
        expected = quantile_test(group).confidence_interval(confidence) if len(group) else (np.nan, np.nan)
        assert (len(group) >= least_for_interval(confidence)) == np.isfinite(low) == np.isfinite(high)
        if np.isfinite(low):
            assert (low, high) == (expected.low, expected.high)


@pytest.mark.parametrize("n", [6, 7, 10, 30])
@pytest.mark.parametrize("draw", ["normal", "exponential", "two values of a kind"])
def test_covers_at_least_as_often_as_it_says(n, draw):
    rng = np.random.default_rng(n)
    x = {"normal": rng.normal, "exponential": rng.exponential}.get(draw, lambda size: rng.normal(size=size))(
        size=(4000, n)
    )
    truth = {"exponential": np.log(2)}.get(draw, 0.0)
    if draw.startswith("two"):
        x += np.where(rng.random(x.shape) < 0.5, -5, 5)
    _, bounds = medians(*runs(list(x)))
    assert np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])) > 0.945  # a standard error is .003
