"""Training of the networks of the clustering task: MONet, component VAEs and transition models, the latter stacked.

Each function takes where its result goes. It resumes after a kill at any moment with the same result, and returns what
is there when it was already done. All random numbers of a step come from (seed, step), so a checkpoint needs no
generators, and a network of a stack depends on its own seed and the data, not on its neighbours.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina._process import stop_waits, stopped, stops_wait
from karenina.models.fast import Adam, keep_memory
from karenina.papers.duan2020.clustering.agent import TransitionModels
from karenina.papers.duan2020.clustering.monet import ComponentVAE, MONet, object_losses
from karenina.training.loop import TrainingDiverged, trace_steps
from karenina.training.run import FORMAT, BadFile, load_weights, read_tensors, within, write_tensors

Progress = Callable[[int, int, dict[str, float]], None]
ROWS = 200  # of the history


@stops_wait()
def fit(
    path: Path,
    network: nn.Module,
    update: Callable[[int], dict[str, Tensor]],
    config: dict[str, Any],
    *,
    steps: int,
    learning_rate: float,
    trace: Callable[[], Tensor] | None = None,
    progress: Progress | None = None,
    checkpoint_every: float = 60.0,
) -> tuple[list[dict[str, float]], Tensor | None]:
    """Train `network` for `steps` steps and write it to `path`; then the history of its terms, and its trace.

    update: a step's number -> named terms, the first being the loss to descend. trace: called at the steps of
    `trace_steps`. The last fifth of the steps has a tenth of the learning rate.
    """
    config = json.loads(json.dumps(config | {"steps": steps, "learning_rate": learning_rate}))
    checkpoint = path.with_suffix(".checkpoint")
    if path.exists():
        tensors, about = _read(path, config)
        kept = tensors.pop("trace", None)
        load_weights(network, tensors, path)
        return about["history"], kept
    keep_memory()
    optimiser = Adam(network.parameters(), learning_rate)
    state: dict[str, Any] = {"step": 0, "history": []}
    traces: list[Tensor] = []
    if checkpoint.exists():
        try:
            state, traces = _resume(checkpoint, config, network, optimiser)
        except BadFile:  # a damaged checkpoint costs time, not the result
            state, traces = {"step": 0, "history": []}, []
    moments = trace_steps(steps) if trace is not None else []
    if trace is not None and not traces:
        traces.append(trace())
    row_every = max(steps // ROWS, 1)
    saved = time.monotonic()
    for step in range(state["step"], steps):
        optimiser.learning_rate = learning_rate * (0.1 if step >= 0.8 * steps else 1.0)
        terms = update(step)
        optimiser.zero_grad()
        next(iter(terms.values())).backward()
        optimiser.step()
        if trace is not None and step + 1 in moments:
            traces.append(trace())
        if (step + 1) % row_every == 0 or step + 1 == steps:
            row = {name: float(value.detach()) for name, value in terms.items()}
            if not all(np.isfinite(list(row.values()))):
                raise TrainingDiverged(f"{path.stem}: {row} by step {step + 1}: try a smaller learning rate")
            state["history"].append({"step": step + 1} | row)
            if progress is not None:
                progress(step + 1, steps, row)
        if (stop_waits() and step + 1 < steps) or time.monotonic() - saved > checkpoint_every:
            _save(checkpoint, config, network, optimiser, state | {"step": step + 1}, traces)
            saved = time.monotonic()
        if stop_waits() and step + 1 < steps:
            raise stopped(f"stopped at step {step + 1:,} of {steps:,}; the same call resumes")
    about = {"format": FORMAT, "config": config, "history": state["history"]}
    kept = torch.stack(traces) if traces else None
    write_tensors(path, dict(network.state_dict()) | ({} if kept is None else {"trace": kept}), about)
    checkpoint.unlink(missing_ok=True)
    return state["history"], kept


def _read(path: Path, config: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, about = read_tensors(path)
    if about.get("config") != config:
        raise ValueError(f"{path} was made with {about.get('config')}, not {config}: choose another folder")
    return tensors, about


def _save(
    path: Path, config: dict[str, Any], network: nn.Module, optimiser: Adam, state: dict[str, Any], traces: list[Tensor]
) -> None:
    tensors = {f"network/{name}": value for name, value in network.state_dict().items()}
    for i, moments in enumerate(optimiser.state):
        tensors |= {f"optimiser/{i}/{name}": value for name, value in moments.items()}
    if traces:
        tensors["trace"] = torch.stack(traces)
    write_tensors(path, tensors, {"format": FORMAT, "config": config} | state)


def _resume(
    path: Path, config: dict[str, Any], network: nn.Module, optimiser: Adam
) -> tuple[dict[str, Any], list[Tensor]]:
    tensors, about = _read(path, config)
    load_weights(network, within(tensors, "network/"), path)
    for i, moments in enumerate(optimiser.state):
        for name, value in moments.items():
            value.copy_(tensors[f"optimiser/{i}/{name}"])
    return {"step": about["step"], "history": about["history"]}, list(tensors.get("trace", ()))


def train_monet(
    path: Path,
    draw: Callable[[int, np.random.Generator], NDArray[np.uint8]],
    *,
    seed: int,
    side: int,
    slots: int,
    latents: int,
    steps: int,
    batch: int = 16,
    beta: float = 0.5,
    gamma: float = 0.5,
    learning_rate: float = 2e-3,
    units: int = 64,
    widths: tuple[int, ...] = (8, 16, 16),
    trace: Callable[[MONet], Tensor] | None = None,
    **options: Any,
) -> tuple[MONet, list[dict[str, float]], Tensor | None]:
    """Train a MONet; return it, the history of its terms, and what `trace` gave at the steps of `trace_steps`.

    draw: a number and a generator -> images (n, 3, side, side).
    """
    network = MONet(seed, side, slots, latents, units, widths)

    def update(step: int) -> dict[str, Tensor]:
        rng = np.random.default_rng([seed, step])
        images = torch.from_numpy(draw(batch, rng)).float().div_(255)
        noise = torch.from_numpy(rng.standard_normal((batch, slots, latents), np.float32))
        return network.losses(images, noise, beta, gamma)

    config: dict[str, Any] = {"seed": seed, "side": side, "slots": slots, "latents": latents, "batch": batch}
    config |= {"beta": beta, "gamma": gamma}
    options["trace"] = None if trace is None else lambda: trace(network)
    history, traces = fit(path, network, update, config, steps=steps, learning_rate=learning_rate, **options)
    return network.eval(), history, traces


def train_components(
    path: Path,
    objects: Callable[[NDArray[np.int64]], Tensor],
    count: int,
    watched: Tensor,
    *,
    seeds: Sequence[int],
    betas: Sequence[float],
    side: int,
    latents: int,
    steps: int,
    batch: int = 64,
    learning_rate: float = 3e-3,
    units: int = 64,
    **options: Any,
) -> tuple[ComponentVAE, Tensor]:
    """Train component VAEs as one stack; return them and their traces (epochs, k, watched objects, units).

    objects: rows (k, n) of `count` objects -> their patches (k, n, cells, 64). watched: patches (m, cells, 64) at which
    the first layer of the decoder is recorded.
    """
    network = ComponentVAE(list(seeds), side, latents, units)
    strengths = torch.tensor(betas)

    def update(step: int) -> dict[str, Tensor]:
        rngs = [np.random.default_rng([seed, step]) for seed in seeds]
        rows = np.stack([rng.integers(count, size=batch) for rng in rngs])
        noise = np.stack([rng.standard_normal((batch, latents), np.float32) for rng in rngs])
        losses = object_losses(network, objects(rows), torch.from_numpy(noise), strengths)
        # The sum: each network gets the gradient of its own loss.
        return {"loss": losses.sum(), "least": losses.min(), "most": losses.max()}

    def trace() -> Tensor:
        with torch.no_grad():
            mean, _ = network.encode(watched.expand(len(strengths), *watched.shape))
            return network.first_activations(mean).half()

    config = {"seeds": list(seeds), "betas": list(betas), "side": side, "latents": latents, "batch": batch}
    config["count"] = count
    _, traces = fit(path, network, update, config, steps=steps, learning_rate=learning_rate, trace=trace, **options)
    assert traces is not None
    return network.eval(), traces


def train_transitions(
    path: Path,
    rows: Callable[[], tuple[Tensor, Tensor, Tensor]],
    *,
    latents: int,
    seeds: Sequence[int],
    steps: int,
    batch: int = 256,
    units: int = 128,
    learning_rate: float = 1e-3,
    **options: Any,
) -> TransitionModels:
    """Train transition models as one stack. rows: codes (k, n, latents), actions (n, 4) and the codes after them; asked
    for only when there is something to train."""
    network = TransitionModels(list(seeds), latents, units)
    models = torch.arange(len(seeds))[:, None]
    known = cache(rows)

    def update(step: int) -> dict[str, Tensor]:
        codes, actions, after = known()
        drawn = [np.random.default_rng([seed, step]).integers(codes.shape[1], size=batch) for seed in seeds]
        picked = torch.from_numpy(np.stack(drawn))
        predicted = network(codes[models, picked], actions[picked])
        losses = ((predicted - after[models, picked]) ** 2).mean((1, 2))
        return {"loss": losses.sum(), "least": losses.min(), "most": losses.max()}

    config = {"seeds": list(seeds), "batch": batch, "units": units}
    fit(path, network, update, config, steps=steps, learning_rate=learning_rate, **options)
    return network.eval()
