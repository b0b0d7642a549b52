"""Populations: every member ends as it would alone, whatever its company, kills and bad neighbours."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import karenina
from karenina.models import networks, objectives
from karenina.models.stacked import Stack, bernoulli
from karenina.training import Beside, Method, TrainingDiverged, loop, train
from karenina.training.batches import Batches, Noise
from karenina.training.learners import PopulationLearner
from karenina.training.loop import check_precision
from karenina.training.methods import METHODS, make_config
from karenina.training.run import read_tensors
from karenina.training.trainer import Member, expand, grouped, train_many, worth_stacking

SHORT = {"steps": 20, "latents": 3, "batch": 16}
IMAGES = karenina.load("blobs").sample(50, np.random.default_rng(0))[0]


def alone(run, **changes):
    """The same model by `karenina.train`."""
    c = run.config
    method = changes.pop("method", c.method)
    settings = {name: getattr(c, name) for name in ("network", "decoder", "trace", "init")}
    return train("blobs", method, seed=c.seed, **SHORT, **settings, **c.parameters, **changes)


def same(run, other, tolerance=1e-4):
    np.testing.assert_allclose(run.encode(IMAGES)[0], other.encode(IMAGES)[0], rtol=0, atol=tolerance)
    assert list(run.history.columns) == list(other.history.columns)
    np.testing.assert_allclose(run.history, other.history, rtol=1e-3, atol=1e-4)


GRIDS = {
    "vae": {},
    "beta_vae": {"beta": [1, 16]},
    "annealed_vae": {"c_max": [1.0, 5.0], "iteration_threshold": [5, 50]},
    "factor_vae": {"gamma": [1.0, 20.0], "discriminator_units": [8], "discriminator_layers": [2]},
    "beta_tcvae": {"beta": [2.0, 8.0], "estimator": ["weighted", "stratified"]},
    "dip_vae_i": {"lambda_od": [1.0, 10.0]},
    "dip_vae_ii": {"lambda_od": [1.0, 10.0], "lambda_d": [None, 3.0]},
}


@pytest.mark.parametrize("method", GRIDS)
def test_each_member_is_what_train_makes_of_it(method):
    runs = train_many("blobs", method, GRIDS[method], seeds=[3, 7], population=16, **SHORT)
    assert len(runs) == 2 * int(np.prod([len(values) for values in GRIDS[method].values()]))
    for run in runs:
        same(run, alone(run))


@pytest.mark.parametrize(
    "settings",
    [
        {"network": "fc", "batch": 64},
        {"network": "linear"},
        {"decoder": "gaussian"},
        {"init": "glorot", "trace": True, "steps": 40},
    ],
)
def test_with_other_networks_decoders_and_a_trace(settings):
    runs = train_many("blobs", "beta_vae", {"beta": [1, 4]}, seeds=1, **{**SHORT, **settings})
    for run in runs:
        one = train("blobs", "beta_vae", **{**SHORT, **settings}, **run.config.parameters)
        same(run, one)
        if run.config.trace:
            assert run.trace.shape == one.trace.shape
            assert run.trace.dtype == np.float16
            np.testing.assert_allclose(run.trace.astype(float), one.trace.astype(float), atol=2e-3)


def test_convolutions_too_when_asked():
    runs = train_many("blobs:side=16", "beta_vae", seeds=2, network="mlp", population=2, **SHORT)
    assert len(runs) == 2
    few = {"network": "conv32", "steps": 3, "batch": 4, "latents": 2}
    big = train_many("dsprites:side=32", "beta_vae", seeds=2, population=2, **few)
    images = karenina.load("dsprites:side=32").sample(5, np.random.default_rng(0))[0]
    for run in big:
        one = train("dsprites:side=32", "beta_vae", seed=run.config.seed, **few)
        np.testing.assert_allclose(run.encode(images)[0], one.encode(images)[0], atol=1e-4)


def test_convolutions_are_trained_one_by_one_on_a_cpu():
    data = karenina.load("dsprites")
    settings = {"seed": 0, "steps": 3, "network": "conv64", "latents": 2, "batch": 4, "learning_rate": 1e-3}
    settings |= {"init": "he", "decoder": "bernoulli", "reconstruction_weight": 1.0, "trace": False}
    member = Member(make_config(data, "beta_vae", {}, settings), METHODS["beta_vae"])
    assert not worth_stacking(member, torch.device("cpu"))
    assert worth_stacking(member, torch.device("meta"))


def test_methods_mix_and_company_does_not_matter():
    mixed = train_many("blobs", grid={"method": ["beta_vae", "dip_vae_i", "vae"]}, seeds=2, population=6, **SHORT)
    for run in mixed:
        same(run, alone(run))
    few = train_many("blobs", "dip_vae_i", seeds=[1], population=2, **SHORT)[0]
    same(few, next(run for run in mixed if run.config.method == "dip_vae_i" and run.config.seed == 1))


def branching(batch, *, strength: float = 1.0):
    if strength > 2:  # a parameter that differs cannot be a tensor here
        return {"reconstruction": batch.reconstruction, "kl": strength * batch.kl.sum()}
    return {"reconstruction": batch.reconstruction, "kl": batch.kl.sum()}


def peeking(batch, *, strength: float = 1.0):
    weight = strength if float(batch.kl.sum().detach()) > 0.01 else 0.0  # no vmap can do that
    return {"reconstruction": batch.reconstruction, "kl": weight * batch.kl.sum()}


def critic_loss(module: nn.Module, z: Tensor, other: Tensor) -> Tensor:
    return module(z).mean() - module(other).mean() + sum(weight.square().sum() for weight in module.parameters())


def criticised(batch, *, weight: float = 1.0):
    return {"reconstruction": batch.reconstruction, "critic": weight * batch.beside["critic"](batch.z).mean()}


@pytest.mark.parametrize("objective", [branching, peeking])
def test_objectives_that_cannot_be_stacked_are_computed_by_parts(objective):
    runs = train_many("blobs", objective, {"strength": [1.0, 4.0]}, seeds=2, population=4, **SHORT)
    assert len(runs) == 4
    for run in runs:
        same(run, alone(run, method=objective))


def powers(power, start):
    def objective(batch, *, beta: float = start):
        return {"reconstruction": batch.reconstruction, "kl": beta * batch.kl.sum() ** power}

    return objective


@pytest.mark.parametrize("labels", [{}, {"supervised": 20, "latents": 4}])
def test_objectives_of_one_name_stay_apart(labels, tmp_path):
    two = [powers(1.0, 1.0), powers(2.0, 3.0)]
    runs = train_many("blobs", grid={"method": two}, seeds=1, population=2, **{**SHORT, **labels})
    for run, objective in zip(runs, two):
        same(run, train("blobs", objective, seed=0, **{**SHORT, **labels}))
    alike = [powers(1.0, 1.0), powers(2.0, 1.0)]
    with pytest.raises(ValueError, match="two different methods are called .*objective, with equal parameters"):
        train_many("blobs", grid={"method": alike}, seeds=2, out=tmp_path / "new", **{**SHORT, **labels})
    assert not (tmp_path / "new").exists()


def with_tanh(name, shape, latents, *, init="torch"):
    network = networks.build(name, shape, latents, init=init)
    network.head[1] = nn.Tanh()
    return network


def with_dropout(name, shape, latents, *, init="torch"):
    network = networks.build(name, shape, latents, init=init)
    network.head[1] = nn.Dropout(0.3)
    return network


def test_networks_that_another_function_builds_have_a_stack_of_their_own():
    methods = ["vae", Method(objectives.beta_vae, network=with_tanh), Method(branching, network=with_dropout)]
    runs = train_many("blobs", grid={"method": methods}, seeds=2, population=4, **SHORT)
    for run, method in zip(runs, np.repeat(methods, 2)):
        same(run, train("blobs", method, seed=run.config.seed, **SHORT))


def test_an_adversary_of_ones_own_is_stacked():
    critic = Beside("critic", lambda latents, units: nn.Linear(latents, units), critic_loss, {"units": 2})
    method = Method(criticised, beside=(critic,))
    for run in train_many("blobs", method, {"weight": [1.0, 3.0]}, seeds=2, population=4, **SHORT):
        same(run, alone(run, method=method))


def test_an_objective_that_fails_says_why():
    def broken(batch):
        raise KeyError("no such thing")

    def not_named(batch):
        return batch.kl.sum()

    with pytest.raises(KeyError, match="no such thing"):
        train_many("blobs", broken, seeds=2, **SHORT)
    with pytest.raises(ValueError, match="named scalar tensors"):
        train_many("blobs", not_named, seeds=2, **SHORT)


def test_one_that_diverges_is_left_out_and_the_others_are_as_without_it(tmp_path):
    grid = {"beta": [1.0, 1e300, 4.0]}
    with pytest.warns(UserWarning, match="is (inf|nan) by step"):
        runs = train_many("blobs", "beta_vae", grid, seeds=2, out=tmp_path, **SHORT)
    assert [run.config.parameters["beta"] for run in runs] == [1.0, 1.0, 4.0, 4.0]
    for run in runs:
        same(run, alone(run))
        assert len(run.history) == 20
    with pytest.raises(TrainingDiverged, match="failed before"):
        train("blobs", "beta_vae", beta=1e300, out=tmp_path / "beta_vae_beta=1e+300_seed=0", **SHORT)
    with pytest.warns(UserWarning, match="failed before"):
        assert len(train_many("blobs", "beta_vae", grid, seeds=2, out=tmp_path, **SHORT)) == 4


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from karenina.training.trainer import train_many

for moment in (1, 7, 30):  # forked before torch has done any work, so that only one import is paid for
    if (process := os.fork()) == 0:
        def progress(at):
            if at.step == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        train_many("blobs", "factor_vae", {"gamma": [1.0, 1e300, 20.0]}, seeds=2, out=sys.argv[1],
            checkpoint_seconds=0, progress=progress, steps=40, latents=3, batch=8, trace=True, discriminator_units=8,
            discriminator_layers=2)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL, moment
    assert bool(list(Path(sys.argv[1]).glob("population-*"))) == (moment > 1), moment
"""


