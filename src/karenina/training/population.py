"""A population on its way from its first step, or its checkpoint, to the run directories of its members."""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina._process import stop_waits, stopped
from karenina.data import DataSet
from karenina.data.biased import Pairs
from karenina.training.checkpoint import FORMAT, POPULATION, BadFile, read_tensors, write_tensors
from karenina.training.config import Config, integer
from karenina.training.feeds import Batches, Labels, PairBatches
from karenina.training.loop import TrainingDiverged, at_precision, divergence, trace_steps, traced_images
from karenina.training.run import Run, write_about, write_run
from karenina.training.single import size_of
from karenina.training.stacked_learner import Member, PopulationLearner


@dataclass(frozen=True)
class PopulationProgress:
    """Where a population is. models: still training. done, total: models of the whole call. updates_per_second: models
    x steps. seconds_left: of this population."""

    step: int
    steps: int
    models: int
    done: int
    total: int
    updates_per_second: float
    seconds_left: float

    @property
    def share(self) -> float:
        """How much of the whole call is done."""
        return (self.done + self.models * self.step / self.steps) / self.total

    def __str__(self) -> str:
        if self.step == self.steps:
            return f"{self.done + self.models} of {self.total} done"
        return f"{self.done} of {self.total} done, {self.models} at step {self.step:,}/{self.steps:,}"


@dataclass(frozen=True)
class Options:
    """How members are trained; nothing here changes what a member becomes beyond rounding."""

    device: torch.device
    population: int | str = "auto"
    checkpoint_seconds: float = 60.0
    progress: Callable[[PopulationProgress], None] | None = None


def identity(config: Config) -> str:
    return json.dumps(config.to_json(), sort_keys=True)


@dataclass
class State:
    """All that changes while a population is trained, besides its weights. `alive`: which members still are."""

    rngs: list[np.random.Generator]
    alive: list[int]
    step: int = 0
    summed: int = 0
    first_loss: list[float] = field(default_factory=list)
    history: list[list[dict[str, float]]] = field(default_factory=list)
    trace: list[NDArray[np.float16]] = field(default_factory=list)  # (all members, images, units) at each moment
    failed: dict[int, str] = field(default_factory=dict)


