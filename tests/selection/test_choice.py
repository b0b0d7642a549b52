"""The choice without labels and its chance, on planted models: rotations, signed permutations, blind decoders."""

import numpy as np
import pytest

import karenina
from karenina.selection.choice import (
    FAIR,
    NO_TRUST,
    Agreement,
    chance,
    chance_of_model,
    choose,
    typical_chance,
)


def rotation(size, rng):
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return q * np.sign(np.diag(r))


def planted(latents, seeds, settings, rng, *, shared, rows=150):
    """Choose among models of the same latents, each in a rotation of its own, or (shared) permuted and signed."""
    white = np.linalg.qr(rng.normal(size=(rows, latents)))[0] * np.sqrt(rows)
    names = [setting for setting in range(settings) for _ in range(seeds)]
    codes = []
    for _ in names:
        turn = np.eye(latents)[rng.permutation(latents)] * rng.choice([-1, 1], latents)
        codes.append(white @ (turn if shared else rotation(latents, rng)) + 0.1 * shared * rng.normal(size=white.shape))
    kl = np.ones((len(codes), latents))
    within = karenina.udr(codes, kl, names).scores
    across = karenina.udr(codes, kl, names, all_to_all=True).scores
    return choose(names, [latents] * len(names), within, across, lambda i: 0.9)


@pytest.mark.parametrize(("latents", "seeds", "settings"), [(2, 4, 5), (3, 3, 5), (3, 2, 1), (5, 4, 3)])
def test_models_rotated_at_random_are_not_trusted(latents, seeds, settings):
    """19 of 20 or more; benchmarks/choice_null.py has the full table."""
    rng = np.random.default_rng(latents)
    trials = 20
    found = [planted(latents, seeds, settings, rng, shared=False) for _ in range(trials)]
    trusted = sum(one.judge("planted").level != NO_TRUST for one in found)
    agree = sum(bool(one.kept) for one in found)
    assert trusted <= agree <= 4  # of 20 with a probability of .05 each, more come up in 3 of 1,000 cases


@pytest.mark.parametrize(("latents", "seeds", "settings"), [(3, 4, 5), (5, 4, 1), (10, 5, 2)])
def test_models_that_share_their_latents_are_trusted(latents, seeds, settings):
    found = planted(latents, seeds, settings, np.random.default_rng(0), shared=True)
    assert found.judge("planted", images=5000, steps=5000).level == FAIR


def test_chance_is_what_udr_itself_gives_to_rotated_models():
    rng = np.random.default_rng(0)
    for latents, seeds in ((2, 3), (4, 3)):
        white = np.linalg.qr(rng.normal(size=(200, latents)))[0] * np.sqrt(200)
        names = np.repeat(np.arange(150), seeds)
        codes = [white @ rotation(latents, rng) for _ in names]
        scores = karenina.udr(codes, np.ones((len(codes), latents)), names).scores.reshape(-1, seeds)
        found = np.median(scores, axis=1)
        assert np.mean(found < chance(latents, seeds)) == pytest.approx(0.95, abs=0.05)
        assert np.median(found) == pytest.approx(typical_chance(latents), abs=0.05)


def test_chance_grows_with_settings_and_falls_with_latents_and_seeds():
    assert chance(1, 5, 5) == chance_of_model(1) == typical_chance(1) == 1
    assert chance(3, 4, 1) < chance(3, 4, 5) < chance(3, 4, 20) < 1
    assert chance(2, 5) > chance(3, 5) > chance(5, 5) > chance(10, 5)
    assert chance(4, 2) > chance(4, 3) > chance(4, 8) > typical_chance(4)
    assert chance_of_model(4, partners=9) < chance_of_model(4)
    assert chance(500, 2) == chance(32, 2)  # beyond that nothing is drawn


