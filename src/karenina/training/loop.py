"""The training loop: models on their way from their first step, or their checkpoint, to their run directories.

A model by itself is a population of one. Nothing of a model depends on those beside it.
"""

import hashlib
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina._process import stop_waits, stopped
from karenina._settings import integer
from karenina.data import DataSet
from karenina.data.sampling import Pairs
from karenina.training.batches import Batches, Labels, PairBatches, to_tensor
from karenina.training.learners import PopulationLearner, Solo, VAELearner
from karenina.training.methods import TRACE_IMAGES, TRACE_LENGTH, Config
from karenina.training.run import (
    CHECKPOINT,
    FORMAT,
    OLDER,
    POPULATION,
    BadFile,
    Run,
    read_tensors,
    write_about,
    write_run,
    write_tensors,
)

if TYPE_CHECKING:
    from karenina.training.trainer import Member


class TrainingDiverged(ValueError):
    """The error where training cannot continue: a loss term is not finite, or has exploded. The message says which and
    when."""


@dataclass(frozen=True)
class Progress:
    """The progress of training.

    row: the newest row of the history of the first model, averages over the last steps. models: those that are trained
    as one at the moment, of `batch` images each. done, total: models of the whole call. updates_per_second: models x
    steps.
    """

    step: int
    steps: int
    row: dict[str, float]
    models: int
    done: int
    total: int
    updates_per_second: float
    batch: int

    @property
    def images_per_second(self) -> float:
        return self.updates_per_second * self.batch

    @property
    def seconds_left(self) -> float:
        """Return how long these models will take to the last step."""
        return self.models * (self.steps - self.step) / self.updates_per_second

    @property
    def share(self) -> float:
        """Return the fraction of the whole call that is done."""
        return (self.done + self.models * self.step / self.steps) / self.total

    def __str__(self) -> str:
        if self.step == self.steps:
            return f"{self.done + self.models} of {self.total} done"
        return f"{self.done} of {self.total} done, {self.models} at step {self.step:,}/{self.steps:,}"


@dataclass(frozen=True)
class Options:
    """Options of training that change a model by no more than rounding.

    population: how many models are trained as one at most. compile: whether torch.compile fuses the layers of a model
    that is trained by itself.
    """

    device: torch.device
    population: int | str = "auto"
    checkpoint_seconds: float = 60.0
    progress: Callable[[Progress], None] | None = None
    compile: bool = False


def identity(config: Config) -> str:
    """Return a text that is the same for equal configs alone."""
    return json.dumps(config.to_json(), sort_keys=True)


@dataclass
class State:
    """The state of training besides the weights.

    alive: the members that are still trained. sums: of each group of the learner, the values since the last row of the
    history. trace: (members, images, units) at each moment.
    """

    rngs: list[np.random.Generator]
    alive: list[int]
    step: int = 0
    summed: int = 0
    sums: list[Tensor] = field(default_factory=list)
    first_loss: list[float] = field(default_factory=list)
    history: list[list[dict[str, float]]] = field(default_factory=list)
    trace: list[NDArray[np.float16]] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)


