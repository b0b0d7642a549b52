"""Gaussian divergences against integrals and matrix square roots of scipy."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import sqrtm
from scipy.stats import norm

from karenina.numerics.gaussian import kl_per_latent, total_correlation, wasserstein_correlation


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
