"""Planted results: tables whose right answers are known beforehand."""

import re
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from karenina.papers import make, of_paper, printed
from karenina.papers.duan2020 import tables as duan2020
from karenina.papers.eastwood2018 import tables as eastwood2018
from karenina.papers.holtz2022 import tables as holtz2022
from karenina.papers.locatello2019 import tables as locatello2019
from karenina.papers.locatello2019 import tasks as locatello2019_tasks
from karenina.papers.tables import PaperTable, compared, markdown
from karenina.studies.analyses.scores import wide_table
from karenina.studies.plan import parse
from karenina.studies.study import NotEnough, Study, _made_from, schema, write_parquet

mpl.use("agg")

FAMILY = {"udr": "selection", "dynamics": "selection", "downstream": "task", "fairness": "task", "zero_shot": "task"}
LABEL_FREE = ("informative_latents", "total_correlation", "elbo")


def rows(metric, values, *, data="dsprites", method="beta_vae", seeds=None, **more):
    """Results of one metric: values (strengths, seeds), strength 1, 2, ... Every run has a name of its own."""
    cube = np.atleast_2d(np.asarray(values, float))
    k, s = (axis.ravel() for axis in np.indices(cube.shape))
    frame = pd.DataFrame({"strength": k + 1.0, "seed": s, "value": cube.ravel()})
    family = next((f for start, f in FAMILY.items() if metric.startswith(start)), "predictor")
    family = "label-free" if metric.startswith(LABEL_FREE) else family
    frame = frame.assign(data=data, method=method, metric=metric, family=family, property="", factor="", std=np.nan)
    frame["run"] = [f"{data}-{method}-{a}-{b}" for a, b in zip(k, s)]
    frame["setting"] = [f"{method}-{a}" for a in k]
    frame["parameters"] = [f"beta={a + 1}" for a in k]
    return frame.assign(parameter="beta", latents=10, network="mlp", steps=1).assign(**more)


def study_of(*frames):
    return Study(frame=pd.concat(frames, ignore_index=True))


def cells(table, *keys):
    return table.frame.set_index(list(keys))["value"]


def ours_and_theirs(paper, name, table):
    return compared(table.frame, printed(paper, name))


@pytest.fixture
def analysed(tmp_path):
    """A paper's table as it is written for a results.parquet made by hand."""

    def table(paper, name, *frames):
        folder = Study(tmp_path)
        plan = folder.adopt(parse('data = "dsprites"\nseeds = 1\nmethods.beta_vae = {}'))
        planted = pa.Table.from_pandas(pd.concat(frames), schema("results"), preserve_index=False)
        made = _made_from(plan, [])  # no run is in the folder
        write_parquet(folder.results_path, planted.replace_schema_metadata(made))
        return pd.read_csv(make(of_paper(paper)[name], Study(tmp_path), tmp_path / "analysis").files[0])

    return table


# Ranks whose Spearman correlation is 1 - 6 * 4 / 120 = 0.8.
ASCENDING = np.arange(5.0)
SWAPPED = np.array([1.0, 0, 3, 2, 4])


def method_effect():
    """Two methods at +-a, two strengths at +-b, seeds at +-c: shares a^2, b^2 and c^2 of the variance."""
    a, b, c = np.sqrt([0.4, 0.25, 0.35])
    seeds = np.array([-c, c] * 3)
    return [
        rows("mig", np.stack([sign * a - b + seeds, sign * a + b + seeds]), method=method)
        for method, sign in (("beta_vae", 1), ("factor_vae", -1))
    ]


def test_a_method_effect_of_40_percent_of_the_variance(analysed):
    found = analysed("locatello2019", "table_5", *method_effect()).set_index("predictor")
    assert found.loc["method", "explained"] == pytest.approx(0.40, abs=1e-12)
    assert found.loc["setting", "explained"] == pytest.approx(0.65, abs=1e-12)
    assert found.loc["method", "value"] == pytest.approx(0.3825)  # without what chance explains in two groups
    assert found.loc["method", "paper"] == 0.26  # MIG on dSprites
    assert found.loc["setting", "paper"] == 0.72
    assert found.loc["method", "difference"] == pytest.approx(0.3825 - 0.26)


