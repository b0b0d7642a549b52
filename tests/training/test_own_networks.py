"""Networks of the user's: trained, resumed, opened again, refused."""

import numpy as np
import pytest
import torch
from torch import nn

import karenina
from karenina.training import trainer


class Encoder(nn.Module):
    """Convolutions with buffers, two outputs, and a .view that needs the usual layout."""

    def __init__(self, latents=3):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4)
        self.mean, self.logvar = nn.Linear(256, latents), nn.Linear(256, latents)

    def forward(self, x):
        h = self.norm(self.convolution(x)).relu().view(len(x), -1)
        return self.mean(h), self.logvar(h)


def decoder():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 256), nn.Unflatten(1, (1, 16, 16)))


IMAGES = karenina.load("blobs").at(range(6))


def weights(run):
    return torch.cat([tensor.double().flatten() for tensor in run.module.state_dict().values()])


def test_a_run_of_own_networks_is_a_run_like_others(tmp_path):
    given = {"encoder": Encoder, "decoder": decoder, "steps": 30}
    run = karenina.train("blobs", "beta_vae", out=tmp_path / "a", trace=True, **given)
    assert run.latents == 3
    assert run.trace.shape == (30, 200, 16)
    mean, logvar = run.encode(IMAGES)
    with torch.no_grad():
        found = run.module.encode(torch.from_numpy(IMAGES).float() / 255)
    np.testing.assert_allclose(mean, found[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(logvar, found[1].numpy(), atol=1e-5)
    assert run.history.loss.iloc[-1] < run.history.loss.iloc[0]
    assert np.isfinite(karenina.score(run, metrics=["mig"])["mig"].value)
    again = karenina.train("blobs", "beta_vae", trace=True, **given)
    assert torch.equal(weights(run), weights(again))  # the seed decides what functions make
    other = karenina.train("blobs", "beta_vae", seed=1, **given)
    assert not torch.equal(weights(run), weights(other))


def test_modules_are_copied_and_begin_with_their_weights():
    encoder, made = Encoder(), decoder()
    before = [tensor.clone() for tensor in [*encoder.parameters(), *made.parameters()]]
    rate = {"learning_rate": 1e-12}  # so small that training keeps the weights
    run = karenina.train("blobs", "vae", encoder=encoder, decoder=made, steps=1, **rate)
    assert all(torch.equal(a, b) for a, b in zip(before, [*encoder.parameters(), *made.parameters()]))
    torch.testing.assert_close(run.module.decoder.module[0].weight, made[0].weight)
    fresh = karenina.train("blobs", "vae", encoder=encoder, decoder=made, steps=1, init="he", **rate)
    assert fresh.module.decoder.module[0].bias.abs().max() < 1e-6


class Forgetful(Encoder):
    def forward(self, x):
        mean, logvar = super().forward(x)
        return nn.functional.dropout(mean, 0.3, self.training), logvar


def test_dropout_depends_on_the_seed_alone():
    given = {"encoder": Forgetful, "decoder": decoder, "steps": 10}
    one, other = karenina.train("blobs", "vae", **given), karenina.train("blobs", "vae", **given)
    assert torch.equal(weights(one), weights(other))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(weights(one), weights(karenina.train("blobs", "vae", **given)))
    assert torch.equal(torch.rand(1), expected)


def test_an_adversary_beside_own_networks():
    run = karenina.train("blobs", "factor_vae", encoder=Encoder, decoder=decoder, steps=3, discriminator_units=8)
    assert run.config.init == "own"
    assert "discriminator" in run.history


@pytest.mark.parametrize("encoder", [Encoder, Forgetful])
def test_resumed_after_a_stop_with_the_same_bytes(tmp_path, monkeypatch, encoder):
    given = {"encoder": encoder, "decoder": decoder, "steps": 20, "checkpoint_seconds": 0}
    whole = karenina.train("blobs", "vae", out=tmp_path / "a", **given)

    def stop(at):
        if at.step == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        karenina.train("blobs", "vae", out=tmp_path / "b", progress=stop, **given)
    assert trainer.has_checkpoint(tmp_path / "b")
    monkeypatch.setattr("karenina.models.networks.SEEN", {})
    resumed = karenina.train("blobs", "vae", out=tmp_path / "b", **given)
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()
    assert torch.equal(weights(whole), weights(resumed))


def test_opening_needs_the_layers_again(tmp_path, monkeypatch, command):
    run = karenina.train("blobs", "vae", encoder=Encoder, decoder=decoder, steps=2, out=tmp_path / "a")
    assert torch.equal(weights(karenina.open(tmp_path / "a")), weights(run))  # this process has seen them
    monkeypatch.setattr("karenina.training.run.SEEN", {})
    with pytest.raises(ValueError, match=r"networks of your own.*karenina.open\(path, encoder=..., decoder=...\)"):
        karenina.open(tmp_path / "a")
    opened = karenina.open(tmp_path / "a", encoder=Encoder(), decoder=decoder())
    assert torch.equal(weights(opened), weights(run))
    monkeypatch.setattr("karenina.training.run.SEEN", {})
    with pytest.raises(ValueError, match="do not have the layers"):
        karenina.open(tmp_path / "a", encoder=Encoder, decoder=nn.Sequential(nn.Flatten(), *decoder()))
    answer = command("score", tmp_path / "a")
    assert answer.returncode == 2
    assert "networks of your own" in answer.stderr
    plain = karenina.train("blobs", "vae", latents=2, steps=1, out=tmp_path / "b")
    with pytest.raises(ValueError, match="none of your own"):
        karenina.open(plain.path, encoder=Encoder, decoder=decoder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"encoder": Encoder}, "encoder= is a network of your own, so decoder= must be one, too"),
        ({"decoder": nn.Linear(2, 2)}, "decoder= is a network of your own, so encoder= must be one, too"),
        ({"encoder": 3, "decoder": decoder}, "encoder is a torch module or a function that makes one, got int"),
        ({"encoder": Encoder, "decoder": lambda: 3}, "decoder should be a torch module or make one, got int"),
        ({"encoder": Encoder, "decoder": decoder, "latents": 4}, "the encoder gives 3 latents, expected latents=4"),
        ({"encoder": Encoder, "decoder": nn.Linear(3, 4)}, r"should give images \(2, 1, 16, 16\).* got \(2, 4\)"),
        ({"encoder": nn.Flatten(0), "decoder": decoder}, r"the encoder should give means .* got \(512,\)"),
        ({"encoder": nn.Linear(3, 3), "decoder": decoder}, "the encoder does not take what it is given"),
        ({"encoder": Encoder, "decoder": decoder, "network": "mlp"}, "network 'mlp' and networks of your own"),
        ({"encoder": Encoder, "decoder": decoder, "method": "pca"}, "a method that has an objective"),
        ({"encoder": Encoder, "decoder": decoder, "likelihood": "poisson"}, "no decoder 'poisson'"),
        ({"decoder": "gaussian", "likelihood": "bernoulli"}, "differ: give one of them"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(given, message, tmp_path):
    with pytest.raises(ValueError, match=message) as error:
        karenina.train("blobs", given.pop("method", "vae"), steps=1, out=tmp_path / "a", **given)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "a").exists()


def test_the_likelihood_of_own_networks():
    run = karenina.train("blobs", "vae", encoder=Encoder, decoder=decoder, steps=1, likelihood="gaussian")
    assert run.config.decoder == "gaussian"


def test_pages_in_the_process_that_trained_and_no_other(tmp_path, monkeypatch):
    run = karenina.train("blobs", "vae", encoder=Encoder, decoder=decoder, steps=2, out=tmp_path / "a")
    assert karenina.report(run, tmp_path / "page", metrics=["mig"], figures=False).exists()
    monkeypatch.setattr("karenina.training.run.SEEN", {})  # what another process begins with
    with pytest.raises(ValueError, match="are not stored"):
        karenina.open(tmp_path / "a")


def test_a_layer_that_is_used_twice(tmp_path):
    class Tied(Encoder):
        def __init__(self):
            super().__init__()
            self.logvar = self.mean

    run = karenina.train(
        "blobs", "vae", encoder=Tied, decoder=decoder, steps=3, out=tmp_path / "a", checkpoint_seconds=0
    )
    again = karenina.open(tmp_path / "a")
    np.testing.assert_array_equal(again.encode(IMAGES)[0], run.encode(IMAGES)[0])
