"""Sums of Gaussian kernels over all pairs of two sets of points, which an MMD is made of."""

import numpy as np

from karenina.numerics.arrays import Floats
from karenina.numerics.compile import njit

_BLOCK = 512  # points of b at a time: their distances stay in the first cache
# exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln 2 / 2, where 13 terms of Taylor's series are exact to
# rounding. Adding 1.5 * 2^52 rounds, and leaves n in the last bits.
_ROUND = 6755399441055744.0
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LEAST = -708.0  # below it exp is less than 1e-307: as good as 0 in a sum that has a 1


def gaussian_sum(a: Floats, b: Floats) -> float:
    """Sum of exp(-|x - y|^2) over the rows x of a (n, d) and y of b (m, d).

    >>> round(gaussian_sum(np.array([[0.0], [1.0]]), np.array([[0.0]])), 4)
    1.3679
    """
    return float(_sum(np.ascontiguousarray(a, float), np.ascontiguousarray(np.asarray(b, float).T)))


@njit(cache=True, nogil=True)
def _sum(a, b):  # type: ignore[no-untyped-def]
    """b: (d, m)."""
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
    """x becomes r, and power n in its last bits."""
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
