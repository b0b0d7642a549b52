"""What the page says, without a browser."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import karenina
from karenina.evaluation import scoring
from karenina.pages import choice as choice_module
from karenina.pages import contents as contents_module
from karenina.pages.choice import choices
from karenina.pages.compare import compare, match
from karenina.pages.contents import read
from karenina.pages.model import priority
from karenina.pages.page import report, show
from karenina.selection import choice as selection_choice
from karenina.studies.analyses import ANALYSES, apply
from karenina.studies.analyses.by_setting import by_strength_caption


def data_in(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


@pytest.fixture
def trusted(monkeypatch):
    """Chance is 0, two seeds are enough and all models draw, so that the four of the study can be chosen from."""
    monkeypatch.setattr(selection_choice, "chance", lambda *_: 0.0)
    monkeypatch.setattr(selection_choice, "TOO_FEW_SEEDS", 1)
    monkeypatch.setattr(choice_module, "explained", lambda *_: 1.0)


def test_the_answer_names_the_chosen_model(study, tmp_path, trusted):
    contents = read([study])
    choice = choices(contents)[0]
    label = contents.about.loc[choice.best, "label"]
    assert choice.headline.startswith(f"Pick {label}, of 4 models: ")
    assert choice.headline in report(study, tmp_path, figures=False).read_text()


def test_picks_are_the_first_of_each_number_of_active_latents(study, trusted):
    contents = read([study])
    picks = choices(contents)[0].picks
    assert picks
    runs = list(contents.about["run"])
    for pick in picks:
        assert pick.score == contents.score("udr_lasso")[runs.index(pick.run)]
        assert pick.active == int((contents.codes(pick.run)[1] > 2 * contents.kl_threshold).sum())
    assert min(picks, key=lambda pick: pick.rank).run == choices(contents)[0].best


def test_the_page_is_one_file_without_addresses(page):
    text = page.read_text()
    assert len(text) < 20_000_000
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)
    assert "small &lt;b&gt;study&lt;/b&gt; &amp; more" in text
    assert "</script" not in json.dumps(data_in(text))


def test_figures_are_files_on_request(study, page, tmp_path):
    assert not re.findall(r'href="figures/\w+\.(?:png|pdf)"', page.read_text())
    assert {file.suffix for file in (page.parent / "figures").iterdir()} == {".csv"}
    page = report(study, tmp_path, files=True)
    names = re.findall(r'href="figures/(\w+\.(?:png|pdf))"', page.read_text())
    assert {"by_strength.png", "by_strength.pdf", "traversals_best.pdf", "dynamics_most.png"} <= set(names)
    for name in names:
        assert (page.parent / "figures" / name).stat().st_size > 500


def test_models_have_what_the_scatter_and_the_panel_need(study, page):
    data = data_in(page.read_text())
    assert len(data["models"]["run"]) == len(data["order"]) == 4
    assert {"udr_lasso", "mig", "elbo"} <= {score["name"] for score in data["scores"]}
    for one in data["details"].values():
        assert np.shape(one["importance"]["matrix"]) == (4, 5)
        assert one["decoder"]["shape"] == [16, 16, 1]
    factors = data["factors"]["blobs"]
    assert len(factors["values"][data["best"]]) == len(factors["names"]) * len(factors["scores"])


def test_an_unfinished_study_with_a_failure_says_so(make_study, tmp_path):
    from karenina.studies.study import Study

    study = make_study(tmp_path / "study", leave=2)
    folder = Study(study)
    folder.fail(folder.read_plan().points[-1].hash, "TrainingDiverged: <i>loss</i>")
    text = report(study, figures=False).read_text()
    assert "2 of 4 models are done, 1 failed, 1 still to come" in text
    assert "TrainingDiverged: &lt;i&gt;loss&lt;/i&gt;" in text
    assert (study / "report" / "index.html").exists()


def test_a_study_without_any_model_yet(make_study, tmp_path):
    study = make_study(tmp_path / "study", leave=4)
    text = report(study, figures=False).read_text()
    assert "There is no finished model yet" in text


def test_models_without_labels(make_study, tmp_path, unlabelled):
    study = make_study(tmp_path / "study", data=unlabelled)
    text = report(study).read_text()
    assert "These models have no labels" in text
    assert {"by_method", "dynamics_most", "dynamics_least"} <= set(re.findall(r'<figure id="(\w+)"', text))
    assert "Training dynamics against metrics: needs labels" in text
    assert "None of these 4 models is worth picking" in text
    assert "Rank correlation of UDR" not in text


def test_one_model_and_no_ranking(study, tmp_path):
    run = sorted((study / "runs").iterdir())[0]
    text = report([run], tmp_path, figures=False, metrics=["mig"]).read_text()
    assert "There is one model" in text
    assert data_in(text)["models"]["run"] == [run.name]


def test_runs_give_the_table_and_the_ranking_that_their_study_gives(study, monkeypatch):
    """Of a study's runs, on as many images and with the same threshold."""
    plan = karenina.studies.find_plan(study)
    monkeypatch.setattr(scoring.evaluate, "__kwdefaults__", {**scoring.evaluate.__kwdefaults__, "rows": 400})
    monkeypatch.setattr(contents_module, "Selection", lambda udr: plan.selection)
    runs, of_study = read([study / "runs"], metrics=plan.evaluation.metrics), read([study])
    assert runs.ranked_by == of_study.ranked_by == "udr_lasso"
    score = ["metric", "property", "factor"]
    # A score of settings, which runs alone do not have, and a count by the study's own threshold.
    apart = ["dynamics", "informative_latents"]
    known, alone = (one.frame[~one.frame["metric"].isin(apart)] for one in (of_study, runs))
    for frame in (alone, known):
        assert not frame.duplicated(["run", *score]).any()
    columns = ["data", "method", "strength", "seed", "latents", "steps", "family", "value"]
    found, expected = (frame.set_index(["run", *score])[columns].sort_index() for frame in (alone, known))
    pd.testing.assert_frame_equal(found, expected, atol=1e-6)
    order = [list(one.about["run"].iloc[np.argsort(-one.score("udr_lasso"))]) for one in (runs, of_study)]
    assert order[0] == order[1]
    alike = replace(runs, kl_threshold=of_study.kl_threshold, versions=of_study.versions)
    assert choices(alike)[0].best == choices(of_study)[0].best
    assert any(command.startswith("karenina train blobs beta_vae") for command in runs.commands)


