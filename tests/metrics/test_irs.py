import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.metrics.interventions import irs

LOCATELLO = {"quantile": 0.99, "factor_bins": 20, "bin_labels": True, "code_weights": "deviation"}
CARBONNEAU = {"quantile": 1.0, "factor_bins": 10, "code_weights": "deviation"}


def some(seed=0, n=300):
    rng = np.random.default_rng(seed)
    factors = rng.integers(5, size=(n, 3))
    return factors @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(n, 4)), factors


def plainly(codes, factors, quantile, weights="equal"):
    """The definition, with loops: matrix (k, d) and largest deviations (d,)."""
    largest = np.abs(codes - codes.mean(axis=0)).max(axis=0)
    matrix = []
    for factor in factors.T:
        values, sizes = np.unique(factor, return_counts=True)
        groups = [codes[factor == value] for value in values]
        reach = [np.quantile(np.abs(g - g.mean(axis=0)), quantile, axis=0) for g in groups]
        matrix.append(1 - np.average(reach, axis=0, weights=sizes if weights == "frequency" else None) / largest)
    return np.array(matrix), largest


@pytest.mark.parametrize("case", planted.CASES)
@pytest.mark.parametrize(("name", "settings"), [("irs", LOCATELLO), ("irs_paper_q1_no_binning", CARBONNEAU)])
def test_reference(case, name, settings):
    codes, factors = planted.reference(case)[0]
    expected = planted.published(case)[name]["result"]
    found = irs(codes, factors, **settings)
    if case == "zeros":
        assert found.value == 0
        return
    expected = expected.get("detail", expected)
    assert found.value == pytest.approx(expected["avg_score"], abs=1e-9)
    np.testing.assert_allclose(found.matrix, np.transpose(expected["IRS_matrix"]), atol=1e-9)
    np.testing.assert_allclose(found.per_code, expected["disentanglement_scores"], atol=1e-9)
    assert found.details["parents"].tolist() == expected["parents"]


def test_table_one():
    found = [float(irs(codes, angles, **CARBONNEAU)) for codes, angles in planted.table_one().values()]
    assert found == pytest.approx([0.8, 0.9, 0.9], abs=0.06)


