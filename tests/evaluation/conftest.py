"""What the tests of rankings share."""

from functools import partial

import pytest

from karenina.training import pipe


@pytest.fixture(autouse=True)
def short_discriminators(monkeypatch):
    """PIPE's network takes 40 steps in place of 400: here it is asked for the same numbers twice, not for good ones."""
    monkeypatch.setattr(pipe, "discriminator_accuracy", partial(pipe.discriminator_accuracy, steps=40))
