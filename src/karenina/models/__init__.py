"""Networks and objectives."""

from karenina.models.networks import NETWORKS
from karenina.models.objectives import Batch

__all__ = ["NETWORKS", "Batch"]
