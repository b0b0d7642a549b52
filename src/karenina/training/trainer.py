"""Train models: `train` a data set, a method and a seed -> a run; `train_many` a grid and seeds -> runs."""

import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from karenina._files import held, leftovers, make_folder, sweep
from karenina._notebook import bar, in_notebook
from karenina._process import stops_wait
from karenina._settings import SETTINGS, integer, number, shown, split_settings, with_settings
from karenina.data import DataSet, TableDataSet, load
from karenina.models import fast
from karenina.models.networks import Made, OwnNetworks, own_networks
from karenina.models.objectives import Objective, unsupervised
from karenina.numerics.checks import as_array
from karenina.training.batches import Batches, Labels, to_tensor
from karenina.training.learners import (
    PopulationLearner,
    VAELearner,
    first_activations,
    make_learner,
    network_of,
    objective_key,
)
from karenina.training.loop import Options, Population, Progress, TrainingDiverged, check_precision, identity
from karenina.training.methods import METHODS, Config, Method, find, find_for, make_config
from karenina.training.run import (
    CHECKPOINT,
    OLDER,
    BadFile,
    Run,
    check_images,
    make_network,
    open_as,
    pick_device,
    read_about,
    read_tensors,
    shapes,
    write_about,
    write_run,
)

_MOST_IMAGES = 10_000  # A closed form is fitted to no more.


