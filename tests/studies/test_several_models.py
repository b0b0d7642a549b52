"""One definition of each version of UDR: in the table of a study, in `rank` and in the report."""

import inspect
import shutil
from dataclasses import replace

import numpy as np
import pytest

import karenina
from karenina._active import ACTIVE_KL
from karenina.cli.report import compare as compare_command
from karenina.evaluation.ranking import rank
from karenina.evaluation.scoring import data_of
from karenina.pages.contents import read_runs, read_study
from karenina.studies.runner import run
from karenina.studies.study import Study

# beta_vae and beta_tcvae at beta 1 are the same model.
pytestmark = pytest.mark.filterwarnings("ignore:models .* have identical codes")


@pytest.mark.parametrize(("version", "by"), [("spearman", "udr_spearman"), ("spearman_a2a", "udr_spearman_a2a")])
def test_table_rank_and_report_agree(finished, smoke, version, by):
    folder = Study(finished)
    frame = karenina.results(finished)
    table = frame[frame["metric"] == f"udr_{version}"].set_index("run")["value"]
    names = [point.hash for point in smoke.points]

    codes = [np.load(folder.run_path(name) / "codes.npy") for name in names]
    kl = [np.load(folder.run_path(name) / "kl.npy") for name in names]
    settings = [f"{point.method} {point.setting}" for point in smoke.points]
    assert len({point.method for point in smoke.points}) == 2
    partners = [[j for j in range(8) if j != i and (settings[j] == settings[i] or "a2a" in version)] for i in range(8)]
    pairs = karenina.udr(codes, kl, similarity="spearman", kl_threshold=1e-4).pairwise
    expected = [np.median(pairs[i, row]) for i, row in enumerate(partners)]
    assert table[names].tolist() == pytest.approx(expected, abs=1e-9)

    ranked = rank([folder.run_path(name) for name in names], by, rows=200, kl_threshold=1e-4).frame.set_index("run")
    assert [ranked.score[str(folder.run_path(name))] for name in names] == pytest.approx(expected, abs=1e-6)

    reported = read_study(finished)
    shown = dict(zip(reported.about["run"], reported.score(f"udr_{version}")))
    assert [shown[name] for name in names] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("udr", [("udr_lasso",), ("udr_spearman_a2a", "udr_spearman")])
def test_the_page_of_an_unfinished_study_has_the_udr_that_the_table_of_these_models_will_have(
    finished, smoke, tmp_path, udr
):
    """The study stopped before its models were compared, against the one that compared them."""
    selection = replace(smoke.selection, udr=udr)
    both = [Study(shutil.copytree(finished, tmp_path / name)) for name in ("finished", "stopped")]
    for folder in both:
        for file in folder.path.glob("*.parquet"):
            file.unlink()
        folder.adopt(replace(smoke, selection=selection))
    run(replace(smoke, selection=selection), both[0].path, quiet=True)
    done, stopped = (read_study(folder.path) for folder in both)
    assert done.ranked_by == stopped.ranked_by == udr[0]
    for version in udr:
        assert np.isfinite(done.score(version)).all()
        assert dict(zip(stopped.about["run"], stopped.score(version))) == dict(
            zip(done.about["run"], done.score(version))
        )
    assert repr(sorted(stopped.intervals.items())) == repr(sorted(done.intervals.items()))  # some are NaN
    keys = ["target", "source", "value"]
    assert (stopped.pairs is None) == (done.pairs is None)
    assert done.pairs is None or stopped.pairs[keys].equals(done.pairs[keys])


