"""Running an audit: the user's own metrics, interruptions, processes, bad input."""

import importlib
import linecache
import sys
from pathlib import Path

import numpy as np
import pytest

import karenina.audit
from karenina._plugins import named
from karenina.audit import EXPERIMENTS, characteristics, read, run
from karenina.audit.running import metric_groups, uses_bins
from karenina.metrics import METRICS, score

sys.path.insert(0, str(Path(__file__).parent))
import metrics_of_mine as own

QUICK = {"seeds": 2, "rows": 400, "experiments": ["noise", "scale"]}


def test_scores_are_those_of_the_metrics_themselves():
    names = ["mig", "dci_lasso", "z_diff"]
    found = run(names, protocols=["ours", "carbonneau"], seeds=1, rows=600, experiments=["mixing"])
    codes, factors = EXPERIMENTS["mixing"].make(0.2, rows=600, seed=0)
    for protocol in (None, "carbonneau"):
        table = score(codes, factors, names, protocol)
        for row in table.rows:
            curve = found.curve(protocol or "ours", row.metric, row.property, "mixing")
            assert curve["mean"][0.2] == pytest.approx(row.value, abs=1e-12)


def test_locatello_sees_ten_values_of_each_factor():
    found = run(["mig"], protocols=["locatello"], seeds=1, rows=2000, experiments=["noise"])
    codes, factors = EXPERIMENTS["noise"].make(0.2, rows=2000, seed=0)
    expected = score(codes, np.floor(10 * factors).astype(int), ["mig"], "locatello")["mig"].value
    assert found.curve("locatello", "mig", "compactness", "noise")["mean"][0.2] == pytest.approx(expected, abs=1e-3)


def test_quantile_changes_the_bins_and_has_only_metrics_with_tables():
    found = run(protocols=["quantile"], **QUICK)
    assert set(found.frame.metric) == {name for name, metric in METRICS.items() if metric.family == "information"}
    both = run(["mig"], protocols="ours", **QUICK).curve("ours", "mig", "compactness", "noise")["mean"][0.2]
    assert found.curve("quantile", "mig", "compactness", "noise")["mean"][0.2] != pytest.approx(both, abs=1e-4)


def test_means_and_deviations_are_over_seeds():
    found = run(["mig"], protocols=["ours"], seeds=3, rows=300, experiments=["noise"])
    at = found.frame[found.frame.value == 0.2].score
    curve = found.curve("ours", "mig", "compactness", "noise")
    assert list(curve.index) == list(EXPERIMENTS["noise"].values)
    assert curve["mean"][0.2] == pytest.approx(at.mean())
    assert curve["std"][0.2] == pytest.approx(at.std(ddof=1))
    assert found.curve("ours", "mig", "compactness", "dead").empty


def test_metrics_of_ones_own_that_fail_have_a_row_that_says_so():
    names = ["raises", "not_a_number", "a_word", "sometimes", "an_object", "parts", "best_correlation"]
    found = run(["mig"], protocols=["ours"], mine={name: getattr(own, name) for name in names}, **QUICK)
    notes = found.failures().groupby("metric").note.first()
    assert notes["raises"] == "raised RuntimeError: not on a Monday"
    assert notes["not_a_number"] == "returned nan"
    assert notes["a_word"] == "returned str, not a number"
    assert notes["sometimes"] == "raised ValueError: codes hardly move"
    assert set(notes.index) == {"raises", "not_a_number", "a_word", "sometimes"}
    rows = [row for row in found.keys if row[0] == "mine"]
    assert ("mine", "best_correlation", "explicitness") in rows
    assert ("mine", "raises", "own") in rows
    means = found.curve("mine", "an_object", "own", "noise")["mean"]
    assert (means == 0.25).all()
    assert found.curve("mine", "parts", "modularity", "noise")["mean"][0.0] == pytest.approx(0.505)
    assert found.curve("mine", "parts", "compactness", "noise")["mean"][0.0] == 1
    # The one beside them is not touched.
    assert found.curve("ours", "mig", "compactness", "noise")["mean"][0.0] > 0.8
    cells = characteristics(found)
    assert str(cells["mine", "raises", "own"]["calibrated"]) == "?"
    assert cells["mine", "sometimes", "own"]["calibrated"].tick is False  # 1 for noise too
    assert cells["mine", "sometimes", "own"]["scale invariant"].tick is None


