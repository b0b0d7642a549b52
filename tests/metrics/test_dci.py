"""DCI: planted importances, scikit-learn as the judge, the reference, Table 1 of Carbonneau et al. (2022), edges."""

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LassoCV

from karenina.metrics._dci import Lasso, Trees, dci, dci_from_importance
from karenina.numerics import lasso
from karenina.numerics.columns import standardised
from karenina.numerics.trees import Sorted, forest
from karenina.numerics.trees import boost as fit_boosted

MODELS = ("lasso", "forest", "boosted")
LASSO = Lasso(scale="range", alphas=(1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4, 0.8, 1.0))


def mixed(n=400, seed=0):
    """Two continuous factors and one of three labels, with codes that are noisy copies and one noise code."""
    rng = np.random.default_rng(seed)
    v = np.column_stack([rng.uniform(size=(n, 2)), rng.integers(3, size=n)])
    return np.column_stack([v + 0.05 * rng.normal(size=v.shape), rng.normal(size=n)]), v


@pytest.mark.parametrize(
    ("importance", "d", "c"),
    [
        (5 * np.eye(5), 1, 1),
        (np.vstack([5 * np.eye(5)] * 2), 1, 1 - np.log(2) / np.log(10)),
        (np.hstack([5 * np.eye(5)] * 2), 1 - np.log(2) / np.log(10), 1),
        (np.zeros((4, 3)), 0, 0),
        (np.ones((4, 3)), 0, 0),
        (np.vstack([np.zeros((1, 3)), np.eye(3)]), 1, 1),
        ([[2.0]], 1, 1),
        ([[0.0]], 0, 0),
        (np.ones((4, 1)), 1, 0),
    ],
)
def test_planted_importances(importance, d, c):
    result = dci_from_importance(importance)
    assert result.disentanglement == pytest.approx(d, abs=1e-12)
    assert result.completeness == pytest.approx(c, abs=1e-12)
    assert float(result) == result.value == result.disentanglement


def test_weights_of_codes_and_factors():
    importance = np.array([[4.0, 0], [1, 1]])
    result = dci_from_importance(importance)
    assert result.disentanglement == pytest.approx(4 / 6)
    np.testing.assert_allclose(result.per_code, [1, 0], atol=1e-12)
    skewed = 1 + (0.8 * np.log(0.8) + 0.2 * np.log(0.2)) / np.log(2)
    assert result.completeness == pytest.approx((skewed + 1) / 2)
    assert dci_from_importance(importance, completeness="weighted").completeness == pytest.approx(
        5 / 6 * skewed + 1 / 6
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 10**6), st.floats(1e-6, 1e6))
def test_importances_can_be_permuted_and_scaled(d, k, seed, scale):
    rng = np.random.default_rng(seed)
    r = rng.exponential(size=(d, k)) ** 3
    one, two = dci_from_importance(r), dci_from_importance(scale * r[rng.permutation(d)][:, rng.permutation(k)])
    assert one.disentanglement == pytest.approx(two.disentanglement, abs=1e-9)
    assert one.completeness == pytest.approx(two.completeness, abs=1e-9)
    assert -1e-9 <= one.disentanglement <= 1 + 1e-9


@pytest.mark.parametrize(("n", "d", "k", "folds"), [(203, 6, 3, 5), (1000, 10, 2, 10), (60, 12, 2, 3)])
def test_lasso_is_lassocv(n, d, k, folds):
    rng = np.random.default_rng(n)
    y = rng.normal(size=(n, k))
    x = y @ (rng.normal(size=(k, d)) * (rng.random((k, d)) < 0.6)) + rng.normal(size=(n, d)) + 3
    ours = lasso.fit(x, y, folds=folds)
    for j in range(k):
        theirs = LassoCV(cv=folds, tol=1e-12, max_iter=100_000).fit(x, y[:, j])
        assert ours.alpha[j] == pytest.approx(theirs.alpha_, rel=1e-9)
        np.testing.assert_allclose(ours.weights[:, j], theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.predict(x)[:, j], theirs.predict(x), atol=1e-5)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    scaled = lasso.fit(x, y, folds=folds, scale="standard")
    apart = lasso.fit((x - mean) / deviation, (y - y.mean(axis=0)) / y.std(axis=0), folds=folds)
    np.testing.assert_allclose(scaled.weights, apart.weights, atol=1e-9)


