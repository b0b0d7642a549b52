"""Learn to solve matrices from codes, and how many of them that takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from karenina.models.wren import WReN

BATCH = 32  # van Steenkiste et al. (2019), as released


@dataclass(frozen=True)
class ReasoningCurve:
    """Accuracy on other matrices after so many training matrices; chance is 1/6."""

    samples: tuple[int, ...]
    accuracy: tuple[float, ...]

    def __float__(self) -> float:
        """The mean over the curve: sample efficiency."""
        return float(np.mean(self.accuracy))

    def summary(self) -> dict[str, float]:
        """Flat names for tables: reasoning_<samples>, and reasoning_efficiency, their mean."""
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
        Matrices of codes; `karenina.tasks.reasoning_matrices` makes them. Codes are standardised here.
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
    >>> from karenina.tasks import reasoning_matrices
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