@dataclass(frozen=True)
class Member:
    """One model of a population: its config and its method."""

    config: Config
    method: Method

    @property
    def stackable(self) -> bool:
        """Return whether its training is an objective on batches, with networks that can share a stack."""
        if self.method.learner is not VAELearner or self.method.fit is not None:
            return False
        if self.config.method not in METHODS:
            return _same_as_alone(self)
        with torch.device("meta"):
            network = make_network(self.config, self.method)
        return not any(True for _ in network.buffers())  # Batch normalisation has buffers, and cannot be stacked.

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return what members of one population have in common."""
        c = self.config
        beside = tuple(
            (id(one), *((name, c.parameters[name]) for name in sorted(one.defaults()))) for one in self.method.beside
        )
        from_pairs = (id(self.method.share), *((name, c.parameters[name]) for name in sorted(self.method.parameters)))
        settings = (getattr(c, name) for name in SETTINGS if name != "init")
        return (c.data, c.images, c.image_shape, *settings, beside, from_pairs, self.method.network)


@with_settings()
def train(
    data: DataSet | str | os.PathLike[str] | NDArray[Any],
    method: str | Objective | Method = "beta_vae",
    *,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    encoder: Made | None = None,
    likelihood: str | None = None,
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    compile: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **given: Any,
) -> Run:
    """Train a model; with `out`, keep it in that directory and resume there if it was interrupted.

    Parameters
    ----------
    data : a data set, its name or path, or images (n, c, h, w), uint8 or floats in [0, 1]
    method : vae, beta_vae, annealed_vae, factor_vae, beta_tcvae, dip_vae_i, dip_vae_ii, infogan, pca, qlae, hfs
        From pairs of images ada_gvae, ada_mlvae (docs/weak_supervision.md). Or an objective or a method of your own
        (see karenina.training.methods).
    seed : int
        The same one gives the same bytes on the same machine with the same number of torch's threads. More threads may
        add up in another order, and codes then differ by rounding after some steps.
    steps : int
        Updates, each from `batch` images drawn with replacement (pca: from as many images, at most 10,000).
    out : directory, optional
    network : see karenina.models.networks.NETWORKS
        "auto" takes conv64, conv32 or mlp, by image size.
    latents, batch : int
    learning_rate : float or "auto"
        "auto" is 1e-3 for mlp, mlp256 and linear and 1e-4, the papers' value, for the others, but for conv64,
        conv64_released, conv32 and fc with init "he" and networks of your own 10 / steps, from 1e-4 to 1e-3, so that a
        short run gives a useful model (infogan always has 1e-4 there).
    init : {"auto", "torch", "glorot", "he"}
        Initial weights (see docs/methods.md). "auto" is torch for mlp, mlp256 and linear and he for the others;
        Locatello et al. (2019) used glorot.
    encoder, decoder : torch modules, or functions that make them, optional
        Networks of your own in place of `network` (docs/own_method.md). The encoder takes images (n, c, h, w) in [0, 1]
        and gives means and log-variances, (n, 2 * latents) or two tensors (n, latents); the decoder takes codes
        (n, latents) and gives logits, or means, of images. A module is copied and begins with its weights; a function
        (or class) is called once for each run, seeded. They are not stored: a run needs them to resume and to `open`.
    decoder : {"bernoulli", "gaussian"}, where it is no network
        The likelihood of images.
    likelihood : {"bernoulli", "gaussian"}, optional
        The same, beside a decoder of your own; by default bernoulli.
    reconstruction_weight : float or "auto"
        Factor of -log p(x|z); "auto" is 64 * 64 / (height * width), which is 1 at the papers' size.
    trace : bool
        Record what the dynamics score reads: the first decoder layer for 200 images at 30 steps.
    checkpoint_seconds : float
        How much work a run with `out` can lose when killed. The result is the same to the byte. A damaged checkpoint is
        noticed, and the run resumes from the one before it.
    device : {"auto", "cpu", "cuda", "mps"}
    precision : {"float32", "tf32", "bf16"}
        Of matrix products and convolutions; tf32 is for NVIDIA GPUs.
    compile : bool
        Let torch.compile fuse the network's layers. Starting takes a minute and a C++ compiler; no gain on a CPU.
    progress : called with a Progress about 200 times or more
        In a notebook there is a bar without it.
    **given : the settings above, and parameters of the method, such as beta=4
        Any method with an objective also learns from labels: supervised=100 images, with supervised_loss and
        supervised_weight (docs/weak_supervision.md).

    Returns
    -------
    Run
        The same call again returns the finished run at once; what "auto" meant when the run was started is kept. Where
        `out` has another run that is finished or has a checkpoint it is a ValueError, as is a run that diverges
        (TrainingDiverged, recorded in run.json).

    Examples
    --------
    >>> train("blobs", "beta_vae", beta=16, latents=8, steps=2).history.step.tolist()  # 6,000 steps: 10 s on one core
    [1, 2]
    """
    data = as_data(data)
    settings, parameters = split_settings(given)
    described, decoder = find_for(method, parameters), settings["decoder"]
    own = None if encoder is None and isinstance(decoder, str) else own_networks(encoder, decoder)
    if own is not None:
        settings |= _own_settings(own, described, data, settings["network"], settings["latents"])
        described = replace(described, network=own)
    elif likelihood not in (None, decoder) and decoder != "bernoulli":
        raise ValueError(f"likelihood {likelihood!r} and decoder {decoder!r} differ: give one of them")
    settings |= {"seed": seed, "decoder": likelihood or ("bernoulli" if own else decoder)}
    config = make_config(data, method, parameters, settings)
    if progress is None and in_notebook():
        progress = _notebook_bar(config)
    if number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise ValueError(f"checkpoint_seconds must not be negative, got {checkpoint_seconds}")
    where = pick_device(device)
    check_precision(config.precision, where)
    check_memory(config, described)
    options = Options(where, 1, checkpoint_seconds, progress, compile)
    path = None if out is None else make_folder(out)
    automatic = [name for name, value in settings.items() if value == "auto"]
    (found,) = train_members(data, [Member(config, described)], [path], options, None, [automatic])
    if isinstance(found, TrainingDiverged):
        raise found
    return found


def _own_settings(own: OwnNetworks, method: Method, data: DataSet, network: str, latents: int) -> dict[str, Any]:
    """Return the settings that the user's own networks decide: their name and their number of latents."""
    if method.objective is None or method.learner is not VAELearner:
        raise ValueError("encoder= and decoder= go with a method that has an objective, such as beta_vae")
    if network != "auto":
        raise ValueError(f"network {network!r} and networks of your own: give one of them")
    name, found = own.measure(data.image_shape)
    if latents not in (10, found):
        raise ValueError(f"the encoder gives {found} latents, expected latents={latents}")
    return {"network": name, "latents": found}


def _notebook_bar(config: Config) -> Callable[[Progress], None]:
    show = bar(f"{config.method}, seed {config.seed}")

    def progress(at: Progress) -> None:
        words = f"step {at.step:,} of {at.steps:,}, loss {at.row['loss']:.2f}, {at.images_per_second:,.0f} images/s"
        show(at.step / at.steps, words)

    return progress


