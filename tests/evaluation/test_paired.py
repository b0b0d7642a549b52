"""Differences of two representations, against closed forms and under the null."""

import numpy as np
import pytest

from karenina.evaluation.scoring import difference


def first_mean(codes, factors):
    return codes[:, 0].mean()


def test_the_interval_of_a_difference_of_means_is_that_of_the_closed_form():
    """The difference of two means over the same rows has the standard error of the rows' differences."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(400, 1))
    b = a + 0.3 + 0.5 * rng.normal(size=a.shape)
    row = difference(a, b, a, [first_mean], resamples=2000).iloc[0]
    gaps = (a - b)[:, 0]
    assert row["difference"] == pytest.approx(gaps.mean())
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(len(gaps))
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half, rel=0.06)
    assert row["p"] < 0.01


def test_pairing_counts():
    """Two means that move together differ for sure; drawn apart, the same difference would drown."""
    rng = np.random.default_rng(1)
    a = 10 * rng.normal(size=(300, 1))
    b = a + 0.2 + 0.1 * rng.normal(size=a.shape)
    row = difference(a, b, a, [first_mean]).iloc[0]
    assert row["high"] < 0


def test_p_is_uniform_when_nothing_differs():
    """Two codes of the same quality: p below 0.2 in about a fifth of 200 draws, within four standard errors."""
    rng = np.random.default_rng(2)
    p = []
    for i in range(200):
        a, b = rng.normal(size=(2, 60, 1))
        p.append(difference(a, b, a, [first_mean], resamples=99, seed=i)["p"].iloc[0])
    assert np.mean(np.array(p) <= 0.2) == pytest.approx(0.2, abs=4 * np.sqrt(0.2 * 0.8 / 200))


def test_metrics_by_name_have_all_their_properties():
    rng = np.random.default_rng(3)
    v = rng.integers(4, size=(500, 3))
    good, bad = v + 0.05 * rng.normal(size=v.shape), (v + 0.05 * rng.normal(size=v.shape)) @ rng.normal(size=(3, 3))
    found = difference(good, bad, v, ["mig", "dci_lasso"], resamples=30).set_index(["metric", "property"])
    assert len(found) == 4
    assert (found["low"] <= found["difference"]).all()
    assert (found["difference"] <= found["high"]).all()
    assert found.loc[("mig", "compactness"), "low"] > 0


def test_a_representation_does_not_differ_from_itself():
    rng = np.random.default_rng(4)
    v = rng.integers(4, size=(200, 2))
    z = v + rng.normal(size=v.shape)
    row = difference(z, z, v, ["mig"], resamples=20).iloc[0]
    assert (row["difference"], row["low"], row["high"], row["p"]) == (0, 0, 0, 1)


def test_without_an_interval_there_is_no_p():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 100, 1))

    def sometimes(codes, factors):
        return codes.mean() if a[0, 0] in codes or b[0, 0] in codes else np.nan

    row = difference(a, b, a, [sometimes], resamples=20).iloc[0]
    assert np.isfinite(row["difference"])
    assert np.isnan([row["low"], row["high"], row["p"]]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"second": np.zeros((29, 2))}, "same rows, got 30, 29 and 30"),
        ({"factors": np.zeros((28, 1))}, "same rows, got 30, 30 and 28"),
        ({"resamples": 5}, "at least 20 resamples, got 5"),
        ({"first": np.full((30, 2), np.nan)}, "first"),
        ({"metrics": ["migg"]}, "migg"),
    ],
)
def test_bad_input_is_one_clear_line(change, message):
    rng = np.random.default_rng(0)
    good = {
        "first": rng.normal(size=(30, 2)),
        "second": rng.normal(size=(30, 2)),
        "factors": rng.integers(3, size=(30, 2)),
    }
    with pytest.raises(ValueError, match=message) as caught:
        difference(**{**good, **change})
    assert "\n" not in str(caught.value)


def test_too_few_rows():
    with pytest.raises(ValueError, match="at least 20 rows, got 10"):
        difference(np.zeros((10, 1)), np.zeros((10, 1)), np.zeros((10, 1)))
