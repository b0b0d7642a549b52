"""The main tables of the papers since 2020, on planted results."""

import pandas as pd
import pytest

from karenina.papers.since2020 import tables as since_2020
from karenina.studies.plan import preset
from karenina.studies.study import NotEnough, Study


def row(value, *, data="blobs", method="beta_vae", parameters="beta=1", seed=0, metric="mig", family="information"):
    run = f"{data}-{method}-{parameters}-{seed}"
    about = {"run": run, "data": data, "method": method, "parameters": parameters, "seed": seed, "setting": parameters}
    return {**about, "metric": metric, "family": family, "property": "compactness", "factor": "", "value": value}


def study(rows):
    return Study(frame=pd.DataFrame(rows))


def test_pairs_shows_the_best_setting_and_the_choice_by_reconstruction():
    rows = []
    for method, shift in (("beta_vae", 0.0), ("ada_gvae", 0.5)):
        for beta, base in ((1, 0.1), (4, 0.2)):
            for seed in range(3):
                given = {"method": method, "parameters": f"beta={beta}", "seed": seed}
                rows.append(row(base + shift + seed / 100, **given))
                rows.append(row(100 * beta - seed, metric="reconstruction", family="label-free", **given))
    table = since_2020.pairs(study(rows)).frame.set_index(["method", "choice"])["value"]
    assert table["beta_vae", "best"] == pytest.approx(0.21)  # the median of beta 4
    assert table["ada_gvae", "best"] == pytest.approx(0.71)
    assert table["beta_vae", "reconstruction"] == pytest.approx(0.12)  # beta 1, seed 2
    assert table["ada_gvae", "reconstruction"] == pytest.approx(0.62)


def test_few_labels_are_told_apart_by_their_number():
    rows = [
        row(0.1 * n + seed / 100, parameters=f"beta=4 supervised={100 * n}", seed=seed)
        for n in (0, 1)
        for seed in (0, 2)
    ]
    table = since_2020.few_labels(study(rows)).frame.set_index("labels")["value"]
    assert table.to_dict() == pytest.approx({0: 0.01, 100: 0.11})
    with pytest.raises(NotEnough, match=r"supervised = \[0, 100\]"):
        since_2020.few_labels(study([row(0.1)]))


def test_correlations_are_ordered_from_none_to_strong():
    names = ["blobs:correlate=x+y,sigma=0.1", "blobs", "blobs:correlate=x+y,sigma=0.4"]
    table = since_2020.correlated(study([row(i / 10, data=name) for i, name in enumerate(names)])).frame
    assert table["sigma"].tolist() == [float("inf"), 0.4, 0.1]
    assert table["value"].tolist() == [0.1, 0.2, 0.0]
    with pytest.raises(NotEnough, match="needs correlated data"):
        since_2020.correlated(study([row(0.1)]))


def test_quantised_latents():
    table = since_2020.quantised(study([row(0.3, method="qlae", parameters=""), row(0.2)])).frame
    assert table.set_index("method")["value"].to_dict() == {"qlae": 0.3, "beta_vae": 0.2}
    with pytest.raises(NotEnough, match="needs metrics"):
        since_2020.quantised(study([row(0.3, family="label-free")]))


def test_paper_scale_sweeps_what_the_papers_do():
    points = preset("locatello2020_pairs", "paper").points
    assert {dict(p.parameters)["k"] for p in points if p.method == "ada_gvae"} == {1, "random"}
    labels = {dict(p.parameters)["supervised"] for p in preset("locatello2020_few_labels", "paper").points}
    assert labels == {0, 100, 1000}
    data = {p.data for p in preset("traeuble2021", "paper").points}
    assert {"dsprites", "dsprites:correlate=orientation+x,sigma=0.2"} <= data
    assert {p.latents for p in preset("hsu2023", "paper").points} == {12}
    counts = {n: [len(preset(n, scale).points) for scale in ("smoke", "laptop", "paper")] for n in LATER}
    assert counts == LATER


LATER = {
    "locatello2020_pairs": [8, 75, 1500],
    "locatello2020_few_labels": [8, 40, 2880],
    "traeuble2021": [12, 150, 2880],
    "hsu2023": [6, 35, 130],
}


def test_settings_of_equal_parameters_are_told_apart_and_label_noise_is_no_score():
    rows = [{**row(0.1 * n + seed / 100, seed=seed), "setting": f"{n} latents"} for n in (2, 8) for seed in range(3)]
    rows += [{**one, "metric": "mig_noise_1", "family": "label noise"} for one in rows]
    table = since_2020.quantised(study(rows)).frame
    assert table[["score", "runs"]].to_numpy().tolist() == [["mig", 3]]
    assert table["value"].tolist() == [pytest.approx(0.81)]
