"""Blocks of interventions: against rows enumerated by hand, and against a simulator that is asked for fresh ones."""

import numpy as np
import pytest

from karenina.evaluation.scoring import blocks_for
from karenina.metrics import z_diff, z_max_variance, z_min_variance
from karenina.metrics.interventions import GroupedRows
from karenina.numerics.blocks import Blocks
from karenina.tasks import fairness

SIZES = (3, 5, 4)
VALUES = [np.arange(size) for size in SIZES]
MIX = np.array([[1.0, 0.5, 0], [0.2, 1, 0], [0, 0.3, 0.4]])


def simulate(rows):
    """Three codes of three factors, each a mixture, with noise that depends on the row alone."""
    rows = np.asarray(rows, float)
    return rows @ MIX + 7 + 2 * np.sin(99 * rows @ [[1, 2, 3], [5, 7, 4], [3, 1, 2]] + np.arange(3))


def blocks(count=200, seed=0):
    base = np.random.default_rng(seed).integers(SIZES, size=(count, 3))
    return base, Blocks.of(base, VALUES, simulate, chunk=17)


def test_every_row_is_encoded_as_if_by_itself():
    base, found = blocks(20)
    assert len(found) == 20
    for j, values in enumerate(VALUES):
        for b in (0, 7, 19):
            for v in values:
                row = base[b].copy()
                row[j] = v
                np.testing.assert_allclose(found.along(j)[b, v], simulate(row[None])[0])
    np.testing.assert_array_equal(found.of_blocks(np.array([3, 1])).along(1), found.along(1)[[3, 1]])


@pytest.mark.parametrize("rest", [False, True])
def test_groups_hold_what_an_intervention_holds(rest):
    base, _ = blocks(6)
    rows = Blocks.of(base, VALUES, lambda wanted: wanted.astype(float))  # codes are the factors themselves
    others = np.random.default_rng(1).integers(SIZES, size=(50, 3)).astype(float)
    table = GroupedRows.of_blocks([rows.along(j) for j in range(3)], rows.values, others, others, rest=rest)
    assert table.count.tolist() == ([6] * 3 if rest else list(SIZES))
    for j in range(3):
        for g in range(table.first[j], table.first[j] + table.count[j]):
            group = table.codes[table.order[table.start[g] : table.start[g] + table.size[g]]]
            varies = np.ptp(group, axis=0) > 0
            assert not varies[j] if not rest else not np.delete(varies, j).any()
            if rest:
                assert sorted(group[:, j]) == list(range(SIZES[j]))
            else:
                own = (others[:, j] == group[0, j]).sum()
                assert len(group) == (own if own >= 6 else 6 + own)


@pytest.mark.parametrize("metric", [z_diff, z_min_variance, z_max_variance])
def test_scores_are_those_of_fresh_draws(metric):
    factors = np.random.default_rng(1).integers(SIZES, size=(2000, 3))
    codes = simulate(factors)
    given = {"train": 1500, "evaluate": 1500}
    fresh = metric(codes, factors, sampler=simulate, **given)
    shared = metric(codes, factors, sampler=blocks(2000)[1], **given)
    assert 0.4 < float(fresh) < 1
    assert float(shared) == pytest.approx(float(fresh), abs=0.03)
    np.testing.assert_allclose(shared.per_factor, fresh.per_factor, atol=0.08)
    with pytest.raises(ValueError, match="the blocks have 3 codes and 3 factors, expected 2 and 3"):
        metric(codes[:, :2], factors, sampler=blocks()[1], **given)


@pytest.mark.parametrize("metric", [z_diff, z_min_variance])
def test_where_rows_are_as_many_the_score_is_that_of_the_rows(metric):
    """At the default sizes every value of dSprites has more rows than there are blocks: nothing is lost by blocks."""
    sizes = (3, 6, 40, 32, 32)
    values = [np.arange(size) for size in sizes]
    rng = np.random.default_rng(0)
    factors = rng.integers(sizes, size=(10_000, 5))
    mixed = rng.normal(size=(5, 5))

    def encode(rows):
        return np.sin(np.asarray(rows) / sizes @ mixed)

    found = Blocks.of(rng.integers(sizes, size=(blocks_for(10_000, values), 5)), values, encode)
    given = {"train": 400, "evaluate": 200}
    shared, alone = (metric(encode(factors), factors, sampler=sampler, **given) for sampler in (found, None))
    assert 0.2 < float(alone) < 1
    assert float(shared) == float(alone)


def test_unfairness_is_that_of_fresh_draws():
    def leaky(rows):  # two codes of three factors: where factor 0 is 2, factors 1 and 2 look larger
        return rows[:, 1:] + 1.0 * (rows[:, :1] == 2)

    factors = np.random.default_rng(1).integers(SIZES, size=(900, 3))
    shared = fairness(leaky(factors), factors, sampler=Blocks.of(blocks()[0], VALUES, leaky))
    fresh = fairness(leaky(factors), factors, sampler=leaky)
    assert shared.intervened
    assert float(fresh) > 0.05
    np.testing.assert_allclose(shared.mean, fresh.mean, atol=0.06)
    with pytest.raises(ValueError, match="the blocks have 3 codes and 3 factors, expected 2 and 3"):
        fairness(leaky(factors), factors, sampler=blocks()[1])
