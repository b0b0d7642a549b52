"""The factors that models agree on, on planted models; and against a loop that restates the rule."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import differential_entropy, spearmanr

import karenina
from karenina.numerics.independent import independent_components
from karenina.selection import consensus, non_gaussianity
from karenina.selection.choice import FAIR, NO_TRUST, chance_of_latent, choose_from_codes


def rotation(size, rng):
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


@pytest.fixture(scope="module")
def sources():
    return np.random.default_rng(0).uniform(-1, 1, size=(1500, 4))


@pytest.fixture(scope="module")
def models(sources):
    """Three that share their latents up to order, sign, scale and noise; five in rotations of their own."""
    rng = np.random.default_rng(1)
    noisy = [sources[:, rng.permutation(4)] * rng.choice([-1, 2], 4) + 0.05 * rng.normal(size=(1500, 4)) for _ in "abc"]
    return [*noisy, *(sources @ rotation(4, rng) for _ in range(5))]


def test_models_that_share_their_latents_come_first(models):
    found = consensus(models)
    assert set(found.order[:3]) == {0, 1, 2}
    assert found.matched[:3].min() > 0.97 > 0.93 > found.matched[3:].max()
    assert found.best in (0, 1, 2)


def test_factors_are_the_sources_that_most_models_mix(models, sources):
    """Five of eight models mix them, and their independent components are found all the same."""
    found = consensus(models)
    best = np.abs(spearmanr(found.factors, sources)[0][: found.factors.shape[1], found.factors.shape[1] :]).max(axis=1)
    assert (best[:4] > 0.97).all()
    assert (np.diff(found.density) <= 1e-9).all()


def test_each_factor_of_a_good_model_has_a_latent_of_its_own(models):
    found = consensus(models)
    for model in range(3):
        assert sorted(found.latents[model][:4]) == [0, 1, 2, 3]
        assert (found.match[model][:4] > 0.95).all()


def test_agreement_is_what_the_rule_says(models):
    """A loop over factors, models and latents, with ranks and assignments from scipy."""
    count, each = len(models), 4
    turned = [independent_components(z)[0] for z in models]
    whole = np.abs(spearmanr(np.hstack(turned), np.hstack(models))[0])
    alike, cross = whole[: count * each, : count * each], whole[: count * each, count * each :]
    owner = np.repeat(np.arange(count), each)
    density = np.array(
        [np.mean([alike[i, owner == m].max() ** 8 for m in range(count) if m != owner[i]]) for i in range(count * each)]
    )
    picked, weights, left = [], [], np.ones(count * each)
    while len(picked) < 12:
        best = int(np.argmax(density * left))
        if picked and density[best] * left[best] < 0.1 * weights[0]:
            break
        picked.append(best)
        weights.append(density[best] * left[best])
        left = left * (1 - alike[best] ** 2)
    expected = []
    for m in range(count):
        table = np.zeros((len(picked), each))
        for k, one in enumerate(picked):
            values, total = np.zeros(each), 0.0
            for other in set(range(count)) - {m}:
                near = max(np.flatnonzero(owner == other), key=lambda i: alike[one, i])
                values += alike[one, near] ** 8 * cross[near, owner == m]
                total += alike[one, near] ** 8
            table[k] = values / total
        table *= (np.array(weights) / sum(weights))[:, None]
        expected.append(table[linear_sum_assignment(-table)].sum())
    np.testing.assert_allclose(consensus(models).matched, expected, atol=1e-5)


def test_order_sign_and_scale_of_latents_and_order_of_models_change_nothing(models):
    rng = np.random.default_rng(2)
    first = consensus(models)
    changed = consensus([z[:, rng.permutation(4)] * rng.uniform(0.1, 3, 4) * rng.choice([-1, 1], 4) for z in models])
    np.testing.assert_allclose(changed.matched, first.matched, atol=0.02)  # planes are turned in another order
    np.testing.assert_allclose(changed.independence, first.independence, atol=1e-6)
    back = consensus(models[::-1])
    np.testing.assert_allclose(back.matched[::-1], first.matched, atol=1e-6)


def test_non_gaussianity_is_the_negentropy():
    rng = np.random.default_rng(3)
    z = np.stack([rng.uniform(size=4000), rng.normal(size=4000), rng.laplace(size=4000)], axis=1)
    z = (z - z.mean(0)) / z.std(0)
    expected = 0.5 * np.log(2 * np.pi * np.e) - differential_entropy(z, method="ebrahimi")
    np.testing.assert_allclose(non_gaussianity(z), expected, atol=0.04)
    assert non_gaussianity(np.ones((50, 2))).tolist() == [0, 0]


def test_mixtures_are_less_independent(sources):
    rng = np.random.default_rng(4)
    mixed = [non_gaussianity(sources @ rotation(4, rng)).mean() for _ in range(10)]
    assert max(mixed) < non_gaussianity(sources).mean()


def test_components_come_from_the_map_that_is_returned(sources):
    z = sources @ rotation(4, np.random.default_rng(5)) + [1, 2, 3, 4]
    found, turn = independent_components(z)
    np.testing.assert_allclose((z - z.mean(0)) @ turn, found, atol=1e-9)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(4), atol=1e-9)


def test_gaussian_latents_stay_where_they_are():
    z = np.random.default_rng(6).normal(size=(20_000, 3))
    assert np.abs(np.corrcoef(independent_components(z)[0].T, z.T)[:3, 3:]).diagonal().min() > 0.99


def test_with_the_elbo_a_model_that_found_little_does_not_win(sources):
    """One factor cleanly, four times; all four factors, with some noise, four times."""
    rng = np.random.default_rng(7)
    little = [sources[:, :1] + 0.01 * rng.normal(size=(1500, 1)) for _ in range(4)]
    much = [sources + 0.1 * rng.normal(size=sources.shape) for _ in range(4)]
    elbo = [-10, -10, -10, -10, -5, -5, -5, -5]
    assert consensus([*little, *much], elbo=elbo).best >= 4


def test_partners_are_drawn_from_many_models(models):
    some = consensus(models, partners=5)
    assert np.isfinite(some.scores).all()
    assert set(some.order[:3]) == {0, 1, 2}


@pytest.mark.parametrize("shared", [False, True])
def test_planted_models_are_trusted_only_if_they_share_their_latents(shared):
    rng = np.random.default_rng(8)
    levels = []
    for _ in range(10):
        white = np.linalg.qr(rng.normal(size=(300, 4)))[0] * np.sqrt(300)
        turns = [np.eye(4)[rng.permutation(4)] if shared else rotation(4, rng) for _ in range(15)]
        codes = [white @ turn + 0.1 * shared * rng.normal(size=white.shape) for turn in turns]
        chosen = choose_from_codes(codes, None, np.repeat(["a", "b", "c"], 5).tolist())
        levels.append(chosen.judge("planted").level)
        assert chosen.replicated == 4 if shared else chosen.replicated <= 2
    assert levels.count(FAIR if shared else NO_TRUST) >= 9


def test_chance_of_a_latent_is_what_rotated_models_give():
    rng = np.random.default_rng(9)
    largest = np.abs([rotation(5, rng)[0] for _ in range(4000)]).max(axis=1)
    assert np.mean(largest < chance_of_latent(5)) == pytest.approx(0.99, abs=0.006)
    assert chance_of_latent(5, 4) < chance_of_latent(5)


def test_choice_says_its_diagnosis_in_one_line(models):
    chosen = choose_from_codes(models, None, [*"aaa", *"bbbbb"])
    assert chosen.best in (0, 1, 2)
    assert "4 of 4 active latents replicate" in chosen.diagnosis
    alone = choose_from_codes(models[:1], None, "a")
    assert alone.diagnosis == "there is no other model to compare it with"


def test_bad_input_is_said(models):
    with pytest.raises(ValueError, match="at least 2"):
        consensus(models[:1])
    with pytest.raises(ValueError, match="same inputs"):
        consensus([models[0], models[1][:-1]])
    with pytest.raises(ValueError, match="NaN"):
        consensus([models[0], np.where(models[1] > 0.99, np.nan, models[1])])
    with pytest.raises(ValueError, match="one row per model"):
        consensus(models, [np.ones(4)])


def test_dead_latents_and_dead_models_have_no_part_in_it(models):
    dead = np.zeros((1500, 3))
    with_dead = consensus([*models, dead], [*np.ones((8, 4)), np.zeros(3)])
    np.testing.assert_allclose(with_dead.matched[:8], consensus(models).matched, atol=1e-6)
    assert np.isnan(with_dead.scores[8])
    alone = consensus([models[0], dead], [np.ones(4), np.zeros(3)])
    assert (alone.matched[0], len(alone.density)) == (0, 1)  # nobody else has its factors
    nothing = consensus([dead, dead])
    assert np.isnan(nothing.scores).all()
    with pytest.raises(ValueError, match="no model has an active latent"):
        _ = nothing.best


def test_equal_models_are_said_and_scored(models):
    with pytest.warns(UserWarning, match="identical codes"):
        found = consensus([models[3], models[3]])
    assert np.isfinite(found.scores).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert karenina.selection.consensus(models).matched.shape == (8,)


def test_a_latent_that_does_not_vary_is_not_active_without_kl(models):
    widened = [np.hstack([z, np.zeros((1500, 2))]) for z in models]
    np.testing.assert_allclose(consensus(widened).matched, consensus(models).matched, atol=1e-6)
    assert all(max(found) < 4 for found in itertools.islice(consensus(widened).latents, 3))
