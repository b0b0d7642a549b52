"""Published tables: what is stored, where a score stands among them, and claims with a known answer."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import karenina
from karenina.studies import published
from karenina.studies.plan import Scoring

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import claims  # noqa: E402

METRICS = {
    "z_diff": "modularity",
    "z_min_variance": "modularity",
    "mig": "compactness",
    "dci_boosted": "modularity",
    "modularity": "modularity",
    "sap": "compactness",
}


def planted(value, data=("dsprites:side=16",), methods=("beta_vae", "factor_vae"), strengths=(1, 2, 4), seeds=10):
    """A tidy frame in which value(data, method, strength, seed, metric) is the score of each metric."""
    rows = []
    for d in data:
        for m in methods:
            for s in strengths:
                for seed in range(seeds):
                    setting = f"{m}{s}"
                    start = (f"{d}{setting}{seed}", d, m, f"s={s}", "s", float(s), setting, seed, 10, "mlp", 100)
                    for metric, prop in METRICS.items():
                        rows.append((*start, metric, "f", prop, "", value(d, m, s, seed, metric), np.nan))
                    for name in ("total_correlation_sampled", "total_correlation_mean", "elbo"):
                        rows.append((*start, name, "label-free", "", "", value(d, m, s, seed, name), np.nan))
    names = "run data method parameters parameter strength setting seed latents network steps"
    return pd.DataFrame(rows, columns=[*names.split(), "metric", "family", "property", "factor", "value", "std"])


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Sixty models whose MIG is 1/60, 2/60, ..., 1."""
    order = iter(range(1, 1000))
    frame = planted(lambda *key: next(order) / 60 if key[-1] == "mig" else 0.5)
    published.publish(frame, Scoring(metrics=("mig",), rows=3000), tmp_path / "dsprites+side=16.parquet")
    monkeypatch.setattr(published, "TABLES", tmp_path)
    return frame


