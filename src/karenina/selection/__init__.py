"""Choose among trained models without labels, from arrays alone.

consensus: by the factors that models agree on. udr: by agreement of codes between models. dynamics: by seed-to-seed
stability of training. alike: MCC, CKA and the medoid. pipe_score, model_centrality: from pictures that models
generate. orthogonality, factorised_support, plain_scores: from one model alone. ACTIVE_KL: a latent is active above
it.
"""

from karenina._active import ACTIVE_KL
from karenina.selection._consensus import Consensus, consensus, non_gaussianity
from karenina.selection._dynamics import Dynamics, dynamics, joint_embedding
from karenina.selection._generated import (
    Orthogonality,
    factorised_codes,
    fixed_latent_score,
    model_centrality,
    orthogonality,
    pipe_score,
)
from karenina.selection._one_model import (
    Support,
    active_units,
    factorised_support,
    mean_pairwise_mi,
    plain_scores,
    total_correlation,
)
from karenina.selection._udr import Likeness, Preset, Ranking, Workers, alike, similarity_matrix, udr

__all__ = [
    "ACTIVE_KL",
    "Consensus",
    "Dynamics",
    "Likeness",
    "Orthogonality",
    "Preset",
    "Ranking",
    "Support",
    "Workers",
    "active_units",
    "alike",
    "consensus",
    "dynamics",
    "factorised_codes",
    "factorised_support",
    "fixed_latent_score",
    "joint_embedding",
    "mean_pairwise_mi",
    "model_centrality",
    "non_gaussianity",
    "orthogonality",
    "pipe_score",
    "plain_scores",
    "similarity_matrix",
    "total_correlation",
    "udr",
]