def violation(x, y, fit):
    """How far the weights are from optimal, in units of the penalty: the largest breach of the subgradient's bounds."""
    x, y = (a - a.mean(axis=0) for a in (x, y))
    pull = x.T @ (y - x @ fit.weights) / len(x)
    on = fit.weights != 0
    return (np.where(on, np.abs(pull - fit.alpha * np.sign(fit.weights)), np.abs(pull) - fit.alpha) / fit.alpha).max()


@pytest.mark.parametrize("factors", [2, 4, 6, 10])
def test_lasso_of_a_singular_design_is_optimal(factors):
    v = standardised(np.random.default_rng(factors).uniform(size=(10_000, factors)))
    # columns with signs in turn add up to 0 (Carbonneau et al., 5.3, at 0.5)
    mixed = standardised(0.5 * v + 0.5 * np.roll(v, 1, axis=1))
    for x in (mixed, np.column_stack([v, v, mixed, np.ones(len(v))])):
        assert violation(x, v, lasso.fit(x, v)) < 1e-8
        assert violation(x, v, lasso.fit(x, v, alphas=[1e-4])) < 1e-8


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(3, 40), st.integers(0, 10**6))
def test_lasso_of_dependent_inputs_is_optimal(rank, d, n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, rank)) @ rng.integers(-1, 2, size=(rank, d))
    y = x @ rng.normal(size=(d, 2)) + rng.normal(size=(n, 2))
    for alpha in (0.3, 1e-3):
        assert violation(x, y, lasso.fit(x, y, alphas=[alpha], folds=2)) < 1e-8


def test_lasso_with_given_penalties_and_collinear_codes():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, 1))
    x = np.column_stack([y, y, np.zeros(300), rng.normal(size=300)])
    ours = lasso.fit(x, y, alphas=[1.0, 0.01, 0.1])
    assert ours.alpha[0] == 0.01
    assert ours.weights[0, 0] == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(ours.weights[1:, 0], 0, atol=1e-6)
    with pytest.raises(ValueError, match="alphas"):
        lasso.fit(x, y, alphas=[0.0])


def boost(train, test, target, classes, rng):
    fitted = fit_boosted(train, target, classes, rng)
    return fitted.importance, fitted.predict(test)


def test_boosting_is_scikit_learns():
    codes, v = mixed(300)
    test = mixed(200, seed=1)[0]
    importance, guess = boost(Sorted.of(codes), test, v[:, 0], 0, np.random.default_rng(0))
    theirs = GradientBoostingRegressor(random_state=0).fit(codes, v[:, 0])
    np.testing.assert_allclose(importance, theirs.feature_importances_, atol=1e-3)
    np.testing.assert_allclose(guess, theirs.predict(test), atol=0.03)
    for column, classes in ((v[:, 2], 3), (v[:, 2] > 0, 2)):
        noisy = np.where(np.random.default_rng(2).random(300) < 0.2, 1, column).astype(int)
        models = (Trees("boosted", backend=backend) for backend in ("fast", "sklearn"))
        ours, exact = (dci(codes, noisy, model=model, continuous=False) for model in models)
        assert len(np.unique(noisy)) == classes
        np.testing.assert_allclose(ours.importance, exact.importance, atol=0.01)
        assert ours.informativeness == pytest.approx(exact.informativeness, abs=0.02)


def test_wide_keys_give_the_same_trees():
    codes, v = mixed(200)
    narrow = Sorted.of(codes)
    row = narrow.keys & narrow.mask
    wide = Sorted(codes, (narrow.keys.astype(np.uint64) >> 16) << 32 | row, np.uint64(2**32 - 1))
    for classes, column in ((0, v[:, 0]), (3, v[:, 2].astype(int))):
        one, two = (boost(keys, codes, column, classes, np.random.default_rng(0)) for keys in (narrow, wide))
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])


def circle(n=2400, values=40, seed=0):
    """Cosine and sine of an angle of few values: many codes that differ by rounding only, and the angle's label."""
    label = np.random.default_rng(seed).integers(values, size=n)
    angle = label * 2 * np.pi / values
    return np.column_stack([np.cos(angle), np.sin(angle)]), label