@pytest.mark.filterwarnings("ignore:.*by step")
def test_killed_at_any_time_it_ends_with_the_same_bytes(tmp_path):
    settings = {"steps": 40, "latents": 3, "batch": 8, "trace": True, "discriminator_units": 8}
    arguments = ("blobs", "factor_vae", {"gamma": [1.0, 1e300, 20.0]}, 2)
    settings |= {"discriminator_layers": 2, "checkpoint_seconds": 0}
    torch.set_num_threads(1)
    whole = train_many(*arguments, out=tmp_path / "whole", **settings)
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path / "parts"], check=False).returncode == 0
    parts = train_many(*arguments, out=tmp_path / "parts", **settings)
    assert len(whole) == len(parts) == 4
    for one, other in zip(whole, parts):
        assert one.path.name == other.path.name
        for name in ("model.safetensors", "trace.npy", "history.parquet"):
            assert (one.path / name).read_bytes() == (other.path / name).read_bytes(), name
    assert not list((tmp_path / "parts").glob("population-*"))


class Stop(Exception):
    pass


def stop_at(step):
    def progress(at):
        if at.step == step:
            raise Stop

    return progress


def test_a_larger_grid_resumes_what_was_begun_and_keeps_what_is_done(tmp_path):
    with pytest.raises(Stop):
        train_many(
            "blobs", grid={"beta": [1.0]}, out=tmp_path, progress=stop_at(10), checkpoint_seconds=0, seeds=2, **SHORT
        )
    begun = list(tmp_path.glob("population-*.safetensors"))
    seen = []
    runs = train_many("blobs", grid={"beta": [1.0, 4.0]}, out=tmp_path, seeds=2, progress=seen.append, **SHORT)
    assert len(begun) == 1
    assert min(at.step for at in seen[:10]) == 11
    assert [at.total for at in seen] == [4] * len(seen)
    for run in runs:
        same(run, alone(run))
    files = {run.path: (run.path / "model.safetensors").stat().st_mtime_ns for run in runs}
    again = train_many("blobs", grid={"beta": [1.0, 4.0]}, out=tmp_path, seeds=3, **SHORT)
    assert len(again) == 6
    assert all((path / "model.safetensors").stat().st_mtime_ns == time for path, time in files.items())


