"""Matrices: their rules, checked one by one; and a network that learns them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.papers.since2020.reasoning import MOST_VALUES, WReN, learn_matrices, reasoning_matrices, solved_by_rule


@given(st.integers(0, 10_000), st.sampled_from([(1,), (2,), (1, 2, 3)]))
@settings(max_examples=10, deadline=None)
def test_the_rules_of_matrices(seed, relations):
    sizes = (3, 6, 40, 2, 5)
    found = reasoning_matrices(sizes, 20, relations=relations, seed=seed)
    assert set(found.constant.sum(axis=1)) <= set(relations)
    for context, answers, position, constant in zip(found.context, found.answers, found.position, found.constant):
        whole = np.concatenate([context, answers[[position]]]).reshape(3, 3, len(sizes))
        assert len(np.unique(answers, axis=0)) == 6
        for j, size in enumerate(sizes):
            values = whole[:, :, j]
            assert 0 <= values.min() <= values.max() < size
            kinds = [len(set(row)) for row in values.tolist()]
            if constant[j]:
                assert kinds == [1, 1, 1]
            elif size >= 3:
                assert kinds[:2] not in ([1, 1], [3, 3])
        for i, answer in enumerate(answers):
            keeps = (answer == whole[2, 0])[constant].all()
            assert keeps == (i == position)
    assert (solved_by_rule(found.context, found.answers) == found.position).all()


def test_values_are_spread_over_the_range_of_a_factor():
    found = reasoning_matrices((3, 6, 40, 32, 32), 200, most_values=MOST_VALUES["dsprites"])
    assert np.unique(found.context[..., 1]).tolist() == [0, 2, 4]
    assert (found.answers[..., 2] == 0).all()  # orientation is no factor of theirs
    assert np.unique(found.answers[..., 3]).tolist() == [0, 8, 16, 24]
    assert np.bincount(found.position, minlength=6).min() > 15


def test_codes_are_those_of_each_panel_and_the_same_seed_gives_the_same():
    found, again = (reasoning_matrices((3, 4), 10, relations=(1,), seed=5) for _ in range(2))
    context, answers = found.codes(lambda rows: rows * 2.0)
    assert (context == 2 * found.context).all()
    assert (answers == 2 * again.answers).all()


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((2, 2), {}, "relations"),
        ((3, 3, 3), {"relations": (4,)}, "and there are 3"),
        ((3, 0), {}, "each of sizes"),
        ((3, 3), {"most_values": (3,)}, "most_values has 1 numbers for 2"),
        ((3,), {"relations": (1,)}, "5 different wrong answers are needed, and factors of \\[3\\] values have 2"),
    ],
)
def test_bad_input(sizes, options, message):
    with pytest.raises(ValueError, match=message):
        reasoning_matrices(sizes, 5, **options)


def test_wren_sums_over_all_pairs_of_panels():
    torch.manual_seed(0)
    network, context, answers = WReN(3, edge=5, graph=4), torch.randn(2, 8, 3), torch.randn(2, 6, 3)
    scores = network(context, answers)
    for i in range(2):
        for answer in range(6):
            panels = torch.cat([torch.cat([context[i], answers[i, answer][None]]), torch.eye(9)], dim=1)
            pairs = [network.g(network.first(a) + network.second(b)) for a in panels for b in panels]
            expected = network.f(torch.stack(pairs).sum(dim=0))[0]
            assert float(scores[i, answer].detach()) == pytest.approx(float(expected.detach()), rel=1e-4, abs=1e-5)


def test_curves_are_the_same_for_the_same_seed():
    def draw(n, seed):
        found = reasoning_matrices((3, 3), n, relations=(1,), seed=seed)
        return *found.codes(lambda rows: rows + 0.0), found.position

    curves = [learn_matrices(draw, samples=(32, 96), test=40, edge=8, seed=1) for _ in range(2)]
    assert curves[0] == curves[1]
    assert curves[0].summary()["reasoning_efficiency"] == pytest.approx(np.mean(curves[0].accuracy))
    with pytest.raises(ValueError, match="32 or more"):
        learn_matrices(draw, samples=(5,))


def test_wren_learns_the_rule_and_nothing_from_shuffled_answers():
    """Two factors of three values. Without learning, accuracy is that of a guess: binomial, 600 draws of 1/6."""

    def drawing(shuffled):
        def draw(n, seed):
            found = reasoning_matrices((3, 3), n, relations=(1,), seed=seed)
            order = np.random.default_rng(seed).permutation(n) if shuffled else np.arange(n)
            return *found.codes(lambda rows: rows + 0.0), found.position[order]

        return draw

    true, shuffled = (
        float(learn_matrices(drawing(wrong), samples=(4000,), test=600, edge=32, learning_rate=3e-3))
        for wrong in (False, True)
    )
    assert shuffled < 1 / 6 + 4 * np.sqrt(5 / 36 / 600) < 0.5 < true
