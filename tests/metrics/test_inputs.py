import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.metrics._dci import dci
from karenina.metrics._inputs import Result, check, ranks
from karenina.numerics.histograms import discretise

CODES = np.arange(12.0).reshape(6, 2)
FACTORS = np.arange(6) % 3


@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (np.where(CODES == 5, np.nan, CODES), FACTORS, r"codes of shape \(6, 2\) has nan at row 2, column 1"),
        (CODES, np.array([0, 1, np.inf, 0, 1, 2]), r"factors of shape \(6, 1\) has inf at row 2, column 0"),
        (CODES[:5], FACTORS, r"codes has 5 rows \(shape \(5, 2\)\) and factors 6"),
        (CODES[:1], FACTORS[:1], "1 rows, at least 2"),
        (np.zeros((6, 0)), FACTORS, "no columns"),
        (np.zeros((6, 2, 2)), FACTORS, r"codes has shape \(6, 2, 2\), expected \(n, d\)"),
        (CODES, np.zeros((6, 2, 2)), r"factors has shape \(6, 2, 2\), expected \(n, k\)"),
        (CODES.astype(str), FACTORS, "codes must be numbers, got dtype"),
        (CODES.astype(complex), FACTORS, "codes must be numbers, got dtype complex128"),
        (CODES, np.array(["a", None] * 3), "factors: column 0 has no value in row 1"),
        ([[1.0], [1.0, 2.0]], [0, 1], "codes cannot be read as an array"),
        (CODES, np.ones(6), "every factor is constant"),
        (np.ma.masked_equal(CODES, 5), FACTORS, "codes .* at row 2, column 1; it is masked"),
        (CODES, np.ma.masked_equal(FACTORS, 1), "factors .* at row 1, column 0; it is masked"),
        (CODES, 2**53 + FACTORS, "factors .* has 9007199254740993 at row 1, column 0; beyond 2\\^53 integers merge"),
        (CODES, -(2**63) + FACTORS, "factors .* has -9223372036854775808 at row 0, column 0; beyond 2\\^53"),
        (CODES, 2**63 + FACTORS.astype(np.uint64), "factors .* beyond 2\\^53 integers merge"),
        (2**53 + CODES.astype(int), FACTORS, "codes .* beyond 2\\^53 integers merge"),
    ],
)
def test_bad_arrays_are_named(codes, factors, message):
    with pytest.raises(ValueError, match=message):
        check(codes, factors)


def test_masks_that_hide_nothing_and_the_largest_exact_integers_are_fine():
    inputs = check(np.ma.masked_array(CODES), [2**53, 2**53 - 1, -(2**53), 2**53, 0, 0])
    assert inputs.labels.ravel().tolist() == [3, 2, 0, 3, 1, 1]


def test_masked_test_rows_are_refused():
    for test_codes, test_factors in (
        (np.ma.masked_equal(CODES, 5), FACTORS),
        (CODES, np.ma.masked_equal(FACTORS, 1)),
    ):
        with pytest.raises(ValueError, match="test_.* it is masked"):
            dci(CODES, FACTORS, test=(test_codes, test_factors))


@pytest.mark.parametrize(
    ("factors", "test", "numbers"),
    [
        (["low", "high", "mid", "high"], ["mid", "top"], [1, 0, 2, 0, 2, 3]),
        (pd.Categorical([10, 30, 20, 30]), pd.Categorical([20, 40, 15]), [0, 2, 1, 2, 1, 4, 3]),
        (pd.Categorical(["b", "a"], categories=["b", "a"]), ["a", "b", "c"], [0, 1, 1, 0, 2]),
        (np.array([10, 20]), pd.Categorical([20, 10]), [10, 20, 20, 10]),
        (["1", "2"], [2.0, 3.0], [1, 2, 2, 3]),
        (["1", "2"], ["2", "x"], [0, 1, 1, 2]),
        ([True, False], pd.Series([True, True]), [1, 0, 1, 1]),
        (pd.Series([2**60, 2**60 + 1]), pd.Series([2**60 + 1, 2**60 + 2]), [0, 1, 1, 2]),
    ],
)
def test_test_factors_have_the_numbers_of_the_factors(factors, test, numbers):
    factors, test = (pd.Series(v) if isinstance(v, pd.Categorical) else v for v in (factors, test))
    inputs = check(np.zeros((len(factors), 1)), factors, test=(np.zeros((len(test), 1)), test))
    together = np.concatenate([inputs.given, inputs.test[1]]).ravel()
    assert together.tolist() == numbers


@pytest.mark.parametrize(
    ("factors", "test", "message"),
    [
        ([1, 2], ["a", "b"], "test_factors: column 0 is text and factors: column 0 numbers"),
        (["a", "b"], [0, 1], "factors: column 0 is text and test_factors: column 0 numbers"),
        (pd.Series(["a", "b"], dtype="category", name="v"), [0, 1], "test_factors: column 0 has none .*: 'v': a, b"),
        (["a", "b"], ["a", None], "test_factors: column 0 has no value in row 1"),
        (["a", "b"], [["a", "b"]], "test has shapes"),
    ],
)
def test_test_factors_that_cannot_be_coded(factors, test, message):
    with pytest.raises(ValueError, match=message):
        check(np.zeros((2, 1)), factors, test=(np.zeros((len(test), 1)), test))


@pytest.mark.parametrize("model", ["forest", "boosted"])
def test_categories_are_predicted_for_test_rows(model):
    codes = np.random.default_rng(0).normal(size=(400, 3))
    level = (codes[:, 0] > 0).astype(int) + (codes[:, 0] > 1)
    shape = pd.DataFrame({"shape": pd.Categorical(np.array([10, 20, 30])[level])})
    result = dci(codes[:300], shape[:300], model=model, test=(codes[300:], shape[300:]))
    assert result.informativeness > 0.95


