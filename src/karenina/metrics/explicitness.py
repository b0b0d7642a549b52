"""Explicitness: how well a linear classifier reads each factor's value from the whole code."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._histograms import factor_labels
from karenina.metrics._result import Result
from karenina.metrics._rows import split
from karenina.numerics.columns import scale_of
from karenina.numerics.logistic import Design, multinomial, one_vs_rest, softmax

Array = NDArray[np.float64]
CLASSIFIERS = ("one_vs_rest", "multinomial")


def explicitness(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    classifier: str = "one_vs_rest",
    balanced: bool = True,
    scale: str = "standard",
    rescale: bool = False,
    factor_bins: int = 10,
    in_sample: bool = False,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    continuous: bool | Sequence[bool] | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Area under the ROC curve of logistic regression from all codes, averaged over classes, then over factors.

    Per factor, a ridge-penalised logistic regression (scikit-learn's, C = 1) gives each class a probability for each
    row: `classifier="one_vs_rest"` fits one two-class model per class and divides their outputs by their sum, as
    scikit-learn does; "multinomial" fits one softmax. `balanced` gives all classes equal total weight. The AUC of a
    class ranks its own rows against all others; 0.5 is chance, 1 is perfect. `rescale` maps it to 2 (AUC - 0.5).

    codes: (n, d), put on a common scale by training rows (`scale`: "standard" or "range"). factors: (n, k); continuous
    ones are cut into `factor_bins` bins of equal width. Scored on `test_codes` and `test_factors` if given, else on a
    random `test_fraction` of the rows, or with `in_sample` on the training rows. `rows` limits how many of the table's
    rows train and test together. Only classes that training and test rows both have are scored; constant codes have no
    effect. The result has per_factor and details: auc, per factor the (class, AUC) arrays.

    Assumes: classes that a linear model can tell apart, or order. Fails: a factor that is present but not
    linearly ordered scores low; it stays near 1 for ordered factors even with much noise, as ranks forgive; it wavers
    with few rows per class (Carbonneau et al., 5.7, Figure 9) and is under 1 for perfect codes, as single bins in the
    middle of a range are not linearly separable (5.2, Figure 4). Cost, 10,000 x 10 codes and dSprites factors: about
    0.4 s.

    locatello: classifier="multinomial", balanced=False, rows=15_000 (10,000 to train and 5,000 to test).
    carbonneau: scale="range", rescale=True, in_sample=True.
    Ridgeway and Mozer 2018, section 3; Carbonneau et al. (2022), 4.3.2; Locatello et al. (2019), appendix C.

    >>> v = np.random.default_rng(0).integers(4, size=(500, 2))
    >>> float(explicitness(v, v)) > 0.95
    True
    """
    if classifier not in CLASSIFIERS:
        raise ValueError(f"classifier is {classifier!r}, expected one of {', '.join(map(repr, CLASSIFIERS))}")
    if scale not in ("standard", "range"):
        raise ValueError(f"scale is {scale!r}, expected 'standard' or 'range'")
    if in_sample and test_codes is not None:
        raise ValueError("in_sample scores the training rows: give no test_codes")
    rng = np.random.default_rng(seed)
    given = (codes, factors, test_codes, test_factors)
    inputs, train, test = split(*given, test_fraction, continuous, rng, in_sample, rows)
    labels = factor_labels(inputs, factor_bins)
    live = inputs.codes[:, inputs.live]
    low, unit = scale_of(live[train], scale)
    x, held = (live[train] - low) / unit, (live[test] - low) / unit
    design = Design.of(x)
    curves = []
    for label in labels.T:
        if classifier == "multinomial":
            curves.append(_by_softmax(design, label[train], held, label[test], balanced))
        else:
            curves.append(_by_one_vs_rest(design, label[train], held, label[test], balanced))
    if rescale:
        curves = [(classes, 2 * (auc - 0.5)) for classes, auc in curves]
    per_factor = np.array([auc.mean() if auc.size else np.nan for _, auc in curves])
    unknown = [name for name, area in zip(inputs.names, per_factor) if np.isnan(area)]
    if unknown:
        why = "fewer than two of its values are in both training and test rows"
        warnings.warn(f"no explicitness of {', '.join(unknown)}: {why}", stacklevel=2)
    value = float(np.nanmean(per_factor)) if len(unknown) < len(per_factor) else float("nan")
    return Result(value, per_factor=inputs.spread(per_factor), details={"auc": tuple(curves)})


Labels = NDArray[np.int64]


def _by_softmax(design: Design, y: Labels, held: Array, truth: Labels, balanced: bool) -> tuple[Labels, Array]:
    classes, position = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        return classes[:0], np.empty(0)
    weights = (len(y) / len(classes) / np.bincount(position))[position] if balanced else None
    w = multinomial(design, position, len(classes), weights=weights)
    return _areas(softmax(held @ w[:-1] + w[-1])[0], classes, truth)


def _by_one_vs_rest(design: Design, y: Labels, held: Array, truth: Labels, balanced: bool) -> tuple[Labels, Array]:
    classes, position = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        return classes[:0], np.empty(0)
    count = np.bincount(position)
    weights = len(y) / 2 / np.stack([len(y) - count, count]) if balanced else np.ones((2, len(classes)))
    w = one_vs_rest(design, position, weights)
    p = 1 / (1 + np.exp(-(held @ w[:-1] + w[-1])))
    p /= np.maximum(p.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return _areas(p, classes, truth)


def _areas(scores: Array, classes: Labels, truth: Labels) -> tuple[Labels, Array]:
    """AUC of every class that the test rows have, from the mean rank of its rows among the rows of known classes."""
    known = np.isin(truth, classes)
    scores, truth = scores[known], truth[known]
    shared = np.isin(classes, truth)
    if shared.sum() < 2:
        return classes[:0], np.empty(0)
    areas = []
    for label, column in zip(classes[shared], scores.T[shared]):
        column = np.ascontiguousarray(column)
        own = np.sort(column[truth == label])
        everyone = np.sort(column)
        rank = np.searchsorted(everyone, own, "left") + np.searchsorted(everyone, own, "right")  # ties share their rank
        m = len(own)
        areas.append((rank.sum() / 2 - m * m / 2) / (m * (len(column) - m)))
    return classes[shared], np.array(areas)
