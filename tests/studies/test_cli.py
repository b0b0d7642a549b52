"""`karenina study` as a user meets it."""

import os
import shutil
import socket
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from karenina.cli.study import study_app
from karenina.studies.plan import read
from karenina.studies.study import Study, claim, exclusive


def say(*words):
    return CliRunner().invoke(study_app, [str(word) for word in words], catch_exceptions=False).output


def test_presets_and_their_counts():
    said = say("presets")
    for count in ("12,600", "5,400", "625", "72"):
        assert count in said


def test_a_plan_says_what_it_would_do():
    said = say("plan", "locatello2019", "--scale", "paper", "--no-estimate")
    assert "12,600 models" in said
    assert "annealed_vae: c_max 5, 10, 25, 50, 75, 100, iteration_threshold 100000, gamma 1000" in said
    assert "50 seeds" in said
    assert "1,008 models" in say("plan", "locatello2019", "--scale", "paper", "--seeds", 4, "--no-estimate")


def test_a_plan_measures_time_and_disk(tmp_path, smoke):
    file = tmp_path / "mine.toml"
    file.write_text(smoke.to_toml())
    said = say("plan", file, "--workers", 2)
    assert "with 2 workers" in said
    assert "disk: about 3." in said  # 8 models of 400 kB
    assert sorted(tmp_path.iterdir()) == [file]


def test_a_plan_measures_scoring_as_the_study_would_score(smoke, monkeypatch):
    """All settings of [evaluation], among them the tasks, which cost most."""
    from karenina.studies import runner

    asked = {}
    monkeypatch.setattr(
        runner,
        "evaluate",
        lambda run, data, **given: asked.update(given) or SimpleNamespace(intervention_seconds=0.0),
    )
    scoring = replace(smoke.evaluation, tasks=True, repeats=3, rows=77)
    runner.estimate(replace(smoke, evaluation=scoring, methods=smoke.methods[:1]))
    assert asked == asdict(scoring)


def test_a_plan_can_be_written_as_a_file(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(say("plan", "carbonneau2022", "--scale", "paper", "--toml"))
    assert len(read(file).points) == 72


def test_status_names_failures_and_retry_forgets_them(tmp_path, smoke):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    folder.fail(smoke.points[0].hash, "ValueError: no such file")
    said = say("status", folder.path)
    assert "0 done, 0 running, 1 failed, 7 to do" in said
    assert "failed: blobs, beta_vae beta=1, 3 latents, seed 0: ValueError: no such file" in said
    assert "1 models will be run again" in say("retry", folder.path)
    assert "0 failed" in say("status", folder.path)


def test_status_and_analyse_of_a_finished_study(finished):
    assert "8 done, 0 running, 0 failed, 0 to do" in say("status", finished, "--check")
    said = say("analyse", finished)
    assert "transfer: left out, needs two data sets" in said
    assert "dynamics: left out" in said
    for name in ("agreement", "variance_explained", "udr", "beats_random"):
        assert (finished / "analysis" / f"{name}.csv").exists()
        assert (finished / "analysis" / f"{name}.png").exists()


def test_status_shows_the_processes(tmp_path, smoke):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    first, second = smoke.points[:2]
    who = f"process {os.getpid()} on {socket.gethostname()}"
    with claim(folder.path, first.hash) as a, claim(folder.path, second.hash) as b, exclusive(folder.path, "together"):
        a.progress(3, 40)
        b.progress(40, 40)
        said = say("status", folder.path)
    assert f"running: {first.label}: step 3 of 40, {who}\n" in said
    assert f"running: {second.label}: scoring, {who}\n" in said
    assert f"running: comparison of the models with one another, {who}\n" in said


@pytest.mark.parametrize(("shard", "code"), [(None, 1), ("1/8", 1), ("2/8", 0)])
def test_run_exits_1_when_models_of_its_part_failed(tmp_path, smoke, finished, shard, code):
    folder = Study(tmp_path / "study")
    folder.adopt(smoke)
    for point in smoke.points[1:]:
        shutil.copytree(finished / "runs" / point.hash, folder.run_path(point.hash))
        shutil.copy(finished / "scores" / f"{point.hash}.{smoke.evaluation.hash}.json", folder.path / "scores")
    folder.fail(smoke.points[0].hash, "ValueError: no such file")
    words = ["run", str(folder.path), *(["--shard", shard] if shard else [])]
    found = CliRunner().invoke(study_app, words)
    assert found.exit_code == code
    assert "7 models done" in found.output
    assert "failed: blobs, beta_vae beta=1, 3 latents, seed 0: ValueError: no such file" in found.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing"], "no preset and no file 'nothing'"),
        (["run", "duan2020", "--scale", "smoke", "--shard", "three"], "a shard is i/n"),
        (["status", "."], "is not a study"),
        (["plan", "duan2020", "--data-dir", "/no/such"], "does not exist"),
        (["analyse", "nowhere"], "is not a study"),
    ],
)
def test_mistakes_are_value_errors(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        say(*words)


@pytest.mark.parametrize(
    "text", [f"network = {'[' * 50_000}", f"a{'.a' * 20_000} = 1", "study = 'clustering'\na = [[["]
)
@pytest.mark.parametrize("verb", ["plan", "run"])
def test_study_files_of_any_nesting_give_one_line(tmp_path, command, verb, text):
    (tmp_path / "study.toml").write_text(text)
    said = command("study", verb, "study.toml", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("karenina: study.toml is not")
    assert said.stderr.count("\n") == 1
