"""Abstract reasoning from codes (van Steenkiste et al. 2019): matrices of factors, and a WReN that completes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.nn.functional import cross_entropy

from karenina.data import FactorGrid, split_name
from karenina.evaluation.scoring import Measured, MeasureRow
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
        """Return codes of the context (n, 8, d) and of the answers (n, 6, d), from a function of factor rows (m, k)."""
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
    """Return matrices in which some factors are the same along each row; the answer continues the last row.

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
    """Return factor values (3, 3, k) of a matrix."""
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
    """Return five different last panels, each of which breaks a relation."""
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
    """Return the answer (n,) of a perfect solver, which knows the rule and reads the factor values.

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


class WReN(nn.Module):
    """Wild relation network (Barrett et al. 2018), on codes, not images; released by van Steenkiste et al. (2019).

    Every answer is put in the missing place. Each of the nine panels is its code and its place; every ordered pair of
    panels goes through g, the sum over pairs through f, which gives the answer its score. Theirs has two to four
    layers of 256 or 512 units for g and one or two of 128 or 256 for f.

    >>> WReN(5)(torch.zeros(2, 8, 5), torch.zeros(2, 6, 5)).shape
    torch.Size([2, 6])
    """

    def __init__(self, codes: int, *, edge: int = 256, graph: int = 128, panels: int = 9):
        super().__init__()
        self.panels = panels
        # The first layer of g on a pair is the sum of a layer on either panel: nine products instead of 81.
        self.first = nn.Linear(codes + panels, edge)
        self.second = nn.Linear(codes + panels, edge, bias=False)
        self.g = nn.Sequential(nn.ReLU(), nn.Linear(edge, edge), nn.ReLU())
        self.f = nn.Sequential(nn.Linear(edge, graph), nn.ReLU(), nn.Linear(graph, 1))

    def forward(self, context: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        """Return scores (n, answers) of context (n, 8, d) and answers (n, answers, d)."""
        n, choices, d = answers.shape
        shown = context[:, None].expand(n, choices, self.panels - 1, d)
        panels = torch.cat([shown, answers[:, :, None]], dim=2)
        places = torch.eye(self.panels, dtype=panels.dtype, device=panels.device).expand(n, choices, -1, -1)
        panels = torch.cat([panels, places], dim=3)
        pairs = self.first(panels)[:, :, :, None] + self.second(panels)[:, :, None]
        scores: torch.Tensor = self.f(self.g(pairs).sum(dim=(2, 3))).squeeze(2)
        return scores


BATCH = 32  # van Steenkiste et al. (2019), as released


@dataclass(frozen=True)
class ReasoningCurve:
    """Accuracy on other matrices after so many training matrices; chance is 1/6."""

    samples: tuple[int, ...]
    accuracy: tuple[float, ...]

    def __float__(self) -> float:
        """Return the mean over the curve: sample efficiency."""
        return float(np.mean(self.accuracy))

    def summary(self) -> dict[str, float]:
        """Return flat names for tables: reasoning_<samples>, and reasoning_efficiency, their mean."""
        each = {f"reasoning_{n}": value for n, value in zip(self.samples, self.accuracy)}
        return {**each, "reasoning_efficiency": float(self)}


Panels = tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]


def learn_matrices(
    draw: Callable[[int, int], Panels],
    *,
    samples: Sequence[int] = (1_000, 4_000, 16_000, 64_000),
    test: int = 1_000,
    learning_rate: float = 1e-3,
    edge: int = 256,
    seed: int = 0,
) -> ReasoningCurve:
    """Train WReN on a stream of matrices, each seen once, and measure it at several numbers of them.

    Parameters
    ----------
    draw : (n, seed) -> context (n, 8, d), answers (n, 6, d), position (n,)
        Matrices of codes; `reasoning_matrices` makes them. Codes are standardised here.
    samples : numbers of training matrices, in batches of 32
    test : int
        Matrices to measure on.
    learning_rate : float
        Of Adam.
    edge : int
        Width of the network on pairs of panels.
    seed : int

    Examples
    --------
    >>> def draw(n, seed):
    ...     found = reasoning_matrices((4, 4), n, relations=(1,), seed=seed)
    ...     return *found.codes(lambda rows: rows.astype(float)), found.position
    >>> learn_matrices(draw, samples=(32, 64), test=60, edge=8).samples
    (32, 64)
    """
    sizes = sorted({int(number) for number in samples})
    if not sizes or sizes[0] < BATCH:
        raise ValueError(f"samples must be numbers of {BATCH} or more, got {list(samples)}")
    held = _tensors(draw(test, seed * 2 + 1))
    train = _tensors(draw(sizes[-1], seed * 2 + 2))
    panels = torch.cat([train[0], train[1]], dim=1).reshape(-1, train[0].shape[2])
    mean, scale = panels.mean(dim=0), panels.std(dim=0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))

    def scaled(part: torch.Tensor) -> torch.Tensor:
        return (part - mean) / scale

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = WReN(panels.shape[1], edge=edge)
    optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate)
    accuracy, done = [], 0
    for size in sizes:
        while done + BATCH <= size:
            rows = slice(done, done + BATCH)
            context, answers, position = (part[rows] for part in train)
            loss = cross_entropy(network(scaled(context), scaled(answers)), position)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            done += BATCH
        accuracy.append(_accuracy(network, scaled, held))
    return ReasoningCurve(tuple(sizes), tuple(accuracy))


@torch.inference_mode()
def _accuracy(network: WReN, scaled: Callable[[torch.Tensor], torch.Tensor], held: tuple[torch.Tensor, ...]) -> float:
    right = 0
    for context, answers, position in zip(*(part.split(256) for part in held)):
        right += int((network(scaled(context), scaled(answers)).argmax(dim=1) == position).sum())
    return right / len(held[2])


def _tensors(drawn: Panels) -> tuple[torch.Tensor, ...]:
    context, answers, position = drawn
    codes = (np.asarray(part, np.float32) for part in (context, answers))
    return *(torch.from_numpy(np.ascontiguousarray(part)) for part in codes), torch.from_numpy(np.asarray(position))


# Matrices after which abstract reasoning is measured; 64,000 take some minutes.
REASONING = (1_000, 4_000, 16_000, 64_000)


def reasoning(measured: Measured) -> list[MeasureRow]:
    """Return the accuracy of abstract reasoning from codes after so many matrices. van Steenkiste et al. (2019).

    Matrices are of factor values, so the data must be a grid of factors, and not draw anything else.
    """
    grid = measured.data.factors
    if not isinstance(grid, FactorGrid) or measured.data.stochastic:
        raise ValueError(f"reasoning needs data on a grid of factors, and {measured.data.name} is not")
    most = MOST_VALUES.get(split_name(measured.data.name)[0])

    def encode(values: NDArray[np.int64]) -> NDArray[np.float32]:
        parts = np.array_split(values, max(1, len(values) // 2000))  # not all images at once
        return np.concatenate([measured.run.encode(measured.data.at(grid.index(part)))[0] for part in parts])

    def draw(n: int, seed: int) -> Any:
        found = reasoning_matrices(grid.sizes, n, most_values=most, seed=seed)
        return *found.codes(encode), found.position

    found = learn_matrices(draw, samples=REASONING, seed=measured.seed)
    nan = float("nan")
    return [(name, "task", "usefulness", "", value, nan) for name, value in found.summary().items()]
