"""Plans: the papers' counts, names that stay, and mistakes reported with their line."""

import dataclasses

import numpy as np
import pytest

import karenina
from karenina._settings import setting_of
from karenina.studies.plan import SCALES, Point, parse, preset, presets
from karenina.studies.runner import estimate
from karenina.studies.study import Study

TEXT = "data = 'blobs'\nseeds = 2\n[methods.beta_vae]\nbeta = [1, 4]\n"


@pytest.mark.parametrize(
    ("name", "models", "settings"),
    [("locatello2019", 12_600, 36), ("duan2020", 5400, 36), ("holtz2022", 25 * 25, 25), ("carbonneau2022", 36 * 2, 36)],
)
def test_paper_scale_has_the_papers_numbers(name, models, settings):
    points = preset(name, "paper").points
    assert len(points) == len({point.hash for point in points}) == models
    assert len({point.setting for point in points}) == settings


def test_paper_scale_has_the_papers_strengths():
    plan = preset("locatello2019", "paper")
    strengths = {method: sorted({p.strength for p in plan.points if p.method == method}) for method, _ in plan.methods}
    assert strengths == {  # seed paper, Table 3
        "beta_vae": [1, 2, 4, 6, 8, 16],
        "annealed_vae": [5, 10, 25, 50, 75, 100],
        "factor_vae": [10, 20, 30, 40, 50, 100],
        "dip_vae_i": [1, 2, 5, 10, 20, 50],
        "dip_vae_ii": [1, 2, 5, 10, 20, 50],
        "beta_tcvae": [1, 2, 4, 6, 8, 10],
    }
    assert {(p.steps, p.latents, p.batch, p.learning_rate) for p in plan.points} == {(300_000, 10, 64, 1e-4)}


@pytest.mark.parametrize("name", presets())
@pytest.mark.parametrize("scale", SCALES)
def test_presets_name_things_that_exist_and_survive_their_file(name, scale, tmp_path, monkeypatch):
    for folder in ("photos", "celeba", "imagenet"):  # the user's
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("KARENINA_DATA", str(tmp_path))
    plan = preset(name, scale)
    assert parse(plan.to_toml()) == plan


def test_a_model_keeps_its_name():
    point = parse(TEXT).points[0]
    assert point.hash == "f243c653754652e8"  # written into directories: changing it would orphan every study
    assert Point.from_json(point.to_json()) == point
    assert parse(TEXT.replace("[1, 4]", "[1.0, 4]")).points[0].hash == point.hash
    assert parse(TEXT.replace("[1, 4]", "1")).points[0].hash == point.hash


def test_studies_from_before_there_were_initialisations_keep_their_models(tmp_path):
    """Their plan does not say how models began: as torch does. All of their models do, those to come too."""
    folder = Study(tmp_path)
    plan = parse(TEXT)
    folder.adopt(plan)
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace('init = "auto"\n', ""))
    assert folder.read_plan().points[0].hash == "eb972d4453c8060c"  # as it was then
    more = folder.adopt(plan.with_seeds(3))
    assert {point.init for point in more.points} == {"torch"}
    assert folder.read_plan() == more
    with pytest.raises(ValueError, match="holds another study"):
        folder.adopt(dataclasses.replace(plan, init="he"))


def test_papers_begin_as_their_releases():
    assert {p.init for name in ("locatello2019", "duan2020") for p in preset(name, "paper").points} == {"glorot"}
    assert {(p.init, p.network) for p in preset("eastwood2018", "paper").points} == {("he", "resnet")}


def test_more_seeds_and_strengths_keep_the_models_there_are():
    few = {point.hash for point in parse(TEXT).points}
    many = {point.hash for point in parse(TEXT.replace("= 2", "= 5").replace("[1, 4]", "[1, 2, 4]")).points}
    assert len(few) == 4
    assert len(many) == 15
    assert few < many


def test_settings_differ_in_all_but_data_and_seed():
    plan = parse("data = ['blobs', 'dsprites']\nseeds = [3, 7]\nlatents = [2, 4]\n[methods.vae]\n[methods.pca]\n")
    assert len(plan.points) == 16
    assert len({point.setting for point in plan.points}) == 4
    assert {point.seed for point in plan.points} == {3, 7}


