"""Prediction under a shift of factors."""

import numpy as np
import planted
import pytest

from karenina.tasks import shift
from karenina.tasks._shift import in_corner, near_diagonal

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


@pytest.mark.parametrize("kind", ["corner", "correlated"])
def test_trees_survive_a_shift_on_separate_codes_but_not_on_mixed_ones(kind):
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(1500, 2))
    codes = v + 0.1 * rng.normal(size=v.shape)
    apart, mixed = (
        shift(z, v, kind=kind, sigma=0.3, models=["boosted"], rows=600)
        for z in (codes, codes @ [[1.0, 1.0], [-1.0, 1.0]])
    )
    assert min(apart.seen.mean(), mixed.seen.mean()) > 0.9
    assert apart.unseen.mean() > 0.75 > 0.4 > mixed.unseen.mean()
    assert float(apart) == apart.summary()[f"shift_{kind}_boosted_unseen"]


def test_a_constant_factor_and_numbers():
    v = np.column_stack([np.random.default_rng(0).random((400, 2)), np.ones(400)])
    found = shift(v, v, models=["logistic"])
    assert np.isnan(found.seen[0, 2])
    assert (found.unseen[0, :2] > 0.99).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "other"}, "no kind 'other'"),
        ({"models": ["svm"]}, "no model 'svm'"),
        ({"pair_of": (0, 0)}, "two different columns of the 2 factors"),
        ({"pair_of": (0, 5)}, "two different columns"),
        ({"kind": "correlated", "sigma": 0}, "sigma must be above 0"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        shift(GRID, GRID, **options)
    with pytest.raises(ValueError, match="two factors, got one"):
        shift(GRID, GRID[:, 0])
