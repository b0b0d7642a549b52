"""The pages of docs/results say what their stored scores say."""

import json
import runpy
from pathlib import Path

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


def planted(part, values, strength="beta 4", data="blobs", **more):
    about = {"part": part, "data": data, "strength": strength, "steps": 10}
    scores = [{"mig compactness": v, "dci_boosted modularity": 2 * v} for v in values]
    return [{**about, "seed": seed, "scores": one, **more} for seed, one in enumerate(scores)]


def test_planted_scores_are_on_the_page(made):
    rows = planted("beta_vae", [0.1, 0.2], "beta 1", mig_on_labels=[0.0, 0.9])
    rows += planted("beta_vae", [0.2, 0.3], mig_on_labels=[0.8, 0.1])
    rows += planted("ada_gvae", [0.7, 0.8]) + planted("supervised", [0.5, 0.6], mig_on_labels=[0, 0])
    text = made["page"](rows)
    assert "| blobs | MIG | Ada-GVAE | beta 4 | 0.750 | β-VAE | beta 4 | 0.250 | +0.500 |" in text
    # Labels of seed 0 choose a model of strength 4, those of seed 1 one of strength 1: the first seed of each.
    # Without one seed they choose means of .25 and .15: the interval is 12.7 sqrt(.0025 + .0025) on either side.
    assert "| blobs | MIG | 0.550 | 0.150 (2 models) | +0.400 | -0.498 to +1.298 | not decided |" in text
    assert text.count("Not trained yet") == 2
    assert "| yes |" in text


def test_explanations_stand_under_what_they_explain(made):
    rows = planted("correlated_beta_vae", [0.3, 0.4]) + planted("correlated_hfs", [0.1, 0.2], "gamma 100")
    rows += planted("why_gamma", [0.5, 0.6], "gamma 10") + planted("why_beta", [0.1, 0.3], "gamma 100")
    part = made["page"](rows).split("## HFS")[1]
    assert part.count("Explanation tried") == 2
    assert "| blobs | MIG | β-VAE + HFS | gamma 10 | 0.550 | β-VAE | beta 4 | 0.350 | +0.200 |" in part


def test_the_interval_is_welchs(made):
    from scipy.stats import ttest_ind

    a, b = [0.1, 0.4, 0.3, 0.35], [0.2, 0.1, 0.15]
    known = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert made["interval"](a, b) == pytest.approx((known.low, known.high))


def test_one_side_may_be_one_number(made):
    """Then it is the interval of the other side's mean."""
    from scipy.stats import ttest_1samp

    a = [0.1, 0.4, 0.3, 0.35]
    known = ttest_1samp(a, 0.2).confidence_interval(0.95)
    assert made["interval"](a, [0.2] * 5) == pytest.approx((known.low - 0.2, known.high - 0.2))
