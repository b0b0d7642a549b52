"""Sampling metrics: planted codes, reference numbers, Table 1 of Carbonneau et al. (2022), invariances and edges."""

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import karenina
from karenina.metrics.interventions import GroupedRows, Simulated, z_diff, z_max_variance, z_min_variance
from karenina.metrics.registry import METRICS as REGISTRY

METRICS = (z_diff, z_min_variance, z_max_variance)
SMALL = {"train": 600, "evaluate": 300}
VOTES = {"batch": 200, "train": 800, "evaluate": 800, "threshold": 0.02**2, "replace": False, "rescale": True}


def grid(n=4000, sizes=(3, 4, 5), seed=0):
    return planted.labels(n, sizes, seed)


@pytest.mark.parametrize("metric", METRICS)
def test_identity_is_one_and_noise_is_chance(metric):
    v = grid()
    assert float(metric(v, v, **SMALL)) == 1.0
    many = grid(n=20_000)
    codes = planted.noise(many, 6)
    chance = float(metric(codes, many, train=3000, evaluate=5000))
    assert chance == pytest.approx(1 / 3, abs=4 * np.sqrt(2) / 3 / np.sqrt(5000))  # four standard errors: 0.027
    rescaled = float(metric(codes, many, train=3000, evaluate=5000, rescale=True))
    assert rescaled == pytest.approx((chance - 1 / 3) / (2 / 3), abs=1e-12)


@pytest.mark.parametrize("metric", [z_min_variance, z_max_variance])
def test_votes_name_the_codes(metric):
    v = grid()
    codes = np.column_stack([np.zeros(len(v)), v[:, ::-1]])
    result = metric(codes, v, **SMALL)
    expected = np.zeros((3, 4))
    expected[[0, 1, 2], [3, 2, 1]] = 1.0
    np.testing.assert_array_equal(result.matrix, expected)
    np.testing.assert_array_equal(result.per_factor, 1.0)
    assert result.details["active_codes"] == 3
    assert result.details["votes"]["train"].sum() == 600
    assert result.details["votes"]["evaluate"].sum() == 300


@pytest.mark.parametrize("case", planted.CASES)
def test_reference(case):
    codes, factors = planted.reference(case)[0]
    expected = planted.published(case, "sampling")
    for name, run in {
        "beta_vae": lambda: z_diff(codes, factors, standardise=False, per_pair=True),
        "factor_vae": lambda: z_min_variance(codes, factors, threshold=0.05**2),
    }.items():
        # the long run of the reference where there is one: the short one's own sampling error is 0.02
        key = f"{name}_study_10000_5000" if f"{name}_study_10000_5000" in expected else f"{name}_1000_500"
        assert float(run()) == pytest.approx(expected[key]["result"]["eval_accuracy"], abs=0.03)


def test_active_codes_are_counted_right():
    codes, factors = planted.reference("perm_dead_noise")[0]
    assert z_min_variance(codes, factors, threshold=0.05**2, **SMALL).details["active_codes"] == 5


@pytest.mark.parametrize("metric", [z_min_variance, z_max_variance])
def test_the_threshold_is_one_of_variance(metric):
    v = grid(sizes=(3, 4))
    codes = v * np.sqrt([0.06, 0.04]) / v.std(axis=0, ddof=1)  # variances 0.06 and 0.04, deviations 0.24 and 0.2
    assert metric(codes, v, threshold=0.05, **SMALL).details["active_codes"] == 1
    assert metric(codes, v, threshold=0.04 - 1e-9, **SMALL).details["active_codes"] == 2
    assert karenina.score(codes, v, "z_min_variance", "locatello")["z_min_variance"].details["active_codes"] == 1
    released = karenina.score(codes, v, "z_min_variance", "carbonneau")["z_min_variance"]  # deviations of 0.02
    assert released.details["active_codes"] == 2


@pytest.mark.parametrize("case", ["cos, sin", "twice", "four times"])
def test_table_one(case):
    codes, angles = planted.table_one()[case]
    assert float(z_diff(codes, angles, batch=200, standardise=False, rescale=True)) == pytest.approx(1, abs=0.06)
    assert float(z_min_variance(codes, angles, **VOTES)) == pytest.approx(1, abs=0.06)
    assert float(z_max_variance(codes, angles, **VOTES)) == pytest.approx(1, abs=0.06)


def test_logistic_regression_agrees_with_scikit_learn():
    v = grid()
    rng = np.random.default_rng(3)
    codes = v @ rng.normal(size=(3, 4)) + 8 * rng.normal(size=(len(v), 4))
    ours = z_diff(codes, v, standardise=False, train=3000, evaluate=3000, seed=5)
    draws = np.random.default_rng(5)
    label = draws.integers(3, size=6000)
    feature = GroupedRows.of(codes, v).differences(label, 64, True, draws)
    theirs = LogisticRegression(tol=1e-8, max_iter=2000).fit(feature[:3000], label[:3000])
    assert 0.4 < float(ours) < 0.99
    assert float(ours) == pytest.approx(theirs.score(feature[3000:], label[3000:]), abs=1e-3)


