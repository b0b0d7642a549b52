"""Traversals keep to the codes that a method has: the prior of a VAE, the bounded codes of InfoGAN."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

import karenina
from karenina.drawing.pictures import animation, mosaic, move_latents, picture, reconstruct, traverse_prior
from karenina.pages.compare import _ranges, _traversals
from karenina.pages.model import describe


@pytest.fixture(scope="module")
def runs():
    made = {}
    for method, more in (("vae", {}), ("infogan", {"critic_steps": 1})):
        made[method] = karenina.train("blobs", method, latents=3, steps=1, **more)
    return made


@pytest.fixture
def decoded(monkeypatch):
    """All codes that any run decodes."""
    codes = []
    decode = karenina.training.run.Run.decode

    def record(run, given):
        codes.append((run.config.method, np.asarray(given)))
        return decode(run, given)

    monkeypatch.setattr(karenina.training.run.Run, "decode", record)
    return codes


IMAGES = karenina.load("blobs").sample(20, 0)[0]


@pytest.mark.parametrize(("method", "end"), [("vae", 2), ("infogan", 1)])
def test_a_latent_ranges_over_the_prior_of_its_method(runs, method, end, decoded):
    run = runs[method]
    found = run.traverse(IMAGES, steps=5)
    assert np.array_equal(found.values, np.tile(np.linspace(-end, end, 5), (3, 1)))
    traverse_prior(run, np.zeros(3, np.float32), np.array([2, 0, 1]), 9)
    assert [np.abs(codes).max() for _, codes in decoded[1:]] == [end]
    one = describe(run, run.encode(IMAGES)[0], run.kl(IMAGES), None, 0.01)
    assert (one["span"], set(one["reach"])) == ((2, {3}) if method == "vae" else (1, {1}))


def test_two_methods_side_by_side_move_each_over_its_own(runs, decoded):
    both = [runs["vae"], runs["infogan"]]
    codes = [np.zeros((1, 3), np.float32)] * 2
    _traversals(both, codes, [{"a": 0, "b": 1, "sign": -1, "off": False}])
    (_, a), (_, b) = decoded
    assert a[:, 0].tolist() == pytest.approx(np.linspace(-2, 2, 7))
    assert b[:, 1].tolist() == pytest.approx(np.linspace(1, -1, 7))
    assert "A goes from -2 to 2, that of B from -1 to 1" in _ranges(both)


def test_one_latent_moves_and_the_others_stay(runs):
    start = np.array([0.1, 0.2, 0.3], np.float32)
    images = move_latents(runs["vae"], start, [2, 0], [[-1.0, 0.3], [0.1, 5.0]])
    codes = np.array([[0.1, 0.2, -1.0], start, start, [5.0, 0.2, 0.3]], np.float32)
    assert np.array_equal(images.reshape(4, *images.shape[2:]), runs["vae"].decode(codes))


def test_reconstructions_are_below_their_images(runs):
    both = reconstruct(runs["vae"], IMAGES[:3])
    assert np.allclose(both[0], IMAGES[:3] / 255)
    assert np.array_equal(both[1], runs["vae"].decode(runs["vae"].encode(IMAGES[:3])[0]))


def test_a_mosaic_fades_what_is_dark():
    images = np.random.default_rng(0).random((2, 3, 1, 4, 5)).astype(np.float32)
    whole = mosaic(images, np.array([True, False]))
    assert whole.shape == (1, 10, 18)
    np.testing.assert_array_equal(whole[0, :4, 6:11], images[0, 1, 0])
    assert whole[0, 5:9, :5].std() < 0.3 * images[1, 0, 0].std()


def opened(shown):
    kind, content = shown["src"].removeprefix("data:image/").split(";base64,")
    found = Image.open(io.BytesIO(base64.b64decode(content)))
    assert (kind, shown["width"], shown["height"]) == (found.format.lower(), *found.size)
    return found


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "L"), (3, "RGB"), (4, "RGB")])
def test_small_pictures_are_lossless(channels, mode):
    values = np.random.default_rng(0).integers(256, size=(channels, 4, 6))
    found = opened(picture(values / 255))
    assert (found.format, found.mode) == ("PNG", mode)
    assert np.array_equal(np.asarray(found), values[0] if mode == "L" else values[:3].transpose(1, 2, 0))


def test_an_animation_goes_there_and_back():
    found = opened(
        animation(np.linspace(0, 1, 4, dtype=np.float32)[:, None, None, None] * np.ones((1, 1, 8, 8), np.float32))
    )
    assert (found.size, found.n_frames) == ((96, 96), 6)
