"""Prediction under a shift of factors."""

import numpy as np
import planted
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from karenina.tasks import shift
from karenina.tasks._shift import _SHIFT, in_corner, near_diagonal

GRID = planted.grid(6, 6, repeat=10)


def test_the_corner_is_where_both_factors_are_high():
    inside = in_corner(GRID, (0, 1))
    assert (inside == (GRID >= 4).all(axis=1)).all()
    assert (in_corner(planted.grid(2, 3), (0, 1)) == (planted.grid(2, 3) == [1, 2]).all(axis=1)).all()


def test_kept_rows_are_correlated_as_told():
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(20_000, 2))
    kept = v[near_diagonal(v, (0, 1), 0.3, rng)]
    share = np.histogram2d(*kept.T, bins=6)[0] / np.histogram2d(*v.T, bins=6)[0]
    a = np.arange(6) / 5
    assert share == pytest.approx(np.exp(-((a[:, None] - a) ** 2) / (2 * 0.3**2)), abs=0.08)


def by_scikit_learn(z, v, kind):
    """Accuracy (2, k) on rows like those trained on and on the others, of GradientBoostingClassifier on these rows."""
    rng = np.random.default_rng([0, _SHIFT])
    like = ~in_corner(v, (0, 1)) if kind == "corner" else near_diagonal(v, (0, 1), 0.3, rng)
    own, other = rng.permutation(np.flatnonzero(like)), np.flatnonzero(~like)
    seen, train = own[: len(own) // 3], own[len(own) // 3 :][:600]
    fitted = [GradientBoostingClassifier(random_state=0).fit(z[train], label[train]) for label in v.T]
    return [[model.score(z[rows], label[rows]) for model, label in zip(fitted, v.T)] for rows in (seen, other)]


@pytest.mark.parametrize("kind", ["corner", "correlated"])
@pytest.mark.parametrize("turned", [False, True])
def test_trees_under_a_shift_are_those_of_scikit_learn(kind, turned):
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(1500, 2))
    codes = v + 0.1 * rng.normal(size=v.shape)
    z = codes @ [[1.0, 1.0], [-1.0, 1.0]] if turned else codes
    found = shift(z, v, kind=kind, sigma=0.3, models=["boosted"], rows=600)
    # Half a step is five standard deviations of the noise: a split half way between two values errs on no row.
    expected = by_scikit_learn(z, v, kind) if turned else np.ones((2, 2))
    assert np.vstack([found.seen, found.unseen]) == pytest.approx(np.array(expected), abs=0.02)
    if turned and kind == "corner":
        # a + b is at most 8 in the training rows; at a greater sum trees answer as at 8 or below, a - 1 or b - 1.
        assert (found.unseen == 0).all()
    assert float(found) == found.summary()[f"shift_{kind}_boosted_unseen"]


def test_rows_are_drawn_apart_from_factors_of_the_same_seed():
    v = np.random.default_rng(0).integers(6, size=(3000, 2))
    kept = near_diagonal(v, (0, 1), 0.3, np.random.default_rng([0, _SHIFT]))
    a = np.arange(6) / 5
    expected = np.exp(-((a[:, None] - a) ** 2) / (2 * 0.3**2))
    share = np.histogram2d(*v[kept].T, bins=6)[0] / np.histogram2d(*v.T, bins=6)[0]
    assert share == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(3000 / 36))  # four standard errors at most


def test_a_constant_factor_and_numbers():
    v = np.column_stack([np.random.default_rng(0).random((400, 2)), np.ones(400)])
    found = shift(v, v, models=["logistic"])
    assert np.isnan(found.seen[0, 2])
    assert (found.unseen[0, :2] > 0.99).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "other"}, "kind must be one of corner, correlated"),
        ({"models": ["svm"]}, "no model 'svm'"),
        ({"pair_of": (0, 0)}, "two different columns of the 2 factors"),
        ({"pair_of": (0, 5)}, "two different columns"),
        ({"kind": "correlated", "sigma": 0}, "sigma must be above 0"),
        ({"rows": -5}, "rows must be an integer of at least 1, got -5"),
        ({"models": []}, "no model asked for; there are logistic, boosted"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        shift(GRID, GRID, **options)
    with pytest.raises(ValueError, match="two factors, got one"):
        shift(GRID, GRID[:, 0])


def test_units_of_factors_do_not_matter():
    rng = np.random.default_rng(0)
    v = rng.random((400, 2))
    scores = [shift(v + 0.05 * rng.normal(size=v.shape), unit * v, rows=200).unseen for unit in (2.0, 2.0**-40)]
    assert scores[0] == pytest.approx(scores[1], abs=0.2)
