"""The structured computation against the dense matrices, and families of known stability."""

from dataclasses import fields

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from karenina.selection import dynamics, joint_embedding
from karenina.selection._dynamics import random_walk


def dense_walk(trace, alpha, neighbours):
    n, m, _ = trace.shape
    x = (trace - trace.mean(axis=2, keepdims=True)) / trace.std(axis=2, keepdims=True)
    kernel = np.zeros((n, m, n, m))
    for t in range(n):
        distance = cdist(x[t], x[t])
        sigma = np.sort(distance, axis=1)[:, neighbours]
        kernel[t, :, t, :] = np.exp(-((distance / sigma[:, None]) ** alpha))
    paths = [cdist(x[:, i], x[:, i]) for i in range(m)]
    eps = np.mean([np.median(np.sort(d, axis=1)[:, min(25, n // 2)]) for d in paths])
    for i, distance in enumerate(paths):
        for t in range(n):
            for u in range(n):
                if t != u:
                    kernel[t, i, u, i] = np.exp(-(distance[t, u] ** 2) / eps**2)
    kernel = kernel.reshape(n * m, n * m)
    kernel = (kernel + kernel.T) / 2
    return kernel / kernel.sum(axis=1, keepdims=True)


def dense_mmd(x, y, h):
    def k(a, b):
        return np.exp(-cdist(a, b, "sqeuclidean") / (2 * h**2))

    size = len(x)
    within = sum((k(a, a).sum() - size) / (size * (size - 1)) for a in (x, y))
    return within - 2 * k(x, y).mean()


def small_traces(seed=0, seeds=3, n=5, m=12, p=7):
    return list(np.random.default_rng(seed).normal(size=(seeds, n, m, p)))


@pytest.mark.parametrize(("alpha", "neighbours", "steps"), [(2.0, 1, 3), (2.0, 4, 8), (5.0, 2, 4), (3.0, 3, 1)])
def test_equals_the_dense_computation(alpha, neighbours, steps):
    traces = small_traces()
    rank = 4
    powers = [np.linalg.matrix_power(dense_walk(t, alpha, neighbours), steps) for t in traces]
    for trace, power in zip(traces, powers):
        ours = random_walk(trace, alpha, neighbours).forward(np.eye(60).reshape(5, 12, 60), steps).reshape(60, 60)
        np.testing.assert_allclose(ours, power, atol=1e-12)
    left, _, _ = np.linalg.svd(np.concatenate(powers), full_matrices=False)
    expected = left[:, 1 : rank + 1].reshape(3, 60, rank)
    ours = joint_embedding(traces, alpha=alpha, neighbours=neighbours, steps=steps, rank=rank).reshape(3, 60, rank)
    signs = np.sign((ours * expected).sum(axis=(0, 1)))
    np.testing.assert_allclose(ours, expected * signs, atol=1e-8)

    found = dynamics(traces, alpha=alpha, neighbours=neighbours, steps=steps, rank=rank)
    points = expected.reshape(-1, rank)
    h = np.median(cdist(points, points)[np.triu_indices(len(points), 1)])
    for i in range(3):
        for j in range(i):
            assert found.pairwise[0][i, j] == pytest.approx(dense_mmd(expected[i], expected[j], h), abs=1e-8)
    assert found.scores[0] == -found.mean_mmd[0]
    assert found.mean_mmd[0] == pytest.approx(found.pairwise[0][np.triu_indices(3, 1)].mean())


def test_identical_traces_do_not_differ():
    trace = np.cumsum(np.random.default_rng(2).normal(size=(8, 30, 10)), axis=0)
    assert abs(dynamics([trace] * 3).mean_mmd[0]) < 0.01


def test_no_p_value_is_claimed():
    """Seeds that are exchangeable by construction got p <= .05 every time: embedding them together sets them apart."""
    rng = np.random.default_rng(5)
    base = rng.normal(size=(6, 40, 16))
    found = dynamics([base + 0.5 * rng.normal(size=base.shape) for _ in range(3)])
    assert not [field.name for field in fields(found) if field.name.startswith("p_")]
    with pytest.raises(TypeError, match="permutations"):
        dynamics([base, -base], permutations=10)


def learning(rng, difference, seeds=4, n=15, m=60, p=32):
    """Decoders that grow from nothing; each seed's differs from the common one by this much."""
    codes, common = rng.normal(size=(m, 4)), rng.normal(size=(4, p))
    growth = np.linspace(0, 1, n)[:, None, None]
    for _ in range(seeds):
        gain = np.exp(difference * rng.normal(size=4))
        own = difference * rng.normal(size=(4, p))
        yield np.tanh(growth * ((codes * gain) @ (common + own))) + 0.05 * rng.normal(size=(n, m, p))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_orders_families_by_their_stability(seed):
    rng = np.random.default_rng(seed)
    differences = [0.0, 0.2, 0.5, 1.0]
    traces = [trace for d in differences for trace in learning(rng, d)]
    found = dynamics(traces, np.repeat(differences, 4))
    assert found.groups == tuple(differences)
    assert spearmanr(found.scores, differences).statistic < -0.75
    assert found.order[0] in (0, 1)
    assert found.order[-1] in (2, 3)


def test_same_seed_same_bytes_and_planes():
    traces = small_traces()
    a, b = dynamics(traces, seed=3), dynamics(traces, seed=3)
    assert a.scores.tobytes() == b.scores.tobytes()
    assert a.pairwise[0].tobytes() == b.pairwise[0].tobytes()
    assert a.planes[0].shape == (3, 5, 12, 2)
    assert joint_embedding(traces[:1]).shape[:3] == (1, 5, 12)


def test_units_may_differ_between_seeds_and_scale_does_not_matter():
    traces = small_traces()
    wider = np.concatenate([traces[1], traces[1]], axis=2)
    assert np.isfinite(dynamics([traces[0], wider]).scores).all()
    scaled = dynamics([3 * trace + 1 for trace in traces])
    np.testing.assert_allclose(scaled.scores, dynamics(traces).scores, atol=1e-9)


def test_dead_units_and_still_traces_are_no_error():
    still = np.repeat(np.random.default_rng(4).normal(size=(1, 12, 7)), 5, axis=0)
    assert np.isfinite(dynamics([still, -still]).scores).all()
    dead = small_traces()
    dead[0][0] = 0.0
    assert np.isfinite(dynamics(dead).scores).all()
    with pytest.warns(UserWarning, match="do not vary"):
        assert np.isnan(dynamics([np.zeros((5, 12, 7))] * 2).scores).all()


def test_normalising_leaves_nothing_of_one_unit():
    single = small_traces(p=1)
    for traces in (single, [np.repeat(trace, 3, axis=2) for trace in single]):
        with pytest.warns(UserWarning, match="do not vary with the sample once normalised"):
            assert np.isnan(dynamics(traces).scores).all()
        assert np.isfinite(dynamics(traces, normalise=False).scores).all()


def test_a_score_does_not_depend_on_the_other_groups():
    """More points than the bandwidth is taken of, so that some are drawn."""
    paths = np.cumsum(np.random.default_rng(7).normal(size=(6, 12, 60, 4)), axis=1)
    whole = dynamics(list(paths), ["a"] * 3 + ["b"] * 3, seed=3)
    assert whole.scores.tolist() == [dynamics(list(part), seed=3).scores[0] for part in (paths[:3], paths[3:])]


def test_group_of_one_gets_no_score():
    with pytest.warns(UserWarning, match="group 'b' has one trace"):
        found = dynamics(small_traces(), ["a", "a", "b"])
    assert np.isnan(found.scores[1])
    assert list(found.order) == [0, 1]


A, B = small_traces(seeds=2)


@pytest.mark.parametrize(
    ("traces", "options", "message"),
    [
        ([A, B[:4]], {}, r"trace 0 has \(5, 12\), trace 1 has \(4, 12\)"),
        ([A, B[:, :9]], {}, r"trace 1 has \(5, 9\)"),
        ([A, np.where(B > 2, np.nan, B)], {}, "trace 1 contains NaN"),
        ([A, B[0]], {}, "trace 1 must be numbers of shape"),
        ([], {}, "no traces"),
        ([A], {}, "no group has two traces"),
        ([A, B], {"groups": ["a"]}, "2 given, 1 groups"),
        ([A, B], {"groups": ["a", "b"]}, "no group has two"),
        ([A, B], {"neighbours": 12}, "neighbours must be from 1 to 11"),
        ([A, B], {"steps": 0}, "steps"),
        ([A[:1], B[:1]], {}, "at least 2 epochs"),
    ],
)
def test_bad_input_is_named(traces, options, message):
    with pytest.raises(ValueError, match=message):
        dynamics(traces, **options)