@pytest.mark.parametrize("model", ["forest", "boosted"])
def test_no_split_between_rounding_errors(model):
    codes, label = circle()
    found = dci(codes, label, model=model)
    assert len(np.unique(codes[:, 0])) > 21  # as many as there are cosines
    assert found.informativeness == 1.0
    for change in (lambda z: z * 2.0**-70, lambda z: z * 2.0**90, lambda z: 4 * z):  # exact in floats
        np.testing.assert_array_equal(dci(change(codes), label, model=model).importance, found.importance)


def test_trees_of_an_angle_are_scikit_learns():
    codes, label = circle(600, values=8)
    for classes, column in ((0, label.astype(float)), (8, label)):
        importance, guess = boost(Sorted.of(codes), codes, column, classes, np.random.default_rng(0))
        kind = GradientBoostingClassifier if classes else GradientBoostingRegressor
        theirs = kind(random_state=0).fit(codes, column)
        np.testing.assert_allclose(importance, theirs.feature_importances_, atol=0.02)
        np.testing.assert_allclose(guess, theirs.predict(codes), atol=1e-3)


def test_a_threshold_lies_below_the_upper_of_two_neighbouring_floats():
    below = np.nextafter(1.0, 2.0)  # odd in its last bit, so that the middle rounds up
    above = np.nextafter(below, 2.0)
    assert below / 2 + above / 2 == above
    label = np.arange(60) % 2
    codes = np.where(label, above, below)[:, None]
    assert (boost(Sorted.of(codes), codes, label, 2, np.random.default_rng(0))[1] == label).all()
    guess = forest(Sorted.of(codes), codes, label, 2, np.random.default_rng(0), depths=[1])[1]
    assert (guess[0].argmax(axis=1) == label).all()


def test_outliers_and_long_tails_do_not_coarsen_the_codes():
    rng = np.random.default_rng(0)
    label = rng.integers(6, size=800)
    codes = label + 0.1 * rng.uniform(size=800)
    wild = np.append(1e9, codes[1:])
    for z in (wild, np.exp(4 * codes)):
        guess = forest(Sorted.of(z[:, None]), z[1:, None], label, 6, np.random.default_rng(0), depths=[8])[1]
        assert (guess[0].argmax(axis=1) == label[1:]).all()


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_forests_are_scikit_learns_on_average(kind):
    codes, v = mixed(400)
    test, truth = mixed(300, seed=1)
    label = np.minimum((v[:, 0] * 6).astype(int), 5)
    ours, theirs = [], []
    for seed in range(12):
        if kind == "labels":
            importance, guess, _ = forest(Sorted.of(codes), test, label, 6, np.random.default_rng(seed), depths=[5])
            model = RandomForestClassifier(10, max_depth=5, max_features=1.0, random_state=seed).fit(codes, label)
            right = np.minimum((truth[:, 0] * 6).astype(int), 5)
            quality = (guess[0].argmax(axis=1) == right).mean(), (model.predict(test) == right).mean()
        else:
            importance, guess, _ = forest(Sorted.of(codes), test, v[:, 0], 0, np.random.default_rng(seed), depths=[5])
            model = RandomForestRegressor(10, max_depth=5, random_state=seed).fit(codes, v[:, 0])
            quality = tuple(100 * ((g - truth[:, 0]) ** 2).mean() for g in (guess[0, :, 0], model.predict(test)))
        ours.append([*importance, quality[0]])
        theirs.append([*model.feature_importances_, quality[1]])
    error = np.sqrt((np.var(ours, axis=0) + np.var(theirs, axis=0)) / 12) + 1e-4
    assert (np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)) < 4 * error).all()


def test_shares_of_splits_are_scikit_learns_on_average():
    codes, v = mixed(400)
    ours, theirs = [], []
    for seed in range(12):
        ours.append(forest(Sorted.of(codes), codes, v[:, 0], 0, np.random.default_rng(seed), depths=[4]).splits)
        model = RandomForestRegressor(10, max_depth=4, random_state=seed).fit(codes, v[:, 0])
        counts = [
            np.bincount(t.tree_.feature[t.tree_.feature >= 0], minlength=codes.shape[1]) for t in model.estimators_
        ]
        theirs.append(np.mean([count / count.sum() for count in counts], axis=0))
    error = np.sqrt((np.var(ours, axis=0) + np.var(theirs, axis=0)) / 12) + 1e-4
    assert (np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)) < 4 * error).all()
    np.testing.assert_allclose(np.sum(ours, axis=1), 1)


