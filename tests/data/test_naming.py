"""Options as a part of a data set's name, and of what a run remembers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import karenina
from karenina.data import join_name, load, load_again, split_name
from karenina.evaluation.scoring import data_of, inputs
from karenina.papers.eastwood2018.teapots import in_gap


def test_split_name():
    assert split_name("teapots:gap=exclude") == ("teapots", {"gap": "exclude"})
    assert split_name("faces:size=64,grey=true,crop=none") == ("faces", {"size": 64, "grey": True, "crop": None})
    assert split_name("C:/pictures") == ("C:/pictures", {})
    assert split_name("blobs") == ("blobs", {})
    assert split_name("faces:factors_csv=007") == ("faces", {"factors_csv": "007"})  # the name of a file
    assert split_name("faces:factors_csv=1_2,size=0,crop=0.5") == (
        "faces",
        {"factors_csv": "1_2", "size": 0, "crop": 0.5},
    )


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]+", fullmatch=True),
        st.one_of(st.booleans(), st.integers(), st.from_regex(r"[/ ,:%=x.a-eé-]*z", fullmatch=True)),
    )
)
def test_names_can_be_taken_apart_again(options):
    assert split_name(join_name("mine", options)) == ("mine", options)
    assert join_name("mine", dict(reversed(options.items()))) == join_name("mine", options)


def test_options_are_part_of_the_name():
    data = load("teapots", gap="exclude")
    assert data.name == "teapots:gap=exclude"
    assert load("teapots:gap=exclude").name == load(data.name).name == data.name
    assert load("teapots", gap=None).name == "teapots"
    assert load("teapots:gap=exclude", gap="only").name == "teapots:gap=only"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("teapots:gap=maybe", "gap is 'maybe', expected None, 'exclude' or 'only'"),
        ("teapots:gap=only,reading=aloud", "reading is 'aloud', expected 'script' or 'printed'"),
        ("teapots:gpa=only", "teapots has no option 'gpa'; did you mean gap. Known: gap, reading"),
        ("blobs:sides=8", "blobs has no option 'sides'; did you mean side. Known: side"),
        ("teapot:gap=only", "did you mean teapots"),
        ("scream_dsprites:painting=5", "no painting at 5"),
    ],
)
def test_wrong_options(name, message):
    with pytest.raises(ValueError, match=message):
        load(name)


@pytest.mark.parametrize("reading", ["script", "printed"])
def test_a_run_remembers_the_options_of_its_data(tmp_path, reading):
    data = load("teapots", gap="exclude", reading=reading)
    run = karenina.train(data, "vae", network="linear", latents=2, steps=1, out=tmp_path / "run")
    again = data_of(karenina.open(tmp_path / "run"))
    assert run.config.data == again.name == f"teapots:gap=exclude,reading={reading}"
    factors = inputs(again, 2000)[1]
    assert not in_gap(factors, reading).any()
    whole = inputs(load("teapots"), 2000)[1]
    assert in_gap(whole, reading).mean() > 0.08


def write(path, name="mine.npz", seed=0, side=8):
    images = np.random.default_rng(seed).integers(0, 256, (40, side, side), dtype=np.uint8)
    path.mkdir(exist_ok=True)
    np.savez(path / name, images=images)
    return path / name


def test_options_of_ones_own_data_are_remembered_too(tmp_path):
    file = write(tmp_path)
    run = karenina.train(load(file, size=(4, 6)), "vae", network="linear", latents=2, steps=1)
    assert run.config.data == "mine:size=4x6"
    with pytest.raises(ValueError, match=r"data of your own \('mine:size=4x6'\): give it by --data PATH"):
        data_of(run)
    assert data_of(run, data=file).image_shape == (1, 4, 6)
    assert data_of(run, data=f"{file}:size=4x6").name == run.config.data
    with pytest.raises(ValueError, match=r"trained on mine:size=4x6 with images of 1x4x6, not on mine:size=4 with"):
        data_of(run, data=f"{file}:size=4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("size=4x", "a size is an integer or"),
        ("size=-4", "a size is an integer or"),
        ("size=1.5", "a size is an integer or"),
        ("grey=maybe", "grey is true or false, got 'maybe'"),
        ("colour=true", "has no option 'colour'; known:"),
    ],
)
def test_wrong_options_of_ones_own_data(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        load(f"{write(tmp_path)}:{options}")


def test_a_renamed_file_is_the_same_data_and_other_images_are_not(tmp_path):
    run = karenina.train(str(write(tmp_path)), "vae", network="linear", latents=2, steps=1)
    assert data_of(run, data=write(tmp_path, "renamed.npz")).name == "renamed"
    with pytest.raises(ValueError, match="trained on mine with images of 1x8x8, not on other with images of 1x8x8"):
        data_of(run, data=write(tmp_path, "other.npz", seed=1))
    with pytest.warns(UserWarning, match="does not give the images that the run was trained on"):
        data_of(run, data=write(tmp_path / "elsewhere", seed=1))


def test_a_path_wins_over_a_name_with_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = write(tmp_path, "odd:size=4.npz")
    assert load("odd:size=4.npz").image_shape == (1, 8, 8)
    assert load_again("mine", odd).image_shape == (1, 8, 8)
