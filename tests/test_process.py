"""Signals that stop training, by real processes, and the cores that a process may use."""

import io
import os
import signal
import subprocess
import sys
import threading

import pytest

import karenina
from karenina import _process
from karenina._process import Terminated, cores, exit_code, stop_waits, stopped, stops_heard, stops_wait
from karenina.cli import main
from karenina.training import loop
from karenina.training.loop import Population

TRAIN = ("train", "blobs", "beta_vae", "--steps", "120", "--set", "latents=3")


def run(number, at, *words, tmp_path, again=False):
    """The command line in a process that is forked, which signals itself at a step, and again at the checkpoint."""
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with Ctrl-C ignored
        sys.stderr = (tmp_path / "said").open("w")
        sys.argv = ["karenina", *map(str, words)]

        def signalling(real, signals):
            def call(*args, **kwargs):
                if signals(*args):
                    os.kill(os.getpid(), number)
                return real(*args, **kwargs)

            return call

        Population._close_row = signalling(Population._close_row, lambda *args: args[3].step == at)
        if again:
            loop.write_tensors = signalling(loop.write_tensors, lambda *args: True)
        try:
            main()
        except SystemExit as end:
            sys.stderr.flush()
            os._exit(end.code)
        os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code, (tmp_path / "said").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_has_a_checkpoint_opens_and_resumes_to_the_same_bytes(number, tmp_path, command):
    said = "karenina: stopped at step 40 of 120; the same command resumes\n"
    assert run(number, 40, *TRAIN, "--out", tmp_path / "a", tmp_path=tmp_path) == (128 + number, said)
    half = karenina.open(tmp_path / "a")
    assert (half.status, half.stopped_at, half.history["step"].max()) == ("stopped at step 40", 40, 40)
    assert "40 of 120 steps" in repr(half)
    assert command(*TRAIN, "--out", tmp_path / "a").returncode == 0
    whole = karenina.train("blobs", "beta_vae", steps=120, latents=3, out=tmp_path / "whole")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()
    assert karenina.open(tmp_path / "a").status == "finished"


def test_a_second_signal_ends_it_at_once(tmp_path):
    found = run(signal.SIGINT, 40, *TRAIN, "--out", tmp_path / "a", tmp_path=tmp_path, again=True)
    assert found == (130, "karenina: stopped\n")
    assert not (tmp_path / "a" / "checkpoint.safetensors").exists()


def test_stopped_populations_open_and_resume(tmp_path, command):
    words = (*TRAIN, "--seeds", 2, "--out", tmp_path / "many")
    said = "karenina: stopped at step 40 of 120, 0 of 2 models done; the same command resumes\n"
    assert run(signal.SIGTERM, 40, *words, tmp_path=tmp_path) == (143, said)
    paths = sorted(path.parent for path in (tmp_path / "many").glob("*/run.json"))
    assert [karenina.open(path).status for path in paths] == ["stopped at step 40"] * 2
    weights = [karenina.open(path).module.state_dict() for path in paths]
    for path, found in zip(paths, weights):
        alone = karenina.train("blobs", "beta_vae", seed=karenina.open(path).config.seed, steps=40, latents=3)
        assert all((value == found[name]).all() for name, value in alone.module.state_dict().items())
    ranking = karenina.rank(tmp_path / "many", "elbo", rows=50)
    assert len(ranking.frame) == 2
    assert "40 of 120 steps" in ranking.frame["setting"][0]
    assert command(*words).returncode == 0
    assert {karenina.open(path).status for path in paths} == {"finished"}


def test_what_is_being_trained_by_another_process_is_running(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        karenina.train("blobs", steps=9, latents=2, out=tmp_path, progress=lambda at: interrupt())
    assert karenina.open(tmp_path).stopped_at == 1
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="is running"):
            karenina.open(tmp_path)
    finally:
        os.close(handle)


def interrupt():
    raise KeyboardInterrupt


def test_the_first_signal_waits_for_a_good_moment_and_the_second_does_not():
    after = []

    def stop(within, times, words=""):
        with within():
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
            after.append(stop_waits())
            if words:
                raise stopped(words)

    with pytest.raises(Terminated, match="here"), stops_wait():
        stop(stops_wait, 1, "here")
    with pytest.raises(Terminated):  # what never looks has it at the end
        stop(stops_wait, 1)
    assert after == [True, True]
    with pytest.raises(Terminated):
        stop(stops_wait, 2)
    with pytest.raises(Terminated):
        stop(stops_heard, 1)
    assert len(after) == 2
    assert not stop_waits()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert (exit_code(Terminated()), exit_code(KeyboardInterrupt())) == (143, 130)


def test_the_end_of_a_workers_input_is_no_signal(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a line\n"))
    monkeypatch.setattr(_process.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(_process.os, "_exit", lambda code: None)

    def train():
        with stops_wait():
            assert list(_process.obey_input()) == ["a line\n"]
            os.kill(os.getpid(), signal.SIGTERM)  # which the whole group was sent
            assert stop_waits()
            raise stopped("written")

    with pytest.raises(Terminated, match="written"):
        train()


def test_handlers_of_the_callers_and_other_threads_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with stops_wait():
            os.kill(os.getpid(), signal.SIGTERM)
            assert not stop_waits()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]

    def elsewhere():
        with stops_wait():
            heard.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert heard[1] is signal.SIG_DFL


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/job/step", {"job/step/cpu.max": "max 100000", "job/cpu.max": "150000 100000"}, 2),
        ("0::/job", {"job/cpu.max": "50000 100000"}, 1),
        ("0::/job", {"job/cpu.max": "nonsense"}, 5),
        ("0::/of/the/host", {"cpu.max": "300000 100000"}, 3),  # in a container
        ("3:memory:/x\n1:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "200000", "cpu/x/cpu.cfs_period_us": "100000"}, 2),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 5),
        ("", {}, 5),
    ],
)
def test_cores_are_those_of_the_affinity_within_the_quota(groups, files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(5)))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores(tmp_path) == expected


def test_a_process_bound_to_one_core_has_one():
    words = [sys.executable, "-c", "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"]
    words[-1] += "from karenina._process import cores; print(cores())"
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "1\n"
