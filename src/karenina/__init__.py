"""Karenina trains representations meant to be disentangled, measures whether they are, and chooses the best of many.

>>> import karenina
>>> data = karenina.load("blobs")
>>> data.factor_names
('background', 'x', 'y', 'radius')
"""

import importlib
from typing import TYPE_CHECKING, Any

from karenina._version import __version__

if TYPE_CHECKING:
    from karenina.data import load
    from karenina.selection import dynamics, udr
    from karenina.studies.evaluate import score
    from karenina.studies.table import results
    from karenina.training.estimator import DisentanglingVAE
    from karenina.training.run import open
    from karenina.training.train import train

# Where each public name lives. Loaded on first use, so that `import karenina` is instant and the
# metrics never pull in torch.
_HOMES = {
    "DisentanglingVAE": "karenina.training",
    "dynamics": "karenina.selection",
    "load": "karenina.data",
    "open": "karenina.training",
    "results": "karenina.studies",
    "score": "karenina.studies.evaluate",
    "train": "karenina.training",
    "udr": "karenina.selection",
}
_MODULES = ("audit", "data", "metrics", "models", "selection", "studies", "tasks", "theory", "training")

__all__ = ["DisentanglingVAE", "__version__", "dynamics", "load", "open", "results", "score", "train", "udr"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"karenina.{name}")
    raise AttributeError(f"module 'karenina' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
