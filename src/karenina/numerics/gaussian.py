"""Gaussians: the KL of a posterior from the prior; how far columns (n, d) would be from independent if they were
Gaussian; and sums of Gaussian kernels over all pairs of two sets of points, which an MMD is made of.

Columns must be finite; constant ones are left out.
"""

import math

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.checks import varying
from karenina.numerics.compile import njit

_BLOCK = 512  # points of b at a time: their distances stay in the first cache
# exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln 2 / 2, where 13 terms of Taylor's series are exact to
# rounding. Adding 1.5 * 2^52 rounds, and leaves n in the last bits.
_ROUND = 6755399441055744.0
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LEAST = -708.0  # below it exp is less than 1e-307: as good as 0 in a sum that has a 1


def gaussian_sum(a: Floats, b: Floats) -> float:
    """Return the sum of exp(-|x - y|^2) over the rows x of a (n, d) and y of b (m, d).

    >>> round(gaussian_sum(np.array([[0.0], [1.0]]), np.array([[0.0]])), 4)
    1.3679
    """
    return float(_sum(np.ascontiguousarray(a, float), np.ascontiguousarray(np.asarray(b, float).T)))


@njit(cache=True, nogil=True)
def _sum(a, b):  # type: ignore[no-untyped-def]
    """Return the sum for a (n, d) and b (d, m)."""
    squared, power = np.empty(_BLOCK), np.empty(_BLOCK)
    bits = power.view(np.int64)
    total = 0.0
    for start in range(0, b.shape[1], _BLOCK):
        block = np.ascontiguousarray(b[:, start : start + _BLOCK])
        count = block.shape[1]
        for i in range(len(a)):
            _squares(a[i], block, squared)
            _scale(squared, power, count)
            for j in range(count):
                bits[j] = (bits[j] << 52) + (1023 << 52)
            total += _total(squared, power, count)
    return total


@njit(cache=True, nogil=True)
def _squares(x, b, out):  # type: ignore[no-untyped-def]
    count = b.shape[1]
    for j in range(count):
        out[j] = 0.0
    for k in range(len(x)):
        for j in range(count):
            difference = x[k] - b[k, j]
            out[j] -= difference * difference


@njit(cache=True, nogil=True)
def _scale(x, power, count):  # type: ignore[no-untyped-def]
    """Divide the exponents x into the rest r, which takes their place, and the power n in the last bits of `power`."""
    for j in range(count):
        value = x[j] if x[j] > _LEAST else _LEAST
        shifted = value * _LOG2_E + _ROUND
        n = shifted - _ROUND
        power[j] = shifted
        x[j] = (value - n * _LN2_HIGH) - n * _LN2_LOW


@njit(cache=True, nogil=True, inline="always")
def _exp_near_0(r):  # type: ignore[no-untyped-def]
    e = 1.0 / 6227020800.0
    e = e * r + 1.0 / 479001600.0
    e = e * r + 1.0 / 39916800.0
    e = e * r + 1.0 / 3628800.0
    e = e * r + 1.0 / 362880.0
    e = e * r + 1.0 / 40320.0
    e = e * r + 1.0 / 5040.0
    e = e * r + 1.0 / 720.0
    e = e * r + 1.0 / 120.0
    e = e * r + 1.0 / 24.0
    e = e * r + 1.0 / 6.0
    e = e * r + 0.5
    e = e * r + 1.0
    return e * r + 1.0


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _total(r, power, count):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(count):
        total += _exp_near_0(r[j]) * power[j]
    return total


def kl_per_latent(mean: NDArray[np.floating], logvar: NDArray[np.floating]) -> Floats:
    """Return KL(N(mean, e^logvar) || N(0, 1)) of each latent in nats, averaged over rows: two (n, L) arrays -> (L,).

    >>> kl_per_latent(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros((2, 2)))
    array([0.5, 0. ])
    """
    per_row: Floats = 0.5 * (mean.astype(float) ** 2 + np.exp(logvar.astype(float)) - logvar - 1)
    return per_row.mean(axis=0)


def entropy_per_latent(codes: NDArray[np.floating]) -> Floats:
    """Return the entropy in nats of the values that each latent takes, (n, L) -> (L,).

    A rounded code has a posterior without spread, and so no finite KL from a Gaussian. Its KL from the distribution of
    all codes is this entropy, the information that the latent has of the image: 0 for one that is always the same.

    >>> entropy_per_latent(np.array([[0.0, 1.0], [0.5, 1.0]])).round(3)
    array([0.693, 0.   ])
    """
    shares = [np.unique(column, return_counts=True)[1] / len(codes) for column in codes.T]
    return np.array([abs(float(-(share * np.log(share)).sum())) for share in shares])


def total_correlation(columns: Floats) -> float:
    """Return the total correlation in nats of a Gaussian fitted to columns (n, d): (sum log C_jj - log det C) / 2.

    0 with fewer than two columns that vary; infinite when one is a linear function of others, but for rounding.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> bool(total_correlation(rows) < 0.01), total_correlation(np.hstack([rows, rows]))
    (True, inf)
    """
    live = np.ascontiguousarray(columns[:, varying(columns)])
    if live.shape[1] < 2:
        return 0.0
    eigenvalues = np.linalg.eigvalsh(_correlation(live))
    if eigenvalues[0] <= len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]:
        return float("inf")
    return max(0.0, float(-np.log(eigenvalues).sum() / 2))


def _correlation(columns: Floats) -> Floats:
    """Return the correlations (d, d) of columns that vary, of any magnitude."""
    centred = columns / np.abs(columns).max(axis=0)
    centred -= centred.mean(axis=0)
    centred /= np.abs(centred).max(axis=0)
    centred /= np.sqrt((centred**2).sum(axis=0))
    return centred.T @ centred


def wasserstein_correlation(columns: Floats, *, normalised: bool = False) -> float:
    """Return the squared 2-Wasserstein distance between a Gaussian fitted to columns (n, d) and the product of its
    marginals.

    2 tr C - 2 tr (D C)^1/2 with D = diag C; `normalised` divides by tr C.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 1))
    >>> round(wasserstein_correlation(np.hstack([rows, rows]), normalised=True), 2)
    0.59
    """
    live = np.ascontiguousarray(columns[:, varying(columns)])
    if live.shape[1] < 2:
        return 0.0
    # A power of two is exact, and keeps squares of huge or tiny codes in range.
    scale = math.ldexp(1.0, math.frexp(np.abs(live).max())[1] - 1)
    covariance = np.cov(live / scale, rowvar=False)
    trace = float(np.trace(covariance))
    distance = max(0.0, 2 * trace - 2 * _trace_of_root(covariance))
    return distance / trace if normalised else distance * scale * scale


def _trace_of_root(covariance: Floats) -> float:
    """Return tr (D C)^1/2, from the eigenvalues of the similar symmetric matrix D^1/2 C D^1/2.

    Eigenvalues that are 0 but for rounding count as 0: their roots would be errors of 1e-8.
    """
    deviation = np.sqrt(np.diag(covariance))
    eigenvalues = np.linalg.eigvalsh(covariance * deviation[:, None] * deviation)
    zero = eigenvalues <= len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]
    return float(np.sqrt(eigenvalues[~zero]).sum())