def test_several_lists_are_all_swept_and_the_first_is_the_strength():
    plan = parse("data='blobs'\nseeds=1\n[methods.annealed_vae]\ngamma=10\nc_max=[5, 10]\niteration_threshold=[10, 20]")
    assert [point.strength for point in plan.points] == [5, 5, 10, 10]
    assert {point.parameter for point in plan.points} == {"c_max"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (TEXT.replace("seeds", "seed"), 2, "no key 'seed'; did you mean seeds?"),
        (TEXT.replace("beta =", "bete ="), 4, "no parameter of beta_vae 'bete'; did you mean beta?"),
        (TEXT.replace("methods.beta_vae", "methods.beta_vea"), 3, "did you mean beta_vae?"),
        (TEXT + "[evaluation]\nmetrics = ['migg']", 6, "no metric 'migg'; did you mean mig?"),
        (TEXT + "[evaluation]\nmetrics = ['dci_lasso.x']", 6, "dci_lasso has no part 'x'; known: disentanglement"),
        (TEXT + "[evaluation]\nrow = 10", 6, "did you mean rows?"),
        (TEXT + "[selection]\nudr = ['laso']", 6, "no version of UDR 'laso'"),
        (TEXT.replace("'blobs'", "'blobz'"), 1, "did you mean blobs?"),
        (TEXT.replace("'blobs'", "[]"), 1, "the grid is empty: data has no value"),
        (TEXT.replace("= 2", "= 0"), 2, "the grid is empty: seeds has no value"),
        (TEXT.replace("[1, 4]", "[]"), 4, "the grid is empty: beta has no value"),
        (TEXT.replace("[1, 4]", "[1, 4, 1.0]"), 4, "beta has 1 twice"),
        (TEXT.replace("= 2", "= [0, 0]"), 2, "seeds has 0 twice"),
        (TEXT.replace("= 2", "= -1"), 2, "integer, 0 or more; got -1"),
        (TEXT.replace("[1, 4]", "[1, inf]"), 4, "finite"),
        ("network = 'conv9'\n" + TEXT, 1, "no network 'conv9'"),
        ("steps = 1.5\n" + TEXT, 1, "an integer"),
        ("trace = 1\n" + TEXT, 1, "true or false"),
        ("methods = 3\ndata = 'blobs'\nseeds = 1", 1, "[methods.beta_vae]"),
    ],
)
def test_mistakes_are_named_with_their_line(text, line, message):
    with pytest.raises(ValueError, match=rf"^my\.toml, line {line}: ") as raised:
        parse(text, "my.toml")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("[1, 4]", f"1{'0' * 400}"), "line 4: beta should be a finite value"),
        (TEXT.replace("[1, 4]", f"[1, 1{'0' * 400}]"), "line 4: beta should be a finite value"),
        (TEXT.replace("[1, 4]", "9" * 5000), "not TOML: Exceeds the limit"),
        (TEXT.replace("[1, 4]", f"0x{'f' * 5000}"), "too long to show"),
        (TEXT.replace("= 2", f"= 1{'0' * 400}"), "line 2: seeds should be an integer, at most 1,000,000"),
        (TEXT.replace("= 2", "= 2000000"), "line 2: seeds should be an integer, at most 1,000,000; got 2000000"),
        (TEXT.replace("= 2", f"= [0, {2**63}]"), "seeds should be an integer, at most"),
        (TEXT.replace("= 2", "= 600000"), "the grid has 1,200,000 models; a study has at most 1,000,000"),
        (f"latents = 1{'0' * 30}\n{TEXT}", "line 1: latents should be an integer, at most"),
        (f"learning_rate = 1{'0' * 400}\n{TEXT}", "line 1: learning_rate should be a number from 0 on or auto"),
        (f"network = []\n{TEXT}", "line 1: the grid is empty: network has no value"),
        (f"network = [[]]\n{TEXT}", "line 1: network should be text; got []"),
        (f"network = {'[' * 50_000}", "nested too deeply"),
        (f"{TEXT}[methods.vae]\nbeta{'.beta' * 20_000} = 1", "nested too deeply"),
        (f"{TEXT}[evaluation{' . a' * 20_000}]", "nested too deeply"),
        (f"{TEXT}[methods.vae]\nbeta{'.beta' * 90} = 1", "line 5: beta should be a finite value"),
    ],
)
def test_numbers_and_nests_beyond_measure_are_one_line(text, message):
    with pytest.raises(ValueError, match=r"^my\.toml") as raised:
        parse(text, "my.toml", check=False)
    assert message in str(raised.value)
    assert len(str(raised.value)) < 400


