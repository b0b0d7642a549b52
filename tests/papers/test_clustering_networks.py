"""MONet, component VAEs, transition models and reward predictors of the clustering task."""

import math

import numpy as np
import pytest
import torch

from karenina.models.stacked import StackedLinear, generators
from karenina.papers.duan2020.clustering.agent import RewardLearners, RewardPredictors, TransitionModels
from karenina.papers.duan2020.clustering.monet import (
    Attention,
    ComponentVAE,
    MONet,
    cut_out,
    from_patches,
    gaussian_kl,
    mixture_nll,
    object_losses,
    to_patches,
)
from karenina.papers.duan2020.clustering.world import random_sprites, render


def images(n=3, side=16, seed=0):
    scenes = random_sprites(["any"] * 3, np.random.default_rng(seed), scenes=n, scale=0.3)
    return torch.from_numpy(render(scenes, side)).float() / 255


def test_masks_sum_to_one_at_any_logits():
    torch.manual_seed(0)
    attention = Attention(16, slots=5)
    for scale in (1.0, 1e3):
        attention.last.weight.data.mul_(scale)
        log_masks = attention(images())
        assert log_masks.shape == (3, 5, 16, 16)
        assert (log_masks <= 0).all()
        torch.testing.assert_close(log_masks.exp().sum(1), torch.ones(3, 16, 16))


def test_patches_there_and_back_and_four_neighbours_together():
    x = torch.arange(2 * 3 * 16 * 16.0).reshape(2, 3, 16, 16)
    patches = to_patches(x)
    assert patches.shape == (2, 16, 48)
    torch.testing.assert_close(from_patches(patches), x)
    # The first four cells are the first 8x8 pixels.
    assert set(patches[0, :4].reshape(-1).tolist()) == set(x[0, :, :8, :8].reshape(-1).tolist())
    torch.testing.assert_close(patches[1, 0].reshape(3, 4, 4), x[1, :, :4, :4])


def test_mixture_likelihood_against_brute_force():
    rng = torch.Generator().manual_seed(0)
    n, slots, side = 2, 3, 8
    x, means = torch.rand(n, 3, side, side, generator=rng), torch.rand(n, slots, 3, side, side, generator=rng)
    masks = torch.softmax(torch.randn(n, slots, side, side, generator=rng), 1)
    found = mixture_nll(
        to_patches(x)[:, None].double(), to_patches(means).double(), to_patches(masks[:, :, None]).double().log(),
        (0.09, 0.11),
    )  # fmt: skip
    for i in range(n):
        total = 0.0
        for row in range(side):
            for column in range(side):
                density = 0.0
                for k, sigma in zip(range(slots), (0.09, 0.11, 0.11)):
                    normal = [
                        math.exp(-((x[i, c, row, column] - means[i, k, c, row, column]).item() ** 2) / (2 * sigma**2))
                        / (sigma * math.sqrt(2 * math.pi))
                        for c in range(3)
                    ]
                    density += masks[i, k, row, column].item() * math.prod(normal)
                total -= math.log(density)
        assert found[i].item() == pytest.approx(total, rel=1e-4)


