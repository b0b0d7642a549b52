import warnings

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import grid
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.metrics import mutual_info_score

from karenina.metrics._inputs import check
from karenina.metrics.information import Binning, dcimig, jemmig, mig, mig_sup, modularity, tables
from karenina.numerics.histograms import count, discretise, entropy, information
from karenina.numerics.neighbours import label_information, pair_information

ALL = (mig, mig_sup, jemmig, modularity, dcimig)
CARBONNEAU = {
    mig: {"bins": 10, "normaliser": "code"},
    mig_sup: {"bins": 10, "normaliser": "code", "weight": "all"},
    jemmig: {"bins": 10},
    modularity: {"bins": 10, "weight": "all"},
    dcimig: {"bins": 10},
}


def some(seed=0, n=400, d=4, k=3):
    rng = np.random.default_rng(seed)
    factors = rng.integers(2, 7, size=(n, k)) + rng.integers(3, size=(n, k))
    codes = factors @ rng.normal(size=(k, d)) + 0.3 * rng.normal(size=(n, d))
    return codes, factors


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("case", planted.CASES)
def test_reference(case, sign):
    codes, factors = planted.reference(case)[0]
    published = planted.published(case)
    codes = sign * codes  # the release itself gives other numbers for -1 where values lie on edges (rot45_xy)
    found = mig(codes, factors)
    expected = published["mig"]["result"]
    assert found.value == pytest.approx(expected["discrete_mig"], abs=1e-9)
    np.testing.assert_allclose(found.matrix, np.transpose(expected["mi_matrix"]), atol=1e-9)
    np.testing.assert_allclose(found.per_factor, expected["mig_per_factor"], atol=1e-9)
    np.testing.assert_allclose(found.details["factor_entropy"], expected["factor_entropy"], atol=1e-9)
    # The release raises on constant codes, after computing the modularity; the specification says 0.
    expected = published["modularity_explicitness"]["result"].get("modularity_score", 0.0)
    assert float(modularity(codes, factors, weight="all")) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("case", "printed"),
    [
        ("cos, sin", (0.0, 0.7, 0.4, 1.0, 0.6)),
        ("twice", (0.0, 1.0, 0.5, 1.0, 1.0)),
        ("four times", (0.0, 1.0, 0.5, 1.0, 1.0)),
    ],
)
def test_table_one(case, printed):
    codes, factors = planted.table_one()[case]
    found = [float(metric(codes, factors, **CARBONNEAU[metric])) for metric in ALL]
    assert found == pytest.approx(printed, abs=0.06)


def test_information_is_that_of_scikit_learn():
    codes, factors = some()
    cells = discretise(codes, 20)
    expected = [[mutual_info_score(v, c) for c in cells.T] for v in factors.T]
    np.testing.assert_allclose(mig(codes, factors).matrix, expected, atol=1e-12)


def test_a_factor_with_as_many_values_as_rows():
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.permutation(20_000), rng.integers(3, size=20_000)])
    cells = discretise(rng.normal(size=(20_000, 2)), 20)
    found = information(count(factors, cells), "plugin")
    expected = [[mutual_info_score(v, c) for c in cells.T] for v in factors.T]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_jackknife_is_leaving_out_each_row():
    label = np.random.default_rng(0).integers(5, size=60)
    counts = count(label[:, None], label[:, None])

    def plugin(values):
        p = np.bincount(values) / len(values)
        return -(p[p > 0] * np.log(p[p > 0])).sum()

    left_out = np.mean([plugin(np.delete(label, i)) for i in range(60)])
    assert entropy(counts.factor, 60, "jackknife")[0] == pytest.approx(60 * plugin(label) - 59 * left_out)
    assert entropy(counts.factor, 60, "plugin")[0] == pytest.approx(plugin(label))
    assert entropy(counts.factor, 60, "miller-madow")[0] == pytest.approx(plugin(label) + 4 / 120)


def test_chance_information_of_noise_and_its_corrections():
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(1000, 30)), rng.integers(10, size=(1000, 3))
    found = {
        how: mig(codes, factors, binning=Binning(estimator=how)).matrix.mean()
        for how in ("plugin", "miller-madow", "jackknife", "knn")
    }
    assert found["plugin"] > 0.07
    assert found["miller-madow"] < 0.04
    assert found["jackknife"] < 0.015
    assert found["knn"] < 0.02
    same = np.column_stack([factors, codes])
    assert mig(same, factors, binning=Binning(estimator="jackknife")).value == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("classes", [2, 5, 30])
def test_label_neighbours_are_those_of_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    label = rng.integers(classes, size=800)
    for code in (rng.normal(size=800), 0.3 * label + rng.normal(size=800), label + 0.1 * rng.normal(size=800)):
        expected = mutual_info_classif(code[:, None], label, n_neighbors=3, random_state=0)[0]
        assert label_information(code, label, 3) == pytest.approx(expected, abs=1e-6)


