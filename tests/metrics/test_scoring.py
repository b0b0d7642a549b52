"""karenina.score: one table of everything."""

import inspect
import json
import pydoc
import tracemalloc
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint

import numpy as np
import pandas as pd
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karenina
from karenina import _plugins
from karenina.evaluation.scoring import evaluate
from karenina.metrics import METRICS, Metric, Result, dci, scoring
from karenina.metrics._inputs import as_matrix, drawn
from karenina.metrics.registry import score_name
from karenina.metrics.scoring import plot_scores
from karenina.numerics import logistic

TREES = {"dci_forest", "dci_boosted"}
QUICK = [name for name in METRICS if name not in TREES]


@pytest.fixture(scope="module")
def perfect():
    rng = np.random.default_rng(0)
    factors = rng.integers(5, size=(1500, 3))
    return factors + 0.01 * rng.normal(size=factors.shape), factors


def test_every_metric_alone_gives_what_the_table_says(perfect):
    table = karenina.score(*perfect, metrics=QUICK)
    assert list(table) == QUICK
    for name in QUICK:
        metric = METRICS[name]
        more = {"seed": 0} if "seed" in metric.parameters else {}
        arrays = perfect[:1] if metric.codes_only else perfect
        alone = metric.function(*arrays, **more, **metric.ours)
        assert float(alone) == pytest.approx(float(table[name]), abs=1e-12), name


def test_perfect_codes_score_high_on_every_property(perfect):
    frame = karenina.score(*perfect, metrics=QUICK).frame
    scored = frame[frame.family != "label-free"].set_index("metric").value
    # SAP is a difference of accuracies of linear classifiers, and jemmig also asks that codes carry nothing else.
    assert (scored.drop(["sap", "jemmig"]) > 0.85).all(), scored
    common = {"modularity", "compactness", "explicitness", "holistic", "independence"}
    assert set(frame.property) == common | {"ease of use", "size"}


def test_metrics_on_request_are_computed_when_named_or_by_all():
    later = {"infomec", "dci_es", "mcc", "mcc_rank", "r2_affine", "irs_robust"}
    assert set(scoring.select("all", None)) - set(scoring.select(None, None)) == later
    assert set(scoring.select(["all"], "locatello")) == set(scoring.select(None, "locatello"))
    assert set(scoring.select(["mcc", "mig"], None)) == {"mcc", "mig"}
    with pytest.raises(ValueError, match="the protocol locatello has no mcc"):
        scoring.select(["mcc"], "locatello")


def test_shuffled_codes_score_low(perfect):
    codes, factors = perfect
    frame = karenina.score(np.random.default_rng(1).permutation(codes), factors, metrics=QUICK).frame
    scored = frame[frame.family == "information"].set_index("metric").value
    assert (scored.drop(["modularity", "jemmig"]) < 0.1).all(), scored


def test_repeats_give_the_error_of_the_value():
    # The spread over half-samples should be that of the estimate over fresh data sets.
    def draw(seed):
        rng = np.random.default_rng(seed)
        factors = rng.integers(4, size=(400, 2))
        return factors + rng.normal(size=factors.shape), factors

    fresh = np.std([karenina.score(*draw(seed), metrics="mig")["mig"].value for seed in range(60)], ddof=1)
    stds = [karenina.score(*draw(seed), metrics="mig", repeats=20).rows[0].std for seed in range(10)]
    assert 0.6 < np.mean(stds) / fresh < 1.6
    once = karenina.score(*draw(0), metrics="mig")
    assert np.isnan(once.rows[0].std)
    assert once["mig"].value == karenina.score(*draw(0), metrics="mig", repeats=3)["mig"].value


def test_same_seed_same_table(perfect):
    first, second = (karenina.score(*perfect, metrics=QUICK, seed=7, repeats=2) for _ in range(2))
    assert [(row.value, row.std) for row in first.rows] == [(row.value, row.std) for row in second.rows]


