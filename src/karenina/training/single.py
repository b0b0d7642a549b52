"""`karenina.train`: a data set, a method and a seed -> a run."""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from karenina._files import held, leftovers, make_folder, sweep
from karenina._notebook import bar, in_notebook
from karenina._process import stop_waits, stopped, stops_wait
from karenina.data import DataSet, TableDataSet, load
from karenina.data.biased import Pairs
from karenina.models import fast
from karenina.models.objectives import Objective
from karenina.models.own import Made, OwnNetworks, own_networks
from karenina.numerics.checks import as_array
from karenina.training.checkpoint import CHECKPOINT, OLDER, BadFile, load_checkpoint, save_checkpoint
from karenina.training.config import Config, make_config, number
from karenina.training.feeds import Labels
from karenina.training.learners import Learner, VAELearner, make_learner, network_of
from karenina.training.loop import Progress, State, TrainingDiverged, check_precision, fit, seeded, to_tensor
from karenina.training.methods import Method, find_for
from karenina.training.run import (
    Run,
    check_images,
    make_network,
    open_as,
    pick_device,
    read_about,
    shapes,
    write_about,
    write_run,
)

_MOST_IMAGES = 10_000  # that a closed form is fitted to


def train(
    data: DataSet | str | os.PathLike[str] | NDArray[Any],
    method: str | Objective | Method = "beta_vae",
    *,
    seed: int = 0,
    steps: int = 10_000,
    out: str | os.PathLike[str] | None = None,
    network: str = "auto",
    latents: int = 10,
    batch: int = 64,
    learning_rate: float | str = "auto",
    init: str = "auto",
    encoder: Made | None = None,
    decoder: str | Made = "bernoulli",
    likelihood: str | None = None,
    reconstruction_weight: float | str = "auto",
    trace: bool = False,
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    precision: str = "float32",
    compile: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **parameters: Any,
) -> Run:
    """Train a model; with `out`, keep it in that directory and resume there if it was interrupted.

    Parameters
    ----------
    data : a data set, its name or path, or images (n, c, h, w), uint8 or floats in [0, 1]
    method : vae, beta_vae, annealed_vae, factor_vae, beta_tcvae, dip_vae_i, dip_vae_ii, infogan, pca, qlae, hfs
        From pairs of images ada_gvae, ada_mlvae (docs/weak_supervision.md). Or an objective or a method of your own
        (see karenina.training.methods).
    seed : int
        The same one gives the same bytes on the same machine. factor_vae needs the same number of torch's threads for
        that: those of its wide discriminator add up in another order, and its codes differ after some steps.
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
    **parameters : the method's, such as beta=4
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
    described = find_for(method, parameters)
    own = None if encoder is None and isinstance(decoder, str) else own_networks(encoder, decoder)
    if own is not None:
        network, latents = _own_settings(own, described, data, network, latents)
        described = replace(described, network=own)
    elif likelihood not in (None, decoder) and decoder != "bernoulli":
        raise ValueError(f"likelihood {likelihood!r} and decoder {decoder!r} differ: give one of them")
    settings = {
        "seed": seed,
        "steps": steps,
        "network": network,
        "latents": latents,
        "batch": batch,
        "learning_rate": learning_rate,
        "init": init,
        "decoder": likelihood or ("bernoulli" if own else decoder),
        "reconstruction_weight": reconstruction_weight,
        "trace": trace,
        "precision": precision,
    }
    config = make_config(data, method, parameters, settings)
    if progress is None and in_notebook():
        progress = _notebook_bar(config)
    if number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise ValueError(f"checkpoint_seconds must not be negative, got {checkpoint_seconds}")
    fast.keep_memory()
    where = pick_device(device)
    check_precision(config.precision, where)
    check_memory(config, described)
    if out is None:
        with stops_wait():
            return train_config(data, config, described, where, None, checkpoint_seconds, progress, compile)
    path = make_folder(out)
    with alone(path), stops_wait():
        config = as_begun(path, config, [name for name, value in settings.items() if value == "auto"])
        done = look_back(path, config, described)
        sweep(path)
        return done or train_config(data, config, described, where, path, checkpoint_seconds, progress, compile)


def _own_settings(own: OwnNetworks, method: Method, data: DataSet, network: str, latents: int) -> tuple[str, int]:
    """The name of the user's own networks, and their number of latents."""
    if method.objective is None or method.learner is not VAELearner:
        raise ValueError("encoder= and decoder= go with a method that has an objective, such as beta_vae")
    if network != "auto":
        raise ValueError(f"network {network!r} and networks of your own: give one of them")
    name, found = own.measure(data.image_shape)
    if latents not in (10, found):
        raise ValueError(f"the encoder gives {found} latents, expected latents={latents}")
    return name, found


