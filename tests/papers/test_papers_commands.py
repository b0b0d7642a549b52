"""`karenina study analyse --paper`: files under the paper's names, one line for what is missing."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from karenina.cli.study import study_app
from karenina.papers import of_paper, paper_of, write
from karenina.studies.plan import preset, presets
from karenina.studies.runner import run
from karenina.studies.study import Study
from karenina.studies.worker import execute


def say(*words):
    return CliRunner().invoke(study_app, [str(word) for word in words], catch_exceptions=False).output


@pytest.fixture
def study(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "study", ignore=shutil.ignore_patterns("analysis"))


def test_tables_of_a_paper_that_is_asked_for(study):
    said = say("analyse", study, "--no-figures", "--paper", "locatello2019")
    out = study / "analysis" / "locatello2019"
    assert f"table_5: Variance of the scores explained by method, and by method and strength, in {out}" in said
    assert {path.name for path in out.iterdir()} == {f"table_{n}.{s}" for n in (1, 5, 6) for s in ("csv", "md")}
    assert f"3 of 30 tables and figures of locatello2019 in {out}" in said
    text = (out / "table_5.md").read_text()
    assert "| predictor | data | MIG | SAP |" in text
    assert "Without z_diff, z_min_variance, dci_boosted, modularity under [evaluation] metrics" in text


def test_what_is_missing_is_said_in_one_line_each(study):
    said = say("analyse", study, "--no-figures", "--paper", "eastwood2018").splitlines()
    line = 'table_1: left out, needs also = ["regression"] under [evaluation] in study.toml, then `karenina study run`'
    assert line in said
    assert any(text.startswith("table_5: left out, needs data = ") for text in said)
    assert not (study / "analysis" / "eastwood2018").exists()


def test_a_study_of_ones_own_has_no_paper(study):
    assert "tables and figures of" not in say("analyse", study, "--no-figures")
    assert sorted(path.suffix for path in (study / "analysis").iterdir())[-1] == ".csv"


def test_a_presets_study_has_its_own_paper(study):
    file = study / "study.toml"
    file.write_text(file.read_text().replace('name = "tiny"', 'name = "duan2020 at smoke scale"'))
    assert "tables and figures of duan2020 in" in say("analyse", study, "--no-figures")
    assert (study / "analysis" / "duan2020" / "table_7.md").exists()
    assert {paper_of(f"{name} at laptop scale") for name in presets()} == {*presets()} - {"duan2020_photos"}


def test_a_wrong_name_is_an_error_before_the_work(study):
    with pytest.raises(ValueError, match=r"no paper 'duan'; did you mean duan2020. Known: carbonneau2022, duan2020"):
        say("analyse", study, "--paper", "duan")
    assert not (study / "analysis").exists()


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(ValueError, match="study"):
        say("analyse", tmp_path, "--paper", "duan2020")


@pytest.mark.parametrize("paper", ["duan2020", "holtz2022", "eastwood2018"])
def test_every_output_is_made_or_says_what_is_missing(paper, study):
    made = list(write(study, paper))
    assert [one.item for one in made] == list(of_paper(paper).values())
    for one in made:
        assert bool(one.files) != bool(one.missing)
        kinds = {".csv", ".md"} if not one.item.name.startswith("figure") else {".png", ".pdf"}
        if one.files:
            assert {path.suffix for path in one.files} == kinds
            assert all(path.stat().st_size > 100 for path in one.files)
            assert all(path.stem == one.item.name for path in one.files)
        else:
            assert "\n" not in one.missing
            assert "`karenina " in one.missing


# Outputs of the paper that photographs, which have no labels, have nothing for.
LABELLED = {"table_1", "table_2", "table_7", *(f"figure_{n}" for n in (2, 6, 7, 8, 9, 11)), "equation_2", "appendix_a2"}


@pytest.mark.slow
@pytest.mark.skipif("KARENINA_PRESETS" not in os.environ, reason="takes minutes: set KARENINA_PRESETS=1")
@pytest.mark.filterwarnings("ignore::UserWarning")  # so few rows lack values of factors
@pytest.mark.parametrize("name", [name for name in presets() if len(of_paper(paper_of(f"{name} at smoke scale"))) > 1])
def test_a_smoke_study_of_a_preset_has_every_output_of_its_paper(name, tmp_path, monkeypatch):
    """With fewer steps and rows than smoke; benchmarks/papers.py runs the presets as they are."""
    whole = preset(name, "smoke")
    plan = replace(whole, steps=(30,), evaluation=replace(whole.evaluation, rows=120))
    monkeypatch.setenv("KARENINA_DATA", str(tmp_path))
    if name == "duan2020_photos":
        (tmp_path / "photos").mkdir()
        for i, pixels in enumerate(np.random.default_rng(0).integers(256, size=(20, 16, 16, 3), dtype=np.uint8)):
            Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.png")
    small_audit(monkeypatch)
    folder = Study(tmp_path / "study")
    folder.adopt(plan)
    for point in plan.points:
        assert execute(str(folder.path), point, plan.evaluation, 60).status == "done"
    run(plan, folder.path, quiet=True)
    made = list(write(folder.path, paper_of(plan.name)))
    missing = {one.item.name: one.missing for one in made if one.missing}
    assert set(missing) == (LABELLED if name == "duan2020_photos" else set())
    assert all("\n" not in line and "`karenina " in line for line in missing.values())
    assert all(path.stat().st_size > 100 for one in made for path in one.files)


def small_audit(monkeypatch):
    """The audit of carbonneau2022 with two metrics and few rows."""
    from karenina.papers.carbonneau2022 import tables

    whole = tables.run
    monkeypatch.setattr(tables, "run", lambda **given: whole(["mig", "irs"], **{**given, "rows": 300}))


def test_an_audit_of_another_version_is_made_anew(study, monkeypatch):
    """Table 2 and the curves of carbonneau2022 come from a small audit in the study's folder."""
    from karenina import audit
    from karenina.papers.carbonneau2022 import tables
    from karenina.studies.study import Study

    def small(**given):
        return whole(["mig", "irs"], **{**given, "experiments": ["noise"], "rows": 300})

    whole = audit.run
    monkeypatch.setattr(tables, "run", small)
    stale = small(protocols=["ours"], seeds=1, out=study / "audit_small", experiments=[], rows=300)
    assert stale.about["experiments"] == ["noise"]
    assert {key.protocol for key in tables.audit_of(Study(study)).keys} == {"carbonneau"}
    made = of_paper("carbonneau2022")["table_2"].function()(Study(study))
    found = made.frame.set_index(["metric", "virtue"])["value"]
    assert found["mig", "hyperparameters"] == 2
    assert 0 < found["mig", "moved by them at most"] < 1
    assert found["irs", "calibrated"] in (0, 1)
