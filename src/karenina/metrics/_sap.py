"""Separated attribute predictability (SAP), and the linear SVMs and trees on one sorted code that it fits."""

from typing import Literal, get_args

import numpy as np

from karenina.metrics._inputs import Bools, Continuous, Floats, Inputs, Ints, Result, Test, drawn, metric, ranks
from karenina.numerics.checks import one_of, positive_integer
from karenina.numerics.columns import distinct

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
    """Return the squared correlations (k, d) of columns that vary."""
    (z, z_length), (v, v_length) = _centred(codes), _centred(factors)
    return np.minimum(((v @ z.T) / v_length[:, None] / z_length) ** 2, 1.0)


def _centred(columns: Floats) -> tuple[Floats, Floats]:
    """Return the columns as rows with mean 0, and their norms. Works in place: new memory is most of the cost."""
    rows = np.array(columns.T, order="C")
    largest = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0))
    if ((largest > 1e100) | (largest < 1e-100)).any():  # squares would leave the range of floats
        rows /= largest[:, None]
    rows -= rows.mean(axis=1, keepdims=True)
    return rows, np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _split(inputs: Inputs, fraction: float, rows: int | None, seed: int) -> tuple[Rows, Rows]:
    """Return codes that vary and factors, of the rows to fit and of the rows to score."""
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
    """Return the accuracy of every code (d,) on the classes of one factor that training and test rows have."""
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
    """Return the balanced accuracy on unseen rows of the tree whose depth is best in stratified cross-validation."""
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
    """Return the mean over the classes present of the share of their rows that the tree gets right."""
    thresholds, answer = tree
    right = answer[np.searchsorted(thresholds, code)] == label
    size = np.bincount(label, minlength=classes)
    return float((np.bincount(label[right], minlength=classes)[size > 0] / size[size > 0]).mean())


def linear_svm(codes: Floats, label: Ints, c: float) -> tuple[Floats, Floats]:
    """Return slopes and intercepts of one-vs-rest linear SVMs, each on one code: two (d, classes) arrays.

    Each solves liblinear's L2-regularised squared hinge loss with balanced classes and a penalised intercept:
    min (w^2 + b^2) / 2 + c sum_i s_i max(0, 1 - y_i (w x_i + b))^2, where s_i = n / (classes * size) on the class and 1
    on the rest; with two classes one SVM with balanced weights on both, and the first class is its negative.
    Rows inside the margin are a range of the sorted code, so sums over them are differences of cumulative sums and a
    Newton step costs a few binary searches. All SVMs step at once, with halved steps where one would not descend.
    """
    n, d = codes.shape
    size = np.bincount(label)
    balance = n / (len(size) * size)
    two = len(size) == 2
    classes = np.array([1]) if two else np.arange(len(size))
    sums = _MarginSums(codes, label, classes)
    positive = np.tile(c * balance[classes], d)
    negative = np.full(len(positive), c * (balance[0] if two else 1.0))
    w, b = np.zeros(len(positive)), np.zeros(len(positive))
    loss, gradient, hessian = sums.loss(w, b, positive, negative)
    for _ in range(50):
        (gw, gb), (hww, hwb, hbb) = gradient, hessian
        determinant = hww * hbb - hwb**2
        dw, db = (hwb * gb - hbb * gw) / determinant, (hwb * gw - hww * gb) / determinant
        step = np.ones_like(w)
        for _ in range(20):
            trial = sums.loss(w + step * dw, b + step * db, positive, negative)
            worse = trial[0] > loss * (1 + 1e-14)
            if not worse.any():
                break
            step[worse] /= 2
        w, b = w + step * dw, b + step * db
        loss, gradient, hessian = trial
        if (np.abs(dw) + np.abs(db) <= 1e-9 * (np.abs(w) + np.abs(b))).all():
            break
    slope, intercept = w.reshape(d, -1), b.reshape(d, -1)
    return (np.hstack([-slope, slope]), np.hstack([-intercept, intercept])) if two else (slope, intercept)