def test_both_readings_of_importance_come_from_one_forest():
    """Eastwood and Williams (2018), section 4.3, count splits; the decrease of impurity is what scikit-learn has."""
    codes, v = mixed(400)
    codes = codes + np.random.default_rng(3).normal(size=codes.shape) * 0.2 * codes.std(axis=0)
    given = {"depths": (8,), "folds": 2}
    by_splits = dci(codes, v, model=Trees("forest", importance="splits", **given))
    by_impurity = dci(codes, v, model=Trees("forest", **given))
    both = by_impurity.details["importances"]
    np.testing.assert_array_equal(by_splits.importance, both["splits"])
    np.testing.assert_array_equal(by_impurity.importance, both["impurity"])
    np.testing.assert_array_equal(by_splits.per_factor_informativeness, by_impurity.per_factor_informativeness)
    assert by_splits.disentanglement < by_impurity.disentanglement  # near the leaves splits fall on noise, too
    with pytest.raises(ValueError, match="importance must be one of impurity, splits, got 'gain'"):
        Trees(importance="gain")
    with pytest.raises(ValueError, match="for forests"):
        Trees("boosted", importance="splits")


def test_a_forest_of_one_leaf_has_no_importance():
    constant = np.zeros((20, 2))
    grown = forest(Sorted.of(constant), constant, np.arange(20.0), 0, np.random.default_rng(0), depths=[3])
    assert grown.importance.tolist() == grown.splits.tolist() == [0, 0]


def test_a_forest_cut_off_is_the_forest_grown_to_that_depth():
    codes, v = mixed(300)
    sorted_codes = Sorted.of(codes)
    deep = forest(sorted_codes, codes, v[:, 0], 0, np.random.default_rng(0), depths=[1, 3, 20])[1]
    one = forest(sorted_codes, codes, v[:, 0], 0, np.random.default_rng(0), depths=[1])[1]
    np.testing.assert_allclose(deep[0], one[0])
    np.testing.assert_array_less(((deep[2, :, 0] - v[:, 0]) ** 2).mean(), ((deep[1, :, 0] - v[:, 0]) ** 2).mean())


@pytest.mark.parametrize("model", MODELS)
def test_identity_duplicates_and_zeros(model):
    v = planted.labels(600, (6, 6, 6))
    identity = dci(v, v, model=model)
    assert identity.disentanglement == pytest.approx(1, abs=0.01)
    assert identity.completeness == pytest.approx(1, abs=0.01)
    assert identity.informativeness == pytest.approx(1, abs=0.01)
    assert identity.matrix.shape == identity.importance.T.shape == (3, 3)
    double = dci(planted.duplicated(v), v, model=model)
    assert double.disentanglement == pytest.approx(1, abs=0.01)
    if model != "lasso":  # which drops the second copy
        assert double.completeness == pytest.approx(1 - np.log(2) / np.log(6), abs=0.08)
    zeros = dci(np.zeros((600, 4)), v, model=model)
    assert (zeros.disentanglement, zeros.completeness) == (0, 0)
    assert np.isnan(zeros.per_code).all()
    assert zeros.informativeness < 0.6


@pytest.mark.parametrize("model", MODELS)
def test_a_dead_first_code_does_not_count(model):
    v = np.random.default_rng(0).uniform(size=(400, 3))
    result = dci(np.column_stack([np.ones(400), v]), v, model=model)
    assert result.disentanglement == pytest.approx(1, abs=0.05)
    assert np.isnan(result.per_code[0])


@pytest.mark.parametrize("case", ["identity", "perm_dead_noise", "duplicated", "random"])
def test_reference(case):
    (codes, factors), (test_codes, test_factors) = planted.reference(case)
    expected = planted.published(case)["dci_1000_1000"]["result"]
    result = dci(
        codes[:1000],
        factors[:1000],
        test=(test_codes[:1000], test_factors[:1000]),
        model="boosted",
        continuous=False,
        completeness="weighted",
    )
    assert result.disentanglement == pytest.approx(expected["disentanglement"], abs=0.02)
    assert result.completeness == pytest.approx(expected["completeness"], abs=0.02)
    assert result.informativeness == pytest.approx(expected["informativeness_test"], abs=0.02)


@pytest.mark.parametrize(("row", "printed"), list(enumerate([(0.98, 1.0, 0.6), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)])))
def test_table_one_lasso(row, printed):
    codes, angles = list(planted.table_one().values())[row]
    result = dci(codes, angles, model=LASSO, continuous=True, guess_error=1 / 12)
    assert (result.disentanglement, result.completeness, result.informativeness) == pytest.approx(printed, abs=0.06)


