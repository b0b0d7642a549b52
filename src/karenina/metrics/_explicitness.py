"""Explicitness: how well a linear classifier reads each factor's value from the whole code."""

import warnings

import numpy as np

from karenina.metrics._inputs import Continuous, Floats, Inputs, Ints, Result, Test, mean_of_known, metric, split
from karenina.numerics.checks import one_of
from karenina.numerics.columns import scale_of
from karenina.numerics.logistic import Design, multinomial, one_vs_rest, softmax


@metric
def explicitness(
    inputs: Inputs,
    *,
    classifier: str = "one_vs_rest",
    balanced: bool = True,
    scale: str = "standard",
    rescale: bool = False,
    factor_bins: int = 10,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    test: Test = None,
    continuous: Continuous = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Area under the ROC curve of logistic regression from all codes: the mean over classes, then over factors.

    Per factor, a ridge-penalised logistic regression (that of scikit-learn, C = 1) gives each class a probability in
    each row. The AUC of a class ranks its own rows against all others: 0.5 is chance, 1 is perfect. Ridgeway and Mozer
    (2018), section 3; Carbonneau et al. (2022), section 4.3.2; Locatello et al. (2019), appendix C.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    classifier : {"one_vs_rest", "multinomial"}
        One two-class model per class, their outputs divided by their sum, or one softmax.
    balanced : bool
        All classes have equal total weight.
    scale : {"standard", "range"}
        Codes in standard deviations of the training rows, or on their range [0, 1].
    rescale : bool
        2 (AUC - 0.5), so that chance is 0.
    factor_bins : int
        Bins of equal width of a continuous factor.
    test_fraction, rows, test, continuous, seed
        As in `dci`; test_fraction=0 scores the training rows.

    Returns
    -------
    Result with per_factor (k,), details auc: per factor the classes that training and test rows both have, by value (by
    number if they are bins), and AUCs; two empty arrays for a constant factor.

    Notes
    -----
    A factor that is there but not linearly ordered scores low. Perfect codes score under 1, as bins in the middle of a
    range are not linearly separable. Needs some 10,000 rows. 10,000 x 10 codes and dSprites factors take 0.4 s.

    Examples
    --------
    >>> v = np.random.default_rng(0).integers(4, size=(500, 2))
    >>> float(explicitness(v, v)) > 0.95
    True
    """
    one_of("classifier", classifier, ("one_vs_rest", "multinomial"))
    one_of("scale", scale, ("standard", "range"))
    rng = np.random.default_rng(seed)
    inputs, train, held = split(inputs, test_fraction, rows, rng)
    labels = inputs.binned(factor_bins)
    live = inputs.codes[:, inputs.live]
    low, unit = scale_of(live[train], scale)
    design, unseen = Design.of((live[train] - low) / unit), (live[held] - low) / unit
    shares = _by_softmax if classifier == "multinomial" else _by_one_vs_rest
    curves = []
    for j, label in enumerate(labels.T):
        classes, position = np.unique(label[train], return_inverse=True)
        scores = shares(design, position, unseen, balanced) if len(classes) > 1 else np.empty((len(unseen), 1))
        shared, areas = _areas(scores, classes, label[held])
        curves.append((shared if inputs.continuous[j] else np.unique(inputs.factors[:, j])[shared], areas))
    if rescale:
        curves = [(classes, 2 * (auc - 0.5)) for classes, auc in curves]
    per_factor = np.array([auc.mean() if auc.size else np.nan for _, auc in curves])
    unknown = [name for name, area in zip(inputs.names, per_factor) if np.isnan(area)]
    if unknown:
        why = "fewer than two of its values are in both training and test rows"
        warnings.warn(f"no explicitness of {', '.join(unknown)}: {why}", stacklevel=3)
    curve_of = dict(zip(inputs.kept.tolist(), curves))
    nothing = np.empty(0), np.empty(0)
    of_given = tuple(curve_of.get(j, nothing) for j in range(len(inputs.declared)))
    auc = {"auc": of_given}
    return Result(mean_of_known(per_factor), per_factor=inputs.among_given(per_factor), details=auc)


def _by_softmax(design: Design, y: Ints, held: Floats, balanced: bool) -> Floats:
    count = np.bincount(y)
    w = multinomial(design, y, len(count), weights=(len(y) / len(count) / count)[y] if balanced else None)
    return softmax(held @ w[:-1] + w[-1])[0]


def _by_one_vs_rest(design: Design, y: Ints, held: Floats, balanced: bool) -> Floats:
    count = np.bincount(y)
    weights = len(y) / 2 / np.stack([len(y) - count, count]) if balanced else np.ones((2, len(count)))
    w = one_vs_rest(design, y, weights)
    p = 1 / (1 + np.exp(-(held @ w[:-1] + w[-1])))
    return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def _areas(scores: Floats, classes: Ints, truth: Ints) -> tuple[Ints, Floats]:
    """Return the AUC of every class that the test rows have, from the mean rank of its rows among those of known
    classes.
    """
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
