"""Scores of one model: closed forms and planted codes."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from karenina.metrics import gaussian_total_correlation, mutual_information
from karenina.selection import (
    active_units,
    factorised_support,
    mean_pairwise_mi,
    orthogonality,
    plain_scores,
    total_correlation,
)


def jacobians(V, n=5, pixels=30, seed=0):
    """J = U S V' with the given V and singular values that differ."""
    rng = np.random.default_rng(seed)
    size = len(V)
    U = ortho_group.rvs(pixels, size=n, random_state=0)[:, :, :size]
    return U * np.linspace(3, 1, size) @ np.broadcast_to(V.T, (n, size, size)) * rng.uniform(0.5, 2, (n, 1, 1))


def test_signed_permutation_is_perfect():
    V = np.eye(4)[[2, 0, 3, 1]] * [1, -1, -1, 1]
    found = orthogonality(jacobians(V))
    assert float(found) == pytest.approx(1)
    assert found.distance == pytest.approx(0, abs=1e-6)
    assert found.cosine == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("angle", [0.1, 0.4, 0.7])
def test_a_turn_of_two_latents_has_its_closed_form(angle):
    c, s = np.cos(angle), np.sin(angle)
    found = orthogonality(jacobians(np.array([[c, -s], [s, c]])))
    assert float(found) == pytest.approx(max(c, s))
    assert found.distance == pytest.approx(np.sqrt(4 * (1 - max(c, s))))
    assert found.per_input.shape == (5,)
    assert found.cosine > 0.05


def test_distance_is_to_the_nearest_signed_permutation():
    from itertools import permutations, product

    V = ortho_group.rvs(3, random_state=1)
    nearest = min(
        np.linalg.norm(V - np.eye(3)[list(p)] * np.array(s))
        for p in permutations(range(3))
        for s in product([1, -1], repeat=3)
    )
    assert orthogonality(jacobians(V)).distance == pytest.approx(nearest)


def test_dead_column_is_no_error():
    J = jacobians(np.eye(3))
    J[:, :, 0] = 0
    assert np.isfinite(float(orthogonality(J)))
    assert orthogonality(J[:, :, :1]).cosine == 0


@pytest.mark.parametrize("bad", [np.ones((3, 4)), np.ones((2, 3, 4)), np.full((2, 4, 3), np.nan), np.ones((0, 4, 3))])
def test_bad_jacobians_are_named(bad):
    with pytest.raises(ValueError, match="jacobians"):
        orthogonality(bad)


def test_support_of_a_product_is_small_and_of_a_mixture_large():
    rng = np.random.default_rng(0)
    free = rng.uniform(-1, 1, size=(3000, 3))
    correlated = free[(free[:, 0] * free[:, 1] > 0) | (rng.random(3000) < 0.2)]
    ring = np.column_stack([np.cos(np.pi * free[:, 0]), np.sin(np.pi * free[:, 0]), free[:, 2]])
    assert float(factorised_support(free)) < 0.3
    assert float(factorised_support(correlated)) < 0.4
    assert factorised_support(ring).pairs[0, 1] > 0.9
    assert factorised_support(ring).pairs[0, 2] < 0.4


def test_support_equals_brute_force():
    z = np.random.default_rng(1).normal(size=(40, 2))
    scaled = (z - z.mean(axis=0)) / z.std(axis=0)
    levels = np.quantile(scaled, np.linspace(0.02, 0.98, 5), axis=0)
    far = max(min(np.linalg.norm(scaled - [a, b], axis=1)) for a in levels[:, 0] for b in levels[:, 1])
    assert float(factorised_support(z, grid=5)) == pytest.approx(far)
    assert float(factorised_support(3 * z + 5, grid=5)) == pytest.approx(far)
    assert float(factorised_support(z[:, :1])) == 0.0


def test_plain_ones():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(20_000, 3))
    rho = 0.8
    pair = np.column_stack([z[:, 0], rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1]])
    assert total_correlation(pair) == pytest.approx(-0.5 * np.log(1 - rho**2), abs=0.02)
    assert total_correlation(z) == pytest.approx(0, abs=1e-3)
    assert total_correlation(np.zeros((10, 2))) == 0
    assert total_correlation(z[:, [0, 0]]) == np.inf
    assert mean_pairwise_mi(z) < 0.02 < 0.3 < mean_pairwise_mi(pair)
    assert mean_pairwise_mi(z[:, :1]) == 0
    assert active_units(np.column_stack([z, 0.01 * z[:, 0], np.ones(len(z))])) == 3
    scores = plain_scores(100.0, [1.0, 2.0, 0.001], z, np.full_like(z, -2.0))
    assert scores["elbo"] == pytest.approx(-103.001)
    assert scores["informative"] == 2
    assert scores["total_correlation_sampled"] < 0.01


def test_bad_codes_are_named():
    with pytest.raises(ValueError, match=r"codes has shape \(2, 2, 2\), expected \(n, d\)"):
        factorised_support(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="codes has 1 rows .* at least 2 are needed"):
        factorised_support(np.ones((1, 3)))
    with pytest.raises(ValueError, match="has nan at row 0, column 0"):
        total_correlation(np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match=r"kl must have shape \(2,\)"):
        plain_scores(1.0, [1.0], np.ones((4, 2)))
    with pytest.raises(ValueError, match="grid"):
        factorised_support(np.ones((4, 2)), grid=1)
    with pytest.raises(ValueError, match="log_variances"):
        plain_scores(1.0, [1.0, 1.0], np.eye(4)[:, :2], np.ones((3, 2)))


def test_one_total_correlation_and_one_mutual_information():
    """The numbers of `karenina.metrics`, also where codes are linear functions of others, constant, huge or tiny."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(500, 3))
    with_constant = np.column_stack([z + z[:, :1], np.full(500, 0.1)])
    for codes in (z, np.hstack([z, z @ rng.normal(size=(3, 3))]), with_constant, 1e200 * z, 1e-200 * z, z[:, :1]):
        assert total_correlation(codes) == float(gaussian_total_correlation(codes))
        assert mean_pairwise_mi(codes) == float(mutual_information(codes))
    assert total_correlation(np.hstack([z, z @ rng.normal(size=(3, 3))])) == np.inf
    assert mean_pairwise_mi(with_constant) == mean_pairwise_mi(with_constant[:, :3]) > 0


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**600])
def test_support_does_not_depend_on_the_unit(unit):
    codes = np.random.default_rng(0).normal(size=(200, 3))
    assert float(factorised_support(unit * codes)) == pytest.approx(float(factorised_support(codes)))