@pytest.mark.parametrize("quantile", [0.0, 0.3, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("weights", ["equal", "frequency"])
def test_against_the_definition(quantile, weights):
    codes, factors = some()
    matrix, largest = plainly(codes, factors, quantile, weights)
    found = irs(codes, factors, quantile=quantile, weights=weights)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    assert found.value == pytest.approx(matrix.max(axis=0).mean(), abs=1e-12)
    weighted = irs(codes, factors, quantile=quantile, weights=weights, code_weights="deviation")
    assert weighted.value == pytest.approx(np.average(matrix.max(axis=0), weights=largest), abs=1e-12)


def test_identity_and_noise():
    rng = np.random.default_rng(0)
    factors = rng.integers(6, size=(2000, 3))
    assert float(irs(factors, factors)) == pytest.approx(1)
    assert float(irs(rng.normal(size=(2000, 3)), factors)) < 0.5
    continuous = rng.uniform(size=(2000, 3))
    assert float(irs(continuous, continuous)) > 0.89


@pytest.mark.parametrize("weights", ["equal", "frequency"])
def test_robust_against_the_definition(weights):
    codes, factors = some()
    matrix = []
    for factor in factors.T:
        values, sizes = np.unique(factor, return_counts=True)
        groups = [codes[factor == value] for value in values]
        reach = [np.quantile(np.abs(g - np.median(g, axis=0)), 0.9, axis=0) for g in groups]
        matrix.append(np.average(reach, axis=0, weights=sizes if weights == "frequency" else None))
    whole = np.quantile(np.abs(codes - np.median(codes, axis=0)), 0.9, axis=0)
    found = irs(codes, factors, quantile=0.9, weights=weights, robust=True)
    np.testing.assert_allclose(found.matrix, 1 - np.array(matrix) / whole, atol=1e-12)


def test_wild_rows_and_heavy_tails_deceive_only_the_published_one():
    rng = np.random.default_rng(0)
    factors = rng.integers(10, size=(5000, 5))
    noise, right = rng.normal(size=(5000, 10)), factors + 0.01 * rng.normal(size=factors.shape)
    for wild in (1e3, 1e9):
        for codes, published, robust in ((noise, 0.99, 0.1), (right, 0.99, 1.0)):
            codes = codes.copy()
            codes[0] = wild
            assert float(irs(codes, factors)) > published
            assert float(irs(codes, factors, robust=True)) == pytest.approx(robust, abs=0.1)
    for heavy in (rng.standard_t(2, size=(5000, 10)), rng.lognormal(sigma=2, size=(5000, 10))):
        assert float(irs(heavy, factors)) > 0.8
        assert abs(float(irs(heavy, factors, robust=True))) < 0.12
        assert float(irs(heavy, factors, binning="quantile")) == float(irs(heavy, factors))  # factors are labels


def test_a_code_that_hardly_ever_moves_is_constant_to_the_robust_score():
    codes, factors = some()
    spike = np.zeros(300)
    spike[0] = 1
    found = irs(np.column_stack([codes, spike]), factors, robust=True)
    assert np.isnan(found.per_code[-1])
    assert found.value == pytest.approx(irs(codes, factors, robust=True).value)
    assert irs(spike[:, None], factors, robust=True).value == 0


def test_factors_with_few_rows_for_each_value_are_noted():
    noise = np.random.default_rng(0).normal(size=(1000, 2))
    for values in (1000, 150):
        factors = np.column_stack([np.arange(1000) % 5, np.random.default_rng(1).permutation(1000) % values])
        with pytest.warns(UserWarning, match=f"factor 1 has {values:,} values in 1,000 rows"):
            assert float(irs(noise, factors)) > 0.5
    irs(noise, np.arange(1000) % 90)
    irs(noise, np.arange(1000), bin_labels=True)


def test_dead_codes_and_constant_factors():
    codes, factors = some()
    plain = irs(codes, factors)
    for how in ({}, {"code_weights": "deviation"}):
        found = irs(np.column_stack([np.full(300, 0.1), codes]), factors, **how)
        assert found.value == pytest.approx(float(irs(codes, factors, **how)), abs=1e-12)
        assert np.isnan(found.per_code[0])
    with pytest.warns(UserWarning, match="dropped constant factors: factor 0"):
        found = irs(codes, np.insert(factors, 0, 1, axis=1))
    assert found.value == pytest.approx(plain.value)
    assert found.details["parents"].min() >= 1
    assert irs(np.zeros((300, 2)), factors).value == 0


def test_one_code_or_one_factor():
    codes, factors = some()
    for z, v in ((codes[:, 0], factors), (codes, factors[:, 0]), (codes[:, 0], factors[:, 0])):
        assert np.isfinite(float(irs(z, v)))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), data=st.data())
def test_invariance(seed, data):
    codes, factors = some(seed, n=100)
    scale = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4)))
    sign = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=4, max_size=4)))
    shift = np.array(data.draw(st.lists(st.floats(-50, 50), min_size=4, max_size=4)))
    order = data.draw(st.permutations(range(4)))
    factor_order = data.draw(st.permutations(range(3)))
    changed = irs((codes * scale * sign + shift)[:, order], 5 - 2 * factors[:, factor_order])
    plain = irs(codes, factors)
    assert changed.value == pytest.approx(plain.value, abs=1e-9)
    np.testing.assert_allclose(changed.per_code, plain.per_code[list(order)], atol=1e-9)


def test_huge_and_tiny_codes():
    codes, factors = some()
    for scale in (1e-300, 1e305):
        assert float(irs(codes * scale, factors)) == pytest.approx(float(irs(codes, factors)), abs=1e-9)


@pytest.mark.parametrize("arguments", [{"quantile": 1.5}, {"weights": "rows"}, {"code_weights": "dci"}])
def test_bad_options(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        irs(*some(), **arguments)
