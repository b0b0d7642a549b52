"""`karenina.train_many`: many models of one data set, trained together where that is faster."""

import inspect
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from karenina._files import make_folder, sweep
from karenina._notebook import bar, in_notebook
from karenina._process import stops_wait
from karenina.data import DataSet
from karenina.models import fast
from karenina.models.objectives import Objective
from karenina.models.supervised import unsupervised
from karenina.training.checkpoint import BadFile, read_tensors
from karenina.training.config import SETTINGS, Config, integer, make_config, number, shown
from karenina.training.loop import Progress, TrainingDiverged, check_precision
from karenina.training.methods import Method, find, find_for
from karenina.training.population import Options, Population, PopulationProgress, identity
from karenina.training.run import Run, make_network
from karenina.training.single import (
    alone,
    as_begun,
    as_data,
    begun,
    check_memory,
    look_back,
    pick_device,
    train,
    train_config,
    trained_shapes,
)
from karenina.training.stacked_learner import Member, grouped

# More models than this gain nothing on a CPU (benchmarks/population.py).
_MOST_MODELS = 32
_MEMORY_SHARE = 0.5


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
    progress : called with a `PopulationProgress` about 200 times per population; in a notebook a bar without it.
    **fixed : settings of `train` and parameters of the method that all models share.

    Returns
    -------
    list of Run
        In the order of the grid, seeds fastest. A model that diverges is left out, with a warning that says why (and
        its directory says so, too); the others are not touched by it.

    Notes
    -----
    A model draws its initial weights, batches and noise from its own seed and is what `karenina.train` makes of it: to
    the bit on the CPUs tried, elsewhere as far as batched products round like single ones (docs/populations.md).

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
        described = find_for(point.method, point.parameters)
        members.append(Member(make_config(data, point.method, point.parameters, point.settings), described))
        check_memory(members[-1].config, described)
        check_precision(members[-1].config.precision, where)
    equal: dict[str, str] = {}
    for point, member in zip(points, members):
        if equal.setdefault(identity(member.config), point.name) != point.name:
            first = equal[identity(member.config)]
            raise ValueError(f"the grid has a model twice: {first} and {point.name} are the same")
    if out is not None and not os.fspath(out):
        raise ValueError("out is empty; expected a directory")
    folder = None if out is None else Path(out)
    paths = [None if folder is None else folder / point.name for point in points]
    free = [[name for name, value in point.settings.items() if value == "auto"] for point in points]
    if progress is None and in_notebook():
        show = bar(f"{len(points)} models")
        progress = lambda at: show(at.share, str(at))  # noqa: E731
    options = Options(where, population, checkpoint_seconds, progress)
    found = train_members(data, members, paths, options, folder, free)
    for result in found:
        if isinstance(result, TrainingDiverged):
            warnings.warn(str(result), stacklevel=2)
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
    columns = [
        list(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [value]
        for value in grid.values()
    ]
    for name, column in zip(grid, columns):
        if not column or len({repr(value) for value in column}) != len(column):
            raise ValueError(f"{name} should have one value or several different ones, got {shown(column)}")
    defaults = {name: inspect.signature(train).parameters[name].default for name in SETTINGS}
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
    _check_names(members)
    found: dict[int, Run | TrainingDiverged] = {}
    members = list(members)
    if folder is not None:
        sweep(folder)
    with stops_wait(), ExitStack() as locks:
        for i, path in enumerate(paths):
            if path is None:
                continue
            locks.enter_context(alone(make_folder(path)))
            if free is not None:
                members[i] = Member(as_begun(path, members[i].config, free[i]), members[i].method)
            try:
                done = look_back(path, members[i].config, members[i].method)
            except TrainingDiverged as error:
                found[i] = error
                continue
            sweep(path)
            if done is not None:
                found[i] = done
        left = [i for i in range(len(members)) if i not in found]
        resumed, left = _resumed(folder, members, left, found)
        single, crowds = _pack(members, paths, left, options)
        for indices in [*resumed, *crowds]:
            crowd = [members[i] for i in indices]
            into = [paths[i] for i in indices]
            results = Population(data, crowd, into, options, folder, len(found), len(members)).run()
            found |= dict(zip(indices, results))
        for i in single:
            one = members[i]
            show = _shown_alone(options, one.config, len(found), len(members))
            try:
                found[i] = train_config(
                    data, one.config, one.method, options.device, paths[i], options.checkpoint_seconds, show
                )
            except TrainingDiverged as error:
                found[i] = error
            if options.progress is not None:
                steps = members[i].config.steps
                options.progress(PopulationProgress(steps, steps, 0, len(found), len(members), math.nan, 0.0))
        _drop_outdated(folder, members)
    return [found[i] for i in range(len(members))]


def _drop_outdated(folder: Path | None, finished: Sequence[Member]) -> None:
    """Remove checkpoints of populations, of a larger grid say, some of whose members were finished without them."""
    known = {identity(member.config) for member in finished}
    for file, configs in _checkpoints(folder):
        if known & {identity(config) for config in configs}:
            file.unlink(missing_ok=True)
            file.with_suffix(".older").unlink(missing_ok=True)


def _checkpoints(folder: Path | None) -> Iterator[tuple[Path, list[Config]]]:
    """Yield the checkpoints of populations in a folder that can be read, and the configs of their members."""
    for file in [] if folder is None or not folder.is_dir() else sorted(folder.glob("population-*.safetensors")):
        with suppress(BadFile, KeyError, TypeError, ValueError):
            yield file, [Config.from_json(one) for one in read_tensors(file)[1]["members"]]


def _check_names(members: Sequence[Member]) -> None:
    """A ValueError where two methods of one name would give runs that nothing tells apart."""
    seen: dict[str, Method] = {}
    for member in members:
        plain = replace(member.method, objective=unsupervised(member.method.objective))
        if seen.setdefault(identity(member.config), plain) != plain:
            raise ValueError(
                f"two different methods are called {member.config.method}, with equal parameters: "
                "give each objective a name of its own, or a parameter in which they differ"
            )


def _shown_alone(options: Options, config: Config, done: int, total: int) -> Callable[[Progress], None] | None:
    """The progress of a model that is trained by itself, in the words of a population."""
    tell = options.progress
    if tell is None:
        return None

    def show(at: Progress) -> None:
        if at.step < at.steps:
            speed = at.images_per_second / config.batch
            tell(PopulationProgress(at.step, at.steps, 1, done, total, speed, math.nan))

    return show


def _resumed(
    folder: Path | None, members: Sequence[Member], left: list[int], found: Mapping[int, Run | TrainingDiverged]
) -> tuple[list[list[int]], list[int]]:
    """Populations that were interrupted and whose members are all wanted, and what is left besides.

    A member that is finished already, because the population was killed while it wrote its runs, comes along.
    """
    resumed = []
    for _, configs in _checkpoints(folder):  # members of those that cannot be read are trained anew
        wanted = {identity(members[i].config): i for i in [*left, *found]}
        indices = [wanted.get(identity(config), -1) for config in configs]
        if -1 not in indices and set(indices) & set(left):
            resumed.append(indices)
            left = [i for i in left if i not in indices]
    return resumed, left


def _pack(
    members: Sequence[Member], paths: Sequence[Path | None], left: list[int], options: Options
) -> tuple[list[int], list[list[int]]]:
    """Members to train one by one, and populations of the rest, of no more than fit."""

    single = [i for i in left if options.population == 1 or begun(paths[i])]
    crowds = []
    rest = [i for i in left if i not in single]
    for group in grouped([members[i] for i in rest]):
        indices = [rest[j] for j in group]
        first = members[indices[0]]
        if len(indices) == 1 or (options.population == "auto" and not worth_stacking(first, options.device)):
            single += indices
            continue
        most = _MOST_MODELS if options.population == "auto" else int(options.population)
        fit = max(int(_MEMORY_SHARE * memory(options.device) / bytes_of(first)), 1)
        if fit < min(most, len(indices)) and options.population != "auto":
            warnings.warn(f"{most} models need more memory than there is: training {fit} at a time", stacklevel=4)
        for part in np.array_split(indices, math.ceil(len(indices) / min(most, fit))):
            if len(part) == 1:
                single += part.tolist()
            else:
                crowds.append(part.tolist())
    return sorted(single), crowds


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
    c = member.config
    found = [shape for module in trained_shapes(c, member.method) for shape in module]
    weights = sum(map(math.prod, found))
    units = sum(shape[0] for shape in found if len(shape) == 1)
    return 4 * (4 * weights + c.batch * (4 * units + 6 * math.prod(c.image_shape)))
