"""Selection criteria of one model: they need neither labels nor a second seed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from karenina._active import ACTIVE_KL
from karenina.numerics.arrays import Floats, range_unit
from karenina.numerics.checks import as_matrix
from karenina.numerics.gaussian import total_correlation as gaussian_total_correlation
from karenina.numerics.histograms import mean_over_pairs, pairwise_information


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
    """How nearly the columns of the decoder's Jacobians are orthogonal, which VAEs are drawn to.

    With J = U S V', columns of J are orthogonal when V is a signed permutation (Rolinek et al. 2019, on whose result
    both UDR and the dynamics score rest). V is not determined when singular values are equal; the cosine is.

    Parameters
    ----------
    jacobians : (n, pixels, L)
        Of active latents only: the columns of inactive ones are noise.

    Examples
    --------
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
    """Hausdorff distance from the product of the latents' ranges to the codes, by pairs of latents.

    Independent factors can be combined freely, so in a disentangled code every value of one latent goes with every
    value of another, even when the data correlate them (Roth et al. 2023, factorised support). For each pair this is
    the largest distance from a point of a grid of quantiles to the nearest code, in standard deviations of the latents.

    Parameters
    ----------
    codes : (n, L)
        Of active latents only.
    grid : int
        Quantiles per latent.
    tail : float
        Share of the rows that is left out at either end.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> free = rng.uniform(-1, 1, size=(2000, 2))
    >>> float(factorised_support(free)) < 0.3 < 1 < float(factorised_support(free @ [[1, 1], [0.2, -0.2]]))
    True
    """
    z = as_matrix(codes, "codes", least=2)
    z /= range_unit(z)
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
    return int((np.var(as_matrix(codes, "codes", least=2), axis=0) > threshold).sum())


def total_correlation(codes: ArrayLike) -> float:
    """Total correlation of codes (n, L) in nats if they were Gaussian: see `karenina.numerics.gaussian`."""
    return gaussian_total_correlation(as_matrix(codes, "codes", least=2))


def mean_pairwise_mi(codes: ArrayLike, bins: int = 20) -> float:
    """Mean mutual information in nats between two codes of (n, L), each cut into equal-width bins; lower is better."""
    return mean_over_pairs(pairwise_information(as_matrix(codes, "codes", least=2), bins))


def plain_scores(
    reconstruction: float,
    kl: ArrayLike,
    codes: ArrayLike,
    log_variances: ArrayLike | None = None,
    *,
    kl_threshold: float = ACTIVE_KL,
    seed: int | np.random.Generator = 0,
) -> dict[str, float]:
    """What people look at first.

    `elbo` is better when higher, the others when lower; `informative` and `active_units` are counts and neither.

    Parameters
    ----------
    reconstruction : float
        Mean negative log-likelihood per input, in nats.
    kl : (L,)
        Mean KL of each latent.
    codes : (n, L)
        Mean codes.
    log_variances : (n, L)
        Of the posterior; with them the total correlation of sampled codes comes too.
    kl_threshold : float
    seed : int or Generator

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(500, 2))
    >>> scores = plain_scores(10.0, [1.0, 0.001], z)
    >>> scores["elbo"], scores["informative"], scores["active_units"]
    (-11.001, 1.0, 2.0)
    """
    z = as_matrix(codes, "codes", least=2)
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
        deviation = np.exp(0.5 * np.asarray(log_variances, float))
        if deviation.shape != z.shape:
            raise ValueError(f"log_variances must have the shape of the codes, {z.shape}; got {deviation.shape}")
        noise = np.random.default_rng(seed).normal(size=z.shape)
        scores["total_correlation_sampled"] = total_correlation(z + deviation * noise)
    return scores
