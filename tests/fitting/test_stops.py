"""A fit that is killed or interrupted in a phase: nothing on disk is half, and the same call reaches the same end."""

import os
import re
import signal
import subprocess
import sys

import pandas as pd
import pytest

import karenina
from karenina.fitting.folder import PAGE

OPTIONS = {"models": 12, "steps": 60, "latents": 3, "methods": "beta_vae"}
# Where a phase can be met: a function, and the call of it that is stopped.
PHASES = {
    "looking": ("karenina.fitting.core.look_at", 1),
    "first round": ("karenina.fitting.core.FitCall._watch", 20),
    "ranking": ("karenina.fitting.core.compare", 1),
    "copying the choice": ("karenina.fitting.folder.shutil.copy2", 2),
    "first page": ("karenina.fitting.page.animation", 1),
    "second round": ("karenina.fitting.core.FitCall._watch", 90),
    "last page": ("karenina.fitting.page.reconstruct", 2),
}
AFTER_AN_ANSWER = ("first page", "second round", "last page")
STOP = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with Ctrl-C ignored
import karenina.fitting.core, karenina.fitting.page
from karenina.cli import main
target, at, number = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
*parts, name = target.split(".")[1:]
holder = karenina
for part in parts:
    holder = getattr(holder, part)
real, seen = getattr(holder, name), []
def stop(*args, **kwargs):
    seen.append(1)
    if len(seen) == at:
        os.kill(os.getpid(), number)
    return real(*args, **kwargs)
setattr(holder, name, stop)
main()
"""


def stopped(phase, out, number):
    target, at = PHASES[phase]
    words = [f"--{name}={value}" for name, value in OPTIONS.items()]
    given = [sys.executable, "-c", STOP, target, str(at), str(int(number)), "fit", "blobs", "--out", str(out), *words]
    return subprocess.run(given, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return karenina.fit("blobs", out=tmp_path_factory.mktemp("whole"), **OPTIONS)


@pytest.mark.parametrize("phase", ["first round", "copying the choice", "second round", "last page"])
def test_killed_in_a_phase_it_continues_to_the_same_end(phase, whole, tmp_path):
    assert stopped(phase, tmp_path, signal.SIGKILL).returncode == -signal.SIGKILL
    if phase in AFTER_AN_ANSWER:
        assert karenina.pick(tmp_path).config.data == "blobs"
    again = karenina.fit("blobs", out=tmp_path, **OPTIONS)
    pd.testing.assert_frame_equal(again.ranking, whole.ranking)
    assert again.page.exists()
    known = {entry.name for entry in whole.path.iterdir()}
    assert {entry.name for entry in tmp_path.iterdir()} == known


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        ("looking", signal.SIGINT),
        ("first round", signal.SIGTERM),
        ("ranking", signal.SIGINT),
        ("first page", signal.SIGINT),
        ("last page", signal.SIGTERM),
    ],
)
def test_interrupted_in_a_phase_it_answers_or_says_that_it_continues(phase, number, whole, tmp_path):
    done = stopped(phase, tmp_path, number)
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    if phase in ("looking", "last page"):
        assert done.stderr == "karenina: stopped; the same command resumes\n"
    else:
        assert re.search(r"Stopped.*\. Ranking what is finished", done.stdout)
        assert (tmp_path / PAGE).exists()
    if phase == "first round":
        step = int(re.search(r"Stopped at step (\d+) of 60, 0 of \d+ models done; the same command", done.stdout)[1])
        assert karenina.pick(tmp_path).config.steps == step
    again = karenina.fit("blobs", out=tmp_path, **OPTIONS)
    pd.testing.assert_frame_equal(again.ranking, whole.ranking)