def _fit_closed_form(data: DataSet, member: Member, path: Path | None, device: torch.device) -> Run:
    """Return the run of a method that needs no steps, such as PCA."""
    config, fit = member.config, member.method.fit
    assert fit is not None
    images = data.sample(min(config.steps * config.batch, _MOST_IMAGES), np.random.default_rng(config.seed))[0]
    model = fit(to_tensor(images, torch.device("cpu")).numpy(), config.latents, config.seed)
    run = Run(config, model.to(device), path=path, history=pd.DataFrame({"step": [config.steps]}))
    if path is not None:
        write_about(path, config, "running")
        write_run(path, run)
    return run


def has_checkpoint(path: Path | None) -> bool:
    """Return whether there is a checkpoint of a run by itself."""
    return path is not None and any((path / name).exists() for name in (CHECKPOINT, OLDER))


def _keep_automatic(path: Path, config: Config, automatic: list[str]) -> Config:
    """Return the config of the run in `path` if it differs from this one in `automatic` settings alone, else this one.

    What "auto" chose when the run was started is kept, also where it would choose otherwise now.
    """
    if not (path / "run.json").exists():
        return config
    started = read_about(path)["config"]
    return started if started == replace(config, **{name: getattr(started, name) for name in automatic}) else config


def _finished_run(path: Path, config: Config, method: Method) -> Run | None:
    """Return the run in `path` if it is finished, None if this one may begin or resume there; else raise a
    ValueError."""
    if not (path / "run.json").exists():
        others = sorted(entry.name for entry in set(path.iterdir()) - leftovers(path, "run.json"))
        if others:
            raise ValueError(f"{path} is not empty and not a run: it holds {', '.join(others[:3])}")
        return None
    about = read_about(path)
    if about["status"] == "running" and not has_checkpoint(path):
        return None  # It was stopped before there was anything to lose.
    old, new = about["config"].to_json(), config.to_json()
    different = [f"{key} {old[key]!r} there, {new[key]!r} here" for key in new if old[key] != new[key]]
    if different:
        then = "" if about["status"] != "running" else ". To begin anew, remove it"
        raise ValueError(f"{path} holds a run with another config: {'; '.join(different)}{then}")
    if about["status"] == "failed":
        raise TrainingDiverged(f"the run in {path} failed before: {about.get('reason')}")
    if about["status"] == "finished":
        run = open_as(path, about["config"], method)
        for name in (CHECKPOINT, OLDER):
            (path / name).unlink(missing_ok=True)
        return run
    return None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock on the directory, or raise where another process does."""
    with held(path) as mine:
        if not mine:
            raise ValueError(f"another process is training in {path}")
        yield


def check_memory(config: Config, method: Method) -> None:
    """Raise a ValueError, before anything is written, for a model that this machine cannot possibly train."""
    try:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has none of these.
        return
    weights = sum(sum(map(math.prod, found)) or math.inf for found in trained_shapes(config, method))
    pixels = 0 if method.fit is not None else config.batch * math.prod(config.image_shape)
    needed = 4 * (4 * weights + pixels)  # A weight is a float32 and has a gradient and Adam's two moments.
    if needed > here:
        raise ValueError(
            f"a batch of {config.batch} and a model of {config.latents} latents and {weights:,.0f} weights "
            f"need {needed / 1e9:,.0f} GB at least, this machine has {here / 1e9:.0f}"
        )


def trained_shapes(config: Config, method: Method) -> list[list[tuple[int, ...]]]:
    """Return the shapes of all tensors of the network, and of each module that is trained beside it."""
    makes: list[Callable[[], torch.nn.Module]] = [lambda: make_network(config, method)]
    makes += [partial(beside.build, config.latents, config.parameters) for beside in method.beside]
    return [list(shapes(make).values()) for make in makes]


def as_data(data: DataSet | str | os.PathLike[str] | NDArray[Any]) -> DataSet:
    """Return a data set from a data set, a name, a path, or images (n, c, h, w)."""
    if isinstance(data, DataSet):
        return data
    if isinstance(data, str | os.PathLike):
        return load(data)
    images = as_array(data)
    if images.ndim != 4:
        raise ValueError(f"expected a data set, its name, or images (n, c, h, w); got an array of shape {images.shape}")
    c, h, w = images.shape[1:]
    images = check_images(images, (c, h, w))
    table = np.empty((len(images), 0))
    return TableDataSet("array", (), table, (c, h, w), lambda index: images[index], source="array")


# Larger populations gain nothing on a CPU (benchmarks/population.py).
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
    progress: Callable[[Progress], None] | None = None,
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
    progress : called with a `Progress` about 200 times per population; in a notebook a bar without it.
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
    automatic = [[name for name, value in point.settings.items() if value == "auto"] for point in points]
    if progress is None and in_notebook():
        show = bar(f"{len(points)} models")
        progress = lambda at: show(at.share, str(at))  # noqa: E731
    options = Options(where, population, checkpoint_seconds, progress)
    found = train_members(data, members, paths, options, folder, automatic)
    for result in found:
        if isinstance(result, TrainingDiverged):
            warnings.warn(str(result), stacklevel=2)
    return [result for result in found if isinstance(result, Run)]


@dataclass(frozen=True)
class GridModel:
    """One model of a grid, and the name of its directory."""

    method: str | Objective | Method
    parameters: dict[str, Any]
    settings: dict[str, Any]
    name: str


def expand(
    method: str | Objective | Method, grid: Mapping[str, Any], seeds: int | Sequence[int], fixed: Mapping[str, Any]
) -> list[GridModel]:
    """Return the models of a grid, seeds fastest."""
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
    points = []
    for values in itertools.product(*columns):
        chosen = dict(zip(grid, (v.item() if isinstance(v, np.generic) else v for v in values)))
        swept = "".join(f"_{name}={value}" for name, value in chosen.items() if name != "method")
        of = chosen.pop("method", method)
        settings, given = split_settings({**fixed, **chosen})
        title = find(of)[0].rsplit(".", 1)[-1]
        for seed in seeds:
            name = f"{title}{swept}_seed={seed}".replace(os.sep, "-")
            points.append(GridModel(of, given, {**settings, "seed": seed}, name))
    return points


def train_members(
    data: DataSet,
    members: Sequence[Member],
    paths: Sequence[Path | None],
    options: Options,
    folder: Path | None,
    automatic: Sequence[list[str]] | None = None,
) -> list[Run | TrainingDiverged]:
    """Return a run for each member, or why it diverged. folder: where populations keep their checkpoints.

    automatic: the settings of each member that "auto" chose, which stay what they were when its run was started.
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
            if automatic is not None:
                members[i] = replace(members[i], config=_keep_automatic(path, members[i].config, automatic[i]))
            try:
                done = _finished_run(path, members[i].config, members[i].method)
            except TrainingDiverged as error:
                found[i] = error
                continue
            sweep(path)
            if done is not None:
                found[i] = done
        left = [i for i in range(len(members)) if i not in found]
        resumed, left = _resumed(folder, members, left, found)
        for indices in [*resumed, *_pack(members, paths, left, options)]:
            if members[indices[0]].method.fit is not None:
                (i,) = indices
                found[i] = _fit_closed_form(data, members[i], paths[i], options.device)
                continue
            together, into = [members[i] for i in indices], [paths[i] for i in indices]
            results = Population(data, together, into, options, folder, len(found), len(members)).run()
            found |= dict(zip(indices, results))
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
    """Raise a ValueError where two methods of one name would give runs that nothing tells apart."""
    seen: dict[str, Method] = {}
    for member in members:
        plain = replace(member.method, objective=unsupervised(member.method.objective))
        if seen.setdefault(identity(member.config), plain) != plain:
            raise ValueError(
                f"two different methods are called {member.config.method}, with equal parameters: "
                "give each objective a name of its own, or a parameter in which they differ"
            )


