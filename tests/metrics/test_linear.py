"""The error of Yang and Amari against loops and closed forms; linearity against integrals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.metrics import linearity, yang_amari_error


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