def test_loss_is_an_upper_bound_of_the_likelihood_integrated_over_all_codes():
    """Two slots with one latent each: -log of the integral of prod p(z) p(x | z) on a grid is below the loss at beta 1,
    and the expectation of the loss over z closes in on it when q is the posterior's best Gaussian."""
    network = MONet(0, side=8, slots=2, latents=1, units=8).double()
    x = images(1, side=8).double()
    grid = torch.linspace(-6, 6, 161, dtype=torch.float64)
    z = torch.cartesian_prod(grid, grid)
    with torch.no_grad():
        out = network(x, torch.zeros(1, 2, 1, dtype=torch.float64))
        pixels, _ = network.vae.decode(z.reshape(1, -1, 1))
        nll = mixture_nll(
            out["image"], pixels[0].reshape(len(z), 2, *pixels.shape[2:]), out["log_masks"].expand(len(z), -1, -1, -1),
            network.sigmas,
        )  # fmt: skip
        log_prior = (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(1)
        exact = -torch.logsumexp(log_prior - nll + 2 * math.log(grid[1] - grid[0]), 0)
        noise = torch.randn(400, 1, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        sampled = torch.stack([network.losses(x, one, beta=1.0, gamma=0.0)["loss"] for one in noise])
    assert sampled.mean() > exact
    assert sampled.mean() - exact < 0.2 * abs(exact)  # and it is about this likelihood, not just any large number


def test_terms_of_the_loss_are_divergences():
    losses = MONet(0, side=16, slots=4).losses(images(), torch.randn(3, 4, 8), beta=0.5, gamma=0.25)
    assert losses["kl"] >= 0
    assert losses["mask_kl"] >= 0
    expected = losses["mixture"] + 0.5 * losses["kl"] + 0.25 * losses["mask_kl"]
    torch.testing.assert_close(losses["loss"], expected)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_gradients_are_finite_even_with_hard_masks(beta):
    network = MONet(0, side=16, slots=4)
    network.attention.last.weight.data.mul_(1e4)  # masks of exactly 0 and 1
    network.losses(images(), torch.randn(3, 4, 8), beta=beta, gamma=0.5)["loss"].backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())
    assert any(p.grad.abs().sum() > 0 for p in network.attention.parameters())


def test_object_loss_is_the_masked_likelihood():
    vae = ComponentVAE([0, 1], side=8, latents=2, units=8)
    rng = torch.Generator().manual_seed(0)
    x, mask = torch.rand(2, 3, 3, 8, 8, generator=rng), torch.rand(2, 3, 1, 8, 8, generator=rng).clamp(min=0.1)
    objects = cut_out(to_patches(x), to_patches(mask))
    noise = torch.randn(2, 3, 2, generator=rng)
    with torch.no_grad():
        found = object_losses(vae, objects, noise, torch.tensor([0.0, 2.0]), gamma=0.5)
        mean, logvar = vae.encode(objects)
        pixels, logits = vae.decode(mean + torch.exp(logvar / 2) * noise)
        painted = (mask * (x - from_patches(pixels)) ** 2).sum((2, 3, 4)) / (2 * 0.11**2)
        p = torch.sigmoid(from_patches(logits))
        shaped = -(mask * p.log() + (1 - mask) * (1 - p).log()).sum((2, 3, 4))
        kl = gaussian_kl(mean, logvar).sum(2)
    expected = (painted + 0.5 * shaped + torch.tensor([[0.0], [2.0]]) * kl).mean(1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


def test_a_network_of_a_stack_does_not_depend_on_the_others():
    alone, beside = ComponentVAE([7], 8, 2, units=8), ComponentVAE([3, 7], 8, 2, units=8)
    x = torch.rand(1, 4, 4, 64)
    with torch.no_grad():
        torch.testing.assert_close(beside.encode(x.expand(2, -1, -1, -1))[0][1:], alone.encode(x)[0])
        one = TransitionModels([5], 3, units=8)(torch.ones(1, 2, 3), torch.zeros(1, 2, 4))
        two = TransitionModels([4, 5], 3, units=8)(torch.ones(2, 2, 3), torch.zeros(2, 2, 4))
        torch.testing.assert_close(two[1:], one)
    losses = object_losses(beside, x.expand(2, -1, -1, -1), torch.zeros(2, 4, 2), torch.ones(2))
    losses.sum().backward()
    object_losses(alone, x, torch.zeros(1, 4, 2), torch.ones(1)).sum().backward()
    torch.testing.assert_close(beside.first.weight.grad[1:], alone.first.weight.grad)


def test_stacked_layer_is_a_linear_layer():
    layer = StackedLinear(5, 3, generators([0, 1]))
    x = torch.randn(2, 4, 5)
    for i in range(2):
        torch.testing.assert_close(layer(x)[i], x[i] @ layer.weight[i] + layer.bias[i])
    torch.manual_seed(1)
    like = torch.nn.Linear(5, 3)
    assert abs(layer.weight.std() / like.weight.std() - 1) < 0.3


def test_rewards_do_not_depend_on_the_order_of_slots():
    network = RewardPredictors([0, 1], latents=3, units=8)
    codes = torch.randn(2, 5, 4, 3)
    torch.testing.assert_close(network(codes), network(codes[:, :, [2, 0, 3, 1]]))
    assert network(codes).std() > 0


def test_reward_predictors_learn_a_reward_about_pairs():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(2, 256, 4, 2)).astype(np.float32)
    # How far the two slots that are on the right are from each other: no slot alone tells.
    right = np.argsort(codes[..., 0], axis=2)[..., 2:]
    y = np.take_along_axis(codes[..., 1], right, axis=2)
    rewards = -np.abs(y[..., 0] - y[..., 1])
    learners = RewardLearners([0, 1], latents=2, learning_rate=3e-3)
    for _ in range(300):
        learners.learn(codes, rewards)
    error = ((learners.predict(codes) - rewards) ** 2).mean(axis=1)
    assert (error < 0.4 * rewards.var(axis=1)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ComponentVAE([0], side=20, latents=2), "multiple of 8, got 20"),
        (lambda: ComponentVAE([0], side=16, latents=0), "latents must be at least 1"),
        (lambda: Attention(16, slots=1), "slots must be at least 2, got 1"),
        (lambda: Attention(18, slots=3), "multiple of 4, got 18"),
    ],
)
def test_bad_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_predictors_that_are_kept_go_on_as_before():
    rng = np.random.default_rng(0)
    codes, rewards = rng.normal(size=(3, 16, 4, 2)).astype(np.float32), rng.normal(size=(3, 16)).astype(np.float32)
    whole, part = RewardLearners([0, 1, 2], latents=2), RewardLearners([0, 1, 2], latents=2)
    for learners in (whole, part):
        learners.learn(codes, rewards)
    part.keep([2, 0])
    whole.learn(codes, rewards)
    part.learn(codes[[2, 0]], rewards[[2, 0]])
    np.testing.assert_allclose(part.predict(codes[[2, 0]]), whole.predict(codes)[[2, 0]], rtol=1e-5, atol=1e-6)
