"""Every example runs offline; every study file is a plan."""

import runpy
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_runs_and_is_short(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert len(path.read_text().splitlines()) <= 40


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_study_file_is_a_plan(path):
    from karenina.studies import find_plan

    assert len(find_plan(str(path)).points) > 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_runs_from_top_to_bottom(path, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # kept without, so that changes can be read
    resources = {"metadata": {"path": str(tmp_path)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel's own ways
        done = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    assert (tmp_path / "mine" / "index.html").exists()
    assert "background" in str(done.cells[-1].outputs)
