"""Which score should choose: the gain of choosing among the models of one seed."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import selectors_page  # noqa: E402

from karenina.papers.locatello2019.tables import METRICS  # noqa: E402


def published(scores, data="blobs"):
    """A tidy frame from name -> values (settings, seeds), of a metric in the paper's words or of a label-free score."""
    parts = []
    for name, values in scores.items():
        setting, seed = (axis.ravel() for axis in np.indices(values.shape))
        metric, prop = METRICS.get(name, (name, ""))
        part = pd.DataFrame({"setting": [f"s{i}" for i in setting], "seed": seed, "value": values.ravel()})
        part = part.assign(data=data, method="beta_vae", parameters="", parameter="beta", strength=setting * 1.0)
        part = part.assign(latents=10, network="mlp", steps=10, metric=metric, property=prop, factor="", std=np.nan)
        parts.append(part.assign(family="predictor" if name in METRICS else "label-free"))
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(run=frame["data"] + frame["setting"] + frame["seed"].astype(str))


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(30, 8))
    free = {"elbo": truth, "kl": truth, "support": rng.normal(size=(30, 8)), "dynamics": np.ones((30, 8))}
    return {**{name: truth + 0.01 * i for i, name in enumerate(METRICS)}, **free}


def test_planted_choosers(scores):
    found = selectors_page.one_of_each(published(scores))
    assert found.loc["elbo", ["blobs", "mean"]].tolist() == pytest.approx([1, 1])
    assert np.isnan(found.loc["elbo", "low"])  # all seeds say the same, which tells nothing of their spread
    assert found.loc["kl", "mean"] < -0.8  # better when small, and here the worst is smallest
    assert found.loc["dynamics", "mean"] == pytest.approx(0)  # the same for all: a random choice
    assert found.loc["support", "low"] < 0 < found.loc["support", "high"]
    assert found.loc["MIG (with labels)", "mean"] == pytest.approx(1)


def test_gains_are_those_of_choices_one_by_one(scores):
    rng = np.random.default_rng(1)
    scores = {name: values + rng.normal(size=values.shape) for name, values in scores.items()}
    worst = {**scores, "support": -scores["MIG"]}
    both = selectors_page.one_of_each(pd.concat([published(scores), published(worst, "dsprites")]))
    assert both.loc["support", "mean"] == pytest.approx(both.loc["support", ["blobs", "dsprites"]].mean())
    assert both.loc["support", "dsprites"] < -0.3 < both.loc["support", "blobs"]
    found = selectors_page.one_of_each(published(scores))

    def gain(chooser, seeds):
        gains = []
        for name in METRICS:
            chosen = np.mean([scores[name][scores[chooser][:, s].argmax(), s] for s in seeds])
            rest = scores[name][:, seeds]
            gains.append((chosen - rest.mean()) / (rest.max(0).mean() - rest.mean()))
        return np.mean(gains)

    assert found.loc["support", "mean"] == pytest.approx(gain("support", range(8)))
    left = np.array([gain("support", [s for s in range(8) if s != out]) for out in range(8)])
    half = 2.364624 * np.sqrt(7 / 8 * ((left - left.mean()) ** 2).sum())  # Student's t, 7 degrees of freedom
    assert found.loc["support", "high"] == pytest.approx(found.loc["support", "mean"] + half, rel=1e-5)


def test_the_answer_names_the_best_and_what_labels_would_give(scores):
    says, table = selectors_page.answer(selectors_page.one_of_each(published(scores)))
    assert says.startswith("**`elbo` chooses best, with a mean gain of 1.00.**")
    assert "`support`" not in says.split("Better on each")[0]
    lines = table.splitlines()[2:]
    assert [line.startswith("| ") and "(with labels)" in line for line in lines] == [False] * 4 + [True] * 6
