import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import karenina
from karenina.metrics._sap import linear_svm, sap, tree_levels


def some(seed=0, n=600, classes=4):
    rng = np.random.default_rng(seed)
    factors = np.column_stack([rng.integers(classes, size=n), rng.choice(3, p=[0.6, 0.3, 0.1], size=n)])
    return np.column_stack([factors, factors.sum(axis=1)]) + 0.4 * rng.normal(size=(n, 3)), factors


@pytest.mark.parametrize("case", planted.CASES)
def test_reference_continuous(case):
    codes, factors = planted.reference(case)[0]
    expected = planted.published(case)["sap_continuous"]["result"]
    found = sap(codes, factors, continuous=True)
    assert found.value == pytest.approx(expected["SAP_score"], abs=1e-9)
    np.testing.assert_allclose(found.matrix, np.transpose(expected["score_matrix"]), atol=1e-9)


@pytest.mark.parametrize("case", planted.CASES)
def test_reference_labels(case):
    (codes, factors), test = planted.reference(case)
    expected = planted.published(case)["sap_discrete"]["result"]
    found = sap(codes, factors, standardise=False, c=0.01, test=test)
    assert found.value == sap(codes, factors, standardise=False, penalty=100, test=test).value
    assert found.value == pytest.approx(expected["SAP_score"], abs=1e-3)
    if case == "zeros":  # the release scores dead codes by the largest class
        assert (found.matrix == 0).all()
    else:
        np.testing.assert_allclose(found.matrix, np.transpose(expected["score_matrix"]), atol=2e-3)
    fitted = sap(codes, factors, standardise=False, c=0.01, test_fraction=0)
    assert fitted.value == pytest.approx(expected["SAP_score"], abs=0.02)


def test_table_one():
    found = [float(sap(codes, angles)) for codes, angles in planted.table_one().values()]
    assert found == pytest.approx([0.6, 0.0, 0.0], abs=0.06)


def test_r2_is_that_of_linear_regression():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(200, 3)) * [1, 1e-160, 1e160]
    factors = codes / [1, 1e-160, 1e160] @ rng.normal(size=(3, 2)) + rng.normal(size=(200, 2))
    unit = codes / np.abs(codes).max(axis=0)
    fits = [[LinearRegression().fit(unit[:, [j]], v).score(unit[:, [j]], v) for j in range(3)] for v in factors.T]
    np.testing.assert_allclose(sap(codes, factors).matrix, fits, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 9])
@pytest.mark.parametrize("c", [0.001, 0.01, 1.0])
def test_linear_svms_are_those_of_liblinear(classes, c):
    rng = np.random.default_rng(classes)
    label = rng.choice(classes, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2), size=500)
    codes = np.column_stack([label + rng.normal(size=500), 5.0 * label + 3, rng.normal(size=500), label == 1])
    slope, intercept = linear_svm(codes, label, c)
    for j, code in enumerate(codes.T):
        fit = LinearSVC(C=c, class_weight="balanced", dual=False, tol=1e-9, max_iter=10_000).fit(code[:, None], label)
        rows = slice(1, None) if classes == 2 else slice(None)
        np.testing.assert_allclose(slope[j, rows], fit.coef_[:, 0], atol=1e-5)
        np.testing.assert_allclose(intercept[j, rows], fit.intercept_, atol=1e-5)


@pytest.mark.parametrize("n", [200, 1000])
def test_locatello_has_one_c_for_any_number_of_rows(n):
    rng = np.random.default_rng(n)
    factors = rng.integers(6, size=(n + 2000, 2))
    codes = factors / 6 + 0.1 * rng.normal(size=factors.shape)
    train, test = slice(n), slice(n, None)
    table = karenina.metrics.score(codes[train], factors[train], "sap", "locatello", test=(codes[test], factors[test]))
    svc = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-9, max_iter=10_000)
    right = [[svc.fit(z[train, None], y[train]).score(z[test, None], y[test]) for z in codes.T] for y in factors.T]
    np.testing.assert_allclose(table["sap"].matrix, right, atol=1e-9)
    ordered = np.sort(right, axis=1)
    assert table["sap"].value == pytest.approx((ordered[:, -1] - ordered[:, -2]).mean(), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 5])
