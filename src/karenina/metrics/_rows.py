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
    rows: int | None = None,
) -> tuple[Inputs, Rows, Rows]:
    """All rows checked together, and which of them train and test, each in random order.

    Test rows are those given, or a random fraction of the table, or with `in_sample` its rows, which then train too.
    rows: how many rows of the table are used at most; None: all.
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
    return inputs, *drawn(len(inputs.codes), 0 if in_sample else fraction, rows, rng, least=4)


def drawn(n: int, fraction: float, rows: int | None, rng: np.random.Generator, *, least: int) -> tuple[Rows, Rows]:
    """Training and test rows of a table of n, `least` or more to train; fraction 0: the same rows for both."""
    if rows is not None and (rows != int(rows) or rows < 6):
        raise ValueError(f"rows is {rows}, expected an integer of 6 or more")
    order = rng.permutation(n)[:rows]
    if fraction == 0:
        return order, order
    held = min(max(1, round(len(order) * fraction)), len(order) - least)
    return order[held:], order[:held]
