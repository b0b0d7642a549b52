"""Columns on a common scale: standardised, in units of their range, as ranks; and which values differ by more than
rounding.
"""

from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.compile import njit

_ROUNDING = 10 * np.finfo(np.float64).eps
# Bits that one pass of the radix sort looks at.
_DIGIT = 11


def standardised(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns with mean 0 and standard deviation 1; constant columns become 0."""
    width = columns.max(axis=0) - columns.min(axis=0)
    unit = columns / np.where(width > 0, width, 1.0)  # so that tiny and huge columns do not under- or overflow
    centred = unit - unit.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.where(width > 0, centred / np.where(width > 0, deviation, 1.0), 0.0)


def scale_of(columns: NDArray[np.float64], kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return offset and unit of each column for kind "standard" (mean, deviation) or "range" (minimum, range)."""
    low = columns.min(axis=0)
    width = columns.max(axis=0) - low
    if kind == "range":
        return low, np.where(width > 0, width, 1.0)
    unit = np.where(width > 0, width, 1.0)
    offset = columns.mean(axis=0)
    return offset, np.where(width > 0, ((columns - offset) / unit).std(axis=0) * unit, 1.0)


def range_unit(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what to divide a column (n,) or columns (n, d) by before squaring: a power of two each, mostly 1."""
    largest = np.abs(columns).max(axis=0)
    far = (largest > 1e100) | ((largest < 1e-100) & (largest > 0))
    return np.where(far, np.exp2(np.floor(np.log2(np.where(far, largest, 1.0)))), 1.0)


def distinct(ordered: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each value differs from the one before it by more than rounding, in rising rows: (d, n) -> (d, n -
    1).

    Rounding is 1e-7 of the interquartile range, what single precision leaves of a code of size 1 (scikit-learn's trees
    read codes so), and never less than 1e-14 of the range: the cosines of 90 and of 270 degrees are equal. It moves
    with the scale of a code and not with its outliers.
    """
    n = ordered.shape[1]
    middle = 1e-7 * ordered[:, n - 1 - n // 4] - 1e-7 * ordered[:, n // 4]
    ends = 1e-14 * ordered[:, -1] - 1e-14 * ordered[:, 0]
    return ordered[:, 1:] - ordered[:, :-1] > np.maximum(middle, ends)[:, None]


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def standardise(values: Floats, out: Floats, scale: Floats) -> None:
    """Write the columns of `values` (n, K) with mean 0 and variance 1 into the rows of `out` (K, n); 0 if constant."""
    n, columns = values.shape
    row = np.empty(n)
    for k in range(columns):
        # Sums of differences from a value of the column itself do not cancel when the mean is large.
        first = np.float64(values[0, k])
        total, square = 0.0, 0.0
        for i in range(n):
            difference = values[i, k] - first
            row[i] = difference
            total += difference
            square += difference * difference
        mean = total / n
        scale[k] = sqrt(max(square / n - mean * mean, 0.0))
        if scale[k] <= _ROUNDING * abs(first + mean):
            scale[k] = 0.0
        inverse = 1.0 / scale[k] if scale[k] > 0.0 else 0.0
        for i in range(n):
            out[k, i] = (row[i] - mean) * inverse


@njit(cache=True)
def standardised_ranks(patterns: NDArray[np.uint64], bits: int, out: Floats, scale: Floats) -> None:
    """Write the standardised average ranks of columns of floats, given as their bit patterns (n, K), into `out` (K, n).

    Radix sort: linear in n, and on 10,000 float32 four times as fast as a comparing sort.
    """
    n, columns = patterns.shape
    passes = ceil(bits / _DIGIT)
    low = np.uint64((1 << _DIGIT) - 1)
    sign = np.uint64(1) << np.uint64(bits - 1)
    flip = sign | (sign - np.uint64(1))
    keys, spare_keys = np.empty(n, np.uint64), np.empty(n, np.uint64)
    order, spare_order = np.empty(n, np.int32), np.empty(n, np.int32)
    count = np.empty((passes, (1 << _DIGIT) + 1), np.int32)
    for column in range(columns):
        for digit in range(passes):
            for b in range((1 << _DIGIT) + 1):
                count[digit, b] = 0
        for i in range(n):
            key = np.uint64(patterns[i, column])
            if key == sign:  # -0 equals 0
                key = np.uint64(0)
            # Patterns of positive floats are in the order of the floats, those of negative ones in the reverse.
            key = key ^ flip if key & sign else key | sign
            keys[i] = key
            order[i] = i
            for digit in range(passes):
                count[digit, ((key >> np.uint64(digit * _DIGIT)) & low) + np.uint64(1)] += 1
        for digit in range(passes):
            place = count[digit]
            for b in range(1 << _DIGIT):
                place[b + 1] += place[b]
            shift = np.uint64(digit * _DIGIT)
            for i in range(n):
                b = (keys[i] >> shift) & low
                spare_keys[place[b]] = keys[i]
                spare_order[place[b]] = order[i]
                place[b] += 1
            keys, spare_keys = spare_keys, keys
            order, spare_order = spare_order, order
        start = 0
        square = 0.0
        while start < n:
            stop = start + 1
            while stop < n and keys[stop] == keys[start]:
                stop += 1
            rank = 0.5 * (start + stop - n)
            square += rank * rank * (stop - start)
            for i in range(start, stop):
                out[column, order[i]] = rank
            start = stop
        scale[column] = sqrt(square / n)
        if square > 0.0:
            for i in range(n):
                out[column, i] /= scale[column]
