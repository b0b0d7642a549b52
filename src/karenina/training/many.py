"""`karenina.train_many`: many models of one data set, trained together where that is faster."""

import hashlib
import inspect
import itertools
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina._files import sweep
from karenina.data import DataSet
from karenina.models import fast
from karenina.models.objectives import Objective
from karenina.training.batches import Batches
from karenina.training.checkpoint import FORMAT, BadFile, read_tensors, write_tensors
from karenina.training.config import Config, integer, make_config, number, shown
from karenina.training.loop import TrainingDiverged, divergence, to_tensor, trace_steps
from karenina.training.methods import Method, find
from karenina.training.population import Member, PopulationLearner, grouped
from karenina.training.run import Run, make_network, shapes, write_about, write_run
from karenina.training.train import (
    _CHECKPOINT,
    _OLDER,
    _alone,
    _as_begun,
    _look_back,
    _train,
    as_data,
    check_memory,
    pick_device,
    size_of,
    train,
)

# More models than this gain nothing on a CPU (benchmarks/population.py).
_MOST_MODELS = 32
_MEMORY_SHARE = 0.5
# The arguments of `train` that a grid can sweep, besides the method's own.
_SETTINGS = ("steps", "network", "latents", "batch", "learning_rate", "init", "decoder", "reconstruction_weight", "trace")


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


def train_many(
    data: DataSet | str | os.PathLike[str] | NDArray[Any],
    method: str | Objective | Method = "beta_vae",
    grid: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 5,
    *,
    out: str | os.PathLike[str] | None = None,
    population: int | str = "auto",
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    progress: Callable[[PopulationProgress], None] | None = None,
    **fixed: Any,
) -> list[Run]:
    """Train a model for every combination in a grid and every seed; those of one network shape are trained as one.

    Parameters
    ----------
    data : a data set, its name or path, or images (n, c, h, w).
    method : as for `karenina.train`.
    grid : name -> values to sweep, of the method's parameters, of the settings of `train`, or "method" itself.
    seeds : how many, or which.
    out : a directory; each model becomes an ordinary run in a directory below it, named after what was swept. The same
        call resumes after an interruption and trains only what is missing, also with a larger grid.
    population : how many models are trained as one at most. "auto" is as many as memory and speed allow; 1 trains one
        model after the other, to the byte as `karenina.train` does.
    checkpoint_seconds : a population can lose this much work when killed. It ends with the same bytes.
    device : auto, cpu, cuda or mps.
    progress : called with a `PopulationProgress` about 200 times per population.
    **fixed : settings of `train` and parameters of the method that all models share.

    Returns
    -------
    list of Run
        In the order of the grid, seeds fastest. A model that diverges is left out, with a warning that says why (and
        its directory says so, too); the others are not touched by it.

    Notes
    -----
    A model draws its initial weights, batches and noise from its own seed, as it would alone. Batched products round
    differently, so its weights differ from those of `karenina.train` in the last digits at first, and more the longer
    it is trained; its scores differ as those of two runs do whose rounding differs.

    >>> runs = train_many("blobs", "beta_vae", {"beta": [1, 16]}, seeds=2, latents=3, steps=2)
    >>> [(run.config.parameters["beta"], run.config.seed) for run in runs]
    [(1.0, 0), (1.0, 1), (16.0, 0), (16.0, 1)]
    """
    if population != "auto":
        integer("population", population, 1)
    if number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise ValueError(f"checkpoint_seconds must not be negative, got {checkpoint_seconds}")
    data = as_data(data)
    where = pick_device(device)
    points = expand(method, grid or {}, seeds, fixed)
    members = []
    for point in points:
        described = find(point.method)[1]
        members.append(Member(make_config(data, point.method, point.parameters, point.settings), described))
        check_memory(members[-1].config, described)
    folder = None if out is None else Path(out)
    if folder is not None and not os.fspath(folder):
        raise ValueError("out is empty; expected a directory")
    paths = [None if folder is None else folder / point.name for point in points]
    free = [[name for name, value in point.settings.items() if value == "auto"] for point in points]
    options = Options(where, population, checkpoint_seconds, progress)
    found = train_members(data, members, paths, options, folder, free)
    failed = [result for result in found if isinstance(result, TrainingDiverged)]
    for error in failed:
        warnings.warn(str(error), stacklevel=2)
    return [result for result in found if isinstance(result, Run)]


@dataclass(frozen=True)
class Point:
    """One model of a grid, and the name of its directory."""

    method: str | Objective | Method
    parameters: dict[str, Any]
    settings: dict[str, Any]
    name: str


