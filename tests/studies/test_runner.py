"""Running studies: killed, shared, sharded, failing; always the same results."""

import errno
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import karenina
from karenina import results
from karenina.evaluation.scoring import load_cached
from karenina.studies import runner as runner_module
from karenina.studies import worker as task_module
from karenina.studies.plan import parse, preset
from karenina.studies.runner import Pool, _try_out, run
from karenina.studies.study import COLUMNS, Study, claim, exclusive, find_plan, read_claim, retry
from karenina.studies.worker import Outcome, execute

RUN = (
    "import sys; from pathlib import Path; from karenina.studies.runner import run; "
    "from karenina.studies.plan import parse; "
    "run(parse(Path(sys.argv[1]).read_text(), check=False), sys.argv[2], workers=int(sys.argv[3]))"
)


def start(plan, out, workers):
    file = out.parent / "study.toml"
    file.write_text(plan.to_toml())
    words = [sys.executable, "-c", RUN, str(file), str(out), str(workers)]
    # A test run in the background of a shell ignores Ctrl-C, and children inherit that.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE, text=True, preexec_fn=listen)


def wait_for(there, process, seconds=60):
    end = time.monotonic() + seconds
    while not there() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def test_killed_at_random_moments_and_run_again_it_ends_the_same(smoke, finished, tmp_path):
    out = tmp_path / "study"
    folder = Study(out)
    chance = random.Random(0)
    for wanted in (0, 3):
        process = start(smoke, out, workers=2)
        wait_for(lambda least=wanted: folder.names("claims") and len(folder.names("scores")) >= least, process)
        time.sleep(chance.uniform(0, 0.6))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not (out / "results.parquet").exists() or len(folder.names("scores")) == 8
    process = start(smoke, out, workers=2)
    lines = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == 0
    # Workers of the killed process stop when they next look at it, which on a busy machine may be seen.
    other = ("waiting for ", "now scored one by one")  # and what is trained anew depends on the moment of the kill
    lines = [line for line in lines if not (line.startswith(other[0]) or line.endswith(other[1]))]
    assert [line for line in lines if not (line.startswith("[") and "models/hour" in line)] == []
    assert (out / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()
    assert (out / "together.parquet").read_bytes() == (finished / "together.parquet").read_bytes()


def test_two_at_once_share_the_work(smoke, finished, tmp_path):
    out = tmp_path / "study"
    processes = [start(smoke, out, workers=1) for _ in range(2)]
    lines = [process.communicate(timeout=120)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    finished_by = [[line for line in said if line.startswith("[")] for said in lines]
    assert len(finished_by[0]) + len(finished_by[1]) == 8  # each model was finished by one of them
    assert (out / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()


def test_interrupted_it_stops_at_once_and_keeps_what_it_has(smoke, finished, tmp_path):
    out = tmp_path / "study"
    Study(out).adopt(smoke)
    for point in smoke.points[:3]:
        copy(finished, out, point)
    process = start(smoke, out, workers=1)
    wait_for(lambda: Study(out).names("claims"), process)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert len(results(out)["run"].unique()) == len(Study(out).names("scores")) >= 3
    assert Study(out).status().running == ()


LONG = """
name = "long"
data = "blobs"
seeds = 2
latents = 3
steps = 100000
checkpoint_seconds = 1000
methods.vae = {}
evaluation = {metrics = ["mig"], rows = 200}
"""


@pytest.mark.parametrize(("population", "everyone"), [("1", True), ("2", False)])
def test_terminated_its_workers_write_checkpoints(population, everyone, tmp_path):
    file, out = tmp_path / "long.toml", tmp_path / "study"
    file.write_text(f"population = {population}\n{LONG}")
    words = [sys.executable, "-m", "karenina", "study", "run", str(file), "--out", str(out), "--workers", "1"]
    process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    wait_for(
        lambda: (out / "study.toml").exists() and any(one.step > 0 for one in Study(out).status().running), process
    )
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 143
    assert said.startswith(
        "karenina: stopped with 0 of 2 models done; the same command resumes. `karenina study status"
    )
    assert len(said.splitlines()) == 1
    runs = [karenina.open(path.parent) for path in out.glob("runs/*/run.json")]
    assert len(runs) == int(population)
    assert all(0 < run.stopped_at < 100_000 for run in runs)
    assert Study(out).status().running == ()


def copy(source, target, point):
    import shutil

    shutil.copytree(source / "runs" / point.hash, target / "runs" / point.hash)
    for file in (source / "scores").glob(f"{point.hash}.*"):
        shutil.copy(file, target / "scores")


def test_results_are_tidy(finished, smoke):
    frame = results(finished)
    assert list(frame.columns) == list(COLUMNS["results"])
    assert frame["run"].nunique() == 8
    keys = ["run", "metric", "property", "factor"]
    assert not frame.duplicated(keys).any()
    assert set(frame[frame["metric"] == "mig"]["factor"]) == {"", "background", "x", "y", "radius"}
    assert {"udr_spearman", "udr_spearman_a2a"} <= set(frame[frame["family"] == "selection"]["metric"])
    assert set(frame[frame["method"] == "beta_vae"]["strength"]) == {1.0, 16.0}
    timings = pq.read_table(finished / "timings.parquet").to_pandas()
    assert set(timings["run"]) == set(frame["run"])
    assert (timings["seconds"] >= 0).all()
    point = smoke.points[0]
    assert np.load(finished / "runs" / point.hash / "codes.npy").shape == (200, 3)


def test_more_seeds_reuse_what_exists(finished, smoke, tmp_path):
    out = tmp_path / "study"
    Study(out).adopt(smoke)
    for point in smoke.points:
        copy(finished, out, point)
    more = smoke.with_seeds(3)
    Study(out).adopt(more)
    status = Study(out).status()
    assert (len(status.done), status.waiting) == (8, 4)
    assert results(out)["run"].nunique() == 8  # what there is, though no results.parquet was written


def test_other_evaluation_settings_need_scoring_only(finished, smoke, tmp_path):
    out = tmp_path / "study"
    folder = Study(out)
    folder.adopt(smoke)
    point = smoke.points[0]
    copy(finished, out, point)
    changed = parse(smoke.to_toml().replace('"mig", "sap"', '"mig"'), check=False)
    folder.adopt(changed)
    assert (len(folder.status().done), folder.status().stale) == (0, 1)
    before = (out / "runs" / point.hash / "model.safetensors").stat().st_mtime_ns
    assert execute(str(out), point, changed.evaluation, 60).status == "done"
    assert (out / "runs" / point.hash / "model.safetensors").stat().st_mtime_ns == before


def test_scores_of_an_earlier_release_are_shown_with_a_warning_and_made_anew(finished, tmp_path, monkeypatch):
    out = shutil.copytree(finished, tmp_path / "study")
    before = results(out)
    monkeypatch.setattr("karenina.studies.plan.NUMBERS", 3)
    status = Study(out).status()
    assert (len(status.done), status.stale) == (0, status.total)
    with pytest.warns(UserWarning, match="earlier release"):
        assert results(out).equals(before)
    point = status.plan.points[0]
    assert execute(str(out), point, status.plan.evaluation, 60).status == "done"
    assert set(results(out)["run"]) == {point.hash}


def test_shards_are_parts_and_the_last_one_writes_the_results(finished, smoke, tmp_path, monkeypatch):
    out = tmp_path / "study"
    Study(out).adopt(smoke)
    ran = []

    class Fake:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def run(self, tasks, tick):
            for point in (point for task in tasks for point in task):
                copy(finished, out, point)
                ran.append(point.hash)
                yield Outcome(point.hash, "done")

    monkeypatch.setattr(runner_module, "_pool", lambda *arguments: Fake())
    run(smoke, out, shard=(2, 3), quiet=True)
    assert sorted(ran) == sorted(point.hash for point in smoke.points[1::3])
    assert not (out / "results.parquet").exists()
    for i in (1, 3):
        run(smoke, out, shard=(i, 3), quiet=True)
    assert sorted(ran) == sorted(point.hash for point in smoke.points)
    assert (out / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()
    with pytest.raises(ValueError, match="i from 1 to n; got 4/3"):
        run(smoke, out, shard=(4, 3))


def test_a_missing_data_set_is_said_before_the_first_model_is_trained(smoke, tmp_path):
    file = tmp_path / "mine.npz"
    images = np.random.default_rng(0).integers(256, size=(50, 1, 8, 8), dtype=np.uint8)
    np.savez(file, images=images)
    plan = replace(smoke, data=("blobs", str(file)))
    file.unlink()
    said = r"^nothing was trained, as 8 of 16 models lack their data: \S*mine.npz \(no data set and no file .*\)$"
    with pytest.raises(ValueError, match=said):
        run(plan, tmp_path / "study", workers=1, quiet=True)
    status = Study(tmp_path / "study").status()
    assert status.done == status.failed == ()
    assert not any((tmp_path / "study" / "runs").glob("*/model*"))


def test_a_data_file_that_disappears_fails_its_models_and_no_others(smoke, tmp_path):
    images = np.random.default_rng(0).integers(256, size=(50, 1, 8, 8), dtype=np.uint8)
    file = tmp_path / "mine.npz"
    np.savez(file, images=images)
    text = smoke.to_toml().replace('data = "blobs"', f'data = ["{file}", "blobs"]').replace("[1, 16]", "[1]")
    plan = parse(text.replace("seeds = 2", "seeds = 1"))
    folder = Study(tmp_path / "study")
    folder.adopt(plan)
    mine = [point for point in plan.points if point.data == str(file)]
    other = [point for point in plan.points if point.data == "blobs"]
    file.rename(tmp_path / "away.npz")
    load_cached.cache_clear()
    outcomes = [execute(str(folder.path), point, plan.evaluation, 60) for point in (mine[0], other[0])]
    assert [outcome.status for outcome in outcomes] == ["failed", "done"]
    assert "no data set and no file" in folder.reason(mine[0].hash)
    (tmp_path / "away.npz").rename(file)
    assert execute(str(folder.path), mine[0], plan.evaluation, 60).status == "failed"  # until it is asked for
    assert retry(folder.path) == [mine[0]]
    assert execute(str(folder.path), mine[0], plan.evaluation, 60).status == "done"
    assert folder.status().failed == ()


def test_divergence_is_a_reason_and_a_retry_starts_afresh(smoke, tmp_path, monkeypatch):
    from karenina import training

    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    point = smoke.points[0]

    def diverge(*arguments, out, **options):
        out.mkdir(parents=True)
        (out / "run.json").write_text("{}")
        raise training.TrainingDiverged("kl is nan at step 7")

    with monkeypatch.context() as patch:
        patch.setattr(training, "train", diverge)
        outcome = execute(str(folder.path), point, smoke.evaluation, 60)
    assert outcome.status == "failed"
    assert outcome.reason == "TrainingDiverged: kl is nan at step 7"
    assert json.loads(folder.failure_path(point.hash).read_text())["details"].startswith("Traceback")
    retry(folder.path)
    assert not folder.run_path(point.hash).exists()


def test_a_full_disk_stops_the_study_and_blames_no_model(smoke, tmp_path, monkeypatch):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("karenina.training.train", full)
        outcome = execute(str(folder.path), smoke.points[0], smoke.evaluation, 60)
    assert outcome.status == "full"
    assert folder.status().failed == ()
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "run", lambda self, points, tick: iter([outcome]))
        with pytest.raises(OSError, match="no space left on the disk"):
            run(smoke, folder.path, quiet=True)


@contextmanager
def files_of_at_most(size):
    """What a full disk is to the writer of a file: the first bytes are taken, then there is an error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_codes_that_do_not_fit_the_disk_are_written_when_there_is_room(finished, smoke, tmp_path):
    out = tmp_path / "study"
    folder = Study(out)
    folder.adopt(smoke)
    point = smoke.points[0]
    copy(finished, out, point)
    folder.scores_path(point.hash, smoke.evaluation.hash).unlink()
    codes = (folder.run_path(point.hash) / "codes.npy").read_bytes()
    with files_of_at_most(len(codes) - 1):
        assert execute(str(out), point, smoke.evaluation, 60).status == "full"
    assert folder.status().failed == ()
    assert (folder.run_path(point.hash) / "codes.npy").read_bytes() == codes  # the old ones
    assert execute(str(out), point, smoke.evaluation, 60).status == "done"


def test_a_full_disk_is_seen_behind_what_a_library_makes_of_it():
    assert task_module.is_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not task_module.is_full(OSError("12 requested and 0 written"))
    assert not task_module.is_full(ValueError("28"))
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise ValueError("cannot write") from None
    except ValueError as error:
        seen = error
    assert task_module.is_full(seen)


def test_a_model_that_kills_its_worker_fails_after_two_tries(smoke, tmp_path, monkeypatch):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nread line\nkill -9 $$\n")
    script.chmod(0o755)
    monkeypatch.setattr("karenina.studies.runner.sys.executable", str(script))
    with Pool(folder, smoke, 2) as pool:
        outcomes = list(pool.run([(point,) for point in smoke.points[:3]], 1.0))
    assert sorted(outcome.hash for outcome in outcomes) == sorted(point.hash for point in smoke.points[:3])
    assert all("died 2 times (SIGKILL)" in outcome.reason for outcome in outcomes)
    assert len(folder.status().failed) == 3


STRANGERS = ("torch", "queue", "json", "threading", "multiprocessing", "pickle", "ray", "karenina")


@pytest.fixture
def strangers(tmp_path, monkeypatch):
    """A working directory with modules that tell when they are imported; gives the names of those that were."""
    folder = tmp_path / "strangers"
    folder.mkdir()
    for name in STRANGERS:
        (folder / f"{name}.py").write_text(f"open({str(folder / name)!r}, 'w')\nraise SystemExit('{name}')\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return lambda: [name for name in STRANGERS if (folder / name).exists()]


def test_workers_import_nothing_from_the_working_directory(smoke, tmp_path, strangers):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    with Pool(folder, smoke, 1) as pool:
        outcomes = [outcome for outcome in pool.run([smoke.points[:1]], 60.0) if outcome]
    assert strangers() == []
    assert [outcome.status for outcome in outcomes] == ["done"]


def test_nor_does_what_the_command_line_starts(strangers):
    code = (
        "import sys; sys.path = [path for path in sys.path if path]; sys.argv = ['karenina', '--version']\n"
        "from karenina.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "from multiprocessing import get_context\n"
        "process = get_context('spawn').Process(target=print, args=('spawned',))\n"
        "process.start(); process.join()\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split()[-1] == "spawned"
    assert strangers() == []


def test_nor_does_looking_for_a_ray_cluster(strangers, monkeypatch):
    monkeypatch.setattr("karenina.studies.runner._SECONDS_TO_JOIN", 8.0)  # it tries for 40 where nothing answers
    with pytest.raises(ValueError, match="no Ray cluster"):
        _try_out("127.0.0.1:9")
    assert strangers() == []


def test_a_model_that_another_process_has_is_left_alone(smoke, tmp_path):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    point = smoke.points[0]
    with claim(folder.path, point.hash) as held:
        held.progress(0, 100)
        held.progress(100, 100)
        assert execute(str(folder.path), point, smoke.evaluation, 60) == Outcome(point.hash, "busy")
        (running,) = folder.status().running
        assert (running.hash, running.step, running.steps, running.pid) == (point.hash, 100, 100, os.getpid())
    assert folder.status().running == ()
    assert folder.status().waiting == 8


def test_a_runner_that_waits_says_for_what(finished, smoke, tmp_path, monkeypatch, capsys):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    for point in smoke.points[1:]:
        copy(finished, folder.path, point)
    point = smoke.points[0]
    ticks = []

    class Busy:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def run(self, tasks, tick):
            assert tasks == [(point,)]
            yield Outcome(point.hash, "busy")

    def sleep(seconds):
        ticks.append(seconds)
        held.progress(40, 40)
        if len(ticks) == 3:
            copy(finished, folder.path, point)

    monkeypatch.setattr(runner_module, "_pool", lambda *arguments: Busy())
    monkeypatch.setattr(runner_module.time, "sleep", sleep)
    with claim(folder.path, point.hash) as held:
        held.progress(0, 40)
        run(smoke, folder.path)
    who = f"process {os.getpid()} on {socket.gethostname()}"
    said = capsys.readouterr().out.splitlines()
    assert said == [f"waiting for {point.label}: {who} has it, step 0 of 40"]  # once, though it waited three times


def test_who_compares_the_models_is_said_to_who_waits(finished, smoke, tmp_path, capsys):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    for point in smoke.points:
        copy(finished, folder.path, point)
    with exclusive(folder.path, "together"):
        waiting = threading.Thread(target=run, args=(smoke, folder.path))
        waiting.start()
        end = time.monotonic() + 60
        said = ""
        while "waiting" not in said and waiting.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
            said += capsys.readouterr().out
        assert f"waiting for process {os.getpid()} on {socket.gethostname()}, which compares the models" in said
        assert read_claim(folder.path, ".together").pid == os.getpid()
    waiting.join()
    assert read_claim(folder.path, ".together") is None
    assert folder.results_path.read_bytes() == (finished / "results.parquet").read_bytes()


WRITE = """
import sys, time
from karenina._files import atomic
with atomic(sys.argv[1]) as part:
    print(part, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_run_was_writing_is_removed_and_what_another_writes_is_not(finished, smoke, tmp_path):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    for point in smoke.points:
        copy(finished, folder.path, point)
    for target in (folder.results_path, folder.path / "together.parquet", folder.scores_path("0" * 16, "0" * 8)):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITE, target], stdout=subprocess.PIPE, text=True) for _ in "12"
        ]
        killed, living = (Path(writer.stdout.readline().strip()) for writer in writers)
        writers[0].kill()
        writers[0].communicate()
        assert killed.exists()
        run(smoke, folder.path, quiet=True)
        assert not killed.exists()
        assert living.exists()
        writers[1].kill()
        writers[1].communicate()
    run(smoke, folder.path, quiet=True)
    assert not [path for path in folder.path.rglob(".*") if "part" in path.name]


@pytest.mark.parametrize("damage", ["model", "codes", "gone", "scores"])
def test_damage_is_found_and_made_good_on_request(finished, smoke, tmp_path, damage):
    out = tmp_path / "study"
    folder = Study(out)
    folder.adopt(smoke)
    point = smoke.points[0]
    copy(finished, out, point)
    assert folder.damaged() == {}
    run_folder = folder.run_path(point.hash)
    if damage == "model":
        content = bytearray((run_folder / "model.safetensors").read_bytes())
        content[-1] ^= 1
        (run_folder / "model.safetensors").write_bytes(content)
    elif damage == "codes":
        (run_folder / "codes.npy").write_bytes(b"")
    elif damage == "gone":
        (run_folder / "model.safetensors").unlink()
    else:
        folder.scores_path(point.hash, smoke.evaluation.hash).write_text("{")
        with pytest.raises(ValueError, match="damaged; `karenina study retry --check`"):
            results(out)
    assert list(folder.damaged()) == [point.hash]
    assert retry(out) == []
    assert retry(out, check=True) == [point]
    assert not run_folder.exists()
    assert folder.status().waiting == 8


def test_status_of_many_runs_needs_no_heavy_import(tmp_path):
    plan = find_plan("duan2020", "paper")
    folder = Study(tmp_path / "study")
    folder.adopt(plan)
    for point in plan.points[:5000]:
        folder.scores_path(point.hash, plan.evaluation.hash).touch()
    for point in plan.points[5000:5010]:
        folder.fail(point.hash, "it did not want to")
    code = (
        "import sys; from karenina.studies import status; s = status(sys.argv[1]); "
        "print(len(s.done), len(s.failed), s.waiting, bool({'numpy', 'torch', 'pandas'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code, folder.path], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["5000", "10", "390", "False"]


def test_plans_are_found_by_name_file_and_directory(tmp_path, smoke):
    file = tmp_path / "mine.toml"
    file.write_text(smoke.to_toml())
    assert find_plan(file) == smoke
    Study(tmp_path / "study").adopt(smoke)
    assert find_plan(tmp_path / "study") == smoke
    with pytest.raises(ValueError, match="no preset and no file 'nothing'"):
        find_plan("nothing")
    with pytest.raises(ValueError, match="--scale goes with a preset"):
        find_plan(file, "paper")
    with pytest.raises(ValueError, match="is not a study"):
        find_plan(tmp_path)


def test_a_directory_by_the_name_of_a_preset_is_resumed_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = preset("duan2020", "smoke").with_seeds(3)
    (tmp_path / "duan2020").mkdir()
    Study(tmp_path / "duan2020").adopt(own)
    assert find_plan("duan2020") == own
    assert find_plan("duan2020", "smoke") == preset("duan2020", "smoke")
