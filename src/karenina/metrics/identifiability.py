"""Scores of the identifiability literature: how nearly codes are the factors, up to order, scale or a linear map."""

from typing import Literal, get_args

import numpy as np

from karenina.metrics._inputs import Continuous, Floats, Inputs, Result, Test, metric, split
from karenina.numerics.checks import varying
from karenina.numerics.columns import range_unit, standardised

Correlation = Literal["linear", "rank"]


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
    if correlation not in get_args(Correlation):
        raise ValueError(f"correlation must be one of {', '.join(get_args(Correlation))}, got {correlation!r}")
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
    """Ranks of each column, the mean rank for ties."""
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
    r2 = np.maximum(1 - ratio, 0.0)
    value = float(np.nanmean(r2)) if np.isfinite(r2).any() else float("nan")
    return Result(value, per_factor=inputs.among_given(r2))
