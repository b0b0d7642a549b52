"""`karenina study` with the clustering preset: tasks, kills, the page, bad input. At sizes where nothing is learned."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from karenina._files import read_json
from karenina.cli.study import study_app
from karenina.pages.page import report
from karenina.papers.duan2020.clustering import study
from karenina.papers.duan2020.clustering.plan import ClusteringPlan, adopt, plan_of, read_plan
from karenina.papers.duan2020.clustering.runner import WRONG, estimate, main, name_of, run, seconds, stages, status
from karenina.papers.duan2020.clustering.study import ClusteringStudy
from karenina.studies.study import claim, read_claim
from karenina.training.run import read_tensors, write_tensors

TINY = ClusteringPlan(
    masks="oracle", side=16, scale=0.3, betas=(0.0, 0.01), seeds=2, episodes=6, episode=2, component_steps=35,
    transition_steps=5, initialisations=2, cap=12, window=2, singles=300, units=16,
)  # fmt: skip


def say(*words, code=0):
    found = CliRunner().invoke(study_app, [str(word) for word in words])
    if code == 0:
        assert found.exception is None, found.exception
    return found.output


def wrong(*words):
    """The one line that the command line would show."""
    found = CliRunner().invoke(study_app, [str(word) for word in words])
    assert isinstance(found.exception, ValueError), found.exception
    return str(found.exception)


def done_by_hand(plan, folder):
    """All tasks, in this process."""
    adopt(folder, plan)
    for stage in stages(plan):
        for task in stage:
            assert main(folder, task) == 0, task
    return folder


@pytest.fixture(scope="module", autouse=True)
def small():
    """Traces of 20 sprites, and 20 scenes for the gate: ten times fewer than a study has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "WATCHED", 20)
        patch.setattr(ClusteringStudy.gate, "__defaults__", (20,))
        yield


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory):
    return done_by_hand(TINY, tmp_path_factory.mktemp("clustering") / "study")


def test_status_analyse_and_report_of_a_finished_study(finished):
    assert "tasks: 8 done, 0 running, 0 to do" in say("status", finished)
    said = say("analyse", finished)
    assert "8 of 8 agents were censored at 12 steps" in said
    assert "oracle masks" in said
    assert "UDR_S: no rho, as there are too few models, or all are equal in steps or scores." in said
    assert "holtz2022 table_4" in said
    for name in ("clustering.csv", "clustering.png", "duan2020/figure_11.png", "holtz2022/table_4.md"):
        assert (finished / "analysis" / name).stat().st_size > 0
    assert set(seconds(finished)) == {"references", "exploration", "beta", "agents", "measures", "episodes"}
    page = report(finished).read_text()
    assert page.count("data:image/gif;base64") == 3
    assert "Oracle masks" in page
    assert "not complete" not in page
    with Image.open(finished / "report" / "figures" / "episode_oracle.gif") as film:
        assert film.n_frames == read_json(finished / "episodes.json")[0]["length"] + 1


def test_table_4_has_the_papers_values_beside_ours(finished):
    say("analyse", finished, "--paper", "holtz2022", "--no-figures")
    text = (finished / "analysis" / "holtz2022" / "table_4.csv").read_text()
    for value in ("-0.59", "-0.51", "-0.56", "-0.48"):
        assert value in text


def test_an_unfinished_study_says_so(finished, tmp_path):
    part = shutil.copytree(finished, tmp_path / "part")
    for name in ("results.json", "agents/1.json", "episodes.json"):
        (part / name).unlink()
    assert "tasks: 5 done, 0 running, 3 to do\n  next: agents 1" in say("status", part)
    assert "2 of 4 models are analysed" in say("analyse", part, "--no-figures")
    assert "the agents of 2 of 4 models are done" in report(part).read_text()
    with claim(part, name_of("agents 1")) as mine:
        mine.progress(0, 1)
        assert status(part).running == (("agents 1", f"process {os.getpid()} on {read_claim(part, 'agents_1').host}"),)