def test_models_of_unequal_numbers_of_latents_are_not_trusted_more_often():
    """Of settings whose seeds have 3, 4 or 5 of 5 rotated latents, as pruned models do."""
    rng = np.random.default_rng(3)
    white = np.linalg.qr(rng.normal(size=(200, 5)))[0] * np.sqrt(200)
    trusted = 0
    for _ in range(40):
        counts = rng.integers(3, 6, 4)
        codes = [white @ rotation(5, rng) for _ in counts]
        kl = [np.where(np.arange(5) < count, 1.0, 0.0) for count in counts]
        within = karenina.udr(codes, kl, ["one"] * 4).scores
        trusted += bool(choose(["one"] * 4, counts.tolist(), within, within, lambda i: 1.0).kept)
    assert trusted <= 6


def test_models_that_draw_nothing_are_not_taken_and_do_not_speak_for_their_setting():
    shares = {0: -0.94, 1: 0.01, 2: 0.7, 3: 0.8, 4: 0.9, 5: 0.9, 6: 0.9}
    within = [0.95, 0.95, 0.95, 0.8, 0.8, 0.8, 0.8]
    asked = []

    def explained(i):
        asked.append(i)
        return shares[i]

    found = choose("aaabbbb", [5] * 7, within, [0.9, 0.9, 0.9, 0.5, 0.6, 0.5, 0.5], explained)
    assert found.best == 4
    assert set(found.unusable) == {0, 1}
    assert found.agreements.keys() == {"b"}
    assert "they explain nothing" in found.why_not("a")
    assert sorted(asked) == list(range(7))


def test_what_is_asked_of_models_is_asked_once_and_only_where_they_may_be_taken():
    asked = []
    choose("aabb", [5] * 4, [0.9, 0.9, 0.2, 0.2], [0.9, 0.9, 0.2, 0.2], lambda i: asked.append(i) or 1.0)
    assert asked == [0, 1]


def test_without_seeds_models_are_judged_against_all_others():
    nothing = np.full(4, np.nan)
    good = choose("abcd", [6] * 4, nothing, [0.8, 0.9, 0.85, 0.8], lambda i: 0.9)
    assert good.best == 1
    assert good.judge("b", 5000, 5000).level == FAIR
    bad = choose("abcd", [6] * 4, nothing, [0.3, 0.3, 0.2, 0.2], lambda i: 0.9)
    assert bad.judge("a", 5000, 5000).level == NO_TRUST
    two = choose("ab", [6] * 2, nothing[:2], [0.9, 0.9], lambda i: 0.9)
    assert "only one model of each setting" in two.judge("a").why


def test_agreement_is_on_a_scale_from_chance_to_perfect():
    assert Agreement(0.4, 0.3, 0.5, 0.4, 4, 3).value == 0
    assert Agreement(1.0, 1.0, 1.0, 0.4, 4, 3).value == 1
    assert Agreement(0.0, 0.0, 0.0, 0.4, 4, 3).value == -1
    assert Agreement(1.0, 1.0, 1.0, 1.0, 1, 3).value == 0  # one latent cannot be rotated
    assert Agreement(typical_chance(4), 0, 1, 0.9, 4, 3).above_typical == 0


def test_nothing_to_choose_from():
    assert choose([], [], [], [], lambda i: 1.0).judge("").why == "No model is finished."
    off = choose("aa", [0, 0], [np.nan] * 2, [np.nan] * 2, lambda i: 1.0)
    assert off.best is None
    assert off.judge("a").why == "No model has an active latent."


def test_a_model_that_disagrees_with_its_own_seeds_is_not_taken_however_much_it_resembles_others():
    within, across = [0.95, 0.5, 0.94, 0.93, 0.3, 0.3, 0.2, 0.2], [0.4, 0.7, 0.5, 0.45, 0.3, 0.3, 0.3, 0.3]
    found = choose("aaaabbbb", [4] * 8, within, across, lambda i: 1.0)
    assert found.order[:4] == [2, 3, 0, 1]