def test_images_that_are_gone_are_said_and_the_rest_is_shown(make_study, tmp_path, unlabelled):
    from karenina.evaluation.scoring import load_cached

    own = tmp_path / "own.npz"
    own.write_bytes(unlabelled.read_bytes())
    study = make_study(tmp_path / "study", data=own)
    own.unlink()
    load_cached.cache_clear()
    data = data_in(text := report(study, figures=False).read_text())
    assert "are not at hand" in text
    assert all(one["traversal"]["src"] and one["reconstructions"] is None for one in data["details"].values())


def test_a_page_that_is_too_large_carries_fewer_decoders(study):
    whole = report(study, study.parent / "small", figures=False).read_text()
    text = report(study, study.parent / "small", figures=False, megabytes=len(whole) / 1e6 - 0.2).read_text()
    live = [one["decoder"] is not None for one in data_in(text)["details"].values()]
    assert 0 < sum(live) < 4
    assert f"{sum(live)} of the 4 have live latents" in text


def test_priority_has_every_run_once_and_the_first_first(study):
    contents = read([study])
    runs = list(contents.about["run"])
    order = priority(contents, [runs[2]])
    assert order[0] == runs[2]
    assert sorted(order) == sorted(runs)


@pytest.mark.parametrize("megabytes", [0, -1, float("nan")])
def test_a_page_has_some_size(study, megabytes):
    with pytest.raises(ValueError, match="megabytes must be above 0"):
        report(study, megabytes=megabytes)


@pytest.mark.parametrize("paths", [["nowhere"], []])
def test_what_is_no_study(paths, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="director"):
        report(paths)


def test_an_empty_directory_and_a_study_among_runs(tmp_path, study):
    with pytest.raises(ValueError, match="neither a study"):
        report(tmp_path)
    with pytest.raises(ValueError, match="one study, or runs"):
        report([study, study])


@pytest.mark.parametrize("name", ANALYSES)
def test_a_caption_has_numbers_and_they_are_those_of_the_table(study, name):
    contents = read([study])
    frame = apply(name, contents.frame, contents.extra)
    if isinstance(frame, str):
        assert frame.startswith("needs ")
        return
    text = ANALYSES[name].caption(frame, ("mig",))
    cells = frame.select_dtypes("number").to_numpy(float).ravel()
    cells = np.append(cells, frame["correlation"].median()) if "correlation" in frame else cells
    known = {f"{value:.2f}" for value in cells} | {f"{value:.1f}" for value in cells}
    shares = [*cells, *(1 - cells)] + [float((frame[c] > 0).mean()) for c in ("low", "correlation") if c in frame]
    shares += [float((frame["correlation"] < 0).mean())] if "correlation" in frame else []
    shares += [frame["mean_above_sampled"].mean()] if name == "total_correlation" else []
    percents = {f"{100 * value:.0f}" for value in shares}
    decimals, wholes = re.findall(r"-?\d+\.\d+", text), re.findall(r"(-?\d+) %", text.replace("are 95 %", ""))
    undefined = "correlation" in frame and frame["correlation"].isna().all()
    assert "nan" not in text
    assert decimals or wholes or (undefined and "undefined" in text)
    assert set(decimals) <= known
    assert {number.lstrip("-") for number in wholes} <= {number.lstrip("-") for number in percents}


