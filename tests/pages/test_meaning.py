"""Guesses of what latents mean, on pictures that are known to move so."""

import numpy as np
import pytest

import karenina
from karenina.pages.model import by_labels, by_pictures

STEPS = np.linspace(-1, 1, 9)
Y, X = np.mgrid[-1:1:32j, -1:1:32j]


def _bar(x=0.0, y=0.0, size=1.0, angle=0.0):
    """A soft bar, so that a step moves it by less than its width."""
    a, b = X - x, Y - y
    u, v = np.cos(angle) * a + np.sin(angle) * b, np.cos(angle) * b - np.sin(angle) * a
    return np.exp(-0.5 * ((u / (0.4 * size)) ** 2 + (v / (0.2 * size)) ** 2))


@pytest.mark.parametrize(
    ("word", "draw"),
    [
        ("left-right", lambda t: _bar(x=0.3 * t)),
        ("up-down", lambda t: _bar(y=0.3 * t)),
        ("size", lambda t: _bar(size=1 + 0.4 * t, x=0.2)),
        ("turn", lambda t: _bar(angle=t)),
        ("brightness", lambda t: 0.5 + 0.2 * t + 0.1 * _bar()),
        ("shape", lambda t: np.random.default_rng(int(100 * t) % 97).random((32, 32))),
    ],
)
def test_a_word_says_what_moves(word, draw):
    images = np.stack([draw(t) for t in STEPS])[:, None]
    assert by_pictures(images) == word
    assert by_pictures(np.repeat(images, 3, axis=1)) == word


def test_a_change_of_hue_is_a_colour():
    images = np.stack([np.stack([0.5 + 0.3 * t, 0.5 - 0.3 * t, 0.5]) for t in STEPS])[:, :, None, None]
    assert by_pictures(images * np.ones((1, 1, 8, 8))) == "colour"


def test_factors_of_blobs_have_their_words():
    data = karenina.load("blobs")
    middle = [size // 2 for size in data.factor_sizes]
    words = {}
    for k, (name, size) in enumerate(zip(data.factor_names, data.factor_sizes)):
        rows = np.tile(middle, (size, 1))
        rows[:, k] = np.arange(size)
        words[name] = by_pictures(data.images(rows) / 255)
    assert words == {"background": "brightness", "x": "left-right", "y": "up-down", "radius": "size"}


def test_labels_name_active_latents_that_tell_something():
    information = np.array([[0.92, 0.01, 0.5], [0.2, 0.03, 0.1]])
    found = by_labels(information, ("x", "y"), np.array([True, True, False]))
    assert found == [("x", 0.92), ("", 0.03), None]