def _notebook_bar(config: Config) -> Callable[[Progress], None]:
    show = bar(f"{config.method}, seed {config.seed}")

    def progress(at: Progress) -> None:
        words = f"step {at.step:,} of {at.steps:,}, loss {at.row['loss']:.2f}, {at.images_per_second:,.0f} images/s"
        show(at.step / at.steps, words)

    return progress


def train_config(
    data: DataSet,
    config: Config,
    method: Method,
    device: torch.device,
    path: Path | None,
    checkpoint_seconds: float,
    progress: Callable[[Progress], None] | None,
    compile: bool = False,
) -> Run:
    """The run of a checked config, from its checkpoint in `path` if there is one."""
    if method.fit is not None:
        images = data.sample(min(config.steps * config.batch, _MOST_IMAGES), np.random.default_rng(config.seed))[0]
        model = method.fit(to_tensor(images, torch.device("cpu")).numpy(), config.latents, config.seed)
        run = Run(config, model.to(device), path=path, history=pd.DataFrame({"step": [config.steps]}))
        if path is not None:
            write_about(path, config, "running")
    else:
        with _enough_memory(), seeded(config.seed, device):
            learner, state = _resume(data, config, method, device, path)
            if path is not None:  # not before the model has been built: what fails to start leaves nothing behind
                write_about(path, config, "running")
            if compile and isinstance(learner, VAELearner):
                learner.encode = torch.compile(learner.encode)  # type: ignore[method-assign]
                learner.decode = torch.compile(learner.decode)  # type: ignore[method-assign]
            save = _saver(path, config, learner, state, checkpoint_seconds)
            try:
                pairs = None if method.share is None else Pairs(data, config.parameters["k"])
                fit(learner, data, config, state, device, save, progress, pairs)
            except TrainingDiverged as error:
                if path is not None:
                    write_about(path, config, "failed", str(error))
                    _drop_checkpoints(path)
                raise
        history = pd.DataFrame(state.history).astype({"step": "int64"})
        kept = np.stack(state.trace) if config.trace else None
        run = Run(config, network_of(learner), history, kept, path)
    if path is not None:
        write_run(path, run)
        _drop_checkpoints(path)
    return run


def _resume(
    data: DataSet, config: Config, method: Method, device: torch.device, path: Path | None
) -> tuple[Learner, State]:
    """Where the newest intact checkpoint left the run, or its first step."""
    kept = [] if path is None else [path / name for name in (CHECKPOINT, OLDER) if (path / name).exists()]
    for i, file in enumerate(kept):
        learner, state = _start(data, config, method, device)
        try:
            load_checkpoint(file, config, learner, state)
        except BadFile as error:
            then = "starting again from the first step" if i + 1 == len(kept) else "resuming from the checkpoint before"
            warnings.warn(f"{then}: {error}", stacklevel=4)
            continue
        if file.name == OLDER:
            file.replace(file.with_name(CHECKPOINT))  # the next one must not push it out for a damaged one
        return learner, state
    return _start(data, config, method, device)


def begun(path: Path | None) -> bool:
    """Whether there is a checkpoint of a run by itself."""
    return path is not None and any((path / name).exists() for name in (CHECKPOINT, OLDER))


def _drop_checkpoints(path: Path) -> None:
    for name in (CHECKPOINT, OLDER):
        (path / name).unlink(missing_ok=True)


def _start(data: DataSet, config: Config, method: Method, device: torch.device) -> tuple[Learner, State]:
    state = State(np.random.default_rng(config.seed), torch.Generator(device).manual_seed(config.seed))
    learner = make_learner(config, method, size_of(data), state.noise, device)
    if isinstance(learner, VAELearner) and config.parameters.get("supervised"):
        learner.labels = Labels.of(data, config, device)
    return learner, state


