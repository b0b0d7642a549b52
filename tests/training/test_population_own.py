"""Methods of the user's in a population: each model is what `train` makes of it, stacked where that is possible."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import karenina
from karenina.data import DataSet
from karenina.models import networks
from karenina.training import Beside, Method, train, train_many
from karenina.training.methods import make_config
from karenina.training.trainer import Member

SHORT = {"steps": 20, "latents": 3, "batch": 16}
DATA = karenina.load("blobs")
IMAGES = DATA.at(range(40))


def plain(batch, *, beta=1.0):
    return {"reconstruction": batch.reconstruction, "kl": beta * batch.kl.sum()}


def with_noise(batch, *, beta=1.0):
    return {**plain(batch), "spread": beta * (batch.z - torch.randn_like(batch.z)).square().mean()}


def judged(batch, *, beta=1.0):
    return {**plain(batch), "judged": beta * batch.beside["critic"](batch.z).mean()}


def judged_by_a_layer(batch, *, beta=1.0):
    return {**plain(batch), "judged": beta * batch.beside["critic"][0](batch.z).mean()}


def critic(*layers):
    def loss(module, z, other):
        return module(z).square().mean() + (module(other) - 1).square().mean()

    return (Beside("critic", lambda latents: nn.Sequential(nn.Linear(latents, 8), *layers, nn.Linear(8, 1)), loss),)


class Shifted(networks.Autoencoder):
    def encode(self, x):
        mean, logvar = super().encode(x)
        return 2 * mean + 1, logvar


class Inverted(networks.Autoencoder):
    def decode(self, z):
        return -super().decode(z)


class OtherTrace(networks.Autoencoder):
    def first_activations(self, z):
        return 1 + super().first_activations(z)


class Dropout(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.3, self.training)


class Thrice(nn.Sequential):
    def forward(self, x):
        return 3 * super().forward(x)


def network(make=networks.Autoencoder, change=None):
    def build(name, shape, latents, *, init="torch"):
        made = networks.build(name, shape, latents, init=init, make=make)
        if change is not None:
            made.head = change(made.head)
        return made

    return build


STACKED = [Method(plain), Method(plain, network=network()), Method(judged, beside=critic(nn.ReLU()))]
SINGLE = [
    Method(plain, network=network(Shifted)),
    Method(plain, network=network(Inverted)),
    Method(plain, network=network(change=lambda head: nn.Sequential(*head[:-1], Dropout(), head[-1]))),
    Method(plain, network=network(change=lambda head: Thrice(*head))),
    Method(with_noise),
    Method(judged, beside=critic(nn.Dropout(0.5))),
    Method(judged, beside=critic(nn.BatchNorm1d(8))),
    Method(judged_by_a_layer, beside=critic(nn.ReLU())),
]


def member(method, **settings):
    known = {"seed": 0, "network": "auto", "init": "auto", "learning_rate": "auto", "decoder": "bernoulli"}
    known |= {"reconstruction_weight": "auto", "trace": False, **SHORT, **settings}
    return Member(make_config(DATA, method, {}, known), method)


@pytest.mark.parametrize("method", [*STACKED, *SINGLE])
def test_a_population_has_what_train_makes(method):
    for run in train_many(DATA, method, seeds=2, **SHORT):
        alone = train(DATA, method, seed=run.config.seed, **SHORT)
        np.testing.assert_allclose(run.encode(IMAGES)[0], alone.encode(IMAGES)[0], rtol=0, atol=1e-4)


def test_only_what_stays_the_same_is_stacked():
    state = torch.get_rng_state()
    assert all(member(method).stackable for method in STACKED)
    assert not any(member(method).stackable for method in SINGLE)
    other = Method(plain, network=network(OtherTrace))
    assert member(other).stackable
    assert not member(other, steps=30, trace=True).stackable
    assert torch.equal(torch.get_rng_state(), state)


def test_a_run_encodes_as_its_network_does():
    run = train(DATA, Method(plain, network=network(Shifted)), **SHORT)
    mean, _ = run.module.encode(torch.from_numpy(IMAGES).float() / 255)
    np.testing.assert_allclose(run.encode(IMAGES)[0], mean.detach().numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["step", "loss", "kl_0"])
def test_a_term_has_a_name_of_its_own(name):
    def objective(batch):
        return {name: batch.reconstruction, "kl": batch.kl.sum()}

    with pytest.raises(ValueError, match=f"must not be called '{name}'"):
        train(DATA, objective, **SHORT)
    with pytest.raises(ValueError, match=f"must not be called '{name}'"):
        train_many(DATA, objective, seeds=2, **SHORT)


def with_other_layers(name, shape, latents, *, init="torch"):
    made = networks.build(name, shape, latents, init=init)
    made.head = nn.Sequential(nn.Linear(256, 7), nn.ReLU(), nn.Linear(7, 2 * latents))
    return made


@pytest.mark.parametrize("build", [network(Shifted), network(change=lambda head: Thrice(*head)), with_other_layers])
def test_the_network_of_a_method_is_there_again_by_the_same_call(build, tmp_path):
    method = Method(plain, network=build)
    run = train(DATA, method, out=tmp_path / "a", **SHORT)
    again = train(DATA, method, out=tmp_path / "a", **SHORT)
    np.testing.assert_array_equal(run.encode(IMAGES)[0], again.encode(IMAGES)[0])
    many = train_many(DATA, method, seeds=2, out=tmp_path / "many", **SHORT)
    again, _ = train_many(DATA, method, seeds=2, out=tmp_path / "many", **SHORT)
    np.testing.assert_array_equal(many[0].encode(IMAGES)[0], again.encode(IMAGES)[0])
    with pytest.raises(ValueError, match="has a network of your own method, which is not stored"):
        karenina.open(tmp_path / "a")


def test_an_own_objective_opens_again(tmp_path):
    run = train(DATA, plain, out=tmp_path, **SHORT)
    np.testing.assert_array_equal(karenina.open(tmp_path).encode(IMAGES)[0], run.encode(IMAGES)[0])


def test_a_data_set_that_draws_in_its_own_way():
    class FirstColumn(DataSet):
        def sample(self, n, rng, fixed=None):
            return super().sample(n, rng, {"x": 0})

    data = FirstColumn("first", DATA.factors, DATA.image_shape, DATA._render)
    short = {**SHORT, "steps": 200}
    run, _ = train_many(data, "vae", seeds=2, **short)
    alone = train(data, "vae", seed=0, **short)
    np.testing.assert_allclose(run.encode(IMAGES)[0], alone.encode(IMAGES)[0], rtol=0, atol=1e-4)


def test_a_model_is_in_a_grid_once():
    with pytest.raises(
        ValueError, match="the grid has a model twice: beta_vae_beta=1_seed=0 and beta_vae_beta=1.0_seed=0"
    ):
        train_many(DATA, "beta_vae", {"beta": [1, 1.0]}, seeds=1, **SHORT)
