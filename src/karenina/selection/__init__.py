"""Choose among trained models without labels, from arrays alone."""

from karenina.selection._ranking import Ranking
from karenina.selection.udr import similarity_matrix, udr

__all__ = ["Ranking", "similarity_matrix", "udr"]