def test_a_udr_correlation_of_exactly_8_tenths(analysed):
    versions = {"udr_lasso": SWAPPED, "udr_spearman": -SWAPPED}
    parts = [rows("mig", ASCENDING), *(rows(name, values) for name, values in versions.items())]
    found = analysed("duan2020", "table_1", *parts).set_index("version")
    assert found["value"].to_dict() == pytest.approx({"udr_lasso": 0.8, "udr_spearman": -0.8})
    assert found.loc["udr_lasso", "paper"] == 0.60
    assert found.loc["udr_lasso", "difference"] == pytest.approx(0.20)


def test_dip_vae_of_table_1_is_both_together():
    one, two = np.array([0.0, 1, 2]), np.array([3.0, 4])
    parts = [rows(m, v, method="dip_vae_i") for m, v in (("mig", one), ("udr_lasso", one))]
    parts += [rows(m, v, method="dip_vae_ii") for m, v in (("mig", two), ("udr_lasso", two))]
    found = ours_and_theirs("duan2020", "table_1", duan2020.table_1(study_of(*parts))).set_index("method")
    assert found.loc["dip_vae", "runs"] == 5
    assert found.loc["dip_vae", "value"] == pytest.approx(1)
    assert found.loc["dip_vae", "paper"] == 0.61


def test_versions_averaged_over_metrics_and_metrics_with_one_another():
    metrics = ("z_diff", "z_min_variance", "mig", "dci_boosted")
    study = study_of(*(rows(m, ASCENDING) for m in metrics), rows("udr_lasso", SWAPPED))
    found = ours_and_theirs("duan2020", "table_7", duan2020.table_7(study)).set_index("version")
    assert found.loc["udr_lasso", ["value", "std", "paper", "paper_std"]].tolist() == pytest.approx(
        [0.8, 0, 0.54, 0.06]
    )
    assert found.loc["supervised", "value"] == pytest.approx(1)


def test_table_7_averages_the_papers_classes_and_data_sets():
    """FactorVAE and Cars3D, on which UDR is of no use, do not count; the two DIP-VAEs are one class."""
    metrics = ("z_diff", "z_min_variance", "mig", "dci_boosted")
    parts = [rows(m, ASCENDING) for m in metrics] + [rows("udr_lasso", SWAPPED)]
    for other in ({"method": "factor_vae"}, {"data": "cars3d"}):
        parts += [rows(m, ASCENDING, **other) for m in metrics] + [rows("udr_lasso", -ASCENDING, **other)]
    for method, shift in (("dip_vae_i", 0), ("dip_vae_ii", 5)):
        parts += [rows(m, ASCENDING + shift, method=method) for m in (*metrics, "udr_lasso")]
    table = duan2020.table_7(study_of(*parts))
    found = table.frame.set_index("version")
    assert found.loc["udr_lasso", "value"] == pytest.approx((0.8 + 1) / 2)
    assert found.loc["udr_lasso", "cells"] == 8
    assert "dSprites and β-VAE, DIP-VAE-I and -II." in table.note


def test_only_the_papers_metrics_count():
    """IRS agrees with UDR, the paper's metric does not: it is the paper's that the table shows."""
    study = study_of(rows("mig", -ASCENDING), rows("irs", ASCENDING), rows("udr_lasso", ASCENDING))
    assert cells(duan2020.table_7(study), "version")["udr_lasso"] == pytest.approx(-1)
    missing = "z_diff, z_min_variance, dci_boosted under [evaluation] metrics in study.toml"
    assert study.notes == [f"without {missing}, then `karenina study run`"]


