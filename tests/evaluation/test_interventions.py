"""Interventions through the generative model: from any data set that can draw any row of factors."""

import numpy as np
import pytest

import karenina
from karenina.cli import study as study_commands
from karenina.data import DataSet, FactorBox, FactorGrid
from karenina.evaluation.scoring import LEAST_BLOCKS, MOST_VALUES, evaluate, sampler_of
from karenina.metrics.interventions import GroupedRows
from karenina.numerics.blocks import Blocks
from karenina.studies.plan import Scoring, parse
from karenina.studies.runner import estimate
from karenina.studies.study import Study


def draw(rows, rng):
    """Images (n, 1, 4, 4) whose first pixels are the factors."""
    images = np.zeros((len(rows), 1, 4, 4), np.uint8)
    images[:, 0, 0, : rows.shape[1]] = rows
    return images


class Pixels:
    """A model whose codes are the first three pixels; counts the images that it is shown."""

    path = None

    def __init__(self):
        self.shown = []

    def encode(self, images):
        self.shown.append(len(images))
        return images[:, 0, 0, :3].astype(np.float32), np.zeros((len(images), 3), np.float32)


LARGE = FactorGrid(("a", "b", "c"), (60, 30, 20))


@pytest.mark.parametrize("stochastic", [False, True])
def test_a_large_grid_is_encoded_in_blocks(stochastic):
    run, data = Pixels(), DataSet("large", LARGE, (1, 4, 4), draw, stochastic=stochastic)
    blocks = sampler_of(run, data, rows=5000, seed=0)
    assert isinstance(blocks, Blocks)
    assert [len(v) for v in blocks.values] == [MOST_VALUES, 30, 20]
    assert len(blocks) == 10_000 // 90
    assert sum(run.shown) == 90 * len(blocks)
    assert max(run.shown) <= 2000
    for j in range(3):
        assert (blocks.along(j)[:, :, j] == blocks.values[j]).all()
    assert set(blocks.values[0]) < set(range(60))
    assert len(sampler_of(run, data, rows=10, seed=0)) == LEAST_BLOCKS
    assert sampler_of(run, data, "rows", rows=5000) is None


def test_a_box_takes_values_over_its_whole_range_and_a_small_grid_is_encoded_whole():
    box = DataSet("box", FactorBox(("a", "b"), (0.0, 10.0), (100.0, 20.0)), (1, 4, 4), draw, size=1000)
    blocks = sampler_of(Pixels(), box, rows=400)
    assert blocks.values[1].min() == pytest.approx(10 + 10 / MOST_VALUES / 2)
    assert blocks.values[1].max() == pytest.approx(20 - 10 / MOST_VALUES / 2)
    small = sampler_of(Pixels(), DataSet("small", FactorGrid(("a", "b"), (5, 4)), (1, 4, 4), draw), "rows")
    np.testing.assert_array_equal(small(np.array([[4, 3], [0, 2]]))[:, :2], [[4, 3], [0, 2]])


@pytest.mark.parametrize("name", ["teapots:gap=exclude", "table"])
def test_data_that_lacks_rows_of_factors_keeps_to_its_rows(name, tmp_path):
    if name == "table":
        factors = np.random.default_rng(0).integers(3, size=(30, 2))
        np.savez(tmp_path / "mine.npz", images=np.zeros((30, 1, 8, 8), np.uint8), factors=factors)
        name = tmp_path / "mine.npz"
    assert sampler_of(Pixels(), karenina.load(name)) is None


def test_teapots_and_sprites_are_drawn_from_the_model(monkeypatch):
    monkeypatch.setattr("karenina.evaluation.scoring.LEAST_BLOCKS", 2)
    for name in ("teapots", "color_dsprites"):
        run = karenina.train(name, "vae", network="linear", latents=2, steps=1)
        data = karenina.load(name)
        assert isinstance(sampler_of(run, data, rows=10), Blocks)


@pytest.fixture(scope="module")
def sparse():
    """Three factors of 60 values: of a few hundred rows no two agree on two of them."""
    data = DataSet("sparse", FactorGrid(("a", "b", "c"), (60, 60, 60)), (1, 4, 4), draw)
    return data, karenina.train(data, "vae", network="linear", latents=2, steps=1)


def test_scores_say_which_way_they_were_drawn(sparse):
    data, run = sparse
    given = {"metrics": ["z_max_variance"], "rows": 25}
    model, rows = (evaluate(run, data, interventions=way, **given) for way in ("model", "rows"))
    assert 0 < model.table.rows[0].value <= 1
    assert np.isnan(rows.table.rows[0].value)
    assert "use more rows" in rows.table.rows[0].note
    assert model.intervention_seconds > 0 == rows.intervention_seconds
    assert evaluate(run, data, metrics=["mig"], rows=300).intervention_seconds == 0
    with pytest.raises(ValueError, match="interventions is 'row', expected 'model'"):
        evaluate(run, data, metrics=["mig"], interventions="row")


def test_half_samples_have_half_of_the_blocks(sparse, monkeypatch):
    """Otherwise the standard deviation would be that of the seed and of the scale alone."""
    data, run = sparse
    blocks = sampler_of(run, data, rows=300)
    images, factors = data.sample(300, np.random.default_rng(0))
    seen = []
    monkeypatch.setattr(
        "karenina.metrics.interventions.GroupedRows.of_blocks",
        lambda along, *more, of=GroupedRows.of_blocks, **rest: seen.append(len(along[0])) or of(along, *more, **rest),
    )
    row = karenina.metrics.score(run.encode(images)[0], factors, ["z_min_variance"], repeats=3, sampler=blocks).rows[0]
    assert seen == [len(blocks), *[len(blocks) // 2] * 3]
    assert row.std > 0


TEXT = 'data = "{data}"\nseeds = 1\nlatents = 2\nnetwork = "linear"\nsteps = 2\nmethods.vae = {{}}\n'


def test_a_study_chooses(tmp_path):
    text = TEXT.format(data="dsprites") + "[evaluation]\nmetrics = ['z_diff']\nrows = 50\n"
    plan = parse(text)
    assert plan.evaluation.interventions == "model"
    assert parse(plan.to_toml()) == plan
    cheap = parse(text + "interventions = 'rows'\n")
    assert cheap.evaluation.hash != plan.evaluation.hash
    with pytest.raises(ValueError, match="line 10: no interventions from 'mode'; did you mean model"):
        parse(text + "interventions = 'mode'\n")
    costs = [estimate(p).intervention_seconds for p in (plan, cheap)]
    assert costs[0] > 0 == costs[1]
    folder = Study(tmp_path)
    folder.adopt(cheap)
    written = (tmp_path / "study.toml").read_text()
    assert 'interventions = "rows"' in written
    (tmp_path / "study.toml").write_text(written.replace('interventions = "rows"\n', ""))
    assert folder.read_plan().evaluation.hash == cheap.evaluation.hash  # scored before there was a choice
    assert Scoring(interventions="rows").hash != Scoring().hash


def test_the_plan_says_what_interventions_cost(capsys, tmp_path):
    file = tmp_path / "study.toml"
    for data, said in (("dsprites", True), ("blobs", False)):
        file.write_text(TEXT.format(data=data) + "evaluation = {metrics = ['z_diff'], rows = 50}\n")
        study_commands.plan(str(file), workers=1)
        printed = capsys.readouterr().out
        assert ("images of interventions take" in printed) == said
        assert ('evaluation.interventions = "rows" is cheaper' in printed) == said