def _saver(path: Path | None, config: Config, learner: Learner, state: State, seconds: float) -> Callable[[bool], None]:
    """A function that writes a checkpoint when it is time, or when the run is to stop, which it raises then."""
    saved = time.monotonic()

    def save(now: bool) -> None:
        nonlocal saved
        if state.step == config.steps:
            return
        if path is not None and (now or stop_waits() or time.monotonic() - saved >= seconds):
            try:
                save_checkpoint(path / CHECKPOINT, config, learner, state, path / OLDER)
            except OSError as error:  # a full disk: the checkpoint before is still there, and the run may yet end well
                warnings.warn(f"no checkpoint at step {state.step}: {error}", stacklevel=4)
            saved = time.monotonic()
        if stop_waits():
            then = "the same call resumes" if path is not None else "without a directory nothing is kept"
            raise stopped(f"stopped at step {state.step:,} of {config.steps:,}; {then}")

    return save


def as_begun(path: Path, config: Config, free: list[str]) -> Config:
    """The config of the run in `path` if it differs from ours in nothing but the settings that are `free`, or ours."""
    if not (path / "run.json").exists():
        return config
    begun = read_about(path)["config"]
    return begun if begun == replace(config, **{name: getattr(begun, name) for name in free}) else config


def look_back(path: Path, config: Config, method: Method) -> Run | None:
    """The run in `path` if it is finished, None if this one may begin or resume there; else a ValueError."""
    if not (path / "run.json").exists():
        others = sorted(entry.name for entry in set(path.iterdir()) - leftovers(path, "run.json"))
        if others:
            raise ValueError(f"{path} is not empty and not a run: it holds {', '.join(others[:3])}")
        return None
    about = read_about(path)
    if about["status"] == "running" and not begun(path):
        return None  # it was stopped before there was anything to lose, whatever it was
    old, new = about["config"].to_json(), config.to_json()
    different = [f"{key} {old[key]!r} there, {new[key]!r} here" for key in new if old[key] != new[key]]
    if different:
        then = "" if about["status"] != "running" else ". To begin anew, remove it"
        raise ValueError(f"{path} holds a run with another config: {'; '.join(different)}{then}")
    if about["status"] == "failed":
        raise TrainingDiverged(f"the run in {path} failed before: {about.get('reason')}")
    if about["status"] == "finished":
        run = open_as(path, about["config"], method)
        _drop_checkpoints(path)
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
    """A ValueError, before anything is written, for a model that this machine cannot possibly train."""
    try:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return
    weights = sum(sum(map(math.prod, found)) or math.inf for found in trained_shapes(config, method))
    pixels = 0 if method.fit is not None else config.batch * math.prod(config.image_shape)
    needed = 4 * (4 * weights + pixels)  # float32; a weight has a gradient and Adam's two moments
    if needed > here:
        raise ValueError(
            f"a batch of {config.batch} and a model of {config.latents} latents and {weights:,.0f} weights "
            f"need {needed / 1e9:,.0f} GB at least, this machine has {here / 1e9:.0f}"
        )


def trained_shapes(config: Config, method: Method) -> list[list[tuple[int, ...]]]:
    """The shapes of all tensors of the network, and of each module that is trained beside it."""
    makes: list[Callable[[], torch.nn.Module]] = [lambda: make_network(config, method)]
    makes += [partial(beside.build, config.latents, config.parameters) for beside in method.beside]
    return [list(shapes(make).values()) for make in makes]


@contextmanager
def _enough_memory() -> Iterator[None]:
    """A ValueError when there is not."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate" in str(error):  # torch's words, on every device
            raise ValueError(f"not enough memory for this model: {str(error).splitlines()[0]}") from error
        raise


def size_of(data: DataSet) -> float:
    """How many images training can draw, or inf."""
    try:
        return data.drawable
    except TypeError:  # continuous factors
        return float("inf")


def as_data(data: DataSet | str | os.PathLike[str] | NDArray[Any]) -> DataSet:
    """A data set from a data set, a name, a path, or images (n, c, h, w)."""
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
