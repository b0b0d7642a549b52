"""Alignment: a rotated code is told from an entangled one, and noise cannot be aligned."""

import time

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.metrics import alignment
from karenina.metrics._dci import Trees, dci, dci_from_importance
from karenina.metrics._inputs import check
from karenina.metrics.alignment import _importance, _shares, aligned_dci, turn_planes


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


def criterion(r):
    found = dci_from_importance(r, completeness="weighted")
    return found.disentanglement + found.completeness


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_planes_are_turned_as_codes_are(d, k):
    rng = np.random.default_rng(d)
    labels = rng.integers(5, size=(500, k))
    z = labels @ rng.normal(size=(k, d)) + rng.normal(size=(500, d))
    shares = _shares(z - z.mean(axis=0), labels)
    as_given = np.ascontiguousarray(shares.transpose(1, 2, 0))
    stages = np.linspace(0, np.pi / 2, 7)[None]
    values = [criterion(_importance(shares))]
    for most in range(d * (d - 1) // 2 + 1):
        turned, turn = as_given.copy(), np.eye(d)
        value, ended = turn_planes(turned, turn, np.arange(d), stages, 1, most, 1e-6)
        assert ended == (most == d * (d - 1) // 2)
        expected = _shares((z - z.mean(axis=0)) @ turn, labels)
        np.testing.assert_allclose(turned.transpose(2, 0, 1), expected, atol=1e-12)
        assert value == pytest.approx(criterion(_importance(expected)))
        values.append(value)
    assert (np.diff(values) > -1e-12).all()


def test_the_first_plane_is_turned_to_its_best_angle():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=(500, 2))
    z = labels @ rng.normal(size=(2, 3)) + rng.normal(size=(500, 3))
    z -= z.mean(axis=0)
    stages = np.linspace(-1, 1, 201)[None]
    tried = []
    for angle in stages[0]:
        plane = np.eye(3)
        plane[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        tried.append(criterion(_importance(_shares(z @ plane, labels))))
    turned, turn = np.ascontiguousarray(_shares(z, labels).transpose(1, 2, 0)), np.eye(3)
    assert turn_planes(turned, turn, np.arange(3), stages, 1, 1, 0.0)[0] == pytest.approx(max(tried))
    assert np.arctan2(turn[1, 0], turn[0, 0]) == pytest.approx(stages[0, np.argmax(tried)])


def test_shares_of_variance():
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(6000, 2))
    z = np.column_stack([v[:, 0] - 2.5, rng.normal(size=6000), (v[:, 1] == 3) - 1 / 6])
    r = _importance(_shares(z - z.mean(axis=0), v))
    np.testing.assert_allclose(r, [[1, 0], [0, 0], [0, 1]], atol=0.005)


def one_hot(factors):
    return np.concatenate([np.eye(column.max() + 1)[column] for column in factors.T], axis=1)


def test_never_below_the_view_given():
    labels = planted.labels(1500, (4, 4, 4))
    rng = np.random.default_rng(0)
    angles = 2 * np.pi * uniform(1500, 3)
    cases = [(one_hot(labels), labels), (one_hot(labels) + 0.1 * rng.normal(size=(1500, 12)), labels)]
    cases += [(np.hstack([np.cos(angles), np.sin(angles)]), angles), (rng.normal(size=(1500, 6)), labels)]
    for codes, factors in cases:
        for seed in range(3):
            result = aligned_dci(codes, factors, seed=seed)
            assert result.gain >= 0
            assert result.value + result.aligned.completeness >= result.plain.value + result.plain.completeness
    given = aligned_dci(*cases[0])
    np.testing.assert_array_equal(given.view, np.eye(12))
    assert given.value == pytest.approx(1)


def sparse(factors, d, seed=0):
    """Codes that are 0 in nine of ten rows, each about one or two factors."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(factors.shape[1], d)) * (rng.uniform(size=(factors.shape[1], d)) < 0.3)
    z = (factors - factors.mean(axis=0)) @ weights + 0.1 * rng.normal(size=(len(factors), d))
    return np.where(z > np.quantile(z, 0.9, axis=0), z, 0)


def test_sparse_codes_take_seconds():
    labels = planted.labels(2000, (5, 6, 7, 8))
    start = time.process_time()
    assert aligned_dci(sparse(labels, 60), labels).gain >= 0
    assert time.process_time() - start < 10


def test_work_is_bounded_and_a_note_says_so(monkeypatch):
    v = uniform(2000)
    codes = np.column_stack([v @ planted.rotation(4), np.random.default_rng(0).normal(size=(2000, 26))])
    whole = aligned_dci(codes, v)
    for bound, most in (("PLANES", 300), ("WIDE", 12)):
        with monkeypatch.context() as patch:
            patch.setattr(alignment, bound, most)
            with pytest.warns(UserWarning, match="the search for a view of 30 codes was cut short"):
                cut = aligned_dci(codes, v)
        assert 0.2 < cut.gain <= whole.gain + 0.05
    with pytest.raises(ValueError, match="there are 501 codes that vary"):
        aligned_dci(np.random.default_rng(0).normal(size=(2000, 501)), v)


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
