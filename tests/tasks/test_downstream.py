import warnings

import numpy as np
import planted
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from karenina.numerics import logistic
from karenina.numerics.trees import Binned, boost
from karenina.tasks import downstream


def table(n=3000, sizes=(3, 6, 10), noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    v = rng.integers(sizes, size=(n, len(sizes)))
    return v + noise * rng.normal(size=v.shape), v


def of_reference(model, sizes, seed=0, columns=slice(None)):
    (codes, factors), (test_codes, test_factors) = planted.reference("identity")
    other = {"test": 1000, "test_codes": test_codes, "test_factors": test_factors[:, columns]}
    return downstream(codes, factors[:, columns], sizes=sizes, models=[model], seed=seed, **other)


@pytest.mark.parametrize(
    ("model", "name", "size", "seeds"),
    [
        ("logistic", "downstream_lrcv_10_1000", 10, 1),
        pytest.param("logistic", "downstream_lrcv_100_1000_1000", 1000, 1, marks=pytest.mark.slow),
        # With ten rows many splits are equally good, and chance decides between them.
        ("boosted", "downstream_gbt_10_1000", 10, 7),
        ("boosted", "downstream_gbt_100_1000_1000", 100, 1),
        ("boosted", "downstream_gbt_100_1000_1000", 1000, 1),
    ],
)
def test_reference_values(model, name, size, seeds):
    published = planted.published("identity")[name]["result"]
    scores = np.median([of_reference(model, (size,), seed).scores[0, 0] for seed in range(seeds)], axis=0)
    expected = [published[f"{size}:test_accuracy_factor_{j}"] for j in range(5)]
    assert np.abs(scores - expected).max() < 0.03
    assert abs(scores.mean() - published[f"{size}:mean_test_accuracy"]) < 0.01


def test_logistic_regression_on_100_rows_is_scikit_learns():
    """Cross-validation chooses between near-equal penalties there, so versions of scikit-learn differ by up to .07."""
    (codes, factors), (test_codes, test_factors) = planted.reference("identity")
    scores = of_reference("logistic", (100,), columns=slice(2)).scores[0, 0]
    for j in range(2):
        theirs = LogisticRegressionCV(Cs=10, cv=KFold(5))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs.fit(codes[:100], factors[:100, j])
        assert scores[j] == theirs.score(test_codes[:1000], test_factors[:1000, j])


def test_thresholds_lie_half_way_between_the_values_of_a_node():
    """The right half splits between 20 and 60, though another row has the value 30."""
    x = np.array([[0.0, 30], [0, 30], [1, 20], [1, 20], [1, 60], [1, 60]])
    y = np.array([5.0, 5, 0, 0, 1, 1])
    test = np.array([[1.0, value] for value in (25.0, 39, 41, 50)])
    ours = boost(Binned.of(x), y, 0, np.random.default_rng(0)).predict(test)
    assert ours == pytest.approx(GradientBoostingRegressor().fit(x, y).predict(test), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 7])
def test_fast_logistic_takes_the_steps_of_scikit_learn(classes):
    z, v = table(2300, (classes, 4), noise=0.4)
    train, test = slice(0, 300), slice(300, None)
    ours = logistic.cross_validated(z[train], v[train, 0], classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = LogisticRegressionCV(Cs=10, cv=KFold(5)).fit(z[train], v[train, 0])
    assert (ours.predict(z[test]) == theirs.predict(z[test])).mean() > 0.97
    assert (ours.predict(z[test]) == v[test, 0]).mean() == pytest.approx(theirs.score(z[test], v[test, 0]), abs=0.02)
    single = LogisticRegression(C=0.02).fit(z[train], v[train, 0])
    weights = logistic._path(np.column_stack([z[train], np.ones(300)]), v[train, 0], classes, np.array([0.02]))[0]
    assert weights == pytest.approx(np.column_stack([single.coef_, single.intercept_]), abs=1e-3)


def test_perfect_codes_are_read_by_trees_and_shuffled_codes_by_nobody():
    z, v = table()
    result = downstream(z, v, sizes=(10, 100, 1000), models=["boosted"])
    assert (result.scores[0, 2] == 1).all()
    assert result.efficiency[0] > 0.95
    assert (np.diff(result.mean[0]) >= 0).all()
    shuffled = downstream(np.random.default_rng(1).permutation(z), v, sizes=(1000,))
    assert np.abs(shuffled.scores[:, 0] - [1 / 3, 1 / 6, 1 / 10]).max() < 0.06
    assert np.isnan(shuffled.efficiency).all()


def test_sizes_beyond_the_rows_become_all_rows():
    z, v = table(300)
    result = downstream(z, v, models="boosted")
    assert result.sizes == (10, 100, 200)
    assert result.test == 100
    assert result.efficiency == pytest.approx(result.mean[:, 1] / result.mean[:, 2])
    assert list(result.summary()) == [f"downstream_boosted_{name}" for name in (10, 100, 200, "efficiency")]


def test_continuous_factors_get_regression():
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(900, 2))
    z = np.column_stack([v @ [1, 1], v @ [1, -1]]) + 0.05 * rng.normal(size=(900, 2))
    result = downstream(z[:600], v[:600], sizes=(600,), test_codes=z[600:], test_factors=v[600:])
    expected = r2_score(v[600:], z[600:] @ np.linalg.lstsq(z[:600], v[:600], rcond=None)[0], multioutput="raw_values")
    assert result.continuous.all()
    assert result.scores[0, 0] == pytest.approx(expected, abs=0.01)
    trees = [GradientBoostingRegressor(random_state=0).fit(z[:600], y).predict(z[600:]) for y in v[:600].T]
    assert result.scores[1, 0] == pytest.approx(
        r2_score(v[600:], np.transpose(trees), multioutput="raw_values"), abs=0.01
    )
    mixed = np.column_stack([v[:, 0], v[:, 1] > 0.5])
    assert downstream(z, mixed, sizes=(500,)).continuous.tolist() == [True, False]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 10])
