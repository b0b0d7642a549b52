import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.metrics.label_free import (
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    mutual_information,
)


def gaussian(covariance, n=500):
    """Rows whose sample covariance is exactly this one."""
    rows = np.random.default_rng(0).normal(size=(n, len(covariance)))
    rows -= rows.mean(axis=0)
    white = rows @ np.linalg.inv(np.linalg.cholesky(np.cov(rows, rowvar=False))).T
    return white @ np.linalg.cholesky(covariance).T


def normalised(codes):
    return gaussian_wasserstein_correlation(codes, normalised=True)


ALL = (gaussian_total_correlation, gaussian_wasserstein_correlation, normalised, mutual_information)
NAMES = (
    "gaussian_total_correlation",
    "gaussian_wasserstein_correlation",
    "gaussian_wasserstein_correlation_norm",
    "mutual_info_score",
)


@pytest.mark.parametrize("case", planted.CASES)
def test_reference(case):
    codes = planted.reference(case)[0][0]
    published = planted.published(case)["unsupervised"]["result"]
    for score, name in zip(ALL, NAMES):
        expected = 0.0 if published[name] == "nan" else float(published[name])
        # The release takes the square root of a singular matrix, whose rounding (1e-16) becomes 1e-8 under the root.
        tolerance = 1e-7 if case == "duplicated" and "wasserstein" in name else 1e-9
        assert float(score(codes)) == pytest.approx(expected, abs=tolerance)


def test_closed_forms():
    codes = gaussian(np.array([[1, 0.9], [0.9, 1]]))
    assert float(gaussian_total_correlation(codes)) == pytest.approx(0.8304, abs=1e-4)
    # With unit variances the distance is 2 tr C - 2 sum sqrt(eigenvalues of C).
    expected = 4 - 2 * (np.sqrt(1.9) + np.sqrt(0.1))
    assert float(gaussian_wasserstein_correlation(codes)) == pytest.approx(expected, abs=1e-9)
    assert float(normalised(codes)) == pytest.approx(expected / 2, abs=1e-9)


def test_wasserstein_of_copies():
    code = np.random.default_rng(0).normal(size=(100, 1))
    code /= code.std(ddof=1)
    assert float(gaussian_wasserstein_correlation(np.hstack([code, code]))) == pytest.approx(
        4 - 2 * np.sqrt(2), abs=1e-12
    )


def test_singular_is_infinite_and_never_nan():
    rng = np.random.default_rng(0)
    for codes in (
        rng.normal(size=(50, 2)) @ rng.normal(size=(2, 4)),
        rng.normal(size=(3, 5)),
        rng.integers(2, size=(4, 6)),
        np.repeat(rng.normal(size=(20, 1)), 3, axis=1),
    ):
        assert float(gaussian_total_correlation(codes)) == np.inf
        for score in ALL[1:]:
            value = float(score(codes))
            assert np.isfinite(value)
            assert value >= 0


def test_constant_codes_do_not_count():
    codes = gaussian(np.array([[1, 0.5], [0.5, 2]]))
    for score in ALL:
        with_dead = np.column_stack([codes, np.full(len(codes), 0.1)])
        assert float(score(with_dead)) == pytest.approx(float(score(codes)), abs=1e-12)
        assert float(score(codes[:, 0])) == 0
        assert float(score(np.zeros((5, 3)))) == 0
    assert np.isnan(mutual_information(with_dead).details["pairwise"][2]).all()


def test_information_estimates():
    codes = gaussian(np.array([[1, 0.8], [0.8, 1]]), n=3000)
    exact = -np.log(1 - 0.8**2) / 2
    assert float(mutual_information(codes, estimator="knn")) == pytest.approx(exact, abs=0.04)
    assert float(mutual_information(codes, estimator="jackknife")) == pytest.approx(exact, abs=0.04)
    noise = np.random.default_rng(1).normal(size=(1000, 3))
    assert float(mutual_information(noise)) > 0.1
    assert float(mutual_information(noise, estimator="jackknife")) < 0.02
    circle = np.random.default_rng(2).uniform(0, 2 * np.pi, 3000)
    assert float(mutual_information(np.column_stack([np.cos(circle), np.sin(circle)]), binning="quantile")) > 1


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), scale=st.floats(1e-3, 1e3), data=st.data())
def test_invariance(seed, scale, data):
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    each = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3)))
    sign = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=3, max_size=3)))
    order = data.draw(st.permutations(range(3)))
    for score in (gaussian_total_correlation, mutual_information):
        changed = float(score((codes * each * sign + 5)[:, order]))
        assert changed == pytest.approx(float(score(codes)), rel=1e-9, abs=1e-9)
    moved = (codes * sign + 5)[:, order]
    assert float(gaussian_wasserstein_correlation(scale * moved)) == pytest.approx(
        scale**2 * float(gaussian_wasserstein_correlation(codes)), rel=1e-8
    )
    assert float(normalised(scale * moved)) == pytest.approx(float(normalised(codes)), abs=1e-9)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("binning", ["width", "quantile"])
def test_the_sign_of_a_code_with_values_on_edges_does_not_matter(binning, full):
    rows = np.indices((11, 11)).reshape(2, -1).T if full else np.random.default_rng(0).integers(11, size=(300, 2))
    codes = rows @ [[1, 1, 1, 0], [-1, 0, 1, 1]]
    plain = mutual_information(codes, bins=10, binning=binning).details["pairwise"]
    turned = mutual_information(codes * [-1, 1, -1, 1], bins=10, binning=binning).details["pairwise"]
    np.testing.assert_allclose(turned, plain, atol=1e-12)


def test_huge_and_tiny_codes():
    codes = gaussian(np.array([[1, 0.5], [0.5, 2]]))
    for scale in (1e-200, 1e200):
        assert float(gaussian_total_correlation(codes * scale)) == pytest.approx(
            float(gaussian_total_correlation(codes))
        )
        assert float(normalised(codes * scale)) == pytest.approx(float(normalised(codes)))


def test_bad_inputs():
    for score in ALL:
        with pytest.raises(ValueError, match="codes of shape"):
            score(np.array([[1.0, np.nan], [1.0, 2.0]]))
        with pytest.raises(ValueError, match="at least 2"):
            score(np.ones((1, 3)))
    with pytest.raises(ValueError, match="estimator must be"):
        mutual_information(np.eye(3), estimator="kde")
    with pytest.raises(ValueError, match="neighbours must be"):
        mutual_information(np.eye(3), estimator="knn", neighbours=0)


def test_independent_codes_have_some_total_correlation_by_chance_and_it_is_said():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(800, 400))
    with pytest.warns(UserWarning, match="400 independent codes have .* nats in 800 rows by chance"):
        found = gaussian_total_correlation(codes)
    assert found.details["chance"] == pytest.approx(float(found), rel=0.02)
    few = rng.normal(size=(5000, 3))
    gaussian_total_correlation(few @ rng.normal(size=(3, 3)))
