"""Images without labels, as docs/own_data.md has it: every command, with figures."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import karenina
from karenina.cli import app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "own_data.md"


def call(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, (words, found.output, found.exception)
    return found.output


@pytest.fixture(scope="module")
def lab(tmp_path_factory, no_workers):
    """The study of the page, with few steps and seeds, made by the commands of the page."""
    folder = tmp_path_factory.mktemp("own")
    images, _ = karenina.load("blobs").sample(300, np.random.default_rng(0))
    np.savez(folder / "own.npz", images=images)
    text = PAGE.read_text()
    (plan,) = re.findall(r"^```toml\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    commands = re.search(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)[1].splitlines()
    plan, changed = re.subn(r"^seeds = 5$", "seeds = 2", plan, flags=re.MULTILINE)
    assert changed == 1
    (folder / "mine.toml").write_text(f"steps = 250\nlatents = 4\n{plan}")
    with pytest.MonkeyPatch.context() as patch, no_workers():
        patch.chdir(folder)
        said = {line: call(*shlex.split(line)[1:]) for line in commands}
    assert [line.split()[1:3] for line in said] == [["study", "run"], ["study", "analyse"], ["report", "lab"]]
    return folder, said


def test_the_recipe_of_the_page(lab):
    folder, said = lab
    assert "10 models done" in said["karenina study run mine.toml --out lab"]
    analysed = said["karenina study analyse lab"]
    for name in ("agreement", "variance_explained", "unsupervised", "beats_random", "udr", "udr_partners"):
        assert f"{name}: left out, needs labels\n" in analysed
    for name in ("by_method", "by_strength", "total_correlation", "polarised"):
        assert (folder / "lab" / "analysis" / f"{name}.csv").exists()
        assert (folder / "lab" / "analysis" / f"{name}.png").stat().st_size > 1000


def test_its_page_has_figures_and_says_that_there_are_no_labels(lab):
    page = (lab[0] / "lab" / "report" / "index.html").read_text()
    assert "These models have no labels" in page
    assert "None of these 10 models is worth picking" in page
    assert "they agree no more than chance" in page
    figures = set(re.findall(r'<figure id="(\w+)"', page))
    pictures = {"traversals_best", "traversals_worst", "similarity_best", "similarity_worst"}
    assert figures == {"by_method", "by_strength", "total_correlation", "polarised"} | pictures
    caption = re.search(r'<figure id="by_method">.*?</figcaption>', page, re.DOTALL)[0]
    assert "udr_lasso of beta_vae has the median" in caption  # the score whose panel is the first


@pytest.mark.filterwarnings("ignore:.* a KL near kl_threshold", "ignore:.*did not converge")  # after few steps
def test_every_other_command(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(lab[0])
    runs = sorted(Path("lab/runs").iterdir())
    own = ("--data", "own.npz")
    assert "0 damaged" in call("study", "status", "lab", "--check")
    assert "10 models" in call("study", "plan", "lab", "--no-estimate")
    assert "0 models will be run again" in call("study", "retry", "lab", "--check")
    assert "elbo" in call("score", runs[0], *own, "--csv", tmp_path / "scores.csv")
    for way in ("udr", "udr-spearman-a2a", "orthogonality", "elbo"):
        assert "active" in call("rank", *runs, *own, "--by", way, "--rows", 300)
    call("rank", *runs, *own, "--by", "udr-a2a", "--rows", 300, "--plot", tmp_path / "pairs.png")
    call("show", runs[0], *own, "--out", tmp_path / "shown")
    call("compare", *runs[:2], *own, "--out", tmp_path / "compared")
    call("report", *runs[:3], *own, "--out", tmp_path / "report")
    call("data", "show", "own.npz", "--out", tmp_path / "sheet.png")
    made = {"pairs.png", "shown", "compared", "report", "sheet.png", "scores.csv"}
    assert {path.name for path in tmp_path.iterdir()} == made


def test_there_is_nothing_to_plot_without_metrics_but_the_table_is_printed(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(lab[0])
    run = sorted(Path("lab/runs").iterdir())[0]
    plot = tmp_path / "bars.png"
    found = CliRunner().invoke(app, ["score", str(run), "--data", "own.npz", "--plot", str(plot)])
    assert "elbo" in found.output
    assert isinstance(found.exception, ValueError)
    assert "metric needs labels" in str(found.exception)
    assert not plot.exists()


def test_one_of_two_data_sets_has_labels(lab, tmp_path, in_this_process):
    """Its analyses are about that one; the answer for the other says that it has none."""
    from karenina.pages.choice import choices
    from karenina.pages.contents import read
    from karenina.pages.page import report

    own = lab[0] / "own.npz"
    plan = f"data = ['blobs', '{own}']\nseeds = 2\nsteps = 20\nlatents = 3\n[methods.beta_vae]\nbeta = [1, 8]\n"
    (tmp_path / "both.toml").write_text(plan + "[evaluation]\nmetrics = ['mig', 'sap']\nrows = 200\n")
    call("study", "run", tmp_path / "both.toml", "--out", tmp_path / "lab")
    said = call("study", "analyse", tmp_path / "lab")
    assert "variance_explained: 4 rows" in said
    labelled, unlabelled = choices(read([tmp_path / "lab"]))
    assert "Rank correlation of UDR" in labelled.labels
    assert "There are no labels" in unlabelled.labels
    assert unlabelled.checks == ()
    assert report(tmp_path / "lab").exists()
