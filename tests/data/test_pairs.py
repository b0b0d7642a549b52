"""Pairs of images: what they share, from grids, boxes, tables and the user's own lists."""

import numpy as np
import pytest
from PIL import Image

from karenina.data import TableDataSet, load
from karenina.data.sampling import Pairs, biased
from karenina.papers.eastwood2018.teapots import in_gap


@pytest.mark.parametrize("k", [1, 3, "random"])
def test_only_the_factors_that_were_drawn_again_differ(k):
    data = load("blobs")
    first, second, changed = Pairs(data, k).index(4000, np.random.default_rng(0))
    rows, again = data.factors.rows(first), data.factors.rows(second)
    assert ((rows == again) | changed).all()
    counts = changed.sum(1)
    assert set(counts) == ({1, 2, 3} if k == "random" else {k})
    assert np.abs(changed.mean(0) - counts.mean() / 4).max() < 0.03  # every factor as often
    x = changed[:, 1]
    assert (rows[x, 1] == again[x, 1]).mean() == pytest.approx(1 / 8, abs=0.03)  # drawn again from all values
    assert np.abs(np.bincount(again[:, 1], minlength=8) / 4000 - 1 / 8).max() < 0.02


def test_images_are_those_of_the_index():
    data = load("blobs")
    images, changed = Pairs(data, 2).sample(20, np.random.default_rng(3))
    first, second, also = Pairs(data, 2).index(20, np.random.default_rng(3))
    assert (images == data.at(np.concatenate([first, second]))).all()
    assert (changed == also).all()


def test_correlated_factors_stay_correlated_in_the_second_image():
    data = load("blobs:correlate=x+y,sigma=0.05")
    _, second, changed = Pairs(data, 1).index(3000, np.random.default_rng(0))
    again = data.factors.rows(second)
    assert changed.sum(1).tolist() == [1] * 3000
    assert np.abs(again[:, 1] - again[:, 2]).max() <= 2


@pytest.mark.parametrize("k", [1, "random"])
def test_no_pair_enters_a_gap(k):
    rng = np.random.default_rng(0)
    for name, inside in (("gap=exclude", False), ("gap=only", True), ("gap=exclude,correlate=red+blue", False)):
        first, second, changed = Pairs(load(f"teapots:{name}"), k)._rows(3000, rng)
        assert (in_gap(first) == inside).all()
        assert (in_gap(second) == inside).all()
        assert ((first == second) | changed).all()
    # Given the others, elevation is uniform where the gap lets it be: up to pi / 4 for a red teapot.
    first, second, changed = Pairs(load("teapots:gap=exclude"), 1)._rows(20_000, rng)
    moved = changed[:, 1]
    red = (first[:, 2] > first[:, 3] + 0.15) & (first[:, 2] > first[:, 4] + 0.15)
    assert second[moved & red, 1].mean() == pytest.approx(np.pi / 8, abs=0.03)
    assert second[moved & ~red, 1].mean() == pytest.approx(np.pi / 4, abs=0.03)


@pytest.mark.parametrize("name", ["teapots:part=test", "teapots:part=test,only=red=0..0.5"])
def test_a_list_of_continuous_rows_has_no_pairs(name):
    with pytest.raises(ValueError, match="part=test has 20,000 images, no two of which agree in a factor"):
        Pairs(load(name))


def square(side):
    rows = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
    images = np.arange(len(rows), dtype=np.uint8)[:, None, None, None]
    return TableDataSet("t", ("x", "y"), rows, (1, 1, 1), lambda index: images[index], source="test")


def test_pairs_of_a_biased_table_follow_the_bias():
    data = square(6)
    rows, rng = data.table, np.random.default_rng(0)
    first, second, changed = Pairs(biased(data, held_out="x=3..5+y=3..5"), 1).index(5000, rng)
    assert not (rows[second] >= 3).all(1).any()
    assert ((rows[first] == rows[second]) | changed).all()
    first, second, changed = Pairs(biased(data, correlate="x+y", sigma=0.2), 1).index(40_000, rng)
    weights = np.exp(-(((np.arange(6) - 2) / 5) ** 2) / (2 * 0.2**2))  # of x beside y = 2
    x = rows[second[changed[:, 0] & (rows[first][:, 1] == 2)], 0]
    assert np.abs(np.bincount(x, minlength=6) / len(x) - weights / weights.sum()).max() < 0.02