def test_table_as_text_html_json_csv_and_picture(perfect, tmp_path):
    codes, factors = perfect
    table = karenina.score(codes, factors, metrics=["mig", "dci_lasso", "irs"], factor_names=["<b>", "size", "x"])
    assert "compactness" in str(table)
    assert table._repr_html_().count("<tr>") == 1 + len(table.rows)
    loaded = json.loads(table.to_json(tmp_path / "t.json"))
    assert loaded == json.loads((tmp_path / "t.json").read_text())
    assert loaded["details"]["mig"]["value"] == table["mig"].value
    assert table.to_csv().splitlines()[0] == "metric,family,property,value,std,seconds,note"
    assert set(table.per_factor.factor) == {"<b>", "size", "x"}
    plot_scores(table, tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 10_000
    with pytest.raises(KeyError, match="'sap' was not computed"):
        table["sap"]


def test_a_metric_that_cannot_be_computed_says_so_and_the_rest_go_on():
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(60, 8))  # no combination of seven other factors occurs twice
    table = karenina.score(factors, factors, metrics=["z_max_variance", "mig"])
    first, second = table.rows
    assert np.isnan(first.value)
    assert first.note
    assert second.value > 0.2
    json.loads(table.to_json())


def test_labels_that_are_all_unique_have_no_score_and_a_note():
    codes = np.random.default_rng(0).normal(size=(60, 3))
    table = karenina.score(codes, np.arange(60), metrics=["explicitness", "dci_forest", "mig"])
    notes = {row.metric: row.note for row in table.rows if np.isnan(row.value)}
    assert notes == {
        "explicitness": "no explicitness of factor 0: fewer than two of its values are in both training and test rows",
        "dci_forest": "no informativeness of factor 0: training and test rows share none of its values",
    }


def test_masked_codes_are_refused():
    factors = np.arange(60) % 3
    codes = np.ma.masked_greater(np.random.default_rng(0).normal(size=(60, 3)), 2)
    with pytest.raises(ValueError, match="it is masked"):
        karenina.score(codes, factors, metrics="mig")


@pytest.mark.parametrize("protocol", [None, "locatello"])
def test_a_slow_metric_says_so_before_it_begins(monkeypatch, protocol):
    label = np.arange(6000) // 6
    factors = np.column_stack([label % 3, label if protocol is None else label / 7])
    codes = np.random.default_rng(0).normal(size=(6000, 2))
    given = {"protocol": protocol, "factor_names": ["shape", "angle"]}
    karenina.score(codes, factors, metrics="mig", **given)
    karenina.score(codes[:30], factors[:30], metrics="dci_boosted", protocol=protocol)
    monkeypatch.setattr(scoring, "measure", None)
    with pytest.raises(
        UserWarning, match="boosted trees of angle with its 1,000 classes can take minutes: .*dci_forest"
    ):
        karenina.score(codes, factors, metrics=["mig", "dci_boosted"], **given)
    with pytest.raises(UserWarning, match="boosted trees of factor 1 with its 1,000 classes"):
        dci(codes, factors, model="boosted", continuous=False)


@pytest.mark.filterwarnings("ignore:dropped constant factors")
def test_constant_factors_and_dead_codes_keep_their_places(perfect):
    codes, factors = perfect
    wide = np.column_stack([codes[:, 0], np.zeros(len(codes)), codes[:, 1:]])
    more = np.column_stack([factors[:, :1], np.ones(len(factors)), factors[:, 1:]])
    table = karenina.score(wide, more, metrics=["mig", "dci_lasso", "irs", "sap"])
    assert table["mig"].per_factor.shape == (4,)
    assert np.isnan(table["mig"].per_factor[1])
    assert table["mig"].matrix.shape == (4, 4)
    assert table["mig"].value == pytest.approx(karenina.score(codes, factors, metrics="mig")["mig"].value)
    with pytest.warns(UserWarning, match="dropped constant factors: factor 1"):
        karenina.score(wide, more, metrics="mig")


@pytest.mark.parametrize("protocol", [None, "locatello", "carbonneau"])
def test_codes_and_factors_are_checked_once(monkeypatch, perfect, protocol):
    checked = []

    def recorded(value, argument):
        checked.append(argument)
        return as_matrix(value, argument)

    for module in ("metrics._inputs", "metrics.label_free", "numerics.checks"):
        monkeypatch.setattr(import_module(f"karenina.{module}"), "as_matrix", recorded)
    names = [name for name in QUICK if METRICS[name].settings(protocol) is not None]
    karenina.metrics.score(*perfect, names, protocol, repeats=2, test=perfect)
    assert checked == ["codes", "factors", "test_codes", "test_factors"]


