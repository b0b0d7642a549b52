"""Columns brought to a common scale."""

import numpy as np
from numpy.typing import NDArray


def standardised(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns with mean 0 and standard deviation 1; constant columns become 0."""
    spread = columns.max(axis=0) - columns.min(axis=0)
    unit = columns / np.where(spread > 0, spread, 1.0)  # so that tiny and huge columns do not under- or overflow
    centred = unit - unit.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.where(spread > 0, centred / np.where(spread > 0, deviation, 1.0), 0.0)


def to_unit_range(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns from 0 to 1; constant columns become 0."""
    low = columns.min(axis=0)
    spread = columns.max(axis=0) - low
    return (columns - low) / np.where(spread > 0, spread, 1.0)