class _MarginSums:
    """Sums of 1, x and x^2 over the rows of a class, or of the rest, below or above a value of each code.

    SVMs are numbered code by code, class by class. Rows lie in the order (code, class, x).
    """

    def __init__(self, codes: Floats, label: Ints, classes: Ints) -> None:
        n, d = codes.shape
        of_class = np.bincount(label)
        size = len(of_class)
        order = np.argsort(codes, axis=0)
        self.sorted = np.ascontiguousarray(np.take_along_axis(codes, order, axis=0).T)
        self.n, self.svm = n, (np.arange(d)[:, None] * size + classes).ravel()
        self.code = np.repeat(np.arange(d), len(classes))
        small = label.astype(np.uint16) if size <= 2**16 else label  # sorting small integers takes linear time
        rank = np.argsort(small[order], axis=0, kind="stable").T
        self.keys = (rank + (np.arange(d)[:, None] * size + np.repeat(np.arange(size), of_class)) * n).ravel()
        ends = np.cumsum(np.tile(of_class, d))
        self.end = ends[self.svm]
        self.start = self.end - np.tile(of_class[classes], d)
        by_class = np.take_along_axis(self.sorted, rank, axis=1).ravel()
        self.rows = _cumulative(by_class)
        self.all = _cumulative(self.sorted.ravel())

    def loss(self, w: Floats, b: Floats, positive: Floats, negative: Floats) -> tuple[Floats, Floats, Floats]:
        """Return loss (m,), gradient (2, m) and Hessian (3: ww, wb, bb; m) of every SVM."""
        on, _ = self._active(w, b)
        _, off = self._active(-w, -b)
        # On the class the margin is 1 - f, on the rest 1 + f: the same sums with f of opposite sign.
        losses = (w**2 + b**2) / 2 + positive * _squares(on, w, b) + negative * _squares(off, -w, -b)
        h0, h1, h2 = (2 * (positive * one + negative * other) for one, other in zip(on, off))
        pull0 = 2 * (positive * on[0] - negative * off[0])
        pull1 = 2 * (positive * on[1] - negative * off[1])
        gradient = np.array([w + w * h2 + b * h1 - pull1, b + w * h1 + b * h0 - pull0])
        return losses, gradient, np.array([1 + h2, h1, 1 + h0])

    def _active(self, w: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return sums over rows with w x + b < 1: (3, m) of the class and of the rest."""
        flat = w == 0
        edge = np.where(flat, np.where(b < 1, np.inf, -np.inf), (1 - b) / np.where(flat, 1, w))
        below = np.empty(len(w), np.int64)
        for j, values in enumerate(self.sorted):
            of_code = slice(*np.searchsorted(self.code, [j, j + 1]))
            below[of_code] = np.searchsorted(values, edge[of_code])
        at_edge = np.searchsorted(self.keys, self.svm * self.n + below)
        low = w >= 0  # active below the edge, else above it
        first, last = np.where(low, self.start, at_edge), np.where(low, at_edge, self.end)
        origin = self.code * self.n
        one = self.rows[:, last] - self.rows[:, first]
        every = self.all[:, origin + np.where(low, below, self.n)] - self.all[:, origin + np.where(low, 0, below)]
        return one, every - one


def _cumulative(x: Floats) -> Floats:
    """Return sums of 1, x and x^2 over the first 0..len(x) values: (3, len(x) + 1)."""
    sums = np.zeros((3, len(x) + 1))
    sums[0] = np.arange(len(x) + 1)
    np.cumsum(x, out=sums[1, 1:])
    np.cumsum(x * x, out=sums[2, 1:])
    return sums


def _squares(sums: Floats, w: Floats, b: Floats) -> Floats:
    """Return the sum of (1 - w x - b)^2."""
    return (1 - b) ** 2 * sums[0] - 2 * (1 - b) * w * sums[1] + w**2 * sums[2]


def predict(codes: Floats, w: Floats, b: Floats) -> Ints:
    """Return the class whose line w x + b is highest at each value: (n, d)."""
    found = np.empty(codes.shape, np.int64)
    for j, column in enumerate(codes.T):
        found[:, j] = np.argmax(column[:, None] * w[j] + b[j], axis=1)
    return found


def tree_levels(x: Floats, label: Ints, classes: int, depth: int) -> list[tuple[Floats, Ints]]:
    """Return classification trees of depth 1..depth on one code: thresholds and the class of each interval.

    CART with the Gini impurity, as scikit-learn grows it; a tree of depth l is the top of a tree of depth l + 1. On a
    sorted code a node is an interval, so all nodes of a level are split in one pass of running class counts.
    """
    order = np.argsort(x, kind="stable")
    x, label = x[order], label[order]
    n = len(x)
    earlier = np.empty(n, np.int64)  # rows of the same class before each row
    by_class = np.argsort(label, kind="stable")
    size = np.bincount(label, minlength=classes)
    earlier[by_class] = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    splittable = np.append(distinct(x[None])[0], False)
    start = np.array([0])
    levels = []
    for level in range(depth + 1):
        rows = np.diff(np.append(start, n))
        node = np.repeat(np.arange(len(start)), rows)
        counts = np.bincount(node * classes + label, minlength=len(start) * classes).reshape(-1, classes)
        if level:
            below, above = x[start[1:] - 1], x[start[1:]]
            middle = below / 2 + above / 2
            middle = np.where((below <= middle) & (middle < above), middle, below)  # neighbouring floats have none
            levels.append((middle, counts.argmax(axis=1)))
        if level < depth:
            start = np.union1d(start, _best_splits(label, earlier, splittable, start, node, counts))
    return levels


def _best_splits(label: Ints, earlier: Ints, splittable: Bools, start: Ints, node: Ints, counts: Ints) -> Ints:
    """Return the first row after the best cut of each node that can be cut: the largest sum of squares over sizes."""
    before = np.cumsum(counts, axis=0) - counts
    left = earlier - before[node, label]  # rows of the same class and node before each row
    in_node = counts[node, label]
    rows = counts.sum(axis=1)
    left_squares = _running(2 * left + 1, start, rows)
    right_squares = np.repeat((counts**2).sum(axis=1), rows) - _running(2 * (in_node - left) - 1, start, rows)
    taken = np.arange(len(label)) - np.repeat(start, rows) + 1
    rest = np.repeat(rows, rows) - taken
    impure = np.repeat(counts.max(axis=1) < rows, rows)
    valid = splittable & (rest > 0) & impure
    quality = np.where(valid, left_squares / taken + right_squares / np.maximum(rest, 1), -1.0)
    best = np.maximum.reduceat(quality, start)
    hit = np.flatnonzero((quality == np.repeat(best, rows)) & valid)
    return hit[np.unique(node[hit], return_index=True)[1]] + 1


def _running(values: Ints, start: Ints, rows: Ints) -> Ints:
    """Return cumulative sums that begin anew at each start."""
    total = np.cumsum(values)
    return total - np.repeat(total[start] - values[start], rows)
