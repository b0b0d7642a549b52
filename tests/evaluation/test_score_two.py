"""`karenina score A B`: is the first better?"""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from karenina.cli.score import score

app = typer.Typer()
app.command()(score)


def say(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False).output


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(400, 3))
    for name, noise in (("good", 0.05), ("bad", 1.5)):
        np.savez(tmp_path / f"{name}.npz", codes=factors + noise * rng.normal(size=factors.shape), factors=factors)
    return tmp_path


def test_two_files_of_the_same_rows(files):
    found = json.loads(say(files / "good.npz", files / "bad.npz", "--metrics", "mig", "--json"))
    assert len(found) == 1
    assert found[0]["difference"] == pytest.approx(found[0]["a"] - found[0]["b"])
    assert found[0]["low"] > 0
    assert found[0]["p"] < 0.01
    said = say(files / "good.npz", files / "bad.npz", "--metrics", "mig", "--csv", files / "out.csv")
    assert "difference" in said
    assert (files / "out.csv").read_text().startswith("metric,property,a,b,difference,low,high,p,resamples\n")


def test_files_of_other_rows_cannot_be_compared(files):
    np.savez(files / "other.npz", codes=np.zeros((400, 2)), factors=np.arange(1200).reshape(400, 3))
    with pytest.raises(ValueError, match="have different factors: a comparison needs codes of the same rows"):
        say(files / "good.npz", files / "other.npz", "--metrics", "mig")
