"""Alignment: a rotated code is told from an entangled one, and noise cannot be aligned."""

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.metrics._dci import Trees, dci, dci_from_importance
from karenina.metrics._inputs import check
from karenina.metrics.alignment import _criterion, _importance, _shares, _turned, aligned_dci


def uniform(n=3000, k=4, seed=0):
    return planted.uniform(n, k, seed)


def test_identity_stays_one():
    v = uniform()
    result = aligned_dci(v, v)
    assert result.plain.disentanglement == pytest.approx(1, abs=0.01)
    assert result.aligned.disentanglement == pytest.approx(1, abs=0.01)
    assert float(result) == result.value == result.aligned.disentanglement


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_rotated_codes_are_found_out(seed, whiten):
    v = uniform(seed=seed)
    result = aligned_dci(v @ planted.rotation(4, seed), v, whiten=whiten, seed=seed)
    assert result.plain.disentanglement < 0.8
    assert result.aligned.disentanglement > 0.97
    assert result.aligned.completeness > 0.97
    assert result.gain > 0.2


def test_any_linear_mixing_with_dead_and_noise_codes():
    v = uniform()
    rng = np.random.default_rng(1)
    wide = np.column_stack([v, rng.normal(size=(len(v), 3))]) @ rng.normal(size=(7, 7))
    result = aligned_dci(np.column_stack([np.ones(len(v)), wide]), v)
    assert result.plain.disentanglement < 0.5
    assert result.aligned.disentanglement > 0.97
    assert result.view.shape == (8, 7)
    assert (result.view[0] == 0).all()


def test_duplicated_rotated_codes_lose_their_copies():
    v = uniform()
    codes = v @ planted.rotation(4)
    result = aligned_dci(np.column_stack([codes, codes]), v)
    assert result.view.shape == (8, 4)
    assert result.aligned.disentanglement > 0.97


def test_rotated_angles_with_a_forest():
    angles = uniform(2500, 3) * 2 * np.pi
    codes = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(angles), -1) @ planted.rotation(6)
    result = aligned_dci(codes, angles, model=Trees("forest", folds=3))
    assert result.plain.disentanglement < 0.5
    assert result.aligned.disentanglement > 0.9
    assert result.aligned.informativeness > result.plain.informativeness


def test_labels_rotated():
    rng = np.random.default_rng(0)
    v = rng.integers(0, [3, 6, 10], size=(3000, 3))
    codes = planted.rotated(v)
    assert aligned_dci(codes, v).aligned.disentanglement > 0.97


def test_products_and_noise_are_not_aligned():
    v = uniform() - 0.5
    products = np.stack([v[:, i] * v[:, (i + 1) % 4] for i in range(4)], axis=1)
    noise = np.random.default_rng(3).normal(size=(len(v), 6))
    for codes in (products, noise):
        result = aligned_dci(codes, v, model=Trees("forest", folds=3))
        assert result.aligned.disentanglement < 0.4
        assert result.gain < 0.15
        assert result.found[1] > result.found[0]  # the searched half alone would have believed it


def test_the_criterion_is_that_of_dci():
    rng = np.random.default_rng(0)
    r = rng.exponential(size=(3, 5, 4))
    for value, matrix in zip(_criterion(r), r):
        expected = dci_from_importance(matrix, completeness="weighted")
        assert value == pytest.approx(expected.disentanglement + expected.completeness)


def test_turning_a_plane_is_turning_the_codes():
    v = uniform(500, 3)
    labels = (v * 5).astype(int)
    z = (v @ np.random.default_rng(1).normal(size=(3, 3))) - 0.3
    angle = 0.7
    plane = np.eye(3)
    plane[0, 0] = plane[2, 2] = np.cos(angle)
    plane[2, 0], plane[0, 2] = np.sin(angle), -np.sin(angle)
    expected = _criterion(_importance(*_shares(z @ plane, labels))[None])[0]
    assert _turned(*_shares(z, labels), 0, 2, np.array([angle]))[0] == pytest.approx(expected)


def test_shares_of_variance():
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(6000, 2))
    z = np.column_stack([v[:, 0] - 2.5, rng.normal(size=6000), (v[:, 1] == 3) - 1 / 6])
    r = _importance(*_shares(z - z.mean(axis=0), v))
    np.testing.assert_allclose(r, [[1, 0], [0, 0], [0, 1]], atol=0.005)


def test_view_gives_the_aligned_codes_and_the_seed_fixes_it():
    v = uniform(800)
    codes = v @ planted.rotation(4)
    one, two = aligned_dci(codes, v, seed=3), aligned_dci(codes, v, seed=3)
    np.testing.assert_array_equal(one.view, two.view)
    assert float(one) == float(two)
    aligned = (codes - one.mean) @ one.view
    correlation = np.abs(np.corrcoef(aligned.T, v.T)[:4, 4:])
    assert (np.sort(correlation.max(axis=0)) > 0.99).all()


def test_test_rows_are_refused():
    v = np.random.default_rng(0).uniform(size=(60, 2))
    with pytest.raises(ValueError, match="aligned_dci takes no test rows"):
        aligned_dci(v, v, test=(v, v))
    with pytest.raises(ValueError, match="test rows are part of checked inputs"):
        dci(check(v, v), test=(v, v))


def test_edges():
    v = uniform(200)
    zeros = aligned_dci(np.zeros((200, 3)), v)
    assert (zeros.plain.disentanglement, zeros.aligned.disentanglement) == (0, 0)
    with pytest.warns(UserWarning, match="factor 1"):
        result = aligned_dci(v, np.column_stack([v[:, 0], np.ones(200), v[:, 1]]))
    assert np.isnan(result.per_factor[1])
    assert result.matrix.shape == (3, 4)
    assert 0 <= float(aligned_dci(v[:, :1], v)) <= 1
    assert float(aligned_dci(v, v[:, :1])) == 1
    with pytest.raises(ValueError, match="at least 12"):
        aligned_dci(v[:8], v[:8])
    with pytest.raises(ValueError, match="model must be"):
        aligned_dci(v, v, model="svm")


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("scale", [1e-200, 1e160, 1e300])
def test_codes_whose_squares_are_beyond_floats(scale, whiten):
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(300, 3))
    codes = v + 0.05 * rng.normal(size=v.shape)
    one, other = (aligned_dci(z, v, whiten=whiten) for z in (codes, codes * scale))
    assert other.value == pytest.approx(one.value, abs=1e-6)
    assert other.plain.value == pytest.approx(one.plain.value, abs=1e-6)
