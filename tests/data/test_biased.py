"""Correlated factors, and combinations that are left out, against the densities that define them."""

import numpy as np
import pytest

import karenina
from karenina.data import TableDataSet, load
from karenina.data.sampling import biased
from karenina.evaluation.scoring import data_of, inputs
from karenina.papers.eastwood2018.teapots import in_gap


def table(rows, names=("a", "b")):
    rows = np.asarray(rows)
    images = np.arange(len(rows), dtype=np.uint8)[:, None, None, None]
    return TableDataSet("table", names, rows, (1, 1, 1), lambda index: images[index], source="test")


@pytest.mark.parametrize("sigma", [0.1, 0.4, np.inf])
def test_the_joint_distribution_is_that_of_the_paper(sigma):
    rows = load("blobs", correlate="x+y", sigma=sigma).sample(40_000, 0)[1]
    found = np.zeros((8, 8))
    np.add.at(found, (rows[:, 1], rows[:, 2]), 1 / len(rows))
    c = np.arange(8) / 7
    density = np.exp(-((c[:, None] - c) ** 2) / (2 * sigma**2))
    assert np.abs(found - density / density.sum()).max() < 0.004
    assert np.abs(np.bincount(rows[:, 0]) / len(rows) - 1 / 8).max() < 0.01
    assert np.abs(np.bincount(rows[:, 3]) / len(rows) - 1 / 6).max() < 0.01


def test_a_box_and_a_table_have_the_same_distribution_as_a_grid():
    box = load("teapots:correlate=red+green,sigma=0.1,side=16").factors.sample(20_000, np.random.default_rng(0))
    low, high = np.array(load("teapots").factors.low), np.array(load("teapots").factors.high)
    u = (box - low) / (high - low)
    grid = np.random.default_rng(0).uniform(size=(400_000, 2))  # by importance: an independent computation
    weights = np.exp(-((grid[:, 0] - grid[:, 1]) ** 2) / (2 * 0.1**2))
    expected = np.average(np.abs(grid[:, 0] - grid[:, 1]), weights=weights)
    assert np.abs(u[:, 2] - u[:, 3]).mean() == pytest.approx(expected, abs=0.002)
    rows = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), -1).reshape(-1, 2)
    drawn = biased(table(rows), correlate="a+b", sigma=0.2).sample(20_000, 0)[1]
    weights = np.exp(-((rows[:, 0] - rows[:, 1]) ** 2) / 9 / (2 * 0.2**2))
    counts = np.array([(drawn == row).all(1).mean() for row in rows])
    assert np.abs(counts - weights / weights.sum()).max() < 0.01


def test_a_bias_keeps_the_gap_and_the_part_of_the_teapots():
    rng = np.random.default_rng(0)
    for gap, share in (("exclude", 0.0), ("only", 1.0)):
        rows = load(f"teapots:gap={gap},correlate=red+green").factors.sample(3000, rng)
        assert in_gap(rows).mean() == share
        assert np.corrcoef(rows[:, 2], rows[:, 3])[0, 1] > 0.4
    part = load("teapots:part=test,gap=exclude,only=azimuth=0..3")
    rows = part.factors.sample(300, rng)
    assert set(map(bytes, rows)) <= set(map(bytes, load("teapots:part=test,gap=exclude").factors.rows))
    assert rows[:, 0].max() <= 3


def test_a_bias_of_a_biased_box_keeps_both():
    rows = biased(load("teapots:only=red=0..0.5"), only="green=0.5..1").factors.sample(300, np.random.default_rng(0))
    assert rows[:, 2].max() <= 0.5 <= rows[:, 3].min()


def test_only_images_that_can_be_drawn_are_counted():
    assert (load("blobs").drawable, load("blobs:only=x=0").drawable) == (3072, 384)
    assert load("blobs:held_out=x=4..7+y=4..7").drawable == 3072 * 3 / 4
    assert biased(table([[0, 0], [1, 0], [2, 0]]), held_out="a=2").drawable == 2


def test_held_out_combinations_never_occur_and_others_stay_uniform():
    rows = load("blobs:held_out=x=4..7+y=4..7").sample(30_000, 0)[1]
    corner = (rows[:, 1] >= 4) & (rows[:, 2] >= 4)
    assert not corner.any()
    assert (rows[:, 1] >= 4).mean() == pytest.approx(1 / 3, abs=0.01)
    only = load("blobs:only=x=0..3,held_out=radius=5").sample(2000, 0)[1]
    assert only[:, 1].max() == 3
    assert only[:, 3].max() == 4


