"""Traversals keep to the codes that a method has: the prior of a VAE, the bounded codes of InfoGAN."""

import numpy as np
import pytest

import karenina
from karenina.drawing.pictures import traverse_prior
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
