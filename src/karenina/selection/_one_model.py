"""Scores of one model from its codes and losses: they need neither labels nor a second seed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from karenina._active import ACTIVE_KL
from karenina.numerics.arrays import Floats
from karenina.numerics.checks import as_matrix
from karenina.numerics.columns import range_unit
from karenina.numerics.gaussian import total_correlation as gaussian_total_correlation
from karenina.numerics.histograms import mean_over_pairs, pairwise_information


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
    """Return the Hausdorff distance from the product of the latents' ranges to the codes, by pairs of latents.

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
    """Return how many latents have a mean code of more than this variance over the inputs (Burda et al. 2016)."""
    return int((np.var(as_matrix(codes, "codes", least=2), axis=0) > threshold).sum())


def total_correlation(codes: ArrayLike) -> float:
    """Return the total correlation of codes (n, L) in nats if they were Gaussian: see `karenina.numerics.gaussian`."""
    return gaussian_total_correlation(as_matrix(codes, "codes", least=2))


def mean_pairwise_mi(codes: ArrayLike, bins: int = 20) -> float:
    """Return the mean mutual information in nats of two codes of (n, L), in equal-width bins; lower is better."""
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
    """Return the scores that people look at first, by name.

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
