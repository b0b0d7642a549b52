"""Choose among trained models without labels, from arrays alone.

udr: by agreement of codes between seeds. dynamics: by agreement of training between seeds. alike: MCC, CKA and the
model in the middle. orthogonality, factorised_support, plain_scores: from one model alone. ACTIVE_KL: a latent counts
above this KL.
"""

from karenina._active import ACTIVE_KL
from karenina.selection._ranking import Ranking
from karenina.selection.alike import Likeness, alike
from karenina.selection.dynamics import Dynamics, dynamics, joint_embedding
from karenina.selection.single import (
    Orthogonality,
    Support,
    active_units,
    factorised_support,
    mean_pairwise_mi,
    orthogonality,
    plain_scores,
    total_correlation,
)
from karenina.selection.udr import similarity_matrix, udr

__all__ = [
    "ACTIVE_KL",
    "Dynamics",
    "Likeness",
    "Orthogonality",
    "Ranking",
    "Support",
    "active_units",
    "alike",
    "dynamics",
    "factorised_support",
    "joint_embedding",
    "mean_pairwise_mi",
    "orthogonality",
    "plain_scores",
    "similarity_matrix",
    "total_correlation",
    "udr",
]
