"""The training loop, for every method that takes steps."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina.data import DataSet
from karenina.data.biased import Pairs
from karenina.training.config import TRACE_IMAGES, TRACE_LENGTH, Config
from karenina.training.learners import Drawn, Learner, network_of


class TrainingDiverged(ValueError):
    """Training cannot continue: a loss term is not finite, or has exploded. The message says which and when."""


@dataclass(frozen=True)
class Progress:
    """Where a run is: `row` is the newest row of its history, averages over the last steps."""

    step: int
    steps: int
    row: dict[str, float]
    images_per_second: float


@dataclass
class State:
    """All that changes during a run, besides the learner's weights; a checkpoint is both."""

    rng: np.random.Generator
    noise: torch.Generator
    step: int = 0
    first_loss: float = 0.0
    names: list[str] = field(default_factory=list)
    sums: Tensor | None = None  # of the values since the last row of the history
    summed: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    trace: list[NDArray[np.float16]] = field(default_factory=list)


def fit(
    learner: Learner,
    data: DataSet,
    config: Config,
    state: State,
    device: torch.device,
    save: Callable[[bool], None],
    progress: Callable[[Progress], None] | None = None,
    pairs: Pairs | None = None,
) -> None:
    """Train from `state.step` to `config.steps`. `save` is called after every step and decides whether it is time; with
    True it is.

    pairs: where a method learns from pairs of images, what draws them.
    """
    row_every = min(max(config.steps // 200, 1), 100)
    moments = trace_steps(config.steps) if config.trace else []
    watched = traced_images(data, device) if config.trace else None

    def draw() -> Drawn:
        if pairs is None:
            return to_tensor(data.sample(config.batch, state.rng)[0], device)
        images, changed = pairs.sample(config.batch, state.rng)
        return to_tensor(images, device), None if changed is None else torch.from_numpy(changed).to(device)

    if watched is not None and not state.trace:
        state.trace.append(activations(learner, watched))
    started, first = time.perf_counter(), state.step
    while state.step < config.steps:
        with at_precision(config.precision, device):
            terms, kl = learner.update(draw, state.step)
        add_to_row(state, terms, kl)
        state.step += 1
        if state.step % row_every == 0 or state.step == config.steps:
            close_row(state)
            check(state, learner)
        if watched is not None and state.step in moments:
            state.trace.append(activations(learner, watched))
        if progress is not None and (state.step % row_every == 0 or state.step == config.steps):
            rate = (state.step - first) * config.batch / (time.perf_counter() - started)
            try:
                progress(Progress(state.step, config.steps, state.history[-1], rate))
            except BaseException:  # whoever watches has seen enough: nothing that was trained is lost
                save(True)
                raise
        save(False)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator, from which layers (dropout) may draw, and put it back afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


_PROBE = """import torch
with torch.autocast("cpu", torch.bfloat16):
    torch.nn.Conv2d(1, 4, 4)(torch.ones(2, 1, 16, 16)) + torch.nn.Linear(64, 4)(torch.ones(64, 64)).sum()"""


@cache
def _bf16_on_cpu() -> bool:
    """Tried in another process: on virtual machines that hide part of their CPU, torch dies of it (SIGILL)."""
    return subprocess.run([sys.executable, "-P", "-c", _PROBE], capture_output=True).returncode == 0


def check_precision(precision: str, device: torch.device) -> None:
    """A ValueError if this device cannot compute in this precision."""
    if precision == "bf16" and device.type == "cpu" and not _bf16_on_cpu():
        raise ValueError(
            "torch cannot compute in bf16 on this CPU; with the environment variable "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 it may, or take float32"
        )


@contextmanager
def at_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Compute matrix products and convolutions in this precision; weights, sums and losses stay float32.

    tf32: on NVIDIA GPUs from Ampere on, elsewhere it is float32. bf16: by torch.autocast, on any device. In all of them
    numbers below 1.2e-38 count as 0: a CPU takes a hundred times as long over each, and the moments of dead units are
    such numbers, so that training takes half the time. Weights are the same to the bit.
    """
    before = torch.get_float32_matmul_precision()
    flushed = not torch.tensor(1e-39).item()
    with torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext():
        try:
            torch.set_flush_denormal(True)
            if precision == "tf32":
                torch.set_float32_matmul_precision("high")
            yield
        finally:
            torch.set_flush_denormal(flushed)
            torch.set_float32_matmul_precision(before)


def to_tensor(images: NDArray[Any], device: torch.device) -> Tensor:
    """Images (n, c, h, w), uint8 or floats in [0, 1], as float32 in the layout that convolutions are fast in."""
    if not images.flags.writeable:  # torch has no read-only tensors
        images = images.copy()
    x = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    floats = x.to(torch.float32, memory_format=torch.channels_last)
    return floats.div_(255) if x.dtype == torch.uint8 else floats


def add_to_row(state: State, terms: dict[str, Tensor], kl: Tensor | None) -> None:
    """Sums stay in one tensor until a row is closed: reading numbers at every step would make a GPU wait."""
    values = [*terms.values(), *([] if kl is None else [kl])]
    flat = torch.cat([value.detach().reshape(-1) for value in values]).double()
    if state.step == 0:
        state.names = [*terms, *(f"kl_{j}" for j in range(len(flat) - len(terms)))]
        state.first_loss = float(terms["loss"].detach())
    state.sums = flat if state.sums is None else state.sums.add_(flat)
    state.summed += 1


def close_row(state: State) -> None:
    assert state.sums is not None
    means = (state.sums / state.summed).tolist()
    state.history.append({"step": state.step, **dict(zip(state.names, means))})
    state.sums, state.summed = None, 0


def check(state: State, learner: Learner) -> None:
    """Stop when a term or a weight is no longer a number, or the loss is far beyond where it began."""
    norms = torch.stack([parameter.detach().norm() for parameter in network_of(learner).parameters()])
    reason = divergence(state.history[-1], state.first_loss, bool(torch.isfinite(norms).all()))
    if reason:
        raise TrainingDiverged(reason)


def divergence(row: dict[str, float], first_loss: float, finite: bool) -> str | None:
    """Why training has diverged by this row of the history, or None. finite: whether the weights are."""
    advice = f"by step {row['step']:.0f}: try a smaller learning rate"
    for name, value in row.items():
        if not np.isfinite(value):
            return f"{name} is {value} {advice}"
    if abs(row["loss"]) > 1e4 * max(abs(first_loss), 1.0):
        return f"the loss grew from {first_loss:.4g} to {row['loss']:.4g} {advice}"
    return None if finite else f"weights are not finite {advice}"


def trace_steps(steps: int) -> list[int]:
    """0 and 29 more moments up to the last step, evenly spaced on a log scale where integers allow."""
    moments = [0]
    for moment in np.geomspace(1, steps, TRACE_LENGTH - 1):
        moments.append(max(round(float(moment)), moments[-1] + 1))
    return moments


def traced_images(data: DataSet, device: torch.device) -> Tensor:
    """The same for every run on a data set, so that traces can be compared."""
    return to_tensor(data.sample(TRACE_IMAGES, np.random.default_rng(0))[0], device)


@torch.no_grad()
def activations(learner: Learner, x: Tensor) -> NDArray[np.float16]:
    """(images, units) of the decoder's first layer, at the mean codes of the present encoder."""
    network = network_of(learner)
    network.eval()
    units = network.first_activations(network.encode(x)[0])
    network.train()
    return units.cpu().numpy().astype(np.float16)
