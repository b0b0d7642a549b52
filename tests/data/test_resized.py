"""Smaller images: means of blocks, made once, and the same factors."""

import numpy as np
import pytest

import karenina
from karenina.data import TableDataSet, resized
from karenina.data.resized import shrink, with_side
from karenina.data.sampling import biased


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "karenina"


@pytest.mark.parametrize("name", ["dsprites", "color_dsprites", "shapes3d", "blobs"])
def test_each_pixel_is_the_mean_of_its_block(name):
    big, small = karenina.load(name), karenina.load(f"{name}:side=8")
    assert small.name == f"{name}:side=8"
    assert small.image_shape == (big.image_shape[0], 8, 8)
    assert (small.factor_names, small.factor_sizes) == (big.factor_names, big.factor_sizes)
    images, factors = small.sample(20, np.random.default_rng(0))
    whole, same = big.sample(20, np.random.default_rng(0))
    np.testing.assert_array_equal(factors, same)
    block = big.image_shape[1] // 8
    means = whole.reshape(20, -1, 8, block, 8, block).mean((3, 5))
    assert np.abs(images - means).max() <= 0.5
    if not big.stochastic:
        np.testing.assert_array_equal(small.images(factors), images)


def test_all_images_are_made_once_and_kept(cache, monkeypatch):
    monkeypatch.setattr(resized, "_FEW", 100)
    data = karenina.load("blobs:side=4")
    few = data.sample(50, np.random.default_rng(0))[0]
    assert not list(cache.glob("*"))  # a look is not worth making all
    cache.mkdir()
    (cache / ".blobs.npy.abcd1234.part.npy").touch()  # of a killed process
    for _ in range(3):
        data.sample(50, np.random.default_rng(0))
    (file,) = cache.glob("blobs-*.side4.npy")
    np.testing.assert_array_equal(data.sample(50, np.random.default_rng(0))[0], few)
    again = karenina.load("blobs:side=4")
    monkeypatch.setattr(resized.SmallerImages, "_fill", lambda *_: pytest.fail("made twice"))
    np.testing.assert_array_equal(again.sample(50, np.random.default_rng(0))[0], few)
    file.write_bytes(b"something else")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    np.testing.assert_array_equal(karenina.load("blobs:side=4").sample(50, np.random.default_rng(0))[0], few)


def test_teapots_of_a_part_are_kept_after_half_of_them(cache, monkeypatch):
    monkeypatch.setattr("karenina.papers.eastwood2018.teapots.PARTS", {"train": 80, "validation": 5, "test": 5})
    big, data = (karenina.load(f"teapots:part=train{side}") for side in ("", ",side=16"))
    first, factors = data.sample(30, np.random.default_rng(0))
    assert not list(cache.glob("*"))
    data.sample(30, np.random.default_rng(1))
    np.testing.assert_array_equal(data.sample(30, np.random.default_rng(0))[0], first)
    assert list(cache.glob("teapots-*.side16.npy"))
    np.testing.assert_array_equal(first, shrink(big.images(factors), 16))
    monkeypatch.setattr(resized.SmallerImages, "_fill", lambda *_: pytest.fail("made twice"))
    np.testing.assert_array_equal(with_side(big, 16).images(factors), first)
    another = factors[:2] * 0.5  # a teapot that is not of the part is drawn
    np.testing.assert_array_equal(data.images(another), shrink(karenina.load("teapots").images(another), 16))


def test_where_nothing_can_be_kept_they_stay_in_memory(cache, monkeypatch):
    monkeypatch.setattr(resized, "_FEW", 1)
    cache.parent.joinpath("karenina").write_text("a file in the way")
    data = karenina.load("blobs:side=4")
    first = data.sample(50, np.random.default_rng(0))[0]
    np.testing.assert_array_equal(data.sample(50, np.random.default_rng(0))[0], first)


def test_noise_stays_noise_and_options_add_up():
    data = karenina.load("noisy_dsprites:side=16")
    assert data.stochastic
    a, b = (data.images([[0, 0, 0, 0, 0]], seed) for seed in (0, 1))
    assert (a != b).any()
    assert karenina.load("teapots", side=32, gap="exclude").name == "teapots:gap=exclude,side=32"
    run = karenina.train("blobs:side=8", "beta_vae", latents=2, steps=1)
    assert run.config.data == "blobs:side=8"


@pytest.mark.parametrize("side", [0, -8, 20, 128, "big", 1.5, True])
def test_other_sides_are_refused(side):
    with pytest.raises(ValueError, match="64x64 pixels; side can be 4, 8, 16, 32, got"):
        karenina.load("dsprites", side=side)


def test_shrink_rounds_to_the_nearest():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 3, 12, 12), dtype=np.uint8)
    means = images.reshape(5, 3, 4, 3, 4, 3).mean((3, 5))
    np.testing.assert_array_equal(shrink(images, 4), np.floor(means + 0.5))


def test_smaller_images_are_as_many():
    assert len(karenina.load("teapots:side=32")) == len(karenina.load("teapots")) == 200_000
    assert len(karenina.load("teapots:side=32,part=test")) == 20_000


def test_pairs_and_a_bias_stay():
    rows = np.array([[a, b] for a in range(3) for b in range(3)])
    images = np.random.default_rng(0).integers(0, 256, (9, 1, 8, 8), dtype=np.uint8)
    table = TableDataSet("table", ("a", "b"), rows, (1, 8, 8), lambda index: images[index], source="test")
    table.pairs = np.array([[0, 1], [1, 8]])
    for data in (biased(table, only="a=0..1"), biased(karenina.load("blobs"), only="x=0..1")):
        small = with_side(data, 4)
        found, factors = small.sample(50, np.random.default_rng(0))
        assert small.image_shape == small.whole.image_shape == (1, 4, 4)
        assert (small.drawable, small.whole.drawable) == (data.drawable, data.whole.drawable)
        np.testing.assert_array_equal(factors, data.sample(50, np.random.default_rng(0))[1])
        np.testing.assert_array_equal(small.images(factors), found)
    assert with_side(biased(table, only="a=0..1"), 4).pairs.tolist() == [[0, 1]]
