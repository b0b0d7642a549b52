"""Time of the information metrics, irs, SAP and the label-free scores against straightforward code, in one run.

    python benchmarks/metrics_information.py

CPU seconds of one thread, best of several calls after a first one that compiles. Prints both times, their ratio, and
the largest difference of the scores.
"""

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import balanced_accuracy_score, mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits
from timing import cpu_seconds

from karenina.metrics._inputs import check
from karenina.metrics._sap import sap
from karenina.metrics.information import dcimig, jemmig, mig, mig_sup, modularity
from karenina.metrics.interventions import irs
from karenina.metrics.label_free import mutual_information

Array = np.ndarray
DSPRITES = (3, 6, 40, 32, 32)


def cases() -> Iterator[tuple[str, Array, Array]]:
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.integers(size, size=10_000) for size in DSPRITES])
    unit = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    codes = unit @ rng.normal(size=(5, 10)) * 0.3 + np.hstack([unit, unit]) + 0.1 * rng.normal(size=(10_000, 10))
    yield "10,000 x 10, dSprites sizes", codes, factors
    factors = rng.integers(10, size=(20_000, 8))
    yield "20,000 x 8, eight factors of 10", factors @ (np.eye(8) + 0.1) + 0.3 * rng.normal(size=(20_000, 8)), factors


def binned(codes: Array) -> Array:
    return np.transpose([np.digitize(c, np.histogram(c, 20)[1][:-1]) for c in codes.T])


def pairwise_information(codes: Array, factors: Array) -> tuple[Array, Array]:
    cells = binned(codes)
    mi = np.array([[mutual_info_score(v, c) for c in cells.T] for v in factors.T])
    return mi, np.array([mutual_info_score(v, v) for v in factors.T])


def naive_information(codes: Array, factors: Array) -> Array:
    """The five metrics, each from its own information matrix, as the released codes compute them."""
    scores = []
    mi, h = pairwise_information(codes, factors)
    order = np.sort(mi, axis=1)
    scores.append(((order[:, -1] - order[:, -2]) / h).mean())
    mi, h = pairwise_information(codes, factors)
    order = np.sort(mi / h[:, None], axis=0)
    scores.append((order[-1] - order[-2]).mean())
    mi, h = pairwise_information(codes, factors)
    order = np.sort(mi, axis=1)
    cells = binned(codes)
    total = 0.0
    for f, best in enumerate(mi.argmax(axis=1)):
        both = factors[:, f] * 100 + cells[:, best]
        total += 1 - (mutual_info_score(both, both) - order[f, -1] + order[f, -2]) / (h[f] + np.log(20))
    scores.append(total / len(mi))
    mi, h = pairwise_information(codes, factors)
    square = mi**2
    scores.append((1 - (square.sum(axis=0) - square.max(axis=0)) / (square.max(axis=0) * (len(mi) - 1))).mean())
    mi, h = pairwise_information(codes, factors)
    order = np.sort(mi, axis=0)
    credit = np.zeros_like(mi)
    credit[mi.argmax(axis=0), np.arange(mi.shape[1])] = order[-1] - order[-2]
    scores.append(credit.max(axis=1).sum() / h.sum())
    return np.array(scores)


def our_information(codes: Array, factors: Array) -> Array:
    inputs = check(codes, factors)
    return np.array([float(metric(inputs)) for metric in (mig, mig_sup, jemmig, modularity, dcimig)])


def naive_irs(codes: Array, factors: Array) -> float:
    largest = np.abs(codes - codes.mean(axis=0)).max(axis=0)
    matrix = np.zeros((codes.shape[1], factors.shape[1]))
    for f in range(factors.shape[1]):
        values = np.unique(factors[:, f])
        for value in values:
            group = codes[factors[:, f] == value]
            matrix[:, f] += np.quantile(np.abs(group - group.mean(axis=0)), 0.99, axis=0) / len(values)
    return float((1 - matrix / largest[:, None]).max(axis=1).mean())


def _gap(scores: Array) -> float:
    order = np.sort(scores, axis=1)
    return float((order[:, -1] - order[:, -2]).mean())