def test_a_part_of_dci_is_chosen_by_its_property():
    parts = {"modularity": ASCENDING, "compactness": -ASCENDING, "explicitness": 0 * ASCENDING}
    dci = [rows("dci_boosted", values, property=prop) for prop, values in parts.items()]
    study = study_of(*dci, rows("udr_lasso", ASCENDING))
    found = wide_table(study.words_of({"DCI Disentanglement": ("dci_boosted", "modularity")}))
    assert found.values[:, found.names.index("DCI Disentanglement")].tolist() == ASCENDING.tolist()


def test_another_part_of_dci_alone_is_not_taken_for_disentanglement():
    study = study_of(rows("mig", ASCENDING), rows("dci_boosted", ASCENDING, property="compactness"))
    assert "DCI Disentanglement" not in wide_table(study.words_of(duan2020.METRICS)).names
    assert "dci_boosted" in study.notes[0]


def test_one_part_alone_has_the_name_that_it_has_among_all():
    alone = study_of(rows("dci_boosted", ASCENDING, property="modularity")).frame
    assert wide_table(alone).names == ("dci_boosted disentanglement",)


def test_a_transfer_that_works_for_one_metric_alone(analysed):
    """MIG ranks eight settings alike on two data sets, SAP in reverse; every seed is the same."""
    order = np.repeat(np.arange(8.0)[:, None], 3, axis=1)
    parts = [
        rows("mig", order),
        rows("mig", order, data="shapes3d"),
        rows("sap", order),
        rows("sap", -order, data="shapes3d"),
    ]
    moved = locatello2019._transfer(study_of(*parts)).set_index("score")["correlation"]
    assert moved.to_dict() == pytest.approx({"MIG": 1, "SAP": -1})
    found = analysed("locatello2019", "table_1", *parts).set_index(["metric", "data"])
    assert found.loc[("same", "same"), "value"] == 1
    # MIG always wins; SAP takes what is worst there, which equals a random setting once in eight times.
    assert found.loc[("same", "other"), "value"] == pytest.approx((1 + 1 / 8) / 2, abs=0.02)
    assert found["paper"].tolist() == [0.807, 0.593, 0.626, 0.549]


def test_a_label_noise_that_halves_the_correlation(analysed):
    x = np.array([1.0, 1, -1, -1, 1, -1, 1, -1])
    e = np.array([1.0, -1, 1, -1, 1, 1, -1, -1])
    assert x @ e == 0
    noisy = 0.5 * x + np.sqrt(0.75) * e
    parts = [rows("mig", x), rows("z_diff", x), rows("dynamics", x), rows("udr_spearman", x)]
    parts += [
        rows(f"mig_noise_{r}", values, family="label noise") for r, values in ((1, noisy), (2, -x), (3, x), (0, x))
    ]
    found = analysed("holtz2022", "table_3", *parts).set_index(["score", "regime"])
    assert found.loc["MIG", "value"].tolist() == pytest.approx([0.5, -1, 1])
    assert found.loc[("MIG", 1), "paper"] == 0.86
    assert found.loc["dynamics", "value"].tolist() == found.loc["udr_spearman", "value"].tolist() == [1, 1, 1]
    assert "FactorVAE score" not in found.index


def test_scores_under_noise_are_no_metrics_of_their_own():
    x = np.arange(6.0)
    study = study_of(rows("mig", x), rows("udr_lasso", x), rows("mig_noise_1", -x, family="label noise"))
    table = wide_table(study.frame)
    assert [table.names[j] for j in table.columns(supervised=True)] == ["mig"]


def test_unfairness_goes_down_with_every_score():
    study = study_of(rows("mig", ASCENDING), rows("dynamics", SWAPPED), rows("fairness_mean", -ASCENDING))
    found = ours_and_theirs("holtz2022", "table_4", holtz2022.table_4(study)).set_index("score")
    assert found["value"].to_dict() == pytest.approx({"dynamics": -0.8, "MIG": -1})
    assert found.loc["dynamics", "paper"] == -0.72


