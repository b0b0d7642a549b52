"""Methods that learn from pairs and from a few labels: identities, closed forms, and the same bytes in every way."""

import itertools

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from karenina.cli import app
from karenina.data import load
from karenina.models import objectives
from karenina.training import METHODS, Method, defaults, open, train, train_many
from karenina.training.batches import Labels, labelled_images, scaled
from karenina.training.methods import DISCRIMINATOR

SMALL = {"latents": 4, "steps": 6, "batch": 8, "network": "mlp"}


def posteriors(n=5, latents=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 2 * n, latents, generator=generator, dtype=torch.float64).unbind()


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one._network.parameters(), two._network.parameters()))


def test_distances_are_the_kl_of_torch():
    mean, logvar = posteriors()
    q1, q2 = (torch.distributions.Normal(m, (0.5 * v).exp()) for m, v in zip(mean.chunk(2), logvar.chunk(2)))
    torch.testing.assert_close(objectives.pair_distances(mean, logvar), torch.distributions.kl_divergence(q1, q2))


@pytest.mark.parametrize("average", [objectives.gvae_average, objectives.mlvae_average])
def test_identical_images_are_left_as_they_are(average):
    """So that Ada-GVAE of them is the beta-VAE: nothing else of it differs."""
    mean, logvar = posteriors(latents=3)
    mean, logvar = (torch.cat([part[:5], part[:5]]) for part in (mean, logvar))
    found = objectives.share_posteriors(mean, logvar, average=average)
    assert torch.equal(found[0], mean)
    assert torch.equal(found[1], logvar)
    everything = objectives.share_posteriors(
        mean, logvar, torch.zeros(5, 3, dtype=torch.bool), average=average, known="shared"
    )
    torch.testing.assert_close(everything[0], mean)
    torch.testing.assert_close(everything[1], logvar)


