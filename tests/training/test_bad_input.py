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
        ({"method": "gan"}, r"no method 'gan'; known: vae, beta_vae"),
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
        ({"trace": True, "steps": 10}, "steps must be 29 or more"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must not be negative"),
        ({"method": "pca", "latents": 300}, "at most 256 latents"),
        ({"method": "infogan", "decoder": "gaussian"}, "infogan has a generator"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**{"data": "blobs", "method": "beta_vae", **SMALL, **arguments})


@pytest.mark.parametrize("method", METHODS)
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
