import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from karenina.data import load
from karenina.training import Progress, defaults, open, train
from karenina.training.loop import trace_steps

SMALL: dict[str, Any] = {"steps": 40, "latents": 3, "batch": 8}
FAST_DISCRIMINATOR = {"discriminator_layers": 2, "discriminator_units": 16}
EVERY_METHOD = [
    ("vae", {}),
    ("beta_vae", {"beta": 4}),
    ("annealed_vae", {"c_max": 5}),
    ("factor_vae", FAST_DISCRIMINATOR),
    ("beta_tcvae", {"beta": 6, "estimator": "stratified"}),
    ("dip_vae_i", {"lambda_od": 5}),
    ("dip_vae_ii", {"lambda_od": 5, "lambda_d": 1}),
    ("infogan", {"critic_steps": 2}),
    ("pca", {}),
]


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize(("method", "parameters"), EVERY_METHOD)
def test_every_method_trains_saves_and_opens(method: str, parameters: dict[str, Any], tmp_path: Path) -> None:
    trace = method != "pca"
    run = train("blobs", method, out=tmp_path / "a", trace=trace, **SMALL, **parameters)
    images, _ = load("blobs").sample(70, 0)
    mean, logvar = run.encode(images)
    assert mean.shape == logvar.shape == (70, 3)
    decoded = run.decode(mean)
    assert decoded.shape == images.shape
    assert decoded.min() >= 0
    assert decoded.max() <= 1
    assert run.kl(images).shape == (3,)
    evaluated = run.evaluate(images)
    assert evaluated["elbo"] == pytest.approx(-evaluated["reconstruction"] - evaluated["kl"])

    again = open(tmp_path / "a")
    for ours, theirs in zip(again.encode(images), (mean, logvar)):
        np.testing.assert_array_equal(ours, theirs)
    assert again.config == run.config
    assert again.history.equals(run.history)
    files = {"run.json", "model.safetensors", "history.parquet"}
    assert set(contents(tmp_path / "a")) == files | ({"trace.npy"} if trace else set())
    if trace:
        assert again.trace.shape == (30, 200, 128)
        assert again.trace.dtype == np.float16
        np.testing.assert_array_equal(again.trace, run.trace)


@pytest.mark.parametrize("method", ["beta_vae", "factor_vae", "infogan"])
def test_same_seed_same_bytes(method: str, tmp_path: Path) -> None:
    parameters = {"factor_vae": FAST_DISCRIMINATOR, "infogan": {"critic_steps": 1}}.get(method, {})
    for name, seed in [("a", 3), ("b", 3), ("c", 4)]:
        torch.manual_seed(ord(name))  # the global generator must not matter
        train("blobs", method, seed=seed, out=tmp_path / name, **SMALL, **parameters)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["model.safetensors"] != contents(tmp_path / "c")["model.safetensors"]


def test_training_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    train("blobs", **SMALL)
    assert torch.equal(torch.rand(3), expected)


class Stop(Exception):
    pass


@pytest.mark.parametrize(("method", "parameters"), EVERY_METHOD[:-1])
def test_interrupted_run_resumes_to_the_same_bytes(method: str, parameters: dict[str, Any], tmp_path: Path) -> None:
    settings = {**SMALL, "steps": 60, "trace": True, **parameters}
    train("blobs", method, out=tmp_path / "whole", **settings)

    def stop(progress: Progress) -> None:
        seen.append(progress.step)
        if progress.step == 23:
            raise Stop

    seen: list[int] = []
    with pytest.raises(Stop):
        train("blobs", method, out=tmp_path / "cut", checkpoint_seconds=0, progress=stop, **settings)
    assert open_status(tmp_path / "cut") == "running"
    train("blobs", method, out=tmp_path / "cut", progress=lambda p: seen.append(p.step), **settings)
    assert seen == [*range(1, 61)]  # resumed after step 23: what stops it loses nothing
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")


def open_status(path: Path) -> str:
    return json.loads((path / "run.json").read_text())["status"]


@pytest.mark.parametrize("network", ["conv64", "resnet"])
def test_memory_layout_survives_a_checkpoint(tmp_path: Path, network: str) -> None:
    """Convolutions keep weights and Adam's moments in channels-last order; files do not. Nor must the running averages
    of batch normalisation be lost."""
    images = np.random.default_rng(0).random((20, 1, 64, 64), dtype=np.float32)
    settings = {"steps": 2, "latents": 2, "batch": 2, "network": network}
    train(images, "beta_tcvae", out=tmp_path / "whole", **settings)

    def stop(progress: Progress) -> None:
        if progress.step == 2:
            raise Stop

    with pytest.raises(Stop):
        train(images, "beta_tcvae", out=tmp_path / "cut", checkpoint_seconds=0, progress=stop, **settings)
    train(images, "beta_tcvae", out=tmp_path / "cut", **settings)
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")


