import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from karenina.training import METHODS, TrainingDiverged, open, train

SMALL: dict[str, Any] = {"steps": 40, "latents": 3, "batch": 8}


def test_divergence_is_recorded(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(TrainingDiverged, match="by step"):
            train("blobs", learning_rate=1e3, steps=2000, out=tmp_path / "a")
    about = json.loads((tmp_path / "a" / "run.json").read_text())
    assert about["status"] == "failed"
    assert "by step" in about["reason"]
    with pytest.raises(ValueError, match=r"is failed: .* by step"):
        open(tmp_path / "a")


def test_nan_stops_training() -> None:
    def broken(batch: Any) -> dict[str, torch.Tensor]:
        factor = float("nan") if batch.step == 7 else 1.0
        return {"reconstruction": batch.reconstruction, "odd": factor * batch.kl.sum()}

    with pytest.raises(TrainingDiverged, match="loss is nan by step 8"):
        train("blobs", broken, **SMALL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "gan"}, r"no method 'gan'; did you mean infogan. Known: vae, beta_vae"),
        ({"data": "blob"}, "blob"),
        ({"data": np.zeros((4, 16, 16))}, r"array of shape \(4, 16, 16\)"),
        ({"data": np.zeros((0, 1, 4, 4), np.uint8)}, "no images"),
        ({"data": np.full((4, 1, 4, 4), 7.0)}, r"must lie in \[0, 1\], got 7 to 7"),
        ({"data": np.full((4, 1, 4, 4), np.nan)}, r"must lie in \[0, 1\]"),
        ({"gamma": 3}, r"beta_vae has no parameter 'gamma'; it has: beta"),
        ({"method": "vae", "beta": 3}, r"vae has no parameter 'beta'; it has: \(none\)"),
        ({"beta": -1}, "beta_vae: beta must not be negative"),
        ({"beta": "4"}, "beta_vae: beta must be a finite number, got '4'"),
        ({"beta": float("nan")}, "beta must be a finite number"),
        ({"method": "beta_tcvae", "estimator": "exact"}, "weighted or stratified"),
        ({"method": "factor_vae", "discriminator_layers": 0}, "discriminator_layers must be an integer, 1 or more"),
        ({"steps": 0}, "steps must be an integer, 1 or more, got 0"),
        ({"steps": 10.5}, "steps must be an integer"),
        ({"latents": 0}, "latents must be an integer"),
        ({"batch": 0}, "batch must be an integer"),
        ({"seed": -1}, "seed must be an integer, 0 or more"),
        ({"learning_rate": 0}, "learning_rate must be more than 0"),
        ({"reconstruction_weight": -2}, "reconstruction_weight must be more than 0"),
        ({"network": "conv64"}, r"takes images of 1 or 3 channels and 64x64 pixels, got 1 channels and 16x16"),
        ({"decoder": "poisson"}, "no decoder 'poisson'; known: bernoulli, gaussian"),
        ({"device": "abacus"}, "no device 'abacus'"),
        ({"device": "meta"}, "no device 'meta'"),
        ({"device": 1}, "no device 1; known: auto, cpu, cuda, mps"),
        ({"device": ""}, "no device ''"),
        ({"network": []}, r"no network \[\]; known: auto, conv64"),
        ({"trace": "no"}, "trace must be true or false, got 'no'"),
        ({"beta": 10**400}, r"beta must be a finite number, got 10{96}\.\.\."),
        ({"beta": 10**5000}, "beta must be a finite number, got something of type int"),
        ({"beta": 1j}, "beta must be a finite number"),
        ({"learning_rate": 10**400}, "learning_rate must be a finite number"),
        ({"checkpoint_seconds": 10**400}, "checkpoint_seconds must be a finite number"),
        ({"seed": 2**63}, r"seed must be an integer below 2\*\*63"),
        ({"steps": 10**400}, r"steps must be an integer below 2\*\*63"),
        ({"latents": 10**10}, r"10000000000 latents and .* weights need .* GB at least, this machine has"),
        ({"latents": 2**62}, "inf weights need inf GB at least"),
        ({"batch": 10**12}, "a batch of 1000000000000 and a model of .* need"),
        ({"method": "factor_vae", "discriminator_layers": 10**10}, "need .* GB at least"),
        ({"method": "factor_vae", "discriminator_units": 10**8}, "need .* GB at least"),
        ({"method": "pca", "latents": 10**10}, "need .* GB at least"),
        ({"trace": True, "steps": 10}, "steps must be 29 or more"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must not be negative"),
        ({"method": "pca", "latents": 300}, "at most 256 latents"),
        ({"method": "infogan", "decoder": "gaussian"}, "infogan has its own decoder"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**{"data": "blobs", "method": "beta_vae", **SMALL, **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        {"latents": 10**10},
        {"batch": 10**12},
        {"beta": 10**400},
        {"device": "meta"},
        {"method": "pca", "latents": 300},
    ],
)
def test_what_cannot_start_leaves_nothing_behind(arguments: dict[str, Any], tmp_path: Path) -> None:
    for given in (arguments, arguments):
        with pytest.raises(ValueError):
            train(**{"data": "blobs", "out": tmp_path / "a", **SMALL, **given})
        assert not (tmp_path / "a" / "run.json").exists()
    train("blobs", out=tmp_path / "a", **SMALL)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no device 'cuda' on this machine: "):
        train("blobs", out=tmp_path / "a", device="cuda", **SMALL)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("error", [MemoryError("too much"), RuntimeError("you tried to allocate 9 bytes.\nAt 0x7f")])
def test_too_little_memory_on_the_way(error: Exception, tmp_path: Path) -> None:
    def hungry(batch: Any) -> dict[str, torch.Tensor]:
        raise error

    with pytest.raises(ValueError, match="not enough memory for this model: [^\n]*$"):
        train("blobs", hungry, out=tmp_path / "a", **SMALL)


def test_a_run_without_a_checkpoint_makes_room_for_another(tmp_path: Path) -> None:
    """There is nothing to lose, and the command that is corrected must not meet a refusal."""

    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    def stopped_in_the_first_step(batch: Any, beta: float = 4.0) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("blobs", stopped_in_the_first_step, out=tmp_path / "a", **SMALL)
    assert json.loads((tmp_path / "a" / "run.json").read_text())["status"] == "running"
    assert train("blobs", beta=5, out=tmp_path / "a", **SMALL).config.parameters == {"beta": 5.0}

    with pytest.raises(KeyboardInterrupt):
        train("blobs", out=tmp_path / "b", checkpoint_seconds=0, progress=late(stop), **SMALL)
    with pytest.raises(ValueError, match=r"another config: parameters"):
        train("blobs", beta=5, out=tmp_path / "b", **SMALL)


def late(stop: Any) -> Any:
    return lambda progress: stop(progress) if progress.step == 3 else None


def test_a_directory_of_somebody_else_is_left_as_it_was(tmp_path: Path) -> None:
    files = [".thesis.tex.part", ".a.csv.abcdefgh.part.csv", ".run.json.abcdefgh.part.json"]
    for name in files:
        (tmp_path / name).write_text("mine")
    for _ in range(2):
        with pytest.raises(ValueError, match="is not empty and not a run: it holds .a.csv"):
            train("blobs", out=tmp_path, **SMALL)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    train("blobs", beta=4, out=tmp_path / "run", **SMALL)
    (tmp_path / "run" / files[1]).touch()
    with pytest.raises(ValueError, match="another config"):
        train("blobs", beta=5, out=tmp_path / "run", **SMALL)
    assert (tmp_path / "run" / files[1]).exists()


def test_what_a_killed_write_left_goes_away(tmp_path: Path) -> None:
    for name in ("run.json", "model.safetensors"):
        path = tmp_path / name
        path.mkdir()
        if name != "run.json":
            train("blobs", out=path, **SMALL)
        (path / f".{name}.abcdefgh.part{Path(name).suffix}").write_text("half")
        train("blobs", out=path, **SMALL)
        assert {file.name for file in path.iterdir()} == {"run.json", "model.safetensors", "history.parquet"}


def test_out_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ValueError, match="a file is in the way"):
            train("blobs", out=out, **SMALL)
    with pytest.raises(ValueError, match="out is empty"):
        train("blobs", out="", **SMALL)
    with pytest.raises(ValueError, match="is not a run but a file"):
        open(tmp_path / "file")


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.share])
@pytest.mark.parametrize("images", [1, 5])
def test_one_image_and_constant_images(method: str, images: int) -> None:
    x = np.full((images, 1, 6, 6), 100, np.uint8)
    small = {"discriminator_units": 16} if method == "factor_vae" else {}
    run = train(x, method, **{**SMALL, "latents": 1}, **small)
    mean, logvar = run.encode(x)
    assert np.isfinite(mean).all()
    assert np.isfinite(logvar).all()
    assert np.isfinite(run.decode(mean)).all()


def test_encode_and_decode_say_what_they_expect() -> None:
    run = train("blobs", **SMALL)
    for images, message in [
        (np.zeros((2, 1, 8, 8), np.uint8), r"images have shape \(2, 1, 8, 8\), expected \(n, 1, 16, 16\)"),
        (np.zeros((1, 16, 16), np.uint8), "expected"),
        (np.zeros((0, 1, 16, 16), np.uint8), "no images"),
        (np.zeros((1, 1, 16, 16), np.int64), "must be uint8, or floats"),
        (np.full((1, 1, 16, 16), 255.0), r"must lie in \[0, 1\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            run.encode(images)
    with pytest.raises(ValueError, match=r"codes have shape \(2, 4\), expected \(n, 3\)"):
        run.decode(np.zeros((2, 4)))
