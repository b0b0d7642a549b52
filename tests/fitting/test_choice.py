"""The choice on planted codes: models that agree, models that do not, models that found next to nothing."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from karenina.fitting.answer import advise, compare, describe_settings, judge
from karenina.fitting.look import Look
from karenina.fitting.models import Model
from karenina.fitting.search import Candidate
from karenina.selection.choice import CARE, FAIR, NO_TRUST

LOOK = Look(5000, (1, 16, 16), 0, 255, 5000, 0.1, 0.05, 0.01, 0.0)


def rotation(size, rng):
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return q * np.sign(np.diag(r))


def model(codes, strength, seed, active=None, explained=0.9):
    kl = np.where(np.arange(codes.shape[1]) < (codes.shape[1] if active is None else active), 2.0, 0.0)
    path = Path(f"beta={strength}_seed={seed}")
    return Model(path, SimpleNamespace(seed=seed), Candidate("beta_vae", strength), codes, kl, explained)


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
    assert planted.models[planted.choice.best].setting.strength == 4.0
    assert planted.score(Candidate("beta_vae", 64.0)) > 0.95  # UDR itself would have taken it
    assert planted.agreement(Candidate("beta_vae", 64.0)) == 0
    assert planted.agreement(Candidate("beta_vae", 4.0)) > 0.8
    assert planted.agreement(Candidate("beta_vae", 1.0)) < 0
    assert planted.choice.kept == {Candidate("beta_vae", 4.0)}


def test_collapsed_models_come_last(planted):
    assert [planted.models[i].setting.strength for i in planted.choice.order[-4:]] == [128.0] * 4
    assert list(planted.frame["active"][-4:]) == [0] * 4


def test_how_sure_depends_on_agreement_seeds_steps_and_reconstructions(planted):
    assert judge(LOOK, planted, 5000).level == FAIR
    assert "300 steps are few" in judge(LOOK, planted, 300).why
    turned = compare([one for one in planted.models if one.setting.strength == 1.0])
    assert judge(LOOK, turned, 5000).level == NO_TRUST
    alone = compare([one for one in planted.models if one.setting.strength == 64.0])
    assert judge(LOOK, alone, 5000).level == NO_TRUST
    off = compare([one for one in planted.models if one.setting.strength == 128.0])
    assert off.choice.best is None
    assert judge(LOOK, off, 5000).level == NO_TRUST


def test_few_images_and_a_model_that_draws_nothing_are_never_trusted(planted):
    few, some = (replace(LOOK, distinct=count) for count in (20, 500))
    found = judge(few, planted, 5000)
    assert (found.level, found.why) == (NO_TRUST, "On 20 different images models agree by chance.")
    assert judge(some, planted, 5000).level == CARE
    blank = compare([replace(one, explained=0.01) for one in planted.models])
    found = judge(LOOK, blank, 5000)
    assert found.level == NO_TRUST
    assert "no better than the mean image: they explain 1 %" in found.why


def kinds(look=LOOK, models=(), steps=5000, latents=4):
    return {one.kind for one in advise(look, compare(models), steps, latents)}


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
    assert "too little" in str(advise(LOOK, compare(()), 5000, 4)[0])


def test_seeds_that_disagree_everywhere_are_called_so():
    rng = np.random.default_rng(1)
    apart = compare([model(rng.normal(size=(600, 4)), 4.0, seed) for seed in range(4)])
    found = advise(LOOK, apart, 5000, 10)
    assert found[0].kind == "disagreement"
    assert "do not trust any of these" in found[0].says
    verdict = judge(LOOK, apart, 5000)
    assert verdict.level == NO_TRUST
    assert "no more than chance" in verdict.why


def test_a_model_worse_than_the_mean_image_is_not_taken_and_the_log_says_why(planted):
    """Strong models that agree on next to nothing, beside weaker ones that draw: as on sprites of game figures."""
    strong = [replace(one, explained=-0.94) for one in planted.models if one.setting.strength == 4.0]
    rng = np.random.default_rng(2)
    z = rng.normal(size=(600, 4))
    weak = [model(z + 0.6 * rng.normal(size=z.shape), 0.5, seed, explained=0.6) for seed in range(4)]
    found = compare([*strong, *weak])
    assert found.models[found.choice.best].setting.strength == 0.5
    assert found.score(Candidate("beta_vae", 0.5)) > 0
    assert np.isnan(found.score(Candidate("beta_vae", 4.0)))
    half = compare([*[replace(one, explained=0.9) for one in strong[:2]], *strong[2:], *weak])
    assert half.models[half.choice.best].setting.strength == 4.0
    assert half.models[half.choice.best].explained == 0.9


def test_a_latent_is_active_only_clearly_above_the_threshold():
    one = model(np.zeros((5, 4)), 1.0, 0)
    assert replace(one, kl=np.array([2.0, 0.11, 0.09, 0.06])).active == 2


def test_two_seeds_are_never_trusted(planted):
    two = [one for one in planted.models if one.setting.strength in (4.0, 1.0) and one.config.seed < 2]
    found = judge(LOOK, compare(two), 5000)
    assert found.level == NO_TRUST
    assert "two seeds are one comparison" in found.why


def test_weaker_strengths_are_advised_only_where_they_were_not_tried(planted):
    chosen = [replace(one, explained=0.3) for one in planted.models if one.setting.strength == 4.0]
    weaker = [replace(one, explained=0.8) for one in planted.models if one.setting.strength == 1.0]

    def advice(models):
        return next(one for one in advise(LOOK, compare(models), 5000, 4) if one.kind == "reconstruction")

    assert "allow weaker strengths" in advice(chosen).try_next
    assert "allow weaker strengths" not in advice([*chosen, *weaker]).try_next
    assert "beta_vae beta=1 explains 80 %, but its seeds agree less" in advice([*chosen, *weaker]).try_next


def test_the_log_says_why_the_first_row_was_not_chosen(planted):
    said = describe_settings(planted)[-1]
    assert said.startswith("  beta_vae beta=64 has the highest UDR, but its seeds agree no more than chance: ")
    assert not describe_settings(compare([one for one in planted.models if one.setting.strength == 4.0]))[-1].endswith(
        "is taken."
    )
