"""QLAE and HFS: brute force, closed forms and torch's own AdamW."""

import itertools
import math

import numpy as np
import pytest
import torch

import karenina
from karenina.data import load
from karenina.evaluation.scoring import evaluate
from karenina.metrics import mig
from karenina.models.objectives import (
    Batch,
    Codebook,
    DecayedAdam,
    build_quantised,
    entropy_per_latent,
    hfs,
    qlae,
    support_distance,
)
from karenina.numerics.gaussian import entropy_per_latent as entropies
from karenina.training import train

SMALL = {"latents": 3, "steps": 4, "batch": 8, "network": "mlp"}


def codebook():
    book = Codebook(3, values=4)
    with torch.no_grad():
        book.values.add_(0.1 * torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))
    return book


def test_codes_are_rounded_to_the_nearest_value():
    book, codes = codebook(), torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    expected = [[min(book.values[j].tolist(), key=lambda v: abs(v - float(z[j]))) for j in range(3)] for z in codes]
    torch.testing.assert_close(book(codes), torch.tensor(expected))
    assert Codebook(2).values.tolist()[1] == pytest.approx(np.linspace(-0.5, 0.5, 10).tolist())


def test_gradients_go_straight_through():
    book, codes = codebook(), torch.randn(6, 3, requires_grad=True)
    z = book.straight_through(codes)
    torch.testing.assert_close(z, book(codes))
    weights = torch.randn(6, 3)
    (weights * z).sum().backward()
    assert torch.equal(codes.grad, weights)
    assert book.values.grad is None  # the reconstruction does not move the codebook
    (weights * book(codes)).sum().backward()
    assert torch.equal(codes.grad, weights)
    for j, k in itertools.product(range(3), range(4)):
        chosen = book(codes)[:, j] == book.values[j, k]
        assert float(book.values.grad[j, k]) == pytest.approx(float(weights[chosen, j].sum()), abs=1e-5)


def test_terms_of_qlae_pull_codes_and_values_together():
    book, codes = codebook(), torch.randn(6, 3, requires_grad=True)
    x = torch.zeros(6, 2, 4, 4)
    batch = Batch(x, codes, codes, codes, torch.tensor(0.0), torch.zeros(3), 0, 1.0, {"codebook": book})
    terms = qlae(batch, quantisation=0.5, commitment=0.25)
    distance = float((codes - book(codes)).detach().square().mean())
    assert float(terms["quantisation"].detach()) == pytest.approx(0.5 * 4096 * 2 * distance)
    assert float(terms["commitment"].detach()) == pytest.approx(0.25 * 4096 * 2 * distance)
    terms["quantisation"].backward(retain_graph=True)
    assert codes.grad is None
    terms["commitment"].backward()
    moved = 0.25 * 4096 * 2 * 2 * (codes - book(codes)) / 18
    torch.testing.assert_close(codes.grad, moved.detach())


def test_decay_is_that_of_adamw():
    ours, theirs = (build_quantised("mlp", (1, 4, 4), 2).double() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    weights = [p for name, p in theirs.named_parameters() if name.endswith("weight")]
    others = [p for name, p in theirs.named_parameters() if not name.endswith("weight")]
    assert "codebook.values" in dict(theirs.named_parameters())
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    adamw, decayed = torch.optim.AdamW(groups, lr=1e-2), DecayedAdam(ours, 1e-2, 0.1)
    for step in range(3):
        x = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(step)).double()
        for network, optimiser in ((ours, decayed), (theirs, adamw)):
            optimiser.zero_grad()
            (network.decode(network.continuous(x)).square().mean() + network.codebook.values.square().sum()).backward()
            optimiser.step()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b)


def test_entropies():
    codes = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 4], [0, 2, 5]], np.float32)
    assert entropies(codes) == pytest.approx([0, math.log(2), math.log(4)])
    assert entropy_per_latent(torch.from_numpy(codes)).tolist() == pytest.approx([0, math.log(2), math.log(4)])