def naive_sap_regression(codes: Array, factors: Array) -> float:
    def r2(code: Array, factor: Array) -> float:
        return float(LinearRegression().fit(code[:, None], factor).score(code[:, None], factor))

    return _gap(np.array([[r2(c, v) for c in codes.T] for v in factors.T]))


def _halves(codes: Array, factors: Array) -> tuple[Array, Array, Array, Array]:
    cut = 2 * len(codes) // 3
    return codes[:cut], factors[:cut], codes[cut:], factors[cut:]


def naive_sap_svm(codes: Array, factors: Array) -> float:
    z, v, test_z, test_v = _halves(codes, factors)

    def accuracy(j: int, f: int) -> float:
        fit = LinearSVC(C=100 / len(z), class_weight="balanced").fit(z[:, [j]], v[:, f])
        return float((fit.predict(test_z[:, [j]]) == test_v[:, f]).mean())

    return _gap(np.array([[accuracy(j, f) for j in range(z.shape[1])] for f in range(v.shape[1])]))


def our_sap_svm(codes: Array, factors: Array) -> float:
    z, v, test_z, test_v = _halves(codes, factors)
    return float(sap(z, v, standardise=False, test=(test_z, test_v)))


def naive_sap_tree(codes: Array, factors: Array) -> float:
    z, v, test_z, test_v = _halves(codes, factors)

    def accuracy(j: int, f: int) -> float:
        def mean(depth: int) -> float:
            tree = DecisionTreeClassifier(max_depth=depth, random_state=0)
            folds = StratifiedKFold(3)
            return float(cross_val_score(tree, z[:, [j]], v[:, f], cv=folds, scoring="balanced_accuracy").mean())

        depth = 1 + int(np.argmax([mean(depth) for depth in range(1, 10)]))
        fit = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(z[:, [j]], v[:, f])
        return float(balanced_accuracy_score(test_v[:, f], fit.predict(test_z[:, [j]])))

    return _gap(np.array([[accuracy(j, f) for j in range(z.shape[1])] for f in range(v.shape[1])]))


def our_sap_tree(codes: Array, factors: Array) -> float:
    z, v, test_z, test_v = _halves(codes, factors)
    return float(sap(z, v, classifier="tree", folds=3, test=(test_z, test_v)))


def naive_mutual_information(codes: Array, factors: Array) -> float:
    cells, d = binned(codes), codes.shape[1]
    total = sum(mutual_info_score(cells[:, i], cells[:, j]) for i in range(d) for j in range(d) if i != j)
    return float(total / (d * (d - 1)))


ROWS: dict[str, tuple[Callable, Callable, int]] = {
    "five information metrics": (naive_information, our_information, 100),
    "irs": (naive_irs, lambda z, v: float(irs(z, v)), 5),
    "sap, numbers": (naive_sap_regression, lambda z, v: float(sap(z, v, continuous=True)), 20),
    "sap, labels by linear SVMs": (naive_sap_svm, our_sap_svm, 5),
    "sap, labels by trees (3 folds)": (naive_sap_tree, our_sap_tree, 5),
    "label-free information": (naive_mutual_information, lambda z, v: float(mutual_information(z)), 5),
}


def seconds(function: Callable, codes: Array, factors: Array, least: int) -> tuple[float, Array]:
    times, values = zip(*(cpu_seconds(function, codes, factors) for _ in range(least)))
    return min(times), np.asarray(values[-1])


def main() -> None:
    print(f"{'':34}{'plain s':>9}{'ours s':>9}{'ratio':>8}{'wanted':>8}{'difference':>12}")
    for title, codes, factors in cases():
        print(title)
        for name, (plain, ours, wanted) in ROWS.items():
            ours(codes, factors)
            slow, expected = seconds(plain, codes, factors, 1 if name.startswith("sap, labels") else 3)
            fast, found = seconds(ours, codes, factors, 5)
            difference = np.abs(found - expected).max()
            print(f"  {name:32}{slow:9.4f}{fast:9.4f}{slow / fast:8.0f}{wanted:8d}{difference:12.1e}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
