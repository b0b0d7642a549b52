"""Objectives: one function each, from a batch to named loss terms. The loss is their sum, and it is minimised.

What a method needs besides its function stands next to it: the discriminator of FactorVAE, the codebook of QLAE, the
averages of Ada-GVAE and Ada-ML-VAE (Locatello et al. 2020: a batch of pairs has the first image of every pair and then
the second, and the posteriors of the latents that a pair shares are replaced by one for both), and the losses of
methods that also learn from a few labels (Locatello et al. 2020, "... using few labels").

Your own objective is one function, passed to `karenina.train` in place of a name; its keyword arguments become
parameters of the method:

>>> def squared_kl(batch, *, strength=1.0):
...     return {"reconstruction": batch.reconstruction, "penalty": strength * batch.kl.sum() ** 2}
>>> import karenina
>>> run = karenina.train("blobs", squared_kl, strength=0.1, latents=2, steps=2)
>>> "penalty" in run.history
True
"""

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from karenina.models.fast import Adam
from karenina.models.networks import Autoencoder, Shape, build

Terms = dict[str, Tensor]
Objective = Callable[..., Terms]


@dataclass(frozen=True)
class Batch:
    """The inputs of an objective, for n images.

    Attributes
    ----------
    x : (n, c, h, w), in [0, 1]
    mean, logvar : (n, latents), the parameters of q(z|x)
    z : (n, latents), one sample of q(z|x)
    reconstruction : (), -log p(x|z) summed over pixels, averaged over the batch, times `reconstruction_weight`
    kl : (latents,), KL(q(z_j|x) || p(z_j)) averaged over the batch
    step : updates made so far
    size : number of images in the data set, or inf
    beside : dict, the modules trained beside the network (see karenina.training.methods.Beside)
    labelled, labels : (m, latents) and (m, factors), mean codes of images that have labels, and these, in [0, 1]
    """

    x: Tensor
    mean: Tensor
    logvar: Tensor
    z: Tensor
    reconstruction: Tensor
    kl: Tensor
    step: int
    size: float
    beside: Mapping[str, Any] = field(default_factory=dict)
    labelled: Tensor | None = None
    labels: Tensor | None = None


def bernoulli(x: Tensor, logits: Tensor) -> Tensor:
    """Return -log p(x|z) of independent Bernoulli pixels, mean over the batch."""
    return functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)


def gaussian(x: Tensor, means: Tensor) -> Tensor:
    """Return -log p(x|z) of Gaussian pixels with variance 1, without the constant, mean over the batch."""
    return 0.5 * functional.mse_loss(means, x, reduction="sum") / len(x)


# Each has the distance of an image from the decoder's output, and what shows that output as an image.
DECODERS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "bernoulli": (bernoulli, torch.sigmoid),
    "gaussian": (gaussian, lambda means: means.clamp(0, 1)),
}


def kl_per_latent(mean: Tensor, logvar: Tensor, dim: int = 0) -> Tensor:
    """Return KL(N(mean, e^logvar) || N(0, 1)) of each latent, averaged over the batch: (n, latents) -> (latents,).

    dim: the axis of the batch.
    """
    return 0.5 * (mean.square() + logvar.exp() - logvar - 1).mean(dim)


def vae(batch: Batch) -> Terms:
    """Minimise the negative ELBO, Kingma & Welling (2014). Locatello et al. (2019), equation 1."""
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum()}


def beta_vae(batch: Batch, *, beta: float = 4.0) -> Terms:
    """Weight the KL by beta, Higgins et al. (2017). Duan et al. (2020), equation 4."""
    return {"reconstruction": batch.reconstruction, "kl": beta * batch.kl.sum()}


def annealed_vae(
    batch: Batch, *, gamma: float = 1000.0, c_max: float = 25.0, iteration_threshold: int = 100_000
) -> Terms:
    """Hold the KL at a capacity C, gamma |KL - C|: CCI-VAE, Burgess et al. (2018). Duan et al. (2020), equation 5.

    The capacity C grows linearly from 0 to `c_max` nats over `iteration_threshold` steps.
    """
    c = c_max * min(batch.step / iteration_threshold, 1.0)
    return {"reconstruction": batch.reconstruction, "kl": gamma * (batch.kl.sum() - c).abs()}


