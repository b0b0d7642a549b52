"""`karenina.train`: a data set, a method and a seed -> a run."""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from karenina.data import DataSet, TableDataSet, load
from karenina.models import fast
from karenina.models.pca import fit_pca
from karenina.training.checkpoint import BadFile, load_checkpoint, save_checkpoint
from karenina.training.config import Config, make_config, number
from karenina.training.learners import Learner, make_learner, network_of
from karenina.training.loop import Progress, State, TrainingDiverged, fit, to_tensor
from karenina.training.run import Run, check_images, open, read_about, write_about, write_run

_PCA_IMAGES = 10_000


def train(
    data: DataSet | str | NDArray[Any],
    method: str | Callable[..., Any] = "beta_vae",
    *,
    seed: int = 0,
    steps: int = 10_000,
    out: str | os.PathLike[str] | None = None,
    network: str = "auto",
    latents: int = 10,
    batch: int = 64,
    learning_rate: float | str = "auto",
    decoder: str = "bernoulli",
    reconstruction_weight: float | str = "auto",
    trace: bool = False,
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    progress: Callable[[Progress], None] | None = None,
    **parameters: Any,
) -> Run:
    """Train a model; with `out`, keep it in that directory and go on from there if it was interrupted.

    >>> train("blobs", "beta_vae", beta=16, latents=8, steps=2).history.step.tolist()  # 6,000 steps: 10 s on one core
    [1, 2]

    data: a data set, the name of one, or images (n, c, h, w), uint8 or floats in [0, 1].
    method: vae, beta_vae, annealed_vae, factor_vae, beta_tcvae, dip_vae_i, dip_vae_ii, infogan, pca, or a function of
    your own (see karenina.models.objectives). `parameters` are the method's, such as beta=4.
    steps: updates, each from `batch` images drawn with replacement (pca: from as many images, at most 10,000).
    network: see karenina.models.networks.NETWORKS; "auto" takes conv64, conv32 or mlp, by image size.
    learning_rate: "auto" is 1e-4, the papers' value, and 1e-3 for mlp and linear.
    reconstruction_weight: factor of -log p(x|z); "auto" is 64 * 64 / (height * width), which is 1 at the papers' size.
    trace: record what the dynamics score needs: activations of the first decoder layer for 200 images at 30 moments.
    checkpoint_seconds: a run with `out` can lose this much work when killed. What it ends with is the same to the byte.
    progress: called with a Progress about 200 times or more.

    The same call again returns the finished run at once. A directory with another config is a ValueError, as is a run
    that diverges (TrainingDiverged, recorded in run.json).
    """
    data = as_data(data)
    settings = {
        "seed": seed,
        "steps": steps,
        "network": network,
        "latents": latents,
        "batch": batch,
        "learning_rate": learning_rate,
        "decoder": decoder,
        "reconstruction_weight": reconstruction_weight,
        "trace": trace,
    }
    config = make_config(data, method, parameters, settings)
    if number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise ValueError(f"checkpoint_seconds must not be negative, got {checkpoint_seconds}")
    fast.keep_memory()
    where = pick_device(device)
    if out is None:
        return _train(data, config, method, where, None, checkpoint_seconds, progress)
    path = Path(out)
    path.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        done = _look_back(path, config)
        return done or _train(data, config, method, where, path, checkpoint_seconds, progress)


