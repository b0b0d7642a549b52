"""InfoMEC against scikit-learn, brute force, and where its edges are."""

import warnings

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import digamma, logsumexp
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.preprocessing import StandardScaler

from karenina.metrics import infomec
from karenina.numerics.logistic import PaddedRows, mean_log_loss
from karenina.numerics.neighbours import class_information


def by_scikit_learn(codes, factors, quantised):
    """The three numbers from mutual_info_classif or counts, and LogisticRegression, step by step."""
    nmi = np.empty((factors.shape[1], codes.shape[1]))
    for i, v in enumerate(factors.T):
        for j, z in enumerate(codes.T):
            if quantised:
                nmi[i, j] = mutual_info_score(v, z)
            else:
                options = {"discrete_features": False, "n_neighbors": 10, "random_state": 0}
                nmi[i, j] = mutual_info_classif(z[:, None], v, **options)[0]
        nmi[i] /= mutual_info_score(v, v)
    width = np.ptp(codes, axis=0)
    nmi = nmi[:, width > (0 if quantised else width.max() / 20)]
    k, d = nmi.shape
    m = ((nmi.max(axis=0) / nmi.sum(axis=0)).mean() - 1 / k) / (1 - 1 / k)
    c = ((nmi.max(axis=1) / nmi.sum(axis=1)).mean() - 1 / d) / (1 - 1 / d)
    x = StandardScaler().fit_transform(codes)
    if quantised:
        x = np.column_stack([(z[:, None] == np.unique(z)).astype(float) for z in codes.T])
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for v in factors.T:
            loss = [
                log_loss(v, LogisticRegression(C=np.inf, class_weight="balanced").fit(a, v).predict_proba(a))
                for a in (x, np.zeros_like(x))
            ]
            told.append(1 - loss[0] / loss[1])
    return m, np.mean(told), c


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_direct_computation(seed):
    rng = np.random.default_rng(seed)
    n, k, d = int(rng.integers(300, 600)), int(rng.integers(2, 4)), int(rng.integers(2, 5))
    factors = rng.integers(rng.integers(2, 8, size=k), size=(n, k))
    quantised = seed % 4 == 3
    codes = (factors - factors.mean(axis=0)) @ rng.normal(size=(k, d)) + rng.uniform(0.05, 1) * rng.normal(size=(n, d))
    codes = np.round(codes) if quantised else codes * np.concatenate([[1, 0.8], rng.uniform(0.02, 1, size=d - 2)])
    result = infomec(codes, factors, quantised=quantised)
    found = (result.modularity, result.explicitness, result.compactness)
    assert found == pytest.approx(by_scikit_learn(codes, factors, quantised), abs=0.01)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_neighbours_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 40)), int(rng.integers(1, 6))
    label = np.unique(rng.integers(int(rng.integers(1, 8)), size=n), return_inverse=True)[1]
    code = rng.normal(size=n) + label * rng.integers(2)
    found = class_information(code[:, None], label[:, None], k)[0, 0]
    size = np.bincount(label)[label]
    z, y, size = code[size > 1] / code.std(), label[size > 1], size[size > 1]
    total = 0.0
    for i in range(len(z)):
        near = np.abs(z - z[i])
        own = np.sort(near[y == y[i]])
        kept = min(k, size[i] - 1)
        total += digamma(kept) - digamma(size[i]) - digamma((near < own[kept] - 1e-8).sum())
    expected = max(0.0, digamma(len(z)) + total / len(z)) if len(z) else 0.0
    assert found == pytest.approx(expected, abs=1e-9)


def test_loss_is_exact_for_a_table_of_labels():
    """Codes that are one of two values: the best regression is the table of frequencies."""
    code = np.repeat([0.0, 1.0], 300)
    label = np.concatenate([np.arange(300) % 3 == 0, np.arange(300) % 3 > 0]).astype(int)
    expected = -(np.log(2 / 3) * 2 / 3 + np.log(1 / 3) / 3)
    assert mean_log_loss(PaddedRows(code[:, None]), label, 2) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("far", [1.0, 200.0])
