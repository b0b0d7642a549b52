"""Names are printed as they are, though rich would take some of them for markup or emoji."""

import ast
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import karenina
from karenina._console import plain_console, say, visible
from karenina.cli import app

PACKAGE = Path(karenina.__file__).parent
NAMES = ["[beta=4] 0", "[/b] :smile:"]  # the first would vanish, the second is a tag that closes nothing
FORGED = "a\nkarenina: all is well\x1b[2J\x9b2J\r\u202e\udcff"


def test_the_console_prints_words():
    from rich.table import Table

    table = Table(title=NAMES[1])
    table.add_column(NAMES[0])
    table.add_row(NAMES[1])
    screen = plain_console(file=io.StringIO(), width=200)
    screen.print(table)
    assert screen.file.getvalue().count(NAMES[1]) == 2
    assert NAMES[0] in screen.file.getvalue()


def test_no_module_prints_on_another_console():
    """Every rich console is the plain one, and progress shows words. Tables alone print nothing."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and path.name != "_console.py":
                names = {alias.name for alias in node.names}
                assert not (node.module == "rich.console" and "Console" in names), path
                assert not (node.module == "rich" and names & {"print", "get_console"}), path
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TextColumn":
                constant = isinstance(node.args[0], ast.Constant) and "{" not in node.args[0].value
                assert constant or "markup" in {keyword.arg for keyword in node.keywords}, path
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Live":
                assert "console" in {keyword.arg for keyword in node.keywords}, path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    images, factors = karenina.load("blobs").sample(200, np.random.default_rng(0))
    np.savez(folder / "own.npz", images=images, factors=factors[:, :2], factor_names=NAMES)
    found = []
    for seed, name in enumerate(NAMES):
        karenina.train(str(folder / "own.npz"), "vae", seed=seed, steps=20, latents=3, out=folder / "run")
        (folder / name).parent.mkdir(exist_ok=True)
        found.append(shutil.move(folder / "run", folder / name))
    return folder, found


def test_rank_names_every_run(runs, monkeypatch):
    monkeypatch.chdir(runs[0])
    said = CliRunner().invoke(app, ["rank", *NAMES, "--data", "own.npz", "--by", "elbo", "--rows", "100"])
    assert said.exit_code == 0, said.exception
    for name in NAMES:
        assert any(name in line for line in said.output.splitlines())


def test_long_names_are_printed_whole(runs, monkeypatch):
    folder, found = runs
    name = "runs/" + "a" * 200
    (folder / "runs").mkdir()
    shutil.copytree(found[0], folder / name)
    monkeypatch.chdir(folder)
    said = CliRunner().invoke(app, ["rank", name, NAMES[1], "--data", "own.npz", "--by", "elbo", "--rows", "100"])
    assert "…" not in said.output
    assert said.output.count("a") >= 200


def test_a_table_of_scores_is_words_on_any_console():
    from rich.console import Console

    from karenina.metrics.scoring import Row, Table

    table = Table((Row(NAMES[0], "[x]", "[y]", 0.5, np.nan, 0.1, f"{NAMES[1]} is constant"),), {}, ())
    screen = Console(file=io.StringIO(), width=200)
    screen.print(table)
    for text in (str(table), screen.file.getvalue()):
        assert all(name in text for name in (*NAMES, "[x]", "[y]"))


def test_the_panel_of_a_study_names_its_models(tmp_path, monkeypatch):
    from karenina.studies import runner
    from karenina.studies.plan import parse
    from karenina.studies.study import Study, claim

    data = tmp_path / "[beta=4]" / "[/b].npz"
    data.parent.mkdir(parents=True)
    data.touch()
    plan = parse(f"data = '{data}'\nseeds = 1\n[methods.vae]\n")
    folder = Study(tmp_path / "study")
    folder.adopt(plan)
    screen = plain_console(file=io.StringIO(), width=300)
    monkeypatch.setattr(runner, "plain_console", lambda: screen)
    points = {point.hash: point for point in plan.points}
    with claim(folder.path, plan.points[0].hash) as held:
        held.progress(1, 100)
        with runner.LivePanel(folder, runner.Tally(1), points):
            pass
    assert plan.points[0].label in screen.file.getvalue()


def harmless(text):
    return not any(line.startswith("karenina: all is well") for line in text.splitlines()) and text.isascii()


def test_lines_hold_no_controls_and_no_other_lines():
    for code in [*range(32), *range(127, 160), 0x2028, 0x202E, 0x2066, 0xDCFF]:
        assert visible(f"a{chr(code)}b").isprintable()
    assert visible("naïve 日本 \\ [b]") == "naïve 日本 \\ [b]"
    file = io.StringIO()
    say(FORGED, "two", file=file)
    assert file.getvalue().count("\n") == 2
    assert harmless(file.getvalue())


def test_commands_print_lines_and_json_and_nothing_else():
    """What is printed for people goes through `say` or the plain console; JSON spells controls by itself."""
    places = [*(PACKAGE / "cli").glob("*.py"), PACKAGE / "studies" / "runner.py"]
    for path in places:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                words = ast.get_source_segment(text, node)
                assert "json" in words or "\\033[K" in words, f"{path}: {words}"


@pytest.mark.parametrize(
    "words",
    [
        ("score", FORGED),
        ("score", f"{FORGED}.npz"),
        ("data", "show", FORGED),
        ("train", FORGED, "vae", "--out", "a"),
        ("train", "blobs", "vae", "--out", "a", f"--{FORGED}"),
        ("study", "plan", f"{FORGED}.toml"),
        ("fit", FORGED, "--out", "a"),
        (FORGED,),
    ],
)
def test_a_name_cannot_forge_a_line(words, tmp_path, command):
    said = command(*words, cwd=tmp_path)
    assert said.returncode == 2
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1
    assert harmless(said.stderr)


def test_warnings_tables_and_bars_hold_no_controls(monkeypatch, capsys):
    import warnings

    from rich.table import Table

    from karenina.cli import _common, _say
    from karenina.metrics.scoring import Row
    from karenina.metrics.scoring import Table as Scores

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", _say)
        warnings.warn(FORGED, stacklevel=1)
    screen = plain_console(width=200)
    table = Table(title=FORGED)
    table.add_column(FORGED)
    table.add_row(FORGED)
    screen.print(table, FORGED)
    print(Scores((Row(FORGED, "x", "y", 0.5, np.nan, 0.1, FORGED),), {}, ()))
    bar = _common.bar("rate")
    task = bar.add_task(FORGED, rate=FORGED)
    for column in (bar.columns[0], bar.columns[2]):
        assert harmless(column.render(bar.tasks[task]).plain)
    said = capsys.readouterr()
    assert harmless(said.err)
    assert said.err.count("\n") == 1
    assert said.out.count("karenina: all is well") >= 4
    assert not {"\x1b", "\x9b", "\r", "\u202e", "\udcff"} & set(said.out)
    assert not any(line.lstrip().startswith("karenina:") for line in said.out.splitlines())
