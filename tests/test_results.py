"""The pages of docs/results say what their stored scores say."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "beyond.json"


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(ROOT / "benchmarks" / "beyond_page.py"))


def test_the_page_beyond_is_made_of_its_results(made):
    rows = json.loads(RESULTS.read_text())
    assert made["page"](rows) == RESULTS.with_suffix(".md").read_text()
    assert len({(row["data"], row["part"], row["strength"], row["seed"]) for row in rows}) == len(rows)


def test_another_score_gives_another_page(made):
    rows = json.loads(RESULTS.read_text())
    for row in rows:
        row["scores"]["mig compactness"] += 0.01 * (row["part"] == "ada_gvae") * row["seed"]
    assert made["page"](rows) != RESULTS.with_suffix(".md").read_text()


def test_the_interval_is_welchs(made):
    """By the formula, with the degrees of freedom of Satterthwaite."""
    from scipy.stats import t

    a, b = [0.1, 0.4, 0.3, 0.35], [0.2, 0.1, 0.15]
    va, vb = np.var(a, ddof=1) / 4, np.var(b, ddof=1) / 3
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 2)
    half = t.ppf(0.975, freedom) * np.sqrt(va + vb)
    middle = np.mean(a) - np.mean(b)
    assert made["interval"](a, b) == pytest.approx((middle - half, middle + half))