def test_killed_with_its_worker_it_resumes_to_the_same(finished, tmp_path):
    part = shutil.copytree(finished, tmp_path / "part")
    for name in ("results.json", "agents/1.json"):
        (part / name).unlink()
    command = [sys.executable, "-m", "karenina", "study", "run", str(part), "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        until(lambda: read_claim(part, "agents_1") is not None)
        running.send_signal(signal.SIGKILL)
    until(lambda: read_claim(part, "agents_1") is None)  # its worker ends with it
    assert run(TINY, part, workers=2).waiting == ()
    assert read_json(part / "results.json") == read_json(finished / "results.json")


def until(holds, most=120):
    ends = time.monotonic() + most
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_monet_of_its_own_for_each_model(tmp_path):
    plan = replace(TINY, masks="monet", own=True, betas=(0.0,), monet_steps=4, monet_batch=2, widths=(8, 8))
    assert stages(plan)[0] == ["references", "model 0", "model 1"]
    folder = done_by_hand(plan, tmp_path / "own")
    rows = read_json(folder / "results.json")
    assert [(row["model"], row["censored"]) for row in rows] == [(0, 2), (1, 2)]
    parts = [read_tensors(folder / "models" / str(i) / "monet.safetensors")[0] for i in range(2)]
    assert not np.array_equal(parts[0]["vae.first.weight"], parts[1]["vae.first.weight"])
    assert ClusteringStudy(plan, folder).seen()[3].shape[0] == 2
    assert read_plan(folder / "models" / "1").first == 1


def test_constant_slots_are_censored_not_an_error(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "constant")
    for name in ("scaling", "transitions", "agents"):
        shutil.rmtree(folder / name)
    (folder / "results.json").unlink()
    for path in (folder / "components").iterdir():
        tensors, about = read_tensors(path)
        write_tensors(path, {name: value * 0 for name, value in tensors.items()}, about)
    rows = ClusteringStudy(TINY, folder).run()
    assert [row["censored"] for row in rows] == [2] * 4
    assert [row["informative"] for row in rows] == [0] * 4
    assert {row["mig"] for row in rows} == {0.0}


def test_a_task_that_cannot_be_done_says_why(finished, tmp_path, capsys):
    folder = shutil.copytree(finished, tmp_path / "damaged")
    (folder / "transitions" / "beta_0.0.safetensors").unlink()
    (folder / "exploration.safetensors").write_bytes(b"half a file")
    (folder / "scaling" / "beta_0.0.safetensors").unlink()
    assert main(folder, "beta 0.0") == WRONG
    assert "exploration.safetensors" in capsys.readouterr().out.splitlines()[-1]


def test_a_study_file_and_back(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(say("plan", "clustering", "--scale", "paper", "--toml"))
    assert "40 models" in say("plan", file, "--no-estimate")
    assert "a MONet each, beta 0, 0.01, 0.1, 1 x 10 seeds" in say("plan", file, "--no-estimate")
    assert "8 models" in say("plan", file, "--no-estimate", "--seeds", 2)
    assert "clustering" in say("presets")
    assert plan_of({"cap": 7}).cap == 7


def test_an_estimate_names_the_phases():
    assert min(estimate(TINY).values()) >= 0
    assert list(estimate(TINY)) == ["component VAEs", "agents, at most"]


def test_bad_input_is_one_line(finished, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('study = "clustering"\nsprites = 0\n')
    assert "4 sprites" in wrong("plan", file)
    file.write_text('study = "clustering"\nsprite = 4\n')
    assert "has no sprite" in wrong("plan", file)
    assert "--scale goes with a preset" in wrong("plan", finished, "--scale", "smoke")
    assert "no scale 'huge'" in wrong("run", "clustering", "--scale", "huge", "--out", tmp_path / "a")
    assert "no --shard" in wrong("run", "clustering", "--shard", "1/2", "--out", tmp_path / "a")
    assert "another plan" in wrong("run", "clustering", "--scale", "smoke", "--out", finished)
    assert "not empty and not a clustering study" in wrong("run", "clustering", "--out", tmp_path)
    assert "tries again" in wrong("retry", finished)
    assert "no paper 'x'" in wrong("analyse", finished, "--paper", "x")
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "plan.json").write_text(json.dumps([1]))
    assert "is no plan of a clustering study" in wrong("status", odd)
    begun = tmp_path / "begun"
    adopt(begun, TINY)
    assert "no finished agents" in wrong("analyse", begun)
    assert "the agents of 0 of 4 models are done" in report(begun).read_text()
    with pytest.raises(ValueError, match="workers must be 1 or more"):
        run(TINY, begun, workers=0)