def test_processes_give_what_one_gives():
    alone = run(["mig", "irs"], protocols=["ours"], mine={"f": "metrics_of_mine:best_correlation"}, **QUICK)
    several = run(["mig", "irs"], protocols=["ours"], mine={"f": own.best_correlation}, workers=2, **QUICK)
    assert alone.frame.equals(several.frame)


def test_a_function_that_cannot_travel_needs_one_worker():
    with pytest.raises(ValueError, match="use 1 worker"):
        run([*METRICS][:1], protocols=["ours"], mine={"f": lambda codes, factors: 1.0}, workers=2, **QUICK)
    run(["mig"], protocols=["ours"], mine={"f": lambda codes, factors: 1.0}, **QUICK)


def test_an_interrupted_audit_goes_on(tmp_path, monkeypatch):
    whole = run(["mig"], protocols=["ours"], out=tmp_path / "whole", **QUICK)
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["mig"], protocols=["ours"], out=tmp_path / "cut", progress=stop, **QUICK)
    assert seen[-1] == (5, 20)  # 6 + 4 values, twice
    file = tmp_path / "cut" / "scores.jsonl"
    file.write_text(file.read_text()[:-20])  # killed in the middle of a line
    assert len(read(tmp_path / "cut").frame) < len(whole.frame)
    calls = []
    again = run(["mig"], protocols=["ours"], out=tmp_path / "cut", progress=lambda *n: calls.append(n), **QUICK)
    assert calls[0] == (4, 20)
    assert again.frame.equals(whole.frame)
    assert read(tmp_path / "cut").frame.equals(whole.frame)
    # All done: nothing is computed again.
    monkeypatch.setattr(karenina.audit.running, "work", None)
    assert run(["mig"], protocols=["ours"], out=tmp_path / "cut", **QUICK).frame.equals(whole.frame)


def test_another_audits_folder_is_refused(tmp_path):
    run(["mig"], protocols=["ours"], out=tmp_path, **QUICK)
    with pytest.raises(ValueError, match=r"another audit \(rows differ\)"):
        run(["mig"], protocols=["ours"], out=tmp_path, **{**QUICK, "rows": 500})
    (tmp_path / "scores.jsonl").write_text("hello\n")
    with pytest.raises(ValueError, match="not the file of an audit"):
        run(["mig"], protocols=["ours"], out=tmp_path, **QUICK)
    with pytest.raises(ValueError, match="not the file of an audit"):
        read(tmp_path)
    with pytest.raises(ValueError, match="holds no audit"):
        read(tmp_path / "nowhere")


def test_an_unfinished_audit_has_no_ticks_for_what_is_missing(tmp_path):
    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["mig"], protocols=["ours"], out=tmp_path, progress=stop, **QUICK)
    cells = characteristics(read(tmp_path))["ours", "mig", "compactness"]
    assert cells["calibrated"].tick is None
    assert str(cells["calibrated"]) == "?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["mug"]}, "no metric 'mug'; did you mean mig. Known: z_diff"),
        ({"metrics": ["total_correlation"]}, "does not look at factors"),
        ({"protocols": ["mine"]}, "no protocol 'mine'; known: ours, quantile, locatello, carbonneau"),
        ({"metrics": ["z_diff"], "protocols": ["quantile"]}, "nothing to audit"),
        ({"experiments": ["nose"]}, "no experiment 'nose'; did you mean noise. Known: noise"),
        ({"seeds": 0}, "seeds must be an integer of at least 1, got 0"),
        ({"rows": 10}, "rows must be an integer of at least 200, got 10"),
        ({"workers": 0}, "workers must be an integer of at least 1"),
        ({"mine": {"f": "nothing"}}, "expected module:function, got 'nothing'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        run(**options)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module:f", "cannot import 'no_such_module'"),
        ("metrics_of_mine:g", "'metrics_of_mine' has no 'g'"),
        ("metrics_of_mine:not_a_function", "is a int, not a function"),
        (":f", "expected module:function"),
    ],
)
def test_references_that_lead_nowhere(reference, message):
    with pytest.raises(ValueError, match=message):
        named(reference)


