"""Linear readings: how far a matrix is from a permutation, and how straight the relation of a factor and its code."""

import numpy as np
from numpy.typing import ArrayLike

from karenina.metrics._inputs import Continuous, Inputs, Result, metric
from karenina.metrics._sap import r2
from karenina.numerics.checks import as_matrix

# Below this share of a factor's rank variance no code tells it, and whether the relation is straight is chance.
TELLS = 0.01


def yang_amari_error(matrix: ArrayLike) -> float:
    """How far a matrix is from a permutation of scaled units; 0 for one, 2 d (d - 1) where all d x d entries are alike.

        E = sum_i (sum_j |p_ij| / max_k |p_ik| - 1) + sum_j (sum_i |p_ij| / max_k |p_kj| - 1):

    Yang and Amari (1997), section 6.1; Eastwood and Williams (2018), equation 1.

    Parameters
    ----------
    matrix : (d, k)
        The product of un-mixing and mixing matrix in ICA, or importances of codes for factors, such as
        `dci(...).importance`. A row or column of zeros counts as one with equal entries: nothing stands out in it.

    Examples
    --------
    >>> yang_amari_error([[0, -2], [0.5, 0]]), yang_amari_error(np.ones((3, 3)))
    (0.0, 12.0)
    """
    p = np.abs(as_matrix(matrix, "matrix"))
    if not p.size:
        raise ValueError(f"matrix has shape {p.shape}, expected at least one row and one column")
    error = 0.0
    for axis in (1, 0):
        largest = p.max(axis=axis, keepdims=True)
        error += float(np.where(largest > 0, p / np.where(largest > 0, largest, 1), 1.0).sum()) - largest.size
    return error


@metric
def linearity(inputs: Inputs, *, continuous: Continuous = None) -> Result:
    """Is the relation of a factor and its code a straight line? In [0, 1]; 1 where it is.

    A factor's code is the one whose ranks predict the factor's best. Of that pair,

        linearity_j = R2 of the linear prediction / R2 of the prediction from ranks,

    at most 1. A code that rises with its factor along a curve has all of it in its ranks, and only part in a line:
    whoever reads factors off linearly (lasso, SAP) then sees less than there is. Carbonneau et al. (2022), sections 3
    and 5.5.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
        All are taken as numbers: for categories without an order it says nothing.
    continuous
        As in `mig`; not used.

    Returns
    -------
    Result with per_factor (k,), NaN where no code's ranks tell 1 % of the factor; details code (k,), the factor's code.

    Examples
    --------
    >>> v = np.random.default_rng(0).uniform(size=(20_000, 2))
    >>> bent = linearity(v**3, v)  # in closed form 0.84
    >>> round(float(bent), 2), round(float(linearity(5 - 2 * v, v)), 2)
    (0.84, 1.0)
    """
    from scipy.stats import rankdata

    live = inputs.live
    code = np.full(len(inputs.kept), np.nan)
    share = code.copy()
    if live.any():
        z, v = inputs.codes[:, live], inputs.factors
        by_rank, by_line = r2(rankdata(z, axis=0), rankdata(v, axis=0)), r2(z, v)
        best = by_rank.argmax(axis=1)
        top, line = (table[np.arange(len(best)), best] for table in (by_rank, by_line))
        code = np.flatnonzero(live)[best].astype(np.float64)
        share = np.where(top >= TELLS, np.minimum(line / np.maximum(top, TELLS), 1.0), np.nan)
    value = float(np.nanmean(share)) if np.isfinite(share).any() else float("nan")
    return Result(value, per_factor=inputs.among_given(share), details={"code": inputs.among_given(code)})