class Population:
    """Members on their way from their first step, or their checkpoint, to their run directories."""

    def __init__(
        self,
        data: DataSet,
        members: Sequence[Member],
        paths: Sequence[Path | None],
        options: Options,
        folder: Path | None,
        done: int,
        total: int,
    ):
        self.data, self.members, self.paths, self.options = data, list(members), list(paths), options
        self.done, self.total = done, total
        self.config = members[0].config
        name = hashlib.sha256("".join(identity(m.config) for m in members).encode()).hexdigest()[:12]
        self.file = None if folder is None else folder / POPULATION.replace("*", name)
        self.older = None if self.file is None else self.file.with_suffix(".older")

    def run(self) -> list[Run | TrainingDiverged]:
        learner, state = self._resume()
        for i in state.alive:
            path = self.paths[i]
            if path is not None:
                write_about(path, self.members[i].config, "running")
        self._fit(learner, state)
        results: list[Run | TrainingDiverged] = []
        for i, member in enumerate(self.members):
            if i in state.failed:
                results.append(TrainingDiverged(f"{self.paths[i] or member.config.method}: {state.failed[i]}"))
                continue
            history = pd.DataFrame(state.history[i]).astype({"step": "int64"})
            trace = np.stack([moment[i] for moment in state.trace]) if member.config.trace else None
            network = learner.network(state.alive.index(i))
            run = Run(member.config, network, history, trace, self.paths[i])
            path = self.paths[i]
            if path is not None:
                write_run(path, run)
            results.append(run)
        for file in (self.file, self.older):
            if file is not None:
                file.unlink(missing_ok=True)
        return results

    def _fit(self, learner: PopulationLearner, state: State) -> None:
        config, device, steps = self.config, self.options.device, self.config.steps
        row_every = min(max(steps // 200, 1), 100)
        moments = trace_steps(steps) if config.trace else []
        watched = traced_images(self.data, device) if config.trace else None
        expected = len(self.members) * steps * config.batch
        rngs = [state.rngs[i] for i in state.alive]
        batches = (
            Batches(self.data, config.batch, device, rngs, expected)
            if self.members[0].method.share is None
            else PairBatches(Pairs(self.data, config.parameters["k"]), config.batch, device, rngs, 2 * expected)
        )
        if watched is not None and not state.trace:
            self._watch(learner, state, watched)
        started, first = time.perf_counter(), state.step
        saved = time.monotonic()
        while state.step < steps and state.alive:
            with at_precision(config.precision, device):
                found = learner.update(batches, state.step)
            self._add(learner, state, found)
            state.step += 1
            if state.step % row_every == 0 or state.step == steps:
                self._close_row(learner, batches, state)
            if watched is not None and state.step in moments and state.alive:
                self._watch(learner, state, watched)
            if state.step % row_every == 0 or state.step == steps:
                try:
                    self._report(state, started, first)
                except BaseException:  # whoever watches has seen enough: nothing that was trained is lost
                    self._settle(learner, batches, state)
                    raise
            if stop_waits() or time.monotonic() - saved >= self.options.checkpoint_seconds:
                self._settle(learner, batches, state)
                saved = time.monotonic()
            if stop_waits() and state.step < steps:
                then = "the same call resumes" if self.file is not None else "without a directory nothing is kept"
                count = f"{self.done} of {self.total} models done"
                raise stopped(f"stopped at step {state.step:,} of {steps:,}, {count}; {then}")

    def _settle(self, learner: PopulationLearner, batches: Batches, state: State) -> None:
        """Write a checkpoint, unless there is nothing left to resume."""
        if self.file is not None and state.step < self.config.steps and state.alive:
            batches.settle()
            learner.epsilon.settle()
            self._save(learner, state)

    def _report(self, state: State, started: float, first: int) -> None:
        if self.options.progress is None:
            return
        seconds = time.perf_counter() - started
        speed = (state.step - first) / max(seconds, 1e-9)
        left = (self.config.steps - state.step) / speed
        models = len(state.alive)
        self.options.progress(
            PopulationProgress(state.step, self.config.steps, models, self.done, self.total, speed * models, left)
        )

    def _watch(self, learner: PopulationLearner, state: State, watched: Tensor) -> None:
        units = learner.activations(watched)
        every = np.zeros((len(self.members), *units.shape[1:]), np.float16)
        every[state.alive] = units
        state.trace.append(every)

    def _add(self, learner: PopulationLearner, state: State, found: list[Tensor]) -> None:
        """Sums stay on the device until a row is closed."""
        for group, values in zip(learner.groups, found):
            group.sums = values.double() if group.sums is None else group.sums.add_(values)
        if state.step == 0:
            state.first_loss = torch.cat([values[:, 0] for values in found]).tolist()
        state.summed += 1

    def _close_row(self, learner: PopulationLearner, batches: Batches, state: State) -> None:
        """Write a row of every member's history, and leave out who has diverged."""
        finite = torch.stack(
            [p.detach().flatten(1).norm(dim=1) for p in learner.stacks["network"].parameters.values()]
        ).isfinite()
        healthy = finite.all(0).tolist()
        gone = []
        for group in learner.groups:
            assert group.sums is not None
            names = [*group.names, *(f"kl_{j}" for j in range(self.config.latents))]
            for place, means in zip(range(group.start, group.stop), (group.sums / state.summed).tolist()):
                i = state.alive[place]
                state.history[i].append({"step": state.step, **dict(zip(names, means))})
                reason = divergence(state.history[i][-1], state.first_loss[i], healthy[place])
                if reason:
                    gone.append(place)
                    state.failed[i] = reason
                    path = self.paths[i]
                    if path is not None:
                        write_about(path, self.members[i].config, "failed", reason)
            group.sums = None
        state.summed = 0
        if gone:
            kept = [place for place in range(len(state.alive)) if place not in gone]
            state.alive = [state.alive[place] for place in kept]
            if kept:
                learner.keep(kept)
                batches.keep(kept)

    def _fresh(self) -> tuple[PopulationLearner, State]:
        k = range(len(self.members))
        noise = [torch.Generator(self.options.device).manual_seed(m.config.seed) for m in self.members]
        rngs = [np.random.default_rng(member.config.seed) for member in self.members]
        labels = [Labels.of(self.data, member.config, self.options.device) for member in self.members]
        learner = PopulationLearner(self.members, size_of(self.data), noise, self.options.device, labels)
        return learner, State(rngs, list(k), history=[[] for _ in k])

    def _save(self, learner: PopulationLearner, state: State) -> None:
        assert self.file is not None
        tensors = {**learner.tensors(), "noise": torch.stack([noise.get_state() for noise in learner.noise])}
        for i, group in enumerate(learner.groups):
            if group.sums is not None:
                tensors[f"sums/{i}"] = group.sums
        if state.trace:
            tensors["trace"] = torch.from_numpy(np.stack(state.trace))
        about = {
            "format": FORMAT,
            "members": [member.config.to_json() for member in self.members],
            "alive": state.alive,
            "failed": {str(i): reason for i, reason in state.failed.items()},
            "step": state.step,
            "summed": state.summed,
            "first_loss": state.first_loss,
            "history": state.history,
            "rngs": [rng.bit_generator.state for rng in state.rngs],
            "groups": [[group.start, group.vmap, group.names] for group in learner.groups],
        }
        try:
            write_tensors(self.file, tensors, about, older=self.older)
        except OSError as error:  # a full disk: the checkpoint before is still there
            warnings.warn(f"no checkpoint at step {state.step}: {error}", stacklevel=4)

    def _resume(self) -> tuple[PopulationLearner, State]:
        """Where the newest intact checkpoint left the population, or its first step."""
        for file in (self.file, self.older):
            if file is None or not file.exists():
                continue
            learner, state = self._fresh()
            try:
                self._load(file, learner, state)
            except BadFile as error:
                warnings.warn(f"a checkpoint of the population is of no use: {error}", stacklevel=4)
                continue
            if file == self.older and self.file is not None:
                file.replace(self.file)  # the next one must not push it out for a damaged one
            return learner, state
        return self._fresh()

    def _load(self, file: Path, learner: PopulationLearner, state: State) -> None:
        tensors, about = read_tensors(file)
        try:
            if [Config.from_json(one) for one in about["members"]] != [member.config for member in self.members]:
                raise BadFile(f"{file} belongs to another population")
            state.alive = [int(i) for i in about["alive"]]
            state.failed = {int(i): str(reason) for i, reason in about["failed"].items()}
            if len(state.alive) < len(self.members):
                learner.keep(state.alive)
            learner.restore_groups(
                [(integer("start", start, 0), vmap, names) for start, vmap, names in about["groups"]]
            )
            for i, group in enumerate(learner.groups):
                group.sums = tensors.get(f"sums/{i}")
            with torch.no_grad():
                for name, value in learner.tensors().items():
                    if tensors[name].shape != value.shape:
                        raise BadFile(f"{file} holds other networks")
                    value.copy_(tensors[name])
            for noise, saved in zip(learner.noise, tensors["noise"]):
                noise.set_state(saved.clone())
            for rng, saved in zip(state.rngs, about["rngs"]):
                rng.bit_generator.state = saved
            state.step, state.summed = integer("step", about["step"], 0), integer("summed", about["summed"], 0)
            state.first_loss = [float(value) for value in about["first_loss"]]
            state.history = [list(rows) for rows in about["history"]]
            state.trace = list(tensors["trace"].numpy()) if "trace" in tensors else []
        except BadFile:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            raise BadFile(f"{file} is not a checkpoint of a population: {error}") from None
