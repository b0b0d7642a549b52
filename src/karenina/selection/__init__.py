"""Choose among trained models without labels, from arrays alone.

udr: by agreement of codes between models. dynamics: by seed-to-seed stability of training. alike: MCC, CKA and the
medoid. pipe_score, model_centrality: from pictures that models generate. orthogonality, factorised_support,
plain_scores: from one model alone. ACTIVE_KL: a latent is active above it.
"""

from karenina._active import ACTIVE_KL
from karenina.selection._alike import Likeness, alike
from karenina.selection._dynamics import Dynamics, dynamics, joint_embedding
from karenina.selection._generated import factorised_codes, fixed_latent_score, model_centrality, pipe_score
from karenina.selection._ranking import Ranking
from karenina.selection._single import (
    Orthogonality,
    Support,
    active_units,
    factorised_support,
    mean_pairwise_mi,
    orthogonality,
    plain_scores,
    total_correlation,
)
from karenina.selection._tiles import Workers
from karenina.selection._udr import Preset, similarity_matrix, udr

__all__ = [
    "ACTIVE_KL",
    "Dynamics",
    "Likeness",
    "Orthogonality",
    "Preset",
    "Ranking",
    "Support",
    "Workers",
    "active_units",
    "alike",
    "dynamics",
    "factorised_codes",
    "factorised_support",
    "fixed_latent_score",
    "joint_embedding",
    "mean_pairwise_mi",
    "model_centrality",
    "orthogonality",
    "pipe_score",
    "plain_scores",
    "similarity_matrix",
    "total_correlation",
    "udr",
]
