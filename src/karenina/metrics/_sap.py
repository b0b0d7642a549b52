"""Separated attribute predictability."""

from typing import Literal, get_args

import numpy as np

from karenina.metrics._inputs import Continuous, Floats, Inputs, Ints, Result, Test, drawn, metric, ranks
from karenina.numerics.checks import one_of, positive_integer
from karenina.numerics.one_variable import linear_svm, predict, tree_levels

Classifier = Literal["svm", "tree"]
Rows = tuple[Floats, Floats]


@metric
def sap(
    inputs: Inputs,
    *,
    classifier: Classifier = "svm",
    standardise: bool = True,
    penalty: float = 100.0,
    c: float | None = None,
    depth: int = 9,
    folds: int = 10,
    threshold: float = 0.0,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    test: Test = None,
    continuous: Continuous = None,
    seed: int = 0,
) -> Result:
    """Separated attribute predictability: does one code alone predict each factor best? Compactness, in [0, 1].

    With S_vz the score of predicting factor v from code z alone, and z* and z' its two best codes,

        sap_v = S_vz* - S_vz',

    and the mean over factors: Kumar et al. (2018), section 3; Carbonneau et al. (2022), equation 1. S is R2, the
    squared correlation, for a continuous factor, and accuracy on rows that were not fitted for a categorical one. A
    constant code scores 0; classes that only one side has are left out.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    classifier : {"svm", "tree"}
        Accuracy of a linear SVM with balanced classes, one against the rest (Locatello et al., 2019), or balanced
        accuracy of a classification tree (Carbonneau et al.).
    standardise : bool
        Without it, an SVM depends on the scale of the code.
    penalty, c : float
        C of the SVM is `c`, or `penalty` / rows fitted, so that the score does not drift with their number.
    depth, folds : int
        The depth of a tree is chosen from 1..depth by cross-validation.
    threshold : float
        A code whose variance is below this, in its own units, is dead and scores 0 (Carbonneau et al., 4.3.3, who name
        no value).
    test_fraction, rows, test, continuous, seed
        As in `dci`; test_fraction=0 scores the rows that were fitted.

    Returns
    -------
    Result with per_factor (k,), matrix (k, d) of scores S.

    Notes
    -----
    Falls for monotone non-linear codes; a factor in two codes scores 0, as one in four. A linear SVM on one code cannot
    separate many classes: perfect codes of dSprites score 0.25. 10,000 x 10 codes and dSprites factors take 0.08 s
    ("svm") or 1.5 s ("tree").

    Examples
    --------
    >>> factors = np.random.default_rng(0).normal(size=(1000, 2))
    >>> round(float(sap(factors, factors)), 2), round(float(sap(np.hstack([factors, factors]), factors)), 2)
    (1.0, 0.0)
    """
    one_of("classifier", classifier, get_args(Classifier))
    positive_integer(depth, "depth")
    positive_integer(folds, "folds", 2)
    if not (penalty > 0 and (c is None or c > 0) and threshold >= 0):
        raise ValueError(f"expected penalty > 0, c > 0 and threshold >= 0, got {penalty!r}, {c!r} and {threshold!r}")
    live, numbers = inputs.live, inputs.continuous
    scores = np.zeros((len(numbers), len(live)))
    if live.any() and numbers.any():
        codes = inputs.codes if live.all() else inputs.codes[:, live]
        factors = inputs.factors if numbers.all() else inputs.factors[:, numbers]
        scores[np.ix_(numbers, live)] = r2(codes, factors)
    if live.any() and not numbers.all():
        fitted, held = _split(inputs, test_fraction, rows, seed)
        if standardise:
            fitted, held = _standardised(fitted, held)
        for j in np.flatnonzero(~numbers):
            scores[j, live] = _accuracy(fitted, held, int(j), classifier, penalty, c, depth, folds)
    if threshold > 0:
        scores[:, inputs.codes.var(axis=0, ddof=1) < threshold] = 0.0
    ordered = np.sort(np.column_stack([scores, np.zeros(len(scores))]) if len(live) == 1 else scores, axis=1)
    gap = ordered[:, -1] - ordered[:, -2]
    return Result(value=float(gap.mean()), per_factor=inputs.among_given(gap), matrix=inputs.among_given(scores))