def test_trees_are_those_of_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    label = rng.integers(classes, size=400)
    for code in (label + rng.normal(size=400), np.round(label + 2 * rng.normal(size=400)), rng.normal(size=400)):
        single = code.astype(np.float32).astype(np.float64)  # the precision of scikit-learn's trees
        for depth, (thresholds, answer) in enumerate(tree_levels(single, label, classes, 5), start=1):
            fit = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(single[:, None], label)
            assert len(answer) == fit.get_n_leaves()
            np.testing.assert_array_equal(answer[np.searchsorted(thresholds, single)], fit.predict(single[:, None]))


def test_trees_do_not_split_between_rounding_errors():
    label = np.random.default_rng(0).integers(40, size=1200)
    code = np.cos(label * 2 * np.pi / 40)
    cosine = np.round(code, 9)
    for ours, exact in zip(tree_levels(code, label, 40, 9), tree_levels(cosine, label, 40, 9)):
        np.testing.assert_array_equal(ours[1], exact[1])
    below = np.nextafter(1.0, 2.0)
    pair = np.array([below, np.nextafter(below, 2.0)])  # the middle rounds up
    thresholds, answer = tree_levels(np.tile(pair, 20), np.tile([0, 1], 20), 2, 1)[0]
    np.testing.assert_array_equal(answer[np.searchsorted(thresholds, pair)], [0, 1])


def test_tree_scores_unseen_rows_in_balance():
    codes, factors = some(n=2000)
    found = sap(codes[:1000], factors[:1000], classifier="tree", test=(codes[1000:], factors[1000:]))
    for f in range(2):
        for j in range(3):
            fits = [
                DecisionTreeClassifier(max_depth=depth, random_state=0).fit(codes[:1000, [j]], factors[:1000, f])
                for depth in range(1, 10)
            ]
            scores = [balanced_accuracy_score(factors[1000:, f], fit.predict(codes[1000:, [j]])) for fit in fits]
            assert min(scores) - 1e-9 <= found.matrix[f, j] <= max(scores) + 1e-9
            assert found.matrix[f, j] > max(scores) - 0.05


@pytest.mark.parametrize("classifier", ["svm", "tree"])
def test_planted(classifier):
    factors = planted.labels(900, (3, 3))
    found = sap(factors, factors, classifier=classifier)
    assert found.value > 0.5
    assert float(sap(planted.duplicated(factors), factors, classifier=classifier)) == 0
    assert float(sap(planted.constant(factors), factors, classifier=classifier)) == 0
    assert float(sap(planted.noise(factors), factors, classifier=classifier)) < 0.1


def test_mixed_factors():
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.integers(3, size=900), rng.normal(size=900)])
    found = sap(factors, factors)
    assert found.per_factor[1] == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(found.matrix[1], sap(factors, factors, continuous=True).matrix[1])
    assert found.matrix[0, 0] > 0.9


@pytest.mark.parametrize("classifier", ["svm", "tree"])
def test_dead_codes_score_zero(classifier):
    codes, factors = some()
    found = sap(np.column_stack([codes, np.full(600, 0.1)]), factors, classifier=classifier)
    assert (found.matrix[:, 3] == 0).all()
    assert found.value == float(sap(codes, factors, classifier=classifier))


@pytest.mark.parametrize("classifier", ["svm", "tree"])
def test_classes_of_one_side_only(classifier):
    codes, factors = some(n=900)
    shared = factors[:, 0] < 3
    late = np.concatenate([np.flatnonzero(shared)[:300], np.flatnonzero(~shared)])
    one = sap(codes[late], factors[late], classifier=classifier, test=(codes[shared], factors[shared]))
    early = np.flatnonzero(shared)[:300]
    two = sap(codes[early], factors[early], classifier=classifier, test=(codes[shared], factors[shared]))
    assert one.matrix[0] == pytest.approx(two.matrix[0], abs=0.1)
    few = sap(codes[:30], np.arange(30) % 2 * (np.arange(30) > 28), classifier=classifier)
    assert np.isfinite(few.value)


def test_one_code_or_one_factor():
    codes, factors = some()
    for continuous in (True, False):
        one = sap(codes[:, 0], factors, continuous=continuous)
        np.testing.assert_array_equal(one.per_factor, one.matrix[:, 0])
        assert np.isfinite(float(sap(codes, factors[:, 0], continuous=continuous)))


