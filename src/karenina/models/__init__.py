"""Networks and objectives."""

from karenina._plugins import extras

with extras():
    import torch  # noqa: F401

from karenina.models.networks import NETWORKS
from karenina.models.objectives import Batch

__all__ = ["NETWORKS", "Batch"]
