"""Interventional robustness score."""

from typing import Literal, get_args

import numpy as np

from karenina.metrics._inputs import Continuous, Floats, Inputs, Ints, Kind, Result, metric
from karenina.numerics.checks import one_of

Weights = Literal["equal", "frequency"]
CodeWeights = Literal["equal", "deviation"]


@metric
def irs(
    inputs: Inputs,
    *,
    quantile: float = 0.99,
    factor_bins: int = 10,
    binning: Kind = "width",
    bin_labels: bool = False,
    weights: Weights = "equal",
    code_weights: CodeWeights = "equal",
    continuous: Continuous = None,
) -> Result:
    """Interventional robustness: does a code stay put while its factor is held and all others change? Holistic, <= 1.

    With D_z = max |z - mean z|, and D_z(v) the mean over values of factor v of the largest |z - group mean| among the
    rows with that value,

        irs_z = max_v (1 - D_z(v) / D_z),

    and the mean over codes: Suter et al. (2019); Carbonneau et al. (2022), section 4.2.4.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    quantile : float
        Taken in place of the largest of D_z(v), the 1 of the paper; 0.99 ignores a wild row.
    factor_bins, binning : int, {"width", "quantile"}
        Bins of continuous factors, and their kind.
    bin_labels : bool
        Bin categorical factors, too (Locatello et al., 2019).
    weights : {"equal", "frequency"}
        Of the values of a factor; "frequency" is the text of the paper.
    code_weights : {"equal", "deviation"}
        Weighting codes by D_z, as both releases do, makes the score depend on the scale of each code.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.

    Returns
    -------
    Result with per_code (d,), matrix (k, d), details parents (d,): the best factor of each code.

    Notes
    -----
    Falls when some factors are not measured, and does not see redundant codes. Clean codes of continuous factors in 10
    bins score 0.9. Noise codes score 0.39 in the setting of Locatello et al. (2019). O(n d k): 5 ms for 10,000 rows, 10
    codes and 5 factors.

    Examples
    --------
    >>> factors = np.random.default_rng(0).integers(4, size=(1000, 2))
    >>> float(irs(factors, factors))
    1.0
    """
    if not 0 <= quantile <= 1:
        raise ValueError(f"quantile must be in 0..1, got {quantile!r}")
    one_of("weights", weights, get_args(Weights))
    one_of("code_weights", code_weights, get_args(CodeWeights))
    labels = inputs.binned(factor_bins, binning, categorical=bin_labels)
    live = inputs.live
    k, d = labels.shape[1], len(live)
    if not live.any():
        nothing = np.full(d, np.nan)
        return Result(0.0, per_code=nothing, matrix=inputs.among_given(np.zeros((k, d))), details={"parents": nothing})
    z = inputs.codes if live.all() else np.ascontiguousarray(inputs.codes[:, live])
    if max(z.max(), -z.min()) > 1e300:  # sums would overflow; a common scale changes nothing
        z = z * 2.0**-100
    largest = _deviation_when_held(z, np.zeros(len(z), np.int64), 1.0, "equal")
    held = np.array([_deviation_when_held(z, label, quantile, weights) for label in np.ascontiguousarray(labels.T)])
    matrix = np.zeros((k, d))
    matrix[:, live] = 1 - held / largest
    score = matrix.max(axis=0)
    share = largest / largest.max() if code_weights == "deviation" else np.ones(len(largest))
    return Result(
        value=float(np.average(score[live], weights=share)),
        per_code=np.where(live, score, np.nan),
        matrix=inputs.among_given(matrix),
        details={"parents": np.where(live, inputs.kept[matrix.argmax(axis=0)], np.nan)},
    )


def _deviation_when_held(z: Floats, label: Ints, quantile: float, weights: Weights) -> Floats:
    """Quantile of |z - group mean| in each group of equal labels, averaged over groups: (d,) from z (n, d)."""
    from karenina.numerics.group_draws import largest_deviations

    size = np.bincount(label)
    at = (size - 1) * quantile
    low = at.astype(np.int64)
    reach = np.empty((2, len(size), z.shape[1]))
    largest_deviations(z, label, size, size - low, reach)
    reached = reach[0] + (reach[1] - reach[0]) * (at - low)[:, None]  # linear, as np.quantile
    return reached.mean(axis=0) if weights == "equal" else (size / len(label)) @ reached
