"""Training: a data set, a method and a seed -> a run directory."""

from typing import TYPE_CHECKING

from karenina._plugins import extras, lazy_modules

with extras():
    import torch  # noqa: F401

from karenina.training.loop import Progress, TrainingDiverged
from karenina.training.methods import METHODS, Beside, Config, Method, defaults
from karenina.training.run import Run, open
from karenina.training.trainer import train, train_many

if TYPE_CHECKING:
    from karenina.training.estimator import DisentanglingVAE

__all__ = [
    "METHODS",
    "Beside",
    "Config",
    "DisentanglingVAE",
    "Method",
    "Progress",
    "Run",
    "TrainingDiverged",
    "defaults",
    "open",
    "train",
    "train_many",
]

# DisentanglingVAE is loaded on first use, because scikit-learn takes as long to import as torch.
__getattr__ = lazy_modules(__name__, {"DisentanglingVAE": "estimator"})