def expand(
    method: str | Objective | Method, grid: Mapping[str, Any], seeds: int | Sequence[int], fixed: Mapping[str, Any]
) -> list[Point]:
    """The models of a grid, seeds fastest."""
    if not isinstance(grid, Mapping):
        raise ValueError(f'grid should map names to values, as in {{"beta": [1, 4]}}, got {shown(grid)}')
    if isinstance(seeds, int | np.integer):
        seeds = range(integer("seeds", seeds, 1))
    elif not len(seeds) or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds should be a number of seeds or different seeds, got {shown(seeds)}")
    twice = sorted(set(grid) & set(fixed))
    if twice or "seed" in {*grid, *fixed}:
        odd = twice[0] if twice else "seed"
        raise ValueError(f"{odd} is given twice" if twice else "give seeds=, not seed")
    columns = [list(v) if isinstance(v, Sequence | np.ndarray) and not isinstance(v, str) else [v] for v in grid.values()]
    for name, column in zip(grid, columns):
        if not column or len({repr(value) for value in column}) != len(column):
            raise ValueError(f"{name} should have one value or several different ones, got {shown(column)}")
    defaults = {name: inspect.signature(train).parameters[name].default for name in _SETTINGS}
    points = []
    for values in itertools.product(*columns):
        chosen = dict(zip(grid, (v.item() if isinstance(v, np.generic) else v for v in values)))
        swept = "".join(f"_{name}={value}" for name, value in chosen.items() if name != "method")
        of = chosen.pop("method", method)
        given = {**fixed, **chosen}
        settings = {name: given.pop(name, default) for name, default in defaults.items()}
        title = find(of)[0].rsplit(".", 1)[-1]
        for seed in seeds:
            name = f"{title}{swept}_seed={seed}".replace(os.sep, "-")
            points.append(Point(of, given, {**settings, "seed": seed}, name))
    return points


@dataclass(frozen=True)
class Options:
    """How members are trained; nothing here changes what a member becomes beyond rounding."""

    device: torch.device
    population: int | str = "auto"
    checkpoint_seconds: float = 60.0
    progress: Callable[[PopulationProgress], None] | None = None


def train_members(
    data: DataSet,
    members: Sequence[Member],
    paths: Sequence[Path | None],
    options: Options,
    folder: Path | None,
    free: Sequence[list[str]] | None = None,
) -> list[Run | TrainingDiverged]:
    """A run for each member, or why it diverged. folder: where populations keep their checkpoints.

    free: the settings of each member that were left to us, which stay what they were when its run began.
    """
    fast.keep_memory()
    found: dict[int, Run | TrainingDiverged] = {}
    members = list(members)
    with ExitStack() as locks:
        for i, path in enumerate(paths):
            if path is None:
                continue
            try:
                path.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise ValueError(f"{path} is not a directory, nor can it be made one: a file is in the way") from None
            locks.enter_context(_alone(path))
            if free is not None:
                members[i] = Member(_as_begun(path, members[i].config, free[i]), members[i].method)
            try:
                done = _look_back(path, members[i].config)
            except TrainingDiverged as error:
                found[i] = error
                continue
            sweep(path)
            if done is not None:
                found[i] = done
        left = [i for i in range(len(members)) if i not in found]
        begun, left = _begun(folder, members, left)
        alone, crowds = _pack(members, paths, left, options)
        for indices in [*begun, *crowds]:
            crowd = [members[i] for i in indices]
            done = len(found)
            results = _Population(data, crowd, [paths[i] for i in indices], options, folder, done, len(members)).run()
            found |= dict(zip(indices, results))
        for i in alone:
            try:
                found[i] = _train(
                    data, members[i].config, members[i].method, options.device, paths[i], options.checkpoint_seconds, None
                )
            except TrainingDiverged as error:
                found[i] = error
            if options.progress is not None:
                steps = members[i].config.steps
                options.progress(PopulationProgress(steps, steps, 1, len(found), len(members), math.nan, 0.0))
    return [found[i] for i in range(len(members))]


def _begun(folder: Path | None, members: Sequence[Member], left: list[int]) -> tuple[list[list[int]], list[int]]:
    """Populations that were interrupted and whose members are all still wanted, and what is left besides."""
    found = []
    files = [] if folder is None or not folder.is_dir() else sorted(folder.glob("population-*.safetensors"))
    for file in files:
        try:
            configs = [Config.from_json(one) for one in read_tensors(file)[1]["members"]]
        except (BadFile, KeyError, TypeError, ValueError):
            continue  # its members are trained anew
        wanted = {_identity(members[i].config): i for i in left}
        names = [_identity(config) for config in configs]
        if all(name in wanted for name in names):
            found.append([wanted[name] for name in names])
            left = [i for i in left if i not in found[-1]]
    return found, left