def test_two_factors_are_told_apart_by_scikit_learns_regression():
    v = grid(sizes=(3, 4))
    codes = (v + 2 * np.random.default_rng(3).normal(size=v.shape)) * [0.02, 0.2]  # where the penalty tells
    ours = z_diff(codes, v, standardise=False, train=300, evaluate=3000, seed=5)
    draws = np.random.default_rng(5)
    label = draws.integers(2, size=3300)
    feature = GroupedRows.of(codes, v).differences(label, 64, True, draws)
    theirs = LogisticRegression(tol=1e-10, max_iter=2000).fit(feature[:300], label[:300])
    assert 0.6 < float(ours) < 0.99
    assert float(ours) == pytest.approx(theirs.score(feature[300:], label[300:]), abs=1e-9)


def test_pairs_share_the_value_and_are_different_rows():
    v = grid(n=60)
    codes = np.column_stack([v, np.arange(60) * 1000.0])
    factor = np.repeat(np.arange(3), 50)
    gaps = GroupedRows.of(codes, v).differences(factor, 1, True, np.random.default_rng(0))
    assert (gaps[np.arange(150), factor] == 0).all()
    assert (gaps[:, 3] >= 1000).all()


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize(("protocol", "values"), [("locatello", 1), ("carbonneau", 4)])
def test_values_that_the_pairs_of_a_batch_share(simulated, protocol, values):
    v = grid(n=2000, sizes=(4, 4))
    rng = np.random.default_rng(7)

    def simulate(rows):  # of size 1, 100, 10,000 or 1,000,000, as factor 0 says, and of either sign
        return 100.0 ** rows[:, :1] * rng.choice([-1, 1], size=(len(rows), 1))

    per_pair = REGISTRY["z_diff"].settings(protocol).get("per_pair", True)
    ones = np.ones(1)
    source = Simulated(simulate, v.astype(float), np.arange(2), 0 * ones, ones, ones > 0)
    source = source if simulated else GroupedRows.of(simulate(v), v)
    feature = source.differences(np.zeros(300, np.int64), 64, per_pair, np.random.default_rng(1))[:, 0]
    # The mean is half the largest difference times the share of its pairs, which is one in as many as there are values.
    largest = 2 * 100.0 ** np.ceil(np.log(feature / 2) / np.log(100))
    assert (feature / largest).mean() == pytest.approx(1 / 2 / values, abs=0.02)
    assert len(np.unique(largest)) == (4 if values == 1 else 1)


def test_passes_without_replacement_use_every_row_equally():
    labels = np.zeros((5, 1), np.int64)
    codes = np.random.default_rng(0).normal(size=(5, 2))
    twice = GroupedRows.of(codes, labels).variances(np.zeros(3, np.int64), 10, False, np.random.default_rng(0))
    np.testing.assert_allclose(twice, np.tile(np.vstack([codes, codes]).var(axis=0, ddof=1), (3, 1)))


@pytest.mark.parametrize("metric", METRICS)
def test_a_simulator_gives_the_same_answer_as_the_table(metric):
    v = grid()
    rng = np.random.default_rng(2)
    mix = np.array([[1.0, 0.5, 0], [0.2, 1, 0], [0, 0.3, 0.4]])
    noise = np.random.default_rng(9)

    def simulate(rows):
        return rows @ mix * 3 + 7 + noise.normal(size=rows.shape)

    codes = v @ mix * 3 + 7 + rng.normal(size=v.shape)
    table = metric(codes, v, train=2000, evaluate=2000)
    simulated = metric(codes, v, train=2000, evaluate=2000, sampler=simulate)
    assert float(simulated) == pytest.approx(float(table), abs=0.05)
    with pytest.raises(ValueError, match="sampler gave"):
        metric(codes, v, **SMALL, sampler=lambda rows: rows[:, :2])


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 1000),
    st.permutations(range(4)),
    st.lists(st.sampled_from([-100.0, -1.0, 0.01, 5.0]), min_size=4, max_size=4),
)
def test_scale_shift_sign_and_order_of_codes_do_not_matter(seed, order, scale):
    rng = np.random.default_rng(seed)
    v = grid(n=1500, seed=seed)
    codes = np.column_stack([v + rng.normal(size=v.shape), rng.normal(size=len(v))])
    other = (codes * scale + rng.normal(size=4))[:, list(order)]
    for metric in METRICS:
        one, two = (float(metric(z, v, train=400, evaluate=400, batch=32)) for z in (codes, other))
        assert one == pytest.approx(two, abs=0.01)


