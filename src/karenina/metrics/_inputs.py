"""What every metric does first: check its two arrays, and say clearly what is wrong with them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.checks import as_matrix, flags
from karenina.numerics.columns import ranks, varying


@dataclass(frozen=True)
class Inputs:
    """Checked codes and factors. Constant codes stay (they are dead); constant factors are gone.

    codes: (n, d) float64. factors: (n, k) float64. continuous: (k,) bool. live: (d,) bool, codes that vary.
    kept: (k,) positions of the remaining factors among those given. names: (k,) their names. given: how many
    factors were given.
    """

    codes: NDArray[np.float64]
    factors: NDArray[np.float64]
    continuous: NDArray[np.bool_]
    live: NDArray[np.bool_]
    kept: NDArray[np.int64]
    names: tuple[str, ...]
    given: int

    @property
    def labels(self) -> NDArray[np.int64]:
        """The discrete factors as labels 0..size-1, continuous ones as -1: (n, k), the caller's own copy."""
        return self._labels.copy(order="K")

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        columns = np.ascontiguousarray(self.factors.T)  # most work is per column, and much faster on contiguous ones
        labels = np.full(columns.shape, -1, np.int64)
        for j in np.flatnonzero(~self.continuous):
            labels[j] = ranks(columns[j])
        return labels.T

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put values with one row per remaining factor back among the factors given; NaN for the dropped ones."""
        full = np.full((self.given, *values.shape[1:]), np.nan)
        full[self.kept] = values
        return full


def check(
    codes: ArrayLike,
    factors: ArrayLike,
    continuous: bool | Sequence[bool] | None = None,
    names: Sequence[str] | None = None,
    *,
    least: int = 2,
) -> Inputs:
    """Check (codes, factors) and decide which factors are continuous.

    `continuous`: one bool, or one per factor. None: a factor of an integer array, or of integers, is discrete;
    any other float factor is continuous.
    """
    z = as_matrix(codes, "codes")
    v = as_matrix(factors, "factors")
    if len(z) != len(v):
        raise ValueError(f"codes has {len(z)} rows (shape {z.shape}) and factors {len(v)} (shape {v.shape})")
    if len(z) < least:
        raise ValueError(f"codes and factors have {len(z)} rows, at least {least} are needed")
    k = v.shape[1]
    whole = np.asarray(factors).dtype.kind in "biu"
    default = np.array([not whole and bool((column != np.round(column)).any()) for column in v.T])
    declared = flags(continuous, default, "continuous")
    labels = tuple(names) if names is not None else tuple(f"factor {j}" for j in range(k))
    if len(labels) != k:
        raise ValueError(f"{len(labels)} factor names for {k} factors: {labels}")
    varies = varying(v)
    if not varies.any():
        raise ValueError(f"every factor is constant (factors has shape {v.shape}), so nothing can be measured")
    if not varies.all():
        gone = ", ".join(labels[j] for j in np.flatnonzero(~varies))
        warnings.warn(f"dropped constant factors: {gone}", stacklevel=3)
    kept = np.flatnonzero(varies)
    return Inputs(
        codes=z,
        factors=v if varies.all() else v[:, kept],
        continuous=declared[kept],
        live=varying(z),
        kept=kept,
        names=tuple(labels[j] for j in kept),
        given=k,
    )
