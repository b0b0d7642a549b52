"""`karenina export`: a run for other programs, as ONNX, TorchScript, or a folder for the Hugging Face hub.

What is written is tried out before it takes its place: its codes and images must be ours.
"""

import copy
import json
import logging
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from karenina._active import CLEAR_KL
from karenina._console import visible
from karenina._files import checksum, naming, read_json
from karenina._plugins import need
from karenina._version import __version__
from karenina.data import join_name, split_name
from karenina.data import names as data_names
from karenina.data.user_images import FILTER, _pair
from karenina.drawing.pictures import traverse
from karenina.fitting.encoding import about_latents, chosen_run, columns
from karenina.fitting.folder import fit_of, read_answer
from karenina.models.fast import UpConv
from karenina.models.objectives import DECODERS
from karenina.training.run import Run
from karenina.training.run import open as open_run

TOLERANCE = 1e-4  # largest difference to our codes, in standard deviations of the prior, and to our images
_TRIED = 16
_FILES = ("factors_csv", "pairs_csv", "painting")  # options of data sets whose values are files


class ExportedEncoder(nn.Module):
    """Images (n, c, h, w), floats in [0, 1] -> mean and log-variance (n, latents)."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.encode(images)  # type: ignore[operator]


class ExportedDecoder(nn.Module):
    """Codes (n, latents) -> images (n, c, h, w) in [0, 1]."""

    def __init__(self, network: nn.Module, show: Callable[[Tensor], Tensor]):
        super().__init__()
        self.network, self.show = network, show

    def forward(self, codes: Tensor) -> Tensor:
        return self.show(self.network.decode(codes))  # type: ignore[operator]


def export(run: Run | str | os.PathLike[str], out: str | os.PathLike[str], to: str = "onnx") -> list[Path]:
    """Write a run for other programs into a folder, and check what was written against ours.

    Parameters
    ----------
    run : Run, directory of a run, or of a fit, whose choice is taken
    out : folder, which is made
    to : {"onnx", "torchscript", "hub"}
        onnx: encoder.onnx and decoder.onnx, checked with onnxruntime (extra `export`); how images are prepared, names
        and active latents, as their metadata and as model.json; and use_encoder.py, a script that writes the codes of
        image files with onnxruntime, Pillow and numpy alone. torchscript: encoder.pt and decoder.pt. hub:
        model.safetensors, config.json, a model card with traversals, and run.json, so that `karenina.open` reads it.

    Returns
    -------
    list of Path
        What was written.

    Examples
    --------
    >>> import karenina
    >>> run = karenina.train("blobs", latents=3, steps=2, out="runs/a")
    >>> [path.name for path in export(run, "exported", "hub")]
    ['README.md', 'config.json', 'model.safetensors', 'run.json', 'traversals.gif', 'traversals.png']
    """
    if to not in KINDS:
        raise ValueError(f"a run is exported to {', '.join(KINDS)}; got {to!r}")
    opened = chosen_run(run)
    if opened.stopped_at is not None:
        raise ValueError(f"{opened.path} was {opened.status}: train it to its end, and then export it")
    target = Path(out)
    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file; expected a folder")
    target.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target, prefix=".export."))
    try:
        with naming(target):
            KINDS[to](opened, run if isinstance(run, str | os.PathLike) else opened.path, work)
        made = sorted(path.name for path in work.iterdir())
        for name in made:
            (work / name).replace(target / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [target / name for name in made]


def parts(run: Run) -> dict[str, tuple[nn.Module, Tensor]]:
    """Return encoder and decoder with plain layers, each with an input to try."""
    network = copy.deepcopy(run._network).cpu().eval()
    _plain_layers(network)
    shape = run.config.image_shape
    generator = torch.Generator().manual_seed(0)
    images = torch.rand((_TRIED, *shape), generator=generator)
    codes = torch.randn((_TRIED, run.latents), generator=generator)
    return {
        "encoder": (ExportedEncoder(network).eval(), images),
        "decoder": (ExportedDecoder(network, DECODERS[run.config.decoder][1]).eval(), codes),
    }


def _plain_layers(module: nn.Module) -> None:
    """Replace our up-convolutions, whose backward exporters do not know, by those of torch, which give the same."""
    for name, child in module.named_children():
        if isinstance(child, UpConv):
            plain = nn.ConvTranspose2d(child.in_channels, child.out_channels, 4, stride=2, padding=1)
            plain.load_state_dict(child.state_dict())
            setattr(module, name, plain)
        else:
            _plain_layers(child)


def _ours(run: Run, name: str, given: Tensor) -> list[NDArray[np.float32]]:
    """Return what our encoder or decoder makes of an input."""
    return list(run.encode(given.numpy())) if name == "encoder" else [run.decode(given.numpy())]


def _compare(run: Run, name: str, given: Tensor, found: list[NDArray[Any]], what: str) -> None:
    """Refuse what was exported where it differs from ours."""
    for ours, theirs in zip(_ours(run, name, given), found):
        apart = float(np.abs(ours - theirs).max())
        if not apart <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
            raise ValueError(f"the {name} as {what} differs from ours by {apart:.2g}: nothing was exported")


_SCRIPT = '''"""Write codes of image files: python use_encoder.py a.png b.png > codes.csv"""
import csv, json, pathlib, sys
import numpy as np, onnxruntime
from PIL import Image

session = onnxruntime.InferenceSession(str(pathlib.Path(__file__).with_name("encoder.onnx")))
about = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
how, names = about["preprocessing"], [latent["name"] for latent in about["latents"]]
csv.writer(sys.stdout).writerow(["image", *names])
for path in sys.argv[1:]:
    image = Image.open(path)
    if image.mode.startswith("I"):  # 16 bits
        image = Image.fromarray(np.clip(np.asarray(image) / 257, 0, 255).round().astype(np.uint8))
    image = image.convert(how["mode"])
    if how["crop"]:  # (height, width) out of the middle
        top, left = ((a - b) // 2 for a, b in zip((image.height, image.width), how["crop"]))
        image = image.crop((left, top, left + how["crop"][1], top + how["crop"][0]))
    if image.size != (how["width"], how["height"]):
        image = image.resize((how["width"], how["height"]), Image.Resampling[how["filter"].upper()])
    pixels = np.asarray(image, np.float32).reshape(1, how["height"], how["width"], how["channels"]) / 255
    mean = session.run(["mean"], {"images": np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})[0]
    csv.writer(sys.stdout).writerow([path, *mean[0]])
'''


def _about(run: Run, where: Any) -> dict[str, Any]:
    """Return what another program must know to use the model: how images are prepared, and what its latents are."""
    channels, height, width = run.config.image_shape
    name, options = split_name(run.config.data)
    crop = None if name in data_names() else _pair(options.get("crop"))
    return {
        "preprocessing": {
            "channels": channels,
            "height": height,
            "width": width,
            "mode": {1: "L", 3: "RGB"}.get(channels),
            "crop": crop,
            "filter": FILTER.name.lower(),
            "range": [0, 1],
            "layout": ["n", "channels", "height", "width"],
        },
        "latents": about_latents(run, where),
        "kl_threshold": CLEAR_KL,
        "karenina_version": __version__,
    }


def _onnx(run: Run, where: Any, folder: Path) -> None:
    """Write a run as ONNX."""
    runtime, onnx, _ = (need(module) for module in ("onnxruntime", "onnx", "onnxscript"))
    about = _about(run, where)
    (folder / "model.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    if about["preprocessing"]["mode"] is not None:
        (folder / "use_encoder.py").write_text(_SCRIPT, encoding="utf-8")
    inputs = {"encoder": ("images", ["mean", "logvar"]), "decoder": ("codes", ["images"])}
    for name, (module, example) in parts(run).items():
        file = folder / f"{name}.onnx"
        enters, leaves = inputs[name]
        with warnings.catch_warnings(), torch.no_grad(), _quiet("torch.onnx"):
            warnings.simplefilter("ignore")  # of the exporter's own ways
            torch.onnx.export(
                module,
                (example,),
                file,
                input_names=[enters],
                output_names=leaves,
                dynamic_shapes=({0: torch.export.Dim("n", min=1)},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        model = onnx.load(file)
        onnx.helper.set_model_props(model, {key: json.dumps(value) for key, value in about.items()})
        onnx.save(model, file)
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        for rows in (_TRIED, 3):  # any number of rows must do
            _compare(run, name, example[:rows], session.run(None, {enters: example[:rows].numpy()}), "ONNX")


def _torchscript(run: Run, where: Any, folder: Path) -> None:
    """Write a run as TorchScript."""
    for name, (module, example) in parts(run).items():
        file = folder / f"{name}.pt"
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have us use torch.export
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            torch.jit.trace(module, example, check_trace=False).save(str(file))
            loaded = torch.jit.load(str(file))
            for rows in (_TRIED, 3):
                found = loaded(example[:rows])
                arrays = [part.numpy() for part in (found if isinstance(found, tuple) else (found,))]
                _compare(run, name, example[:rows], arrays, "TorchScript")


def _hub(run: Run, where: Any, folder: Path) -> None:
    """Write a run as a folder for the Hugging Face hub."""
    assert run.path is not None
    shutil.copy2(run.path / "model.safetensors", folder / "model.safetensors")
    about = read_json(run.path / "run.json")
    about["config"]["data"] = _without_paths(run.config.data)
    (folder / "run.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    names = columns(run, where)
    config = {
        "model_type": "karenina",
        "karenina_version": __version__,
        **run.config.to_json(),
        "data": _without_paths(run.config.data),
        "latent_names": names,
        "sha256": checksum(folder / "model.safetensors"),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    # Around the middle of the prior: the images themselves may not be ours to publish.
    middle = run.decode(np.zeros((1, run.latents), np.float32))
    drawn = run.decode(np.random.default_rng(0).standard_normal((256, run.latents)).astype(np.float32))
    found = traverse(run, np.concatenate([middle, drawn]))
    found.save(folder / "traversals.png")
    found.save(folder / "traversals.gif")
    (folder / "README.md").write_text(_card(run, names, where), encoding="utf-8")
    again = open_run(folder)
    for name, (_, example) in parts(run).items():
        _compare(again, name, example, _ours(run, name, example), "a folder for the hub")


def _without_paths(data: str) -> str:
    """Return the name of a data set without options that are files of this machine, whose places are nobody's business.

    >>> _without_paths("photos:factors_csv=/home/me/labels.csv,size=64"), _without_paths("blobs")
    ('photos:size=64', 'blobs')
    """
    name, options = split_name(data)
    return join_name(name, {key: value for key, value in options.items() if key not in _FILES})


def _words(text: object) -> str:
    """Return a text that Markdown shows as it is, on one line.

    >>> _words("a|b <img> [x](y)")
    'a\\\\|b \\\\<img\\\\> \\\\[x\\\\]\\\\(y\\\\)'
    """
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&$-])", r"\\\1", visible(text))


def _card(run: Run, names: list[str], where: Any) -> str:
    """Return the model card."""
    c = run.config
    fit = fit_of(where)
    answer = read_answer(fit) if fit is not None else None
    strengths = ", ".join(f"{name} {_words(value)}" for name, value in c.parameters.items()) or "no parameters"
    size = "x".join(map(str, c.image_shape))
    chosen = ""
    if answer is not None:
        verdict = answer["verdict"]
        chosen = (
            f"\n## How it was chosen\nFrom {answer['models']} models, without labels, by how far models of different "
            f"seeds agree (UDR, Duan et al. 2020). How sure: **{_words(verdict['level'])}**. {_words(verdict['why'])}\n"
        )
    rows = "\n".join(f"| {i} | {_words(name)} |" for i, name in enumerate(names))
    return f"""---
library_name: karenina
tags:
- disentanglement
- representation-learning
- variational-autoencoder
---
# {_words(c.method)} on {_words(split_name(c.data)[0])}
A variational autoencoder with {c.latents} latents, trained by Karenina {__version__}:
method {_words(c.method)} ({strengths}), network {_words(c.network)}, {c.steps:,} steps, seed {c.seed}.
Images are {size} (channels, height, width), values in [0, 1].

![Traversals: one row per latent](traversals.png)

Each row moves one latent from -2 to 2 while the others stay in the middle of the prior.

| latent | name |
|---|---|
{rows}
{chosen}
## Use
```python
import karenina
run = karenina.open("this folder")
mean, logvar = run.encode(images)     # uint8, or floats in [0, 1], (n, {", ".join(map(str, c.image_shape))})
images = run.decode(mean)
```

## Limits
Nothing here was checked against true factors unless that is said above. Codes of images unlike those of the training
mean nothing. Names of latents are what a person saw in them.
"""


KINDS: dict[str, Callable[[Run, Any, Path], None]] = {"onnx": _onnx, "torchscript": _torchscript, "hub": _hub}


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a library from logging which optional packages are missing."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