def test_constant_factor_is_left_out():
    codes, factors = some()
    with pytest.warns(UserWarning, match="dropped constant factors: factor 2"):
        found = sap(codes, np.column_stack([factors, np.ones(600)]))
    assert found.value == float(sap(codes, factors))
    assert np.isnan(found.per_factor[2])


@pytest.mark.parametrize("how", [{"continuous": True}, {}, {"classifier": "tree", "folds": 3}])
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1000), data=st.data())
def test_invariance(how, seed, data):
    codes, factors = some(seed, n=200)
    scale = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3)))
    shift = np.array(data.draw(st.lists(st.floats(-50, 50), min_size=3, max_size=3)))
    # A tree's threshold can go to the first of two equally good cuts, and a flip makes that the last.
    signs = [1] if how.get("classifier") == "tree" else [-1, 1]
    sign = np.array(data.draw(st.lists(st.sampled_from(signs), min_size=3, max_size=3)))
    order, factor_order = data.draw(st.permutations(range(3))), data.draw(st.permutations(range(2)))
    changed = sap((codes * scale * sign + shift)[:, order], 2 * factors[:, factor_order] + 7, **how)
    plain = sap(codes, factors, **how)
    assert changed.value == pytest.approx(plain.value, abs=1e-9)
    np.testing.assert_allclose(changed.matrix, plain.matrix[np.ix_(factor_order, order)], atol=1e-9)


def test_same_seed_same_result():
    codes, factors = some()
    assert sap(codes, factors, seed=3).matrix.tobytes() == sap(codes, factors, seed=3).matrix.tobytes()
    assert sap(codes, factors, seed=3).value != sap(codes, factors, seed=4).value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classifier": "forest"}, "classifier must be one of svm, tree"),
        ({"penalty": 0}, "penalty > 0"),
        ({"c": 0}, "c > 0"),
        ({"rows": 3}, "rows must be an integer of at least 6, got 3"),
        ({"depth": 0}, "depth must be an integer of at least 1"),
        ({"test_fraction": 1}, "test_fraction is 1, expected a number from 0 to below 1"),
        ({"test": np.zeros((3, 3))}, "test must be a tuple of codes"),
        ({"test": (np.zeros((3, 2)), np.zeros((3, 2)))}, r"expected \(m, 3\) and \(m, 2\)"),
        ({"test": (np.full((3, 3), np.nan), np.zeros((3, 2)))}, "test_codes of shape"),
    ],
)
def test_bad_options(arguments, message):
    with pytest.raises(ValueError, match=message):
        sap(*some(), **arguments)


def test_dead_codes_score_nothing_above_a_threshold():
    """Carbonneau et al. (2022), 4.3.3. A faint copy of a factor takes its gap away, unless it counts as dead."""
    rng = np.random.default_rng(0)
    v = rng.normal(size=(500, 2))
    codes = np.column_stack([v, 0.01 * v])
    assert float(sap(codes, v)) == pytest.approx(0, abs=1e-6)
    assert float(sap(codes, v, threshold=0.01)) == pytest.approx(1, abs=0.02)
    assert sap(codes, v, threshold=0.01).matrix[:, 2:].max() == 0
    assert float(sap(codes, v, threshold=100)) == 0
    labels = (v > 0).astype(int)
    assert float(sap(codes, labels, threshold=0.01)) > 0.3 > 0.05 > float(sap(codes, labels))
    with pytest.raises(ValueError, match="threshold >= 0"):
        sap(codes, v, threshold=-1)


def test_rows_that_are_fitted_beside_test_rows(monkeypatch):
    rng = np.random.default_rng(0)
    v = rng.integers(3, size=(200, 1))
    codes, seen = v + rng.normal(size=v.shape), []

    def recorded(codes, label, c):
        seen.append(len(codes))
        return linear_svm(codes, label, c)

    monkeypatch.setattr("karenina.metrics._sap.linear_svm", recorded)
    few, many, every = (sap(codes, v, rows=rows, test=(codes, v)) for rows in (50, 300, None))
    assert seen == [50, 200, 200]
    assert float(many) == float(every) != float(few)
