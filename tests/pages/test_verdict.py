"""What failed is not praised."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import karenina
from karenina.pages import choice as choice_module
from karenina.pages.choice import choices, explained
from karenina.pages.contents import EncodedImages, read
from karenina.pages.page import report
from karenina.selection import choice as selection_choice
from karenina.selection.choice import NO_TRUST


@pytest.fixture
def planted(monkeypatch):
    """Contents of a run that draws `make(images)`, whatever its codes are."""
    images = np.random.default_rng(0).integers(256, size=(50, 1, 4, 4), dtype=np.uint8)

    def contents(make):
        run = SimpleNamespace(config=SimpleNamespace(image_shape=(1, 4, 4)), decode=lambda codes: make(images / 255))
        monkeypatch.setattr("karenina.pages.choice.open_run", lambda path: run)
        return SimpleNamespace(
            about=pd.DataFrame({"data": ["d"]}, index=["a"]),
            inputs=lambda data: EncodedImages(images, np.zeros((50, 0)), (), ()),
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


def test_the_page_says_that_none_is_worth_picking(study, page):
    """Models of 40 steps draw the mean image."""
    choice = choices(read([study]))[0]
    assert not choice.worth
    assert choice.picks == ()
    text = page.read_text()
    assert "None of these 4 models is worth picking" in text
    assert 'class="card answer failed"' in text
    assert "Pick beta" not in text


@pytest.fixture
def trusted(monkeypatch):
    """Chance is 0 and two seeds are enough, so that the four models of the study can be chosen from."""
    monkeypatch.setattr(selection_choice, "chance", lambda *_: 0.0)
    monkeypatch.setattr(selection_choice, "TOO_FEW_SEEDS", 1)


def test_the_first_that_is_worth_it_is_picked(study, tmp_path, monkeypatch, trusted):
    contents = read([study])
    monkeypatch.setattr(choice_module, "explained", lambda contents, run: 1.0)
    before = choices(contents)[0]
    drawn = lambda contents, run: 0.0 if run == before.best else 1.0  # noqa: E731
    monkeypatch.setattr(choice_module, "explained", drawn)
    choice = choices(contents)[0]
    assert choice.worth
    assert choice.best != before.best
    assert before.best not in {pick.run for pick in choice.picks}
    assert 'class="card answer"' in report(study, tmp_path, figures=False).read_text()


def test_a_report_and_a_fit_say_the_same_of_the_same_models(tmp_path):
    """The model, the sentence that names it, and the verdict."""
    images = karenina.load("blobs").sample(1500, np.random.default_rng(0))[0]
    path = tmp_path / "images.npz"
    np.savez(path, images=images)
    fit = karenina.fit(path, out=tmp_path / "fit", models=6, steps=300, latents=4)
    runs = tmp_path / "fit" / "runs" / "1"
    contents = read([runs], data=path)
    choice = choices(contents)[0]
    assert choice.worth == (fit.verdict.level != NO_TRUST)
    assert choice.best == fit.best.path.name
    said = fit.verdict.why if not choice.worth else str(fit.verdict)
    assert said in f"{choice.headline} {choice.sure}"
