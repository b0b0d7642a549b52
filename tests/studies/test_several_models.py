"""One definition of each version of UDR: in the table of a study, in `rank` and in the report."""

import inspect

import numpy as np
import pytest

import karenina
from karenina._active import ACTIVE_KL
from karenina.cli.report import compare as compare_command
from karenina.evaluation.ranking import rank
from karenina.pages.contents import read_runs, read_study
from karenina.studies.execution.folder import Folder

# beta_vae and beta_tcvae at beta 1 are the same model.
pytestmark = pytest.mark.filterwarnings("ignore:models .* have identical codes")


@pytest.mark.parametrize(("version", "by"), [("spearman", "udr-s"), ("spearman_a2a", "udr-s-a2a")])
def test_table_rank_and_report_agree(finished, smoke, version, by):
    folder = Folder(finished)
    frame = karenina.results(finished)
    table = frame[frame["metric"] == f"udr_{version}"].set_index("run")["value"]
    names = [point.hash for point in smoke.points]

    codes = [np.load(folder.run(name) / "codes.npy") for name in names]
    kl = [np.load(folder.run(name) / "kl.npy") for name in names]
    settings = [f"{point.method} {point.setting}" for point in smoke.points]
    assert len({point.method for point in smoke.points}) == 2
    partners = [[j for j in range(8) if j != i and (settings[j] == settings[i] or "a2a" in version)] for i in range(8)]
    pairs = karenina.udr(codes, kl, similarity="spearman", kl_threshold=1e-4).pairwise
    expected = [np.median(pairs[i, row]) for i, row in enumerate(partners)]
    assert table[names].tolist() == pytest.approx(expected, abs=1e-9)

    ranked = rank([folder.run(name) for name in names], by, rows=200, kl_threshold=1e-4).frame.set_index("run")
    assert [ranked.score[str(folder.run(name))] for name in names] == pytest.approx(expected, abs=1e-6)

    reported = read_study(finished)
    shown = dict(zip(reported.about["run"], reported.score(f"udr_{version}")))
    assert [shown[name] for name in names] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("version", ["lasso", "spearman_a2a"])
def test_a_report_that_ranks_by_itself_does_as_the_study_would(finished, smoke, version):
    from karenina.pages.contents import _with_udr
    from karenina.studies.plan.plan import Selection

    folder = Folder(finished)
    frame = karenina.results(finished)
    selection = Selection(kl_threshold=1e-4, spearman_rows=200)

    def stored(name):
        return np.load(folder.run(name) / "codes.npy"), np.load(folder.run(name) / "kl.npy")

    unranked = frame[frame["family"] != "selection"]
    again, _ = _with_udr(unranked, stored, version, selection)
    found = again[again["metric"] == f"udr_{version}"].set_index("run")["value"]
    names = list(found.index)
    groups = frame.drop_duplicates("run").set_index("run").loc[names, "setting"]
    arrays = [stored(name) for name in names]
    options = {"similarity": "spearman", "all_to_all": True} if "a2a" in version else {}
    direct = karenina.udr([c for c, _ in arrays], [k for _, k in arrays], list(groups), kl_threshold=1e-4, **options)
    assert found.tolist() == pytest.approx(direct.scores, abs=1e-9)


def test_one_threshold_everywhere():
    from karenina.cli.rank import rank as rank_command
    from karenina.pages.compare import compare
    from karenina.pages.demo import PLAN
    from karenina.selection import plain_scores, udr
    from karenina.studies.plan.parsing import parse
    from karenina.studies.plan.plan import Selection

    used = [inspect.signature(f).parameters["kl_threshold"].default for f in (udr, rank, compare, plain_scores)]
    used += [inspect.signature(f).parameters["kl_threshold"].default for f in (rank_command, compare_command)]
    used += [Selection().kl_threshold, parse(PLAN).selection.kl_threshold]
    assert set(used) == {ACTIVE_KL}


def test_one_seed_per_setting_has_partners_in_all_to_all(finished, smoke):
    folder = Folder(finished)
    runs = [folder.run(point.hash) for point in smoke.points if point.seed == 0]
    assert np.isfinite(rank(runs, "udr-s-a2a", rows=200, kl_threshold=1e-4).frame.score).all()
    with pytest.raises(ValueError, match="no model has a partner"):
        rank(runs, "udr-s", rows=200, kl_threshold=1e-4)
    assert read_runs(runs, metrics=()).ranked_by is None
