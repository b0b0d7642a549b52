"""Initial weights and step sizes: what they are, and that a run keeps those that it began with."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from karenina.data import load
from karenina.models.fast import UpConv
from karenina.models.networks import INITS, NETWORKS, build, initialise
from karenina.models.objectives import Discriminator
from karenina.training import METHODS, Progress, open, train
from karenina.training.learners import make_learner, network_of
from karenina.training.methods import make_config
from karenina.training.run import read_tensors

SETTINGS: dict[str, Any] = {
    "seed": 0,
    "steps": 10_000,
    "network": "auto",
    "latents": 10,
    "batch": 64,
    "learning_rate": "auto",
    "init": "auto",
    "decoder": "bernoulli",
    "reconstruction_weight": "auto",
    "trace": False,
}


def layers(module: nn.Module) -> list[Any]:
    return [m for m in module.modules() if isinstance(m, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)]


@pytest.mark.parametrize(
    "layer", [nn.Linear(7, 40), nn.Conv2d(3, 8, 4, stride=2), UpConv(8, 3)], ids=["fc", "conv", "up"]
)
def test_glorot_is_that_of_torch(layer: Any) -> None:
    torch.manual_seed(0)
    initialise(layer, "glorot")
    torch.manual_seed(0)
    expected = nn.init.xavier_uniform_(torch.empty_like(layer.weight))
    torch.testing.assert_close(layer.weight.detach(), expected)
    assert not layer.bias.any()


@pytest.mark.parametrize("layer", [nn.Linear(7, 40), nn.Conv2d(3, 8, 4, stride=2)], ids=["fc", "conv"])
def test_he_is_that_of_torch(layer: Any) -> None:
    torch.manual_seed(0)
    initialise(layer, "he")
    torch.manual_seed(0)
    expected = nn.init.kaiming_uniform_(torch.empty_like(layer.weight), nonlinearity="relu")
    torch.testing.assert_close(layer.weight.detach(), expected)
    assert not layer.bias.any()


@pytest.mark.parametrize("layer", [nn.Linear(400, 300), nn.Conv2d(40, 50, 4, 2, 1), UpConv(50, 40)])
def test_he_passes_on_what_relus_let_through(layer: Any) -> None:
    """He et al. (2015): the mean square after a layer of ReLUs is that before it, for up-convolutions too."""
    torch.manual_seed(0)
    initialise(layer, "he")
    x = torch.randn(100, 400) if isinstance(layer, nn.Linear) else torch.randn(20, layer.in_channels, 16, 16)
    with torch.no_grad():
        y = layer(x).relu()
    inside = y if y.ndim == 2 else y[:, :, 2:-2, 2:-2]  # borders see fewer inputs
    assert float(inside.square().mean() / x.square().mean()) == pytest.approx(1, rel=0.05)


def test_signal_survives_conv64_from_he_alone() -> None:
    """From codes to logits, six layers: torch's weights let through one part in tens of thousands."""
    spread = {}
    for init in INITS:
        torch.manual_seed(0)
        network = build("conv64", (1, 64, 64), 10, init=init)
        with torch.no_grad():
            spread[init] = float(network.decode(torch.randn(64, 10)).var(dim=0).mean())
    assert spread["he"] > 0.3
    assert spread["glorot"] < 0.3 * spread["he"]
    assert spread["torch"] < 1e-3 * spread["he"]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_initialised(name: str) -> None:
    shape = (1, NETWORKS[name].side or 16, NETWORKS[name].side or 16)
    torch.manual_seed(0)
    network = build(name, shape, 3, init="glorot")
    assert all(not layer.bias.any() for layer in layers(network))
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(bool((norm.weight == 1).all()) for norm in norms)


def test_the_discriminator_begins_alike() -> None:
    data, cpu = load("blobs"), torch.device("cpu")
    small = {"discriminator_layers": 2, "discriminator_units": 8}
    learner = make_learner(
        make_config(data, "factor_vae", small, {**SETTINGS, "init": "glorot"}),
        METHODS["factor_vae"],
        1,
        torch.Generator(),
        cpu,
    )
    discriminator = learner.modules["discriminator"]
    assert isinstance(discriminator, Discriminator)
    assert all(not layer.bias.any() for layer in [*layers(discriminator), *layers(network_of(learner))])


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name, init in [("a", "he"), ("b", "he"), ("c", "glorot")]:
        torch.manual_seed(ord(name))
        train("blobs", init=init, steps=5, batch=4, latents=2, out=tmp_path / name)
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert models[0] == models[1] != models[2]
    assert open(tmp_path / "c").config.init == "glorot"
    assert json.loads((tmp_path / "c" / "run.json").read_text())["config"]["init"] == "glorot"


