"""What every task does first: check its arrays, tell categorical from continuous factors, divide the rows."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._words import hint
from karenina.numerics.arrays import range_unit
from karenina.numerics.checks import are_continuous, as_factors_alike, pair, positive_integer, ranks, varying

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked codes (n, d) and factors (n, k), and which rows to train and to test on.

    continuous, varies: (k,) bool; a factor that does not vary has no task.
    """

    codes: Array
    factors: Array
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    continuous: NDArray[np.bool_]
    varies: NDArray[np.bool_]

    def target(self, j: int) -> NDArray[Any]:
        """What is predicted of factor j in all rows."""
        return target(self.factors[:, j], bool(self.continuous[j]))


def target(column: Array, continuous: bool) -> NDArray[Any]:
    """Of a factor (n,): labels 0..size-1, or floats of which squares are in range where it is continuous."""
    return column / range_unit(column) if continuous else ranks(column)


def chosen_models(models: str | Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The names of the predictors asked for."""
    names = (models,) if isinstance(models, str) else tuple(models)
    for name in names:
        if name not in known:
            raise ValueError(f"no model {name!r}; {hint(name, known)}")
    if not names:
        raise ValueError(f"no model asked for; there are {', '.join(known)}")
    return names


def rows(
    codes: ArrayLike,
    factors: ArrayLike,
    test: int,
    rng: np.random.Generator,
    continuous: bool | Sequence[bool] | None = None,
    test_codes: ArrayLike | None = None,
    test_factors: ArrayLike | None = None,
) -> Rows:
    """Check everything and divide the rows.

    With test_codes and test_factors, both tables are read in the order given, the test one up to `test` rows. Otherwise
    `test` random rows are set aside, but never more than a third, and the others are shuffled.
    """
    test = positive_integer(test, "test")
    if (test_codes is None) != (test_factors is None):
        raise ValueError("test_codes and test_factors go together: one of them is missing")
    if test_factors is not None:
        factors, test_factors = as_factors_alike(factors, test_factors)
    z, v = pair(codes, factors)
    if test_codes is None or test_factors is None:
        if len(z) < 3:
            raise ValueError(f"codes and factors have {len(z)} rows, at least 3 are needed to train and test")
        order = rng.permutation(len(z))
        held = min(test, len(z) // 3)
        train, tested = order[held:], order[:held]
    else:
        more_z, more_v = pair(test_codes, test_factors, "test_")
        if (more_z.shape[1], more_v.shape[1]) != (z.shape[1], v.shape[1]):
            raise ValueError(
                f"test_codes {more_z.shape} and test_factors {more_v.shape} do not have the columns of "
                f"codes {z.shape} and factors {v.shape}"
            )
        if not len(z) or not len(more_z):
            raise ValueError(f"there are {len(z)} rows to train on and {len(more_z)} to test on, at least 1 is needed")
        train = np.arange(len(z))
        tested = len(z) + np.arange(min(test, len(more_z)))
        z, v = np.concatenate([z, more_z]), np.concatenate([v, more_v])
    varies = varying(v)
    if not varies.any():
        raise ValueError(f"every factor is constant (factors has shape {v.shape}), so there is nothing to predict")
    if not varies.all():
        gone = ", ".join(str(j) for j in np.flatnonzero(~varies))
        warnings.warn(f"no task for constant factors: column {gone}", stacklevel=3)
    return Rows(z, v, train, tested, are_continuous(continuous, v), varies)
