"""Training: a data set, a method and a seed -> a run directory."""

from karenina.training.config import Config
from karenina.training.estimator import DisentanglingVAE
from karenina.training.loop import Progress, TrainingDiverged
from karenina.training.many import train_many
from karenina.training.methods import METHODS, Beside, Method, defaults
from karenina.training.population import PopulationProgress
from karenina.training.run import Run, open
from karenina.training.single import train

__all__ = [
    "METHODS",
    "Beside",
    "Config",
    "DisentanglingVAE",
    "Method",
    "PopulationProgress",
    "Progress",
    "Run",
    "TrainingDiverged",
    "defaults",
    "open",
    "train",
    "train_many",
]
