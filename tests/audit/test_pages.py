"""The page of an audit and the command that makes it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from karenina.audit import markdown, rules, run, write

HERE = Path(__file__).parent


def karenina(*words, cwd):
    command = [sys.executable, "-c", "from karenina.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def small():
    return run(["mig", "irs", "dci_lasso"], protocols=["ours", "quantile"], seeds=2, rows=300)


def test_the_page_holds_tables_rules_and_pictures(small, tmp_path):
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
        (["mug"], "karenina: no metric 'mug'; there are z_diff"),
        (["mig", "--mine", "nowhere:f"], "karenina: cannot import 'nowhere'"),
        (["mig", "--protocol", "theirs"], "karenina: no protocol 'theirs'"),
        (["mig", "--experiment", "moon"], "karenina: no experiment 'moon'"),
        (["mig", "--seeds", "0"], "karenina: seeds must be at least 1"),
    ],
)
def test_the_users_mistakes_are_one_line(words, message, tmp_path, command):
    result = command("audit", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.strip().count("\n") == 0
    assert not (tmp_path / "audit").exists()