def test_all_to_all_among_some_seeds_of_each_setting_of_a_method(finished, smoke, tmp_path):
    """Duan et al. (2020), A.5: with one seed of each, the only partner is the other strength of the method."""
    folder = Study(shutil.copytree(finished, tmp_path / "study"))
    plan = replace(smoke, selection=replace(smoke.selection, a2a_seeds=1))
    run(plan, folder.path, quiet=True)
    frame = karenina.results(folder.path)
    first = [point for point in smoke.points if point.seed == 0]
    codes, kl = ([np.load(folder.run_path(p.hash) / f"{what}.npy") for p in first] for what in ("codes", "kl"))
    pairs = karenina.udr(codes, kl, similarity="spearman", kl_threshold=1e-4).pairwise
    partner = [next(j for j, q in enumerate(first) if q.method == p.method and q is not p) for p in first]
    found = frame[frame["metric"] == "udr_spearman_a2a"].set_index("run")["value"]
    assert set(found.index) == {point.hash for point in first}
    assert [found[point.hash] for point in first] == pytest.approx([pairs[i, j] for i, j in enumerate(partner)])
    before = karenina.results(finished)
    within = [f[f["metric"] == "udr_spearman"].set_index("run")["value"] for f in (before, frame)]
    assert within[0].equals(within[1])


def test_one_threshold_everywhere():
    from karenina.cli.score import rank as rank_command
    from karenina.pages.compare import compare
    from karenina.pages.demo import PLAN
    from karenina.selection import plain_scores, udr
    from karenina.studies.plan import Selection, parse

    used = [inspect.signature(f).parameters["kl_threshold"].default for f in (rank, compare, plain_scores)]
    used += [inspect.signature(f).parameters["kl_threshold"].default for f in (rank_command, compare_command)]
    used += [Selection().kl_threshold, parse(PLAN.format(data='"blobs"')).selection.kl_threshold]
    assert set(used) == {ACTIVE_KL}
    assert inspect.signature(udr).parameters["kl_threshold"].default is None  # this one, or the release's


@pytest.mark.parametrize("threshold", [0.0001, 0.01, ACTIVE_KL, 0.5, 1e9])
def test_the_threshold_of_a_study_reaches_whatever_counts_active_latents(finished, tmp_path, threshold):
    from karenina.evaluation.scoring import evaluate
    from karenina.papers.duan2020.tables import appendix_a10
    from karenina.studies.study import Study

    path = tmp_path / "study"
    shutil.copytree(finished, path)
    plan = (path / "study.toml").read_text()
    (path / "study.toml").write_text(plan.replace("kl_threshold = 0.0001", f"kl_threshold = {threshold}"))
    kl = {run.name: np.load(run / "kl.npy") for run in (path / "runs").iterdir()}
    frame = karenina.results(path)
    counted = frame[frame["metric"] == "informative_latents"].set_index("run")["value"]
    assert counted.to_dict() == {run: (values > threshold).sum() for run, values in kl.items()}
    assert list(frame["metric"]) == list(karenina.results(finished)["metric"])
    study = Study(path)
    off = appendix_a10(study)
    assert f"Here the threshold is {threshold:g} nats." in off.note
    expected = np.mean([(values <= threshold).sum() for values in kl.values()])
    assert off.frame.set_index("method").loc["all but dip_vae_i", "value"] == pytest.approx(expected)
    run = karenina.open(next((path / "runs").iterdir()))
    shown = run.traverse(data_of(run).sample(50, 0)[0], kl_threshold=threshold)
    assert (shown.informative == (shown.kl > threshold)).all()
    found = evaluate(run, metrics=(), rows=50, kl_threshold=threshold)
    assert found.label_free["informative_latents"] == (found.kl > threshold).sum()


def test_one_seed_per_setting_has_partners_in_all_to_all(finished, smoke):
    folder = Study(finished)
    runs = [folder.run_path(point.hash) for point in smoke.points if point.seed == 0]
    assert np.isfinite(rank(runs, "udr_spearman_a2a", rows=200, kl_threshold=1e-4).frame.score).all()
    with pytest.raises(ValueError, match="no model has a partner"):
        rank(runs, "udr_spearman", rows=200, kl_threshold=1e-4)
    found = read_runs(runs, metrics=())
    assert found.ranked_by == "udr_lasso_a2a"
    assert np.isnan(found.score("udr_lasso")).all()