@pytest.mark.filterwarnings("ignore:.*by step")
def test_one_that_diverged_before_a_stop_stays_failed(tmp_path):
    arguments = {"grid": {"beta": [1.0, 1e300]}, "seeds": 2, "out": tmp_path, "checkpoint_seconds": 0, **SHORT}
    with pytest.raises(Stop):
        train_many("blobs", progress=stop_at(12), **arguments)
    assert len(train_many("blobs", **arguments)) == 2
    stored = [json.loads(file.read_text()) for file in tmp_path.glob("*/run.json")]
    status = sorted((one["config"]["parameters"]["beta"], one["status"]) for one in stored)
    assert status == [(1.0, "finished")] * 2 + [(1e300, "failed")] * 2


def test_damaged_checkpoints_cost_time_only(tmp_path):
    arguments = {"grid": {"beta": [1.0, 4.0]}, "seeds": 2, "out": tmp_path, "checkpoint_seconds": 0, **SHORT}
    with pytest.raises(Stop):
        train_many("blobs", progress=stop_at(12), **arguments)
    (file,) = tmp_path.glob("population-*.safetensors")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    seen = []
    with pytest.warns(UserWarning, match="the checkpoint before: .* does not have its checksum"):
        runs = train_many("blobs", progress=seen.append, **arguments)
    assert len(runs) == 4
    assert seen[0].step == 12
    for run in runs:
        same(run, alone(run))


