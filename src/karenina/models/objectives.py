"""Objectives: one function each, from a batch to named loss terms. The loss is their sum, and it is minimised.

Your own objective is one function, passed to `karenina.train` in place of a name; its keyword arguments become
parameters of the method:

>>> def squared_kl(batch, *, strength=1.0):
...     return {"reconstruction": batch.reconstruction, "penalty": strength * batch.kl.sum() ** 2}
>>> import karenina
>>> run = karenina.train("blobs", squared_kl, strength=0.1, latents=2, steps=2)
>>> "penalty" in run.history
True
"""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Terms = dict[str, Tensor]
Objective = Callable[..., Terms]


@dataclass(frozen=True)
class Batch:
    """What an objective sees of n images.

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
    """-log p(x|z) of independent Bernoulli pixels, mean over the batch."""
    return functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)


def gaussian(x: Tensor, means: Tensor) -> Tensor:
    """-log p(x|z) of Gaussian pixels with variance 1, without the constant, mean over the batch."""
    return 0.5 * functional.mse_loss(means, x, reduction="sum") / len(x)


# How far an image is from the decoder's output, and how that output is shown as an image.
DECODERS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "bernoulli": (bernoulli, torch.sigmoid),
    "gaussian": (gaussian, lambda means: means.clamp(0, 1)),
}


def kl_per_latent(mean: Tensor, logvar: Tensor, dim: int = 0) -> Tensor:
    """KL(N(mean, e^logvar) || N(0, 1)) of each latent, averaged over the batch: (n, latents) -> (latents,).

    dim: the axis of the batch.
    """
    return 0.5 * (mean.square() + logvar.exp() - logvar - 1).mean(dim)


def vae(batch: Batch) -> Terms:
    """Kingma & Welling (2014): the negative ELBO. Locatello et al. (2019), equation 1."""
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum()}


def beta_vae(batch: Batch, *, beta: float = 4.0) -> Terms:
    """Higgins et al. (2017): beta KL. Duan et al. (2020), equation 4."""
    return {"reconstruction": batch.reconstruction, "kl": beta * batch.kl.sum()}


def annealed_vae(
    batch: Batch, *, gamma: float = 1000.0, c_max: float = 25.0, iteration_threshold: int = 100_000
) -> Terms:
    """CCI-VAE, Burgess et al. (2018): gamma |KL - C|. Duan et al. (2020), equation 5.

    The capacity C grows linearly from 0 to `c_max` nats over `iteration_threshold` steps.
    """
    c = c_max * min(batch.step / iteration_threshold, 1.0)
    return {"reconstruction": batch.reconstruction, "kl": gamma * (batch.kl.sum() - c).abs()}


def factor_vae(batch: Batch, *, gamma: float = 10.0) -> Terms:
    """Kim & Mnih (2018), equation 2: KL + gamma TC(z), TC by the density-ratio trick (equation 3)."""
    tc = batch.beside["discriminator"].total_correlation(batch.z)
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum(), "total_correlation": gamma * tc}


def beta_tcvae(batch: Batch, *, beta: float = 4.0, estimator: str = "weighted") -> Terms:
    """Chen et al. (2018), equation 4 with alpha = gamma = 1: KL + (beta - 1) TC(z), TC estimated within the batch.

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
    """Mutual information, total correlation and dimension-wise KL. Chen et al. (2018), equation 2.

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
    """Log of weights w (n, n) such that q(z_i) is estimated by sum_j w_ij q(z_i|x_j).

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
    """Kumar et al. (2018), equation 6: the covariance of the means should be the identity.

    `lambda_d`: by default 10 lambda_od.
    """
    penalty = _moments(_covariance(batch.mean), lambda_od, 10 * lambda_od if lambda_d is None else lambda_d)
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum(), "moments": penalty}


def dip_vae_ii(batch: Batch, *, lambda_od: float = 10.0, lambda_d: float | None = None) -> Terms:
    """Kumar et al. (2018), equation 7: the same for the covariance of z, E[diag(e^logvar)] + Cov[mean].

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
    """Products of matrices in the type of their factors, also where layers are computed in bf16."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def _moments(covariance: Tensor, lambda_od: float, lambda_d: float) -> Tensor:
    """lambda_od sum_(i != j) Cov_ij^2 + lambda_d sum_i (Cov_ii - 1)^2."""
    diagonal = covariance.diagonal()
    off_diagonal = covariance.square().sum() - diagonal.square().sum()
    return lambda_od * off_diagonal + lambda_d * (diagonal - 1).square().sum()
