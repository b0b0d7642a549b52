"""The page of an audit and the command that makes it."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from karenina.audit import characteristics, markdown, rules, run, table_1, write

HERE = Path(__file__).parent


def karenina(*words, cwd):
    command = [sys.executable, "-c", "from karenina.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def small():
    experiments = ["noise", "mixing", "redundancy", "samples", "scale", "dead"]
    return run(["mig", "irs", "dci_lasso"], protocols=["ours", "quantile"], seeds=2, rows=300, experiments=experiments)


def test_the_page_holds_tables_rules_and_pictures(small, tmp_path, monkeypatch, print_dpi):
    monkeypatch.setattr("karenina.drawing.figure.DPI", print_dpi)
    made = write(small, tmp_path)
    assert {path.name for path in made} == {
        "audit.md",
        "scores.csv",
        "curves-ours.png",
        "failures-ours.png",
        "curves-quantile.png",
        "failures-quantile.png",
    }
    text = (tmp_path / "audit.md").read_text()
    for title, rule in rules().items():
        assert f"- **{title}**: {rule}" in text
    assert "| ours | mig | compactness |" in text
    assert "![curves-ours](curves-ours.png)" in text
    table = pd.read_csv(tmp_path / "scores.csv")
    assert len(table) == len(small.frame)
    for path in made[2:]:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L"))
        assert pixels.shape[0] > 400
        assert (pixels < 200).mean() > 0.01


def test_reasons_cannot_break_the_table():
    def odd(codes, factors):
        raise ValueError("a | b\nc")

    text = markdown(run([], protocols=[], mine={"odd": odd}, seeds=1, rows=200, experiments=["noise"]))
    assert "a \\| b c" in text


def test_the_command(tmp_path):
    (tmp_path / "own.py").write_text((HERE / "metrics_of_mine.py").read_text())
    (tmp_path / "other.py").write_text("def raises(codes, factors):\n    raise ValueError('bad block [/k]')\n")
    options = [
        "--mine",
        "own:best_correlation",
        "--mine",
        "own:raises",
        "--mine",
        "other:raises",
        "--seeds",
        1,
        "--rows",
        300,
    ]
    result = karenina("audit", "mig", *options, "--experiment", "noise", "--out", "page", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "mine: characteristics" in result.stdout
    assert "no score: own:raises in noise at 0.0: raised RuntimeError: not on a Monday" in result.stdout
    assert "no score: other:raises in noise at 0.0: raised ValueError: bad block [/k]" in result.stdout
    assert (tmp_path / "page" / "audit.md").exists()
    assert (tmp_path / "page" / "curves-mine.png").exists()
    again = karenina("audit", "mig", *options, "--experiment", "noise", "--out", "page", cwd=tmp_path)
    assert again.stdout == result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mug"], "karenina: no metric 'mug'; did you mean mig? Known: z_diff"),
        (["mig", "--mine", "nowhere:f"], "karenina: cannot import 'nowhere'"),
        (["mig", "--protocol", "theirs"], "karenina: no protocol 'theirs'"),
        (["mig", "--experiment", "moon"], "karenina: no experiment 'moon'"),
        (["mig", "--seeds", "0"], "karenina: seeds must be an integer of at least 1"),
    ],
)
def test_the_users_mistakes_are_one_line(words, message, tmp_path, command):
    result = command("audit", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.strip().count("\n") == 0
    assert not (tmp_path / "audit").exists()


def test_the_results_of_the_documentation_are_written_from_an_audit(tmp_path, monkeypatch):
    audit = run(["mig", "dci_lasso"], protocols=["ours", "carbonneau"], seeds=2, rows=500, out=tmp_path / "out")
    (tmp_path / "pictures").mkdir()
    kept = tmp_path / "kept"

    def draw_once(audit, folder):
        files = sorted(kept.iterdir()) if kept.exists() else write(audit, kept)
        return [Path(shutil.copy(file, folder)) for file in sorted(files)]

    monkeypatch.setattr("karenina.audit.write", draw_once)
    page = tmp_path / "audit.md"
    page.write_text("before\n<!-- audit_page.py -->\nold\n<!-- end of audit_page.py -->\nafter\n")
    script = HERE.parents[1] / "benchmarks" / "audit_page.py"
    monkeypatch.syspath_prepend(script.parent)

    def main(*words):
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, words)])
        runpy.run_path(str(script), run_name="__main__")

    main(tmp_path / "out", "--page", page)
    text = page.read_text()
    assert text.startswith("before\n<!-- audit_page.py -->\n2 seeds, 500 rows")
    assert text.endswith("\n<!-- end of audit_page.py -->\nafter\n")
    assert "old" not in text.split()
    for title, rule in rules().items():
        assert f"- **{title}**: {rule}" in text
    cell = characteristics(audit)["carbonneau", "dci_lasso", "modularity"]["calibrated"]
    assert "| dci_lasso disentanglement | modularity |" in text
    assert f"| {cell} |" in text
    cases = table_1(audit)
    for protocol, printed in (("ours", ""), ("carbonneau", " (0.8)")):
        number = cases.loc[(protocol, "dci_lasso", "modularity"), "cos, sin"]
        assert f"| {protocol} | dci_lasso disentanglement | modularity | {number:.2f}{printed} |" in text
    assert "![Ours, failures](pictures/audit-failures.png)" in text
    assert (tmp_path / "pictures" / "audit-failures.png").exists()
    main(tmp_path / "out", "--page", page)
    assert page.read_text() == text
    with pytest.raises(SystemExit) as stopped:
        main(tmp_path)
    assert stopped.value.code == f"audit_page.py: {tmp_path} holds no audit"


def test_the_page_of_the_documentation_has_the_rules_of_the_program():
    text = (HERE.parents[1] / "docs" / "audit.md").read_text()
    assert "<!-- audit_page.py -->" in text
    header = next(line for line in text.splitlines() if line.startswith("| metric | property |"))
    assert header.strip("| ").split(" | ")[2:] == list(rules())