def test_ada_gvae_of_identical_images_is_the_beta_vae(monkeypatch):
    from karenina.data.sampling import Pairs

    def twice(self, n, rng):
        images = self.data.sample(n, rng)[0]
        return np.concatenate([images, images]), None

    monkeypatch.setattr(Pairs, "sample", twice)
    data = load("blobs")
    doubled = load("blobs")
    doubled.sample = lambda n, rng, fixed=None: (np.concatenate([data.sample(n // 2, rng)[0]] * 2), None)
    ada = train(data, "ada_gvae", beta=3, **SMALL)
    monkeypatch.undo()
    monkeypatch.setattr("karenina.training.methods.fingerprint", lambda data: "")
    beta = train(doubled, "beta_vae", beta=3, **{**SMALL, "batch": 16})
    assert same(ada, beta)


def brute_force(mean, logvar, changed, average, known):
    """The paper's words, pair by pair and latent by latent."""
    n, latents = len(mean) // 2, mean.shape[1]
    mean, logvar = mean.clone(), logvar.clone()
    for i in range(n):
        a, b = i, n + i
        delta = []
        for j in range(latents):
            va, vb = logvar[a, j].exp(), logvar[b, j].exp()
            delta.append(float(0.5 * (va / vb + (mean[a, j] - mean[b, j]) ** 2 / vb - 1 + logvar[b, j] - logvar[a, j])))
        tau = (max(delta) + min(delta)) / 2
        kept = {j for j in range(latents) if delta[j] >= tau}
        if known == "k":
            kept = set(sorted(range(latents), key=lambda j: -delta[j])[: int(changed[i].sum())])
        elif known == "shared":
            kept = {j for j in range(changed.shape[1]) if changed[i, j]}
        for j in set(range(latents)) - kept:
            va, vb = float(logvar[a, j].exp()), float(logvar[b, j].exp())
            ma, mb = float(mean[a, j]), float(mean[b, j])
            if average == "gvae_average":
                m, v = (ma + mb) / 2, (va + vb) / 2
            else:  # the product of both densities to the power 1/2: precisions and weighted means average
                v = 1 / (0.5 / va + 0.5 / vb)
                m = v * (0.5 * ma / va + 0.5 * mb / vb)
            mean[a, j] = mean[b, j] = m
            logvar[a, j] = logvar[b, j] = np.log(v)
    return mean, logvar


@pytest.mark.parametrize(
    ("average", "known"), list(itertools.product(["gvae_average", "mlvae_average"], objectives.KNOWN_OF_PAIRS))
)
def test_sharing_by_brute_force(average, known):
    mean, logvar = posteriors()
    changed = torch.tensor(np.random.default_rng(0).random((5, 3)) < 0.4)
    found = objectives.share_posteriors(mean, logvar, changed, average=getattr(objectives, average), known=known)
    expected = brute_force(mean, logvar, changed, average, known)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])
    stacked = objectives.share_posteriors(
        mean.repeat(3, 1, 1), logvar.repeat(3, 1, 1), changed.repeat(3, 1, 1), known=known
    )
    assert torch.equal(stacked[0][2], objectives.share_posteriors(mean, logvar, changed, known=known)[0])


def test_the_product_is_that_of_two_gaussians():
    """To the power 1/2 each, on a grid of points."""
    m1, v1, m2, v2 = (torch.tensor(value, dtype=torch.float64) for value in (0.3, 0.5, -1.0, 2.0))
    mean, var = objectives.mlvae_average(m1, v1, m2, v2)
    x = torch.linspace(-20, 20, 20_001, dtype=torch.float64)
    density = (-0.25 * ((x - m1) ** 2 / v1 + (x - m2) ** 2 / v2)).exp()
    density /= density.sum()
    assert float((density * x).sum()) == pytest.approx(float(mean))
    assert float((density * (x - mean) ** 2).sum()) == pytest.approx(float(var))


@pytest.mark.parametrize("loss", objectives.SUPERVISED_LOSSES)
def test_supervised_losses_by_loops(loss):
    generator = torch.Generator().manual_seed(1)
    codes, factors = torch.randn(6, 4, generator=generator), torch.rand(6, 3, generator=generator)
    total = 0.0
    for j, k in itertools.product(range(4), range(3)):
        z, c = codes[:, j].numpy().astype(float), factors[:, k].numpy().astype(float)
        s = 1 / (1 + np.exp(-z))
        if loss == "covariance" and j != k:
            total += np.mean((z - z.mean()) * (c - c.mean())) ** 2
        elif loss == "cross_entropy" and j == k:
            total += -np.mean(c * np.log(s) + (1 - c) * np.log(1 - s))
        elif loss == "squared_error" and j == k:
            total += np.mean((s - c) ** 2)
    assert float(objectives.SUPERVISED_LOSSES[loss](codes, factors)) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("method", ["beta_vae", "factor_vae"])
def test_weight_0_is_the_method_without_labels(method):
    small = {"discriminator_units": 8} if method == "factor_vae" else {}
    plain = train("blobs", method, **SMALL, **small)
    assert same(plain, train("blobs", method, supervised=20, supervised_weight=0, **SMALL, **small))
    assert not same(plain, train("blobs", method, supervised=20, **SMALL, **small))
    none = train("blobs", method, supervised=0, **SMALL, **small)
    assert none.config == plain.config


def test_labels_are_a_few_images_of_the_data_set():
    data = load("blobs")
    config = train("blobs", "beta_vae", supervised=10, **SMALL).config
    labels = Labels.of(data, config, torch.device("cpu"))
    images, factors = labelled_images(data, 10, config.seed)
    assert (data.images(factors) == images).all()
    seen = torch.cat([labels.at(step)[1] for step in range(40)])
    assert {tuple(row) for row in seen.tolist()} == {tuple(row) for row in scaled(data, factors).tolist()}
    assert (seen.min() >= 0) & (seen.max() <= 1)
    assert torch.equal(labels.at(3)[0], labels.at(3)[0])


def test_labels_make_codes_tell_their_factors():
    """The first k codes follow the k factors, on images without labels."""
    run = train("blobs", "beta_vae", beta=1, supervised=200, seed=0, network="mlp", latents=5, steps=250)
    images, factors = load("blobs").sample(500, 1)
    codes = run.encode(images)[0]
    own = [np.corrcoef(codes[:, j], factors[:, j])[0, 1] for j in range(2)]  # background and x
    assert min(own) > 0.8


SETTINGS = [
    ("ada_gvae", {"k": "random"}),
    ("ada_mlvae", {"known": "k"}),
    ("ada_gvae", {"known": "shared", "k": 2}),
    ("hfs", {}),
    ("beta_vae", {"supervised": 12, "supervised_loss": "squared_error"}),
    ("qlae", {}),
]


@pytest.mark.parametrize(("method", "given"), SETTINGS)
def test_a_population_has_the_bytes_of_single_runs(method, given):
    many = train_many("blobs", method, {}, seeds=2, **SMALL, **given)
    for run in many:
        assert same(run, train("blobs", method, seed=run.config.seed, **SMALL, **given))


def test_an_adversary_beside_a_method_of_pairs():
    ada = METHODS["ada_gvae"]
    told = {"share": ada.share, "parameters": ada.parameters, "choices": ada.choices}
    method = Method(objectives.factor_vae, beside=(DISCRIMINATOR,), **told)
    small = {"steps": 4, "latents": 3, "batch": 16, "discriminator_units": 8, "discriminator_layers": 2}
    many = train_many("blobs", method, {"gamma": [1.0, 10.0]}, seeds=1, population=2, **small)
    for run in many:
        one = train("blobs", method, gamma=run.config.parameters["gamma"], **small)
        np.testing.assert_allclose(run.history, one.history, rtol=1e-3, atol=1e-4)


def test_pairs_and_others_in_one_call():
    runs = train_many("blobs", "vae", {"method": ["vae", "ada_gvae"]}, seeds=2, **SMALL)
    assert [run.config.method for run in runs] == ["vae"] * 2 + ["ada_gvae"] * 2
    assert same(runs[2], train("blobs", "ada_gvae", **SMALL))


@pytest.mark.parametrize(("method", "given"), [SETTINGS[0], SETTINGS[4], SETTINGS[5]])
def test_a_killed_run_ends_with_the_same_bytes(tmp_path, method, given):
    class Killed(Exception):
        pass

    def kill(at):
        if at.step == 4:
            raise Killed

    whole = train("blobs", method, **SMALL, **given)
    with pytest.raises(Killed):
        train("blobs", method, out=tmp_path / "run", checkpoint_seconds=0, progress=kill, **SMALL, **given)
    assert same(train("blobs", method, out=tmp_path / "run", **SMALL, **given), whole)
    again = open(tmp_path / "run")
    assert same(again, whole)
    assert again.history.equals(whole.history)


def test_own_pairs(tmp_path):
    from PIL import Image

    for i, image in enumerate(load("blobs").at(range(0, 3000, 300))):
        Image.fromarray(image[0]).save(tmp_path / f"{i:02}.png")
    run = train(f"{tmp_path}:frames=true", "ada_gvae", **SMALL)
    assert run.config.data == f"{tmp_path.name}:frames=true"
    many = train_many(f"{tmp_path}:frames=true", "ada_gvae", {}, seeds=2, **SMALL)
    assert same(many[0], run)
    with pytest.raises(ValueError, match="pairs of your own do not say what they share"):
        train(f"{tmp_path}:frames=true", "ada_gvae", known="k", **SMALL)


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("ada_gvae", {"k": 4}, "differ in 1 to 3 of its 4 factors, not in k=4"),
        ("ada_gvae", {"k": "some"}, "ada_gvae: k is 1 or 2 .* or random, got 'some'"),
        ("ada_gvae", {"k": True}, "k must be an integer|k is 1"),
        ("ada_gvae", {"known": "all"}, "known is nothing or k or shared, got 'all'"),
        ("beta_vae", {"supervised": -1}, "supervised must be an integer, 1 or more"),
        ("beta_vae", {"supervised": 10, "supervised_loss": "hinge"}, "supervised_loss is cross_entropy or"),
        ("beta_vae", {"supervised": 10, "supervised_weight": -1}, "must not be negative"),
        ("beta_vae", {"supervised": 10, "latents": 2}, "a latent for each of the 4 factors, got 2"),
        ("beta_vae", {"supervised_weight": 1}, "has no parameter 'supervised_weight'"),
        ("pca", {"supervised": 10}, "adds a term to an objective, and pca has none"),
        ("infogan", {"supervised": 10}, "infogan has none"),
        ("qlae", {"weight_decay": -1}, "weight_decay must not be negative"),
    ],
)
def test_bad_parameters_are_one_line(tmp_path, method, given, message):
    with pytest.raises(ValueError, match=message) as caught:
        train("blobs", method, out=tmp_path / "run", **{**SMALL, **given})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_images_alone_have_neither_pairs_nor_labels():
    images = np.zeros((4, 1, 6, 6), np.uint8)
    with pytest.raises(ValueError, match="array has no factors, from which pairs could be made"):
        train(images, "ada_gvae", **SMALL)
    with pytest.raises(ValueError, match="needs labels, and array has no factors"):
        train(images, "vae", supervised=3, **SMALL)


def test_defaults_name_the_parameters():
    assert defaults("ada_gvae") == {"beta": 4.0, "k": 1, "known": "nothing"}
    assert METHODS["ada_gvae"].objective is METHODS["beta_vae"].objective


def test_the_command_line(tmp_path):
    words = ["train", "blobs:correlate=x,y,sigma=0.2", "ada_gvae", "--steps", "2", "--set", "k=random"]
    words += ["--set", "supervised=9", "--set", "latents=4", "--out", str(tmp_path / "a")]
    CliRunner().invoke(app, words, catch_exceptions=False)
    config = open(tmp_path / "a").config
    assert config.data == "blobs:correlate=x+y,sigma=0.2"
    assert (config.parameters["k"], config.parameters["supervised"]) == ("random", 9)
