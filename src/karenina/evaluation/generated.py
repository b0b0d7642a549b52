"""Selection from pictures that runs generate: model centrality and PIPE."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from karenina.training import Run

BATCH = 16  # pictures of a vote
VOTES = 20  # of each active latent
PICTURES = 2_000  # of either kind, for PIPE
PARTNERS = 50  # others that a run is compared with, if there are more


def centrality(runs: "Sequence[Run]", active: Sequence[NDArray[np.bool_]], seed: int = 0) -> NDArray[np.float64]:
    """Model centrality of each run (Lin et al. 2020); NaN for runs without an active latent.

    Each run decodes codes from the prior with one active latent fixed per batch; all others encode the pictures. Among
    more than 51 runs, each has 50 of the others as partners, at random: half encode its pictures, and half the other
    way round.
    """
    from karenina.selection import fixed_latent_score, model_centrality

    able = [i for i, latents in enumerate(active) if latents.any()]
    scores = np.full(len(runs), np.nan)
    if len(runs) < 2:
        raise ValueError("centrality compares runs with each other: give two or more")
    if len(able) < 2:
        return scores
    similarity = np.full((len(able), len(able)), np.nan)
    order = np.random.default_rng(seed).permutation(len(able))
    for place, row in enumerate(order):
        i = able[row]
        pictures, fixed = _with_a_latent_fixed(runs[i], active[i], np.random.default_rng([seed, i]))
        for column in _partners(order, place):
            j = able[column]
            codes = runs[j].encode(pictures)[0][:, active[j]]
            batches = codes.reshape(len(fixed), BATCH, -1)
            similarity[row, column] = fixed_latent_score(batches, fixed, codes.std(axis=0))
    scores[able] = model_centrality(similarity)
    return scores


def _partners(order: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    """Who encodes the pictures of the run at this place: all others, or those at the next places of a circle."""
    others = np.roll(order, -place)[1:]
    return others if len(others) <= PARTNERS else others[: PARTNERS // 2]


def _with_a_latent_fixed(
    run: "Run", active: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    fixed = np.tile(np.repeat(np.flatnonzero(active), 2), VOTES // 2)
    codes = rng.standard_normal((len(fixed), BATCH, run.latents))
    codes[np.arange(len(fixed)), :, fixed] = rng.standard_normal((len(fixed), 1))
    return run.decode(codes.reshape(-1, run.latents)), fixed


def pipe(run: "Run", codes: NDArray[np.float32], seed: int = 0) -> float:
    """PIPE of a run from mean codes (n, L) of its data (Estermann and Wattenhofer 2023): 1 is best."""
    from karenina.selection import factorised_codes, pipe_score
    from karenina.training.pipe import discriminator_accuracy

    own = codes[:PICTURES]
    other = factorised_codes(codes, len(own), seed=seed)
    return pipe_score(discriminator_accuracy(run.decode(own), run.decode(other), seed=seed))
