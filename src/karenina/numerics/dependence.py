"""How far columns of an array (n, d) are from independent. Columns must be finite; constant ones are left out."""

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.histograms import Binning, both_ways, count, information

Floats = NDArray[np.float64]


def varying(columns: Floats) -> NDArray[np.bool_]:
    """Which columns are not constant: (d,)."""
    return (columns != columns[0]).any(axis=0)


def total_correlation(columns: Floats) -> float:
    """Total correlation in nats of a Gaussian fitted to columns (n, d): (sum log C_jj - log det C) / 2.

    0 with fewer than two columns that vary; infinite when one is a linear function of others, but for rounding.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> bool(total_correlation(rows) < 0.01), total_correlation(np.hstack([rows, rows]))
    (True, inf)
    """
    live = np.ascontiguousarray(columns[:, varying(columns)])
    if live.shape[1] < 2:
        return 0.0
    eigenvalues = np.linalg.eigvalsh(correlation(live))
    if eigenvalues[0] <= len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]:
        return float("inf")
    return max(0.0, float(-np.log(eigenvalues).sum() / 2))


def correlation(columns: Floats) -> Floats:
    """Correlations (d, d) of columns that vary, of any magnitude."""
    centred = columns / np.abs(columns).max(axis=0)
    centred -= centred.mean(axis=0)
    centred /= np.abs(centred).max(axis=0)
    centred /= np.sqrt((centred**2).sum(axis=0))
    return centred.T @ centred


def pairwise_information(
    columns: Floats, bins: int = 20, binning: Binning = "width", estimator: str = "plugin"
) -> Floats:
    """Mutual information in nats between binned columns: (d, d), NaN on the diagonal and for constant columns."""
    live = np.flatnonzero(varying(columns))
    pairs = np.full((columns.shape[1], columns.shape[1]), np.nan)
    if len(live):
        ways = both_ways(columns[:, live], bins, binning)
        pairs[np.ix_(live, live)] = np.mean([information(count(cells, *ways), estimator) for cells in ways], axis=0)
        np.fill_diagonal(pairs, np.nan)
    return pairs


def mean_over_pairs(pairs: Floats) -> float:
    """Mean of what is known of pairs (d, d); 0 when nothing is."""
    known = pairs[~np.isnan(pairs)]
    return float(known.mean()) if len(known) else 0.0