def _identity(config: Config) -> str:
    return json.dumps(config.to_json(), sort_keys=True)


def _pack(
    members: Sequence[Member], paths: Sequence[Path | None], left: list[int], options: Options
) -> tuple[list[int], list[list[int]]]:
    """Members to train one by one, and populations of the rest, of no more than fit."""

    def started(i: int) -> bool:
        path = paths[i]
        return path is not None and any((path / name).exists() for name in (_CHECKPOINT, _OLDER))

    alone = [i for i in left if options.population == 1 or started(i)]
    crowds = []
    rest = [i for i in left if i not in alone]
    for group in grouped([members[i] for i in rest]):
        indices = [rest[j] for j in group]
        if len(indices) == 1 or (options.population == "auto" and not worth_stacking(members[indices[0]], options.device)):
            alone += indices
            continue
        most = _MOST_MODELS if options.population == "auto" else int(options.population)
        fit = max(int(_MEMORY_SHARE * memory(options.device) / bytes_of(members[indices[0]])), 1)
        if fit < min(most, len(indices)) and options.population != "auto":
            warnings.warn(f"{most} models need more memory than there is: training {fit} at a time", stacklevel=4)
        parts = math.ceil(len(indices) / min(most, fit))
        for part in np.array_split(indices, parts):
            (crowds if len(part) > 1 else alone).extend([part.tolist()] if len(part) > 1 else part.tolist())
    return sorted(alone), crowds


def worth_stacking(member: Member, device: torch.device) -> bool:
    """Whether a population of such members is faster than one after the other.

    Fully connected networks: always. Convolutions: on a CPU the layers alone keep it busy, and stacked ones are slower
    (benchmarks/population.py); an accelerator is idle most of the time with one small model.
    """
    if not member.stackable:
        return False
    with torch.device("meta"):
        network = make_network(member.config, member.method)
    convolutions = any(isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) for layer in network.modules())
    return device.type != "cpu" or not convolutions


