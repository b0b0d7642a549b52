"""Methods as objects: those of one's own, with modules beside the network, and those of plug-ins."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
from torch import Tensor, nn

import karenina
from karenina import _plugins
from karenina.models import objectives
from karenina.training import METHODS, Beside, Method, defaults, train
from karenina.training.methods import DISCRIMINATOR, find

SMALL = {"latents": 3, "steps": 6, "batch": 8}
FAST = {"discriminator_layers": 1, "discriminator_units": 8}


def of_mine(batch, *, gamma: float = 10.0):
    tc = batch.beside["discriminator"].total_correlation(batch.z)
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum(), "total_correlation": gamma * tc}


def critic_loss(module: nn.Module, z: Tensor, other: Tensor) -> Tensor:
    return module(z).mean() - module(other).mean() + sum(weight.square().sum() for weight in module.parameters())


def criticised(batch, *, weight: float = 1.0):
    return {"reconstruction": batch.reconstruction, "critic": weight * batch.beside["critic"](batch.z).mean()}


def test_an_adversary_of_ones_own_trains_as_factor_vae_does() -> None:
    ours = train("blobs", "factor_vae", **SMALL, **FAST)
    mine = train("blobs", Method(of_mine, beside=(DISCRIMINATOR,)), **SMALL, **FAST)
    images = karenina.load("blobs").sample(5, np.random.default_rng(0))[0]
    assert mine.encode(images)[0].tobytes() == ours.encode(images)[0].tobytes()
    assert mine.config.method.endswith("test_methods.of_mine")
    assert mine.config.parameters == ours.config.parameters


def test_another_module_beside_the_network_is_trained_and_checkpointed(tmp_path) -> None:
    critic = Beside("critic", lambda latents, units: nn.Linear(latents, units), critic_loss, {"units": 2})
    method = Method(criticised, beside=(critic,))
    assert defaults(method) == {"weight": 1.0, "critic_units": 2, "critic_learning_rate": 1e-4}
    whole = train("blobs", method, critic_units=5, out=tmp_path / "whole", **SMALL)
    assert "critic" in whole.history

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step == 3:
            raise Stop

    arguments = {**SMALL, "critic_units": 5, "out": tmp_path / "parts", "checkpoint_seconds": 0}
    with pytest.raises(Stop):
        train("blobs", method, progress=stop, **arguments)
    parts = train("blobs", method, **arguments)
    images = karenina.load("blobs").sample(5, np.random.default_rng(0))[0]
    assert parts.encode(images)[0].tobytes() == whole.encode(images)[0].tobytes()
    assert karenina.open(tmp_path / "whole").encode(images)[0].tobytes() == whole.encode(images)[0].tobytes()


def test_registered_objectives_have_their_names() -> None:
    assert find(objectives.beta_vae) == ("beta_vae", METHODS["beta_vae"])
    assert find(METHODS["pca"])[0] == "pca"


def sparse(batch, *, strength: float = 0.5):
    return {"reconstruction": batch.reconstruction, "sparsity": strength * batch.mean.abs().sum()}


@pytest.fixture
def plug_ins(monkeypatch):
    """Two methods that another package registers: an objective, and one that cannot be imported."""
    points = {
        "sparse": EntryPoint("sparse", f"{__name__}:sparse", "karenina.methods"),
        "broken": EntryPoint("broken", "no_such_package:method", "karenina.methods"),
    }
    monkeypatch.setattr(EntryPoint, "load", lambda point: sparse if point.name == "sparse" else __import__("no_such"))
    monkeypatch.setattr(_plugins, "found", lambda group: points if group == "methods" else {})


def test_plug_ins_are_known_by_name(plug_ins, tmp_path) -> None:
    from karenina.studies.plan import parse

    run = train("blobs", "sparse", strength=0.1, out=tmp_path, **SMALL)
    assert run.config.method == "sparse"
    assert karenina.open(tmp_path).config.parameters == {"strength": 0.1}
    plan = parse("data = ['blobs']\nseeds = 1\n[methods.sparse]\nstrength = [0.1, 1]\n")
    assert [point.strength for point in plan.points] == [0.1, 1]
    with pytest.raises(ValueError, match="no method 'spars'; did you mean sparse. Known: vae, .*sparse"):
        train("blobs", "spars")
    with pytest.raises(ValueError, match="sparse has no parameter 'beta'"):
        train("blobs", "sparse", beta=1)
    with pytest.raises(ValueError, match="the plug-in broken .* cannot be loaded"):
        train("blobs", "broken")