KILLER = """
import os, sys, time
import numpy as np, torch
torch.set_num_threads(1)
from karenina.training import train

def start(out):  # forked before torch has done any work, so that only the first import is paid for
    process = os.fork()
    if process == 0:
        train("blobs", "factor_vae", out=out, steps=120, latents=4, batch=16, trace=True, checkpoint_seconds=0.02,
              discriminator_layers=2, discriminator_units=32)
        os._exit(0)
    return process

began = time.monotonic()
assert os.waitpid(start(sys.argv[1]), 0)[1] == 0
whole = time.monotonic() - began
rng, killed = np.random.default_rng(), 0
for _ in range(10):
    process = start(sys.argv[2])
    time.sleep(rng.uniform(0, 0.5 * whole))
    os.kill(process, 9)
    killed += os.waitpid(process, 0)[1] == 9
assert os.waitpid(start(sys.argv[2]), 0)[1] == 0
print(killed)
"""


def test_kill_nine_at_ten_random_moments(tmp_path: Path) -> None:
    """A process that is killed and started again until it is done ends with the bytes of one that never was."""
    command = [sys.executable, "-c", KILLER, str(tmp_path / "whole"), str(tmp_path / "killed")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")


def test_finished_run_is_returned_at_once(tmp_path: Path) -> None:
    train("blobs", out=tmp_path / "a", **SMALL)
    before = contents(tmp_path / "a")
    run = train("blobs", out=tmp_path / "a", progress=lambda p: pytest.fail("trained again"), **SMALL)
    assert len(run.history) == 40
    assert contents(tmp_path / "a") == before


def test_directory_with_another_config(tmp_path: Path) -> None:
    train("blobs", beta=4, out=tmp_path / "a", **SMALL)
    with pytest.raises(ValueError, match=r"another config: parameters \{'beta': 4.0\} there, .*; seed 0 there, 1 here"):
        train("blobs", beta=5, seed=1, out=tmp_path / "a", **SMALL)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"not empty and not a run: it holds thesis.tex"):
        train("blobs", out=tmp_path / "b", **SMALL)


def test_two_at_once_in_one_directory(tmp_path: Path) -> None:
    def inner(progress: Progress) -> None:
        with pytest.raises(ValueError, match="another process is training"):
            train("blobs", out=tmp_path / "a", **SMALL)

    train("blobs", out=tmp_path / "a", progress=inner, **SMALL)