def test_a_run_of_qlae_is_used_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr("karenina.training.loop.TRACE_IMAGES", 20)  # the dynamics score of 200 takes seconds
    run = train("blobs", "qlae", out=tmp_path / "run", **{**SMALL, "steps": 30}, trace=True)
    run = karenina.open(tmp_path / "run")
    images, factors = load("blobs").sample(300, 0)
    codes, logvar = run.encode(images)
    values = run._network.codebook.values.detach().numpy()
    assert all(np.isin(codes[:, j], values[j]).all() for j in range(3))
    assert (np.exp(0.5 * logvar) < 1e-20).all()
    assert run.kl(images) == pytest.approx(entropies(codes))
    assert {"quantisation", "commitment", "kl_2"} <= set(run.history)
    found = evaluate(run, metrics=["mig"], rows=200)
    assert found.kl == pytest.approx(entropies(found.codes))
    assert found.label_free["kl"] == pytest.approx(found.kl.sum())
    assert 0 <= float(mig(codes, factors)) <= 1
    shown = run.traverse(images)
    assert shown.values.max() == -shown.values.min() == pytest.approx(np.abs(values).max())
    assert np.abs(values).max() > 0.5
    other = train("blobs", "qlae", seed=1, **{**SMALL, "steps": 30}, trace=True)
    for by in ("udr", "udr_spearman", "elbo", "active_units", "support", "dynamics"):
        ranking = karenina.rank([run, other], by=by, rows=200)
        assert len(ranking.frame) == 2
        assert np.isfinite(ranking.frame["score"]).all()


def hausdorff(codes):
    """By loops: the farthest combination from its nearest image, for every pair of latents."""
    total = 0.0
    for i, j in itertools.combinations(range(codes.shape[1]), 2):
        farthest = 0.0
        for a, b in itertools.product(range(len(codes)), repeat=2):
            nearest = min((codes[a, i] - c[i]) ** 2 + (codes[b, j] - c[j]) ** 2 for c in codes)
            farthest = max(farthest, float(nearest))
        total += farthest
    return total


def test_the_distance_of_supports_by_loops():
    for seed in range(3):
        codes = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert float(support_distance(codes)) == pytest.approx(hausdorff(codes))
        assert float(support_distance(codes, 20)) <= hausdorff(codes) + 1e-12


def test_a_few_combinations_have_half_the_distance_of_all():
    codes = torch.randn(20, 64, 10, generator=torch.Generator().manual_seed(0))
    shares = [float(support_distance(one, 128) / support_distance(one)) for one in codes]
    assert np.mean(shares) == pytest.approx(0.49, abs=0.02)


def test_a_product_of_supports_has_distance_0_however_dense():
    grid = torch.cartesian_prod(torch.tensor([0.0, 1, 5]), torch.tensor([-1.0, 2]), torch.tensor([0.0, 0.1]))
    correlated = grid[[*range(12), 0, 0, 0, 11, 11, 11]]  # far from uniform, and yet every combination occurs
    assert float(support_distance(grid)) == float(support_distance(correlated)) == 0.0
    assert float(support_distance(grid[:1])) == float(support_distance(grid[:, :1])) == 0.0
    assert float(support_distance(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))) == 1.0


def test_its_gradient_by_finite_differences():
    codes = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: support_distance(z, 25), codes, eps=1e-7)


def test_without_its_term_hfs_is_the_beta_vae():
    plain = train("blobs", "beta_vae", beta=2, **SMALL)
    without = train("blobs", "hfs", beta=2, gamma=0, **SMALL)
    images = load("blobs").at(range(5))
    assert (plain.encode(images)[0] == without.encode(images)[0]).all()


def test_the_scale_term():
    mean = torch.tensor([[0.0, 0.0], [1.0, 4.0]])
    batch = Batch(mean, mean, mean, mean, torch.tensor(0.0), torch.zeros(2), 0, 1.0)
    assert float(hfs(batch, scale=2)["scale"]) == pytest.approx(2 * 0.5, abs=1e-5)
    assert "scale" not in hfs(batch)
