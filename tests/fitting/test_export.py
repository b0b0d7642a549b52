"""Files for other programs give our codes and our images."""

import io
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import karenina
from karenina.cli import app
from karenina.fitting.encoding import encode
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


PEOPLE = {"0": "hair", "2": '=hat, "red"'}


@pytest.mark.parametrize(
    ("mode", "options"),
    [("RGB", ":crop=40,size=16"), ("I;16", ":size=16x12"), ("RGB", ":grey=true,size=16")],
)
def test_the_script_beside_an_onnx_gives_our_codes_without_us(mode, options, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    rng = np.random.default_rng(0)
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(6):
        low = rng.random((8, 7, 3) if mode == "RGB" else (8, 7))
        array = np.kron(low, np.ones((6, 7, 1) if mode == "RGB" else (6, 7)))
        image = (array * 65535).astype(np.uint16) if mode == "I;16" else (array * 255).astype(np.uint8)
        Image.fromarray(image).save(photos / f"{i}.png")
    run = karenina.train(
        f"{photos}{options}", beta=0.01, latents=3, steps=30, batch=6, network="mlp", out=tmp_path / "a"
    )
    (tmp_path / "a" / "names.json").write_text(json.dumps(PEOPLE))
    made = {path.name: path for path in export(tmp_path / "a", tmp_path / "out", "onnx")}
    assert list(made) == ["decoder.onnx", "encoder.onnx", "model.json", "use_encoder.py"]
    files = sorted(photos.iterdir())
    quiet = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0]); "
    quiet += "assert not {'torch', 'karenina', 'pandas'} & set(sys.modules)"
    command = [sys.executable, "-c", quiet, made["use_encoder.py"], *files]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    frame = pd.read_csv(io.StringIO(found))
    assert list(frame.columns) == ["image", "hair", "latent_1", '=hat, "red"']
    ours = run.encode(karenina.load(f"{photos}{options}").at(np.arange(6)))[0]
    assert ours.std(axis=0).max() > 0.01
    np.testing.assert_allclose(frame.iloc[:, 1:], ours, atol=1e-4)
    encode(tmp_path / "a", photos, tmp_path / "codes.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "codes.csv").iloc[:, 1:], ours, atol=1e-4)
    about = json.loads(made["model.json"].read_text())
    channels, height, width = run.config.image_shape
    how = about["preprocessing"]
    assert (how["channels"], how["height"], how["width"], how["filter"]) == (channels, height, width, "lanczos")
    assert how["crop"] == ([40, 40] if "crop" in options else None)
    assert [one["active"] for one in about["latents"]] == (
        run.history.iloc[-1][["kl_0", "kl_1", "kl_2"]] > 0.1
    ).tolist()
    model = __import__("onnxruntime").InferenceSession(str(made["decoder.onnx"]))
    carried = {key: json.loads(text) for key, text in model.get_modelmeta().custom_metadata_map.items()}
    assert carried == about


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Folders of pictures: grey, in colour, and grey ones that are stored in colour, as JPEGs."""
    root, rng = tmp_path_factory.mktemp("kinds"), np.random.default_rng(0)
    for name in ("grey", "colour", "stored"):
        (root / name).mkdir()
        for i in range(5):
            pixels = rng.integers(256, size=(12, 12, 3 if name == "colour" else 1), dtype=np.uint8)
            pixels = pixels if name == "colour" else pixels.repeat(3, axis=2)
            image = Image.fromarray(pixels[..., 0] if name == "grey" else pixels)
            image.save(root / name / f"{i}.{'jpg' if name == 'stored' else 'png'}")
    for name, options in (("grey", ""), ("colour", ""), ("colour", ":grey=true")):
        out = root / f"model of {name}{options.replace(':', ' ')}"
        karenina.train(f"{root / name}{options}", latents=2, steps=1, batch=4, network="mlp", out=out)
    return root


def test_images_in_colour_are_refused_by_a_model_of_grey_ones(kinds, tmp_path):
    grey, colour = kinds / "model of grey", kinds / "colour"
    assert encode(grey, kinds / "grey", tmp_path / "a.csv") == 5
    assert encode(grey, kinds / "stored", tmp_path / "a.csv") == 5
    with pytest.raises(
        ValueError, match="colour has images in colour, and the model was trained on grey ones.*:grey=true"
    ):
        encode(grey, colour, tmp_path / "b.csv")
    assert list(tmp_path.glob("b.csv*")) == []
    assert encode(grey, f"{colour}:grey=true", tmp_path / "a.csv") == 5
    pictures = karenina.load(colour).at(np.arange(5))
    with pytest.raises(ValueError, match="the array has images in colour"):
        encode(grey, pictures, tmp_path / "b.csv")
    assert encode(grey, pictures.mean(axis=1).astype(np.uint8), tmp_path / "a.csv") == 5
    assert encode(kinds / "model of colour grey=true", colour, tmp_path / "a.csv") == 5
    assert encode(kinds / "model of colour", colour, tmp_path / "a.csv") == 5
    assert encode(kinds / "model of colour", kinds / "stored", tmp_path / "a.csv") == 5
    with pytest.warns(UserWarning, match="has grey images, and the model was trained on images in colour"):
        encode(kinds / "model of colour", kinds / "grey", tmp_path / "a.csv")


def test_codes_say_which_latents_are_active(tmp_path):
    run = karenina.train("blobs", "beta_vae", beta=4, latents=4, steps=150, out=tmp_path / "a")
    kl = run.history.iloc[-1][[f"kl_{i}" for i in range(4)]].to_numpy(float)
    expected = kl > np.sort(kl)[:2].mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karenina.fitting.encoding.CLEAR_KL", float(np.sort(kl)[:2].mean()))
        encode(run, karenina.load("blobs"), tmp_path / "codes.parquet")
        about = json.loads((tmp_path / "codes.parquet.json").read_text())["latents"]
        assert [one["active"] for one in about] == expected.tolist()
        assert [one["name"] for one in about] == list(pd.read_parquet(tmp_path / "codes.parquet").columns)[1:]
        encode(run, karenina.load("blobs"), tmp_path / "codes.csv", active=True)
        table = pd.read_csv(tmp_path / "codes.csv")
        assert list(table.columns)[1:] == [f"latent_{i}" for i in np.flatnonzero(expected)]
        said = CliRunner().invoke(app, ["encode", str(tmp_path / "a"), "blobs", "--out", str(tmp_path / "codes.csv")])
        assert "1 of 4 latents are not active" in said.stdout
        patch.setattr("karenina.fitting.encoding.CLEAR_KL", 1e9)
        with pytest.raises(ValueError, match="no latent .* is active; leave out --active"):
            encode(run, karenina.load("blobs"), tmp_path / "codes.csv", active=True)
    karenina.train("blobs", "pca", latents=2, steps=1, out=tmp_path / "pca")
    encode(tmp_path / "pca", "blobs", tmp_path / "codes.csv")
    assert json.loads((tmp_path / "codes.csv.json").read_text())["latents"][1]["active"] is None
    with pytest.raises(ValueError, match="not known which latents"):
        encode(tmp_path / "pca", "blobs", tmp_path / "codes.csv", active=True)


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


def test_a_card_says_names_as_they_are_and_no_paths(run, tmp_path):
    name = "<img src=x onerror=alert(1)> | [a](http://b)\n# c"
    folder = shutil.copytree(run.path, tmp_path / "run")
    about = json.loads((folder / "run.json").read_text())
    about["config"]["data"] = "photos:factors_csv=/home/me/labels.csv,size=32"
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "names.json").write_text(json.dumps({"0": name}))
    export(folder, tmp_path / "hub", "hub")
    for file in (tmp_path / "hub").iterdir():
        assert b"/home/me" not in file.read_bytes(), file
    card = (tmp_path / "hub" / "README.md").read_text()
    row = next(line for line in card.splitlines() if line.startswith("| 0 |"))
    assert all(words in row for words in ("\\<img", "\\[a\\]\\(http", "\\# c"))
    assert re.sub(r"\\.", "", row).count("|") == 3


def test_names_that_a_spreadsheet_takes_for_formulas_and_names_that_are_not_text(run, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    names = [b"=1+1.png", b"+a.png", b"-b.png", b"@c.png", b"caf\xe9.png", b"plain.png"]
    pixels = np.random.default_rng(0).integers(256, size=(6, 32, 32, 3), dtype=np.uint8)
    for name, image in zip(names, pixels):
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "png")
        try:
            with open(os.fsencode(photos) + b"/" + name, "wb") as file:
                file.write(buffer.getvalue())
        except OSError:
            pytest.skip("this file system has no names that are not UTF-8")
    for table in ("codes.csv", "codes.parquet"):
        assert encode(run.path, photos, tmp_path / table) == 6
    listed = set(pd.read_csv(tmp_path / "codes.csv")["image"])
    assert listed == {"'=1+1.png", "'+a.png", "'-b.png", "'@c.png", "caf\\udce9.png", "plain.png"}
    plain = set(pd.read_parquet(tmp_path / "codes.parquet")["image"])
    assert plain == {"=1+1.png", "+a.png", "-b.png", "@c.png", "caf\\udce9.png", "plain.png"}
