"""Every example and notebook runs offline; every study file is a plan."""

import ast
import json
import os
import re
import runpy
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


def shorter(source):
    """The code with trainings of at most 200 steps: that it runs is tested, not what a whole training learns."""
    return re.sub(r"\bsteps( ?= ?)(\d+)", lambda found: f"steps{found[1]}{min(int(found[2]), 200)}", source)


NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells_of(path):
    cells = json.loads(path.read_text())["cells"]
    assert any(cell.get("outputs") for cell in cells), "stored without its outputs"
    return [shorter("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.filterwarnings("ignore")  # a notebook shows them and goes on
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_of_a_notebook_run(path, tmp_path, monkeypatch):
    """In this process: a kernel imports everything anew. What a cell ends with is shown as a notebook shows it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("karenina.pages.choice.RESAMPLES", 20)
    names = {"__name__": "notebook"}
    for cell in cells_of(path):
        code = ast.parse(cell)
        last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
        exec(compile(code, path.name, "exec"), names)
        if last is not None:
            found = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            assert found is None or getattr(found, "_repr_html_", found.__repr__)()


@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
def test_a_notebook_runs_in_a_kernel(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra dev")
    client = pytest.importorskip("nbclient", reason="notebooks need the extra dev")
    paths = [str(EXAMPLES.parent / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(EXAMPLES / "choose_without_labels.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = shorter(cell.source)
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [str(output) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("<progress" in output and "6 of 6 done" in output for output in outputs)