def test_fixed_factors_stay_fixed_and_the_others_follow_them():
    data = load("blobs:correlate=x+y,sigma=0.05")
    rows = data.sample(500, 0, fixed={"x": np.repeat([0, 7], 250)})[1]
    assert (rows[:250, 1] == 0).all()
    assert (rows[:250, 2] <= 1).all()
    assert (rows[250:, 2] >= 6).all()


def test_one_name_however_it_is_written():
    names = {load(text).name for text in ("blobs:correlate=x,y,sigma=0.2", "blobs:sigma=0.2,correlate=x+y")}
    assert names == {"blobs:correlate=x+y,sigma=0.2"} == {load("blobs", correlate="x,y", sigma=0.2).name}
    small = load("dsprites:correlate=x,y,sigma=0.2,side=16")
    assert small.name == "dsprites:correlate=x+y,side=16,sigma=0.2"
    assert (small.whole.name, small.image_shape) == ("dsprites:side=16", (1, 16, 16))


def test_a_run_remembers_it_and_is_measured_on_uniform_factors(tmp_path):
    run = karenina.train("blobs:correlate=x+y,sigma=0.1", "vae", latents=2, steps=2, out=tmp_path / "run")
    data = data_of(karenina.open(tmp_path / "run"))
    assert data.name == run.config.data == "blobs:correlate=x+y,sigma=0.1"
    assert run.config.images != karenina.train("blobs", "vae", latents=2, steps=2).config.images
    images, factors = inputs(data, 3000)
    assert abs(np.corrcoef(factors[:, 1], factors[:, 2])[0, 1]) < 0.06
    plain, rows = inputs(load("blobs"), 3000)
    assert (images == plain).all()
    assert (factors == rows).all()


def test_a_population_draws_as_a_single_run_does():
    data = load("blobs:correlate=x+y,sigma=0.1,held_out=radius=5")
    many = karenina.train_many(data, "beta_vae", {"beta": [1, 4]}, seeds=1, latents=2, steps=3, population=2)
    one = karenina.train(data, "beta_vae", beta=4, latents=2, steps=3)
    images = data.at(range(4))
    assert (many[1].encode(images)[0] == one.encode(images)[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("sigma=2", "say which by correlate="),
        ("correlate=x", "correlate takes two factors such as background.x, of background, x, y, radius; got 'x'"),
        ("correlate=x+x", "correlate takes two factors"),
        ("correlate=x+hue", "got 'x.hue'"),
        ("correlate=x+y/x+radius", "has the factor x in two pairs"),
        ("correlate=x+y,sigma=0", "sigma must be a number above 0, got 0"),
        ("correlate=x+y,sigma=big", "sigma must be a number above 0, got 'big'"),
        ("correlate=x+y,sigma=nan", "sigma must be a number above 0"),
        ("only=x", "only takes FACTOR=VALUE or FACTOR=LOW..HIGH"),
        ("only=x=1...2", "only takes"),
        ("only=x=9", "has no combination of factors left by"),
        ("held_out=x=0..7", "has no combination"),
        ("held_out=x=5..2", "the range of x is empty"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(f"blobs:{options}")
    assert "\n" not in str(caught.value)


def test_images_without_factors(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.zeros((3, 4, 4), np.uint8))
    with pytest.raises(ValueError, match="mine has no factors to correlate or to hold out"):
        load(f"{tmp_path / 'mine.npz'}:correlate=x+y")


def test_a_second_bias_leaves_the_first():
    blobs = load("blobs")
    for whole in (blobs, table([(a, b) for a in range(8) for b in range(8)], ("x", "y"))):
        data = biased(biased(whole, only="x=0..3"), held_out="y=2..7")
        rows = dict(zip(data.factor_names, data.sample(500, 0)[1].T))
        assert (rows["x"].max(), rows["y"].max()) == (3, 1)
        assert data.drawable == len(whole) / 8
        assert data.whole is whole


def test_a_factor_of_a_grid_is_held_at_an_integer():
    for data in (load("blobs"), load("blobs:only=x=0..3")):
        assert (data.sample(4, 0, {"x": 2.0, "y": [0, 1, 2, 3]})[1][:, 1:3] == [[2, i] for i in range(4)]).all()
        with pytest.raises(ValueError, match=r"x cannot be held at 1.5, expected an integer"):
            data.sample(4, 0, {"x": 1.5})