def test_latents_switched_off():
    parts = [rows("informative_latents", [7.0, 7, 8, 6]), rows("informative_latents", [10.0, 10], method="dip_vae_i")]
    found = ours_and_theirs("duan2020", "appendix_a10", duan2020.appendix_a10(study_of(*parts))).set_index("method")
    assert found.loc["dip_vae_i", "value"] == 0
    assert found.loc["all but dip_vae_i", "value"] == 3
    assert found.loc["all but dip_vae_i", "paper"] == 2.95
    assert found.loc["all but dip_vae_i", "difference"] == pytest.approx(0.05)


def regression(model, part, values, method="vae", seeds=1):
    parts = []
    for of, value in values.items():
        frame = rows(f"regression_{model}", [[value] * seeds], method=method, property=part, factor=of, data="teapots")
        parts.append(frame.assign(family="regression"))
    return pd.concat(parts)


def test_regression_tables_with_the_papers_values_beside():
    parts = [
        regression("lasso", "disentanglement", {"": 0.70, "code 0": 0.9, "code 1": 1.0}),
        regression("lasso", "completeness", {"": 0.6, "azimuth": 0.5}),
        regression("lasso", "nrmse", {"": 0.4, "azimuth": 0.61, "red": 0.3}, seeds=2),
        regression("forest", "nrmse", {"": 0.1, "azimuth": 0.2}),
    ]
    study = study_of(*parts)
    one = ours_and_theirs("eastwood2018", "table_1", eastwood2018.table_1(study)).set_index(["model", "part"])
    assert one.loc[("lasso", "disentanglement"), ["value", "paper"]].tolist() == [0.70, 0.67]
    assert one.loc[("forest", "nrmse"), "difference"] == pytest.approx(0.01)
    three = ours_and_theirs("eastwood2018", "table_3", eastwood2018.table_3(study)).set_index(["part", "of"])
    assert three.loc[("disentanglement", "rank 1"), "value"] == 1.0  # in whatever order the codes are
    assert three.loc[("disentanglement", "rank 2"), "value"] == 0.9
    assert three.loc[("nrmse", "azimuth"), "difference"] == pytest.approx(0)
    assert three.loc[("nrmse", "red"), "runs"] == 2
    four = ours_and_theirs("eastwood2018", "table_4", eastwood2018.table_4(study)).set_index(["part", "of"])
    assert four.loc[("nrmse", "average"), "paper"] == 0.09


def test_zero_shot_table():
    parts = [rows("zero_shot_forest_inside", [[v]], method="pca", factor=f) for f, v in (("", 0.5), ("red", 0.7))]
    found = ours_and_theirs("eastwood2018", "table_5", eastwood2018.table_5(study_of(*parts))).set_index("factor")
    assert found.loc["red", ["value", "paper"]].tolist() == [0.7, 0.65]
    assert found.loc["average", "difference"] == pytest.approx(-0.05)


def test_three_groups_of_downstream_curves():
    """Nine models in three groups by MIG: the curves are the means of each group."""
    mig = np.array([5.0, 1, 9, 2, 8, 3, 7, 4, 6])
    level = np.ceil(mig / 3)  # 1, 2 or 3: the group
    parts = [rows("mig", mig)]
    parts += [
        rows(f"downstream_{m}_{size}", level * size, seeds=9) for m in ("logistic", "boosted") for size in (10, 100)
    ]
    figure = locatello2019_tasks.figure_23(study_of(*parts))
    assert len(figure.axes) == 2
    for axis in figure.axes:
        assert [line.get_ydata().tolist() for line in axis.lines] == [[10, 100], [20, 200], [30, 300]]
    # A model without tasks is in no group, whatever its MIG.
    more = rows("mig", [10.0], method="vae"), rows("mig", [1.0], data="blobs")
    again = locatello2019_tasks.figure_23(study_of(*parts, *more))
    assert len(again.axes) == 2  # and a data set without tasks in no panel
    for axis in again.axes:
        assert [line.get_ydata().tolist() for line in axis.lines] == [[10, 100], [20, 200], [30, 300]]


