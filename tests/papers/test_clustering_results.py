"""docs/results/clustering.md says what docs/results/clustering.json holds, and nothing else."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("clustering_page", ROOT / "benchmarks" / "clustering.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results():
    return json.loads((RESULTS / "clustering.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def text(benchmark):
    return benchmark.page(json.loads((RESULTS / "clustering.json").read_text(encoding="utf-8")))


def test_the_page_is_that_of_the_stored_results(text):
    assert (RESULTS / "clustering.md").read_text(encoding="utf-8") == text


def test_a_changed_number_changes_the_page(benchmark, results, text):
    results["references"]["random"]["rate"] += 0.1
    assert benchmark.page(results) != text


def test_the_page_says_which_masks_and_whether_the_gate_is_passed(results, text):
    assert ("Oracle masks" in text) == (results["plan"]["masks"] == "oracle")
    assert text.count("do not pass the gate") == sum(gate["ari"] <= 0.9 for gate in results["gates"])


def test_rows_add_up(results):
    cap = results["plan"]["cap"]
    for row in results["rows"]:
        assert len(row["agents"]) == results["plan"]["initialisations"]
        assert row["steps"] == pytest.approx(sum(row["agents"]) / len(row["agents"]))
        assert row["censored"] <= sum(steps == cap for steps in row["agents"])


def test_pictures_are_small(results):
    names = ["clustering.png", "clustering.json", *(["clustering_episode.gif"] if results["episodes"] else [])]
    assert all(0 < (RESULTS / name).stat().st_size < 1_000_000 for name in names)
    if results["episodes"]:
        with Image.open(RESULTS / "clustering_episode.gif") as film:
            assert film.n_frames > 1
