"""What verdicts hang on: the page is what its numbers give, and each variation does what it is called."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import karenina

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import why  # noqa: E402
import why_page  # noqa: E402


def test_the_page_is_what_the_numbers_give(tmp_path):
    why_page.page(tmp_path / "why.md")
    assert (tmp_path / "why.md").read_text() == why_page.PAGE.read_text()


def test_scores_fall_with_noise_and_halves_have_other_rows():
    factors = np.random.default_rng(0).integers(5, size=(4000, 3))
    whole = why._noisy(factors, factors, "mig", seed=0)
    assert whole[0] == float(karenina.score(factors, factors, ["mig"])["mig"]) > whole[1] > whole[2] > whole[3]
    halves = why._noisy(factors, factors, "mig", seed=0, halves=True)
    assert halves[0] == float(karenina.score(factors[:2000], factors[:2000], ["mig"])["mig"])
    assert halves[3] == pytest.approx(whole[3], abs=0.05)


def test_correlations_are_with_the_true_labels():
    a, b = np.random.default_rng(1).normal(size=(2, 50))
    assert why._pearson(np.column_stack([a, a, b])) == pytest.approx([1, np.corrcoef(a, b)[0, 1]], abs=1e-4)


def test_three_strengths_of_six_are_of_each_method():
    rows = [("d", method, s * scale) for method, scale in (("a", 1), ("b", 10)) for s in range(6) for _ in range(2)]
    frame = pd.DataFrame(rows, columns=["data", "method", "strength"])
    kept = frame[why._few_strengths(frame)]
    assert kept.groupby("method")["strength"].unique().map(list).to_dict() == {"a": [0, 2, 5], "b": [0, 20, 50]}


def test_a_line_tells_settings_from_seeds():
    """A score that is the setting's alone, and one that is the seed's alone."""
    setting, seed = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    groups = [str(one) for one in setting]
    metrics = np.column_stack([10 * setting + seed] * 2)
    of_setting = why._line("d", "m", "v", setting + 0.0, metrics, groups)
    assert (of_setting["settings"], of_setting["within"]) == (1, None)
    of_seed = why._line("d", "m", "v", seed + 0.0, metrics, groups)
    assert of_seed["within"] == 1


def test_traces_of_other_layers_are_those_of_the_model(tmp_path):
    options = {"latents": 3, "steps": 30, "trace": True}
    with why.traced():
        codes, _ = karenina.train_many("blobs", "beta_vae", {"beta": [1]}, 2, out=tmp_path, **options)
    usual, _ = karenina.train_many("blobs", "beta_vae", {"beta": [1]}, 2, **options)
    layers = why.split_layers([codes.trace], 3, (1, 16, 16))
    assert [layers[name][0].shape[-1] for name in layers] == [3, 128, 256]
    decoded = codes.decode(layers["mean codes"][0][-1].astype(np.float32)).reshape(-1, 256)
    logits = layers["decoded images"][0][-1].astype(np.float32)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), decoded, atol=5e-3)
    x = karenina.load("blobs").sample(8, np.random.default_rng(0))[0]
    assert np.array_equal(codes.encode(x)[0], usual.encode(x)[0])  # training itself is the same


def test_unfairness_is_told_apart_by_the_number_of_latents():
    """Planted: with 8 latents better scores go with less unfairness, with 2 latents with more."""
    fair = np.random.default_rng(0).normal(size=80)
    latents = np.repeat([2, 8], 40)
    score = np.where(latents == 8, -fair, 100 + fair)
    runs = pd.DataFrame({"setting": np.arange(80) // 2, "latents": latents})
    names = ("fairness_mean", "dynamics", *why.THREE)
    says, table = why_page.unfairness(
        why_page.Scores(runs, np.column_stack([fair, *[score] * 4]), names, ("task",) * 5)
    )
    rows = {tuple(cell.strip() for cell in line.split("|")[1:3]): line for line in table.splitlines()[2:]}
    for over in ("models", "means of settings"):
        assert rows["8 latents or more", over].replace(" [-1.00, -1.00]", "").count("-1.00") == 4
        assert "-1.00" not in rows["all", over]
    assert "it has -1.00, and MIG -1.00 in place of" in says
    assert says.endswith("neither interval holds what the paper prints.")  # it prints -.72 and -.66


def test_models_of_a_setting_count_once():
    """Ten copies of each model leave the interval as it is; copies that count as models would make it narrow."""
    score, known = np.random.default_rng(0).normal(size=(2, 12))
    once = why_page.correlation_of_models(score, known, np.arange(12))
    copies = [np.repeat(values, 10) for values in (score, known, np.arange(12))]
    assert why_page.correlation_of_models(*copies) == pytest.approx(once)
    _, low, high = why_page.correlation(*copies[:2])
    assert high - low < 0.5 * (once[2] - once[1])


def test_more_seeds_show_which_setting_is_good():
    """Planted: one of 20 settings is better by 1; on one data set the seed adds up to 3, and hides it."""
    rows = [(data, f"{data}{s}", seed, s) for data in ("clear", "noisy") for s in range(20) for seed in range(10)]
    runs = pd.DataFrame(rows, columns=["data", "setting", "seed", "s"])
    noise = np.random.default_rng(0).uniform(0, 3, size=(len(runs), 6)) * (runs[["data"]] == "noisy").to_numpy()
    values = (runs[["s"]] == 7).to_numpy() + noise
    says, table = why_page.transfer(why_page.Scores(runs, values, tuple(why_page.SIX), ("modularity",) * 6))
    found = {line.split("|")[1].strip(): [float(x) for x in line.split("|")[2:-1]] for line in table.splitlines()[2:]}
    assert found["clear"] == [1, 1, 1, 1]
    assert 0.5 < found["noisy"][0] < found["noisy"][3] - 0.1
    assert found["noisy"][3] == pytest.approx(1 - (2 / 3) ** 2 / 2, abs=0.07)  # P(1 + 3u > 3v)
    assert says.startswith("One seed is enough on clear (1.00) and not on noisy")
