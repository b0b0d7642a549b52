"""Regression, zero-shot inference and wrong labels as measures of a run."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import karenina
from karenina.evaluation.scoring import (
    NOISED,
    Measured,
    data_of,
    evaluate,
    has_gap,
    inputs,
    label_noise,
    measure,
    measures,
    regression,
    zero_shot,
)
from karenina.papers.eastwood2018.teapots import in_gap
from karenina.studies.plan import Scoring, parse


def measured(codes, factors, data="blobs"):
    return Measured(SimpleNamespace(), karenina.load(data), codes, factors, None, 0)


@pytest.fixture(scope="module")
def blobs():
    _, factors = karenina.load("blobs").sample(1500, np.random.default_rng(0))
    return factors


def test_regression_of_codes_that_are_the_factors_in_another_order(blobs):
    order = [2, 0, 3, 1]
    rows = regression(measured(blobs[:, order].astype(np.float32), blobs))
    found = {(metric, part, of): value for metric, _, part, of, value, _ in rows}
    for model in ("lasso", "forest", "forest_splits"):
        for of in ("", "code 0", "code 3"):
            assert found[f"regression_{model}", "disentanglement", of] == pytest.approx(1, abs=0.02)
        for of in ("", "background", "radius"):
            assert found[f"regression_{model}", "completeness", of] == pytest.approx(1, abs=0.02)
            assert found[f"regression_{model}", "nrmse", of] == pytest.approx(0, abs=0.02)
    assert len(rows) == 3 * (5 + 5 + 5)
    assert {row[1] for row in rows} == {"regression"}


def test_shares_of_splits_stand_beside_impurity(blobs):
    codes = blobs + np.random.default_rng(1).normal(size=blobs.shape)
    rows = regression(measured(codes.astype(np.float32), blobs))
    found = {(metric, part, of): value for metric, _, part, of, value, _ in rows}
    forest, splits = (
        {key[1:]: v for key, v in found.items() if key[0] == f"regression_{m}"} for m in ("forest", "forest_splits")
    )
    assert forest.keys() == splits.keys()
    assert forest["nrmse", ""] == splits["nrmse", ""]
    exact = karenina.metrics.dci(
        codes.astype(np.float32), blobs, model=karenina.metrics.Trees(importance="splits"), continuous=True
    )
    assert splits["disentanglement", ""] == pytest.approx(exact.disentanglement)
    assert splits["completeness", "radius"] == pytest.approx(
        exact.per_factor[list(karenina.load("blobs").factor_names).index("radius")]
    )
    assert splits["disentanglement", ""] < forest["disentanglement", ""]


def test_nrmse_of_noise_is_one(blobs):
    noise = np.random.default_rng(1).normal(size=(len(blobs), 3)).astype(np.float32)
    rows = regression(measured(noise, blobs))
    (error,) = [
        value for metric, _, part, of, value, _ in rows if (metric, part, of) == ("regression_lasso", "nrmse", "")
    ]
    assert error == pytest.approx(1, abs=0.03)


def test_wrong_labels_lower_scores_step_by_step(blobs):
    rows = label_noise(measured(blobs.astype(np.float32), blobs))
    found = {metric: value for metric, _, _, _, value, _ in rows}
    assert list(found) == [f"{metric}_noise_{regime}" for regime in range(4) for metric in NOISED]
    mig = [found[f"mig_noise_{regime}"] for regime in range(4)]
    assert mig == sorted(mig, reverse=True)
    assert mig[0] > 0.95
    assert mig[0] == pytest.approx(karenina.metrics.mig(blobs.astype(np.float32), blobs).value)
    assert mig[3] < 0.75


def test_zero_shot_of_a_model_that_never_saw_the_corner(tmp_path):
    karenina.train("teapots:gap=exclude", "pca", latents=3, steps=2, out=tmp_path / "run")
    run = karenina.open(tmp_path / "run")
    data = data_of(run)  # a run remembers the gap
    assert has_gap(data.name)
    assert not in_gap(inputs(data, 300)[1]).any()
    found = evaluate(run, data, metrics=["mig"], rows=200, also=["zero_shot"])
    rows = {(metric, of): value for metric, family, _, of, value, _ in found.measures if family == "task"}
    assert {metric for metric, _ in rows} == {
        f"zero_shot_{model}_{where}" for model in ("lasso", "forest") for where in ("inside", "outside")
    }
    each = [rows["zero_shot_lasso_inside", factor] for factor in data.factor_names]
    assert rows["zero_shot_lasso_inside", ""] == pytest.approx(np.mean(each))
    assert [row[3] for row in found.rows() if row[0] == "zero_shot_lasso_inside"] == ["", *data.factor_names]


def test_data_without_a_gap_has_no_zero_shot(blobs):
    with pytest.raises(ValueError, match="zero_shot needs data with a gap, such as teapots:gap=exclude; got blobs"):
        zero_shot(measured(blobs.astype(np.float32), blobs))
    assert not has_gap("teapots:gap=only")


def test_an_unknown_measure_is_one_clear_line(blobs):
    with pytest.raises(
        ValueError, match="nothing called 'zeroshot' can be measured also; did you mean zero_shot. Known: regression"
    ):
        measure(["zeroshot"], measured(blobs.astype(np.float32), blobs))
    text = 'data = "blobs"\nseeds = 1\nmethods.vae = {}\nevaluation = {also = ["%s"]}'
    with pytest.raises(ValueError, match="no measure 'zeroshot'; did you mean zero_shot"):
        parse(text % "zeroshot")
    with pytest.raises(ValueError, match="zero_shot needs data with a gap"):
        parse(text % "zero_shot")
    assert parse(text % "regression").evaluation.also == ("regression",)
    assert set(measures()) == {"regression", "zero_shot", "label_noise", "shift", "reasoning"}


@pytest.mark.parametrize(("options", "name"), [({"also": ["regression"]}, "regression"), ({"tasks": True}, "tasks")])
def test_nothing_that_needs_labels_goes_without_metrics(options, name):
    run = karenina.train("blobs", "pca", latents=2, steps=2)
    with pytest.raises(ValueError, match=f"only what needs no labels, and {name} needs them"):
        evaluate(run, metrics=(), rows=60, **options)


def test_scores_made_before_there_was_a_choice_keep_their_name():
    """The hash of a scoring names files of scores: without `also` it is what it was."""
    assert Scoring(also=("regression",)).hash != Scoring().hash
    plain = parse('data = "blobs"\nseeds = 1\nmethods.vae = {}').evaluation
    assert plain.hash == Scoring().hash


def test_wrong_labels_and_zero_shot_are_among_the_tasks(blobs, monkeypatch):
    monkeypatch.setattr("karenina.evaluation.scoring.with_tasks", lambda table, *given: table)  # boosted trees
    table = karenina.score(blobs[:300].astype(float), blobs[:300], ["mig"], tasks=True)
    found = {row.metric: row.value for row in table.rows}
    assert found["mig_noise_0"] == pytest.approx(found["mig"])
    assert found["mig_noise_3"] < found["mig_noise_1"] < found["mig_noise_0"]
    run = karenina.train("teapots:gap=exclude", "pca", latents=2, steps=2)
    seen = {}
    monkeypatch.setattr("karenina.evaluation.scoring.measure", lambda names, measured: seen.update(names=names) or [])
    monkeypatch.setattr("karenina.evaluation.scoring.sampler_of", lambda *given: None)
    few = partial(evaluate, rows=20)
    monkeypatch.setattr("karenina.evaluation.scoring.evaluate", few)
    karenina.score(run, metrics=["mig"], tasks=True)
    assert seen["names"] == ["label_noise", "zero_shot"]
    karenina.score(run, metrics=["mig"])
    assert seen["names"] == []


def test_a_run_of_the_training_part_is_scored_on_the_test_part():
    """Eastwood & Williams (2018), 4.1: 160,000, 20,000 and 20,000 images, fixed."""
    train, test = (karenina.load(f"teapots:part={part},seed=3") for part in ("train", "test"))
    assert (len(train), len(test)) == (160_000, 20_000)
    _, factors = inputs(train, 50)
    assert {tuple(row) for row in factors} <= {tuple(row) for row in test.factors.rows}
    assert not {tuple(row) for row in factors} & {tuple(row) for row in train.factors.rows}
