"""Separated attribute predictability."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._inputs import Inputs, as_matrix, check, ranks
from karenina.metrics._result import Result
from karenina.metrics._rows import drawn
from karenina.numerics.one_variable import linear_svm, predict, tree_levels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Classifier = Literal["svm", "tree"]


def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    classifier: Classifier = "svm",
    standardise: bool = True,
    penalty: float = 100.0,
    c: float | None = None,
    depth: int = 9,
    folds: int = 10,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
) -> Result:
    """Separated attribute predictability: does one code alone predict each factor best? Compactness, in [0, 1].

    Kumar et al. 2018, section 3; Carbonneau et al. (2022), equation 1: per factor the best score of one code minus the
    second best, and the mean. codes (n, d), factors (n, k) -> per_factor (k,), matrix of scores (k, d).

    The score of one code and a continuous factor is the R2 of linear regression, which is their squared correlation.
    For a categorical factor it is measured on rows that the classifier did not see: `test_codes` and `test_factors`, or
    else `test_fraction` of the rows, chosen by `seed`; 0 scores the rows that were fitted. `rows` limits how many of
    the table's rows are fitted and scored together. continuous=True treats all factors as numbers. classifier:
    - "svm": accuracy of a linear support vector machine with balanced classes, one against the rest (Locatello et al.,
      2019). Its C is `penalty` / rows fitted, so that the score does not drift with their number, or `c`. Either way it
      depends on the scale of the code; `standardise` removes that.
    - "tree": balanced accuracy of a classification tree, its depth chosen from 1..`depth` by cross-validation in
      `folds` (Carbonneau et al., whose release measures plain accuracy on the rows that were fitted).
    Classes that only one side has are left out. A constant code scores 0.

    locatello: standardise=False, c=0.01, rows=15_000 (10,000 to fit and 5,000 to score). carbonneau: classifier="tree".

    Assumes that factors are linear in their code, or for labels ordered along it. Fails: a two-dimensional code of an
    angle scores 0.6 (Carbonneau et al., 5.4, Table 1); it falls for monotone but non-linear codes (5.5); two and four
    copies both score 0. With labels it is on the scale of accuracies: a linear machine on one code cannot separate many
    classes, so perfect codes of dSprites score 0.26 and differences are small.

    Cost: one matrix product for R2. For labels O(n d k) after sorting each code; 0.08 s for 10,000 rows, 10 codes and
    dSprites' 113 classes ("svm"), 1.5 s ("tree").

    >>> factors = np.random.default_rng(0).normal(size=(1000, 2))
    >>> round(float(sap(factors, factors)), 2), round(float(sap(np.hstack([factors, factors]), factors)), 2)
    (1.0, 0.0)
    """
    return sap_of(
        check(codes, factors, continuous),
        classifier=classifier,
        standardise=standardise,
        penalty=penalty,
        c=c,
        depth=depth,
        folds=folds,
        test_codes=test_codes,
        test_factors=test_factors,
        test_fraction=test_fraction,
        rows=rows,
        seed=seed,
    )


def sap_of(
    inputs: Inputs,
    *,
    classifier: Classifier = "svm",
    standardise: bool = True,
    penalty: float = 100.0,
    c: float | None = None,
    depth: int = 9,
    folds: int = 10,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    seed: int = 0,
) -> Result:
    """`sap` of checked inputs."""
    if classifier not in ("svm", "tree"):
        raise ValueError(f"classifier must be svm or tree, got {classifier!r}")
    if penalty <= 0 or depth < 1 or folds < 2:
        raise ValueError(f"expected penalty > 0, depth >= 1 and folds >= 2, got {penalty!r}, {depth!r} and {folds!r}")
    if c is not None and c <= 0:
        raise ValueError(f"c is {c!r}, expected a number above 0")
    live, continuous = inputs.live, inputs.continuous
    scores = np.zeros((len(continuous), len(live)))
    if live.any() and continuous.any():
        codes = inputs.codes if live.all() else inputs.codes[:, live]
        factors = inputs.factors if continuous.all() else inputs.factors[:, continuous]
        scores[np.ix_(continuous, live)] = _r2(codes, factors)
    if live.any() and not continuous.all():
        train, test = _split(inputs, test_codes, test_factors, test_fraction, rows, seed)
        if standardise:
            train, test = _standardised(train, test)
        for j in np.flatnonzero(~continuous):
            scores[j, live] = _accuracy(train, test, int(j), classifier, penalty, c, depth, folds)
    ordered = np.sort(np.column_stack([scores, np.zeros(len(scores))]) if len(live) == 1 else scores, axis=1)
    gap = ordered[:, -1] - ordered[:, -2]
    return Result(value=float(gap.mean()), per_factor=inputs.spread(gap), matrix=inputs.spread(scores))


def _r2(codes: Floats, factors: Floats) -> Floats:
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


Rows = tuple[Floats, Floats]


def _split(
    inputs: Inputs,
    test_codes: ArrayLike | None,
    test_factors: ArrayLike | None,
    fraction: float,
    rows: int | None,
    seed: int,
) -> tuple[Rows, Rows]:
    """Live codes and factors of the rows to fit and of the rows to score."""
    codes, factors = inputs.codes[:, inputs.live], inputs.factors
    if (test_codes is None) != (test_factors is None):
        raise ValueError("give both test_codes and test_factors, or neither")
    if test_codes is not None and test_factors is not None:
        z, v = as_matrix(test_codes, "test_codes"), as_matrix(test_factors, "test_factors")
        if len(z) != len(v) or z.shape[1] != len(inputs.live) or v.shape[1] != inputs.given:
            raise ValueError(
                f"test_codes has shape {z.shape} and test_factors {v.shape}, "
                f"expected (m, {len(inputs.live)}) and (m, {inputs.given})"
            )
        return (codes, factors), (z[:, inputs.live], v[:, inputs.kept])
    if not 0 <= fraction < 1:
        raise ValueError(f"test_fraction must be from 0 to below 1, got {fraction!r}")
    train, test = drawn(len(codes), fraction, rows, np.random.default_rng(seed), least=1)
    return (codes[train], factors[train]), (codes[test], factors[test])


def _standardised(train: Rows, test: Rows) -> tuple[Rows, Rows]:
    codes = train[0]
    with np.errstate(over="ignore"):
        size = np.abs(codes).max(axis=0, initial=np.finfo(float).tiny)
        mean = (codes / size).mean(axis=0)
        spread = (codes / size).std(axis=0)
        spread[spread == 0] = 1.0
        return ((codes / size - mean) / spread, train[1]), ((test[0] / size - mean) / spread, test[1])


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
        machines = linear_svm(codes, label, penalty / len(codes) if c is None else c)
        return (predict(unseen, *machines) == truth[:, None]).mean(axis=0)
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