def _resumed(
    folder: Path | None, members: Sequence[Member], left: list[int], found: Mapping[int, Run | TrainingDiverged]
) -> tuple[list[list[int]], list[int]]:
    """Return populations that were interrupted and whose members are all wanted, and the members that are left.

    A member that is finished already, because the population was killed while it wrote its runs, comes along.
    """
    resumed = []
    for _, configs in _checkpoints(folder):  # Members of those that cannot be read are trained anew.
        wanted = {identity(members[i].config): i for i in [*left, *found]}
        indices = [wanted.get(identity(config), -1) for config in configs]
        if -1 not in indices and set(indices) & set(left):
            resumed.append(indices)
            left = [i for i in left if i not in indices]
    return resumed, left


def _pack(
    members: Sequence[Member], paths: Sequence[Path | None], left: list[int], options: Options
) -> list[list[int]]:
    """Return populations of members, of no more than fit into memory; those to train one by one come last."""
    one_by_one = [i for i in left if options.population == 1 or has_checkpoint(paths[i])]
    populations = []
    rest = [i for i in left if i not in one_by_one]
    for group in grouped([members[i] for i in rest]):
        indices = [rest[j] for j in group]
        first = members[indices[0]]
        if len(indices) == 1 or (options.population == "auto" and not worth_stacking(first, options.device)):
            one_by_one += indices
            continue
        most = _MOST_MODELS if options.population == "auto" else int(options.population)
        fit = max(int(_MEMORY_SHARE * memory(options.device) / bytes_of(first)), 1)
        if fit < min(most, len(indices)) and options.population != "auto":
            warnings.warn(f"{most} models need more memory than there is: training {fit} at a time", stacklevel=4)
        for part in np.array_split(indices, math.ceil(len(indices) / min(most, fit))):
            if len(part) == 1:
                one_by_one += part.tolist()
            else:
                populations.append(part.tolist())
    return [*populations, *([i] for i in sorted(one_by_one))]


