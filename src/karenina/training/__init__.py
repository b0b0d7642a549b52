"""Training: a data set, a method and a seed -> a run directory."""

from karenina.training.config import METHODS, Config, defaults
from karenina.training.loop import Progress, TrainingDiverged
from karenina.training.run import Run, open
from karenina.training.train import train

__all__ = ["METHODS", "Config", "Progress", "Run", "TrainingDiverged", "defaults", "open", "train"]