def test_a_damaged_checkpoint_does_not_push_out_the_one_before(tmp_path):
    arguments = {"grid": {"beta": [1.0, 4.0]}, "seeds": 1, "out": tmp_path, **SHORT}
    with pytest.raises(Stop):
        train_many("blobs", progress=stop_at(12), checkpoint_seconds=0, **arguments)
    (file,) = tmp_path.glob("population-*.safetensors")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="the checkpoint before"), pytest.raises(Stop):
        train_many("blobs", progress=stop_at(15), checkpoint_seconds=1e9, **arguments)  # one more checkpoint
    steps = [read_tensors(one)[1]["step"] for one in (file, file.with_suffix(".older"))]
    assert steps == [15, 11]


def test_a_smaller_grid_and_a_kill_leave_no_checkpoint(tmp_path):
    arguments = {"grid": {"beta": [1.0, 4.0]}, "out": tmp_path, "checkpoint_seconds": 0, **SHORT}
    with pytest.raises(Stop):
        train_many("blobs", seeds=3, progress=stop_at(12), **arguments)
    (file,) = tmp_path.glob("population-*.safetensors")
    part = tmp_path / f".{file.name}.abcd1234.part.safetensors"  # of a process that was killed while it wrote
    part.write_bytes(b"half")
    train_many("blobs", seeds=[7], **arguments)  # none of its members: it can still be resumed
    assert file.exists()
    assert not part.exists()
    assert len(train_many("blobs", seeds=2, **arguments)) == 4
    assert not [*tmp_path.glob("*population*"), *tmp_path.glob(".*")]


