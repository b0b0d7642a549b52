"""What two images of a pair share, by their posteriors: the group VAEs of Locatello et al. (2020).

A batch of pairs has the first image of every pair and then the second. The posteriors of the latents that a pair shares
are replaced by one for both, and the beta-VAE's objective does the rest: Ada-GVAE is "beta-VAE of shared posteriors".
"""

from collections.abc import Callable

import torch
from torch import Tensor

# Of two posteriors, means and variances: (mean1, var1, mean2, var2) -> mean, var.
Average = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

KNOWN = ("nothing", "k", "shared")


def arithmetic(mean1: Tensor, var1: Tensor, mean2: Tensor, var2: Tensor) -> tuple[Tensor, Tensor]:
    """GVAE, Hosoya (2019): the mean of the means and of the variances."""
    return 0.5 * (mean1 + mean2), 0.5 * (var1 + var2)


def product(mean1: Tensor, var1: Tensor, mean2: Tensor, var2: Tensor) -> tuple[Tensor, Tensor]:
    """ML-VAE, Bouchacourt et al. (2018): the normalised product, to the power 1/2 so that equal ones stay as they are.

    Its precision is the mean of the precisions, as in the release of Locatello et al. (2020).
    """
    var = 2 * var1 * var2 / (var1 + var2)
    return 0.5 * var * (mean1 / var1 + mean2 / var2), var


def distances(mean: Tensor, logvar: Tensor) -> Tensor:
    """delta_j = KL(q(z_j|x1) || q(z_j|x2)) of each pair: (..., 2n, latents) twice -> (..., n, latents)."""
    (m1, m2), (l1, l2) = mean.chunk(2, dim=-2), logvar.chunk(2, dim=-2)
    return 0.5 * ((l1 - l2).exp() + (m1 - m2).square() * (-l2).exp() - 1 + l2 - l1)


def shared_latents(delta: Tensor, changed: Tensor | None, known: str) -> Tensor:
    """Which latents a pair shares, (..., n, latents) bool.

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


def share(
    mean: Tensor,
    logvar: Tensor,
    changed: Tensor | None = None,
    *,
    average: Average = arithmetic,
    known: str = "nothing",
) -> tuple[Tensor, Tensor]:
    """The posteriors (..., 2n, latents) of n pairs, with those of shared latents averaged.

    >>> mean, logvar = torch.tensor([[0.0, 1.0], [4.0, 1.2]]), torch.zeros(2, 2)   # one pair
    >>> share(mean, logvar)[0].tolist()                                            # the second latent is shared
    [[0.0, 1.100000023841858], [4.0, 1.100000023841858]]
    """
    delta = distances(mean.detach(), logvar.detach())
    shared = shared_latents(delta, changed, known)
    (m1, m2), (l1, l2) = mean.chunk(2, dim=-2), logvar.chunk(2, dim=-2)
    both_mean, both_var = average(m1, l1.exp(), m2, l2.exp())
    both_logvar = both_var.log()
    means = torch.cat([torch.where(shared, both_mean, own) for own in (m1, m2)], dim=-2)
    return means, torch.cat([torch.where(shared, both_logvar, own) for own in (l1, l2)], dim=-2)
