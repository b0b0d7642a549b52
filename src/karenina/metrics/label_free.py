"""Scores of one representation that need no labels: how far its codes are from independent.

Locatello et al. (2019), appendices C and I.2, apply them to means and to samples of the encoder. A low value does not
show that a representation is disentangled: independent noise scores 0. A high value shows that it is not factorised.
Constant codes are left out; with fewer than two live codes every score is 0.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

import numpy as np
from numpy.typing import ArrayLike

from karenina.metrics._inputs import Floats, Inputs, Kind, P, Result, as_matrix
from karenina.metrics.information import Binning, Estimator
from karenina.numerics.checks import varying
from karenina.numerics.gaussian import total_correlation, wasserstein_correlation
from karenina.numerics.histograms import mean_over_pairs, pairwise_information
from karenina.numerics.neighbours import pair_information


def _of_codes(
    function: Callable[Concatenate[Floats, P], Result],
) -> Callable[Concatenate[ArrayLike | Inputs, P], Result]:
    """Return the public form of a function of checked codes: called with codes (n, d), it checks them first."""

    @wraps(function)
    def public(codes: Any, **settings: Any) -> Result:
        if isinstance(codes, Inputs):
            return function(codes.codes, **settings)  # type: ignore[call-arg]
        return function(as_matrix(codes, "codes", least=2), **settings)  # type: ignore[call-arg]

    return public  # type: ignore[return-value]


@_of_codes
def gaussian_total_correlation(codes: Floats) -> Result:
    """Total correlation in nats of a Gaussian fitted to the codes, TC = (sum_j log C_jj - log det C) / 2.

    The divergence between the fitted Gaussian and the product of its marginals. It sees linear dependence only and does
    not depend on the scale of the codes. A singular covariance (copied codes, or no more rows than codes) gives inf.

    Independent codes have about -sum_{i<d} log(1 - i / (n - 1)) / 2 nats by chance, d^2 / 4n for many rows: 153 for
    1,000 codes and 2,000 rows. A warning says so where that is more than a tenth of the value.

    Parameters
    ----------
    codes : (n, d)

    Returns
    -------
    Result with details chance.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> bool(gaussian_total_correlation(rows).value < 0.01), float(gaussian_total_correlation(np.hstack([rows, rows])))
    (True, inf)
    """
    value = total_correlation(codes)
    n, d = len(codes), int(varying(codes).sum())
    chance = float(-np.log1p(-np.arange(d) / (n - 1)).sum() / 2) if d < n - 1 else float("inf")
    if np.isfinite(value) and chance > max(0.1 * value, 0.1):
        few = f"{d:,} independent codes have {chance:.2g} nats in {n:,} rows by chance"
        warnings.warn(f"{few}, of {value:.2g} found: use more rows", stacklevel=3)
    return Result(value, details={"chance": chance})


@_of_codes
def gaussian_wasserstein_correlation(codes: Floats, *, normalised: bool = False) -> Result:
    """Squared 2-Wasserstein distance between a Gaussian fitted to the codes and the product of its marginals.

    W = 2 tr C - 2 tr (D C)^1/2 with D = diag C. It sees linear dependence only, is finite for singular covariances, and
    weighs codes by their variance.

    Parameters
    ----------
    codes : (n, d)
    normalised : bool
        Divide by tr C, so that scaling all codes together changes nothing.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 1))
    >>> round(float(gaussian_wasserstein_correlation(np.hstack([rows, rows]), normalised=True)), 2)
    0.59
    """
    return Result(wasserstein_correlation(codes, normalised=normalised))


@_of_codes
def mutual_information(
    codes: Floats,
    *,
    bins: int = 20,
    binning: Kind = "width",
    estimator: Estimator = "plugin",
    neighbours: int = 3,
) -> Result:
    """Mean mutual information I(z_i; z_j) in nats over pairs of different codes; it sees any dependence.

    The plug-in estimate has a floor of about (bins - 1)^2 / 2n for independent codes, which "jackknife" mostly removes.

    Parameters
    ----------
    codes : (n, d)
    bins, binning, estimator, neighbours
        As in `Binning`; "knn" is Kraskov et al. (2004), 20 ms per pair at 10,000 rows.

    Returns
    -------
    Result with details pairwise (d, d), NaN for constant codes and on the diagonal.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> round(float(mutual_information(rows, estimator="jackknife")), 2)
    0.0
    """
    how = Binning(bins, binning, estimator=estimator, neighbours=neighbours)
    if how.estimator == "knn":
        pairwise = np.full((codes.shape[1], codes.shape[1]), np.nan)
        live = np.flatnonzero(varying(codes))
        for i in live:
            for j in live[live < i]:
                pairwise[i, j] = pairwise[j, i] = pair_information(codes[:, i], codes[:, j], neighbours)
    else:
        pairwise = pairwise_information(codes, bins, binning, estimator)
    return Result(mean_over_pairs(pairwise), details={"pairwise": pairwise})