def test_as_many_seeds_as_one_likes():
    """100,000 of them: a check of each against all others would take minutes, at each look at the study."""
    seeds = 100_000
    plan = parse(TEXT.replace("= 2", f"= {seeds}"), check=False)
    assert len(plan.seeds) == seeds
    with pytest.raises(ValueError, match="seeds has 7 twice"):
        parse(TEXT.replace("= 2", f"= {[*range(seeds), 7]}"), check=False)


def test_what_is_missing_or_not_toml():
    with pytest.raises(ValueError, match="seeds is missing"):
        parse("data = 'blobs'\n[methods.vae]")
    with pytest.raises(ValueError, match="not TOML.*line 1"):
        parse("data = = 3\n")
    with pytest.raises(ValueError, match="no preset 'x'; known: carbonneau2022, duan2020"):
        preset("x")
    with pytest.raises(ValueError, match="no scale 'huge'"):
        preset("duan2020", "huge")


def test_a_directory_takes_a_larger_plan_but_not_another(tmp_path):
    folder = Study(tmp_path / "study")
    plan = parse(TEXT)
    folder.adopt(plan)
    folder.adopt(plan.with_seeds(4))
    assert len(folder.read_plan().points) == 8
    with pytest.raises(ValueError, match="holds another study: 4 of its models"):
        folder.adopt(plan)
    rescored = dataclasses.replace(plan.with_seeds(4), evaluation=dataclasses.replace(plan.evaluation, rows=7))
    folder.adopt(rescored)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ValueError, match="not empty and not a study"):
        Study(tmp_path / "other").adopt(plan)


def test_versions_of_udr_have_one_name_and_the_old_ones_are_understood():
    names = ("udr_lasso", "udr_spearman", "udr_lasso_a2a", "udr_spearman_a2a")
    text = "data = 'blobs'\nseeds = 2\n[methods.vae]\n[selection]\nudr = {}"
    for given in (list(names), [name.removeprefix("udr_") for name in names]):
        assert parse(text.format(given)).selection.udr == names
    assert parse(text.format(["udr", "udr_a2a"])).selection.udr == ("udr_lasso", "udr_lasso_a2a")
    assert parse(parse(text.format(["spearman"])).to_toml()).selection.udr == ("udr_spearman",)


def test_precision_is_part_of_a_model_and_float32_keeps_its_name():
    plan = parse(TEXT)
    bf16 = parse("precision = 'bf16'\n" + TEXT)
    assert bf16 == plan.with_precision("bf16") == parse(bf16.to_toml())
    assert bf16.points[0].arguments["precision"] == "bf16"
    assert bf16.points[0].hash != plan.points[0].hash == plan.with_precision("float32").points[0].hash
    assert Point.from_json(bf16.points[0].to_json()) == bf16.points[0]
    with pytest.raises(ValueError, match="line 1: no precision 'bf61'.*bf16"):
        parse("precision = 'bf61'\n" + TEXT)
    with pytest.raises(ValueError, match="no precision 'bf61'; did you mean bf16"):
        plan.with_precision("bf61")


def test_data_without_labels_can_be_estimated_as_it_can_be_run(tmp_path):
    """A plan has one list of metrics for all its data sets."""
    np.savez(tmp_path / "own.npz", images=np.random.default_rng(0).integers(0, 255, (60, 1, 8, 8)).astype(np.uint8))
    text = f"data = '{tmp_path / 'own.npz'}'\nseeds = 1\nsteps = 2\nlatents = 2\nmethods.vae = {{}}\n"
    found = estimate(parse(text + 'evaluation = {metrics = ["mig"], rows = 50, tasks = true}'))
    assert found.score_seconds > 0


def test_a_plan_that_leaves_nothing_open_has_the_settings_of_its_runs():
    plan = parse("""
    data = ['blobs', 'blobs:side=8']
    seeds = 2
    steps = 1
    latents = 2
    network = "linear"
    learning_rate = 0.001
    reconstruction_weight = 1.0
    init = "he"
    methods.beta_vae = {beta = [1, 4]}
    """)
    runs = [karenina.train(point.data, point.method, **point.arguments) for point in plan.points]
    assert [setting_of(run.config) for run in runs] == [point.setting for point in plan.points]
    assert len({point.setting for point in plan.points}) == 2