def test_population_of_one_is_train_to_the_byte(tmp_path):
    runs = train_many("blobs", grid={"beta": [1.0, 4.0]}, seeds=1, population=1, out=tmp_path, **SHORT)
    for run in runs:
        one = train("blobs", "beta_vae", out=tmp_path / f"one-{run.path.name}", **SHORT, **run.config.parameters)
        assert (one.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()


def test_a_run_begun_alone_resumes_alone(tmp_path):
    path = tmp_path / "beta_vae_beta=4.0_seed=0"

    def stop(at):
        if at.step == 10:
            raise Stop

    with pytest.raises(Stop):
        train("blobs", "beta_vae", beta=4.0, out=path, checkpoint_seconds=0, progress=stop, **SHORT)
    runs = train_many("blobs", grid={"beta": [1.0, 4.0]}, seeds=2, out=tmp_path, **SHORT)
    one = train("blobs", "beta_vae", beta=4.0, out=tmp_path / "other", **SHORT)
    assert (one.path / "model.safetensors").read_bytes() == (path / "model.safetensors").read_bytes()
    assert len(runs) == 4


def members_of(grid, seeds=1, **settings):
    data = karenina.load("blobs")
    points = expand("beta_vae", grid, seeds, {k: v for k, v in SHORT.items() if k not in grid} | settings)
    return [Member(make_config(data, p.method, p.parameters, p.settings), METHODS["beta_vae"]) for p in points]


def test_what_differs_in_shape_is_grouped():
    members = members_of({"latents": [2, 3], "beta": [1.0, 4.0], "network": ["mlp", "linear"]})
    found = grouped(members)
    assert sorted(map(len, found)) == [2, 2, 2, 2]
    assert sorted(i for group in found for i in group) == list(range(8))
    for group in found:
        assert len({(members[i].config.latents, members[i].config.network) for i in group}) == 1


def test_more_than_memory_holds_is_split_and_said(monkeypatch):
    monkeypatch.setattr("karenina.training.trainer.memory", lambda device: 4e6)
    with pytest.warns(UserWarning, match="4 models need more memory than there is: training"):
        runs = train_many("blobs", grid={"beta": [1.0, 4.0]}, seeds=2, population=4, **SHORT)
    assert len(runs) == 4


def test_a_step_never_waits_for_the_device(monkeypatch):
    """No value leaves the device in an update: on a GPU every such call would stall it."""
    data = karenina.load("blobs")
    settings = {"discriminator_units": 8, "discriminator_layers": 2}
    points = expand("factor_vae", {"gamma": [1.0, 2.0]}, 2, {**SHORT, **settings})
    members = [Member(make_config(data, p.method, p.parameters, p.settings), METHODS["factor_vae"]) for p in points]
    noise = [torch.Generator().manual_seed(i) for i in range(4)]
    rngs = [np.random.default_rng(i) for i in range(4)]
    learner = PopulationLearner(members, len(data), noise, torch.device("cpu"))
    batches = Batches(data, 16, torch.device("cpu"), rngs)
    learner.update(batches, 0)

    def refuse(*args, **kwargs):
        raise AssertionError("a value was read in the middle of a step")

    for name in ("item", "tolist", "cpu", "numpy", "__float__", "__bool__", "__int__"):
        monkeypatch.setattr(Tensor, name, refuse)
    learner.update(batches, 1)


@pytest.fixture
def few_teapots(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where small images are kept
    monkeypatch.setattr("karenina.papers.eastwood2018.teapots.PARTS", {"train": 90, "validation": 5, "test": 30})


def test_batches_are_those_that_sample_would_draw(few_teapots):
    for name in ("blobs", "noisy_dsprites", "teapots:part=train,gap=exclude,side=16", "teapots:side=16"):
        data = karenina.load(name)
        batches = Batches(data, 5, torch.device("cpu"), [np.random.default_rng(i) for i in range(3)])
        assert (batches.table is not None) == (name == "blobs" or "part" in name)
        drawn = batches.draw()
        for i, x in enumerate(drawn):
            expected = data.sample(5, np.random.default_rng(i))[0]
            np.testing.assert_array_equal(x.numpy(), expected.astype(np.float32) / np.float32(255))
    own = np.random.default_rng(0).integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    runs = train_many(own, "beta_vae", seeds=2, network="mlp", steps=3, batch=4, latents=2)
    one = train(own, "beta_vae", seed=1, network="mlp", steps=3, batch=4, latents=2)
    np.testing.assert_allclose(runs[1].encode(own)[0], one.encode(own)[0], atol=1e-5)


@pytest.mark.parametrize("name", ["blobs", "teapots:part=train,side=16"])
def test_what_is_drawn_ahead_is_what_each_step_would_draw(name, few_teapots):
    data = karenina.load(name)
    rngs, same_rngs = ([np.random.default_rng(i) for i in range(2)] for _ in range(2))
    batches = Batches(data, 5, torch.device("cpu"), rngs)
    own, same_own = ([torch.Generator().manual_seed(i) for i in range(2)] for _ in range(2))
    noise = Noise(own, (16, 3), ahead=True)
    assert noise.ahead > 1
    for step in range(40):  # beyond what is drawn at once
        expected = [data.sample(5, rng)[0].astype(np.float32) / np.float32(255) for rng in same_rngs]
        np.testing.assert_array_equal(batches.draw().numpy(), np.stack(expected))
        assert torch.equal(noise.draw(), torch.stack([torch.randn(16, 3, generator=one) for one in same_own]))
        if step in (0, 1, 20, 31):
            batches.settle()
            noise.settle()
            assert [r.bit_generator.state for r in rngs] == [r.bit_generator.state for r in same_rngs]
            assert all(torch.equal(a.get_state(), b.get_state()) for a, b in zip(own, same_own))
    assert Noise(own, (5, 3), ahead=True).ahead == 1  # torch draws these otherwise


@pytest.mark.parametrize("shape", [(3, 4, 6, 5, 1), (2, 7, 16, 16, 1), (2, 3, 4, 4, 3)])
def test_the_bernoulli_term_has_the_value_and_the_gradient_of_torch(shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(shape, generator=generator).round()
    for scale in (0.1, 5.0, 60.0):  # at 60 a sigmoid is 0 or 1
        one, other = ((scale * torch.randn(shape, generator=generator.manual_seed(1))).requires_grad_() for _ in "ab")
        weights = torch.arange(1.0, 1 + shape[0])
        found = bernoulli(x, one)
        each = nn.functional.binary_cross_entropy_with_logits(other, x, reduction="none")
        expected = each.flatten(1).sum(1) / shape[1]
        torch.testing.assert_close(found, expected, rtol=3e-6, atol=0)
        (weights * found).sum().backward()
        (weights * expected).sum().backward()
        assert torch.equal(one.grad, other.grad)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "last",
    [
        [],
        [nn.ReLU()],
        [Doubled(4, 4)],
        [nn.Linear(4, 3, bias=False), nn.Tanh()],
        [nn.Tanh(), nn.Tanh(), nn.Linear(4, 2)],
    ],
)
def test_layers_in_a_row_have_the_gradients_of_torch(last):
    torch.manual_seed(0)
    modules = [
        nn.Sequential(
            nn.Linear(5, 7),
            nn.ReLU(),
            nn.Linear(7, 6),
            nn.Tanh(),
            nn.Linear(6, 4),
            *(copy.deepcopy(one) for one in last),
        )
        for _ in range(3)
    ]
    stack = Stack(modules)
    x, own = (torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in "ab")
    y = stack(stack.template, x)
    expected = torch.stack([module(one) for module, one in zip(modules, own)])
    torch.testing.assert_close(y, expected)
    (y - 1).square().sum().backward()
    (expected - 1).square().sum().backward()
    torch.testing.assert_close(x.grad, own.grad)
    for name, value in stack.parameters.items():
        each = [dict(module.named_parameters())[name].grad for module in modules]
        torch.testing.assert_close(value.grad, torch.stack(each))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.Conv2d(2, 4, 3, padding=1),
        lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
        lambda: nn.Conv2d(2, 4, 3, dilation=2),
        lambda: nn.Conv2d(2, 4, 3, groups=2),
        lambda: nn.Conv2d(2, 4, 3, bias=False),
        lambda: nn.ConvTranspose2d(2, 4, 3, stride=2),
        lambda: nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1),
        lambda: nn.ConvTranspose2d(2, 4, 3, bias=False, groups=2),
    ],
)
def test_convolutions_have_the_options_of_torch(layer):
    torch.manual_seed(0)
    modules = [layer() for _ in range(3)]
    stack, x = Stack(modules), torch.randn(3, 5, 2, 8, 8)
    y, expected = stack(stack.template, x), torch.stack([module(one) for module, one in zip(modules, x)])
    torch.testing.assert_close(y, expected)
    y.square().sum().backward()
    expected.square().sum().backward()
    for name, value in stack.parameters.items():
        each = [dict(module.named_parameters())[name].grad for module in modules]
        torch.testing.assert_close(value.grad, torch.stack(each), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"population": 0}, "population must be an integer, 1 or more"),
        ({"population": "many"}, "population must be an integer"),
        ({"seeds": 0}, "seeds must be an integer, 1 or more"),
        ({"seeds": [1, 1]}, "different seeds"),
        ({"seeds": []}, "different seeds"),
        ({"grid": {"beta": []}}, "beta should have one value or several different ones"),
        ({"grid": {"beta": [1, 1]}}, "beta should have"),
        ({"grid": {"gamma": [1]}}, "beta_vae has no parameter 'gamma'"),
        ({"grid": [1, 2]}, "grid should map names to values"),
        ({"grid": {"beta": [1]}, "beta": 2}, "beta is given twice"),
        ({"seed": 3}, "give seeds="),
        ({"grid": {"method": ["beta_vae", "nothing"]}}, "no method 'nothing'"),
        ({"device": "tpu"}, "no device 'tpu'"),
        ({"checkpoint_seconds": -1}, "must not be negative"),
        ({"latents": 10**10}, "GB at least"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        train_many("blobs", out=tmp_path / "new", **{**SHORT, **arguments})
    assert not (tmp_path / "new").exists()


def test_other_things_in_the_way(tmp_path):
    (tmp_path / "beta_vae_seed=0").mkdir()
    (tmp_path / "beta_vae_seed=0" / "letter.txt").write_text("keep me")
    with pytest.raises(ValueError, match="is not empty and not a run"):
        train_many("blobs", seeds=2, out=tmp_path, **SHORT)
    assert (tmp_path / "beta_vae_seed=0" / "letter.txt").exists()


def test_what_is_not_stacked_is_still_trained():
    runs = train_many("blobs", grid={"method": ["pca", "beta_vae"]}, seeds=2, **SHORT)
    assert [run.config.method for run in runs] == ["pca", "pca", "beta_vae", "beta_vae"]


def needs_bf16():
    try:
        check_precision("bf16", torch.device("cpu"))
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_precision_is_part_of_a_run_and_left_as_it_was(precision):
    if precision == "bf16":
        needs_bf16()
    before = torch.get_float32_matmul_precision()
    run = train("blobs", "beta_vae", precision=precision, **SHORT)
    together = train_many("blobs", "beta_vae", seeds=2, precision=precision, **SHORT)[0]
    assert run.config.precision == together.config.precision == precision
    assert torch.get_float32_matmul_precision() == before
    exact = train("blobs", "beta_vae", **SHORT)
    for other in (run, together):
        assert all(weights.dtype == torch.float32 for weights in other._network.parameters())
        assert abs(other.history["loss"].iloc[-1] / exact.history["loss"].iloc[-1] - 1) < 0.02
    assert (run.encode(IMAGES)[0] == exact.encode(IMAGES)[0]).all() == (precision == "tf32")  # no such GPU here


def test_bf16_convolutions():
    needs_bf16()
    few = {"steps": 2, "batch": 4, "latents": 2}
    exact = train("dsprites", "beta_vae", **few)
    bf16 = train("dsprites", "beta_vae", precision="bf16", **few)
    assert bf16.history["loss"].iloc[-1] == pytest.approx(exact.history["loss"].iloc[-1], rel=0.02)


def test_a_cpu_on_which_torch_dies_in_bf16_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    loop._bf16_on_cpu.cache_clear()
    try:
        for call in (train, train_many):
            with pytest.raises(ValueError, match="torch cannot compute in bf16 on this CPU"):
                call("blobs", "beta_vae", precision="bf16", out=tmp_path / "run", **SHORT)
        assert not (tmp_path / "run").exists()
    finally:
        loop._bf16_on_cpu.cache_clear()


def test_compiled_layers(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function: compiled.append(function.__name__) or function)
    fused = train("blobs", "beta_vae", compile=True, **SHORT)
    assert compiled == ["encode", "decode"]
    same(fused, train("blobs", "beta_vae", **SHORT), tolerance=0)
    with pytest.raises(ValueError, match="no precision 'float8'; did you mean float32. Known: float32, tf32, bf16"):
        train("blobs", "beta_vae", precision="float8", **SHORT)
