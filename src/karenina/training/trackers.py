"""Trackers of experiments behind one small writer. None is imported unless it is asked for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from karenina._plugins import need


class Tracker(Protocol):
    """A place for numbers: `write` takes the numbers of a run at a step, `about` what the run is."""

    def about(self, run: str, values: Mapping[str, Any]) -> None: ...

    def write(self, run: str, values: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class _Runs(dict[str, Any]):
    """Runs by name, each started when it is first asked for."""

    def __init__(self, begin: Callable[[str], Any]):
        self.begin = begin

    def __missing__(self, run: str) -> Any:
        self[run] = self.begin(run)
        return self[run]


class TensorBoard:
    """A folder of event files for each run."""

    def __init__(self, where: str):
        make = need("torch.utils.tensorboard").SummaryWriter
        self.runs = _Runs(lambda run: make(f"{where}/{run}"))

    def about(self, run: str, values: Mapping[str, Any]) -> None:
        text = "\n".join(f"- {name}: {value}" for name, value in values.items())
        self.runs[run].add_text("config", text)

    def write(self, run: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.runs[run].add_scalar(name, value, step)

    def close(self) -> None:
        for writer in self.runs.values():
            writer.close()


class MLflow:
    """A run of the experiment "karenina" at a tracking URI, such as a folder or a server."""

    def __init__(self, where: str):
        self.client = client = need("mlflow.tracking").MlflowClient(tracking_uri=where)
        found = client.get_experiment_by_name("karenina")
        experiment = found.experiment_id if found else client.create_experiment("karenina")
        self.runs = _Runs(lambda run: client.create_run(experiment, run_name=run).info.run_id)

    def about(self, run: str, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.client.log_param(self.runs[run], name, value)

    def write(self, run: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.client.log_metric(self.runs[run], name.replace(" ", "_"), value, step=step)

    def close(self) -> None:
        for one in self.runs.values():
            self.client.set_terminated(one)


class WeightsAndBiases:
    """A run in a project of Weights & Biases."""

    def __init__(self, where: str):
        wandb = need("wandb")
        self.runs = _Runs(lambda run: wandb.init(project=where, name=run, reinit="create_new"))

    def about(self, run: str, values: Mapping[str, Any]) -> None:
        self.runs[run].config.update(dict(values))

    def write(self, run: str, values: Mapping[str, float], step: int) -> None:
        self.runs[run].log(dict(values), step=step)

    def close(self) -> None:
        for one in self.runs.values():
            one.finish()


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


@contextmanager
def open_tracker(spec: str | None) -> Iterator[Tracker | None]:
    """Open the tracker of "tensorboard:DIR", "mlflow:URI" or "wandb:PROJECT"; None for None.

    >>> with open_tracker(None) as tracker:
    ...     print(tracker)
    None
    """
    if spec is None:
        yield None
        return
    kind, _, where = spec.partition(":")
    if kind not in TRACKERS or not where:
        raise ValueError(f"track is tensorboard:DIR, mlflow:URI or wandb:PROJECT, got {spec!r}")
    with _named(spec):
        tracker = TRACKERS[kind](where)
    for name in ("about", "write", "close"):
        setattr(tracker, name, _named(spec)(getattr(tracker, name)))
    try:
        yield tracker
    finally:
        tracker.close()


@contextmanager
def _named(spec: str) -> Iterator[None]:
    """Name the tracker in errors of its disk, which may be another than that of the models."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"the tracker {spec} cannot be written to: {error.strerror or error}") from error