def memory(device: torch.device) -> float:
    """Bytes that are free."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return math.inf


def bytes_of(member: Member) -> float:
    """What a member of a population takes: weights, gradients and moments, and activations and their gradients."""
    c, method = member.config, member.method
    modules: list[Any] = [lambda: make_network(c, method)]
    modules += [lambda one=one: one.build(c.latents, c.parameters) for one in method.beside]
    found = [list(shapes(make).values()) for make in modules]
    weights = sum(math.prod(shape) for one in found for shape in one)
    units = sum(shape[0] for one in found for shape in one if len(shape) == 1)
    return 4 * (4 * weights + c.batch * (4 * units + 6 * math.prod(c.image_shape)))


@dataclass
class _State:
    """All that changes while a population is trained, besides its weights. `alive`: which members still are."""

    rngs: list[np.random.Generator]
    alive: list[int]
    step: int = 0
    summed: int = 0
    first_loss: list[float] = field(default_factory=list)
    history: list[list[dict[str, float]]] = field(default_factory=list)
    trace: list[NDArray[np.float16]] = field(default_factory=list)  # (all members, images, units) at each moment
    failed: dict[int, str] = field(default_factory=dict)


class _Population:
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
        name = hashlib.sha256("".join(_identity(m.config) for m in members).encode()).hexdigest()[:12]
        self.file = None if folder is None else folder / f"population-{name}.safetensors"
        self.older = None if self.file is None else self.file.with_suffix(".older")

    def run(self) -> list[Run | TrainingDiverged]:
        learner, state = self._resume()
        for path, member in zip(self.paths, self.members):
            if path is not None:
                write_about(path, member.config, "running")
        self._fit(learner, state)
        results: list[Run | TrainingDiverged] = []
        for i, member in enumerate(self.members):
            if i in state.failed:
                results.append(TrainingDiverged(f"{self.paths[i] or member.config.method}: {state.failed[i]}"))
                continue
            history = pd.DataFrame(state.history[i]).astype({"step": "int64"})
            trace = np.stack([moment[i] for moment in state.trace]) if member.config.trace else None
            network: Any = learner.network(state.alive.index(i))
            run = Run(member.config, network, history, trace, self.paths[i])
            path = self.paths[i]
            if path is not None:
                write_run(path, run)
            results.append(run)
        for file in (self.file, self.older):
            if file is not None:
                file.unlink(missing_ok=True)
        return results

    def _fit(self, learner: PopulationLearner, state: _State) -> None:
        config, device, steps = self.config, self.options.device, self.config.steps
        row_every = min(max(steps // 200, 1), 100)
        moments = trace_steps(steps) if config.trace else []
        watched = to_tensor(self.data.sample(200, np.random.default_rng(0))[0], device) if config.trace else None
        batches = Batches(self.data, config.batch, device)
        if watched is not None and not state.trace:
            self._watch(learner, state, watched)
        started, first = time.perf_counter(), state.step
        saved = time.monotonic()
        while state.step < steps and state.alive:
            self._add(learner, state, learner.update(batches, [state.rngs[i] for i in state.alive], state.step))
            state.step += 1
            if state.step % row_every == 0 or state.step == steps:
                self._close_row(learner, state)
                self._report(state, started, first)
            if watched is not None and state.step in moments and state.alive:
                self._watch(learner, state, watched)
            if self.file is not None and time.monotonic() - saved >= self.options.checkpoint_seconds:
                if state.step < steps and state.alive:
                    self._save(learner, state)
                saved = time.monotonic()

    def _report(self, state: _State, started: float, first: int) -> None:
        if self.options.progress is None:
            return
        seconds = time.perf_counter() - started
        speed = (state.step - first) / max(seconds, 1e-9)
        left = (self.config.steps - state.step) / speed
        models = len(state.alive)
        self.options.progress(
            PopulationProgress(state.step, self.config.steps, models, self.done, self.total, speed * models, left)
        )

    def _watch(self, learner: PopulationLearner, state: _State, watched: Tensor) -> None:
        units = learner.activations(watched)
        every = np.zeros((len(self.members), *units.shape[1:]), np.float16)
        every[state.alive] = units
        state.trace.append(every)

    def _add(self, learner: PopulationLearner, state: _State, found: list[tuple[Tensor, Tensor]]) -> None:
        """Sums stay on the device until a row is closed."""
        for group, (values, kl) in zip(learner.groups, found):
            row = torch.cat([values, kl], 1).double()
            group.sums = row if group.sums is None else group.sums.add_(row)
        if state.step == 0:
            state.first_loss = torch.cat([values[:, 0] for values, _ in found]).tolist()
        state.summed += 1

    def _close_row(self, learner: PopulationLearner, state: _State) -> None:
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

    def _fresh(self) -> tuple[PopulationLearner, _State]:
        k = range(len(self.members))
        noise = [torch.Generator(self.options.device).manual_seed(m.config.seed) for m in self.members]
        rngs = [np.random.default_rng(member.config.seed) for member in self.members]
        learner = PopulationLearner(self.members, size_of(self.data), noise, self.options.device)
        return learner, _State(rngs, list(k), history=[[] for _ in k])

    def _save(self, learner: PopulationLearner, state: _State) -> None:
        assert self.file is not None
        # One tensor counts the updates of all parameters, and a file must not hold one twice.
        tensors = {name: value.clone() for name, value in learner.tensors().items()}
        tensors["noise"] = torch.stack([noise.get_state() for noise in learner.noise])
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
            "groups": [[group.start, group.stop, group.how, group.names] for group in learner.groups],
        }
        try:
            write_tensors(self.file, tensors, about, older=self.older)
        except OSError as error:  # a full disk: the checkpoint before is still there
            warnings.warn(f"no checkpoint at step {state.step}: {error}", stacklevel=4)

    def _resume(self) -> tuple[PopulationLearner, _State]:
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
            return learner, state
        return self._fresh()

    def _load(self, file: Path, learner: PopulationLearner, state: _State) -> None:
        tensors, about = read_tensors(file)
        try:
            if [Config.from_json(one) for one in about["members"]] != [member.config for member in self.members]:
                raise BadFile(f"{file} belongs to another population")
            state.alive = [int(i) for i in about["alive"]]
            state.failed = {int(i): str(reason) for i, reason in about["failed"].items()}
            if len(state.alive) < len(self.members):
                learner.keep(state.alive)
            finely = any(how != "vmap" for _, _, how, _ in about["groups"]) or len(about["groups"]) != len(learner.groups)
            learner.groups = learner._groups(finely)
            if [[g.start, g.stop] for g in learner.groups] != [one[:2] for one in about["groups"]]:
                raise BadFile(f"{file} holds another order of models")
            for i, (group, (_, _, how, names)) in enumerate(zip(learner.groups, about["groups"])):
                group.how, group.names, group.sums = str(how), list(names), tensors.get(f"sums/{i}")
            learner.settled = True
            with torch.no_grad():
                for name, value in learner.tensors().items():
                    if tensors[name].shape != value.shape:
                        raise BadFile(f"{file} holds other networks")
                    value.copy_(tensors[name])
            for noise, saved in zip(learner.noise, tensors["noise"]):
                noise.set_state(saved)
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
