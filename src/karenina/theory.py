"""The impossibility result: Theorem 1 of Locatello et al. (2019, section 3 and appendix A).

For independent z there are bijections f such that f(z) has exactly the distribution of z, yet every coordinate of f(z)
depends on every coordinate of z. So no method that only sees images can tell disentangled codes z from the
entangled f(z): it needs assumptions about model or data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def householder(d: int, alpha: float = 0.3) -> NDArray[np.float64]:
    """Return A = I - 2 v v', orthogonal (d, d) without zeros; v_1^2 = alpha, the others share 1 - alpha (appendix A).

    Parameters
    ----------
    d : int, 2 or more
    alpha : float in (0, 0.5)

    Examples
    --------
    >>> householder(2, 0.3).round(3)
    array([[ 0.4  , -0.917],
           [-0.917, -0.4  ]])
    """
    if d < 2:
        raise ValueError(f"the theorem is about d > 1 dimensions, got d = {d}: one code cannot be entangled")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie strictly between 0 and 0.5, got {alpha}")
    v = np.full(d, np.sqrt((1 - alpha) / (d - 1)))
    v[0] = np.sqrt(alpha)
    return np.eye(d) - 2 * np.outer(v, v)


class _Empirical:
    """A continuous marginal estimated from a sample: the distribution function interpolated between order statistics.

    Beyond the sample's range it continues as the tails of a normal distribution through the outermost quantiles, so
    that the map stays invertible there.
    """

    def __init__(self, sample: NDArray[np.float64]):
        self.x = np.unique(sample)
        counts = np.searchsorted(np.sort(sample), self.x, side="right")
        from scipy.stats import norm

        # Plotting positions (i - 1/2) / n, in normal scores: the whole of f is a map of normal scores.
        self.score = norm.ppf((counts - 0.5) / len(sample))
        self.slope = (self.score[-1] - self.score[0]) / (self.x[-1] - self.x[0])

    def to_normal(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = np.interp(x, self.x, self.score)
        return inside + self.slope * (np.minimum(x - self.x[0], 0) + np.maximum(x - self.x[-1], 0))

    def from_normal(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = np.interp(score, self.score, self.x)
        below, above = np.minimum(score - self.score[0], 0), np.maximum(score - self.score[-1], 0)
        return inside + (below + above) / self.slope

    def density_of_score(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the derivative of to_normal."""
        edge = np.clip(np.searchsorted(self.x, x, side="right"), 1, len(self.x) - 1)
        inside = (self.score[edge] - self.score[edge - 1]) / (self.x[edge] - self.x[edge - 1])
        return np.where((x < self.x[0]) | (x > self.x[-1]), self.slope, inside)


class _Known:
    """A continuous marginal given as a frozen scipy distribution."""

    def __init__(self, distribution: Any):
        self.distribution = distribution

    def to_normal(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.stats import norm

        # The upper half through the survival function: 1 - cdf loses the far tail to rounding.
        lower, upper = self.distribution.cdf(x), self.distribution.sf(x)
        return np.where(lower <= upper, norm.ppf(lower), norm.isf(upper))

    def from_normal(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.stats import norm

        negative = score <= 0
        low = self.distribution.ppf(norm.cdf(np.where(negative, score, 0)))
        high = self.distribution.isf(norm.sf(np.where(negative, 0, score)))
        return np.where(negative, low, high)

    def density_of_score(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.stats import norm

        return self.distribution.pdf(x) / norm.pdf(self.to_normal(x))


@dataclass(frozen=True, eq=False)
class Entanglement:
    """The bijection f = g^-1 h^-1 A h g of Theorem 1: g the marginal distribution functions, h the normal quantiles.

    Call it on z (n, d); `inverse` undoes it; `jacobian(z)` is (n, d, d), with no zero entry.
    """

    matrix: NDArray[np.float64]
    marginals: tuple[_Empirical | _Known, ...]

    def _scores(self, z: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        z = _samples(z)
        if z.shape[1] != len(self.marginals):
            raise ValueError(f"z has shape {z.shape}, expected (n, {len(self.marginals)})")
        scores = np.column_stack([m.to_normal(column) for m, column in zip(self.marginals, z.T)])
        bad = ~np.isfinite(scores)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"z has {z[row, column]} at row {row}, column {column}, outside its marginal distribution")
        return z, scores

    def _codes(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([m.from_normal(column) for m, column in zip(self.marginals, scores.T)])

    def __call__(self, z: ArrayLike) -> NDArray[np.float64]:
        return self._codes(self._scores(z)[1] @ self.matrix.T)

    def inverse(self, z: ArrayLike) -> NDArray[np.float64]:
        return self._codes(self._scores(z)[1] @ self.matrix)  # A is orthogonal: its inverse is its transpose

    def jacobian(self, z: ArrayLike) -> NDArray[np.float64]:
        """Return d f_i / d z_j = A_ij s_j(z_j) / s_i(f_i(z)); s is the derivative of a marginal's normal score."""
        z, scores = self._scores(z)
        out = self._codes(scores @ self.matrix.T)
        inner = np.column_stack([m.density_of_score(column) for m, column in zip(self.marginals, z.T)])
        outer = np.column_stack([m.density_of_score(column) for m, column in zip(self.marginals, out.T)])
        return self.matrix * inner[:, None, :] / outer[:, :, None]


def entanglement(z: ArrayLike, alpha: float = 0.3, marginals: Sequence[Any] | None = None) -> Entanglement:
    """Return the bijection f of Theorem 1.

    Parameters
    ----------
    z : (n, d), independent continuous columns
    alpha : float in (0, 0.5), see `householder`
    marginals : d frozen scipy distributions, by default estimated from z by interpolation

    Examples
    --------
    >>> z = np.random.default_rng(0).uniform(size=(500, 2))
    >>> f = entanglement(z)
    >>> bool(np.allclose(f.inverse(f(z)), z))
    True
    """
    z = _samples(z)
    matrix = householder(z.shape[1], alpha)
    if marginals is not None:
        if len(marginals) != z.shape[1]:
            raise ValueError(f"{len(marginals)} marginals for z of shape {z.shape}")
        return Entanglement(matrix, tuple(_Known(distribution) for distribution in marginals))
    for j, column in enumerate(z.T):
        if column.min() == column.max():
            raise ValueError(f"column {j} of z is constant: a marginal must be continuous")
    return Entanglement(matrix, tuple(_Empirical(column) for column in z.T))


def entangle(z: ArrayLike, alpha: float = 0.3, marginals: Sequence[Any] | None = None) -> NDArray[np.float64]:
    """Turn codes z (n, d) with independent continuous columns into completely entangled ones of the same distribution.

    Parameters
    ----------
    z : (n, d), independent continuous columns
    alpha : float in (0, 0.5), see `householder`
    marginals : d frozen scipy distributions, by default estimated from z by interpolation

    Returns
    -------
    (n, d)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(size=(1000, 3))
    >>> entangle(z).shape
    (1000, 3)
    """
    return entanglement(z, alpha, marginals)(z)


def _samples(z: ArrayLike) -> NDArray[np.float64]:
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 2 or len(z) < 2:
        raise ValueError(f"z has shape {z.shape}, expected (n, d) with n > 1")
    if not np.isfinite(z).all():
        row, column = np.argwhere(~np.isfinite(z))[0]
        raise ValueError(f"z has {z[row, column]} at row {row}, column {column}")
    return z
