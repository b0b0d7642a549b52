"""Runs ranked by pictures that they generate, and what is measured of them beside metrics."""

import numpy as np
import pytest

import karenina
from karenina.evaluation import ranking
from karenina.evaluation.ranking import centrality


class Planted:
    """A run whose pictures are its codes, turned, through a matrix that encodes them back."""

    def __init__(self, turn):
        self.turn = np.asarray(turn, float)
        self.latents = len(self.turn)

    def decode(self, codes):
        return np.asarray(codes) @ self.turn

    def encode(self, pictures):
        return pictures @ self.turn.T, None


def test_centrality_finds_the_models_that_are_alike():
    turned = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])
    runs = [Planted(np.eye(3)), Planted(-np.eye(3)[::-1]), Planted(turned), Planted(np.eye(3)[[1, 2, 0]])]
    scores = centrality(runs, [np.ones(3, bool)] * 4)
    assert scores[2] < min(scores[[0, 1, 3]]) - 0.15
    dead = centrality([*runs[:2], runs[2]], [np.ones(3, bool), np.ones(3, bool), np.zeros(3, bool)])
    assert np.isnan(dead[2])
    assert dead[:2] == pytest.approx([1, 1], abs=0.05)
    with pytest.raises(ValueError, match="give two or more"):
        centrality(runs[:1], [np.ones(3, bool)])


def test_among_many_models_fifty_partners_say_nearly_what_all_say(monkeypatch):
    rng = np.random.default_rng(0)
    runs = [Planted(np.linalg.qr(np.eye(3) + noise * rng.normal(size=(3, 3)))[0]) for noise in np.linspace(0, 1, 60)]
    active = [np.ones(3, bool)] * 60
    calls = []
    monkeypatch.setattr(Planted, "encode", lambda run, x: calls.append(run) or (x @ run.turn.T, None))
    some = centrality(runs, active)
    assert len(calls) == 60 * 25
    assert {calls.count(run) for run in runs} == {25}
    monkeypatch.setattr(ranking, "PARTNERS", 59)
    assert np.corrcoef(some, centrality(runs, active))[0, 1] > 0.9


@pytest.fixture(scope="module")
def runs():
    return [karenina.train("blobs", "vae", latents=2, steps=3, seed=seed) for seed in (0, 1)]


@pytest.mark.parametrize("by", ["pipe", "centrality"])
def test_runs_are_ranked(runs, by, monkeypatch):
    monkeypatch.setattr(ranking, "PICTURES", 40)
    found = karenina.rank(runs, by=by, rows=60, kl_threshold=0.0)
    assert found.frame["score"].between(0, 1).all()
    again = karenina.rank(runs, by=by, rows=60, kl_threshold=0.0)
    assert found.frame["score"].tolist() == again.frame["score"].tolist()


def test_shift_and_reasoning_are_measured_of_a_run(runs, monkeypatch):
    monkeypatch.setattr("karenina.papers.since2020.reasoning.REASONING", (32, 64))
    found = karenina.evaluate(runs[0], metrics=["mig"], rows=300, also=["shift", "reasoning"])
    names = {row[0] for row in found.rows()}
    assert {
        "shift_corner_logistic_unseen",
        "shift_correlated_boosted_seen",
        "reasoning_64",
        "reasoning_efficiency",
    } <= names