def test_label_neighbours_meet_the_integral():
    label = np.random.default_rng(0).integers(2, size=20_000)
    code = 2 * label + np.random.default_rng(1).normal(size=20_000)

    def integrand(x):
        half = (norm.pdf(x) + norm.pdf(x, 2)) / 2
        return -half * np.log(half)

    exact = quad(integrand, -8, 10)[0] - norm.entropy()
    assert label_information(code, label, 3) == pytest.approx(exact, abs=0.02)


def test_neighbours_on_a_lattice_do_not_overrate():
    label = np.random.default_rng(0).integers(5, size=2000)
    assert label_information(label * 1.0, label, 3) == pytest.approx(np.log(5), abs=0.01)
    assert label_information(np.random.default_rng(1).integers(5, size=2000) * 1.0, label, 3) < 0.02
    assert label_information(np.array([0.0, 1.0]), np.array([0, 1]), 3) == 0.0


@pytest.mark.parametrize("r", [0.0, 0.5, 0.9, 0.999])
def test_pair_neighbours_meet_scikit_learn_and_the_gaussian(r):
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    y = r * x + np.sqrt(1 - r**2) * rng.normal(size=4000)
    found = pair_information(x, y, 3)
    assert found == pytest.approx(mutual_info_regression(x[:, None], y, n_neighbors=3, random_state=0)[0], abs=1e-6)
    assert found == pytest.approx(-np.log(1 - r**2) / 2, abs=0.06)


@pytest.mark.parametrize("estimator", ["plugin", "miller-madow", "jackknife", "knn"])
def test_identity_codes_of_independent_factors(estimator):
    factors = grid(3, 4, 5, repeat=8)
    how = {"binning": Binning(estimator=estimator, bins=5)}
    assert float(mig(factors, factors, **how)) == pytest.approx(1, abs=0.02)
    assert float(mig_sup(factors, factors, **how)) == pytest.approx(1, abs=0.02)
    assert float(modularity(factors, factors, **how)) == pytest.approx(1, abs=0.02)
    assert float(dcimig(factors, factors, **how)) == pytest.approx(1, abs=0.02)
    assert float(jemmig(factors[:, 2:], factors[:, 2:], **how)) == pytest.approx(1, abs=0.02)


def test_exactly_independent_codes_have_exactly_no_information():
    factors = grid(3, 4, 5)
    found = modularity(factors, factors[:, :2])
    assert found.matrix[:, 2].tolist() == [0, 0]
    assert found.per_code.tolist() == pytest.approx([1, 1, 0])
    assert float(modularity(factors, factors[:, :2], weight="information")) == pytest.approx(1)


def test_planted_values():
    factors = grid(4, 4, repeat=4)
    twice = planted.duplicated(factors)
    assert float(mig(twice, factors)) == 0
    assert float(mig_sup(twice, factors)) == pytest.approx(1)
    assert float(dcimig(twice, factors)) == pytest.approx(1)
    assert float(jemmig(twice, factors, bins=4)) == pytest.approx(0.5)
    # One code for both factors: base four digits.
    both = factors @ [4, 1]
    assert float(mig(both, factors, bins=16)) == pytest.approx(1)
    assert float(mig_sup(both, factors, bins=16)) == pytest.approx(0)
    assert float(modularity(both, factors, bins=16)) == pytest.approx(0)
    assert float(dcimig(both, factors, bins=16)) == pytest.approx(0)
    # H(v, z) = 2 log 4, I1 = log 4, I2 = 0, bound log 4 + log 16.
    assert float(jemmig(both, factors, bins=16)) == pytest.approx(2 / 3)


def test_weights_hold_when_few_factors_are_measured():
    codes = np.random.default_rng(0).uniform(size=(20_000, 8))
    for measured in (2, 4, 6):
        factors = codes[:, :measured]
        assert float(mig_sup(codes, factors)) < measured / 8 + 0.03
        assert float(modularity(codes, factors)) < 0.9
        assert float(mig_sup(codes, factors, weight="information")) > 0.98
        assert float(modularity(codes, factors, weight="information")) > 0.98


def test_weights_hold_with_few_rows_and_many_noise_codes():
    rng = np.random.default_rng(0)
    factors = rng.integers(10, size=(500, 2))
    codes = np.column_stack([factors, rng.normal(size=(500, 50))])
    found = modularity(codes, factors, weight="information")
    assert found.value > 0.95
    assert found.details["weights"][:2].sum() > 0.95
    assert float(modularity(rng.normal(size=(500, 50)), factors, weight="information")) < 0.8


