"""What failed is not praised."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import karenina
from karenina.pages import choice as choice_module
from karenina.pages.choice import chance, choices, explained, why_not
from karenina.pages.contents import Inputs, read
from karenina.pages.page import report


def pairs(latents, copies, rng):
    """UDR of every two of some rotations of the same Gaussian codes, by `karenina.udr` itself."""
    codes = np.linalg.qr(rng.normal(size=(400, latents)))[0] * 20
    turned = [codes @ np.linalg.qr(rng.normal(size=(latents, latents)))[0] for _ in range(copies)]
    return karenina.udr(turned, [np.ones(latents)] * copies, ["a"] * copies).pairwise


def test_chance_is_the_udr_of_rotated_codes():
    for latents in (2, 4):
        found = pairs(latents, 40, np.random.default_rng(0))[~np.eye(40, dtype=bool)]
        assert np.mean(found < chance(latents)) == pytest.approx(0.95, abs=0.02)
    assert chance(1) == 1


def test_chance_covers_the_best_of_a_study():
    """Of studies in which every model is a random rotation, one in twenty at most has a best model above it."""
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(60):
        best = max(np.nanmedian(pairs(4, 3, rng) + np.diag([np.nan] * 3), axis=1).max() for _ in range(4))
        above += best > chance(4, partners=2, models=12)
    assert above <= 6  # a share of .05 exceeds it with a probability of .03; the mean of rotations is exceeded always
    assert chance(4, partners=2, models=12) < 0.65  # and perfect agreement is 1


@pytest.fixture
def planted(monkeypatch):
    """Contents of a run that draws `make(images)`, whatever its codes are."""
    images = np.random.default_rng(0).integers(256, size=(50, 1, 4, 4), dtype=np.uint8)

    def contents(make):
        run = SimpleNamespace(config=SimpleNamespace(image_shape=(1, 4, 4)), decode=lambda codes: make(images / 255))
        monkeypatch.setattr("karenina.training.open", lambda path: run)
        return SimpleNamespace(
            about=pd.DataFrame({"data": ["d"]}, index=["a"]),
            inputs=lambda data: Inputs(images, np.zeros((50, 0)), (), ()),
            codes=lambda name: (np.zeros((50, 2)), np.ones(2)),
            paths={"a": "a"},
            kl_threshold=0.05,
            intervals={},
        )

    return contents


def test_explained_is_the_share_of_the_variance_of_pixels(planted):
    assert explained(planted(lambda images: images), "a") == 1
    mean = planted(lambda images: np.broadcast_to(images.mean(axis=0), images.shape))
    assert explained(mean, "a") == pytest.approx(0)
    half = planted(lambda images: 0.5 * (images + images.mean(axis=0)))
    assert explained(half, "a") == pytest.approx(0.75)


def test_why_a_model_is_not_worth_picking(planted):
    good = planted(lambda images: images)
    assert why_not(good, "a", 3, 0.9, 10) == ""
    assert "no latent is active" in why_not(good, "a", 0, 0.9, 10)
    assert "agree no more than chance: UDR 0.60" in why_not(good, "a", 3, 0.6, 10)
    assert why_not(good, "a", 1, 0.2, 10) == ""  # rotations of one latent are itself
    blind = planted(lambda images: np.full_like(images, 0.5))
    assert "no better than the mean image: they explain nothing" in why_not(blind, "a", 3, 0.9, 10)


def test_the_page_says_that_none_is_worth_picking(study, page):
    """Models of 40 steps draw the mean image."""
    choice = choices(read([study]))[0]
    assert not choice.worth
    assert choice.picks == ()
    text = page.read_text()
    assert "None of these 4 models is worth picking" in text
    assert 'class="card answer failed"' in text
    assert "Pick beta" not in text


def test_the_first_that_is_worth_it_is_picked(study, tmp_path, monkeypatch):
    contents = read([study])
    order = contents.about["run"].iloc[np.argsort(-contents.score("udr_lasso"))].tolist()
    monkeypatch.setattr(choice_module, "explained", lambda contents, run: 0.0 if run == order[0] else 1.0)
    monkeypatch.setattr(choice_module, "chance", lambda *_: 0.0)
    choice = choices(contents)[0]
    assert choice.worth
    assert choice.best == order[1]
    assert "number 2 of 4 models, the first that is worth picking;" in choice.headline
    assert "seed 0 is not worth picking: its reconstructions" in choice.sure or "seed 1 is not" in choice.sure
    assert order[0] not in {pick.run for pick in choice.picks}
    assert 'class="card answer"' in report(study, tmp_path, figures=False).read_text()