@pytest.mark.parametrize("damage", ["altered", "cut", "byte", "no checksum", "bad checksums"])
def test_a_table_that_is_not_the_published_one_is_not_read(tables, tmp_path, damage):
    file, checksums = tmp_path / "dsprites+side=16.parquet", tmp_path / "checksums.json"
    raw = file.read_bytes()
    if damage == "altered":  # a table that reads well, with other numbers
        known = checksums.read_text()
        published.publish(tables.assign(value=0.9), Scoring(metrics=("mig",), rows=3000), file)
        checksums.write_text(known)
    elif damage == "cut":
        file.write_bytes(raw[: len(raw) // 2])
    elif damage == "byte":
        file.write_bytes(raw[:500] + bytes([raw[500] ^ 1]) + raw[501:])
    else:
        checksums.write_text("{}" if damage == "no checksum" else "[")
    for read in (published.baselines, published.scoring):
        with pytest.raises(
            ValueError, match=r"side=16.parquet is damaged or was altered: .*reinstall karenina$"
        ) as said:
            read("dsprites")
        assert "\n" not in str(said.value)


def test_the_tables_of_the_package_are_those_of_their_checksums():
    known = json.loads((published.TABLES / "checksums.json").read_text())
    assert sorted(known) == sorted(file.name for file in published.TABLES.glob("*.parquet"))
    assert len(karenina.baselines()) > 1000


def test_what_is_published_is_what_is_read(tables):
    for name in ("dsprites", "dsprites:side=16", None):
        pd.testing.assert_frame_equal(published.baselines(name), tables, check_dtype=False)
    assert published.scoring("dsprites") == Scoring(metrics=("mig",), rows=3000)


def test_standing_is_the_share_below_with_half_of_the_equal(tables):
    codes, factors = [[0.0], [1.0], [1.0], [0.2], [0.0]] * 50, [[0], [1], [0], [1], [0]] * 50
    table = karenina.metrics.score(codes, factors, metrics=["mig"])
    value = table["mig"].value
    assert 0.2 < value < 0.8
    known = tables.query("metric == 'mig'").value
    expected = 100 * (np.sum(known < value) + 0.5 * np.sum(known == value)) / 60
    found = published.standing(table, "dsprites").iloc[0]
    assert found.percentile == pytest.approx(expected)
    assert (found.models, found.best) == (60, 1.0)
    assert found["median"] == pytest.approx(61 / 120)


def test_another_protocol_or_metric_cannot_be_compared(tables):
    codes, factors = np.random.default_rng(0).normal(size=(300, 2)), np.random.default_rng(1).integers(3, size=(300, 2))
    with pytest.raises(ValueError, match="protocol carbonneau cannot be compared .* our own"):
        published.standing(karenina.metrics.score(codes, factors, ["mig"], "carbonneau"), "dsprites")
    with pytest.raises(ValueError, match="none of these scores is published"):
        published.standing(karenina.metrics.score(codes, factors, ["jemmig"]), "dsprites")


def test_a_data_set_without_published_models_is_one_line(tables):
    with pytest.raises(ValueError, match="no published models of 'dsprite'; did you mean dsprites:side=16"):
        published.baselines("dsprite")


def test_jackknife_of_a_mean_is_the_t_interval():
    from scipy import stats

    values = np.random.default_rng(0).normal(size=10)
    frame = pd.DataFrame({"seed": range(10), "value": values})
    found = claims.jackknife(lambda f: f["value"].mean(), frame, "mean")
    low, high = stats.t.interval(0.95, 9, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_verdicts_follow_the_interval():
    def verdict(low, high, side="above"):
        return claims.Claim("", "", (claims.Number("", (low + high) / 2, low, high),), ((side, 0.0),)).verdict

    assert verdict(0.1, 0.2) == verdict(-0.2, -0.1, "below") == "agrees"
    assert verdict(-0.2, -0.1) == verdict(0.1, 0.2, "below") == "disagrees"
    assert verdict(-0.1, 0.1) == verdict(np.nan, 1.0) == "cannot tell"


def test_planted_effects_are_found():
    def value(data, method, strength, seed, metric):
        if metric.startswith("total_correlation"):
            return strength * (-1 if metric.endswith("sampled") else 1)
        effect = {"beta_vae": -1.0, "factor_vae": 1.0}[method]
        setting = effect + {1: -1.0, 2: 0.0, 4: 1.0}[strength] * np.sqrt(1.5)
        return setting + (-1.0) ** seed

    frame = planted(value)
    assert claims.tc_trend(frame, "sampled") == pytest.approx(-1)
    assert claims.tc_trend(frame, "mean") == pytest.approx(1)
    six = claims.Study(frame=frame).words_of(claims.METRICS)
    # Method, strength and seed have variance 1 each; of 60 models, seeds have 54 degrees of freedom.
    assert claims.explained(six, "method") == pytest.approx((60 - 60 / 54) / 180)
    assert claims.explained(six, "setting") == pytest.approx((120 - 5 * 60 / 54) / 180)
    assert claims.agreement(six, modularity=False) == pytest.approx(1)
    assert claims.different_choices(six) == 0


def test_modularity_that_points_the_other_way_is_told_apart():
    rng = np.random.default_rng(1)
    quality = rng.normal(size=10_000)
    frame = planted(lambda d, m, s, seed, metric: (-1 if metric == "modularity" else 1) * quality[100 * s + seed])
    six = claims.Study(frame=frame).words_of(claims.METRICS)
    assert claims.agreement(six, modularity=False) == pytest.approx(1)
    assert claims.agreement(six, modularity=True) == pytest.approx(-1)
    assert claims.different_choices(six) == pytest.approx(5 / 15)


def test_metrics_that_share_a_best_model_choose_it_in_whatever_order_models_stand():
    """Two models are best by every metric but MIG, whose best is one of these two."""
    frame = planted(lambda d, m, s, seed, metric: float(s == 4 and seed < (1 if metric == "mig" else 2)), ["blobs"])
    six = claims.Study(frame=frame).words_of(claims.METRICS)
    assert claims.different_choices(six) == claims.different_choices(six[::-1]) == 0
    one = six["run"] == six["run"].iloc[0]
    six.loc[one & (six["metric"] == "SAP"), "value"] = np.nan
    assert claims.different_choices(six) == 0


def test_metrics_choose_among_the_models_of_a_seed():
    """MIG agrees with the others on the models of each second seed: half of its five pairs of fifteen differ."""
    frame = planted(lambda d, m, s, seed, metric: -s if metric == "mig" and seed % 2 else s, ["blobs"])
    found = claims.jackknife(claims.different_choices, claims.Study(frame=frame).words_of(claims.METRICS), "")
    assert found.value == pytest.approx(2.5 / 15)
    assert found.low < found.value < found.high  # each seed is a draw of its own


def test_the_front_page_counts_verdicts_and_lists_what_was_measured():
    import results_pages

    number = claims.Number("share of pairs", 0.5, 0.4, 0.6, 0.7)
    one, other = (claims.Claim("A claim.", "A paper", (number,), ((side, 0.1),)) for side in ("above", "below"))
    text = results_pages.claims_page([one, one, other], planted(lambda *key: 0.5))
    assert "**Of 3 claims 2 agree, 1 disagree.**" in text
    assert "| 3 | A claim. | < 0.1 | 0.50 [0.40, 0.60] | 0.7 | **disagrees** |" in text
    assert "\n3. A paper: share of pairs.\n" in text


def test_scores_of_tasks_that_were_cut_off_are_computed_again(tmp_path):
    import publish

    file = tmp_path / "tasks.jsonl"
    score = ["fairness", "fairness_mean", 0.5]
    whole = json.dumps({"run": "a", "scores": [score]})
    assert publish._lines(tmp_path / "none").empty
    file.write_text(f"\n{whole}" + f"\n{whole[:-9]}" + 2 * ("\n" + json.dumps({"run": "b", "scores": [score]})))
    assert publish._lines(file).values.tolist() == [["a", *score], ["b", *score]]


def test_task_scores_of_some_models_stand_beside_what_is_published(tables):
    from karenina.studies.study import TASK, with_scores

    some = list(tables["run"].unique()[:3])
    found = pd.DataFrame(
        [(run, "fairness", "fairness_mean", i / 10) for i, run in enumerate([*some, "unknown"])],
        columns=["run", "property", "metric", "value"],
    )
    both = with_scores(with_scores(tables, found, TASK), found, TASK)
    assert len(both) == len(tables) + 3
    new = both[both["metric"] == "fairness_mean"]
    assert list(new["run"]) == some
    assert (new["family"] == "task").all()
    assert list(new["setting"]) == [tables.set_index("run").loc[run, "setting"].iloc[0] for run in some]


def test_pages_are_what_the_tables_give(tmp_path):
    import publish

    publish.pages(tmp_path, draw=False)
    made = sorted(tmp_path.glob("*.md"))
    assert len(made) == 7
    for page in made:
        assert page.read_text() == (ROOT / "docs" / "results" / page.name).read_text(), page.name
        assert not re.search(r"-0\.00\b", page.read_text()), page.name


def test_pages_name_no_folder_of_the_machine_that_made_them():
    results = ROOT / "docs" / "results"
    for page in [*results.rglob("*.md"), results / "study.html"]:
        assert not re.search(r"(--out|report|run) /\w", page.read_text(encoding="utf-8")), page.name


def test_a_table_goes_with_more_than_half_of_its_values():
    import verdicts

    from karenina.papers import items
    from karenina.papers.tables import PaperTable

    item = items()["duan2020"]["table_7"]  # prints .54 .53 .60 .59 .67
    versions = ["udr_lasso", "udr_spearman", "udr_lasso_a2a", "udr_spearman_a2a", "supervised"]

    def said(lows, highs):
        middle = [(low + high) / 2 for low, high in zip(lows, highs)]
        frame = pd.DataFrame({"version": versions, "value": middle, "low": lows, "high": highs})
        return verdicts.sentence(item, PaperTable(frame, ("version",)))

    assert said([0.5] * 5, [0.7] * 5).startswith(
        "**Agrees.** Of 5 values that have a printed one beside them, 5 agree;"
    )
    assert said([0.1] * 5, [0.2] * 5).startswith("**Disagrees.**")
    assert said([-0.1] * 5, [0.9] * 5).startswith("**Cannot tell.**")
    two_each = said([0.5, 0.5, 0.1, 0.1, -1.0], [0.7, 0.7, 0.2, 0.2, 1.0])
    assert two_each.startswith(
        "**Cannot tell.** Of 5 values that have a printed one beside them, 2 agree, 2 differ, 1 can"
    )
    nothing = pd.DataFrame({"version": versions, "value": [0.5] * 5})
    assert verdicts.sentence(item, PaperTable(nothing, ("version",))) == ""


def test_intervals_of_a_table_leave_out_a_seed_at_a_time():
    """Table 1 of Eastwood and Williams is of means over seeds: the jackknife gives Student's interval."""
    import verdicts
    from scipy import stats

    from karenina.papers import items
    from karenina.studies.study import Study

    rng = np.random.default_rng(0)
    frame = planted(lambda *key: rng.normal(), data=("teapots",), methods=("vae",), strengths=(1,), seeds=4)
    frame = frame[frame["metric"] == "mig"].assign(metric="regression_lasso", property="disentanglement")
    found = verdicts.with_intervals(items()["eastwood2018"]["table_1"], Study(frame=frame)).frame.iloc[0]
    low, high = stats.t.interval(0.95, 3, frame["value"].mean(), stats.sem(frame["value"]))
    assert (found["low"], found["high"]) == pytest.approx((low, high))


def test_intervals_of_table_4_of_holtz_leave_out_a_setting_at_a_time():
    """Ten seeds that are copies of one another give the interval of three."""
    import verdicts

    from karenina.papers import items
    from karenina.studies.study import Study

    noise = np.random.default_rng(0).normal(size=20)

    def widths(seeds):
        frame = planted(lambda d, m, s, seed, metric: noise[s], methods=["beta_vae"], strengths=range(8), seeds=seeds)
        fair = frame[frame["metric"] == "mig"].assign(metric="fairness_mean", family="task", property="fairness")
        fair["value"] = noise[fair["strength"].astype(int) + 8]
        found = verdicts.with_intervals(items()["holtz2022"]["table_4"], Study(frame=pd.concat([frame, fair]))).frame
        return found.set_index("score").loc["MIG", ["low", "high"]].tolist()

    assert widths(10) == pytest.approx(widths(3))