@pytest.mark.parametrize("name", [name for name in METRICS if not METRICS[name].codes_only])
def test_the_public_form_of_a_metric_can_be_read_by_help(name):
    function = METRICS[name].function
    first, second, *rest = inspect.signature(function).parameters.values()
    assert (first.name, second.name) == ("codes", "factors")
    assert {"continuous"} <= {setting.name for setting in rest}
    assert all(setting.kind in (setting.KEYWORD_ONLY, setting.VAR_KEYWORD) for setting in rest)
    page = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert "Parameters" in page
    assert ">>> " in page
    with pytest.raises(TypeError, match="unexpected keyword argument 'bin'"):
        function([[0.0], [1.0]] * 10, [0, 1] * 10, bin=3)


def half_of_mig(codes, factors, seed):
    return karenina.metrics.mig(codes, factors).value / 2 + 0 * seed


half_of_mig.property = "compactness"


def fails(codes, factors):
    raise KeyError("nothing here")


@pytest.fixture
def plug_ins(monkeypatch):
    """Metrics that another package registers: a function, a `Metric`, one that fails, one that cannot be imported."""
    there = {
        "half": half_of_mig,
        "strict": Metric(karenina.metrics.mig, "information", "compactness", {"bins": 3}, locatello={"bins": 4}),
        "fails": fails,
    }
    points = {name: EntryPoint(name, f"{__name__}:{name}", "karenina.metrics") for name in [*there, "broken"]}
    monkeypatch.setattr(EntryPoint, "load", lambda point: there.get(point.name) or __import__("no_such_package"))
    monkeypatch.setattr(_plugins, "found", lambda group: points if group == "metrics" else {})


