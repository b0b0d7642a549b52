"""HFS, the Hausdorff factorised support of Roth et al. (2023): latents whose supports are independent, if not they."""

import torch
from torch import Tensor

from karenina.models.objectives import Batch, Terms


def hfs(batch: Batch, *, gamma: float = 100.0, beta: float = 1.0, scale: float = 0.0, combinations: int = 128) -> Terms:
    """Roth et al. (2023), for every pair of latents: beta KL + gamma (distance to the product of supports).

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
    """Sum over pairs of latents of the squared Hausdorff distance of the product of their supports from the joint one.

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