@pytest.mark.parametrize("metric", METRICS)
def test_order_of_factors_does_not_matter(metric):
    v = grid()
    codes = v + np.random.default_rng(0).normal(size=v.shape) * 2
    one, two = (metric(codes, f, train=3000, evaluate=3000) for f in (v, v[:, ::-1]))
    assert float(one) == pytest.approx(float(two), abs=0.04)
    np.testing.assert_allclose(one.per_factor, two.per_factor[::-1], atol=0.08)


@pytest.mark.parametrize("metric", METRICS)
def test_same_seed_same_result(metric):
    v = grid()
    codes = v + np.random.default_rng(0).normal(size=v.shape) * 3
    one, two, other = (metric(codes, v, **SMALL, seed=s) for s in (4, 4, 5))
    assert float(one) == float(two)
    np.testing.assert_array_equal(one.per_factor, two.per_factor)
    assert not np.array_equal(one.per_factor, other.per_factor)


@pytest.mark.parametrize("metric", METRICS)
def test_edges(metric):
    v = grid()
    constant = np.column_stack([v, np.full(len(v), 3)])
    with pytest.warns(UserWarning, match="factor 3"):
        result = metric(np.column_stack([v, np.zeros(len(v))]), constant, **SMALL)
    assert float(result) == 1.0
    assert np.isnan(result.per_factor[3])
    assert float(metric(v, v[:, :1], **SMALL, rescale=True)) == 1.0
    assert float(metric(v[:, :1], v, **SMALL)) <= 1
    floats = v + np.random.default_rng(0).uniform(0, 0.5, size=v.shape)
    assert float(metric(floats, floats, **SMALL, factor_bins=3)) > 0.8
    for bad in (np.where(v == 1, np.nan, v), v[:-1], v.astype(str)):
        with pytest.raises(ValueError, match="codes"):
            metric(bad, v)
    with pytest.raises(ValueError, match="batch must be .* got 1"):
        metric(v, v, batch=1)
    with pytest.raises(ValueError, match="train must be .* got 0"):
        metric(v, v, train=0)


def test_no_live_code():
    v = grid()
    zeros = np.zeros((len(v), 4))
    assert float(z_min_variance(zeros, v, **SMALL)) == 0
    assert float(z_max_variance(zeros, v, **SMALL)) == 0
    assert float(z_diff(zeros, v, **SMALL)) == pytest.approx(1 / 3, abs=0.1)


@pytest.mark.parametrize("metric", METRICS)
def test_no_live_code_with_a_simulator(metric):
    v = grid()
    zeros = np.zeros((len(v), 4))
    table, simulated = (metric(zeros, v, **SMALL, sampler=s) for s in (None, lambda rows: np.zeros((len(rows), 4))))
    assert float(table) == float(simulated)
    np.testing.assert_array_equal(table.per_factor, simulated.per_factor)


def test_no_two_rows_agree():
    v = np.arange(50)[:, None] + np.arange(3)
    for metric in METRICS:
        with pytest.raises(ValueError, match="no two of the 50 rows agree"):
            metric(v, v, **SMALL)
    five = np.arange(5)[:, None] * [1, 3, 7] % 10
    with pytest.raises(ValueError, match="no two of the 5 rows agree .* sampler"):
        z_max_variance(five, five)
    row = karenina.score(five, five, "z_max_variance").rows[0]
    assert np.isnan(row.value)
    assert "no two of the 5 rows" in row.note
    half = np.column_stack([np.arange(50), np.arange(50) % 2, np.arange(50) % 5])
    with pytest.warns(UserWarning, match="factor 0"):
        result = z_min_variance(half, half, **SMALL)
    assert float(result) == 1.0
    assert np.isnan(result.per_factor[0])


@pytest.mark.parametrize("rest", [False, True])
def test_a_value_of_one_row_only_is_no_group_of_blocks(rest):
    blocks = [np.zeros((1, 3, 2)), np.zeros((1, 1, 2))]
    values = [np.arange(3.0), np.array([7.0])]
    factors = np.array([[0.0, 5.0], [0.0, 6.0], [1.0, 5.0]])
    table = GroupedRows.of_blocks(blocks, values, np.zeros((3, 2)), factors, rest=rest)
    assert (table.size > 1).all()
    assert table.usable.tolist() == [True, False]
    assert len(table.order) == table.size.sum()
    lonely = GroupedRows.of_blocks(blocks[1:], values[1:], np.zeros((3, 2)), factors[:, 1:], rest=rest)
    assert not lonely.usable.any()


def test_codes_that_hardly_ever_move_are_noted():
    rng = np.random.default_rng(0)
    factors = rng.integers(10, size=(5000, 3))
    codes = np.column_stack([factors.astype(float), np.arange(5000) == 17])
    with pytest.warns(UserWarning, match="code 3"):
        z_min_variance(codes, factors)
    notes = {row.metric: row.note for row in karenina.score(codes, factors, metrics=["z_min_variance"]).rows}
    assert "code 3" in notes["z_min_variance"]
    z_min_variance(codes[:, :3], factors)
