"""Raven-like matrices of factor values, to be solved from codes (van Steenkiste et al. 2019, as released)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.checks import positive_integer

Ints = NDArray[np.int64]
ROWS = COLUMNS = 3
ANSWERS = 6
# Values of each factor that matrices use (van Steenkiste et al. 2019, as released), so that neighbours can be told
# apart. Their dSprites have two colours besides and no orientation, which differs from image to image; ours is 0.
MOST_VALUES: Mapping[str, tuple[int, ...]] = {"dsprites": (3, 3, 1, 4, 4), "shapes3d": (10, 10, 10, 4, 4, 4)}


@dataclass(frozen=True, eq=False)
class Matrices:
    """n matrices of 3 x 3 panels whose last panel is missing, and six answers to choose from.

    Attributes
    ----------
    context : (n, 8, k)
        Factor values of the panels that are shown, row by row.
    answers : (n, 6, k)
    position : (n,)
        Which of the answers is right.
    constant : (n, k) bool
        Which factors are the same along each row: the relation to be found.
    """

    context: Ints
    answers: Ints
    position: Ints
    constant: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.position)

    def codes(self, encode: Callable[[Ints], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Codes of the context (n, 8, d) and of the answers (n, 6, d), from a function of factor rows (m, k)."""
        k = self.context.shape[2]
        panels = np.concatenate([self.context, self.answers], axis=1)
        distinct, where = np.unique(panels.reshape(-1, k), axis=0, return_inverse=True)
        found = np.asarray(encode(distinct))
        if found.ndim != 2 or len(found) != len(distinct):
            raise ValueError(f"encode gave shape {found.shape} for {len(distinct)} rows of factors, expected (m, d)")
        coded = found[where.ravel()].reshape(len(self), panels.shape[1], -1)
        return coded[:, : ROWS * COLUMNS - 1], coded[:, ROWS * COLUMNS - 1 :]


def reasoning_matrices(
    sizes: Sequence[int],
    n: int,
    *,
    relations: Sequence[int] = (1, 2, 3),
    most_values: Sequence[int] | None = None,
    seed: int | np.random.Generator = 0,
) -> Matrices:
    """Matrices in which some factors are the same along each row; the answer continues the last row.

    In each matrix one, two or three factors, drawn at random, are constant along each row. Every other factor is drawn
    at random, such that its first two rows are neither all constant nor all of different values. A wrong answer is the
    last panel of another matrix of as many relations that breaks a relation of this one, and no two answers are equal;
    in the release two wrong ones may be.

    Parameters
    ----------
    sizes : numbers of values of the factors, each 3 or more; a factor of fewer keeps one value
    n : int
    relations : numbers of constant factors to draw from
    most_values : one per factor
        Values of a factor that are used, evenly spread over its range; None: all, at most 10. `MOST_VALUES` has those
        of van Steenkiste et al. (2019) for dsprites and shapes3d.
    seed : int or Generator

    Examples
    --------
    >>> found = reasoning_matrices((3, 6, 40), 100, relations=(1,), seed=0)
    >>> found.context.shape, found.answers.shape, int(found.constant.sum())
    ((100, 8, 3), (100, 6, 3), 100)
    >>> right = found.answers[np.arange(100), found.position]
    >>> bool((right == found.context[:, -1])[found.constant].all())
    True
    """
    n = positive_integer(n, "n")
    whole = np.array([positive_integer(size, "each of sizes") for size in sizes])
    most = np.full(len(whole), 10) if most_values is None else np.asarray(most_values)
    if most.shape != whole.shape:
        raise ValueError(f"most_values has {most.size} numbers for {len(whole)} factors")
    used = np.minimum(whole, most)
    free = np.flatnonzero(used >= COLUMNS)
    wanted = np.array([positive_integer(number, "each of relations") for number in relations])
    if not len(wanted) or wanted.max() > len(free):
        raise ValueError(
            f"relations {list(relations)} need as many factors of {COLUMNS} values or more, and there are {len(free)}"
        )
    # The fewest panels that break a relation: with few relations, of factors with few values.
    panels_in_all = int(np.prod(used[free]))
    breaking = panels_in_all - panels_in_all // int(np.prod(np.sort(used[free])[: wanted.min()]))
    if breaking < ANSWERS - 1:
        raise ValueError(
            f"{ANSWERS - 1} different wrong answers are needed, and factors of "
            f"{used[free].tolist()} values have {breaking}"
        )
    rng = np.random.default_rng(seed)
    context, answers = [], []
    position = rng.integers(ANSWERS, size=n)
    constant = np.zeros((n, len(whole)), bool)
    spread = [np.floor(np.arange(few) * size / few).astype(np.int64) for few, size in zip(used, whole)]
    for i in range(n):
        count = int(rng.choice(wanted))
        related = rng.permutation(free)[:count]
        constant[i, related] = True
        panels = _panels(used, free, related, rng)
        choices = _wrong(used, free, related, panels, rng)
        choices.insert(int(position[i]), panels[-1, -1])
        context.append(panels.reshape(ROWS * COLUMNS, -1)[:-1])
        answers.append(np.stack(choices))
    shown, chosen = np.stack(context), np.stack(answers)
    for j, values in enumerate(spread):
        shown[..., j], chosen[..., j] = values[shown[..., j]], values[chosen[..., j]]
    return Matrices(shown, chosen, position, constant)


def _panels(used: Ints, free: Ints, related: Ints, rng: np.random.Generator) -> Ints:
    """Factor values (3, 3, k) of a matrix."""
    panels = np.zeros((ROWS, COLUMNS, len(used)), np.int64)
    for j in free:
        if j in related:
            panels[:, :, j] = rng.integers(used[j], size=(ROWS, 1))
            continue
        while True:
            panels[:, :, j] = rng.integers(used[j], size=(ROWS, COLUMNS))
            distinct = [len(set(row)) for row in panels[:-1, :, j].tolist()]
            if distinct not in ([1] * (ROWS - 1), [COLUMNS] * (ROWS - 1)):
                break
    return panels


def _wrong(used: Ints, free: Ints, related: Ints, panels: Ints, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Five different last panels, each of which breaks a relation."""
    right = panels[-1, -1]
    found: list[NDArray[np.int64]] = []
    while len(found) < ANSWERS - 1:
        # The last panel of another matrix: every factor of it is uniform, whether its row is constant or not.
        other = np.zeros_like(right)
        other[free] = rng.integers(used[free])
        if (other[related] != right[related]).any() and not any((other == one).all() for one in found):
            found.append(other)
    return found


def solved_by_rule(context: ArrayLike, answers: ArrayLike) -> Ints:
    """The answer (n,) of somebody who knows the rule and reads factor values: what a perfect solver gets.

    A factor whose first two rows are constant is a relation; the answer with the most relations kept is taken.

    >>> found = reasoning_matrices((5, 6, 8), 50, seed=1)
    >>> bool((solved_by_rule(found.context, found.answers) == found.position).all())
    True
    """
    c, a = np.asarray(context), np.asarray(answers)
    first, second = c[:, :COLUMNS], c[:, COLUMNS : 2 * COLUMNS]
    related = (first == first[:, :1]).all(axis=1) & (second == second[:, :1]).all(axis=1)
    last = c[:, 2 * COLUMNS :]
    kept = (a == last[:, :1]) & related[:, None, :] & (last == last[:, :1]).all(axis=1)[:, None, :]
    return kept.sum(axis=2).argmax(axis=1)
