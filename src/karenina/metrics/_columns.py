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


def scale_of(columns: NDArray[np.float64], kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Offset and unit of each column for kind "standard" (mean, deviation) or "range" (minimum, range)."""
    low = columns.min(axis=0)
    spread = columns.max(axis=0) - low
    if kind == "range":
        return low, np.where(spread > 0, spread, 1.0)
    unit = np.where(spread > 0, spread, 1.0)
    offset = columns.mean(axis=0)
    return offset, np.where(spread > 0, ((columns - offset) / unit).std(axis=0) * unit, 1.0)
