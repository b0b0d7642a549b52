"""What each vision model of the clustering study is worth: scores on images of single sprites, beside agents' steps."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.gaussian import kl_per_latent
from karenina.studies.clustering.plan import Plan
from karenina.studies.clustering.results import METRICS, SCORES

Floats = NDArray[np.floating[Any]]


def complete(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows have all scores: those of an earlier release may lack some."""
    return all({*SCORES, "agents"} <= set(row) for row in rows)


def rows(
    plan: Plan,
    mean: Floats,
    logvar: Floats,
    factors: NDArray[np.int64],
    traces: Floats,
    agents: Mapping[int, tuple[Sequence[int], Sequence[bool]]],
) -> list[dict[str, Any]]:
    """One per vision model with agents; arguments as `Study.seen` and `Study.done_agents` give them.

    UDR_S is among models of one beta (Duan et al. 2020, A.8). The dynamics score (Holtz et al. 2022) is of a setting; a
    model's part in it is its mean distance to the other seeds.
    """
    from karenina.metrics import score
    from karenina.selection import dynamics, udr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of half-dead latents and models without partners
        kl = [kl_per_latent(*one) for one in zip(mean, logvar)]
        ranking = udr(mean, kl, plan.strengths, similarity="spearman")
        distance = np.full(len(mean), np.nan)
        if plan.seeds > 1:
            stable = dynamics(list(traces), plan.strengths)
            for beta, pairs in zip(stable.groups, stable.pairwise):
                distance[[strength == beta for strength in plan.strengths]] = pairs.sum(1) / (len(pairs) - 1)
        found = []
        for i in sorted(agents):
            table = score(mean[i], factors, metrics=list(METRICS.values()), seed=0)
            steps, censored = agents[i]
            found.append(
                {
                    "model": i,
                    "beta": plan.strengths[i],
                    "seed": i % plan.seeds,
                    "steps": float(np.mean(steps)),
                    "censored": int(np.sum(censored)),
                    "agents": list(steps),
                    "udr_spearman": known(ranking.scores[i]),
                    "informative": int(ranking.informative[i]),
                    "dynamics": known(-distance[i]),
                    **{name: known(table[metric].value) for name, metric in METRICS.items()},
                }
            )
    return found


def known(value: float) -> float | None:
    """None for NaN, which JSON does not have."""
    return None if np.isnan(value) else float(value)