def test_quantile_bins_hold_for_monotone_codes_and_outliers():
    factors = np.random.default_rng(0).uniform(size=(5000, 3))
    tangent = np.tan(3.1 * (factors - 0.5))
    wild = factors.copy()
    wild[0] = 1e6
    for codes in (tangent, wild):
        for metric in (mig, mig_sup, dcimig):
            assert float(metric(codes, factors, bins=10)) < 0.6
            assert float(metric(codes, factors, bins=10, binning="quantile")) > 0.95
        assert float(mig(codes, factors, binning=Binning(kind="quantile", estimator="knn"))) > 0.95


@pytest.mark.parametrize("metric", ALL)
def test_dead_codes(metric):
    codes, factors = some()
    with_dead = np.column_stack([np.zeros(len(codes)), codes, np.full(len(codes), 0.1)])
    assert float(metric(with_dead, factors)) == pytest.approx(float(metric(codes, factors)), abs=1e-12)
    nothing = metric(np.zeros_like(codes), factors)
    assert nothing.value == 0
    jackknife = Binning(estimator="jackknife")
    assert float(metric(with_dead, factors, binning=jackknife)) == pytest.approx(
        float(metric(codes, factors, binning=jackknife)), abs=1e-12
    )


def test_dead_codes_count_as_zero_when_asked():
    codes, factors = some()
    with_dead = np.column_stack([codes, np.zeros(len(codes))])
    for metric in (mig_sup, modularity):
        assert float(metric(with_dead, factors, weight="all")) == pytest.approx(0.8 * float(metric(codes, factors)))
        assert np.isnan(metric(with_dead, factors).per_code).tolist() == [False] * 4 + [True]
        assert metric(with_dead, factors, weight="all").per_code[-1] == 0


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("estimator", ["plugin", "miller-madow", "jackknife", "knn"])
def test_one_code_or_one_factor(metric, estimator):
    codes, factors = some()
    for z, v in ((codes[:, 0], factors), (codes, factors[:, 0]), (codes[:, 0], factors[:, 0])):
        value = float(metric(z, v, binning=Binning(estimator=estimator)))
        assert np.isfinite(value)
        assert -1e-9 <= value <= 1 + 1e-9


def test_gaps_of_one_use_zero():
    factors = grid(4, 4, repeat=4)
    assert float(mig(factors[:, 0], factors[:, 0])) == pytest.approx(1)
    assert float(mig(factors[:, 0], factors)) == pytest.approx(0.5)
    assert float(mig_sup(factors, factors[:, 0])) == pytest.approx(0.5)
    assert float(modularity(factors[:, 0], factors[:, 0])) == 1


@pytest.mark.parametrize("metric", ALL)
def test_constant_factor_is_left_out(metric):
    codes, factors = some()
    with pytest.warns(UserWarning, match="dropped constant factors: factor 1"):
        found = metric(codes, np.insert(factors, 1, 7, axis=1))
    assert found.value == pytest.approx(float(metric(codes, factors)), abs=1e-12)
    assert np.isnan(found.matrix[1]).all()
    assert found.matrix.shape == (4, 4)


@pytest.mark.parametrize("metric", ALL)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), data=st.data())
def test_invariance(metric, seed, data):
    codes, factors = some(seed, n=157)  # no multiple of the bins: some rows lie on edges of quantile bins
    scale = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4)))
    sign = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=4, max_size=4)))
    shift = np.array(data.draw(st.lists(st.floats(-50, 50), min_size=4, max_size=4)))
    order = data.draw(st.permutations(range(4)))
    factor_order = data.draw(st.permutations(range(3)))
    rows = np.random.default_rng(seed).permutation(len(codes))
    hows = [{}, {"kind": "quantile"}, {"estimator": "jackknife"}, {"estimator": "knn"}]
    how = {"binning": Binning(**data.draw(st.sampled_from(hows)))}
    moved = (codes * scale * sign + shift)[rows][:, order]
    changed = metric(moved, 100 - 3 * factors[rows][:, factor_order], **how)
    plain = metric(codes, factors, **how)
    assert changed.value == pytest.approx(plain.value, abs=1e-9)
    np.testing.assert_allclose(changed.matrix, plain.matrix[np.ix_(factor_order, order)], atol=1e-9)


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("binning", ["width", "quantile"])
@settings(deadline=None, max_examples=25)
@given(data=st.data(), bins=st.integers(2, 20), seed=st.integers(0, 1000))
def test_the_sign_of_a_code_with_values_on_edges_does_not_matter(metric, binning, data, bins, seed):
    # Sums and differences of integers in a range that the bins divide: many values on edges, also on the middle one.
    rng = np.random.default_rng(seed)
    size = data.draw(st.sampled_from([3, bins + 1, 2 * bins + 1, 3 * bins + 1]))
    full = data.draw(st.booleans())  # a full grid has no side that could be preferred
    factors = grid(size, size) if full else rng.integers(size, size=(data.draw(st.integers(5, 300)), 2))
    mixed = factors @ [[1, 1, 1, 2], [-1, 0, 1, 1]] * data.draw(st.sampled_from([1.0, 0.1, 1 / 3, np.sqrt(0.5)]))
    sign = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=4, max_size=4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows may leave a factor constant
        try:
            plain = metric(mixed, factors, bins=bins, binning=binning)
        except ValueError:
            return
        turned = metric(mixed * sign, factors, bins=bins, binning=binning)
    assert turned.value == pytest.approx(plain.value, abs=1e-12)
    np.testing.assert_allclose(turned.matrix, plain.matrix, atol=1e-12)


