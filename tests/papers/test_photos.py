"""The preset of photographs: folders of images without labels, found by name in the data folder."""

import numpy as np
import pytest
from PIL import Image

import karenina
from karenina.data import load_again
from karenina.papers import paper_of
from karenina.studies.plan import parse, preset


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A data folder with a folder of twelve noisy colour gradients."""
    folder = tmp_path / "data" / "photos"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(12):
        ramp = np.linspace(0, 255 * i / 11, 24)[:, None, None] + 10 * rng.random((24, 20, 3))
        Image.fromarray(ramp.clip(0, 255).astype(np.uint8)).save(folder / f"{i}.png")
    monkeypatch.setenv("KARENINA_DATA", str(folder.parent))
    return folder


def test_a_folder_in_the_data_folder_is_known_by_its_name(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = karenina.load("photos:size=16")
    assert (data.image_shape, len(data), data.labelled) == ((3, 16, 16), 12, False)
    assert load_again(data.name).name == data.name == "photos:size=16"
    assert karenina.load("photos", data_dir=photos.parent, size=16).name == "photos:size=16"
    assert parse('data = "photos:size=16"\nseeds = 1\nmethods.vae = {}').data == ("photos:size=16",)


def test_without_the_folder_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KARENINA_DATA", raising=False)
    with pytest.raises(ValueError, match="no data set and no file 'photos'"):
        karenina.load("photos:size=16")


def test_the_preset_is_the_papers_sweep_and_belongs_to_its_paper():
    plan = preset("duan2020_photos", "paper")
    assert len(plan.points) == 600
    assert {point.strength for point in plan.points} == {1, 2, 4, 6, 8, 16}
    assert paper_of(plan.name) == "duan2020"
    assert preset("duan2020_photos", "smoke").evaluation.metrics == ()