def test_plug_ins_are_known_by_name(plug_ins, perfect, tmp_path, capsys, monkeypatch):
    from karenina.cli import main
    from karenina.studies.plan import parse

    table = karenina.score(*perfect, metrics=["mig", "half", "strict", "fails"], repeats=2)
    assert table["half"].value == table["mig"].value / 2
    assert table["strict"].value == float(karenina.metrics.mig(*perfect, bins=3))
    assert [row.property for row in table.rows] == ["compactness", "compactness", "compactness", ""]
    assert table.rows[3].note == "raised KeyError: 'nothing here'"
    assert np.isnan(table.rows[3].value)
    assert list(karenina.score(*perfect, "strict", "locatello")) == ["strict"]
    assert "half" not in karenina.score(*perfect, protocol="carbonneau", metrics=None)
    with pytest.raises(ValueError, match="the protocol locatello has no half"):
        karenina.score(*perfect, "half", "locatello")
    with pytest.raises(ValueError, match="no metric 'haf'; did you mean half. Known: z_diff, .*half"):
        karenina.score(*perfect, "haf")
    with pytest.raises(ValueError, match="the plug-in broken .* cannot be loaded"):
        karenina.score(*perfect, "broken")
    plan = parse("data = ['blobs']\nseeds = 1\n[methods.vae]\n[evaluation]\nmetrics = ['mig', 'half']\n")
    assert plan.evaluation.metrics == ("mig", "half")
    np.savez(tmp_path / "codes.npz", codes=perfect[0], factors=perfect[1])
    monkeypatch.setattr("sys.argv", ["karenina", "score", str(tmp_path / "codes.npz"), "--metrics", "half", "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code in (0, None)
    assert json.loads(capsys.readouterr().out)["scores"][0]["value"] == table["half"].value


def test_a_plug_in_metric_of_a_run(plug_ins):
    run = karenina.train("blobs", "vae", latents=2, steps=2)
    found = evaluate(run, metrics=["half"], rows=200)
    assert found.table["half"].value == karenina.metrics.mig(found.codes, found.factors).value / 2


def test_the_parts_of_dci_have_their_names_in_every_table(perfect):
    table = karenina.score(*perfect, metrics=["dci_lasso", "mig"], factor_names=["a", "b", "c"])
    assert list(table.frame.property) == ["modularity", "compactness", "explicitness", "compactness"]
    for part in ("dci_lasso disentanglement", "dci_lasso completeness", "dci_lasso informativeness"):
        assert part in str(table)
        assert part in table._repr_html_()
    assert "mig compactness" not in str(table)
    parts = table.per_factor.groupby("metric").property.unique()
    assert list(parts["dci_lasso"]) == ["compactness", "explicitness"]
    assert list(parts["mig"]) == [""]
    # What older tables say of factors is read as the same score.
    for old, new in (("completeness", "compactness"), ("informativeness", "explicitness")):
        assert score_name("dci_lasso", old) == score_name("dci_lasso", new) == f"dci_lasso {old}"


def test_values_per_factor_have_the_property_that_they_measure(perfect):
    codes, factors = perfect
    frame = pd.DataFrame(codes, columns=["u", "v", "w"])
    table = karenina.score(frame, factors, metrics=["mig", "dci_lasso", "dci_aligned", "infomec", "dci_es"])
    found = {key: part.value.tolist() for key, part in table.per_factor.groupby(["metric", "property"])}
    aligned, es = table["dci_aligned"].aligned, table["dci_es"]
    assert found.pop(("mig", "")) == table["mig"].per_factor.tolist()
    assert found.pop(("dci_aligned", "compactness")) == aligned.per_factor.tolist()
    assert found.pop(("dci_aligned", "explicitness")) == aligned.per_factor_informativeness.tolist()
    assert found.pop(("dci_es", "compactness")) == es.details["completeness"].tolist()
    assert found.pop(("dci_es", "explicitness")) == es.per_factor_informativeness.tolist()
    assert found.pop(("dci_es", "ease of use")) == es.per_factor.tolist()
    for metric in ("dci_lasso", "infomec"):
        assert found.pop((metric, "compactness")) == table[metric].per_factor.tolist()
        assert found.pop((metric, "explicitness")) == table[metric].per_factor_informativeness.tolist()
    assert not found
    assert set(table.per_code.code[table.per_code.metric == "dci_lasso"]) == {"u", "v", "w"}
    assert set(table.per_code.code[table.per_code.metric == "dci_aligned"]) == {0, 1, 2}  # aligned codes are new ones


@pytest.mark.filterwarnings("ignore:dropped constant factors")
def test_values_of_a_function_stand_under_the_factors_that_it_was_given(perfect):
    codes, factors = perfect

    def mine(codes, factors):
        return Result(0.5, np.arange(3.0), matrix=np.ones((3, codes.shape[1])))

    def borrowed(codes, factors):
        return dci(codes, factors)

    given = np.column_stack([np.zeros(len(factors)), factors])
    table = karenina.score(codes, given, metrics=[mine, borrowed], factor_names=["none", "a", "b", "c"])
    frame = table.per_factor[table.per_factor.metric == "mine"]
    assert dict(zip(frame.factor, frame.value))["a"] == 0.0
    assert np.isnan(frame.value.iloc[0])
    assert frame.value.iloc[1:].tolist() == [0, 1, 2]
    assert np.isnan(table["mine"].matrix[0]).all()
    direct = dci(codes, given)
    for name in ("per_factor", "per_factor_informativeness", "importance", "matrix"):
        np.testing.assert_array_equal(getattr(table["borrowed"], name), getattr(direct, name))


def test_halves_in_which_nothing_varies_are_left_out():
    rng = np.random.default_rng(0)
    codes, factors = rng.normal(size=(40, 2)), np.zeros((40, 1), int)
    factors[:2] = 1
    row = karenina.score(codes, factors, metrics="mig", repeats=8).rows[0]
    assert row.std > 0
    assert row.note == "only 40 rows, of which scores are mostly chance"
    rng = np.random.default_rng(3)
    halves = [rng.permutation(40)[:20] for _ in range(2)]
    factors[:] = 0
    factors[np.setdiff1d(np.arange(40), halves)[0]] = 1
    row = karenina.score(codes, factors, metrics="mig", repeats=2, seed=3).rows[0]
    assert np.isfinite(row.value)
    assert np.isnan(row.std)
    few, _, none = row.note.partition("; ")
    assert few == "only 40 rows, of which scores are mostly chance"
    assert none == "no standard deviation: every factor is constant in each of the halves"


def test_one_part_of_a_metric(perfect):
    whole = karenina.score(*perfect, metrics=["dci_lasso"])
    table = karenina.score(*perfect, metrics=["mig", "dci_lasso.completeness"], repeats=2)
    assert [(row.metric, row.property) for row in table.rows] == [("mig", "compactness"), ("dci_lasso", "compactness")]
    assert table.rows[1].value == whole["dci_lasso"].completeness == table["dci_lasso"].completeness
    assert list(table.per_factor.query("metric == 'dci_lasso'").property.unique()) == ["compactness"]
    both = karenina.score(*perfect, metrics="dci_lasso.informativeness")
    assert [row.property for row in both.rows] == ["explicitness"]
    several = ["dci_lasso.informativeness", "dci_lasso.disentanglement"]
    assert [row.property for row in karenina.score(*perfect, several).rows] == ["modularity", "explicitness"]
    for more in (["dci_lasso", *several], [*several, "dci_lasso"]):
        assert len(karenina.score(*perfect, more).rows) == 3
    aligned = karenina.score(*perfect, ["dci_aligned.disentanglement"])
    assert [row.property for row in aligned.rows] == ["modularity"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": "dci_lasso.disentangled"}, "dci_lasso has no part 'disentangled'; did you mean disentanglement"),
        ({"metrics": "mig.value"}, "mig has no parts, so no 'mig.value'"),
        ({"metrics": "dci_laso.disentanglement"}, "no metric 'dci_laso.disentanglement'; did you mean dci_lasso"),
        ({"metrics": "migg"}, "no metric 'migg'; did you mean mig. Known: z_diff"),
        ({"metrics": []}, "no metric asked for"),
        ({"protocol": "mine"}, "no protocol 'mine'"),
        ({"protocol": "locatello", "metrics": "mig_sup"}, "the protocol locatello has no mig_sup"),
        ({"repeats": 0}, "repeats must be an integer of at least 1, got 0"),
        ({"factor_names": ["a"]}, "1 factor names for 3 factors"),
        ({"continuous": [True]}, "continuous must be"),
    ],
)
def test_bad_arguments(perfect, arguments, message):
    with pytest.raises(ValueError, match=message):
        karenina.score(*perfect, **arguments)


def test_bad_arrays(perfect):
    codes, factors = perfect
    spoilt = codes.copy()
    spoilt[3, 1] = np.nan
    with pytest.raises(ValueError, match="codes of shape .* has nan at row 3, column 1"):
        karenina.score(spoilt, factors)
    with pytest.raises(ValueError, match="1499 rows"):
        karenina.score(codes[1:], factors)
    with pytest.raises(ValueError, match="every factor is constant"):
        karenina.score(codes, np.zeros((len(codes), 2)))
    with pytest.raises(ValueError, match="needs the factors"):
        karenina.score(codes)


PREDICTORS = ["dci_boosted", "explicitness", "sap"]


@pytest.mark.parametrize(("rows", "train", "test"), [(9_000, 6_000, 3_000), (18_000, 10_000, 5_000)])
def test_rows_of_the_predictors_of_locatello(monkeypatch, rows, train, test):
    seen = []

    def recorded(*arguments, **more):
        seen.append(drawn(*arguments, **more))
        return seen[-1]

    for module in ("_inputs", "_sap"):
        monkeypatch.setattr(import_module(f"karenina.metrics.{module}"), "drawn", recorded)
    factors = np.random.default_rng(0).integers(2, size=(rows, 1))
    table = karenina.score(factors, factors, PREDICTORS, "locatello")
    assert [(len(a), len(b)) for a, b in seen] == [(train, test)] * 3
    assert not any(np.intersect1d(a, b).size for a, b in seen)
    assert table["dci_boosted"].informativeness == 1.0


def test_predictors_are_fitted_on_the_table_and_tested_on_the_rows_given():
    rng = np.random.default_rng(0)
    factors = rng.integers(3, size=(300, 2))
    codes = factors + 0.1 * rng.normal(size=factors.shape)
    shuffled = rng.permutation(codes)
    for protocol in (None, "locatello"):
        good, bad = (
            karenina.metrics.score(codes, factors, PREDICTORS, protocol, test=(z, factors)) for z in (codes, shuffled)
        )
        assert good["dci_boosted"].informativeness > 0.99
        assert bad["dci_boosted"].informativeness < 0.5
        assert abs(bad["explicitness"].value - 0.5) < 0.1 < good["explicitness"].value - 0.7
        assert bad["sap"].matrix.max() < 0.5 < good["sap"].matrix.max()
        np.testing.assert_array_equal(good["dci_boosted"].importance, bad["dci_boosted"].importance)
    in_sample = karenina.metrics.score(codes, factors, "explicitness", "carbonneau", test=(shuffled, factors))
    assert in_sample["explicitness"].value > 0.9
    spread = karenina.metrics.score(codes, factors, "sap", repeats=3, test=(codes, factors)).rows[0].std
    assert 0 < spread < 0.2
    for test, message in (
        ((codes[:5], factors), r"test has shapes \(5, 2\) and \(300, 2\), expected \(m, 2\) and \(m, 2\)"),
        ((codes[:, :1], factors), "test has shapes"),
        ((codes * np.nan, factors), "test_codes of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            karenina.metrics.score(codes, factors, test=test)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000))
def test_order_sign_and_scale_of_codes_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    factors = rng.integers(4, size=(300, 3))
    codes = np.column_stack([factors + 0.3 * rng.normal(size=factors.shape), rng.normal(size=300)])
    order = rng.permutation(4)
    moved = (codes * rng.uniform(0.5, 20, size=4) + rng.normal(size=4))[:, order]
    names = ["mig", "mig_sup", "jemmig", "modularity", "dcimig", "irs", "dci_lasso"]
    before, after = (karenina.score(z, factors, metrics=names) for z in (codes, moved))
    for one, other in zip(before.rows, after.rows):
        assert one.value == pytest.approx(other.value, abs=1e-6 if "dci" in one.metric else 1e-9), one.metric


@pytest.mark.parametrize("case", ["identity", "perm_dead_noise", "rot45_xy", "noisy_0.1", "duplicated", "random"])
def test_protocol_locatello_agrees_with_the_released_library(case):
    arrays, sampled = planted.published(case), planted.published(case, "sampling")
    (codes, factors), test = planted.reference(case)
    names = ["z_diff", "z_min_variance", "irs", "sap", "mig", "modularity", "explicitness"]
    table = karenina.metrics.score(codes, factors, protocol="locatello", metrics=names, test=test)
    assert table["mig"].value == pytest.approx(arrays["mig"]["result"]["discrete_mig"], abs=1e-9)
    modular = arrays["modularity_explicitness"]["result"]
    assert table["modularity"].value == pytest.approx(modular["modularity_score"], abs=1e-9)
    assert table["explicitness"].value == pytest.approx(modular["explicitness_score_test"], abs=0.001)
    assert table["irs"].value == pytest.approx(arrays["irs"]["result"]["IRS"], abs=1e-9)
    assert table["sap"].value == pytest.approx(arrays["sap_discrete"]["result"]["SAP_score"], abs=0.001)
    for name, key in [("z_diff", "beta_vae_study_10000_5000"), ("z_min_variance", "factor_vae_study_10000_5000")]:
        if key in sampled:
            assert table[name].value == pytest.approx(sampled[key]["result"]["eval_accuracy"], abs=0.03), name


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**600])
def test_units_of_continuous_factors_do_not_matter(unit):
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(300, 3))
    z = v + 0.1 * rng.normal(size=v.shape)
    names = [name for name in QUICK if name != "dci_aligned"]
    plain, scaled = (scoring.score(z, factors, metrics=iter(names)) for factors in (v, unit * v))
    assert {row.metric: row.note for row in scaled.rows} == {row.metric: row.note for row in plain.rows}
    assert [row.value for row in scaled.rows] == pytest.approx([row.value for row in plain.rows], abs=1e-6)
    for model in ("forest", "boosted"):
        assert dci(z, unit * v, model=model).informativeness == pytest.approx(
            dci(z, v, model=model).informativeness, abs=1e-3
        )
    errors = [dci(z, factors, informativeness="nrmse").informativeness for factors in (v, unit * v)]
    assert 0 < errors[0] == pytest.approx(errors[1])