def test_bad_declarations():
    with pytest.raises(ValueError, match="continuous must be True, False or 1 of them"):
        check(CODES, FACTORS, continuous=[True, False])
    with pytest.raises(ValueError, match="2 factor names for 1 factors"):
        check(CODES, FACTORS, names=["a", "b"])


def test_constant_factor_is_dropped_by_name():
    factors = np.column_stack([FACTORS, np.ones(6), FACTORS / 2])
    with pytest.warns(UserWarning, match="dropped constant factors: size"):
        inputs = check(CODES, factors, names=["shape", "size", "angle"])
    assert inputs.names == ("shape", "angle")
    assert inputs.kept.tolist() == [0, 2]
    assert inputs.continuous.tolist() == [False, True]
    np.testing.assert_array_equal(inputs.among_given(np.array([1.0, 2.0])), [1.0, np.nan, 2.0])
    assert inputs.among_given(np.zeros((2, 5))).shape == (3, 5)


def test_labels_are_the_callers_own():
    inputs = check(CODES, np.array([5, -3, 5, 7, 7, 7]))
    inputs.labels[:] = 9
    assert inputs.labels.ravel().tolist() == [1, 0, 1, 2, 2, 2]


def test_constant_code_is_dead():
    assert check(np.column_stack([CODES, np.full(6, 0.1)]), FACTORS).live.tolist() == [True, True, False]


@given(st.lists(st.floats(-1e300, 1e300) | st.integers(-50, 50).map(float), min_size=1, max_size=40))
def test_ranks_are_those_of_unique(values):
    column = np.array(values)
    np.testing.assert_array_equal(ranks(column), np.unique(column, return_inverse=True)[1])


def test_result_is_a_number():
    assert float(Result(0.5)) == 0.5


@pytest.mark.parametrize("bins", [1, 2, 7, 20])
def test_width_bins_are_those_of_numpy(bins):
    columns = np.random.default_rng(0).normal(size=(500, 3)) * [1e-8, 1, 1e8] + [0, 5, 1e9]
    expected = [np.digitize(c, np.histogram(c, bins)[1][:-1]) - 1 for c in columns.T]
    np.testing.assert_array_equal(discretise(columns, bins), np.transpose(expected))


def test_maximum_is_in_the_last_bin_and_constants_in_the_first():
    columns = np.column_stack([np.arange(5.0), np.full(5, 3.0)])
    np.testing.assert_array_equal(discretise(columns, 2), [[0, 0], [0, 0], [1, 0], [1, 0], [1, 0]])
    np.testing.assert_array_equal(discretise(columns, 2, "quantile")[:, 1], 0)


def test_limits_hold_outliers():
    column = np.array([[-100.0], [0.1], [0.6], [100.0]])
    assert discretise(column, 2, limits=(0, 1)).ravel().tolist() == [0, 0, 1, 1]


def test_columns_wider_than_the_largest_float():
    column = np.array([[-1.7e308], [0.0], [1.7e308]])
    assert discretise(column, 3).ravel().tolist() == [0, 1, 2]


@settings(deadline=None)
@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-100, 100), bins=st.integers(1, 30), size=st.integers(2, 40))
def test_lattice_values_stay_in_their_bins_when_rescaled(scale, shift, bins, size):
    lattice = np.arange(float(size))[:, None]
    np.testing.assert_array_equal(discretise((lattice + shift) * scale, bins), discretise(lattice, bins))


@settings(deadline=None)
@given(seed=st.integers(0, 100), bins=st.integers(1, 20))
def test_quantile_bins_are_balanced_and_see_order_only(seed, bins):
    column = np.random.default_rng(seed).normal(size=(200, 1))
    found = discretise(column, bins, "quantile")
    counts = np.bincount(found.ravel(), minlength=bins)
    assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(found, discretise(np.exp(column), bins, "quantile"))


def test_equal_values_share_a_quantile_bin():
    column = np.repeat([0.0, 1.0, 2.0], [90, 5, 5])[:, None]
    found = discretise(column, 10, "quantile").ravel()
    assert len(np.unique(found[:90])) == len(np.unique(found[90:95])) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bins": 0}, "bins must be an integer"),
        ({"bins": 2.5}, "bins must be an integer"),
        ({"bins": True}, "bins must be an integer"),
        ({"bins": 2, "binning": "log"}, "binning must be one of width, quantile, got 'log'"),
        ({"bins": 2, "limits": (1, 0)}, "limits must be"),
        ({"bins": 2, "binning": "quantile", "limits": (0, 1)}, "limits are for"),
    ],
)
def test_bad_bins(arguments, message):
    with pytest.raises(ValueError, match=message):
        discretise(CODES, **arguments)


def test_factor_labels_bin_the_continuous_ones():
    factors = np.column_stack([np.arange(100) % 50, np.linspace(0, 1, 100)])
    inputs = check(factors, factors)
    assert inputs.binned(10).max(axis=0).tolist() == [49, 9]
    assert inputs.binned(10, categorical=True).max(axis=0).tolist() == [9, 9]


def test_floats_beyond_exact_integers_are_continuous():
    masses = 2e30 * np.array([1.5, 0.5, 8.25, 1.0, 3.0, 0.75])
    assert check(CODES, np.column_stack([masses, FACTORS])).continuous.tolist() == [True, False]


def test_long_numbers_as_text_are_not_merged():
    names = ["9007199254740992", "9007199254740993"] * 3
    assert len(np.unique(check(CODES, names).labels)) == 2
