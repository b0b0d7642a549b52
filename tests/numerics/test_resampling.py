import numpy as np
import pytest
from scipy.stats import kendalltau

from karenina.numerics.resampling import kendall


def test_intervals_of_tied_columns_are_those_of_resampled_rows():
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(200, 2)))
    x[:, 1] = np.round(x[:, 0] + x[:, 1])
    estimate, low, high = kendall(x, resamples=1000)
    slow = [kendalltau(*x[rng.integers(200, size=200)].T).statistic for _ in range(1000)]
    assert estimate[0, 1] == pytest.approx(kendalltau(*x.T).statistic)
    np.testing.assert_allclose([low[0, 1], high[0, 1]], np.quantile(slow, [0.025, 0.975]), atol=0.02)


def test_equal_columns_have_tau_one_in_every_resample():
    binary = (np.random.default_rng(0).random(60) < 0.1).astype(float)
    for bound in kendall(np.column_stack([binary, binary, -binary])):
        np.testing.assert_allclose(bound, [[1, 1, -1], [1, 1, -1], [-1, -1, 1]], atol=1e-9)
