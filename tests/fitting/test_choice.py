"""The choice on planted codes: models that agree, models that do not, models that found next to nothing."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from karenina.fitting import guidance
from karenina.fitting.choice import Model, above_chance, chance, compare, simulated_chance
from karenina.fitting.halving import Setting
from karenina.fitting.look import Look

LOOK = Look(5000, (1, 16, 16), 0, 255, 5000, 0.1, 0.05, 0.01, 0.0)


def rotation(size, rng):
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return q * np.sign(np.diag(r))


def model(codes, strength, seed, active=None, explained=0.9):
    kl = np.where(np.arange(codes.shape[1]) < (codes.shape[1] if active is None else active), 2.0, 0.0)
    path = Path(f"beta={strength}_seed={seed}")
    return Model(path, SimpleNamespace(seed=seed), Setting("beta_vae", strength), codes, kl, explained)


@pytest.fixture(scope="module")
def planted():
    """Four seeds each: beta 4 disentangles, beta 1 is turned, beta 64 found one factor of four, beta 128 none."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 4))
    models = []
    for seed in range(4):
        noise = 0.1 * rng.normal(size=z.shape)
        order = rng.permutation(4)
        models.append(model((z + noise)[:, order] * rng.choice([-1, 1], 4), 4.0, seed))
        models.append(model(z @ rotation(4, rng), 1.0, seed))
        models.append(model(np.column_stack([z[:, 0], rng.normal(size=(600, 3))]), 64.0, seed, active=1))
        models.append(model(rng.normal(size=z.shape), 128.0, seed, active=0))
    return compare(models)


def test_the_setting_whose_seeds_agree_is_chosen_not_the_one_that_found_a_single_factor(planted):
    assert planted.models[planted.best].setting.strength == 4.0
    assert planted.score(Setting("beta_vae", 64.0)) > 0.95  # UDR itself would have taken it
    assert planted.agreement(Setting("beta_vae", 64.0)) == 0
    assert planted.agreement(Setting("beta_vae", 4.0)) > 0.8
    assert planted.agreement(Setting("beta_vae", 1.0)) < 0.3
    assert planted.kept == {Setting("beta_vae", 4.0)}


def test_collapsed_models_come_last(planted):
    assert [planted.models[i].setting.strength for i in planted.order[-4:]] == [128.0] * 4
    assert list(planted.frame["active"][-4:]) == [0] * 4


def test_how_sure_depends_on_agreement_seeds_steps_and_reconstructions(planted):
    assert guidance.judge(LOOK, planted, 5000).level == guidance.FAIR
    assert "300 steps are few" in guidance.judge(LOOK, planted, 300).why
    turned = compare([one for one in planted.models if one.setting.strength == 1.0])
    assert guidance.judge(LOOK, turned, 5000).level != guidance.FAIR
    alone = compare([one for one in planted.models if one.setting.strength == 64.0])
    assert guidance.judge(LOOK, alone, 5000).level == guidance.NO_TRUST
    off = compare([one for one in planted.models if one.setting.strength == 128.0])
    assert off.best is None
    assert guidance.judge(LOOK, off, 5000).level == guidance.NO_TRUST


def test_few_images_and_a_model_that_draws_nothing_are_never_trusted(planted):
    few, some = (replace(LOOK, distinct=count) for count in (20, 500))
    found = guidance.judge(few, planted, 5000)
    assert (found.level, found.why) == (guidance.NO_TRUST, "On 20 different images models agree by chance.")
    assert guidance.judge(some, planted, 5000).level == guidance.CARE
    blank = compare([replace(one, explained=0.01) for one in planted.models])
    assert "learnt nothing" in guidance.judge(LOOK, blank, 5000).why


def kinds(look=LOOK, models=(), steps=5000, latents=4):
    return {one.kind for one in guidance.advise(look, compare(models), steps, latents)}


def test_guidance_says_what_is_wrong_and_nothing_else(planted):
    good = [one for one in planted.models if one.setting.strength in (4.0, 128.0)]
    few = {"time"}  # eight models are few
    assert kinds(models=good) == few
    assert kinds(replace(LOOK, distinct=10), good) == few | {"duplicates", "few images"}
    assert kinds(replace(LOOK, count=800, distinct=800), good) == few | {"few images"}
    assert kinds(replace(LOOK, shift=0.2, moved=0.6), good) == few | {"unaligned"}
    assert kinds(replace(LOOK, flat=0.9), good) == few | {"flat"}
    assert kinds(replace(LOOK, low=100, high=120), good) == few | {"contrast"}
    off = [one for one in planted.models if one.setting.strength == 128.0]
    assert kinds(models=off) == few | {"all off"}
    on = [one for one in planted.models if one.setting.strength == 4.0]
    assert kinds(models=on) == few | {"all on"}
    blurred = [model(one.codes, 4.0, i, explained=0.3) for i, one in enumerate(on)]
    assert kinds(models=[*blurred, *off]) == few | {"reconstruction"}
    assert kinds(models=()) == {"time"}
    assert "too little" in str(guidance.advise(LOOK, compare(()), 5000, 4)[0])


def test_seeds_that_disagree_everywhere_are_called_so():
    rng = np.random.default_rng(1)
    apart = compare([model(rng.normal(size=(600, 4)), 4.0, seed) for seed in range(4)])
    found = guidance.advise(LOOK, apart, 5000, 10)
    assert found[0].kind == "disagreement"
    assert "do not trust any of these" in found[0].says
    verdict = guidance.judge(LOOK, apart, 5000)
    assert verdict.level == guidance.NO_TRUST
    assert "disagree everywhere" in verdict.why


@pytest.mark.parametrize("size", [2, 3, 5])
def test_chances_that_are_kept_are_those_of_the_simulation(size):
    assert chance(size) == pytest.approx(simulated_chance(size), abs=1e-6)


def test_chance_is_what_brute_force_gives():
    """Equation 2 of Duan et al. (2020) for turned latents: R is the rotation, up to the shrinkage of the lasso."""
    rng = np.random.default_rng(0)
    for size in (2, 5):
        turned = [rotation(size, rng) for _ in range(40)]
        scores = []
        for a in turned:
            pairs = []
            for b in turned:
                if a is not b:
                    r = np.abs(a.T @ b)
                    rows, columns = (r.max(axis) ** 2 / r.sum(axis) for axis in (0, 1))
                    pairs.append((rows.sum() + columns.sum()) / (2 * size))
            scores.append(np.median(pairs))
        assert chance(size) == pytest.approx(np.quantile(scores, 0.95), abs=0.05)
    assert above_chance(1.0, 4) == 1
    assert above_chance(chance(4), 4) == 0
