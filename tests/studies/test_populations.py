"""Studies whose models are trained as populations: the same results, however they are packed, shared or killed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from karenina import results
from karenina.studies.plan import parse
from karenina.studies.runner import run
from karenina.studies.study import Study
from karenina.studies.worker import populations, take_seconds, train_population

TEXT = """
name = "small"
data = "blobs"
seeds = 3
steps = 20
latents = 3
batch = 16
methods.beta_vae = {beta = [1.0, 16.0]}
methods.dip_vae_i = {lambda_od = [1.0]}
evaluation = {metrics = ["mig"], rows = 300}
selection.udr = []
"""


def plan_of(text=TEXT, **lines):
    more = "".join(f"{name} = {value}\n" for name, value in lines.items())
    return parse(more + text)


def test_what_is_trained_together_depends_on_the_plan_alone():
    plan = plan_of()
    packed = populations(plan)
    assert [len(points) for points in packed] == [4, 5]
    assert [point for points in packed for point in points] == list(plan.points)
    assert populations(plan_of(population=1)) == []
    assert [len(points) for points in populations(plan_of(population=4))] == [3, 3, 3]
    assert len(populations(plan_of(TEXT.replace("seeds = 3", "seeds = 30")))) == 6  # of at most 16


def test_what_cannot_be_trained_together_is_not():
    mixed = TEXT.replace("latents = 3", "latents = [2, 3]").replace(
        "methods.dip_vae_i = {lambda_od = [1.0]}",
        "methods.factor_vae = {gamma = [1.0, 2.0], discriminator_units = 8}\nmethods.pca = {}",
    )
    for points in populations(plan_of(mixed)):
        assert len({point.latents for point in points}) == 1
        assert len({point.method == "factor_vae" for point in points}) == 1
    sprites = TEXT.replace('"blobs"', '"dsprites"')
    assert populations(plan_of(sprites)) == []  # convolutions, on a CPU
    assert len(populations(plan_of(sprites, population=4))) == 3


def table(path):
    found = results(path)
    return found.set_index(["data", "method", "strength", "seed", "metric", "factor", "property"])["value"]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The study by one worker."""
    path = tmp_path_factory.mktemp("populations") / "one"
    run(plan_of(), path, workers=1, quiet=True)
    return path


def test_results_do_not_depend_on_workers(one, tmp_path):
    run(plan_of(), tmp_path, workers=2, quiet=True)
    assert (one / "results.parquet").read_bytes() == (tmp_path / "results.parquet").read_bytes()
    assert not list((one / "populations").glob("*"))


def test_results_hardly_depend_on_packing(one, tmp_path, in_this_process):
    run(plan_of(population=1), tmp_path, quiet=True)
    together, alone = table(one), table(tmp_path)
    assert list(together.index) == list(alone.index)
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-3)


def test_killed_with_all_its_workers_it_ends_with_the_same_bytes(tmp_path, in_this_process):
    text = TEXT.replace("steps = 20", "steps = 400") + "\n"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    plan = plan_of(text, checkpoint_seconds=0.0)
    run(plan, whole, quiet=True)
    (tmp_path / "study.toml").write_text("checkpoint_seconds = 0.0\n" + text)
    command = [sys.executable, "-m", "karenina", "study", "run", str(tmp_path / "study.toml"), "--out", str(parts)]
    process = subprocess.Popen([*command, "--workers", "2"], start_new_session=True, stdout=subprocess.DEVNULL)
    waited = time.monotonic()
    while not list(parts.glob("populations/*.safetensors")) and time.monotonic() - waited < 300:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert list(parts.glob("populations/*.safetensors")), "killed in the middle of a population"
    run(plan, parts, quiet=True)
    assert (whole / "results.parquet").read_bytes() == (parts / "results.parquet").read_bytes()


def test_one_that_diverges_fails_alone(tmp_path, in_this_process):
    plan = plan_of(TEXT.replace("beta = [1.0, 16.0]", "beta = [1.0, 1e300]"))
    status = run(plan, tmp_path, quiet=True)
    assert (len(status.done), len(status.failed)) == (6, 3)
    assert "by step" in Study(tmp_path).reason(status.failed[0])


def test_what_another_process_has_is_left_to_it(tmp_path):
    from karenina.studies.study import claim

    plan = plan_of()
    folder = Study(tmp_path)
    folder.adopt(plan)
    points = populations(plan)[0]
    with claim(tmp_path, points[0].hash):
        train_population(str(tmp_path), points, 60.0)
    assert [folder.trained(point.hash) for point in points] == [False, True, True, True]


def test_each_model_has_its_share_of_the_time(tmp_path, in_this_process):
    plan = plan_of()
    folder = Study(tmp_path)
    folder.adopt(plan)
    points = populations(plan)[0]
    started = time.perf_counter()
    train_population(str(tmp_path), points, 60.0)
    passed = time.perf_counter() - started
    planted = {point.hash: 1000.0 + i for i, point in enumerate(points)}
    shares = [take_seconds(folder, point.hash) for point in points]
    assert len(set(shares)) == 1
    assert 0 < sum(shares) <= passed
    assert take_seconds(folder, points[0].hash) == 0  # counted once
    for name, seconds in planted.items():
        (tmp_path / "populations" / f"{name}.seconds").write_text(str(seconds))
    run(plan, tmp_path, quiet=True)
    timings = pd.read_parquet(tmp_path / "timings.parquet").query("what == 'train'").set_index("run").seconds
    assert len(timings) == len(plan.points)
    for name, seconds in planted.items():
        assert seconds < timings[name] < seconds + 100
    assert not list((tmp_path / "populations").glob("*"))


def test_a_study_from_before_populations_stays_as_it_was(tmp_path):
    plan = plan_of(population=1)
    folder = Study(tmp_path)
    folder.adopt(plan)
    file = tmp_path / "study.toml"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "population" not in line))
    assert folder.read_plan().population == 1
    assert folder.adopt(plan_of()).population == 1


@pytest.mark.parametrize(("value", "message"), [("0", "population should be an integer, 1"), ('"many"', "an integer")])
def test_bad_populations(value, message):
    with pytest.raises(ValueError, match=message):
        plan_of(population=value)