def test_own_pairs_of_a_biased_table_have_both_images_in_it():
    data = square(3)
    data.pairs = np.array([(0, 1), (0, 8), (8, 7)])
    assert Pairs(biased(data, held_out="x=2+y=2")).data.pairs.tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="has no pair of images left by"):
        Pairs(biased(data, only="x=1"))


def test_continuous_factors():
    data = load("teapots:side=16")
    images, changed = Pairs(data, 1).sample(6, np.random.default_rng(0))
    same = (images[:6] == images[6:]).all((1, 2, 3))
    assert images.shape == (12, 3, 16, 16)
    assert not same.all()
    assert changed.shape == (6, 5)


def test_a_table_pairs_rows_that_agree_in_the_other_factors():
    rows = np.array([[0, 0], [0, 1], [1, 0], [5, 5]])
    images = np.arange(4, dtype=np.uint8)[:, None, None, None]
    data = TableDataSet("t", ("a", "b"), rows, (1, 1, 1), lambda index: images[index], source="test")
    first, second, changed = Pairs(data, 1).index(2000, np.random.default_rng(0))
    assert ((rows[first] == rows[second]) | changed).all()
    of_first = set(second[(first == 0) & changed[:, 1]])
    assert of_first == {0, 1}
    assert set(second[first == 3]) == {3}  # nothing shares a factor with it


def folder(path, names):
    for i, name in enumerate(names):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(path / name)
    return path


def test_frames_and_a_csv(tmp_path):
    path = folder(tmp_path / "films", ["a/1.png", "a/2.png", "a/3.png", "b/1.png", "b/2.png"])
    frames = load(f"{path}:frames=true,recursive=true")
    assert frames.pairs.tolist() == [[0, 1], [1, 2], [3, 4]]
    numbered = folder(tmp_path / "numbered", [f"frame{i}.png" for i in range(1, 13)])
    data = load(f"{numbered}:frames=true")
    assert data.at(data.pairs.ravel())[:, 0, 0, 0].reshape(-1, 2).tolist() == [[i, i + 1] for i in range(11)]
    csv = tmp_path / "pairs.csv"
    csv.write_text("first,second\na/1.png,b/2.png\na/2.png, a/3.png\n")
    data = load(path, recursive=True, pairs_csv=csv)
    assert data.pairs.tolist() == [[0, 4], [1, 2]]
    images, changed = Pairs(data).sample(50, np.random.default_rng(0))
    assert changed is None
    assert {(int(a), int(b)) for a, b in zip(images[:50, 0, 0, 0], images[50:, 0, 0, 0])} == {(0, 4), (1, 2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.png,2.png,3.png\n", "has 3 columns, expected the two file names"),
        ("1.png,9.png\n", "names '9.png', which is no image of the folder"),
        ("first,second\n", "has no pairs"),
        ("", "is not a table of pairs"),
    ],
)
def test_bad_lists_of_pairs(tmp_path, text, message):
    path = folder(tmp_path / "films", ["1.png", "2.png"])
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(path, pairs_csv=tmp_path / "pairs.csv")


def test_what_cannot_be_paired(tmp_path):
    path = folder(tmp_path / "films", ["1.png", "2.png"])
    with pytest.raises(ValueError, match="there is no file of pairs"):
        load(path, pairs_csv=tmp_path / "missing.csv")
    with pytest.raises(ValueError, match="not from both"):
        load(path, pairs_csv=tmp_path / "missing.csv", frames=True)
    with pytest.raises(ValueError, match="frames is true or false"):
        load(f"{path}:frames=often")
    with pytest.raises(ValueError, match="has no factors, from which pairs could be made"):
        Pairs(load(path))
    with pytest.raises(ValueError, match="differ in 1 to 3 of its 4 factors, not in k=4"):
        Pairs(load("blobs"), 4)
    with pytest.raises(ValueError, match="two or more images"):
        load(f"{folder(tmp_path / 'one', ['1.png'])}:frames=true")