def worth_stacking(member: Member, device: torch.device) -> bool:
    """Return whether a population of such members is faster than one after the other.

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
    """Return how many bytes are free."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows has none of these.
        return math.inf


def bytes_of(member: Member) -> float:
    """Return the bytes that a member of a population takes: weights, gradients and moments, activations and their
    gradients."""
    c = member.config
    found = [shape for module in trained_shapes(c, member.method) for shape in module]
    weights = sum(map(math.prod, found))
    units = sum(shape[0] for shape in found if len(shape) == 1)
    return 4 * (4 * weights + c.batch * (4 * units + 6 * math.prod(c.image_shape)))


def _same_as_alone(member: Member) -> bool:
    """Return whether the first update of a method of the user's is the same in a population, tried out with random
    images.

    It is not where a network does more than its parts (`features`, `head`, `decoder`) say. What draws from torch's
    global generator, such as dropout, cannot be in a population either: the generator is seeded for one run.
    """
    c, cpu, size = member.config, torch.device("cpu"), 1000.0
    noise = torch.Generator()
    x = torch.rand((c.batch if member.method.share is None else 2 * c.batch, *c.image_shape), generator=noise)
    x = x.to(memory_format=torch.channels_last)
    labels = Labels(x, torch.zeros(len(x), 1), 0, 1) if c.parameters.get("supervised") else None
    changed = None if member.method.share is None else torch.zeros(c.batch, 1, dtype=torch.bool)
    drawn, each = (x, x[None]) if changed is None else ((x, changed), (x[None], changed[None]))
    try:
        with torch.random.fork_rng(devices=[]):
            state = torch.get_rng_state()
            alone = make_learner(c, member.method, size, noise.manual_seed(0), cpu)
            assert isinstance(alone, VAELearner)
            alone.labels = labels
            trace = first_activations(network_of(alone), x) if c.trace else None
            terms, kl = alone.update(lambda: drawn, 0)
            population = PopulationLearner([member], size, [noise.manual_seed(0)], cpu, [labels])
            if trace is not None and not np.allclose(population.activations(x)[0], trace, rtol=1e-2, equal_nan=True):
                return False
            values = population.update(cast(Batches, SimpleNamespace(draw=lambda: each)), 0)[0][0]
            random = not torch.equal(torch.get_rng_state(), state)
    except Exception:  # Training it raises what is wrong with it.
        return False
    found = dict(zip(population.groups[0].names, values))  # A term may have the name of a module beside the network.
    pairs = [*((terms[name], found[name]) for name in terms), (kl, values[-c.latents :])]
    return not random and all(torch.allclose(a, b, rtol=1e-3, equal_nan=True) for a, b in pairs)


def grouped(members: Sequence[Member]) -> list[list[int]]:
    """Return populations that can be trained as one, as indices, each in the order of the stack; others by
    themselves."""
    found: dict[Any, list[int]] = {}
    keys = [objective_key(member) for member in members]
    stackable: dict[Any, bool] = {}
    for i, member in enumerate(members):
        kind = (member.shape, keys[i][:2])
        if kind not in stackable:
            stackable[kind] = member.stackable
        found.setdefault(member.shape if stackable[kind] else i, []).append(i)
    place = {key[1]: i for i, key in reversed(list(enumerate(keys)))}  # This is where an objective is first used.
    order = [(name, place[objective], *arguments) for name, objective, *arguments in keys]
    return [sorted(one, key=order.__getitem__) for one in found.values()]