def test_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.write_bytes
    written: list[bytes] = []

    def full(path: Path, content: bytes) -> int:
        if len(written) < 3:
            written.append(content)
            return real(path, content)
        real(path, content[:100])
        raise OSError(28, "No space left on device")

    def stop(progress: Progress) -> None:
        if progress.step == 9:
            raise Stop

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Stop), pytest.warns(UserWarning, match="no checkpoint at step .*No space left"):
        train("blobs", out=tmp_path / "a", checkpoint_seconds=0, progress=stop, **SMALL)
    assert contents(tmp_path / "a")["checkpoint.safetensors"] == written[-1]
    monkeypatch.undo()
    train("blobs", out=tmp_path / "a", **SMALL)
    train("blobs", out=tmp_path / "b", **SMALL)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle")

    for name in ("load", "loads", "Unpickler", "dump", "dumps", "Pickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    train("blobs", out=tmp_path / "a", checkpoint_seconds=0, trace=True, **SMALL)
    run = open(tmp_path / "a")
    assert len(run.history) == 40
    assert run.trace is not None


def test_objective_of_ones_own(tmp_path: Path) -> None:
    def squared_kl(batch: Any, *, strength: float = 1.0) -> dict[str, torch.Tensor]:
        return {"reconstruction": batch.reconstruction, "penalty": strength * batch.kl.sum() ** 2}

    run = train("blobs", squared_kl, strength=0.5, out=tmp_path / "a", **SMALL)
    assert list(run.history.columns[:4]) == ["step", "loss", "reconstruction", "penalty"]
    assert run.config.parameters == {"strength": 0.5}
    assert run.config.method.endswith("squared_kl")
    np.testing.assert_allclose(run.history["loss"], run.history["reconstruction"] + run.history["penalty"], rtol=1e-5)
    assert open(tmp_path / "a").config == run.config
    with pytest.raises(ValueError, match=r"squared_kl has no parameter 'beta'; it has: strength"):
        train("blobs", squared_kl, beta=1, **SMALL)
    with pytest.raises(ValueError, match=r"squared_kl: strength must be a number, text or true or false, got \[1\]"):
        train("blobs", squared_kl, strength=[1], **SMALL)
    with pytest.raises(ValueError, match="must return a dict of named scalar tensors"):
        train("blobs", lambda batch: batch.kl.sum(), **SMALL)


def test_factor_vae_takes_two_batches() -> None:
    """The shuffled codes come from a second batch, after the update of the autoencoder."""
    from karenina.training import METHODS, learners
    from karenina.training.methods import DISCRIMINATOR, make_config

    data = load("blobs")
    settings = {"seed": 0, "network": "auto", "learning_rate": "auto", "init": "auto"}
    config = make_config(
        data,
        "factor_vae",
        FAST_DISCRIMINATOR,
        {**settings, **SMALL, "decoder": "bernoulli", "reconstruction_weight": 1.0, "trace": False},
    )
    noise = torch.Generator().manual_seed(0)
    shuffled: list[torch.Tensor] = []
    spied = replace(DISCRIMINATOR, draw=lambda z, noise: shuffled.append(z) or z)
    method = replace(METHODS["factor_vae"], beside=(spied,))
    learner = learners.VAELearner(config, method, 100, noise, torch.device("cpu"))
    batches = [torch.rand(8, 1, 16, 16), torch.rand(8, 1, 16, 16)]
    encoded: list[torch.Tensor] = []
    real = learner.network.encode

    def spy(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        encoded.append(x)
        mean, logvar = real(x)
        return mean, logvar - 50  # so that codes are means

    learner.network.encode = spy  # type: ignore[method-assign]
    supply = iter(batches)
    terms, _ = learner.update(lambda: next(supply), 0)
    assert all(torch.equal(x, y) for x, y in zip(encoded, batches, strict=True))
    with torch.no_grad():
        torch.testing.assert_close(shuffled[0], real(batches[1])[0])
    assert set(terms) == {"loss", "reconstruction", "kl", "total_correlation", "discriminator"}


def test_trace_moments() -> None:
    for steps in (29, 30, 57, 300, 10_000, 300_000):
        moments = trace_steps(steps)
        assert len(moments) == len(set(moments)) == 30
        assert (moments[0], moments[-1]) == (0, steps)
        assert moments == sorted(moments)


def test_bytes_and_floats_encode_alike() -> None:
    run = train("blobs", **SMALL)
    images, _ = load("blobs").sample(40, 1)
    images.flags.writeable = False
    floats = images / 255.0
    before = floats.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, theirs = run.encode(images)[0], run.encode(floats)[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_array_equal(floats, before)


def test_pca_is_that_of_scikit_learn() -> None:
    from sklearn.decomposition import PCA

    data = load("blobs")
    run = train(data, "pca", latents=3, steps=100, batch=64)
    images = data.sample(6400, np.random.default_rng(0))[0] / 255
    pca = PCA(3).fit(images.reshape(6400, -1))
    scores = pca.transform(images[:200].reshape(200, -1))
    mean, logvar = run.encode(images[:200].astype(np.float32))
    for j in range(3):
        assert abs(np.corrcoef(scores[:, j], mean[:, j])[0, 1]) > 0.9999
    shrink = 1 - pca.noise_variance_ / pca.explained_variance_
    expected = np.clip((shrink * scores) @ pca.components_ + pca.mean_, 0, 1)
    np.testing.assert_allclose(run.decode(mean).reshape(200, -1), expected, atol=1e-3)
    np.testing.assert_allclose(np.exp(logvar[0]), 1 - shrink, rtol=1e-2)


def test_defaults_are_those_of_the_papers() -> None:
    assert defaults("annealed_vae") == {"gamma": 1000.0, "c_max": 25.0, "iteration_threshold": 100_000}
    assert defaults("factor_vae") == {
        "gamma": 10.0,
        "discriminator_layers": 6,
        "discriminator_units": 1000,
        "discriminator_learning_rate": 1e-4,
    }
    assert defaults("infogan")["mi_weight"] == 6.0


def test_pca_has_no_kl_where_nothing_varies():
    rng = np.random.default_rng(0)
    images = (np.tensordot(rng.random((500, 3)), rng.random((3, 1, 8, 8)), 1) / 3).astype(np.float32)
    run = train(images, "pca", latents=6, steps=100, batch=20)
    kl = run.kl(images)
    assert (kl[:3] > 3).all()
    np.testing.assert_allclose(kl[3:], 0, atol=1e-6)
    np.testing.assert_allclose(run.decode(run.encode(images)[0]), images, atol=1e-3)


@pytest.mark.parametrize(("method", "parameters"), EVERY_METHOD)
def test_another_number_of_threads_changes_rounding_alone(method: str, parameters: dict[str, Any]) -> None:
    before, found, images = torch.get_num_threads(), [], load("blobs").sample(64, 0)[0]
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            found.append(train("blobs", method, steps=3, batch=64, latents=3, **parameters).encode(images)[0])
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(found[1], found[2])
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
