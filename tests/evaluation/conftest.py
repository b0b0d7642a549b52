"""What the tests of rankings share."""

from functools import partial

import pytest

from karenina.evaluation import ranking


@pytest.fixture(autouse=True)
def short_discriminators(monkeypatch):
    """PIPE's network takes 40 steps in place of 400: here it is asked for the same numbers twice, not for good ones."""
    monkeypatch.setattr(ranking, "discriminator_accuracy", partial(ranking.discriminator_accuracy, steps=40))
