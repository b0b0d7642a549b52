"""The commands report, show and compare, as the command line calls them."""

import pytest
import typer
from typer.testing import CliRunner

from karenina.cli import report as _cli_report


@pytest.fixture
def call():
    app = typer.Typer()
    for command in (_cli_report.report, _cli_report.show, _cli_report.compare, _cli_report.demo):
        app.command()(command)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_report_writes_into_the_study_unless_told_otherwise(call, study, tmp_path):
    assert "wrote" in call("report", study, "--no-figures").output
    assert (study / "report" / "index.html").exists()
    call("report", study, "--no-figures", "--out", tmp_path / "page")
    assert (tmp_path / "page" / "index.html").exists()


def test_compare_takes_two_runs(call, study, tmp_path):
    runs = sorted((study / "runs").iterdir())[:2]
    found = call("compare", *runs, "--out", tmp_path)
    assert found.exit_code == 0
    assert (tmp_path / "figures" / "similarity.pdf").exists()


def test_a_wrong_directory_is_the_users_error(call, tmp_path):
    found = call("report", tmp_path / "nothing")
    assert isinstance(found.exception, ValueError)
    assert "is not a directory" in str(found.exception)


def test_data_of_ones_own_must_be_said_and_must_be_the_right_one(study, tmp_path, unlabelled):
    import karenina
    from karenina.pages.page import report

    karenina.train(str(unlabelled), "vae", steps=5, latents=3, out=tmp_path / "a")
    with pytest.raises(ValueError, match="--data PATH"):
        report(tmp_path / "a")
    assert report(tmp_path / "a", data=unlabelled).exists()
    run = sorted((study / "runs").iterdir())[0]
    with pytest.raises(ValueError, match="trained on blobs"):
        report(run, data=unlabelled)
