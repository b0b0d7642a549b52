"""Trackers of experiments behind one small writer. None is imported unless it is asked for."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol


class Tracker(Protocol):
    """Where numbers go: `write` takes the numbers of a run at a step, `about` what the run is."""

    def about(self, run: str, values: Mapping[str, Any]) -> None: ...

    def write(self, run: str, values: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """A folder of event files for each run."""

    def __init__(self, where: str):
        self.make = _need("torch.utils.tensorboard", "tensorboard").SummaryWriter
        self.where, self.writers = where, dict[str, Any]()

    def _writer(self, run: str) -> Any:
        if run not in self.writers:
            self.writers[run] = self.make(f"{self.where}/{run}")
        return self.writers[run]

    def about(self, run: str, values: Mapping[str, Any]) -> None:
        text = "\n".join(f"- {name}: {value}" for name, value in values.items())
        self._writer(run).add_text("config", text)

    def write(self, run: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer(run).add_scalar(name, value, step)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class MLflow:
    """A run of the experiment "karenina" at a tracking URI, such as a folder or a server."""

    def __init__(self, where: str):
        client = _need("mlflow.tracking", "mlflow").MlflowClient
        self.client, self.runs = client(tracking_uri=where), dict[str, str]()
        found = self.client.get_experiment_by_name("karenina")
        self.experiment = found.experiment_id if found else self.client.create_experiment("karenina")

    def _run(self, run: str) -> str:
        if run not in self.runs:
            self.runs[run] = self.client.create_run(self.experiment, run_name=run).info.run_id
        return self.runs[run]

    def about(self, run: str, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.client.log_param(self._run(run), name, value)

    def write(self, run: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.client.log_metric(self._run(run), name.replace(" ", "_"), value, step=step)

    def close(self) -> None:
        for one in self.runs.values():
            self.client.set_terminated(one)


class WeightsAndBiases:
    """A run of a project."""

    def __init__(self, where: str):
        self.wandb, self.project, self.runs = _need("wandb", "wandb"), where, dict[str, Any]()

    def _run(self, run: str) -> Any:
        if run not in self.runs:
            self.runs[run] = self.wandb.init(project=self.project, name=run, reinit="create_new")
        return self.runs[run]

    def about(self, run: str, values: Mapping[str, Any]) -> None:
        self._run(run).config.update(dict(values))

    def write(self, run: str, values: Mapping[str, float], step: int) -> None:
        self._run(run).log(dict(values), step=step)

    def close(self) -> None:
        for one in self.runs.values():
            one.finish()


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


def _need(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(f"{package} is not installed: pip install 'karenina[track]' or {package}") from None


@contextmanager
def open_tracker(spec: str | None) -> Iterator[Tracker | None]:
    """The tracker of "tensorboard:DIR", "mlflow:URI" or "wandb:PROJECT"; None for None.

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
    tracker = TRACKERS[kind](where)
    try:
        yield tracker
    finally:
        tracker.close()
