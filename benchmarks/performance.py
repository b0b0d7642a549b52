"""What of numerics is ours although a library has it: CPU time of one core and agreement of both, in the same run.

python benchmarks/performance.py           prints the table
python benchmarks/performance.py --write   writes it into docs/performance.md

The row of LightGBM is there where it is installed.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import Lasso, LassoCV, LogisticRegression, LogisticRegressionCV, MultiTaskLassoCV
from sklearn.metrics import mutual_info_score
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits
from timing import cpu_seconds

from karenina.metrics._sap import linear_svm, tree_levels
from karenina.numerics import lasso, logistic
from karenina.numerics.columns import standardised_ranks
from karenina.numerics.histograms import count, discretise, information
from karenina.numerics.lasso import lassos
from karenina.numerics.neighbours import label_information
from karenina.numerics.trees import Binned, Sorted, boost, forest
from karenina.selection import similarity_matrix

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- table -->", "<!-- end -->"
Case = tuple[str, Callable[[], Any], str, Callable[[], Any], str]


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time of up to three calls, and the result."""
    times = []
    while not times or (len(times) < 3 and sum(times) < 2):
        took, result = cpu_seconds(call)
        times.append(took)
    return min(times), result


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds > 0.01 else f"{1e3 * seconds:.2g}"