def test_whatever_a_metric_raises_is_its_note(monkeypatch, perfect):
    def full(*args, **more):
        raise MemoryError("Unable to allocate 37.3 GiB")

    def gone(*args, **more):
        raise SystemExit(3)

    monkeypatch.setitem(METRICS, "mig", replace(METRICS["mig"], function=full))
    monkeypatch.setitem(METRICS, "sap", replace(METRICS["sap"], function=gone))
    table = karenina.score(*perfect, metrics=["mig", "modularity", "sap"])
    notes = {row.metric: row.note for row in table.rows}
    assert notes["mig"] == "raised MemoryError: Unable to allocate 37.3 GiB"
    assert notes["sap"] == "raised SystemExit: 3"
    assert float(table["modularity"]) > 0.99


def test_few_rows_are_noted(perfect):
    codes, factors = perfect
    few = karenina.score(codes[:30], factors[:30], metrics=["modularity", "mig"])
    assert all("only 30 rows, of which scores are mostly chance" in row.note for row in few.rows)
    assert not any("rows" in row.note for row in karenina.score(codes, factors, metrics=["modularity"]).rows)


def test_a_table_is_flat_for_loggers(perfect):
    codes, factors = perfect
    names = ["mig", "dci_lasso", "dci_forest.completeness", "mutual_information"]
    table = karenina.score(codes, factors, metrics=names)
    flat = table.flat("val/")
    assert all(type(value) is float and np.isfinite(value) for value in flat.values())
    assert flat["val/mig"] == float(table["mig"])
    assert {"val/dci_lasso.disentanglement", "val/dci_lasso.completeness"} <= set(flat)
    parts = {name.removeprefix("val/") for name in flat if "." in name}
    again = karenina.score(codes, factors, metrics=sorted(parts)).flat()
    assert again == {name: flat[f"val/{name}"] for name in again}
    constant = np.zeros_like(factors)
    with pytest.raises(ValueError):
        karenina.score(codes, constant, metrics=["mig"])


