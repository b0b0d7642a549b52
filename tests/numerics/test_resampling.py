import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from karenina.numerics.resampling import LEAST_FOR_CORRELATION, jackknife, kendall, spearman


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
