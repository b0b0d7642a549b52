"""The models of a fit: how they are trained, how fast that goes, and what each makes of the images."""

import contextlib
import math
import time as clocks
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from karenina._active import CLEAR_KL
from karenina.data import DataSet
from karenina.evaluation.scoring import explained_variance
from karenina.fitting.search import Candidate, Round, first_round
from karenina.numerics.arrays import Floats
from karenina.numerics.gaussian import kl_per_latent
from karenina.training.loop import Options, Progress
from karenina.training.methods import Config, find, make_config
from karenina.training.run import open as open_run
from karenina.training.run import read_about, write_run
from karenina.training.trainer import Member, as_data, expand, train_members, worth_stacking

if TYPE_CHECKING:
    import pandas as pd


BATCH = 64


class OutOfTime(Exception):
    """The budget is spent; what is finished counts."""


ELBO_ROWS = 2000  # images on which the evidence lower bound is measured


@dataclass(frozen=True, eq=False)
class Model:
    """A finished run and what it makes of the images that all models are compared on.

    kl: (L,). explained: share of the variance of the pixels that its reconstructions explain. elbo: evidence lower
    bound.
    """

    path: Path
    config: Config
    setting: Candidate
    codes: NDArray[np.float32]
    kl: Floats
    explained: float
    elbo: float = math.nan

    @property
    def active(self) -> int:
        """Return how many latents are clearly active."""
        return int((self.kl > CLEAR_KL).sum())

    @property
    def history(self) -> "pd.DataFrame":
        """Return its loss at the steps of training."""
        return open_run(self.path).history


def measure(path: Path, setting: Candidate, images: NDArray[np.uint8]) -> Model | None:
    """Return what a finished run makes of images; None where there is no such run of images of this shape."""
    if not (path / "run.json").exists() or read_about(path)["status"] != "finished":
        return None
    run = open_run(path)
    if run.config.image_shape != images.shape[1:]:
        return None
    mean, logvar = run.encode(images)
    few = slice(0, ELBO_ROWS)
    elbo = run.evaluate(images[few], posterior=(mean[few], logvar[few]))["elbo"]
    explained = explained_variance(run, images, mean)
    return Model(path, run.config, setting, mean, kl_per_latent(mean, logvar), explained, elbo)


def keep_unfinished(path: Path, folder: Path) -> Path | None:
    """Write the run that was stopped in `path` into a folder, as one of the steps that it has; return its directory.

    It is None where the run was not begun, or diverged.
    """
    try:
        run = open_run(path)
    except ValueError:
        return None
    run.config = replace(run.config, **cast(dict[str, Any], {"steps": run.stopped_at or run.config.steps}))
    kept = folder / str(run.config.steps) / path.name
    kept.mkdir(parents=True, exist_ok=True)
    write_run(kept, run)
    return kept


def run_name(setting: Candidate, seed: int) -> str:
    """Return the directory of a model, as `karenina.train_many` names it."""
    return expand(setting.method, {setting.parameter: [setting.value]}, [seed], {})[0].name


def train_round(
    data: DataSet,
    wanted: Round,
    first_seed: int,
    options: Mapping[str, Any],
    folder: Path,
    device: Any,
    checkpoint_seconds: float,
    progress: Callable[[Progress], None],
) -> float | None:
    """Train the models of a round together, and return the seconds per model; None where some were there already.

    first_seed: what the number 0 of a round stands for. options: of `karenina.train`.
    """
    made = [_member(data, setting, first_seed + i, options) for setting, seeds in wanted.items() for i in seeds]
    members, names, free = (list(part) for part in zip(*made))
    paths: list[Path | None] = [folder / name for name in names]
    are_new = not any((folder / name / "model.safetensors").exists() for name in names)
    started = clocks.monotonic()
    train_members(data, members, paths, Options(device, "auto", checkpoint_seconds, progress), folder, free)
    return (clocks.monotonic() - started) / len(members) if are_new else None


def _member(data: DataSet, setting: Candidate, seed: int, options: Mapping[str, Any]) -> tuple[Member, str, list[str]]:
    """Return the model of a setting and a seed, the name of its directory, and the options that are chosen for it."""
    point = expand(setting.method, {setting.parameter: [setting.value]}, [seed], {**options, "batch": BATCH})[0]
    config = make_config(data, point.method, point.parameters, point.settings)
    free = [name for name, value in point.settings.items() if value == "auto"]
    return Member(config, find(point.method)[1]), point.name, free


def time_training(
    shape: tuple[int, int, int], options: Mapping[str, Any], models: int, device: Any, most: float
) -> tuple[float, float]:
    """Return the seconds per model and step of a first round of so many models, and the seconds before the first step.

    They are trained on noise of this shape for a few steps, and not much longer than `most` seconds.
    """
    noise = as_data(np.random.default_rng(0).integers(0, 256, (BATCH, *shape), np.uint8))
    like = [(setting, i) for setting, seeds in first_round(["beta_vae"], models).items() for i in seeds]
    members = [_member(noise, setting, i, {**options, "steps": 12})[0] for setting, i in like]
    started = clocks.perf_counter()
    moments: list[float] = []

    def note(_: Any) -> None:
        moments.append(clocks.perf_counter())
        if len(moments) > 4 and moments[-1] - moments[0] > most:
            raise OutOfTime

    with contextlib.suppress(OutOfTime):
        train_members(noise, members, [None] * len(like), Options(device, "auto", progress=note), None)
    # The first steps set things up. Where models are trained one by one, a report is of one model.
    apart = sorted(later - sooner for sooner, later in pairwise(moments[1:]))
    together = len(like) if worth_stacking(members[0], device) else 1
    return max(apart[len(apart) // 2] / together, 1e-6), moments[0] - started