def test_under_a_table_stands_which_to_trust(perfect):
    table = karenina.score(*perfect, metrics=["mig"])
    assert str(table).rstrip().endswith("which to trust: docs/audit.md")
    assert "which to trust" in table._repr_html_()


def test_a_function_of_ones_own_is_scored_by_name(command, perfect, tmp_path):
    np.savez(tmp_path / "both.npz", codes=perfect[0], factors=perfect[1])
    (tmp_path / "ours.py").write_text("def first(codes, factors):\n    return abs(float(codes[0, 0])) % 1\n")
    said = command("score", "both.npz", "--metrics", "mig,ours:first", "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    values = {row["metric"]: row["value"] for row in json.loads(said.stdout)["scores"]}
    assert values["first"] == pytest.approx(abs(perfect[0][0, 0]) % 1)
    for word, message in [("ours:none", "no 'none'"), ("nowhere:f", "cannot import"), ("ours:", "module:function")]:
        said = command("score", "both.npz", "--metrics", word, cwd=tmp_path)
        assert (said.returncode, message in said.stderr, len(said.stderr.splitlines())) == (2, True, 1), said.stderr


@pytest.mark.parametrize("classes", [2, 4])
def test_wide_codes_take_bounded_memory_and_give_the_same(monkeypatch, classes):
    rng = np.random.default_rng(0)
    factors = rng.integers(classes, size=(800, 2))
    codes = np.column_stack([factors + 0.5 * rng.normal(size=factors.shape), rng.normal(size=(800, 20))])
    names = ["explicitness", "infomec"]
    whole = karenina.score(codes, factors, metrics=names).flat()
    monkeypatch.setattr(logistic, "MOST_BYTES", 0)
    assert karenina.score(codes, factors, metrics=names).flat() == pytest.approx(whole, abs=1e-4)


def test_a_thousand_codes_do_not_ask_for_gigabytes():
    x = np.random.default_rng(0).normal(size=(2000, 1000))
    tracemalloc.start()
    design = logistic.Design.of(x)
    assert design.wide
    labels = (x[:, 0] > 0).astype(int)
    logistic.multinomial(design, labels, 2)
    assert tracemalloc.get_traced_memory()[1] < 500e6
    tracemalloc.stop()
