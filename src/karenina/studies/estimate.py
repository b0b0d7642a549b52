"""What a study would cost on this machine, from a few measured steps, without running it."""

import math
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from karenina.evaluation.scoring import evaluate, load_cached
from karenina.studies.plan import Plan, Point
from karenina.training import train
from karenina.training.batches import keeps
from karenina.training.methods import find

_SECONDS = 0.7  # of measuring each kind of model
_IMAGES = 256  # stand for a data set all of whose images are made once
_SCORES_BYTES = 20_000  # a file of scores


@dataclass(frozen=True)
class Estimate:
    """train_seconds, score_seconds: of one core, for all models. intervention_seconds: the part of scoring that encodes
    images of interventions. bytes: on the disk. unknown: data set -> why it could
    not be loaded here; its models are taken to cost as much as the others'."""

    train_seconds: float
    score_seconds: float
    bytes: float
    unknown: dict[str, str]
    intervention_seconds: float = 0.0

    def wall(self, workers: int) -> float:
        return (self.train_seconds + self.score_seconds) / workers


class _Enough(Exception):
    pass


def estimate(plan: Plan, progress: Callable[[str], None] = lambda what: None) -> Estimate:
    """Measure a few steps of each method on images of each shape, and one scoring for each data set's rows.

    progress: called with what is being measured.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    unknown: dict[str, str] = {}
    for data in plan.data:
        try:
            shapes[data] = load_cached(data).image_shape
        except (ValueError, OSError) as error:
            unknown[data] = str(error)
    if not shapes:
        raise ValueError(f"no data set of the plan can be loaded here: {next(iter(unknown.values()))}")
    measured: dict[Any, tuple[float, float, float, float]] = {}  # by all that a step's time depends on
    alike: dict[Any, list[tuple[float, float, float, float]]] = {}  # by what is known of a data set that is not here
    for point in plan.points:
        if point.data in shapes:
            kind = (shapes[point.data], point.method, point.network, point.latents, point.batch)
            if kind not in measured:
                progress(f"{point.method}, {point.latents} latents, on {point.data}")
                measured[kind] = _measure(plan, point)
            alike.setdefault((point.method, point.latents), []).append(measured[kind])
    means = {key: [sum(column) / len(found) for column in zip(*found)] for key, found in alike.items()}
    totals = [0.0, 0.0, 0.0, 0.0]
    for point in plan.points:
        kind = (shapes.get(point.data, ()), point.method, point.network, point.latents, point.batch)
        seconds, score, size, encoding = measured.get(kind) or means[point.method, point.latents]
        totals[0] += seconds * (point.steps if find(point.method)[1].fit is None else 1)
        totals[1] += score
        totals[2] += size
        totals[3] += encoding
    return Estimate(totals[0], totals[1], totals[2], unknown, totals[3])


def _measure(plan: Plan, point: Point) -> tuple[float, float, float, float]:
    """Return the seconds of a step (pca: of all), seconds of scoring, bytes of a finished run, and seconds of
    interventions."""
    data: Any = load_cached(point.data)
    if keeps(data, point.steps * point.batch):  # then to draw an image costs nothing
        data = data.sample(_IMAGES, 0)[0]
    times: list[float] = []

    def watch(at: Any) -> None:
        times.append(time.perf_counter())
        if len(times) >= 4 and times[-1] - times[0] > _SECONDS:
            raise _Enough

    short = replace(point, steps=min(point.steps, 200), trace=False)  # at most 200 steps are reported one by one
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        with suppress(_Enough):
            train(data, short.method, progress=watch, **short.arguments)
        whole = time.perf_counter() - start
        # The first steps warm up: allocations, kernels chosen.
        seconds = (times[-1] - times[1]) / (len(times) - 2) if len(times) > 2 else whole
        tiny = replace(short, steps=2)
        run = train(data, tiny.method, out=Path(scratch) / "run", **tiny.arguments)
        size = sum(file.stat().st_size for file in (Path(scratch) / "run").iterdir())
    size += 4 * plan.evaluation.rows * point.latents + _SCORES_BYTES
    size += 30 * 200 * 2 * 256 if point.trace else 0
    scoring, encoding = _scoring_seconds(plan, point, run)
    return seconds, scoring, size, encoding


_SCORED: dict[tuple[Any, ...], tuple[float, float]] = {}


def _scoring_seconds(plan: Plan, point: Point, run: Any) -> tuple[float, float]:
    """Return the seconds of scoring, and of the interventions in it: measured once for a data set and a number of
    latents, since methods differ little in it."""
    key = (point.data, point.latents, plan.evaluation)
    if key not in _SCORED:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = load_cached(point.data)
            found = evaluate(run, data, **plan.evaluation.arguments(data.labelled))
        _SCORED[key] = time.perf_counter() - start, found.intervention_seconds
    return _SCORED[key]


def size(count: float) -> str:
    """
    >>> size(5.2e9), size(800_000)
    ('5.2 GB', '0.8 MB')
    """
    unit = min(int(math.log10(max(count, 1e6)) // 3), 4)
    return f"{count / 1000**unit:.1f} {['', 'kB', 'MB', 'GB', 'TB'][unit]}"