def test_few_rows_and_missing_classes(n):
    z, v = table(200, (3, 6, 40), noise=0.1)
    more = np.column_stack([v, z[:, 0]])  # and one continuous factor
    result = downstream(z[:n], more[:n], test_codes=z, test_factors=more)
    assert result.sizes == (n,)
    assert np.isfinite(result.scores).all()
    assert (result.scores[:, :, :3] >= 0).all()


def test_r2_of_a_single_test_row_is_not_a_number():
    result = downstream([[0.1], [0.2], [0.3]], [[0.5], [0.7], [0.2]])
    assert np.isnan(result.mean).all()


def test_many_values_and_few_rows():
    z, v = table(200, (183,), noise=0.1)
    result = downstream(z, v, sizes=(100,))
    assert result.scores.shape == (2, 1, 1)
    assert 0 <= result.mean.max() < 0.7


def test_constant_factor_has_no_score():
    z, v = table(300)
    v[:, 1] = 4
    with pytest.warns(UserWarning, match="constant factors: column 1"):
        result = downstream(z, v, sizes=(50,))
    assert np.isnan(result.scores[:, :, 1]).all()
    assert np.isfinite(result.mean).all()


def test_same_seed_same_bytes():
    z, v = table(400, noise=0.3)
    one, two, other = (downstream(z, v[:, :1], sizes=(50, 260), seed=seed).scores for seed in (3, 3, 4))
    assert one.tobytes() == two.tobytes() != other.tobytes()


Z, V = table(30)


@pytest.mark.parametrize(
    ("codes", "factors", "options", "message"),
    [
        (Z, V[:20], {}, r"codes has 30 rows .* and factors 20"),
        (Z * np.nan, V, {}, r"codes of shape \(30, 3\) has nan at row 0, column 0"),
        (Z, V * 0, {}, "every factor is constant"),
        (Z[:2], V[:2], {}, "have 2 rows, at least 3"),
        (Z, V, {"models": ["svm"]}, "no model 'svm'; known: logistic, boosted"),
        (Z, V, {"sizes": [0]}, "each of sizes must be an integer of at least 1, got 0"),
        (Z, V, {"sizes": []}, "sizes must be one or more"),
        (Z, V, {"test": 0.5}, "test must be an integer of at least 1, got 0.5"),
        (Z, V, {"test_codes": Z}, "go together"),
        (Z, V, {"test_codes": Z[:, :2], "test_factors": V}, r"do not have the columns of"),
        (Z, V, {"continuous": [True]}, "continuous must be True, False or 3 of them"),
    ],
)
def test_bad_input(codes, factors, options, message):
    with pytest.raises(ValueError, match=message):
        downstream(codes, factors, **options)


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**-700, 2.0**600])
def test_units_of_continuous_factors_do_not_matter(unit):
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(300, 2))
    z = v @ [[1, 0.2], [0, 1]] + 0.05 * rng.normal(size=v.shape)
    plain, scaled = (downstream(z, factors, sizes=(100,)).scores for factors in (v, unit * v))
    assert plain.min() > 0.9
    assert scaled == pytest.approx(plain, abs=1e-9)


def test_text_of_test_rows_has_the_labels_of_the_training_rows():
    """Of which the test rows lack the first in order."""
    rng = np.random.default_rng(0)
    words = np.array(["ant", "bee", "cat"])
    v, w = rng.integers(3, size=300), rng.integers(1, 3, size=100)
    scores = downstream(v[:, None], words[v], sizes=(200,), test_codes=w[:, None], test_factors=words[w]).mean
    assert scores.tolist() == [[1.0], [1.0]]