def factor_vae(batch: Batch, *, gamma: float = 10.0) -> Terms:
    """Penalise the total correlation, KL + gamma TC(z): Kim & Mnih (2018), equation 2; TC by the density-ratio trick
    (equation 3)."""
    tc = batch.beside["discriminator"].total_correlation(batch.z)
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum(), "total_correlation": gamma * tc}


def beta_tcvae(batch: Batch, *, beta: float = 4.0, estimator: str = "weighted") -> Terms:
    """Penalise the total correlation, KL + (beta - 1) TC(z), TC estimated within the batch: Chen et al. (2018),
    equation 4 with alpha = gamma = 1.

    `estimator`: "weighted" or "stratified", see `log_density`.
    """
    _, tc, _ = decompose(batch.z, batch.mean, batch.logvar, batch.size, estimator)
    return {
        "reconstruction": batch.reconstruction,
        "kl": batch.kl.sum(),
        "total_correlation": (beta - 1) * tc,
    }


def decompose(
    z: Tensor, mean: Tensor, logvar: Tensor, size: float = math.inf, estimator: str = "weighted"
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mutual information, total correlation and dimension-wise KL. Chen et al. (2018), equation 2.

    Their sum is the average of log q(z|x) - log p(z) over the given samples, whatever the estimator.
    """
    pairs = gaussian_log_density(z[:, None], mean[None], logvar[None])  # (n samples, n posteriors, latents)
    weights = log_weights(len(z), size, estimator).to(z)
    log_qz = (pairs.sum(2) + weights).logsumexp(1)
    log_qz_product = (pairs + weights[:, :, None]).logsumexp(1).sum(1)
    log_qz_given_x = pairs.sum(2).diagonal()
    log_pz = gaussian_log_density(z, torch.zeros_like(z), torch.zeros_like(z)).sum(1)
    return (log_qz_given_x - log_qz).mean(), (log_qz - log_qz_product).mean(), (log_qz_product - log_pz).mean()


def gaussian_log_density(z: Tensor, mean: Tensor, logvar: Tensor) -> Tensor:
    return -0.5 * ((z - mean).square() * (-logvar).exp() + logvar + math.log(2 * math.pi))


def log_weights(n: int, size: float, estimator: str) -> Tensor:
    """Return the log of weights w (n, n) such that q(z_i) is estimated by sum_j w_ij q(z_i|x_j).

    weighted: 1/n each. The minibatch weighted sampling of Chen et al. (2018), appendix C.1, has 1/(n size) instead.
    That gives the same gradients, but a total correlation that is larger by (latents - 1) log(size); this one tends to
    the true value as n grows.
    stratified: their minibatch stratified sampling, appendix C.2, unbiased for q(z_i): 1/size for the image that
    z_i came from, 1/(n-1) - 1/size for one other image and 1/(n-1) for the rest.
    """
    if estimator == "weighted":
        return torch.full((n, n), -math.log(n))
    if estimator != "stratified":
        raise ValueError(f"no estimator {estimator!r} of the total correlation; known: weighted, stratified")
    if not 2 <= n <= size:
        raise ValueError(
            f"the stratified estimator needs 2 or more images in a batch and no more than in the data set; "
            f"got {n} of {size:g}"
        )
    weights = torch.full((n, n), 1 / (n - 1), dtype=torch.float64)
    weights.fill_diagonal_(1 / size)
    i = torch.arange(n)
    weights[i, (i + 1) % n] = 1 / (n - 1) - 1 / size
    return weights.log()


def dip_vae_i(batch: Batch, *, lambda_od: float = 10.0, lambda_d: float | None = None) -> Terms:
    """Bring the covariance of the means to the identity: Kumar et al. (2018), equation 6.

    `lambda_d`: by default 10 lambda_od.
    """
    penalty = _moments(_covariance(batch.mean), lambda_od, 10 * lambda_od if lambda_d is None else lambda_d)
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum(), "moments": penalty}


def dip_vae_ii(batch: Batch, *, lambda_od: float = 10.0, lambda_d: float | None = None) -> Terms:
    """Bring the covariance of z, E[diag(e^logvar)] + Cov[mean], to the identity: Kumar et al. (2018), equation 7.

    `lambda_d`: by default lambda_od.
    """
    covariance = _covariance(batch.mean) + batch.logvar.exp().mean(0).diag()
    penalty = _moments(covariance, lambda_od, lambda_od if lambda_d is None else lambda_d)
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum(), "moments": penalty}


def _covariance(mean: Tensor) -> Tensor:
    centred = mean - mean.mean(0)
    with whole_floats(mean):
        return centred.T @ centred / len(mean)


def whole_floats(x: Tensor) -> AbstractContextManager[Any]:
    """Keep products of matrices in the type of their factors, also where layers are computed in bf16."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def _moments(covariance: Tensor, lambda_od: float, lambda_d: float) -> Tensor:
    """Return lambda_od sum_(i != j) Cov_ij^2 + lambda_d sum_i (Cov_ii - 1)^2."""
    diagonal = covariance.diagonal()
    off_diagonal = covariance.square().sum() - diagonal.square().sum()
    return lambda_od * off_diagonal + lambda_d * (diagonal - 1).square().sum()


class Discriminator(nn.Module):
    """The adversary of FactorVAE, which tells codes q(z) from codes whose dimensions were shuffled, prod_j q(z_j):
    codes (n, latents) -> logits (n, 2).

    Six layers of 1000 leaky ReLU units: Kim & Mnih (2018), appendix A. They do not print the slope; 0.2 is what
    released implementations use.
    """

    def __init__(self, latents: int, *, layers: int = 6, units: int = 1000):
        super().__init__()
        stack: list[nn.Module] = []
        for before in (latents, *(units,) * (layers - 1)):
            stack += [nn.Linear(before, units), nn.LeakyReLU(0.2, inplace=True)]
        self.layers = nn.Sequential(*stack, nn.Linear(units, 2))

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(z).to(z.dtype)  # The layers may compute in bf16.

    def total_correlation(self, z: Tensor) -> Tensor:
        """Return E[log D(z) - log(1 - D(z))], the density-ratio estimate of TC(z). Kim & Mnih (2018), equation 3."""
        logits = self(z)
        return (logits[:, 0] - logits[:, 1]).mean()

    def loss(self, z: Tensor, shuffled: Tensor) -> Tensor:
        """Return the cross entropy of telling z (class 0) from `shuffled` (class 1). Algorithm 2, last line."""
        real, fake = self(z), self(shuffled)
        zeros = torch.zeros(len(z), dtype=torch.long, device=z.device)
        ones = torch.ones(len(shuffled), dtype=torch.long, device=z.device)
        return 0.5 * (functional.cross_entropy(real, zeros) + functional.cross_entropy(fake, ones))


def permute_dims(z: Tensor, generator: torch.Generator) -> Tensor:
    """Shuffle each column of z (n, latents) on its own: a sample of prod_j q(z_j). Algorithm 1."""
    order = torch.rand(z.shape, generator=generator, device=z.device).argsort(0)
    return z.gather(0, order)


def hfs(batch: Batch, *, gamma: float = 100.0, beta: float = 1.0, scale: float = 0.0, combinations: int = 128) -> Terms:
    """Factorise the support of the codes: beta KL + gamma (distance to the product of supports, for every pair of
    latents). HFS, the Hausdorff factorised support of Roth et al. (2023).

    As released (`hausdorff_hard`), where a step has 25 random pairs of latents and, by default, all combinations.

    A distribution with correlated factors can have a support in which every combination occurs; a penalty on the
    support, unlike one on the density (beta_tcvae), leaves such codes as they are.

    scale: weight of sum_j max(0, 1 - standard deviation of z_j), without which and beta codes could shrink to nothing.
    combinations: how many of the n^2 combinations of a pair's values are looked at; as the images of a batch are drawn
    at random, those of images i and i + 1, i + 2, ... are random ones. The farthest of fewer is nearer: 128 give 0.49
    of the distance of all for Gaussian codes (64, 10), so that gamma counts about half.
    """
    distance = support_distance(batch.mean, combinations)
    terms = {"reconstruction": batch.reconstruction, "kl": beta * batch.kl.sum(), "support": gamma * distance}
    if scale:
        spread = (batch.mean.var(0, unbiased=False) + 1e-6).sqrt()
        terms["scale"] = scale * (1 - spread).relu().sum()
    return terms


def support_distance(codes: Tensor, combinations: int | None = None) -> Tensor:
    """Return the sum over pairs of latents of the squared Hausdorff distance of the product of their supports from the
    joint one.

    codes: (n, latents). A combination takes the one latent of one image and the other of another; its distance is that
    to the nearest image, and of all combinations (n^2, or the given number) the farthest counts.

    >>> grid = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0))
    >>> float(support_distance(grid)), float(support_distance(grid[[0, 4, 8]]))   # all combinations, the diagonal
    (0.0, 2.0)
    """
    n, latents = codes.shape
    if latents < 2 or n < 2:
        return 0.0 * codes.sum()
    i, j = torch.triu_indices(latents, latents, 1, device=codes.device)
    count = n * n if combinations is None else min(combinations, n * n)
    numbers = torch.arange(count, device=codes.device)
    a, b = numbers % n, (numbers + 1 + numbers // n) % n
    with torch.no_grad():
        squares = (codes[:, None] - codes[None]).square().permute(2, 0, 1)  # (latents, n, n)
        apart = squares[i][:, a] + squares[j][:, b]  # (pairs, combinations, n)
        nearest, image = apart.min(dim=2)
        farthest = nearest.argmax(dim=1)
        image = image.gather(1, farthest[:, None])[:, 0]
    first, second = codes[a[farthest], i] - codes[image, i], codes[b[farthest], j] - codes[image, j]
    return (first.square() + second.square()).sum()


# The log-variance of a posterior without spread: samples equal the mean.
NO_SPREAD = -100.0
_PIXELS = 64 * 64


class Codebook(nn.Module):
    """The values that each latent can take: rounds codes (n, latents) to the nearest.

    >>> Codebook(1, values=3)(torch.tensor([[0.2], [0.3]])).flatten().tolist()  # of -0.5, 0, 0.5
    [0.0, 0.5]
    """

    def __init__(self, latents: int, values: int = 10):
        super().__init__()
        self.values = nn.Parameter(torch.linspace(-0.5, 0.5, values).repeat(latents, 1))

    def forward(self, codes: Tensor) -> Tensor:
        """Return the nearest of each latent's values, Hsu et al. (2023). Gradients go to the values alone."""
        nearest = (codes.detach().unsqueeze(2) - self.values.detach()).abs().argmin(dim=2)
        return self.values.gather(1, nearest.T).T

    def straight_through(self, codes: Tensor) -> Tensor:
        """Return the same values; gradients go to the codes as if these had not been rounded."""
        return codes + (self(codes) - codes).detach()


class QuantisedAutoencoder(Autoencoder):
    """An autoencoder whose codes are rounded to a codebook that is trained with it."""

    def __init__(self, features: nn.Module, head: nn.Module, decoder: nn.Sequential, *, latents: int):
        super().__init__(features, head, decoder)
        self.codebook = Codebook(latents)

    def continuous(self, x: Tensor) -> Tensor:
        """Return the codes (n, latents) before they are rounded."""
        return self.head(self.features(x))

    def posterior(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        codes = self.codebook(outputs)
        return codes, torch.full_like(codes, NO_SPREAD)


def build_quantised(name: str, shape: Shape, latents: int, *, init: str = "torch") -> Autoencoder:
    """Return the network of this name with one output for each latent and a codebook."""
    make = partial(QuantisedAutoencoder, latents=latents)
    return build(name, shape, latents, init=init, outputs=latents, make=make)


def qlae(batch: Batch, *, quantisation: float = 0.01, commitment: float = 0.01) -> Terms:
    """Move the codebook to the codes (quantisation) and them to it (commitment): QLAE, the autoencoder with quantised
    latents of Hsu et al. (2023).

    `batch.mean` are the codes before rounding, `batch.z` after it. The paper's weights are for a likelihood that is
    averaged over pixels; ours is a sum over 64x64 pixels, or as much (`reconstruction_weight`), so they are multiplied
    by as many. As released; gradients of weights, of that mean, are clipped there at 1 entry by entry, which we leave
    out.
    """
    rounded = batch.beside["codebook"](batch.mean)
    scale = _PIXELS * batch.x.shape[1]
    return {
        "reconstruction": batch.reconstruction,
        "quantisation": quantisation * scale * (batch.mean.detach() - rounded).square().mean(),
        "commitment": commitment * scale * (batch.mean - rounded.detach()).square().mean(),
    }


def entropy_per_latent(codes: Tensor) -> Tensor:
    """Return the entropy in nats of the values that each latent takes in a batch: (n, latents) -> (latents,).

    What stands for the KL: see karenina.numerics.gaussian.entropy_per_latent.

    >>> entropy_per_latent(torch.tensor([[0.0, 1.0], [0.5, 1.0]]))
    tensor([0.6931, 0.0000])
    """
    same = (codes[:, None] == codes[None]).float().mean(0)  # (n, latents): the share of each row's value
    return same.log().neg().mean(0).abs()  # Equal values give 0, not -0.


class DecayedAdam(Adam):
    """AdamW, Loshchilov & Hutter (2019): Adam whose weights, but not biases and codebooks, shrink at every step."""

    def __init__(self, network: nn.Module, learning_rate: float, decay: float):
        super().__init__(network.parameters(), learning_rate)
        self.decay = decay
        self.shrinking = [parameter for name, parameter in network.named_parameters() if name.endswith("weight")]

    @torch.no_grad()
    def step(self) -> None:
        torch._foreach_mul_([p for p in self.shrinking if p.grad is not None], 1 - self.learning_rate * self.decay)
        super().step()


# It is called with means and variances of two posteriors (mean1, var1, mean2, var2), and returns mean, var.
Average = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

KNOWN_OF_PAIRS = ("nothing", "k", "shared")


def gvae_average(mean1: Tensor, var1: Tensor, mean2: Tensor, var2: Tensor) -> tuple[Tensor, Tensor]:
    """Return the average of the two means, and that of the two variances: GVAE, Hosoya (2019)."""
    return 0.5 * (mean1 + mean2), 0.5 * (var1 + var2)


def mlvae_average(mean1: Tensor, var1: Tensor, mean2: Tensor, var2: Tensor) -> tuple[Tensor, Tensor]:
    """Return the normalised product, to the power 1/2 so that equal ones stay as they are: ML-VAE, Bouchacourt et al.
    (2018).

    Its precision is the mean of the precisions, as in the release of Locatello et al. (2020).
    """
    var = 2 * var1 * var2 / (var1 + var2)
    return 0.5 * var * (mean1 / var1 + mean2 / var2), var


def pair_distances(mean: Tensor, logvar: Tensor) -> Tensor:
    """Return delta_j = KL(q(z_j|x1) || q(z_j|x2)) of each pair: (..., 2n, latents) twice -> (..., n, latents)."""
    (m1, m2), (l1, l2) = mean.chunk(2, dim=-2), logvar.chunk(2, dim=-2)
    return 0.5 * ((l1 - l2).exp() + (m1 - m2).square() * (-l2).exp() - 1 + l2 - l1)


def shared_latents(delta: Tensor, changed: Tensor | None, known: str) -> Tensor:
    """Return which latents a pair shares, (..., n, latents) bool.

    known "nothing": those with delta_j < tau = (max_j delta_j + min_j delta_j) / 2, Locatello et al. (2020).
    known "k": all but the k of largest delta_j, where k is how many factors changed.
    known "shared": latent j stands for factor j; latents beyond the factors are shared.
    changed: (..., n, factors) bool, for the last two.
    """
    if known == "nothing":
        tau = 0.5 * (delta.amax(-1, keepdim=True) + delta.amin(-1, keepdim=True))
        return delta < tau
    if changed is None:
        raise ValueError("these pairs do not say which factors they share: only known='nothing' is possible")
    if known == "k":
        places = delta.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1, stable=True)
        return places >= changed.sum(-1, keepdim=True)
    found = torch.ones_like(delta, dtype=torch.bool)
    found[..., : changed.shape[-1]] = ~changed[..., : delta.shape[-1]]
    return found


def share_posteriors(
    mean: Tensor,
    logvar: Tensor,
    changed: Tensor | None = None,
    *,
    average: Average = gvae_average,
    known: str = "nothing",
) -> tuple[Tensor, Tensor]:
    """Return the posteriors (..., 2n, latents) of n pairs, with those of shared latents averaged.

    >>> mean, logvar = torch.tensor([[0.0, 1.0], [4.0, 1.2]]), torch.zeros(2, 2)  # one pair
    >>> share_posteriors(mean, logvar)[0].tolist()  # the second latent is shared
    [[0.0, 1.100000023841858], [4.0, 1.100000023841858]]
    """
    delta = pair_distances(mean.detach(), logvar.detach())
    shared = shared_latents(delta, changed, known)
    (m1, m2), (l1, l2) = mean.chunk(2, dim=-2), logvar.chunk(2, dim=-2)
    both_mean, both_var = average(m1, l1.exp(), m2, l2.exp())
    both_logvar = both_var.log()
    means = torch.cat([torch.where(shared, both_mean, own) for own in (m1, m2)], dim=-2)
    return means, torch.cat([torch.where(shared, both_logvar, own) for own in (l1, l2)], dim=-2)


def cross_entropy(codes: Tensor, factors: Tensor) -> Tensor:
    """Return the cross entropy of the first k codes, as logits, with factors (n, k) in [0, 1]; summed over factors,
    mean over images."""
    logits = codes[:, : factors.shape[1]]
    return functional.binary_cross_entropy_with_logits(logits, factors, reduction="sum") / len(codes)


def squared_error(codes: Tensor, factors: Tensor) -> Tensor:
    """Return the squared error of the first k codes, brought to [0, 1] by a sigmoid."""
    return (codes[:, : factors.shape[1]].sigmoid() - factors).square().sum() / len(codes)


def covariance(codes: Tensor, factors: Tensor) -> Tensor:
    """Return the sum of the squared covariances of every code with every factor but its own: code j may tell of factor
    j alone."""
    centred = codes - codes.mean(0), factors - factors.mean(0)
    with whole_floats(codes):
        found = centred[0].T @ centred[1] / len(codes)
    own = torch.eye(*found.shape, dtype=torch.bool, device=found.device)
    return found.masked_fill(own, 0.0).square().sum()


SUPERVISED_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": cross_entropy,
    "squared_error": squared_error,
    "covariance": covariance,
}
# An objective with labels takes these besides its own arguments; the values are the defaults.
SUPERVISED_ARGUMENTS: dict[str, Any] = {"supervised_loss": "cross_entropy", "supervised_weight": 100.0}


def supervised(objective: Objective) -> Objective:
    """Return the objective with a term for the images that have labels: their mean codes should be their factors.

    As in the paper: objective + gamma_sup R(codes, factors), with `supervised_weight` for gamma_sup and one of
    SUPERVISED_LOSSES for R. The result has the arguments of the objective and these two.
    """

    def with_labels(batch: Batch, **parameters: Any) -> Terms:
        assert batch.labelled is not None
        assert batch.labels is not None
        loss, weight = (parameters.pop(name) for name in SUPERVISED_ARGUMENTS)
        found = SUPERVISED_LOSSES[loss](batch.labelled, batch.labels)
        return {**objective(batch, **parameters), "supervised": weight * found}

    own = inspect.signature(objective)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=v) for name, v in SUPERVISED_ARGUMENTS.items()
    ]
    with_labels.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    with_labels.without_labels = objective  # type: ignore[attr-defined]
    return with_labels


def unsupervised(objective: Objective | None) -> Objective | None:
    """Return the objective to which `supervised` added a term; one without labels is itself."""
    return getattr(objective, "without_labels", objective)
