"""Gaussian divergences against scipy's integrals and matrix roots; sums of Gaussian kernels against its distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from scipy.stats import norm

from karenina.numerics.gaussian import gaussian_sum, kl_per_latent, total_correlation, wasserstein_correlation


def test_kl_is_the_integral():
    mean, logvar = np.array([[0.7, -2.0], [0.1, 0.0]]), np.array([[-1.0, 0.5], [0.3, 0.0]])

    def integral(m, v):
        q = norm(m, np.exp(v / 2))
        return quad(lambda z: q.pdf(z) * (q.logpdf(z) - norm.logpdf(z)), -12, 12)[0]

    expected = [[integral(m, v) for m, v in zip(*rows)] for rows in zip(mean, logvar)]
    assert kl_per_latent(mean, logvar) == pytest.approx(np.mean(expected, axis=0), abs=1e-7)
    assert kl_per_latent(mean.astype(np.float32), logvar.astype(np.float32)).dtype == np.float64


def test_divergences_of_correlated_columns():
    rng = np.random.default_rng(0)
    columns = np.hstack([rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)), np.ones((300, 1))])
    covariance = np.cov(columns[:, :3], rowvar=False)
    marginal = np.diag(np.diag(covariance))
    expected = (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1]) / 2
    assert total_correlation(columns) == pytest.approx(expected, rel=1e-9)
    root = sqrtm(marginal)
    distance = np.trace(covariance + marginal - 2 * sqrtm(root @ covariance @ root)).real
    assert wasserstein_correlation(columns) == pytest.approx(distance, rel=1e-6)
    assert wasserstein_correlation(columns, normalised=True) == pytest.approx(distance / np.trace(covariance), rel=1e-6)


def direct(a, b):
    return np.exp(-cdist(a, b, "sqeuclidean")).sum()


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 12),
    st.floats(1e-3, 30),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=50)
def test_it_is_the_sum_over_all_pairs(n, m, d, scale, seed):
    rng = np.random.default_rng(seed)
    a, b = scale * rng.normal(size=(n, d)), scale * rng.normal(size=(m, d))
    assert gaussian_sum(a, b) == pytest.approx(direct(a, b), rel=1e-12, abs=1e-290)


@pytest.mark.parametrize("count", [511, 512, 513, 1500])
def test_blocks_leave_out_nothing(count):
    rng = np.random.default_rng(count)
    a, b = rng.normal(size=(30, 4)), rng.normal(size=(count, 4))
    assert gaussian_sum(a, b) == pytest.approx(direct(a, b), rel=1e-13)
    assert gaussian_sum(b, b) == pytest.approx(direct(b, b), rel=1e-13)


def test_each_power_of_two_is_right():
    """One pair at a time, so that no term hides behind a larger one."""
    for distance in np.linspace(0, 26, 4001):
        a, b = np.zeros((1, 1)), np.full((1, 1), distance)
        assert gaussian_sum(a, b) == pytest.approx(np.exp(-(distance**2)), rel=1e-14)


def test_equal_points_give_one_each_and_far_points_nothing():
    assert gaussian_sum(np.ones((7, 3)), np.ones((5, 3))) == 35
    assert gaussian_sum(np.zeros((2, 1)), np.full((3, 1), 1e9)) < 1e-300


def test_single_precision_and_strides_are_taken():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 6)).astype(np.float32)[:, ::2], rng.normal(size=(9, 3))
    assert gaussian_sum(a, b) == pytest.approx(direct(a, b), rel=1e-12)
