"""Trained runs: their data set, their scores, and their ranking."""