class Population:
    """Members that are trained as one, or one by itself.

    paths: where each becomes a run, or None. folder: where several keep their checkpoints; one keeps its own beside
    its run. done, total: for progress, the models of the whole call.
    """

    def __init__(
        self,
        data: DataSet,
        members: Sequence["Member"],
        paths: Sequence[Path | None],
        options: Options,
        folder: Path | None = None,
        done: int = 0,
        total: int = 1,
    ):
        self.data, self.members, self.paths, self.options = data, list(members), list(paths), options
        self.done, self.total = done, total
        self.config = members[0].config
        self.alone = len(self.members) == 1
        self.file = self.older = None
        if self.alone and paths[0] is not None:
            self.file, self.older = paths[0] / CHECKPOINT, paths[0] / OLDER
        elif not self.alone and folder is not None:
            name = hashlib.sha256("".join(identity(m.config) for m in members).encode()).hexdigest()[:12]
            self.file = folder / POPULATION.replace("*", name)
            self.older = self.file.with_suffix(".older")

    def run(self) -> list[Run | TrainingDiverged]:
        """Train to the last step and write the runs; return them, and for members that diverged, why."""
        with _enough_memory(), _seeded(self.config.seed, self.options.device):
            learner, state = self._resume()
            for i in state.alive:  # After the models are built, so that what fails to start leaves nothing behind.
                self._write_about(i, "running")
            if self.options.compile and isinstance(learner, Solo) and isinstance(learner.learner, VAELearner):
                learner.learner.encode = torch.compile(learner.learner.encode)  # type: ignore[method-assign]
                learner.learner.decode = torch.compile(learner.learner.decode)  # type: ignore[method-assign]
            self._fit(learner, state)
        results: list[Run | TrainingDiverged] = []
        for i, (member, path) in enumerate(zip(self.members, self.paths)):
            if i in state.failed:
                which = "" if self.alone else f"{path or member.config.method}: "
                results.append(TrainingDiverged(f"{which}{state.failed[i]}"))
                continue
            history = pd.DataFrame(state.history[i]).astype({"step": "int64"})
            trace = np.stack([moment[i] for moment in state.trace]) if member.config.trace else None
            run = Run(member.config, learner.network(state.alive.index(i)), history, trace, path)
            if path is not None:
                write_run(path, run)
            results.append(run)
        for file in (self.file, self.older):
            if file is not None:
                file.unlink(missing_ok=True)
        return results

    def _write_about(self, i: int, status: str, reason: str | None = None) -> None:
        path = self.paths[i]
        if path is not None:
            write_about(path, self.members[i].config, status, reason)

    def _fit(self, learner: PopulationLearner | Solo, state: State) -> None:
        config, device, steps = self.config, self.options.device, self.config.steps
        row_every = min(max(steps // 200, 1), 100)
        moments = trace_steps(steps) if config.trace else []
        # The same images for every run on a data set, so that traces can be compared.
        watched = to_tensor(self.data.sample(TRACE_IMAGES, np.random.default_rng(0))[0], device) if moments else None
        expected = len(self.members) * steps * config.batch
        rngs = [state.rngs[i] for i in state.alive]
        batches = (
            Batches(self.data, config.batch, device, rngs, expected)
            if self.members[0].method.share is None
            else PairBatches(Pairs(self.data, config.parameters["k"]), config.batch, device, rngs, 2 * expected)
        )

        def watch() -> None:
            assert watched is not None
            units = learner.activations(watched)
            every = np.zeros((len(self.members), *units.shape[1:]), np.float16)
            every[state.alive] = units
            state.trace.append(every)

        def settle() -> None:
            """Write a checkpoint, unless there is nothing left to resume."""
            if self.file is not None and state.step < steps and state.alive:
                batches.settle()
                learner.settle()
                self._save(learner, state)

        if watched is not None and not state.trace:
            watch()
        started, first, saved = time.perf_counter(), state.step, time.monotonic()
        while state.step < steps and state.alive:
            with at_precision(config.precision, device):
                found = learner.update(batches, state.step)
            # Sums stay on the device until a row is closed: reading numbers at every step would make a GPU wait.
            if state.sums:
                for sums, values in zip(state.sums, found):
                    sums.add_(values)
            else:
                state.sums = [values.double() for values in found]
            if state.step == 0:
                state.first_loss = torch.cat([values[:, 0] for values in found]).tolist()
            state.summed += 1
            state.step += 1
            row = state.step % row_every == 0 or state.step == steps
            if row:
                self._close_row(learner, batches, state)
            if state.step in moments and state.alive:
                watch()
            if row and self.options.progress is not None and state.alive:
                models = len(state.alive)
                speed = models * (state.step - first) / max(time.perf_counter() - started, 1e-9)
                newest = state.history[state.alive[0]][-1]
                at = Progress(state.step, steps, newest, models, self.done, self.total, speed, config.batch)
                try:
                    self.options.progress(at)
                except BaseException:  # The caller stops here, and nothing that was trained is lost.
                    settle()
                    raise
            if stop_waits() or time.monotonic() - saved >= self.options.checkpoint_seconds:
                settle()
                saved = time.monotonic()
            if stop_waits() and state.step < steps:
                then = "the same call resumes" if self.file is not None else "without a directory nothing is kept"
                count = "" if self.total == 1 else f", {self.done} of {self.total} models done"
                raise stopped(f"stopped at step {state.step:,} of {steps:,}{count}; {then}")

    def _close_row(self, learner: PopulationLearner | Solo, batches: Batches, state: State) -> None:
        """Write a row of every member's history, and leave out who has diverged."""
        healthy, gone = learner.finite(), []
        for group, sums in zip(learner.groups, state.sums):
            names = [*group.names, *(f"kl_{j}" for j in range(sums.shape[1] - len(group.names)))]
            for place, means in zip(range(group.start, group.stop), (sums / state.summed).tolist()):
                i = state.alive[place]
                state.history[i].append({"step": state.step, **dict(zip(names, means))})
                reason = divergence(state.history[i][-1], state.first_loss[i], healthy[place])
                if reason:
                    gone.append(place)
                    state.failed[i] = reason
                    self._write_about(i, "failed", reason)
        state.sums, state.summed = [], 0
        if gone:
            kept = [place for place in range(len(state.alive)) if place not in gone]
            state.alive = [state.alive[place] for place in kept]
            if kept:
                learner.keep(kept)
                batches.keep(kept)

    def _fresh(self) -> tuple[PopulationLearner | Solo, State]:
        device, seeds = self.options.device, [member.config.seed for member in self.members]
        noise = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        labels = [Labels.of(self.data, member.config, device) for member in self.members]
        try:
            size = float(self.data.drawable)
        except TypeError:  # Sets of continuous factors may have no length.
            size = float("inf")
        make = Solo if self.alone else PopulationLearner
        learner = make(self.members, size, noise, device, labels)
        rngs = [np.random.default_rng(seed) for seed in seeds]
        return learner, State(rngs, list(range(len(seeds))), history=[[] for _ in seeds])

    def _save(self, learner: PopulationLearner | Solo, state: State) -> None:
        assert self.file is not None
        tensors = {**learner.tensors(), "noise": torch.stack([noise.get_state() for noise in learner.noise])}
        tensors["torch"] = torch.get_rng_state()
        tensors |= {f"sums/{i}": sums for i, sums in enumerate(state.sums)}
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
        except OSError as error:  # The disk is full, but the checkpoint before is there, and training may yet end well.
            warnings.warn(f"no checkpoint at step {state.step}: {error}", stacklevel=4)

    def _resume(self) -> tuple[PopulationLearner | Solo, State]:
        """Return where the newest intact checkpoint left training, or its first step."""
        kept = [file for file in (self.file, self.older) if file is not None and file.exists()]
        for i, file in enumerate(kept):
            learner, state = self._fresh()
            try:
                self._load(file, learner, state)
            except BadFile as error:
                last = i + 1 == len(kept)
                then = "starting again from the first step" if last else "resuming from the checkpoint before"
                warnings.warn(f"{then}: {error}", stacklevel=5)
                continue
            if file == self.older and self.file is not None:
                file.replace(self.file)  # The next checkpoint must not replace it by the damaged one.
            return learner, state
        return self._fresh()

    def _load(self, file: Path, learner: PopulationLearner | Solo, state: State) -> None:
        """Restore learner and state from a checkpoint. After BadFile they must not be used any more."""
        tensors, about = read_tensors(file)
        try:
            if "config" in about:
                tensors, about = _of_one(tensors, about)
            if [Config.from_json(one) for one in about["members"]] != [member.config for member in self.members]:
                raise BadFile(f"{file} belongs to another {'run' if self.alone else 'population'}")
            state.alive = [int(i) for i in about["alive"]]
            state.failed = {int(i): str(reason) for i, reason in about["failed"].items()}
            if len(state.alive) < len(self.members):
                learner.keep(state.alive)
            learner.restore_groups(
                [(integer("start", start, 0), vmap, names) for start, vmap, names in about["groups"]]
            )
            state.sums = [tensors[f"sums/{i}"] for i in range(len(learner.groups)) if f"sums/{i}" in tensors]
            state.sums = [sums.to(self.options.device) for sums in state.sums]
            wanted = learner.tensors()
            found = {name for name in tensors if name.startswith(("module/", "optimiser/"))}
            like = {name: (value.shape, value.dtype) for name, value in wanted.items()}
            if like != {name: (tensors[name].shape, tensors[name].dtype) for name in found}:
                raise BadFile(f"{file} holds other networks, or moments of others")
            with torch.no_grad():
                for name, value in wanted.items():
                    value.copy_(tensors[name])
            for noise, saved in zip(learner.noise, tensors["noise"]):
                noise.set_state(saved.clone())
            for rng, saved in zip(state.rngs, about["rngs"]):
                rng.bit_generator.state = saved
            state.step, state.summed = integer("step", about["step"], 0), integer("summed", about["summed"], 0)
            state.first_loss = [float(value) for value in about["first_loss"]]
            state.history = [list(rows) for rows in about["history"]]
            for rows in state.history:
                for row in rows:
                    if list(row) != list(rows[0]) or not all(isinstance(value, int | float) for value in row.values()):
                        raise BadFile(f"{file} has a history with odd columns")
            state.trace = list(tensors["trace"].numpy()) if "trace" in tensors else []
            if "torch" in tensors:
                torch.set_rng_state(tensors["torch"])
        except BadFile:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
            raise BadFile(f"{file} lacks something or holds something odd ({error})") from None


def _of_one(tensors: dict[str, Tensor], about: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a checkpoint as it was written before a run was a population of one in the form of today."""
    names, kls = about["names"], sum(name.startswith("kl_") for name in about["names"])
    now = {"members": [about["config"]], "alive": [0], "failed": {}, "rngs": [about["rng"]]}
    now |= {name: [about[name]] for name in ("first_loss", "history")}
    now["groups"] = [[0, False, names[: len(names) - kls]]]
    firsts = {new: tensors[old][None] for old, new in (("noise", "noise"), ("sums", "sums/0")) if old in tensors}
    traces = {"trace": tensors["trace"][:, None]} if "trace" in tensors else {}
    return tensors | firsts | traces, about | now


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator, from which layers (dropout) may draw, and put it back afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _enough_memory() -> Iterator[None]:
    """Raise a ValueError when there is not."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate" in str(error):  # torch's words, on every device
            raise ValueError(f"not enough memory for this model: {str(error).splitlines()[0]}") from error
        raise


_PROBE = """import torch
with torch.autocast("cpu", torch.bfloat16):
    torch.nn.Conv2d(1, 4, 4)(torch.ones(2, 1, 16, 16)) + torch.nn.Linear(64, 4)(torch.ones(64, 64)).sum()"""


@cache
def _bf16_on_cpu() -> bool:
    """Return whether it works, tried out in another process: on virtual machines that hide part of their CPU, torch
    dies of it (SIGILL)."""
    return subprocess.run([sys.executable, "-P", "-c", _PROBE], capture_output=True).returncode == 0


def check_precision(precision: str, device: torch.device) -> None:
    """Raise a ValueError if this device cannot compute in this precision."""
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


def divergence(row: dict[str, float], first_loss: float, finite: bool) -> str | None:
    """Return why training has diverged by this row of the history, or None. finite: whether the weights are."""
    advice = f"by step {row['step']:.0f}: try a smaller learning rate"
    for name, value in row.items():
        if not np.isfinite(value):
            return f"{name} is {value} {advice}"
    if abs(row["loss"]) > 1e4 * max(abs(first_loss), 1.0):
        return f"the loss grew from {first_loss:.4g} to {row['loss']:.4g} {advice}"
    return None if finite else f"weights are not finite {advice}"


def trace_steps(steps: int) -> list[int]:
    """Return the steps of a trace: 0 and 29 more moments up to the last step, evenly spaced on a log scale where
    integers allow."""
    moments = [0]
    for moment in np.geomspace(1, steps, TRACE_LENGTH - 1):
        moments.append(max(round(float(moment)), moments[-1] + 1))
    return moments