def test_a_module_that_breaks_on_import(tmp_path, monkeypatch):
    (tmp_path / "broken_one.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ValueError, match="importing 'broken_one' raised ZeroDivisionError"):
        named("broken_one:f")


def test_trees_see_fewer_rows(monkeypatch):
    seen = []
    monkeypatch.setattr(
        karenina.audit.running, "apply", lambda group, codes, *rest: seen.append((group.trees, len(codes))) or []
    )
    run(["mig", "dci_forest"], protocols=["ours"], seeds=1, rows=2000, tree_rows=500, experiments=["noise", "samples"])
    assert {size for trees, size in seen if trees} == {500, 10, 100, 1000, 2000}
    assert {size for trees, size in seen if not trees} == {2000, 10, 100, 1000, 10_000}


def test_trees_are_only_run_when_asked_for():
    def names(trees):
        return {metric for group in metric_groups(None, ["ours"], {}, trees) for metric in group.metrics}

    assert names(True) - names(False) == {"dci_forest", "dci_boosted"}
    assert {metric for group in metric_groups(["dci_forest"], ["ours"], {}, False) for metric in group.metrics}


def test_dci_stands_for_all_kinds_of_it():
    found = {metric for group in metric_groups(["mig", "dci"], ["ours"], {}, False) for metric in group.metrics}
    assert found == {"mig", "dci_lasso", "dci_forest", "dci_boosted", "dci_aligned", "dci_es"}


def test_old_scores_are_not_taken_for_those_of_a_changed_function(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for value in ("0.1", "0.9"):
        monkeypatch.delitem(sys.modules, "changing", raising=False)
        (tmp_path / "changing.py").write_text(f"def f(codes, factors):\n    return {value}  # {'x' * len(value)}\n")
        importlib.invalidate_caches()
        linecache.clearcache()
        options = {"protocols": [], "mine": {"f": "changing:f"}, "out": tmp_path / "out", **QUICK}
        if value == "0.1":
            run([], **options)
        else:
            with pytest.raises(ValueError, match=r"another audit \(metrics differ\)"):
                run([], **options)


def test_the_seed_of_a_metric_is_not_that_of_the_data():
    def guess(codes, factors, seed):
        return float((np.random.default_rng(seed).random(factors.shape) == factors).mean())

    found = run([], protocols=[], mine={"guess": guess}, **QUICK)
    assert (found.frame.score == 0).all()


def test_odd_results_have_a_row_each():
    odd = {
        "empty": lambda codes, factors: {},
        "huge": lambda codes, factors: 10**400,
        "leaves": lambda codes, factors: sys.exit(3),
        "moody": lambda codes, factors: {"a": 1.0, "b": 2.0} if codes.std() > 0.25 else 1 / 0,
        1: lambda codes, factors: 1.0,
    }
    found = run([], protocols=[], mine=odd, **QUICK)
    assert {row[1:] for row in found.keys} == {
        ("empty", "own"),
        ("huge", "own"),
        ("leaves", "own"),
        ("moody", "a"),
        ("moody", "b"),
        ("1", "own"),
    }
    notes = found.failures().groupby("metric").note.first()
    assert notes["empty"] == "returned {}"
    assert notes["leaves"] == "raised SystemExit: 3"
    assert notes["moody"] == "raised ZeroDivisionError: division by zero"
    assert characteristics(found)["mine", "1", "own"]["calibrated"].numbers == (1.0, 1.0)


def test_a_protocol_given_twice_counts_once():
    once = run(["mig"], protocols=["ours"], **QUICK)
    assert run(["mig"], protocols=["ours", "ours"], **QUICK).frame.equals(once.frame)


def test_the_smallest_audit_there_is():
    found = run(["mig", "z_max_variance"], protocols=["ours"], seeds=1, rows=200, experiments=["samples"])
    assert found.frame.score.notna().any()


@pytest.mark.parametrize(("name", "cut"), [("with_bins", True), ("best_correlation", None)])
def test_bins_of_ones_own_metrics(name, cut):
    assert uses_bins(name, "mine", {name: getattr(own, name)}) is cut


@pytest.mark.parametrize(
    ("function", "cut"),
    [
        (lambda codes, factors, n_bins=20: 0.0, True),
        (lambda codes, factors, nbins=20: 0.0, True),
        (lambda codes, factors, binning=None: 0.0, True),
        (lambda codes, factors, combine=True: 0.0, None),
        (lambda codes, factors, binary=False: 0.0, None),
    ],
)
def test_a_parameter_is_called_bins_by_its_words(function, cut):
    assert uses_bins("own", "mine", {"own": function}) is cut


def test_audits_of_other_metrics_and_experiments_are_joined(tmp_path):
    only = {"protocols": ["ours"], "seeds": 2, "rows": 400}
    old = run(["mig"], out=tmp_path / "old", experiments=["noise"], **only)
    run(["mcc", "mig"], out=tmp_path / "new", experiments=["noise", "dead"], **only)
    both = read(tmp_path / "old", tmp_path / "new")
    assert [key.metric for key in both.keys] == ["mig", "mcc"]
    assert both.about["experiments"] == ["noise", "dead"]
    assert not both.frame.duplicated(["experiment", "value", "seed", "protocol", "metric", "property"]).any()
    noise = both.curve("ours", "mig", "compactness", "noise")
    assert noise["mean"].tolist() == old.curve("ours", "mig", "compactness", "noise")["mean"].tolist()
    assert set(characteristics(both)) == set(both.keys)
    assert str(characteristics(read(tmp_path / "old"))[both.keys[0]]["one outlier"]) == "–"


def test_metrics_that_join_may_have_fewer_seeds_and_it_is_said(tmp_path):
    only = {"protocols": ["ours"], "experiments": ["noise", "samples"]}
    run(["mig"], out=tmp_path / "old", seeds=2, rows=400, **only)
    one = run(["mcc"], out=tmp_path / "one", seeds=1, rows=400, **only)
    both = read(tmp_path / "old", tmp_path / "one")
    assert both.seeds_text == "2 seeds (1 for ours/mcc)"
    for key in both.keys:
        assert both.curve(*key, "noise")["mean"].notna().all()
    alone, key = characteristics(one), one.keys[0]
    assert str(characteristics(both)[key]["data efficient"]) == str(alone[key]["data efficient"]) != "–"


def test_audits_of_other_rows_or_of_one_metric_with_other_seeds_do_not_join(tmp_path):
    only = {"protocols": ["ours"], "experiments": ["noise"]}
    run(["mig"], out=tmp_path / "old", seeds=2, rows=400, **only)
    run(["mcc"], out=tmp_path / "rows", seeds=2, rows=300, **only)
    run(["mig"], out=tmp_path / "again", seeds=1, rows=400, **only)
    with pytest.raises(ValueError, match="other rows than"):
        read(tmp_path / "old", tmp_path / "rows")
    with pytest.raises(ValueError, match="other seeds of ours/mig than"):
        read(tmp_path / "old", tmp_path / "again")


def test_metrics_on_request_are_audited_when_named():
    names = {m for group in metric_groups(["all"], ["ours"], {}, False) for m in group.metrics}
    by_default = {m for group in metric_groups(None, ["ours"], {}, True) for m in group.metrics}
    assert names - by_default == {"infomec", "dci_es", "mcc", "mcc_rank", "r2_affine", "irs_robust"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no audit"),
        ('{"about": {"form', "holds no audit"),
        ('{"about": {"format": 1}}\n', "is not the file of an audit"),
    ],
)
def test_an_audit_that_was_stopped_at_once_is_one_line(tmp_path, text, message):
    (tmp_path / "scores.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


def test_one_metric_and_one_experiment_need_no_list():
    found = run("mig", protocols="ours", experiments="noise", seeds=1, rows=200)
    assert [*found.about["bins"], *found.about["experiments"]] == ["ours/mig", "noise"]