def r2(codes: Floats, factors: Floats) -> Floats:
    """Squared correlations (k, d) of columns that vary."""
    (z, z_length), (v, v_length) = _centred(codes), _centred(factors)
    return np.minimum(((v @ z.T) / v_length[:, None] / z_length) ** 2, 1.0)


def _centred(columns: Floats) -> tuple[Floats, Floats]:
    """The columns as contiguous rows with mean 0, and their lengths. In place, as new memory is most of the cost."""
    rows = np.array(columns.T, order="C")
    largest = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0))
    if ((largest > 1e100) | (largest < 1e-100)).any():  # squares would leave the range of floats
        rows /= largest[:, None]
    rows -= rows.mean(axis=1, keepdims=True)
    return rows, np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _split(inputs: Inputs, fraction: float, rows: int | None, seed: int) -> tuple[Rows, Rows]:
    """Live codes and factors of the rows to fit and of the rows to score."""
    codes, factors = inputs.codes[:, inputs.live], inputs.factors
    if inputs.test is not None:
        if rows is not None and positive_integer(rows, "rows", 6) < len(codes):
            some = np.random.default_rng(seed).permutation(len(codes))[:rows]
            codes, factors = codes[some], factors[some]
        return (codes, factors), (inputs.test[0][:, inputs.live], inputs.test[1][:, inputs.kept])
    train, held = drawn(len(codes), fraction, rows, np.random.default_rng(seed), least=1)
    return (codes[train], factors[train]), (codes[held], factors[held])


def _standardised(train: Rows, test: Rows) -> tuple[Rows, Rows]:
    codes = train[0]
    with np.errstate(over="ignore"):
        size = np.abs(codes).max(axis=0, initial=np.finfo(float).tiny)
        mean = (codes / size).mean(axis=0)
        deviation = (codes / size).std(axis=0)
        deviation[deviation == 0] = 1.0
        return ((codes / size - mean) / deviation, train[1]), ((test[0] / size - mean) / deviation, test[1])


def _accuracy(
    train: Rows,
    test: Rows,
    factor: int,
    classifier: Classifier,
    penalty: float,
    c: float | None,
    depth: int,
    folds: int,
) -> Floats:
    """Accuracy of every code on the classes of one factor that both sides have: (d,)."""
    of_train, of_test = train[1][:, factor], test[1][:, factor]
    shared = np.intersect1d(of_train, of_test)
    if len(shared) < 2:
        return np.zeros(train[0].shape[1])
    fitted, scored = np.isin(of_train, shared), np.isin(of_test, shared)
    label, truth = ranks(of_train[fitted]), ranks(of_test[scored])
    codes, unseen = train[0][fitted], test[0][scored]
    if classifier == "svm":
        lines = linear_svm(codes, label, penalty / len(codes) if c is None else c)
        return (predict(unseen, *lines) == truth[:, None]).mean(axis=0)
    columns = zip(codes.T, unseen.T)
    return np.array([_tree_accuracy(code, label, other, truth, depth, folds) for code, other in columns])


def _tree_accuracy(code: Floats, label: Ints, unseen: Floats, truth: Ints, depth: int, folds: int) -> float:
    """Balanced accuracy on unseen rows of the tree whose depth is best in stratified cross-validation."""
    size = np.bincount(label)
    fold = np.empty(len(label), np.int64)
    fold[np.argsort(label, kind="stable")] = np.arange(len(label)) - np.repeat(np.cumsum(size) - size, size)
    fold %= folds
    found = np.zeros(depth)
    for held in range(folds):
        rest = fold != held
        if rest.all() or not rest.any():
            continue
        levels = tree_levels(code[rest], label[rest], len(size), depth)
        found += [_balanced(level, code[~rest], label[~rest], len(size)) for level in levels]
    levels = tree_levels(code, label, len(size), int(found.argmax()) + 1)
    return _balanced(levels[-1], unseen, truth, len(size))


def _balanced(tree: tuple[Floats, Ints], code: Floats, label: Ints, classes: int) -> float:
    """Mean over the classes present of the share of their rows that the tree gets right."""
    thresholds, answer = tree
    right = answer[np.searchsorted(thresholds, code)] == label
    size = np.bincount(label, minlength=classes)
    return float((np.bincount(label[right], minlength=classes)[size > 0] / size[size > 0]).mean())
