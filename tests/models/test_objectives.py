import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import karenina
from karenina.models import objectives
from karenina.models.networks import build
from karenina.models.objectives import Batch, Discriminator, decompose, kl_per_latent, log_weights, permute_dims
from karenina.training import METHODS
from karenina.training.loop import at_precision, check_precision


def make_batch(n: int = 12, latents: int = 4, step: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(0)
    mean, logvar, noise = torch.randn(3, n, latents, generator=generator, dtype=torch.float64)
    z = mean + (0.5 * logvar).exp() * noise
    reconstruction = torch.tensor(3.0, dtype=torch.float64)
    x = torch.zeros(n, 1, 2, 2)
    return Batch(x, mean, logvar, z, reconstruction, kl_per_latent(mean, logvar), step, size=100)


def loss(terms: dict[str, Tensor]) -> float:
    return float(sum(terms.values()))


def test_kl_is_that_of_torch() -> None:
    batch = make_batch()
    q = torch.distributions.Normal(batch.mean, (0.5 * batch.logvar).exp())
    p = torch.distributions.Normal(torch.zeros_like(batch.mean), torch.ones_like(batch.mean))
    torch.testing.assert_close(batch.kl, torch.distributions.kl_divergence(q, p).mean(0))


def test_bernoulli_and_gaussian_are_those_of_torch() -> None:
    logits, x = torch.randn(5, 1, 3, 3), torch.rand(5, 1, 3, 3).round()
    expected = -torch.distributions.Bernoulli(logits=logits).log_prob(x).sum() / 5
    torch.testing.assert_close(objectives.bernoulli(x, logits), expected)
    constant = 0.5 * math.log(2 * math.pi) * 9
    expected = -torch.distributions.Normal(logits, 1.0).log_prob(x).sum() / 5 - constant
    torch.testing.assert_close(objectives.gaussian(x, logits), expected)


def test_strength_one_is_the_vae() -> None:
    batch = make_batch()
    plain = loss(objectives.vae(batch))
    assert loss(objectives.beta_vae(batch, beta=1)) == pytest.approx(plain)
    for estimator in ("weighted", "stratified"):
        assert loss(objectives.beta_tcvae(batch, beta=1, estimator=estimator)) == pytest.approx(plain)


@pytest.mark.parametrize("estimator", ["weighted", "stratified"])
def test_parts_of_the_kl_add_up(estimator: str) -> None:
    batch = make_batch()
    parts = decompose(batch.z, batch.mean, batch.logvar, 100, estimator)
    q = torch.distributions.Normal(batch.mean, (0.5 * batch.logvar).exp())
    p = torch.distributions.Normal(0.0, 1.0)
    sampled_kl = (q.log_prob(batch.z) - p.log_prob(batch.z)).sum(1).mean()
    torch.testing.assert_close(sum(parts), sampled_kl)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_total_correlation_of_a_gaussian(correlation: float) -> None:
    """Posteriors of variance 0.1 around Gaussian means give a Gaussian q(z) whose TC is -log(1 - r^2) / 2."""
    rng = np.random.default_rng(0)
    covariance = np.array([[1, correlation], [correlation, 1]])
    n, noise = 1200, 0.1
    mean = torch.from_numpy(rng.multivariate_normal([0, 0], covariance - noise * np.eye(2), n))
    z = mean + math.sqrt(noise) * torch.from_numpy(rng.standard_normal((n, 2)))
    logvar = torch.full_like(mean, math.log(noise))
    closed_form = -0.5 * math.log(1 - correlation**2)
    for estimator in ("weighted", "stratified"):
        tc = float(decompose(z, mean, logvar, math.inf, estimator)[1])
        assert tc == pytest.approx(closed_form, abs=0.04)


def test_total_correlation_by_loops() -> None:
    batch = make_batch(n=5, latents=3)
    q = torch.distributions.Normal(batch.mean, (0.5 * batch.logvar).exp())
    total = 0.0
    for z in batch.z:
        density = q.log_prob(z).exp()  # (posteriors, latents)
        total += math.log(density.prod(1).mean()) - sum(math.log(column.mean()) for column in density.T)
    tc = decompose(batch.z, batch.mean, batch.logvar)[1]
    assert float(tc) == pytest.approx(total / 5)


def test_stratified_estimate_of_the_density_is_unbiased() -> None:
    """Average over all batches of 3 of a data set of 5 that begin with the image z came from."""
    densities = np.array([0.7, 0.1, 0.4, 0.2, 0.9])
    weights = log_weights(3, 5, "stratified").exp().numpy()
    np.testing.assert_allclose(weights.sum(1), 1)
    estimates = [weights[0] @ densities[[0, *others]] for others in itertools.permutations(range(1, 5), 2)]
    assert np.mean(estimates) == pytest.approx(densities.mean())


def test_stratified_needs_a_batch_no_larger_than_the_data() -> None:
    for n, size in [(1, 10), (4, 3)]:
        with pytest.raises(ValueError, match="stratified"):
            log_weights(n, size, "stratified")


def test_annealed_capacity() -> None:
    settings = {"gamma": 10.0, "c_max": 8.0, "iteration_threshold": 100}
    for step, capacity in [(0, 0), (25, 2), (100, 8), (5000, 8)]:
        batch = make_batch(step=step)
        expected = 3 + 10 * abs(float(batch.kl.sum()) - capacity)
        assert loss(objectives.annealed_vae(batch, **settings)) == pytest.approx(expected)


def test_dip_penalties_by_hand() -> None:
    batch = make_batch()
    mean = batch.mean.numpy()
    of_means = np.cov(mean.T, bias=True)
    of_codes = of_means + np.diag(np.exp(batch.logvar.numpy()).mean(0))
    for objective, covariance, factor in [
        (objectives.dip_vae_i, of_means, 10),
        (objectives.dip_vae_ii, of_codes, 1),
    ]:
        off = (covariance[~np.eye(4, dtype=bool)] ** 2).sum()
        on = ((np.diag(covariance) - 1) ** 2).sum()
        assert float(objective(batch, lambda_od=2)["moments"]) == pytest.approx(2 * off + 2 * factor * on)
        assert float(objective(batch, lambda_od=2, lambda_d=3)["moments"]) == pytest.approx(2 * off + 3 * on)


def test_penalties_stay_float32_where_layers_are_bf16() -> None:
    try:
        check_precision("bf16", torch.device("cpu"))
    except ValueError as error:
        pytest.skip(str(error))
    generator = torch.Generator().manual_seed(0)
    codes, factors = torch.randn(64, 4, generator=generator), torch.rand(64, 3, generator=generator)
    exact = objectives._covariance(codes), objectives.covariance(codes, factors)
    discriminator = Discriminator(4, layers=2, units=8)
    with at_precision("bf16", torch.device("cpu")):
        found = objectives._covariance(codes), objectives.covariance(codes, factors)
        told = discriminator.total_correlation(codes), discriminator.loss(codes, codes)
    assert all(torch.equal(a, b) for a, b in zip(exact, found))
    assert {value.dtype for value in told} == {torch.float32}


def test_permute_dims_shuffles_each_dimension_on_its_own() -> None:
    z = torch.arange(200.0)[:, None] * torch.ones(3) + torch.tensor([0.0, 1000.0, 2000.0])
    shuffled = permute_dims(z, torch.Generator().manual_seed(0))
    assert torch.equal(shuffled.sort(0).values, z)
    correlation = np.corrcoef(shuffled.T.numpy())
    assert np.abs(correlation[~np.eye(3, dtype=bool)]).max() < 0.25


def test_density_ratio_finds_the_total_correlation() -> None:
    correlation = 0.8
    torch.manual_seed(0)
    noise = torch.Generator().manual_seed(0)
    root = torch.linalg.cholesky(torch.tensor([[1, correlation], [correlation, 1]]))
    discriminator = Discriminator(2, layers=2, units=64)
    adam = torch.optim.Adam(discriminator.parameters(), 2e-3)
    for _ in range(800):
        z, other = (torch.randn(256, 2, generator=noise) @ root.T for _ in range(2))
        adam.zero_grad()
        discriminator.loss(z, permute_dims(other, noise)).backward()
        adam.step()
    with torch.no_grad():
        found = discriminator.total_correlation(torch.randn(20_000, 2, generator=noise) @ root.T)
    assert float(found) == pytest.approx(-0.5 * math.log(1 - correlation**2), abs=0.06)


# The gradient of qlae is, on purpose, not that of its value: tests/training/test_quantised_and_support.py.
@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.objective and name != "qlae"])
def test_gradient_by_finite_differences(name: str) -> None:
    """Along a random direction of all weights, through encoder, sampling, decoder and objective."""
    torch.manual_seed(0)
    network = build("mlp", (1, 6, 6), 3).double()
    x, epsilon = torch.rand(3, 1, 6, 6).double(), torch.randn(3, 3).double()
    discriminator = Discriminator(3, layers=1, units=8).double()
    weights = list(network.parameters())
    direction = [torch.randn_like(weight) for weight in weights]

    def value() -> Tensor:
        mean, logvar = network.encode(x)
        z = mean + (0.5 * logvar).exp() * epsilon
        reconstruction = objectives.bernoulli(x, network.decode(z))
        kl = kl_per_latent(mean, logvar)
        batch = Batch(x, mean, logvar, z, reconstruction, kl, 10, 100.0, {"discriminator": discriminator})
        return sum(METHODS[name].objective(batch).values())

    slope = sum((g * d).sum() for g, d in zip(torch.autograd.grad(value(), weights), direction))

    def moved(distance: float) -> float:
        with torch.no_grad():
            torch._foreach_add_(weights, direction, alpha=distance)
            result = float(value())
            torch._foreach_add_(weights, direction, alpha=-distance)
        return result

    width = 1e-7
    difference = (moved(width) - moved(-width)) / (2 * width)
    assert difference == pytest.approx(float(slope), rel=1e-5)


def test_the_smallest_numbers_count_as_nothing_in_training_and_weights_are_the_same(monkeypatch):
    def tiny() -> float:
        return torch.tensor([1e-38]).mul(0.01).item()

    assert tiny() > 0
    with at_precision("float32", torch.device("cpu")):
        assert tiny() == 0
    assert tiny() > 0
    runs = [karenina.train("blobs", "beta_vae", beta=16, latents=4, steps=150)]
    monkeypatch.setattr(torch, "set_flush_denormal", lambda on: True)
    runs.append(karenina.train("blobs", "beta_vae", beta=16, latents=4, steps=150))
    first, second = (run.module.state_dict() for run in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)
