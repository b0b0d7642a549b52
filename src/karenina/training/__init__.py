"""Training: a data set, a method and a seed -> a run directory."""

from typing import TYPE_CHECKING, Any

from karenina._plugins import extras

with extras():
    import torch  # noqa: F401

from karenina.training.config import Config
from karenina.training.loop import Progress, TrainingDiverged
from karenina.training.methods import METHODS, Beside, Method, defaults
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


def __getattr__(name: str) -> Any:
    if name == "DisentanglingVAE":  # loaded on first use: scikit-learn takes as long to import as torch
        from karenina.training.estimator import DisentanglingVAE

        return DisentanglingVAE
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