@pytest.mark.parametrize(("row", "printed"), list(enumerate([(1.0, 0.7, 1.0), (1.0, 0.7, 1.0), (1.0, 0.4, 1.0)])))
def test_table_one_forest(row, printed):
    codes, angles = list(planted.table_one(4_000).values())[row]
    result = dci(codes, angles, model=Trees("forest", folds=3), continuous=True, guess_error=1 / 12)
    assert (result.disentanglement, result.completeness, result.informativeness) == pytest.approx(printed, abs=0.06)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(4)), st.permutations(range(3)))
def test_lasso_invariances(seed, codes_order, factors_order):
    rng = np.random.default_rng(seed)
    codes, v = mixed(200, seed)
    changed = (codes * rng.choice([-50.0, -1, 0.01, 3], size=4) + rng.normal(size=4))[:, list(codes_order)]
    one, two = dci(codes, v), dci(changed, v[:, list(factors_order)])
    assert one.disentanglement == pytest.approx(two.disentanglement, abs=1e-6)
    assert one.completeness == pytest.approx(two.completeness, abs=1e-6)
    assert one.informativeness == pytest.approx(two.informativeness, abs=1e-6)
    np.testing.assert_allclose(one.importance[codes_order][:, factors_order], two.importance, atol=1e-6)


@pytest.mark.parametrize("model", ["forest", "boosted"])
def test_tree_invariances(model):
    codes, v = mixed(500)
    changed = np.exp(codes[:, [2, 0, 3, 1]] * -0.3)
    one, two = dci(codes, v, model=model), dci(changed, v, model=model)
    assert one.disentanglement == pytest.approx(two.disentanglement, abs=0.06)
    assert one.completeness == pytest.approx(two.completeness, abs=0.06)