def test_values_on_edges_by_hand():
    # Ten bins of the values 0 to 10: each is on an edge. More rows above the middle, so 1 goes down to 0.
    code = np.repeat(np.arange(11.0), [1] * 8 + [5] * 3)
    assert discretise(code[:, None], 10).ravel().tolist() == np.maximum(code - 1, 0).tolist()
    assert discretise(-code[:, None], 10).ravel().tolist() == (9 - np.maximum(code - 1, 0)).tolist()
    # As many below as above: the mean of merging 9 and 10 and of merging 0 and 1.
    code = np.repeat(np.arange(11.0), 10)
    factor = (code >= 10).astype(int)
    merged = [mutual_info_score(factor, np.minimum(code, 9)), mutual_info_score(factor, np.maximum(code, 1))]
    for sign in (1, -1):
        assert mig(sign * code, factor, bins=10).matrix[0, 0] == pytest.approx(np.mean(merged), abs=1e-12)


def test_ties_do_not_depend_on_the_order_of_codes():
    # Both codes determine the factor, the second carries more besides.
    factors = grid(4, 4, repeat=4)
    codes = np.column_stack([factors[:, 0], factors @ [4, 1]])
    assert float(jemmig(codes, factors, bins=16)) == float(jemmig(codes[:, ::-1], factors, bins=16))


def test_mixed_and_declared_factors():
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.integers(5, size=2000), rng.uniform(size=2000)])
    assert float(mig(factors, factors, bins=10)) > 0.97
    declared = mig(factors, factors, binning=Binning(bins=10, factor_bins=2), continuous=[True, True])
    np.testing.assert_allclose(declared.details["factor_entropy"], np.log(2), atol=0.05)


def test_tables_are_counted_once():
    codes, factors = some()
    inputs = check(codes, factors)
    found = {metric: float(metric(inputs, bins=10)) for metric in ALL}
    assert found == {metric: float(metric(codes, factors, bins=10)) for metric in ALL}
    assert list(inputs.shared) == [Binning(bins=10)]
    assert tables(inputs, Binning(bins=10)) is tables(inputs, bins=10)
    assert jemmig(inputs, bins=10).details["log_bins"] == pytest.approx(np.log(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "kde"}, "estimator must be one of plugin, miller-madow, jackknife, knn, got 'kde'"),
        ({"neighbours": 0}, "neighbours must be an integer of at least 1"),
    ],
)
def test_bad_binning(arguments, message):
    with pytest.raises(ValueError, match=message):
        Binning(**arguments)


def test_huge_and_tiny_codes():
    codes, factors = some()
    for scale in (1e-300, 1e300):
        assert float(mig(codes * scale, factors)) == pytest.approx(float(mig(codes, factors)), abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"binning": "log"}, "binning must be one of width, quantile, got 'log'"),
        ({"normaliser": "joint"}, "normaliser must be one of factor, code"),
        ({"weight": "dci"}, "weight must be one of live, all, information"),
        ({"bins": 0}, "bins must be"),
    ],
)
def test_bad_options(arguments, message):
    codes, factors = some()
    with pytest.raises(ValueError, match=message):
        mig_sup(codes, factors, **arguments)


def test_neighbours_do_not_raise_scores_above_one():
    rng = np.random.default_rng(0)
    codes = np.exp(9 * rng.uniform(size=(1000, 2)))
    factors = np.floor(np.log(codes) / 9 * 8).astype(int)
    how = Binning(estimator="knn")
    found = jemmig(codes, factors, binning=how)
    assert 0.5 < found.value <= 1
    assert (found.details["joint_entropy"] >= mig(codes, factors).details["factor_entropy"][:, None] - 1e-12).all()
    for metric in (mig, mig_sup):
        assert 0 <= float(metric(codes, factors, binning=how)) <= 1
        with pytest.raises(ValueError, match="normaliser='code' divides by the entropy of bins"):
            metric(codes, factors, binning=how, normaliser="code")


def test_limits_may_be_a_list():
    v = np.random.default_rng(0).uniform(size=(100, 2))
    assert float(mig(v, v, binning=Binning(limits=[0, 1]))) == float(mig(v, v, binning=Binning(limits=(0, 1))))
