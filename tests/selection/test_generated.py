"""PIPE and model centrality: brute force, and models whose answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.selection import factorised_codes, fixed_latent_score, model_centrality, pipe_score
from karenina.training.run import discriminator_accuracy


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_fixed_latent_score_by_loops(seed):
    rng = np.random.default_rng(seed)
    batches, latents = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    z = rng.normal(size=(batches, 5, latents))
    fixed = rng.integers(3, size=batches)
    scale = z.reshape(-1, latents).std(axis=0) * rng.integers(2, size=latents)
    expected = 0.0
    if (scale > 0).any():
        votes = [
            min((np.var(batch[:, j]) / scale[j] ** 2, j) for j in range(latents) if scale[j] > 0)[1] for batch in z
        ]
        table = {}
        order = sorted(range(batches), key=lambda batch: fixed[batch])
        for batch in order[0::2]:
            table.setdefault(votes[batch], []).append(int(fixed[batch]))
        # Of equally frequent latents the first; a code without votes stands for the first latent.
        stands = {v: min(set(seen), key=lambda one: (-seen.count(one), one)) for v, seen in table.items()}
        right = [stands.get(votes[batch], min(fixed)) == fixed[batch] for batch in order[1::2]]
        expected = float(np.mean(right))
    assert fixed_latent_score(z, fixed, scale) == pytest.approx(expected)


def with_latents_fixed(fixed):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(len(fixed), 16, 4))
    z[np.arange(len(fixed)), :, fixed] = rng.normal(size=(len(fixed), 1))
    return z + 0.1 * rng.normal(size=z.shape)


@pytest.mark.parametrize("value", [0.5, 0.1, -0.013])
def test_a_constant_code_does_not_vote(value):
    fixed = np.arange(200) // 2 % 4
    z = np.concatenate([with_latents_fixed(fixed), np.full((200, 16, 1), value)], axis=2)
    assert fixed_latent_score(z, fixed, z.std(axis=(0, 1))) == 1
    assert fixed_latent_score(z[:, :, 4:], fixed, [1e-17]) == 0


@pytest.mark.parametrize("fixed", [np.arange(200) % 4, np.arange(200) // 2 % 4, np.sort(np.arange(200) % 4)])
def test_every_latent_is_learnt_and_tested_whatever_the_order_of_batches(fixed):
    assert fixed_latent_score(with_latents_fixed(fixed), fixed, np.ones(4)) == 1


def test_centrality_by_loops_and_bad_input():
    b = np.random.default_rng(0).random((5, 5))
    expected = [sum((b[i, j] + b[j, i]) / 2 for j in range(5) if j != i) / 4 for i in range(5)]
    assert model_centrality(b) == pytest.approx(expected)
    b[0, 3] = b[2, 3] = np.nan
    values = [b[0, j] for j in (1, 2, 4)] + [b[j, 0] for j in (1, 2, 3, 4)]
    assert model_centrality(b)[0] == pytest.approx(np.mean(values))
    with pytest.raises(ValueError, match="model 1 was compared with no other"):
        model_centrality([[1, np.nan, 2], [np.nan, 1, np.nan], [2, np.nan, 1]])
    with pytest.raises(ValueError, match=r"shape \(M, M\)"):
        model_centrality(np.ones((2, 3)))
    with pytest.raises(ValueError, match="expected codes"):
        fixed_latent_score(np.ones((4, 3)), np.ones(4), np.ones(3))
    with pytest.raises(ValueError, match="must be finite"):
        fixed_latent_score(np.full((4, 3, 2), np.nan), np.arange(4) % 2, np.ones(2))


def test_factorised_codes_keep_each_latent_and_lose_what_ties_them():
    x = np.random.default_rng(0).normal(size=500)
    tied = np.column_stack([x, x])
    moved = factorised_codes(tied, 500, "permuted", seed=1)
    assert (np.sort(moved, axis=0) == np.sort(tied, axis=0)).all()
    for how in ("permuted", "uniform"):
        drawn = factorised_codes(tied, 800, how, seed=1)
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.1
        assert drawn.min() >= x.min()
        assert drawn.max() <= x.max()
    with pytest.raises(ValueError, match="how must be one of uniform, permuted"):
        factorised_codes(tied, 10, "other")
    with pytest.raises(ValueError, match="accuracy must lie between 0 and 1"):
        pipe_score(1.2)


def test_tied_latents_give_pictures_that_can_be_told_apart():
    rng = np.random.default_rng(0)
    free = rng.uniform(size=(200, 2)).astype(np.float32)
    tied = np.column_stack([free[:, 0], free[:, 0]])

    def pictures(codes):
        return np.broadcast_to(codes[:, :, None, None], (len(codes), 2, 8, 8)).astype(np.float32)

    scores = [
        pipe_score(discriminator_accuracy(pictures(z), pictures(factorised_codes(z, 200)), steps=50))
        for z in (free, tied)
    ]
    assert scores[0] > 0.75 > 0.45 > scores[1]
    with pytest.raises(ValueError, match="8 pictures or more of one shape"):
        discriminator_accuracy(pictures(free[:4]), pictures(free))
