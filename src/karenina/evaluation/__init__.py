"""Trained runs: their data set, their scores, and their ranking."""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