def _train(
    data: DataSet,
    config: Config,
    method: Any,
    device: torch.device,
    path: Path | None,
    checkpoint_seconds: float,
    progress: Callable[[Progress], None] | None,
) -> Run:
    if config.method == "pca":
        images = data.sample(min(config.steps * config.batch, _PCA_IMAGES), np.random.default_rng(config.seed))[0]
        model = fit_pca(to_tensor(images, torch.device("cpu")).numpy(), config.latents, config.seed)
        run = Run(config, model.to(device), path=path, history=pd.DataFrame({"step": [config.steps]}))
    else:
        learner, state = _start(data, config, method, device)
        if path is not None and (path / "checkpoint.safetensors").exists():
            try:
                load_checkpoint(path / "checkpoint.safetensors", config, learner, state)
            except BadFile as error:
                warnings.warn(f"starting again from the first step: {error}", stacklevel=3)
                learner, state = _start(data, config, method, device)
        save = _saver(path, config, learner, state, checkpoint_seconds)
        try:
            fit(learner, data, config, state, device, save, progress)
        except TrainingDiverged as error:
            if path is not None:
                write_about(path, config, "failed", str(error))
                (path / "checkpoint.safetensors").unlink(missing_ok=True)
            raise
        history = pd.DataFrame(state.history).astype({"step": "int64"})
        kept = np.stack(state.trace) if config.trace else None
        run = Run(config, network_of(learner), history, kept, path)
    if path is not None:
        write_run(path, run)
        (path / "checkpoint.safetensors").unlink(missing_ok=True)
    return run


def _start(data: DataSet, config: Config, method: Any, device: torch.device) -> tuple[Learner, State]:
    state = State(np.random.default_rng(config.seed), torch.Generator(device).manual_seed(config.seed))
    return make_learner(config, method, size_of(data), state.noise, device), state


def _saver(path: Path | None, config: Config, learner: Learner, state: State, seconds: float) -> Callable[[], None]:
    """A function that writes a checkpoint when it is time."""
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if path is None or time.monotonic() - saved < seconds or state.step == config.steps:
            return
        try:
            save_checkpoint(path / "checkpoint.safetensors", config, learner, state)
        except OSError as error:  # a full disk: the checkpoint before is still there, and the run may yet end well
            warnings.warn(f"no checkpoint at step {state.step}: {error}", stacklevel=4)
        saved = time.monotonic()

    return save


def _look_back(path: Path, config: Config) -> Run | None:
    """The run in `path` if it is finished; otherwise prepare the directory for one with this config."""
    for leftover in path.glob(".*.part*"):  # of a write that was killed
        leftover.unlink()
    if not (path / "run.json").exists():
        others = sorted(entry.name for entry in path.iterdir())
        if others:
            raise ValueError(f"{path} is not empty and not a run: it holds {', '.join(others[:3])}")
        write_about(path, config, "running")
        return None
    about = read_about(path)
    old, new = about["config"].to_json(), config.to_json()
    different = [f"{key} {old[key]!r} there, {new[key]!r} here" for key in new if old[key] != new[key]]
    if different:
        raise ValueError(f"{path} holds a run with another config: {'; '.join(different)}")
    if about["status"] == "failed":
        raise TrainingDiverged(f"the run in {path} failed before: {about.get('reason')}")
    if about["status"] == "finished":
        (path / "checkpoint.safetensors").unlink(missing_ok=True)
        return open(path)
    return None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock on the directory; the system drops it if the process dies. Without locks (Windows) do nothing."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process is training in {path}") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def pick_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.device(name)
    except RuntimeError:
        raise ValueError(f"no device {name!r}; known: auto, cpu, cuda, mps") from None


def size_of(data: DataSet) -> float:
    try:
        return len(data)
    except TypeError:  # continuous factors
        return float("inf")


def as_data(data: DataSet | str | NDArray[Any]) -> DataSet:
    """A data set from a data set, a name, or images (n, c, h, w)."""
    if isinstance(data, DataSet):
        return data
    if isinstance(data, str):
        return load(data)
    images = np.asarray(data)
    if images.ndim != 4:
        raise ValueError(f"expected a data set, its name, or images (n, c, h, w); got an array of shape {images.shape}")
    c, h, w = images.shape[1:]
    images = check_images(images, (c, h, w))
    table = np.empty((len(images), 0))
    return TableDataSet("array", (), table, (c, h, w), lambda index: images[index], source="array")
