"""InfoMEC: modularity, explicitness and compactness from information, for continuous and for quantised codes."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from karenina.metrics._inputs import Bools, Continuous, Floats, Inputs, Ints, metric
from karenina.numerics.checks import flags, positive_integer, ranks
from karenina.numerics.columns import standardised
from karenina.numerics.logistic import PaddedRows, mean_log_loss
from karenina.numerics.neighbours import class_information

# Codes whose range is at most this share of the largest range are left out (Hsu et al. 2023, as released).
INACTIVE = 1 / 20
DISTINCT = 0.9  # share of the values of a continuous code, below which a warning says that copies deceive


@dataclass(frozen=True, eq=False)
class InfoMEC:
    """Three properties, kept apart. `float(result)` and `.value` are InfoM.

    Attributes
    ----------
    modularity, explicitness, compactness : float
        InfoM, InfoE and InfoC.
    per_code : (d,)
        InfoM of each code, NaN for codes that are not active.
    per_factor, per_factor_informativeness : (k,)
        InfoC and InfoE of each factor.
    matrix : (k, d)
        Information over the factor's entropy (NMI), of all codes.
    details : active (d,) and quantised (d,)
    """

    modularity: float
    explicitness: float
    compactness: float
    per_code: Floats
    per_factor: Floats
    per_factor_informativeness: Floats
    matrix: Floats
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.modularity

    @property
    def by_property(self) -> Mapping[str, Floats | None]:
        """Map each property to its values per factor (k,)."""
        return {"compactness": self.per_factor, "explicitness": self.per_factor_informativeness}

    def __float__(self) -> float:
        return self.modularity


@metric
def infomec(
    inputs: Inputs,
    *,
    quantised: bool | Sequence[bool] | None = None,
    neighbours: int = 10,
    factor_bins: int = 10,
    continuous: Continuous = None,
    seed: int = 0,
) -> InfoMEC:
    """Is a code about one factor (InfoM), a factor in one code (InfoC), and linearly readable from all of them (InfoE)?

    With NMI_ij = I(s_i; z_j) / H(s_i) of k factors and the d' codes that are active,

        InfoM = (mean_j max_i NMI_ij / sum_i NMI_ij - 1/k) / (1 - 1/k),
        InfoC = (mean_i max_j NMI_ij / sum_j NMI_ij - 1/d') / (1 - 1/d'),
        InfoE = mean_i (H_V(s_i) - H_V(s_i | z)) / H_V(s_i),

    where H_V is the log-loss, on the rows that were fitted, of logistic regression without a penalty and with classes
    of equal weight. Hsu et al. (2023), as released.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    quantised : bool, one per code, or None
        A quantised code enters as labels: information from counts, one column per value in the regression, active with
        two values. Others: information from `neighbours`, standardised, active when their range exceeds 1/20 of the
        largest range. None: a code is quantised if it has at most sqrt(n) values.
    neighbours : int
        Of the estimate for continuous codes, that of scikit-learn's mutual_info_classif.
    factor_bins : int
        Bins of equal width of a continuous factor in the NMI; its explicitness is the R2 of linear regression.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.
    seed : int
        Of noise of 1e-10 that makes tied values of a continuous code distinct, as scikit-learn adds it.

    Returns
    -------
    InfoMEC

    Notes
    -----
    Rows that occur several times deceive the estimate from neighbours (InfoM of 0.995 becomes 0.56): a warning says so
    where fewer than nine of ten values are distinct. A code without information scores 0, so do all without an active
    code; with one factor, or one active code, any other scores 1. A single outlier in one code makes all others
    inactive. Noise codes are active and count in InfoM. Information from counts is not corrected for chance, so noise
    of many values lowers InfoC. Where classes can be separated, InfoE is that after 100 steps of L-BFGS, as released:
    0.999 or so. 10,000 x 10 codes and dSprites factors
    take 0.2 s.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(4, size=(1000, 2))
    >>> result = infomec(v + 0.01 * rng.normal(size=v.shape), v)
    >>> [round(part, 2) for part in (result.modularity, result.explicitness, result.compactness)]
    [1.0, 1.0, 1.0]
    """
    neighbours = positive_integer(neighbours, "neighbours")
    distinct = np.array([len(np.unique(column)) for column in inputs.codes.T])
    labels_of = flags(quantised, distinct**2 <= len(inputs.codes), "quantised")
    active = _active(inputs, labels_of)
    tied = np.flatnonzero(active & ~labels_of & (distinct < DISTINCT * len(inputs.codes)))
    if len(tied):
        which = ", ".join(map(str, tied[:5])) + (", ..." if len(tied) > 5 else "")
        warnings.warn(
            f"only {distinct[tied].min():,} of {len(inputs.codes):,} values of code {which} are distinct, and the "
            "information from neighbours takes copies for information: drop duplicated rows, or declare them quantised",
            stacklevel=3,
        )
    labels = inputs.binned(factor_bins)
    nmi = _nmi(inputs, labels, labels_of, neighbours, seed)
    per_code = np.full(len(active), np.nan)
    per_code[active] = _preference(nmi[:, active].T)
    per_factor = _preference(nmi[:, active]) if active.any() else np.zeros(len(nmi))
    explicit = _explicitness(inputs, labels_of)
    return InfoMEC(
        modularity=float(per_code[active].mean()) if active.any() else 0.0,
        explicitness=float(explicit.mean()),
        compactness=float(per_factor.mean()),
        per_code=per_code,
        per_factor=inputs.among_given(per_factor),
        per_factor_informativeness=inputs.among_given(explicit),
        matrix=inputs.among_given(nmi),
        details={"active": active, "quantised": labels_of},
    )


def _active(inputs: Inputs, quantised: Bools) -> Bools:
    """Return which codes (d,) take part: quantised ones with two values, others whose range is not far below the
    largest.
    """
    width = inputs.codes.max(axis=0) - inputs.codes.min(axis=0)
    largest = width[~quantised].max(initial=0.0)
    return np.where(quantised, inputs.live, inputs.live & (width > INACTIVE * largest))


def _nmi(inputs: Inputs, labels: Ints, quantised: Bools, neighbours: int, seed: int) -> Floats:
    """Return the information of each factor and each code over the entropy of the factor: (k, d)."""
    n = len(labels)
    entropy = np.array([_entropy(np.bincount(column), n) for column in labels.T])
    mi = np.zeros((labels.shape[1], len(quantised)))
    for j in np.flatnonzero(quantised & inputs.live):
        code = ranks(inputs.codes[:, j])
        values = int(code.max()) + 1
        of_code = _entropy(np.bincount(code), n)
        for i, label in enumerate(labels.T):
            mi[i, j] = max(0.0, entropy[i] + of_code - _entropy(np.bincount(label * values + code), n))
    measured = np.flatnonzero(~quantised & inputs.live)
    if len(measured):
        mi[:, measured] = class_information(inputs.codes[:, measured], labels, neighbours, seed)
    return (
        mi / np.where(entropy > 0, entropy, 1.0)[:, None]
    )  # a continuous factor may fall into one bin but for outliers


def _entropy(count: Ints, n: int) -> float:
    p = count[count > 0] / n
    return float(-(p * np.log(p)).sum())


def _preference(rows: Floats) -> Floats:
    """Return the largest entry of each row over the sum, scaled so that equal entries give 0; an only entry gives 1."""
    total = rows.sum(axis=1)
    if rows.shape[1] == 1:
        return (total > 0).astype(np.float64)
    chance = 1 / rows.shape[1]
    largest = np.divide(rows.max(axis=1), total, out=np.full(len(rows), chance), where=total > 0)
    return np.maximum((largest - chance) / (1 - chance), 0.0)


def _explicitness(inputs: Inputs, quantised: Bools) -> Floats:
    """Return predictive information over predictive entropy of each factor: (k,)."""
    measured = inputs.codes[:, ~quantised & inputs.live]
    columns = [standardised(measured)] if measured.size else []
    for j in np.flatnonzero(quantised & inputs.live):
        code = ranks(inputs.codes[:, j])
        columns.append(np.eye(int(code.max()) + 1)[code])
    found = np.zeros(len(inputs.kept))
    if not columns:
        return found
    x = np.column_stack(columns)
    for j in np.flatnonzero(inputs.continuous):
        found[j] = _linear(x, inputs.factors[:, j])
    if not inputs.continuous.all():
        rows = PaddedRows(x)
        for j in np.flatnonzero(~inputs.continuous):
            label = inputs.labels[:, j]
            classes = int(label.max()) + 1
            # With equal weight of the classes and no inputs all have probability 1 / classes.
            found[j] = 1 - mean_log_loss(rows, label, classes) / np.log(classes)
    return found


def _linear(x: Floats, target: Floats) -> float:
    """Return R2 of linear regression on the rows that were fitted."""
    y = standardised(target[:, None])[:, 0]
    centred = x - x.mean(axis=0)
    weights = np.linalg.lstsq(centred, y, rcond=None)[0]
    return float(1 - ((y - centred @ weights) ** 2).mean())
