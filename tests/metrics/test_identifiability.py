"""MCC, affine R2, the error of Yang and Amari and linearity against scipy, scikit-learn, loops and integrals."""

from itertools import permutations

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import LinearRegression

from karenina.metrics import linearity, mcc, r2_affine, yang_amari_error


@given(st.integers(0, 10_000), st.sampled_from([("linear", pearsonr), ("rank", spearmanr)]))
@settings(max_examples=20, deadline=None)
def test_mcc_is_the_best_of_all_matchings(seed, how):
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    factors = rng.integers(5, size=(40, k)) + np.arange(40)[:, None] % 2
    codes = factors @ rng.normal(size=(k, d)) + rng.normal(size=(40, d))
    table = np.abs([[how[1](v, z)[0] for z in codes.T] for v in factors.T])
    padded = np.hstack([table, np.zeros((k, k))])  # a factor may stay without a code
    best = max(sum(padded[i, j] for i, j in enumerate(choice)) for choice in permutations(range(d + k), k)) / k
    result = mcc(codes, factors, correlation=how[0])
    assert result.matrix == pytest.approx(table, abs=1e-9)
    assert result.value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_mcc_of_turned_factors_is_the_best_matching_of_the_rotation(seed):
    """corr(v_i, z_j) = R_ij for uncorrelated factors of one variance: exact on a grid."""
    factors = planted.grid(5, 5, 5)
    turn = planted.rotation(3, seed)
    best = max(np.mean([abs(turn[i, j]) for i, j in enumerate(order)]) for order in permutations(range(3)))
    assert float(mcc(factors @ turn, factors)) == pytest.approx(best, abs=1e-9)


def test_mcc_at_45_degrees():
    half = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    assert float(mcc(planted.grid(6, 6) @ half, planted.grid(6, 6))) == pytest.approx(np.sqrt(0.5), abs=1e-9)
    normal = np.random.default_rng(0).normal(size=(20_000, 2))
    # Spearman's correlation of normal variables that correlate by r is 6/pi arcsin(r/2); its standard error is < 0.005.
    expected = 6 / np.pi * np.arcsin(np.sqrt(0.5) / 2)
    assert float(mcc(normal @ half, normal, correlation="rank")) == pytest.approx(expected, abs=0.015)


def test_r2_is_that_of_linear_regression():
    rng = np.random.default_rng(0)
    factors, more = planted.uniform(200, 3), planted.uniform(100, 3, seed=1)
    mixing = rng.normal(size=(3, 4))
    codes, other = (np.sin(2 * v @ mixing) for v in (factors, more))
    expected = [LinearRegression().fit(codes, factors[:, j]).score(other, more[:, j]) for j in range(3)]
    assert r2_affine(codes, factors, test=(other, more)).per_factor == pytest.approx(expected, abs=1e-9)


def test_edges():
    factors = planted.labels(200, (3, 4))
    assert float(mcc(np.zeros((200, 2)), factors)) == float(r2_affine(np.zeros((200, 2)), factors)) == 0
    one = mcc(factors[:, 1:], factors)
    assert one.details["match"].tolist() == [-1, 0]
    assert one.per_factor.tolist() == pytest.approx([0, 1])
    assert float(r2_affine(1e-9 * factors, factors)) == pytest.approx(1)
    with pytest.raises(ValueError, match="correlation must be one of linear, rank, got 'kernel'"):
        mcc(factors, factors, correlation="kernel")


def test_a_code_that_is_constant_in_training_rows_does_not_count():
    v = np.random.default_rng(0).uniform(size=(60, 1))
    test = np.array([[0.2], [0.7], [0.9]])
    codes = np.column_stack([v, np.full(60, 0.1)])  # of which the mean is not 0.1, by rounding
    unseen = np.column_stack([test, [100.0, 0.1, 0.1]])
    assert float(r2_affine(codes, v, test=(unseen, test))) == pytest.approx(1)
    assert float(r2_affine(codes[:, 1:], v, test=(unseen[:, 1:], test))) < 0.1


def by_loops(p):
    """Eastwood and Williams (2018), equation 1, as it is printed."""
    p, error = np.abs(p), 0.0
    for i in range(len(p)):
        error += sum(p[i, j] / max(p[i]) for j in range(p.shape[1])) - 1
    for j in range(p.shape[1]):
        error += sum(p[i, j] / max(p[:, j]) for i in range(len(p))) - 1
    return error


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 5))
def test_the_error_is_the_equation(seed, d, k):
    p = np.random.default_rng(seed).normal(size=(d, k))
    assert yang_amari_error(p) == pytest.approx(by_loops(p))
    assert yang_amari_error(p[::-1] * -3) == pytest.approx(yang_amari_error(p))


def test_permutations_have_no_error_and_equal_entries_the_largest():
    for d in (1, 2, 5):
        permutation = np.eye(d)[np.random.default_rng(d).permutation(d)] * np.linspace(-3, 2, d)[:, None]
        assert yang_amari_error(permutation) == 0
        assert yang_amari_error(np.full((d, d), 7)) == pytest.approx(2 * d * (d - 1))
    assert yang_amari_error(np.zeros((3, 3))) == pytest.approx(12)
    for bad in (np.ones((2, 2, 2)), np.empty((0, 2)), [[np.nan, 1]], "x"):
        with pytest.raises(ValueError, match="matrix"):
            yang_amari_error(bad)


@pytest.mark.parametrize(("power", "exact"), [(1, 1.0), (2, 15 / 16), (3, 0.84)])
def test_a_power_of_a_uniform_factor(power, exact):
    """corr(v, v^p)^2 = 3 (2 p + 1) / (p + 2)^2 by integration over [0, 1]; ranks keep all."""
    assert exact == pytest.approx(3 * (2 * power + 1) / (power + 2) ** 2)
    v = np.random.default_rng(0).uniform(size=(20_000, 2))
    found = linearity(np.column_stack([np.ones(len(v)), 10 - 3 * v[:, 1] ** power, v[:, 0] ** power]), v)
    assert float(found) == pytest.approx(exact, abs=0.005)
    assert found.details["code"].tolist() == [2, 1]


def test_noise_lowers_both_predictions_alike_and_no_code_gives_nan():
    rng = np.random.default_rng(0)
    v = rng.normal(size=(20_000, 1))
    noisy = linearity(v + rng.normal(size=v.shape), v)
    assert float(noisy) == pytest.approx(1, abs=0.02)
    assert np.isnan(float(linearity(rng.normal(size=(5000, 2)), v[:5000])))
    assert np.isnan(float(linearity(np.zeros((5000, 2)), v[:5000])))
    with pytest.warns(UserWarning, match="constant"):
        assert np.isnan(linearity(v, np.column_stack([v, np.ones(len(v))])).per_factor[1])