def test_loss_is_that_of_double_precision_however_large_the_scores(far):
    """Overlapping classes, and the same inputs 200 times as large, whose scores pass what exponentials can hold."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=700)
    x = far * (np.eye(3)[y] + 0.5 * rng.normal(size=(700, 3)))
    ones = np.column_stack([x, np.ones(700)])
    weight = (700 / 3 / np.bincount(y))[y]

    def objective(flat):
        scores = ones @ flat.reshape(3, 4).T
        p = np.exp(scores - logsumexp(scores, axis=1)[:, None])
        loss = logsumexp(scores, axis=1) - scores[np.arange(700), y]
        return (weight * loss).mean(), (((p - np.eye(3)[y]) * weight[:, None]).T @ ones / 700).ravel()

    found = minimize(objective, np.zeros(12), jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-7})
    scores = ones @ found.x.reshape(3, 4).T
    best = (logsumexp(scores, axis=1) - scores[np.arange(700), y]).mean()
    assert mean_log_loss(PaddedRows(x), y, 3) == pytest.approx(best, abs=0.002)


@pytest.mark.parametrize("quantised", [False, True])
def test_order_sign_scale_and_constant_codes_do_not_matter(quantised):
    factors = planted.labels(800, (3, 4))
    codes = factors + (0 if quantised else 0.2 * np.random.default_rng(0).normal(size=factors.shape))
    first = infomec(codes, factors)
    assert first.details["quantised"].tolist() == [quantised] * 2
    second = infomec(np.column_stack([-3 * codes[:, 1] + 1, np.ones(800), 3 * codes[:, 0]]), factors)
    assert second.details["active"].tolist() == [True, False, True]
    assert np.isnan(second.per_code[1])
    for part in ("modularity", "explicitness", "compactness"):
        assert getattr(second, part) == pytest.approx(getattr(first, part), abs=0.01)


def test_edges():
    rng = np.random.default_rng(0)
    factors = planted.labels(600, (3, 4))
    nothing = infomec(np.zeros((600, 2)), factors)
    assert (nothing.modularity, nothing.explicitness, nothing.compactness) == (0, 0, 0)
    one_factor = infomec(np.column_stack([factors[:, 0], rng.integers(3, size=600)]), factors[:, :1])
    assert one_factor.modularity == 1
    one_code = infomec(factors[:, :1], factors)
    assert one_code.compactness == 1
    assert one_code.per_factor_informativeness[0] > 0.99 > 0.1 > one_code.per_factor_informativeness[1]
    with pytest.warns(UserWarning, match="dropped constant factors"):
        gap = infomec(factors, np.column_stack([factors, np.ones(600)]))
    assert np.isnan(gap.per_factor[2])
    assert gap.matrix.shape == (3, 2)
    with pytest.raises(ValueError, match="neighbours must be an integer"):
        infomec(factors, factors, neighbours=0)
    with pytest.raises(ValueError, match="quantised must be True, False or 2"):
        infomec(factors, factors, quantised=[True])


def test_continuous_factors_are_explicit_by_linear_regression():
    factors = planted.uniform(500, 2)
    codes = factors @ [[1.0, 0.5], [0.0, 1.0]] + 0.1 * np.random.default_rng(1).normal(size=(500, 2))
    expected = [LinearRegression().fit(codes, v).score(codes, v) for v in factors.T]
    assert infomec(codes, factors).per_factor_informativeness == pytest.approx(expected, abs=1e-9)


def test_one_outlier_switches_the_other_codes_off():
    factors = planted.uniform(1000, 3)
    codes = factors.copy()
    codes[0, 0] = 1000
    assert infomec(codes, factors).details["active"].tolist() == [True, False, False]


@pytest.mark.parametrize("scale", [1e-200, 1e160, 1e300])
def test_codes_whose_squares_are_beyond_floats(scale):
    rng = np.random.default_rng(0)
    v = rng.integers(4, size=(300, 3))
    codes = v + 0.05 * rng.normal(size=v.shape)
    one, other = infomec(codes, v), infomec(codes * scale, v)
    assert other.modularity == pytest.approx(one.modularity, abs=1e-6)
    assert other.compactness == pytest.approx(one.compactness, abs=1e-6)


def test_rows_that_occur_several_times_are_noted():
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(500, 2))
    codes = factors + 0.1 * rng.normal(size=factors.shape)
    infomec(codes, factors)
    twice = np.tile(np.arange(500), 4)
    with pytest.warns(UserWarning, match="only 500 of 2,000 values of code 0, 1 are distinct"):
        infomec(codes[twice], factors[twice])
