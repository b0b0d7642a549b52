"""Which rows train a predictor and which test it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._inputs import Inputs, as_matrix, check

Rows = NDArray[np.int64]


def split(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike | None,
    test_factors: ArrayLike | None,
    fraction: float,
    continuous: bool | Sequence[bool] | None,
    rng: np.random.Generator,
    in_sample: bool = False,
) -> tuple[Inputs, Rows, Rows]:
    """All rows checked together, and which of them train and test, each in random order.

    Test rows are those given, or a random fraction of all rows, or with `in_sample` all rows, which then train too.
    """
    if (test_codes is None) != (test_factors is None):
        raise ValueError("give both test_codes and test_factors, or neither")
    if test_codes is not None and test_factors is not None:
        size = len(check(codes, factors, continuous, least=4).codes)
        given = {"codes": codes, "test_codes": test_codes, "factors": factors, "test_factors": test_factors}
        parts = [as_matrix(array, name) for name, array in given.items()]
        for name, one, two in (("codes", parts[0], parts[1]), ("factors", parts[2], parts[3])):
            if one.shape[1] != two.shape[1]:
                raise ValueError(f"test_{name} has shape {two.shape}, expected (m, {one.shape[1]}) as {name}")
        if len(parts[1]) != len(parts[3]) or not len(parts[1]):
            raise ValueError(f"test_codes has shape {parts[1].shape} and test_factors {parts[3].shape}")
        inputs = check(np.vstack(parts[:2]), np.vstack(parts[2:]), continuous)
        return inputs, rng.permutation(size), np.arange(size, len(inputs.codes))
    if not 0 < fraction < 1:
        raise ValueError(f"test_fraction is {fraction}, expected a number between 0 and 1")
    inputs = check(codes, factors, continuous, least=6)
    n = len(inputs.codes)
    if in_sample:
        return inputs, np.arange(n), np.arange(n)
    order = rng.permutation(n)
    held = min(max(1, round(n * fraction)), n - 4)
    return inputs, order[held:], order[:held]
