"""Trackers behind one writer; MLflow and Weights & Biases by stand-ins that record what they are told."""

import ast
import errno
import os
import sys
import types
from pathlib import Path

import pytest

import karenina
from karenina.training import trackers
from karenina.training.trackers import open_tracker


def write(spec):
    with open_tracker(spec) as tracker:
        tracker.about("run a", {"beta": 4})
        tracker.write("run a", {"loss": 2.5}, 10)
        tracker.write("run b", {"loss": 1.5}, 20)


def test_tensorboard_files_can_be_read_back(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `track` is not installed")
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    write(f"tensorboard:{tmp_path}")
    file = next((tmp_path / "run a").glob("events*"))
    found = [
        (value.tag, event.step, value.simple_value)
        for event in LegacyEventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]
    assert ("loss", 10, 2.5) in found
    assert (tmp_path / "run b").is_dir()


def test_mlflow_gets_a_run_for_each_model(monkeypatch):
    told = []

    class MlflowClient:
        def __init__(self, tracking_uri):
            told.append(tracking_uri)

        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name):
            return name

        def create_run(self, experiment, run_name):
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"id of {run_name}"))

        def log_param(self, *values):
            told.append(values)

        def log_metric(self, *values, step):
            told.append((*values, step))

        def set_terminated(self, run):
            told.append(f"end {run}")

    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", types.SimpleNamespace(MlflowClient=MlflowClient))
    write("mlflow:http://here")
    assert told == [
        "http://here",
        ("id of run a", "beta", 4),
        ("id of run a", "loss", 2.5, 10),
        ("id of run b", "loss", 1.5, 20),
        "end id of run a",
        "end id of run b",
    ]


def test_weights_and_biases_gets_a_run_for_each_model(monkeypatch):
    told = []

    def init(project, name, reinit):
        return types.SimpleNamespace(
            config=types.SimpleNamespace(update=lambda values: told.append((name, values))),
            log=lambda values, step: told.append((name, values, step)),
            finish=lambda: told.append(f"end {name}"),
        )

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    write("wandb:mine")
    assert told[:2] == [("run a", {"beta": 4}), ("run a", {"loss": 2.5}, 10)]
    assert told[-1] == "end run b"


def test_a_fit_writes_histories_and_scores(tmp_path, monkeypatch):
    told = []

    def init(project, name, reinit):
        return types.SimpleNamespace(
            config=types.SimpleNamespace(update=lambda values: None),
            log=lambda values, step: told.append((name, sorted(values), step)),
            finish=lambda: None,
        )

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    karenina.fit("blobs", out=tmp_path, models=2, steps=4, latents=2, track="wandb:mine")
    names = {name for name, _, _ in told}
    assert names == {"beta_vae_beta=8_seed=0", "beta_vae_beta=8_seed=1"}
    assert any("kl_0" in values for _, values, _ in told)
    assert any("fit/active" in values for _, values, _ in told)


@pytest.mark.parametrize("spec", ["tensorboard", "tensorboard:", "paper:x"])
def test_what_is_no_tracker_is_refused(spec):
    with pytest.raises(ValueError, match="track is tensorboard:DIR, mlflow:URI or wandb:PROJECT"):
        write(spec)


def test_a_missing_tracker_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match="wandb is not installed"):
        write("wandb:mine")


def test_trackers_and_extras_are_imported_only_when_asked_for():
    """By name in a function, never by an import statement."""
    root = Path(karenina.__file__).parent
    extras = {"tensorboard", "mlflow", "wandb", "optuna", "onnx", "onnxruntime", "onnxscript"}
    for path in [root / "training" / "trackers.py", *(root / "fitting").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not extras & {name.split(".")[0] for name in names}, path


def test_a_full_disk_at_the_tracker_is_its_own(monkeypatch):
    class Full:
        def __init__(self, where):
            pass

        def write(self, run, values, step):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        about = close = lambda self, *args: None

    monkeypatch.setitem(trackers.TRACKERS, "mlflow", Full)
    full = pytest.raises(ValueError, match="the tracker mlflow:somewhere cannot be written to: No space left")
    with open_tracker("mlflow:somewhere") as tracker, full:
        tracker.write("a", {"loss": 1.0}, 1)
