"""Metrics as users write them; an audit must survive each."""

import numpy as np


def best_correlation(codes, factors):
    """High when each factor has a code that goes with it."""
    both = np.corrcoef(codes.T, factors.T)[: codes.shape[1], codes.shape[1] :]
    return np.nanmax(np.abs(both), axis=0).mean()


best_correlation.property = "explicitness"


def raises(codes, factors):
    raise RuntimeError("not on a Monday")


def sometimes(codes, factors):
    if codes.std() < 0.1:
        raise ValueError("codes hardly move")
    return 1.0


def not_a_number(codes, factors):
    return float("nan")


def a_word(codes, factors):
    return "high"


def parts(codes, factors, seed, continuous):
    return {"modularity": 0.5 + 0.01 * (seed % 2), "compactness": float(continuous)}


class Result:
    value = 0.25


def an_object(codes, factors):
    codes[:] = 0  # rude
    factors[:] = 0
    return Result()


def with_bins(codes, factors, bins=10):
    return 1.0


not_a_function = 3
