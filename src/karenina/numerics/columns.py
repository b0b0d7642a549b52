"""Columns of an array on a common scale, and which of their values differ by more than rounding."""

import numpy as np
from numpy.typing import NDArray


def standardised(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns with mean 0 and standard deviation 1; constant columns become 0."""
    width = columns.max(axis=0) - columns.min(axis=0)
    unit = columns / np.where(width > 0, width, 1.0)  # so that tiny and huge columns do not under- or overflow
    centred = unit - unit.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.where(width > 0, centred / np.where(width > 0, deviation, 1.0), 0.0)


def scale_of(columns: NDArray[np.float64], kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Offset and unit of each column for kind "standard" (mean, deviation) or "range" (minimum, range)."""
    low = columns.min(axis=0)
    width = columns.max(axis=0) - low
    if kind == "range":
        return low, np.where(width > 0, width, 1.0)
    unit = np.where(width > 0, width, 1.0)
    offset = columns.mean(axis=0)
    return offset, np.where(width > 0, ((columns - offset) / unit).std(axis=0) * unit, 1.0)


def range_unit(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """What to divide a column (n,) or columns (n, d) by before they are squared: a power of two each, mostly 1."""
    largest = np.abs(columns).max(axis=0)
    far = (largest > 1e100) | ((largest < 1e-100) & (largest > 0))
    return np.where(far, np.exp2(np.floor(np.log2(np.where(far, largest, 1.0)))), 1.0)


def distinct(ordered: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it by more than rounding, in rising rows: (d, n) -> (d, n - 1).

    Rounding is 1e-7 of the interquartile range, what single precision leaves of a code of size 1 (scikit-learn's trees
    read codes so), and never less than 1e-14 of the range: the cosines of 90 and of 270 degrees are equal. It moves
    with the scale of a code and not with its outliers.
    """
    n = ordered.shape[1]
    middle = 1e-7 * ordered[:, n - 1 - n // 4] - 1e-7 * ordered[:, n // 4]
    ends = 1e-14 * ordered[:, -1] - 1e-14 * ordered[:, 0]
    return ordered[:, 1:] - ordered[:, :-1] > np.maximum(middle, ends)[:, None]
