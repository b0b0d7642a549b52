"""Scores of one model that need neither labels nor a second seed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from karenina._active import ACTIVE_KL
from karenina.numerics import dependence
from karenina.selection._inputs import Floats


@dataclass(frozen=True, eq=False)
class Orthogonality:
    """`float()` is the score, higher is better: 1 when every V is a signed permutation.

    score: mean of the largest |entries| of V, one per row and column. distance: mean over the inputs of |V - S|_F to
    the nearest signed permutation S. cosine: mean absolute cosine between columns of J, which needs no SVD.
    per_input (n,): the distances.
    """

    score: float
    distance: float
    cosine: float
    per_input: Floats

    def __float__(self) -> float:
        return self.score


def orthogonality(jacobians: ArrayLike) -> Orthogonality:
    """How nearly the decoder's Jacobians (n, pixels, L) have orthogonal columns, which VAEs are drawn to.

    With J = U S V', columns of J are orthogonal when V is a signed permutation (Rolinek et al. 2019, on whose result
    both UDR and the score by training dynamics rest). Give the columns of informative latents only: those of dead ones
    are noise. V is not determined when singular values are equal; the cosine is.

    >>> turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> stretched = np.diag([2.0, 1.0])
    >>> float(orthogonality(stretched[None])), round(float(orthogonality((stretched @ turn)[None])), 6)
    (1.0, 0.8)
    """
    jacobian = np.asarray(jacobians, float)
    if jacobian.ndim != 3 or jacobian.shape[1] < jacobian.shape[2] or 0 in jacobian.shape:
        raise ValueError(f"jacobians must have shape (n, pixels, L) with pixels >= L; got {jacobian.shape}")
    if not np.isfinite(jacobian).all():
        raise ValueError("jacobians contain NaN or infinite values")
    latents = jacobian.shape[2]
    upper = np.linalg.qr(jacobian, mode="r")  # has the V of the Jacobian, and is small
    entries = np.abs(np.linalg.svd(upper)[2])
    matched = np.array([entry[linear_sum_assignment(-entry)].mean() for entry in entries])
    distance = np.sqrt(np.maximum(2 * latents * (1 - matched), 0.0))
    return Orthogonality(float(matched.mean()), float(distance.mean()), _cosine(jacobian), distance)


def _cosine(jacobian: Floats) -> float:
    latents = jacobian.shape[2]
    if latents == 1:
        return 0.0
    products = jacobian.transpose(0, 2, 1) @ jacobian
    norms = np.sqrt(np.einsum("nll->nl", products))
    scale = norms[:, :, None] * norms[:, None, :]
    cosines = np.abs(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0))
    return float(cosines[:, *np.triu_indices(latents, 1)].mean())


@dataclass(frozen=True, eq=False)
class Support:
    """`float()` is the distance, lower is better: 0 when every combination of values of two latents occurs.

    distance: mean over pairs of latents. pairs (L, L): of each pair, symmetric, 0 on the diagonal.
    """

    distance: float
    pairs: Floats

    def __float__(self) -> float:
        return self.distance


def factorised_support(codes: ArrayLike, *, grid: int = 20, tail: float = 0.02) -> Support:
    """Hausdorff distance from the product of the latents' ranges to the codes (n, L), by pairs of latents.

    Independent factors can be combined freely, so in a disentangled code every value of one latent goes with every
    value of another, even when the data correlate them (Roth et al. 2023, factorised support). For each pair this is
    the largest distance from a point of a grid of quantiles, without the outer `tail` at either end, to the nearest
    code, in standard deviations of the latents. Give informative latents only.

    >>> rng = np.random.default_rng(0)
    >>> free = rng.uniform(-1, 1, size=(2000, 2))
    >>> float(factorised_support(free)) < 0.3 < 1 < float(factorised_support(free @ [[1, 1], [0.2, -0.2]]))
    True
    """
    z = np.asarray(codes, float)
    if z.ndim != 2 or z.shape[1] < 1 or len(z) < 2:
        raise ValueError(f"codes must have shape (n, L) with at least 2 rows; got {z.shape}")
    if not np.isfinite(z).all():
        raise ValueError("codes contain NaN or infinite values")
    if grid < 2 or not 0 <= tail < 0.5:
        raise ValueError(f"grid must be at least 2 and tail from 0 to below 0.5; got {grid} and {tail}")
    scale = z.std(axis=0)
    z = (z - z.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    levels = np.quantile(z, np.linspace(tail, 1 - tail, grid), axis=0)
    latents = z.shape[1]
    pairs = np.zeros((latents, latents))
    for a in range(latents):
        for b in range(a):
            corners = np.stack(np.meshgrid(levels[:, a], levels[:, b]), axis=-1).reshape(-1, 2)
            nearest, _ = cKDTree(z[:, [a, b]]).query(corners)
            pairs[a, b] = pairs[b, a] = nearest.max()
    upper = pairs[np.triu_indices(latents, 1)]
    return Support(float(upper.mean()) if len(upper) else 0.0, pairs)


def active_units(codes: ArrayLike, threshold: float = 0.01) -> int:
    """Latents whose mean code varies over the inputs by more than this variance (Burda et al. 2016)."""
    return int((np.var(_two_dimensional(codes), axis=0) > threshold).sum())


def total_correlation(codes: ArrayLike) -> float:
    """Total correlation (n, L) -> nats if the codes were Gaussian: 1/2 (sum log C_ll - log det C). 0 when independent.

    Latents without variance are left out; infinite when one is a linear function of others. The same number as
    `karenina.metrics.gaussian_total_correlation`.
    """
    return dependence.total_correlation(_two_dimensional(codes))


def mean_pairwise_mi(codes: ArrayLike, bins: int = 20) -> float:
    """Mean mutual information (nats) between two latents, each cut into equal-width bins. Lower: less redundant.

    Latents without variance are left out. The same number as `karenina.metrics.mutual_information`.
    """
    return dependence.mean_over_pairs(dependence.pairwise_information(_two_dimensional(codes), bins))


def plain_scores(
    reconstruction: float,
    kl: ArrayLike,
    codes: ArrayLike,
    log_variances: ArrayLike | None = None,
    *,
    kl_threshold: float = ACTIVE_KL,
    seed: int | np.random.Generator = 0,
) -> dict[str, float]:
    """What people look at first. All are oriented as their names say; only `elbo` is better when higher.

    reconstruction: mean negative log-likelihood per input (nats). kl (L,): mean KL of each latent. codes (n, L): mean
    codes. log_variances (n, L): of the posterior; with them the total correlation of sampled codes comes too.
    """
    z = _two_dimensional(codes)
    per_latent = np.asarray(kl, float)
    if per_latent.shape != (z.shape[1],):
        raise ValueError(f"kl must have shape ({z.shape[1]},), one mean per latent; got {per_latent.shape}")
    scores = {
        "elbo": -(float(reconstruction) + float(per_latent.sum())),
        "reconstruction": float(reconstruction),
        "kl": float(per_latent.sum()),
        "informative": float((per_latent > kl_threshold).sum()),
        "active_units": float(active_units(z)),
        "total_correlation": total_correlation(z),
        "mutual_information": mean_pairwise_mi(z),
    }
    if log_variances is not None:
        spread = np.exp(0.5 * np.asarray(log_variances, float))
        if spread.shape != z.shape:
            raise ValueError(f"log_variances must have the shape of the codes, {z.shape}; got {spread.shape}")
        noise = np.random.default_rng(seed).normal(size=z.shape)
        scores["total_correlation_sampled"] = total_correlation(z + spread * noise)
    return scores


def _two_dimensional(codes: ArrayLike) -> Floats:
    z = np.asarray(codes, float)
    if z.ndim != 2 or len(z) < 2:
        raise ValueError(f"codes must have shape (n, L) with at least 2 rows; got {z.shape}")
    if not np.isfinite(z).all():
        raise ValueError("codes contain NaN or infinite values")
    return z