def test_a_caption_says_what_the_table_says():
    frame = pd.DataFrame(
        {"data": "d", "method": "m", "strength": [1.0, 4.0, 8.0], "score": "mig", "median": [0.1, 0.5, 0.3]}
    )
    text = by_strength_caption(frame, ("mig",))
    assert text == "The median of mig goes from 0.10 at strength 1 to 0.30 at 8; the highest is 0.50 at 4."


def test_matching_undoes_a_permutation():
    rng = np.random.default_rng(0)
    order = rng.permutation(6)
    similarity = 0.3 * rng.random((6, 6))
    similarity[np.arange(6), order] = 1
    assert match(similarity) == list(enumerate(order))


def test_runs_of_different_data_are_not_compared(study, tmp_path, unlabelled):
    import karenina

    other = tmp_path / "other"
    karenina.train(str(unlabelled), "vae", steps=5, latents=3, out=other)
    run = sorted((study / "runs").iterdir())[0]
    with pytest.raises(ValueError, match="one data set"):
        compare(run, other, tmp_path / "page")


def test_a_run_is_like_itself(study, tmp_path):
    run = sorted((study / "runs").iterdir())[0]
    text = compare(run, run, tmp_path, kl_threshold=0.0).read_text()
    rows = data_in(text)["compare"]["rows"]
    assert [row["a"] for row in rows] == [row["b"] for row in rows]
    assert all(row["correlation"] > 0.999 for row in rows)


def test_an_unfinished_run_has_no_page(tmp_path):
    with pytest.raises(ValueError, match=r"no run\.json"):
        show(tmp_path)


@pytest.mark.parametrize("content", [b"", b"half of a file"])
@pytest.mark.parametrize("file", ["trace.npy", "model.safetensors"])
def test_damaged_models_are_said_and_the_rest_is_shown(study, tmp_path, file, content):
    shutil.copytree(study, tmp_path / "study")
    for path in (tmp_path / "study" / "runs").glob(f"*/{file}"):
        path.write_bytes(content)
    text = report(tmp_path / "study").read_text()
    assert f"{file} is damaged" in text
    assert "Scores against strength" in text


def test_images_are_drawn_once_for_all_runs(study, monkeypatch):
    drawn = []
    draw = contents_module.inputs
    monkeypatch.setattr(contents_module, "inputs", lambda *given: drawn.append(1) or draw(*given))
    contents = read([study / "runs"], metrics=["mig"])
    for _ in range(3):
        contents.inputs("blobs")
    assert len(drawn) == 1


def test_quantised_codes_are_compared_by_their_own_kl(tmp_path):
    runs = [karenina.train("blobs", "qlae", latents=2, steps=30, seed=seed) for seed in (0, 1)]
    rows = data_in(compare(*runs, tmp_path).read_text())["compare"]["rows"]
    images = karenina.load("blobs").sample(5000, np.random.default_rng(0))[0]
    for letter, run in zip("ab", runs):
        found = sorted(row[f"kl_{letter}"] for row in rows)
        assert found == pytest.approx(sorted(run.kl(images)))  # about 50 nats each before


def test_the_answer_is_three_numbers_beside_their_thresholds(study):
    contents = contents_module.read_study(study)
    choice = choice_module.choices(contents)[0]
    by_name = {one.name: one for one in choice.readings}
    assert {"independence", "labels"} <= set(by_name)  # three steps agree on nothing
    row = list(contents.about["run"]).index(choice.best)
    checked = contents.score(choice.checks[0])
    assert by_name["labels"].value == checked[row]
    assert by_name["labels"].holds == (checked[row] > np.nanmean(checked))
    codes, kl = contents.codes(choice.best)
    active = np.array(codes)[:, kl > contents.kl_threshold]
    expected = np.abs(np.triu(pd.DataFrame(active).corr("spearman").to_numpy(), 1)).max()
    assert by_name["independence"].value == pytest.approx(expected)
    assert [one.rank for one in choice.leaders] == list(range(1, 1 + min(5, len(checked))))


def test_the_command_of_a_run_says_every_setting_that_is_not_the_default(tmp_path):
    given = {"latents": 2, "steps": 30, "trace": True, "precision": "tf32", "batch": 8}
    words = contents_module._train_command(karenina.train("blobs", "vae", **given).config, tmp_path)
    assert "--steps 30 " in words
    assert all(f"--set {word} " in words for word in ("latents=2", "trace=true", "precision=tf32", "batch=8"))
