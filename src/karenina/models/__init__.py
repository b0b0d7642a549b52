"""Networks and objectives."""

from karenina.models.networks import NETWORKS
from karenina.models.objectives import OBJECTIVES, Batch

__all__ = ["NETWORKS", "OBJECTIVES", "Batch"]