def test_violins_and_boxes_one_for_each_strength():
    rng = np.random.default_rng(0)
    metrics = ("z_diff", "z_min_variance", "mig", "dci_boosted")
    parts = [rows(m, rng.normal(size=(3, 8))) for m in (*metrics, "udr_lasso")]
    study = study_of(*parts)
    violins = locatello2019.figure_14(study)
    assert [len([c for c in axis.collections if "Poly" in type(c).__name__]) for axis in violins.axes] == [3] * 4
    boxes = duan2020.figure_2(study)
    assert len(boxes.axes) == 5  # UDR and four metrics
    for axis in boxes.axes:
        medians = [line for line in axis.lines if line.get_color() == "#D55E00"]
        assert len(medians) == 3
    drawn = boxes.axes[3].lines
    medians = [line.get_ydata()[0] for line in drawn if line.get_color() == "#D55E00"]
    mig = study.frame[study.frame["metric"] == "mig"].groupby("strength")["value"].median()
    assert medians == pytest.approx(mig.tolist())
    bold = [label.get_text() for label in boxes.axes[3].get_xticklabels() if label.get_fontweight() == "bold"]
    assert bold == [f"{mig.idxmax():g}"]


def test_mmd_is_kept_apart_by_the_number_of_latents():
    """Two latent sizes of one strength are two points, not their mean."""
    parts = [rows("dynamics", [[-0.1] * 2]), rows("dynamics", [[-0.3] * 2]).assign(latents=4, run=["a", "b"])]
    found = holtz2022.mean_mmd(study_of(*parts).frame).set_index("latents")["value"]
    assert found.to_dict() == pytest.approx({4: 0.3, 10: 0.1})


def test_a_data_set_with_options_is_compared_by_its_name():
    study = study_of(
        rows("mig", ASCENDING, data="dsprites:side=16"), rows("udr_lasso", SWAPPED, data="dsprites:side=16")
    )
    found = ours_and_theirs("duan2020", "table_1", duan2020.table_1(study))
    assert found["data"].tolist() == ["dsprites:side=16"]
    assert found["paper"].tolist() == [0.60]


def test_markdown_has_ours_the_papers_and_the_difference():
    study = study_of(rows("mig", ASCENDING), rows("udr_lasso", SWAPPED))
    text = markdown(of_paper("duan2020")["table_1"], duan2020.table_1(study))
    assert text.startswith("# Table 1\n")
    assert re.search(r"\| dSprites \| β-VAE \| 0\.80 \(0\.60, \+0\.20\) \|", text)
    assert "23 of the paper's 24 values have no counterpart" in text
    assert (
        "| shapes3d | dip_vae | 0.75 | 0.74 | 0.75 | 0.78 |".replace("shapes3d", "Shapes3D").replace(
            "dip_vae", "DIP-VAE-I and -II"
        )
        in text
    )


def test_a_table_without_a_counterpart_has_no_difference():
    frame = pd.DataFrame({"data": ["blobs"], "method": ["vae"], "version": ["udr_lasso"], "value": [0.5]})
    item = of_paper("duan2020")["table_1"]
    assert compared(frame, printed("duan2020", "table_1"))[["paper", "difference"]].isna().all(axis=None)
    text = markdown(item, PaperTable(frame, ("data", "method"), ("version",)))
    assert "| blobs | VAE | 0.50 |" in text
    assert "Each cell" not in text


