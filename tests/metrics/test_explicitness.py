"""Explicitness: scikit-learn as the judge, the reference, Table 1 of Carbonneau et al. (2022), invariances, edges."""

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from karenina.metrics._explicitness import explicitness
from karenina.numerics.logistic import Design, multinomial, one_vs_rest


def noisy(n=600, k=2, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    v = rng.integers(5, size=(n, k))
    return np.column_stack([v + noise * rng.normal(size=v.shape), rng.normal(size=n)]), v


@pytest.mark.parametrize("balanced", [False, True])
def test_multinomial_is_scikit_learns(balanced):
    x, v = noisy()
    y = np.minimum(v[:, 0], 3)
    weights = (len(y) / 4 / np.bincount(y))[y] if balanced else None
    ours = multinomial(Design.of(x), y, 4, weights=weights, tolerance=1e-9)
    model = LogisticRegression(tol=1e-10, max_iter=5000, class_weight="balanced" if balanced else None).fit(x, y)
    centred = ours[:-1] - ours[:-1].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(centred.T, model.coef_, atol=1e-5)


@pytest.mark.parametrize("c", [0.01, 1.0])
def test_multinomial_of_two_classes_is_scikit_learns(c):
    x, v = noisy()
    y = (v[:, 0] > 2).astype(int)
    ours = multinomial(Design.of(x), y, 2, c=c, tolerance=1e-9)
    model = LogisticRegression(C=c, tol=1e-10, max_iter=5000).fit(x, y)
    np.testing.assert_allclose(ours[:-1, 1] - ours[:-1, 0], model.coef_[0], atol=1e-6)
    assert ours[-1, 1] - ours[-1, 0] == pytest.approx(model.intercept_[0], abs=1e-6)


def test_binary_factors_are_scored_by_scikit_learns_regression():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    codes = y[:, None] + rng.normal(size=(24, 6))  # few rows, where the penalty tells
    truth = rng.integers(2, size=400)
    held = truth[:, None] + rng.normal(size=(400, 6))
    mean, deviation = codes.mean(axis=0), codes.std(axis=0)
    model = LogisticRegression(tol=1e-10, max_iter=5000).fit((codes - mean) / deviation, y)
    area = roc_auc_score(truth, model.predict_proba((held - mean) / deviation)[:, 1])
    found = explicitness(codes, y, classifier="multinomial", balanced=False, test=(held, truth))
    assert float(found) == pytest.approx(area, abs=1e-9)


def test_one_vs_rest_is_scikit_learns():
    x, v = noisy()
    y = v[:, 0]
    count = np.bincount(y)
    ours = one_vs_rest(Design.of(x), y, len(y) / 2 / np.stack([len(y) - count, count]), tolerance=1e-10)
    for label in range(5):
        model = LogisticRegression(tol=1e-10, max_iter=5000, class_weight="balanced").fit(x, y == label)
        np.testing.assert_allclose(ours[:-1, label], model.coef_[0], atol=1e-5)
        assert ours[-1, label] == pytest.approx(model.intercept_[0], abs=1e-5)


def test_separable_classes_converge():
    x = np.linspace(-1, 1, 40)[:, None] * 1e3
    y = (x[:, 0] > 0).astype(int)
    for w in (multinomial(Design.of(x), y, 2), one_vs_rest(Design.of(x), y, np.ones((2, 2)))):
        assert np.isfinite(w).all()
        assert ((x @ w[:-1] + w[-1]).argmax(axis=1) == y).all()


def test_areas_are_scikit_learns():
    codes, v = noisy()
    codes = np.round(codes)  # ties
    low, high = codes.min(axis=0), codes.max(axis=0)
    x = (codes - low) / (high - low)
    result = explicitness(codes, v, scale="range", test_fraction=0)
    expected = []
    for y in v.T:
        p = np.column_stack(
            [
                LogisticRegression(tol=1e-9, max_iter=5000, class_weight="balanced")
                .fit(x, y == c)
                .predict_proba(x)[:, 1]
                for c in range(5)
            ]
        )
        p /= p.sum(axis=1, keepdims=True)
        expected.append(np.mean([roc_auc_score(y == c, p[:, c]) for c in range(5)]))
    np.testing.assert_allclose(result.per_factor, expected, atol=1e-4)
    assert float(explicitness(codes, v, scale="range", test_fraction=0, rescale=True)) == pytest.approx(
        2 * (np.mean(expected) - 0.5), abs=2e-4
    )


@pytest.mark.parametrize("case", planted.CASES)
def test_reference(case):
    (codes, factors), test = planted.reference(case)
    expected = planted.published(case)["modularity_explicitness"]
    result = explicitness(codes, factors, test=test, classifier="multinomial", balanced=False)
    score = expected["result"].get("explicitness_score_test", 0.5)  # the released code fails on constant codes
    assert float(result) == pytest.approx(score, abs=0.001)


def test_table_one():
    for codes, angles in planted.table_one().values():
        assert float(explicitness(codes, angles, scale="range", rescale=True, test_fraction=0)) == pytest.approx(
            1, abs=0.06
        )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(3)))
