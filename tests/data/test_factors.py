import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina.data import FactorBox, FactorGrid, TableDataSet

sizes = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@given(sizes, st.data())
def test_index_and_rows_are_inverse_and_row_major(sizes, draw):
    grid = FactorGrid(tuple(f"f{i}" for i in range(len(sizes))), tuple(sizes))
    index = np.array(draw.draw(st.lists(st.integers(0, len(grid) - 1), min_size=1)))
    rows = grid.rows(index)
    by_hand = [sum(int(v) * int(np.prod(sizes[i + 1 :])) for i, v in enumerate(row)) for row in rows]
    assert by_hand == index.tolist()
    assert (grid.index(rows) == index).all()


def test_sampling_is_uniform_and_keeps_what_is_fixed():
    grid = FactorGrid(("a", "b"), (3, 5))
    rows = grid.sample(30_000, np.random.default_rng(0))
    counts = np.bincount(grid.index(rows), minlength=15)
    assert abs(counts - 2000).max() < 5 * np.sqrt(2000)
    fixed = grid.sample(100, np.random.default_rng(0), fixed={"b": 2})
    assert (fixed[:, 1] == 2).all()
    assert set(fixed[:, 0]) == {0, 1, 2}
    per_row = grid.sample(3, np.random.default_rng(0), fixed={"a": [0, 1, 2]})
    assert per_row[:, 0].tolist() == [0, 1, 2]


def test_box_samples_inside():
    box = FactorBox(("angle", "red"), (0, -1), (2, 1))
    rows = box.sample(1000, np.random.default_rng(0), fixed={"red": 0.5})
    assert rows[:, 0].min() >= 0
    assert rows[:, 0].max() < 2
    assert (rows[:, 1] == 0.5).all()
    assert box.sizes == (None, None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 0, 0]], r"shape \(1, 3\), expected \(n, 2\)"),
        ([[0, 5]], "row 0 has b = 5, expected 0..4"),
        ([[0, 0], [-1, 0]], "row 1 has a = -1, expected 0..2"),
        ([[0.5, 0]], "a = 0.5, expected an integer"),
        ([[np.nan, 0]], "a = nan, expected an integer"),
        ([["x", "y"]], "must be numbers"),
    ],
)
def test_bad_rows_are_named(rows, message):
    with pytest.raises(ValueError, match=message):
        FactorGrid(("a", "b"), (3, 5)).check(rows)


def test_bad_boxes_grids_and_names():
    box = FactorBox(("angle",), (0.0,), (1.0,))
    for value in (1.5, -0.1, np.nan):
        with pytest.raises(ValueError, match=r"expected 0\.\.1"):
            box.check([[value]])
    with pytest.raises(ValueError, match="no factor 'c'; the factors are a, b"):
        FactorGrid(("a", "b"), (3, 5)).sample(2, np.random.default_rng(0), fixed={"c": 1})
    with pytest.raises(ValueError, match="expected 0..4"):
        FactorGrid(("a", "b"), (3, 5)).sample(2, np.random.default_rng(0), fixed={"b": 5})
    with pytest.raises(ValueError, match="outside 0..14"):
        FactorGrid(("a", "b"), (3, 5)).rows([15])
    with pytest.raises(ValueError, match="factor names"):
        FactorGrid(("a", "a"), (3, 5))
    with pytest.raises(ValueError, match="at least 1"):
        FactorGrid(("a",), (0,))


def test_a_table_of_any_type_finds_its_own_rows():
    images = np.arange(3, dtype=np.uint8)[:, None, None, None]
    for table in (np.array([[0.1], [-0.0], [2.7]], np.float32), np.array([[3], [0], [2]], np.int8)):
        data = TableDataSet("t", ("a",), table, (1, 1, 1), lambda index: images[index], source="test")
        assert data.images(data.table).ravel().tolist() == [0, 1, 2]
