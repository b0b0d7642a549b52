"""Which rows train a predictor and which test it."""

from dataclasses import replace

import numpy as np

from karenina.metrics._inputs import Inputs, Ints


def split(inputs: Inputs, fraction: float, rows: int | None, rng: np.random.Generator) -> tuple[Inputs, Ints, Ints]:
    """The inputs, followed by the test rows if some were given, and which rows train and test, in random order.

    Test rows are those given, or a random fraction of the table; fraction 0: its rows, which then train too. rows: how
    many rows of the table are used at most; None: all.
    """
    if inputs.test is None:
        inputs.require(6)
        return inputs, *drawn(len(inputs.codes), fraction, rows, rng, least=4)
    if fraction == 0:
        raise ValueError("test_fraction=0 scores the training rows: give no test rows")
    inputs.require(4)
    n = len(inputs.codes)
    codes, given = (np.vstack(pair) for pair in zip((inputs.codes, inputs.given), inputs.test))
    return replace(inputs, codes=codes, given=given, test=None), rng.permutation(n), np.arange(n, len(codes))


def drawn(n: int, fraction: float, rows: int | None, rng: np.random.Generator, *, least: int) -> tuple[Ints, Ints]:
    """Training and test rows of a table of n, `least` or more to train; fraction 0: the same rows for both."""
    if not 0 <= fraction < 1:
        raise ValueError(f"test_fraction is {fraction}, expected a number from 0 to below 1")
    if rows is not None and (rows != int(rows) or rows < 6):
        raise ValueError(f"rows is {rows}, expected an integer of 6 or more")
    order = rng.permutation(n)[:rows]
    if fraction == 0:
        return order, order
    held = min(max(1, round(len(order) * fraction)), len(order) - least)
    return order[held:], order[:held]
