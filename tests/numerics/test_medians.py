"""Intervals of medians against scipy and by how often they cover."""

import numpy as np
import pytest
from scipy.stats import quantile_test

from karenina.numerics.resampling import least_for_interval, medians


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