@pytest.mark.parametrize("init", ["xavier", "", None, 3, ["he"]])
def test_unknown_init(init: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no init .*nown: torch, glorot, he"):
        train("blobs", init=init, steps=5, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="no init 'xavier'; known: torch, glorot, he"):
        build("mlp", (1, 4, 4), 2, init="xavier")


class Stop(Exception):
    pass


def forget_init(path: Path) -> None:
    """Make the run what it would be had it been begun before there were initialisations (and checksums)."""
    about = json.loads((path / "run.json").read_text())
    del about["config"]["init"]
    (path / "run.json").write_text(json.dumps(about))
    for file in path.glob("checkpoint*.safetensors"):
        tensors, inside = read_tensors(file)
        del inside["members"][0]["init"]
        save_file(tensors, file, metadata={"karenina": json.dumps(inside)})


def test_runs_from_before_open_and_resume_as_they_began(tmp_path: Path) -> None:
    """conv32 began with torch's weights and a rate of 1e-4 then, whatever "auto" means now."""
    images = np.random.default_rng(0).random((20, 1, 32, 32), dtype=np.float32)
    settings: dict[str, Any] = {"steps": 12, "batch": 4, "latents": 2}
    whole = train(images, init="torch", learning_rate=1e-4, out=tmp_path / "whole", **settings)
    assert train(images, **settings).config != whole.config

    def stop(progress: Progress) -> None:
        if progress.step == 7:
            raise Stop

    with pytest.raises(Stop):
        train(
            images,
            init="torch",
            learning_rate=1e-4,
            out=tmp_path / "cut",
            checkpoint_seconds=0,
            progress=stop,
            **settings,
        )
    forget_init(tmp_path / "cut")
    steps: list[int] = []
    run = train(images, out=tmp_path / "cut", progress=lambda p: steps.append(p.step), **settings)
    assert steps == [8, 9, 10, 11, 12]  # resumed, not started again
    assert run.config == whole.config
    for name in ("model.safetensors", "run.json", "history.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    forget_init(tmp_path / "whole")
    assert open(tmp_path / "whole").config == whole.config
    assert train(images, out=tmp_path / "whole", **settings).config == whole.config  # found, not trained again
    with pytest.raises(ValueError, match="holds a run with another config: init 'torch' there, 'he' here"):
        train(images, init="he", learning_rate=1e-4, out=tmp_path / "whole", **settings)
    with pytest.raises(ValueError, match="another config: .*steps 12 there, 13 here"):
        train(images, out=tmp_path / "whole", **{**settings, "steps": 13})


@pytest.mark.parametrize(
    ("shape", "method", "given", "init", "rate"),
    [
        ((1, 64, 64), "beta_vae", {}, "he", 1e-3),  # 10 / steps, up to 1e-3
        ((1, 64, 64), "beta_vae", {"steps": 500}, "he", 1e-3),
        ((1, 64, 64), "beta_vae", {"steps": 40_000}, "he", 2.5e-4),
        ((1, 64, 64), "beta_vae", {"steps": 300_000}, "he", 1e-4),  # the papers'
        ((3, 32, 32), "factor_vae", {"steps": 20_000}, "he", 5e-4),
        ((1, 64, 64), "beta_vae", {"network": "resnet"}, "he", 1e-4),
        ((1, 64, 64), "beta_vae", {"init": "glorot"}, "glorot", 1e-4),
        ((1, 64, 64), "beta_vae", {"init": "torch"}, "torch", 1e-4),
        ((1, 64, 64), "beta_vae", {"learning_rate": 2e-4}, "he", 2e-4),
        ((1, 64, 64), "infogan", {}, "he", 1e-4),
        ((1, 64, 64), "beta_vae", {"network": "fc"}, "he", 1e-3),
        ((1, 16, 16), "beta_vae", {}, "torch", 1e-3),
        ((1, 16, 16), "beta_vae", {"init": "he", "steps": 300_000}, "he", 1e-3),
    ],
)
def test_auto(shape: tuple[int, int, int], method: str, given: dict[str, Any], init: str, rate: float) -> None:
    from karenina.training.trainer import as_data

    data = as_data(np.zeros((5, *shape), np.uint8))
    config = make_config(data, method, {}, {**SETTINGS, **given})
    assert (config.init, config.learning_rate) == (init, rate)


@pytest.mark.parametrize("steps", [0, "many", 2.5, True])
def test_bad_steps_are_named_as_such(steps: Any) -> None:
    with pytest.raises(ValueError, match="steps must be an integer, 1 or more"):
        train(np.zeros((5, 1, 32, 32), np.uint8), steps=steps)


def test_a_short_run_gives_a_model_where_the_default_before_gave_none() -> None:
    """After 100 steps: far better than the best constant image, which torch with the papers' rate does not reach."""
    images = np.ascontiguousarray(load("dsprites").sample(1500, np.random.default_rng(0))[0][:, :, ::2, ::2])
    mean = (images / 255).mean(axis=0).clip(1e-6, 1 - 1e-6)
    constant = -(mean * np.log(mean) + (1 - mean) * np.log(1 - mean)).sum()
    ours = train(images, steps=100, batch=32)
    before = train(images, steps=100, batch=32, init="torch", learning_rate=1e-4)
    assert ours.config.network == before.config.network == "conv32"
    assert ours.evaluate(images[:500])["reconstruction"] < 0.6 * constant
    assert before.evaluate(images[:500])["reconstruction"] > constant
