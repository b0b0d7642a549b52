"""Linear readings: how nearly codes are the factors, up to order, scale or a linear map, and how straight the relation.

mcc and r2_affine are scores of the identifiability literature.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from karenina.metrics._inputs import Continuous, Floats, Inputs, Result, Test, mean_of_known, metric, split
from karenina.metrics._sap import r2
from karenina.numerics.checks import as_matrix, one_of, varying
from karenina.numerics.columns import range_unit, standardised

Correlation = Literal["linear", "rank"]

# Below this share of a factor's rank variance no code tells it, and whether the relation is straight is chance.
TELLS = 0.01


@metric
def mcc(inputs: Inputs, *, correlation: Correlation = "linear", continuous: Continuous = None) -> Result:
    """Mean correlation coefficient: match codes with factors one to one and take the mean |correlation|. In [0, 1].

    The matching has the greatest sum (Hungarian algorithm). Hyvarinen and Morioka (2016); Khemakhem et al. (2020)
    call it MCC. A factor without a code of its own scores 0.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
        Labels are taken as numbers.
    correlation : {"linear", "rank"}
        Pearson's, or Spearman's, which sees only the order of values and so allows any rising or falling map.
    continuous : bool or one per factor, optional
        Has no effect, as all factors are taken as numbers.

    Returns
    -------
    Result with per_factor (k,), matrix (k, d) of |correlations|, details match (k,): the code of each factor, or -1.

    Notes
    -----
    A code that mixes two factors alike still correlates 0.7 with each: of independent factors of one variance, turned
    by R, MCC is the mean |R_ij| of the best matching. Codes besides the matched ones cost nothing, so
    duplicates and leaks are not seen. Categories in no order have no correlation. Noise scores somewhat above
    sqrt(log d / n).

    Examples
    --------
    >>> v = np.random.default_rng(0).uniform(size=(500, 3))
    >>> round(float(mcc(-v[:, ::-1], v)), 6), float(mcc(np.exp(9 * v), v)) < 0.8
    (1.0, True)
    >>> round(float(mcc(np.exp(9 * v), v, correlation="rank")), 6)
    1.0
    """
    one_of("correlation", correlation, get_args(Correlation))
    from scipy.optimize import linear_sum_assignment

    z, v = (_ranked(a) if correlation == "rank" else a for a in (inputs.codes, inputs.factors))
    matrix = np.minimum(np.abs(standardised(v).T @ standardised(z)) / len(z), 1.0)
    rows, columns = linear_sum_assignment(-matrix)
    match = np.full(len(matrix), -1)
    match[rows] = columns
    per_factor = np.zeros(len(matrix))
    per_factor[rows] = matrix[rows, columns]
    whole = np.full(len(inputs.declared), -1)
    whole[inputs.kept] = match
    return Result(
        value=float(per_factor.mean()),
        per_factor=inputs.among_given(per_factor),
        matrix=inputs.among_given(matrix),
        details={"match": whole},
    )


def _ranked(columns: Floats) -> Floats:
    """Return the ranks of each column, the mean rank for ties."""
    from scipy.stats import rankdata

    ranked: Floats = rankdata(columns, axis=0)
    return ranked


@metric
def r2_affine(
    inputs: Inputs,
    *,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    test: Test = None,
    continuous: Continuous = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """R2 of the factors after the best affine map of the codes: are they there up to a linear map? In [0, 1].

    Per factor max(0, 1 - squared error / variance) on rows that the map was not fitted on; the mean over factors. What
    linear identifiability promises (Roeder et al. 2021; Eastwood et al. 2023).

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
        Labels are taken as numbers.
    test_fraction, rows, test, seed
        As in `dci`; test_fraction=0 scores the training rows.
    continuous : bool or one per factor, optional
        Has no effect, as all factors are taken as numbers.

    Returns
    -------
    Result with per_factor (k,)

    Notes
    -----
    Blind to rotation, mixing and duplicates: 1 says nothing about disentanglement. Codes that bend a factor lose, and
    categories in no order have no linear map.

    Examples
    --------
    >>> v = np.random.default_rng(0).uniform(size=(500, 3))
    >>> round(float(r2_affine(v @ [[1, 2, 0], [0, 1, 3], [1, 0, 1]], v)), 6)
    1.0
    """
    inputs, train, held = split(inputs, test_fraction, rows, np.random.default_rng(seed))
    mean = inputs.codes[train].mean(axis=0)
    live = varying(inputs.codes[train])  # a constant code differs from its mean by rounding
    width = np.abs(inputs.codes[train] - mean).max(axis=0)
    z = np.where(live, (inputs.codes - mean) / np.where(live, width, 1.0), 0.0)
    factors = inputs.factors / range_unit(inputs.factors)
    centre = factors[train].mean(axis=0)
    weights = np.linalg.lstsq(z[train], factors[train] - centre, rcond=None)[0]
    truth = factors[held]
    error = ((truth - centre - z[held] @ weights) ** 2).sum(axis=0)
    variance = ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    ratio = np.divide(error, variance, out=np.full(len(error), np.nan), where=variance > 0)
    r2_per_factor = np.maximum(1 - ratio, 0.0)
    return Result(mean_of_known(r2_per_factor), per_factor=inputs.among_given(r2_per_factor))


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
    live = inputs.live
    code = np.full(len(inputs.kept), np.nan)
    straightness = code.copy()
    if live.any():
        z, v = inputs.codes[:, live], inputs.factors
        by_rank, by_line = r2(_ranked(z), _ranked(v)), r2(z, v)
        best = by_rank.argmax(axis=1)
        top, line = (table[np.arange(len(best)), best] for table in (by_rank, by_line))
        code = np.flatnonzero(live)[best].astype(np.float64)
        straightness = np.where(top >= TELLS, np.minimum(line / np.maximum(top, TELLS), 1.0), np.nan)
    return Result(
        mean_of_known(straightness),
        per_factor=inputs.among_given(straightness),
        details={"code": inputs.among_given(code)},
    )
