"""Medians of many runs of values, with intervals that cover."""

import numpy as np
from scipy.special import bdtr

from karenina.numerics.arrays import Floats, Ints


def medians(start: Ints, values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Median (R,) of each run values[start[i]:start[i + 1]] and an interval (R, 2) of the median that it estimates.

    The interval goes from the k-th smallest to the k-th largest value. It misses the true median only if fewer than k
    of the n values lie on one side of it, so it covers with probability 1 - 2 P(Binomial(n, 1/2) < k) or more, whatever
    the distribution; k is the largest for which that is at least `confidence`. NaN where not even the range of the
    values does: 95 % needs 6 of them. (Resampled medians stay within the range too, whatever they are said to cover.)

    >>> medians(np.array([0, 6, 9]), np.array([3.0, 1, 2, 6, 5, 4, 7, 9, 8]))[1].tolist()
    [[1.0, 6.0], [nan, nan]]
    """
    lengths = np.diff(start)
    found, bounds = np.full(len(lengths), np.nan), np.full((len(lengths), 2), np.nan)
    for n in np.unique(lengths[lengths > 0]):
        runs = np.flatnonzero(lengths == n)
        k = int((bdtr(np.arange(n // 2 + 1), n, 0.5) <= (1 - confidence) / 2).sum())  # P(Binomial(n, 1/2) <= 0, 1, ...)
        for part in np.array_split(runs, -(-len(runs) * int(n) // 10_000_000)):  # bounds the memory
            ordered = np.sort(values[start[part][:, None] + np.arange(n)], axis=1)
            found[part] = 0.5 * (ordered[:, (n - 1) // 2] + ordered[:, n // 2])
            if k > 0:
                bounds[part] = ordered[:, [k - 1, n - k]]
    return found, bounds


def least_for_interval(confidence: float = 0.95) -> int:
    """How many values an interval of this confidence needs.

    >>> least_for_interval(), least_for_interval(0.75)
    (6, 3)
    """
    return int(np.ceil(1 - np.log2(1 - confidence)))
