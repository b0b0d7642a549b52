"""Files for other programs give our codes and our images."""

import json

import numpy as np
import pytest
import torch

import karenina
from karenina.fitting.export import export, parts


@pytest.fixture(scope="module", params=["mlp", "conv32"])
def run(request, tmp_path_factory):
    """A small one, and one with up-convolutions, whose backward is ours."""
    images = np.random.default_rng(0).random((16, 3, 32, 32), np.float32)
    out = tmp_path_factory.mktemp("runs") / "a"
    return karenina.train(images, latents=3, steps=1, batch=4, network=request.param, out=out)


def test_plain_layers_compute_what_ours_do(run):
    for name, (module, given) in parts(run).items():
        with torch.no_grad():
            found = module(given)
        ours = run.encode(given.numpy())[0] if name == "encoder" else run.decode(given.numpy())
        np.testing.assert_allclose(found[0] if name == "encoder" else found, ours, atol=1e-5)


def test_torchscript_and_hub(run, tmp_path):
    made = export(run, tmp_path / "t", "torchscript")
    assert [path.name for path in made] == ["decoder.pt", "encoder.pt"]
    export(run, tmp_path / "hub", "hub")
    config = json.loads((tmp_path / "hub" / "config.json").read_text())
    assert config["latents"] == 3
    card = (tmp_path / "hub" / "README.md").read_text()
    assert card.startswith("---\n")
    assert "traversals.png" in card
    images = np.random.default_rng(1).random((5, 3, 32, 32), np.float32)
    assert np.array_equal(karenina.open(tmp_path / "hub").encode(images)[0], run.encode(images)[0])


def test_onnx_is_run_by_onnxruntime(run, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    if run.config.network == "conv32":
        pytest.skip("the exporter takes half a minute; the layers are checked above")
    made = export(run.path, tmp_path, "onnx")
    session = runtime.InferenceSession(str(made[1]))
    images = np.random.default_rng(1).random((5, 3, 32, 32), np.float32)
    np.testing.assert_allclose(session.run(None, {"images": images})[0], run.encode(images)[0], atol=1e-4)


def test_what_differs_is_not_exported(run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        type(run), "encode", lambda self, images: (np.ones((len(images), 3)), np.ones((len(images), 3)))
    )
    with pytest.raises(ValueError, match="the encoder as TorchScript differs from ours"):
        export(run, tmp_path / "t", "torchscript")
    assert list((tmp_path / "t").iterdir()) == []


def test_unknown_kinds_and_missing_packages_are_one_line(run, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="onnx, torchscript, hub; got 'tflite'"):
        export(run, tmp_path, "tflite")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"karenina\[export\]"):
        export(run, tmp_path, "onnx")
