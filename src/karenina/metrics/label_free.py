"""Scores of one representation that need no labels: how far its codes are from independent.

Locatello et al. 2019 (the study), appendix C and I.2, apply them to means and to samples of the encoder. A low value
does not show that a representation is disentangled: independent noise scores 0. A high value shows that it is not
factorised. Constant codes are left out; with fewer than two live codes every score is 0.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._histograms import Estimator
from karenina.metrics._inputs import as_matrix
from karenina.metrics._result import Result
from karenina.numerics.columns import varying
from karenina.numerics.gaussian import total_correlation, wasserstein_correlation
from karenina.numerics.histograms import Binning, mean_over_pairs, pairwise_information
from karenina.numerics.neighbours import pair_information

Floats = NDArray[np.float64]


def gaussian_total_correlation(codes: ArrayLike) -> Result:
    """Total correlation in nats of a Gaussian fitted to codes (n, d): (sum log diag C - log det C) / 2.

    The divergence between the fitted Gaussian and the product of its marginals; the study, appendix C. It sees linear
    dependence only and does not depend on the scale of the codes. A singular covariance (copied codes, or no more rows
    than codes) gives inf. Cost: one (d, d) covariance.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> bool(gaussian_total_correlation(rows).value < 0.01), float(gaussian_total_correlation(np.hstack([rows, rows])))
    (True, inf)
    """
    return Result(total_correlation(_rows(codes)))


def gaussian_wasserstein_correlation(codes: ArrayLike, *, normalised: bool = False) -> Result:
    """Squared 2-Wasserstein distance between a Gaussian fitted to codes (n, d) and the product of its marginals.

    2 tr C - 2 tr (D C)^1/2 with D = diag C, the study's release; `normalised` divides by tr C. Finite for singular
    covariances too, where the release's matrix square root leaves errors of 1e-8. It sees linear dependence only.
    Unlike total correlation it weighs codes by their variance; the normalised form does not change when all codes are
    scaled together. Cost: one (d, d) covariance.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 1))
    >>> round(float(gaussian_wasserstein_correlation(np.hstack([rows, rows]), normalised=True)), 2)
    0.59
    """
    return Result(wasserstein_correlation(_rows(codes), normalised=normalised))


def mutual_information(
    codes: ArrayLike,
    *,
    bins: int = 20,
    binning: Binning = "width",
    estimator: Estimator = "plugin",
    neighbours: int = 3,
) -> Result:
    """Mean mutual information in nats over pairs of different codes (n, d); details "pairwise" has them: (d, d).

    The study's release: plug-in estimate from `bins` bins per code. Unlike the Gaussian scores it sees any dependence;
    the plug-in estimate has a floor of about (bins - 1)^2 / 2n for independent codes, which estimator="jackknife"
    mostly removes; "knn" needs no bins (Kraskov et al. 2004). NaN in "pairwise" marks constant codes and the diagonal.
    Cost: O(n d^2); "knn" 20 ms per pair at 10,000 rows.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> round(float(mutual_information(rows, estimator="jackknife")), 2)
    0.0
    """
    given = _rows(codes)
    if estimator == "knn":
        if neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {neighbours!r}")
        pairwise = np.full((given.shape[1], given.shape[1]), np.nan)
        live = np.flatnonzero(varying(given))
        for i in live:
            for j in live[live < i]:
                pairwise[i, j] = pairwise[j, i] = pair_information(given[:, i], given[:, j], neighbours)
    elif estimator in ("plugin", "miller-madow", "jackknife"):
        pairwise = pairwise_information(given, bins, binning, estimator)
    else:
        raise ValueError(f"estimator must be plugin, miller-madow, jackknife or knn, got {estimator!r}")
    return Result(mean_over_pairs(pairwise), details={"pairwise": pairwise})


def _rows(codes: ArrayLike) -> Floats:
    return as_matrix(codes, "codes", least=2)