def data(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Ten codes, of which five are dSprites' factors with noise, and these factors."""
    rng = np.random.default_rng(0)
    v = rng.integers((3, 6, 40, 32, 32), size=(n, 5))
    z = np.hstack([(v - v.mean(axis=0)) / v.std(axis=0) + 0.1 * rng.normal(size=v.shape), rng.normal(size=v.shape)])
    return (z - z.mean(axis=0)) / z.std(axis=0), v


def sklearn_lasso_weights(z: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.column_stack([LassoCV(cv=10).fit(z, column).coef_ for column in v.T])


def sklearn_weights(z: np.ndarray, y: np.ndarray, one_vs_rest: bool) -> np.ndarray:
    """At the exactness of ours: no entry of the gradient of the mean loss above 1e-5."""
    if one_vs_rest:
        models = [LogisticRegression(solver="newton-cholesky", tol=1e-5).fit(z, y == c) for c in np.unique(y)]
        return np.column_stack([model.coef_[0] for model in models])
    return LogisticRegression(tol=1e-5, max_iter=1000).fit(z, y).coef_.T


def binned_information(z: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([[mutual_info_score(a, b) for b in discretise(z, 20).T] for a in v.T])


def svm_slopes(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    fits = [LinearSVC(C=0.01, class_weight="balanced").fit(z[:, [j]], y) for j in range(z.shape[1])]
    return np.stack([fit.coef_[:, 0] for fit in fits])


def boosted_by_histograms(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit scikit-learn's histogram boosting with as many trees as ours; NaN for importances, which it does not give."""
    HistGradientBoostingClassifier(max_iter=100, max_depth=3, early_stopping=False, random_state=0).fit(z, y)
    return np.full(z.shape[1], np.nan)


def lightgbm_case(z: np.ndarray, v: np.ndarray) -> list[Case]:
    """Return the comparison with LightGBM, if it is installed."""
    try:
        import lightgbm
    except ImportError:
        return []

    def fit() -> np.ndarray:
        model = lightgbm.LGBMClassifier(
            n_estimators=100, max_depth=3, num_leaves=8, n_jobs=1, importance_type="gain", verbose=-1
        )
        gains = model.fit(z, v[:, 1]).feature_importances_
        return gains / gains.sum()

    ours = lambda: boost(Binned.of(z), v[:, 1], 6, np.random.default_rng(0)).importance  # noqa: E731
    return [("boosted trees, 256 bins, 6 classes, 10,000 rows", ours, "LightGBM", fit, "no further dependency")]


def cases() -> list[Case]:
    z, v = data()
    z2, v2 = z[:2000], v[:2000]
    rng = np.random.default_rng(1)
    other = z[:, rng.permutation(10)] + 0.3 * rng.normal(size=z.shape)
    draw = lambda: np.random.default_rng(0)  # noqa: E731
    design, ones = logistic.Design.of(z), np.ones((2, 40))
    ranks, scale = np.empty(z.shape[::-1]), np.empty(10)
    gram, cross = z.T @ z / len(z), z.T @ other / len(z)
    speed = "speed"
    return [
        (
            "mutual information of 10 codes and 5 factors",
            lambda: information(count(v, discretise(z, 20)), "plugin"),
            "mutual_info_score",
            lambda: binned_information(z, v),
            speed,
        ),
        (
            "the same without bins, one factor (Ross 2014)",
            lambda: [label_information(code, v[:, 1], 3) for code in z.T],
            "mutual_info_classif",
            lambda: mutual_info_classif(z, v[:, 1], random_state=0),
            "no noise is added to the codes, and ties are counted",
        ),
        (
            "boosted trees, exact splits, 6 classes, 2,000 rows",
            lambda: boost(Sorted.of(z2), v2[:, 1], 6, draw()).importance,
            "GradientBoostingClassifier",
            lambda: GradientBoostingClassifier(random_state=0).fit(z2, v2[:, 1]).feature_importances_,
            speed,
        ),
        (
            "boosted trees, 256 bins, 6 classes, 2,000 rows",
            lambda: boost(Binned.of(z2), v2[:, 1], 6, draw()).importance,
            "GradientBoostingClassifier",
            lambda: GradientBoostingClassifier(random_state=0).fit(z2, v2[:, 1]).feature_importances_,
            speed,
        ),
        (
            "boosted trees, 256 bins, 6 classes, 10,000 rows",
            lambda: boost(Binned.of(z), v[:, 1], 6, draw()).importance,
            "HistGradientBoostingClassifier",
            lambda: boosted_by_histograms(z, v[:, 1]),
            "importances, which it does not have",
        ),
        *lightgbm_case(z, v),
        (
            "random forest, 10 trees, 40 classes, five depths",
            lambda: forest(Sorted.of(z), z[:100], v[:, 2], 40, draw(), depths=(2, 4, 8, 16, 32))[0],
            "RandomForestClassifier",
            lambda: [
                RandomForestClassifier(10, max_depth=depth, max_features=1.0, random_state=0)
                .fit(z, v[:, 2])
                .feature_importances_
                for depth in (2, 4, 8, 16, 32)
            ][-1],
            "one forest serves all depths of a cross-validation",
        ),
        (
            "lasso, 5 targets, 100 penalties, 10 folds",
            lambda: lasso.fit(z, v.astype(float)).weights,
            "LassoCV",
            lambda: sklearn_lasso_weights(z, v),
            speed,
        ),
        (
            "lasso of 10 targets at one penalty, from moments",
            lambda: lassos(gram, cross, 0.1)[0],
            "Lasso",
            lambda: Lasso(alpha=0.1, tol=1e-10).fit(z, other).coef_.T,
            "UDR has the moments of a pair, and reads no rows",
        ),
        (
            "multi-task lasso of two models, 100 penalties, 5 folds",
            lambda: similarity_matrix(other, z).T,
            "MultiTaskLassoCV",
            lambda: np.abs(MultiTaskLassoCV(cv=5, tol=1e-8).fit(z, other / other.std(axis=0)).coef_.T),
            speed,
        ),
        (
            "multinomial logistic regression, 6 classes",
            lambda: logistic.multinomial(design, v[:, 1], 6)[:-1],
            "LogisticRegression",
            lambda: sklearn_weights(z, v[:, 1], one_vs_rest=False),
            "one solver for few and many classes",
        ),
        (
            "multinomial logistic regression, 40 classes",
            lambda: logistic.multinomial(design, v[:, 2], 40)[:-1],
            "LogisticRegression",
            lambda: sklearn_weights(z, v[:, 2], one_vs_rest=False),
            speed,
        ),
        (
            "logistic regression, one-vs-rest, 40 classes",
            lambda: logistic.one_vs_rest(design, v[:, 2], ones)[:-1],
            "LogisticRegression (Newton)",
            lambda: sklearn_weights(z, v[:, 2], one_vs_rest=True),
            speed,
        ),
        (
            "logistic regression, 10 penalties, 5 folds, 32 classes, 1,000 rows",
            lambda: logistic.cross_validated(z[:1000], v[:1000, 3], 32).predict(z[1000:]),
            "LogisticRegressionCV",
            lambda: LogisticRegressionCV(Cs=10, cv=KFold(5)).fit(z[:1000], v[:1000, 3]).predict(z[1000:]),
            "stops before the optimum: other steps, other accuracies",
        ),
        (
            "linear SVMs of 10 codes, 6 classes",
            lambda: linear_svm(z, v[:, 1], 0.01)[0],
            "LinearSVC",
            lambda: svm_slopes(z, v[:, 1]),
            speed,
        ),
        (
            "trees on one code, depths 1 to 5, 40 classes",
            lambda: len(tree_levels(z[:, 2], v[:, 2], 40, 5)[-1][0]) + 1,
            "DecisionTreeClassifier",
            lambda: DecisionTreeClassifier(max_depth=5).fit(z[:, [2]], v[:, 2]).get_n_leaves(),
            speed,
        ),
        (
            "ranks of 10 codes, standardised",
            lambda: standardised_ranks(z.view("u8"), 64, ranks, scale) or ranks,
            "rankdata",
            lambda: (lambda r: ((r - r.mean(axis=0)) / r.std(axis=0)).T)(rankdata(z, axis=0)),
            speed,
        ),
    ]


def table() -> str:
    lines = [
        "| what | ours (ms) | library | (ms) | ratio | largest difference | stays for |",
        "|---|--:|---|--:|--:|--:|---|",
    ]
    for what, ours, library, theirs, reason in cases():
        ours()  # compiled before it is timed
        fast, a = seconds(ours)
        slow, b = seconds(theirs)
        difference = np.abs(np.asarray(a, float) - np.asarray(b, float)).max()
        times = f"{milliseconds(fast)} | {library} | {milliseconds(slow)} | {slow / fast:.1f}"
        lines.append(f"| {what} | {times} | {f'{difference:.1g}' if np.isfinite(difference) else '-'} | {reason} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    threadpool_limits(1)
    found = table()
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.partition(END)[2]}")