def test_invariances(seed, order):
    codes, v = noisy(200, seed=seed)
    rng = np.random.default_rng(seed)
    changed = (codes * rng.choice([-30.0, -1, 0.02, 4], size=3) + rng.normal(size=3))[:, list(order)]
    for classifier in ("one_vs_rest", "multinomial"):
        one, two = (
            explicitness(codes, v, classifier=classifier),
            explicitness(changed, v[:, ::-1], classifier=classifier),
        )
        assert float(one) == pytest.approx(float(two), abs=2e-3)
        np.testing.assert_allclose(one.per_factor, two.per_factor[::-1], atol=2e-3)


def test_noise_is_half_and_same_seed_same_result():
    v = noisy(3000)[1]
    noise = np.random.default_rng(5).normal(size=(3000, 4))
    assert float(explicitness(noise, v)) == pytest.approx(0.5, abs=0.03)
    codes = noisy(300)[0]
    assert float(explicitness(codes, v[:300])) == float(explicitness(codes, v[:300]))
    assert float(explicitness(codes, v[:300])) != float(explicitness(codes, v[:300], seed=1))


@pytest.mark.parametrize("classifier", ["one_vs_rest", "multinomial"])
def test_edges(classifier):
    codes, v = noisy(200)
    dead = np.column_stack([np.ones(200), codes])
    assert float(explicitness(dead, v, classifier=classifier)) == float(explicitness(codes, v, classifier=classifier))
    assert float(explicitness(np.zeros((200, 3)), v, classifier=classifier)) == 0.5
    with pytest.warns(UserWarning, match="factor 0"):
        result = explicitness(codes, np.column_stack([np.ones(200), v]), classifier=classifier)
    assert np.isnan(result.per_factor[0])
    assert explicitness(codes[:, :1], v[:, 0], classifier=classifier).per_factor.shape == (1,)
    assert float(explicitness(codes, v + 0.5, classifier=classifier, factor_bins=3)) > 0.6
    test_codes, test_factors = noisy(100, seed=1)
    shifted = explicitness(codes, v, test=(test_codes, test_factors + 2), classifier=classifier)
    assert [list(classes) for classes, _ in shifted.details["auc"]] == [[2, 3, 4]] * 2
    with pytest.warns(UserWarning, match="no explicitness of factor 0, factor 1: fewer than two"):
        alone = explicitness(codes, v, test=(test_codes, test_factors + 50), classifier=classifier)
    assert np.isnan(float(alone))
    with pytest.warns(UserWarning, match="no explicitness of factor 1: fewer than two"):
        partly = explicitness(codes, np.column_stack([v, np.arange(200)])[:, [0, 2]], classifier=classifier)
    assert partly.value == partly.per_factor[0]
    rare = v.copy()
    rare[0] = 9
    assert np.isfinite(float(explicitness(codes, rare, classifier=classifier)))


def test_bad_inputs():
    codes, v = noisy(50)
    for arguments, message in (
        ({"classifier": "svm"}, "classifier"),
        ({"scale": "log"}, "scale"),
        ({"test_fraction": 0, "test": (codes, v)}, "test_fraction=0 scores the training rows"),
        ({"test": v}, "test must be a tuple of codes"),
        ({"test": (codes[:3], v)}, r"test has shapes \(3, 3\) and \(50, 2\)"),
        ({"rows": 7.5}, "rows must be .* got 7.5"),
        ({"factor_bins": 0, "continuous": True}, "bins"),
    ):
        with pytest.raises(ValueError, match=message):
            explicitness(codes, v, **arguments)
    with pytest.raises(ValueError, match="row 2, column 1"):
        explicitness(np.where(np.arange(150).reshape(50, 3) == 7, np.inf, codes), v)


@pytest.mark.filterwarnings("ignore:dropped constant factors")
def test_areas_are_given_for_the_values_of_all_factors():
    rng = np.random.default_rng(0)
    v = np.array([10, 20, 40])[rng.integers(3, size=600)]
    given = np.column_stack([np.zeros(600), v, rng.uniform(size=600)])
    nothing, labels, numbers = explicitness(v[:, None] + rng.normal(size=(600, 1)), given).details["auc"]
    assert [len(part) for part in nothing] == [0, 0]
    assert labels[0].tolist() == [10, 20, 40]
    assert numbers[0].tolist() == list(range(10))