@pytest.mark.parametrize(
    "model", [Trees("forest", depths=(4, 8), folds=3), "boosted", Trees("boosted", backend="sklearn")]
)
def test_the_unit_and_the_offset_of_a_factor_do_not_matter_to_trees(model):
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(300, 2))
    codes = v + 0.05 * rng.normal(size=v.shape)
    one = dci(codes, v, model=model)
    assert one.disentanglement > 0.9
    for moved in (v * 1e-9, v * 1e9, v + 1e8):
        other = dci(codes, moved, model=model, continuous=True)
        assert other.disentanglement == pytest.approx(one.disentanglement, abs=1e-3)
        assert other.completeness == pytest.approx(one.completeness, abs=1e-3)
        assert other.informativeness == pytest.approx(one.informativeness, abs=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_result(model):
    codes, v = mixed(200)
    one, two, other = (dci(codes, v, model=model, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.importance, two.importance)
    assert one.informativeness == two.informativeness
    assert not np.array_equal(one.importance, other.importance)


def test_measures_of_informativeness():
    codes, v = mixed(1000)
    assert dci(codes, v, model=Trees(folds=3)).details["measures"] == ("explicitness", "explicitness", "accuracy")
    noisy = dci(codes, v, informativeness="nrmse")
    assert noisy.per_factor_informativeness[0] == pytest.approx(0.05 * np.sqrt(12), abs=0.03)
    mse = 0.05**2
    assert dci(codes, v).per_factor_informativeness[0] == pytest.approx(1 - 6 * mse, abs=0.005)
    assert dci(codes, v, guess_error=1 / 12).per_factor_informativeness[0] == pytest.approx(1 - 12 * mse, abs=0.01)
    noise = np.random.default_rng(0).normal(size=(1000, 3))
    assert dci(noise, v, guess_error=1 / 12).informativeness < 0.05


@pytest.mark.parametrize("model", MODELS)
def test_classes_that_one_side_lacks(model):
    rng = np.random.default_rng(0)
    v = rng.integers(4, size=(120, 2))
    held = rng.integers(6, size=(60, 2))
    result = dci(v, v, test=(held, held), model=model)
    assert np.isfinite(result.informativeness)
    if model != "lasso":
        assert result.informativeness == 1.0
    single = np.column_stack([v[:, 0], np.zeros(120)])
    with pytest.warns(UserWarning, match="factor 1"):
        result = dci(v, single, test=(held, held), model=model)
    assert np.isfinite([result.disentanglement, result.completeness]).all()


@pytest.mark.parametrize("model", MODELS)
def test_edges(model):
    codes, v = mixed(150)
    with pytest.warns(UserWarning, match="factor 1"):
        result = dci(codes, np.column_stack([v[:, 0], np.ones(150), v[:, 2]]), model=model)
    assert np.isnan(result.importance[:, 1]).all()
    assert np.isnan(result.per_factor[1])
    assert result.importance.shape == (4, 3)
    assert dci(codes[:, :1], v[:, :1], model=model).disentanglement == 1
    assert 0 <= dci(codes[:, :1], v, model=model).disentanglement <= 1
    assert 0 <= dci(codes, v[:, 0], model=model).completeness <= 1
    small = dci(codes[:8], v[:8], model=model)
    assert 0 <= small.disentanglement <= 1


@pytest.mark.filterwarnings("ignore:dropped constant factors")
def test_details_are_of_the_factors_given():
    codes, v = mixed(200)
    given = np.column_stack([v[:, 0], np.ones(200), v[:, 2]])
    result = dci(codes, given, model=Trees("forest", depths=(4, 8), folds=2))
    assert result.details["measures"] == ("explicitness", None, "accuracy")
    both = result.details["importances"]
    np.testing.assert_array_equal(result.importance, both["impurity"])
    assert np.isnan(both["splits"][:, 1]).all()
    again = dci_from_importance(result.importance)
    assert (again.disentanglement, again.completeness) == (result.disentanglement, result.completeness)
    np.testing.assert_array_equal(again.per_factor, result.per_factor)
    np.testing.assert_array_equal(again.importance, result.importance)


@pytest.mark.parametrize("model", ["lasso", "forest"])
def test_rows_that_train_beside_test_rows(monkeypatch, model):
    codes, v = mixed(100)
    seen = []
    monkeypatch.setattr("karenina.metrics._dci._quality", lambda how, v, train, *rest: seen.append(len(train)) or 1.0)
    for rows in (None, 30, 500):
        dci(codes, v, model=model, rows=rows, test=(codes[:20], v[:20]))
    assert seen == [100] * 3 + [30] * 3 + [100] * 3
    with pytest.raises(ValueError, match="rows must be an integer of at least 6"):
        dci(codes, v, model=model, rows=2, test=(codes, v))


def test_bad_inputs():
    codes, v = mixed(50)
    for arguments, message in (
        ({"model": "svm"}, "model must be one of lasso, forest, boosted, got 'svm'"),
        ({"completeness": "max"}, "completeness"),
        ({"informativeness": "r2"}, "informativeness"),
        ({"informativeness": "accuracy"}, "lasso predicts numbers"),
        ({"model": Lasso(alphas=(-1.0,))}, "alphas"),
        ({"test_fraction": 1.5}, "test_fraction"),
        ({"rows": 5}, "rows must be .* got 5"),
        ({"test": codes}, "test must be a tuple of codes"),
        ({"test": (codes[:, :2], v)}, "test has shapes"),
    ):
        with pytest.raises(ValueError, match=message):
            dci(codes, v, **arguments)
    for model, arguments, message in (
        (Trees, {"kind": "bushes"}, "kind"),
        (Trees, {"backend": "gpu"}, "backend"),
        (Trees, {"folds": 1}, "folds"),
        (Trees, {"depths": (0, 2)}, "depths"),
        (Trees, {"max_features": 0}, "max_features"),
        (Lasso, {"scale": "log"}, "scale"),
        (Lasso, {"folds": 1}, "folds"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**arguments)
    with pytest.raises(ValueError, match="row 3, column 1"):
        dci(np.where(np.arange(200).reshape(50, 4) == 13, np.nan, codes), v)
    with pytest.raises(ValueError, match="at least 6"):
        dci(codes[:3], v[:3])
    for bad in (np.ones(3), -np.eye(2), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="importance"):
            dci_from_importance(bad)


@pytest.mark.parametrize("scale", [1e-200, 1e160, 1e300])
def test_codes_whose_squares_are_beyond_floats(scale):
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(300, 3))
    codes = v + 0.05 * rng.normal(size=v.shape)
    one, other = dci(codes, v), dci(codes * scale, v)
    assert other.disentanglement == pytest.approx(one.disentanglement, abs=1e-6)
    assert other.informativeness == pytest.approx(one.informativeness, abs=1e-6)
