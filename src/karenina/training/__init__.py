"""Training: a data set, a method and a seed -> a run directory."""

from karenina.training.config import METHODS, Config, defaults
from karenina.training.estimator import DisentanglingVAE
from karenina.training.loop import Progress, TrainingDiverged
from karenina.training.run import Run, open
from karenina.training.train import train

__all__ = ["METHODS", "Config", "DisentanglingVAE", "Progress", "Run", "TrainingDiverged", "defaults", "open", "train"]
