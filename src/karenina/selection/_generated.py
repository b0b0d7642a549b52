"""Scores that need a decoder: PIPE and model centrality, from generated pictures; orthogonality of its Jacobians.

What decodes, and the discriminator of PIPE, are in karenina.training; here is what works on arrays.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from karenina.numerics.arrays import Floats
from karenina.numerics.checks import as_matrix, one_of, positive_integer

Factorised = Literal["uniform", "permuted"]


def factorised_codes(
    codes: ArrayLike, n: int, how: Factorised = "uniform", *, seed: int | np.random.Generator = 0
) -> Floats:
    """Draw codes (n, L) whose latents are independent, each distributed as in given mean codes (m, L).

    PIPE compares pictures of such codes with reconstructions (Estermann and Wattenhofer 2023): where the latents of a
    model depend on each other, some of these combinations never occur, and their pictures look wrong.

    Parameters
    ----------
    codes : (m, L)
    n : int
    how : {"uniform", "permuted"}
        Uniform on the range of each latent, the default of the release, or its own values in random order.
    seed : int or Generator

    Examples
    --------
    >>> drawn = factorised_codes([[0.0, 5.0], [1.0, 9.0]], 100)
    >>> drawn.min(axis=0).round(1), drawn.max(axis=0).round(1)
    (array([0., 5.]), array([1., 9.]))
    """
    one_of("how", how, get_args(Factorised))
    z = as_matrix(codes, "codes", least=2)
    n = positive_integer(n, "n")
    rng = np.random.default_rng(seed)
    if how == "uniform":
        low, high = z.min(axis=0), z.max(axis=0)
        drawn: Floats = low + (high - low) * rng.random((n, z.shape[1]))
        return drawn
    return np.stack([rng.permutation(np.resize(rng.permutation(column), n)) for column in z.T], axis=1)


def pipe_score(accuracy: float) -> float:
    """Return PIPE, 2 (1 - accuracy) of a discriminator on held-out pictures: from 0 to 1, higher is better.

    Estermann and Wattenhofer (2023). Accuracy below chance counts as chance, so that the score is at most 1; the
    release does not cut it off.

    >>> pipe_score(0.5), pipe_score(1.0), pipe_score(0.45)  # below chance is chance
    (1.0, 0.0, 1.0)
    """
    if not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy must lie between 0 and 1, got {accuracy}")
    return min(1.0, 2 * (1 - float(accuracy)))


def fixed_latent_score(codes: ArrayLike, fixed: ArrayLike, scale: ArrayLike) -> float:
    """Return how well one model's codes tell which latent of another was fixed: the FactorVAE score between models.

    In each batch one latent of a generating model has one value. The code of least variance, in units of its variance
    overall, votes for it; every second batch of a latent decides which one a code stands for, the others are predicted.
    Kim and Mnih (2018), algorithm 1, with the other model's latents for factors, as Lin et al. (2020) released it: with
    100 pictures to a batch and 100 batches to a latent, and all latents of a model, active or not.

    Parameters
    ----------
    codes : (batches, m, L)
        Codes of the pictures of each batch.
    fixed : (batches,)
        Which latent of the generating model was fixed.
    scale : (L,)
        Standard deviation of each code over all pictures; codes with 0 and constant codes do not vote.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fixed = np.arange(40) // 2 % 4
    >>> z = rng.normal(size=(40, 16, 4))
    >>> z[np.arange(40), :, fixed] = rng.normal(size=(40, 1))
    >>> fixed_latent_score(z, fixed, np.ones(4)), fixed_latent_score(rng.normal(size=z.shape), fixed, np.ones(4)) < 0.7
    (1.0, True)
    """
    z, latent, unit = np.asarray(codes, float), np.asarray(fixed), np.asarray(scale, float)
    if z.ndim != 3 or latent.shape != z.shape[:1] or unit.shape != z.shape[2:] or len(z) < 2:
        raise ValueError(
            f"expected codes (batches, m, L), fixed (batches,) and scale (L,) with 2 batches or more, "
            f"got {z.shape}, {latent.shape} and {unit.shape}"
        )
    if not (np.isfinite(z).all() and np.isfinite(unit).all()):
        raise ValueError("codes and scale must be finite")
    moves = (unit > 0) & (np.ptp(z, axis=(0, 1)) != 0)  # by rounding, a constant code may have a standard deviation
    if not moves.any():
        return 0.0
    relative = z.var(axis=1) / np.where(moves, unit**2, np.nan)
    votes = np.where(np.isnan(relative), np.inf, relative).argmin(axis=1)
    numbers, target = np.unique(latent, return_inverse=True)
    order = np.argsort(target, kind="stable")  # by latent, so that either half has batches of each
    learn, test = order[0::2], order[1::2]
    count = np.zeros((z.shape[2], len(numbers)))
    np.add.at(count, (votes[learn], target[learn]), 1)
    return float((count.argmax(axis=1)[votes[test]] == target[test]).mean())


def model_centrality(similarity: ArrayLike) -> Floats:
    """Return the centrality (M,) of M models: the mean over the others of (B_ij + B_ji) / 2. Lin et al. (2020).

    Parameters
    ----------
    similarity : (M, M)
        B_ij: how well model j tells the latents of model i, as `fixed_latent_score` has it. The diagonal is not read;
        NaN where two models were not compared, which leaves the mean of the other values.

    Examples
    --------
    >>> model_centrality([[1, 0.9, 0.2], [0.7, 1, 0.4], [0.2, 0.2, 1]])
    array([0.5 , 0.55, 0.25])
    """
    b = np.asarray(similarity, float)
    if b.ndim != 2 or b.shape[0] != b.shape[1] or len(b) < 2:
        raise ValueError(f"similarity must have shape (M, M) with two models or more, got {b.shape}")
    both = np.hstack([b, b.T])
    compared = np.isfinite(both) & ~np.tile(np.eye(len(b), dtype=bool), 2)
    if not compared.any(axis=1).all():
        raise ValueError(f"model {compared.any(axis=1).argmin()} was compared with no other")
    central: Floats = np.where(compared, both, 0.0).sum(axis=1) / compared.sum(axis=1)
    return central


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
    """Return how nearly the columns of the decoder's Jacobians are orthogonal, which VAEs are drawn to.

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
    """Return the mean absolute cosine between columns of Jacobians (n, pixels, L)."""
    latents = jacobian.shape[2]
    if latents == 1:
        return 0.0
    products = jacobian.transpose(0, 2, 1) @ jacobian
    norms = np.sqrt(np.einsum("nll->nl", products))
    scale = norms[:, :, None] * norms[:, None, :]
    cosines = np.abs(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0))
    return float(cosines[:, *np.triu_indices(latents, 1)].mean())