@pytest.mark.parametrize("paper", ["duan2020", "holtz2022", "locatello2019", "carbonneau2022", "eastwood2018"])
def test_what_cannot_be_made_says_in_one_line_what_is_missing(paper, tmp_path):
    """Results of one metric and no folder: nothing fails, every line says what is needed."""
    for item in of_paper(paper).values():
        made = make(item, study_of(rows("mig_sup", ASCENDING)), tmp_path)
        assert bool(made.files) != bool(made.missing)
        if made.missing:
            assert made.missing.startswith("needs ")
            assert "\n" not in made.missing
            assert "`karenina " in made.missing, made.missing


def test_needs_say_how_to_get_it():
    study = study_of(rows("mig", ASCENDING))
    with pytest.raises(NotEnough, match=r"needs trace = true and two seeds of a setting in study.toml"):
        holtz2022.figure_4(study)
    with pytest.raises(NotEnough, match=r'needs also = \["label_noise"\] under \[evaluation\] in study.toml'):
        holtz2022.table_3(study)
    with pytest.raises(NotEnough, match=r"needs tasks = true under \[evaluation\] in study.toml"):
        locatello2019_tasks.figure_22(study)


def test_figure_19_has_the_data_sets_whose_tasks_were_measured():
    measured = [rows("mig", ASCENDING), rows("downstream_boosted_100", SWAPPED, family="task")]
    figure = locatello2019_tasks.figure_19(study_of(*measured, rows("mig", ASCENDING, data="blobs")))
    assert [axis.get_title() for axis in figure.axes if axis.images] == ["dsprites"]
    assert "0.80" in {text.get_text() for axis in figure.axes for text in axis.texts}


def test_continuous_factors_are_drawn_where_they_are(monkeypatch):
    """Figure 5 of Eastwood & Williams: no jitter, and three codes for the azimuth."""
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(80, 2))
    codes = np.column_stack([factors[:, 1], factors[:, 0], factors[:, 0] ** 2, rng.normal(size=80)])
    study = SimpleNamespace(
        data=lambda name: SimpleNamespace(factor_names=("azimuth", "red"), labelled=True),
        codes=lambda run: (codes, np.ones(4)),
        inputs=lambda name: (None, factors),
    )
    runs = pd.DataFrame({"data": ["teapots"], "method": ["vae"], "parameters": [""]}, index=["run"])
    monkeypatch.setattr(eastwood2018, "_one_of_each", lambda study: runs)
    axes = [axis for axis in eastwood2018.figure_5(study).axes if axis.lines]
    assert [axis.get_xlabel() for axis in axes] == ["azimuth"] * 3 + ["red"]
    for axis, factor in zip(axes, (0, 0, 0, 1)):
        np.testing.assert_array_equal(axis.lines[0].get_xdata(), factors[:, factor])
    assert {axis.get_ylabel() for axis in axes[:2]} == {"code 1", "code 2"}
    assert axes[3].get_ylabel() == "code 0"


def test_models_without_a_strength_are_one_violin():
    table = locatello2019.figure_3(study_of(rows("z_min_variance", [[0.1, 0.2, 0.4]], method="vae", strength=np.nan)))
    assert [text.get_text() for text in table.axes[1].get_xticklabels()] == [""]
    assert len(table.axes[1].collections) > 0


def test_dynamics_of_one_data_set_are_drawn_together(monkeypatch, tmp_path):
    """A setting has the same name on every data set; only its seeds on one of them are embedded jointly."""
    frames = [rows("dynamics", [[-0.1, -0.1]], data=data) for data in ("dsprites", "blobs")]
    study, drawn = Study(tmp_path, pd.concat(frames, ignore_index=True)), []
    (tmp_path / "study.toml").touch()
    for run in study.frame["run"]:
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "trace.npy").touch()
    rng = np.random.default_rng(0)
    monkeypatch.setattr(holtz2022, "_trace", lambda _, run: drawn.append(run) or rng.normal(size=(4, 12, 5)))
    holtz2022.figure_4(study)
    assert drawn == ["blobs-beta_vae-0-0", "blobs-beta_vae-0-1"]
