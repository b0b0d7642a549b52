"""Tables and figures of Duan et al. (2020)."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from karenina._files import read_json
from karenina.drawing.charts import colour, panel_grid
from karenina.drawing.figure import Figure
from karenina.evaluation.criteria import compute_udr, has_partners
from karenina.papers import printed
from karenina.papers.drawing import about, by_hyperparameter, column, correlation_map, first_known, scatter, unique
from karenina.papers.tables import BETAVAE, DCI, FACTORVAE, MIG, PaperTable, name
from karenina.selection import Preset
from karenina.studies.analyses.by_setting import polarised
from karenina.studies.analyses.correlations import udr_partners, udr_versions, unsupervised
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import NotEnough, Study

METRICS = {**BETAVAE, **FACTORVAE, **MIG, **DCI}
DATA = ("dsprites", "shapes3d")
OVER = "Mean ± standard deviation over data sets x methods x metrics"
CLASSES = ("beta_vae", "beta_tcvae", "dip_vae")
VERSIONS = ("udr_lasso", "udr_lasso_a2a", "udr_spearman", "udr_spearman_a2a")
ANY_UDR = "UDR: two seeds of a setting, and udr under [selection] in study.toml, then `karenina study run`"
FAIRNESS = "fairness: tasks = true under [evaluation] in study.toml, then `karenina study run`"
CLUSTERING = "which `karenina study run clustering --out DIR/clustering` adds to the study DIR"


def table_1(study: Study) -> PaperTable:
    frame = study.words_of(MIG)
    dip = frame[frame["method"].isin(["dip_vae_i", "dip_vae_ii"])].assign(method="dip_vae")
    parts = [_correlations(part) for part in (frame, dip) if len(part)]
    found = pd.concat(parts, ignore_index=True)
    return PaperTable(found, ("data", "method"), ("version",))


def _correlations(frame: pd.DataFrame) -> pd.DataFrame:
    found = unsupervised(frame, ("data", "method"), ("udr",))
    found = found.sort_values("unsupervised", key=lambda column: column.map(VERSIONS.index), kind="stable")
    return found.rename(columns={"unsupervised": "version", "correlation": "value"}).drop(columns="score")


def table_2(study: Study) -> PaperTable:
    found = _partners(study)
    shown = found.rename(columns={"correlation": "value"}).drop(columns="score")
    note = f"Means and standard deviations over {int(found['draws'].max())} draws of the partners."
    return PaperTable(shown, ("data", "method", "version"), ("partners",), note=note)


def figure_8(study: Study) -> Figure:
    found = _partners(study)
    groups = list(found.groupby(["data", "method"], sort=False))
    figure, axes = panel_grid(1, len(groups), 3.2, 2.6)
    for axis, ((data, method), part) in zip(axes[0], groups):
        for i, (version, line) in enumerate(part.groupby("version", sort=False)):
            points = (line[key] for key in ("partners", "correlation", "std"))
            axis.errorbar(*points, marker=".", color=colour(i), label=version)
        axis.set_title(f"{name(data)}, {name(method)}", fontsize=8)
        axis.set_xlabel("partners", fontsize=7)
        axis.tick_params(labelsize=7)
    axes[0, 0].set_ylabel("rank correlation with the BetaVAE score", fontsize=7)
    axes[0, 0].legend(fontsize=6)
    return figure


def _partners(study: Study) -> pd.DataFrame:
    """Return the rank correlation with the BetaVAE score by version and number of partners."""
    frame = study.words_of(BETAVAE)
    remedy = "two seeds of a setting; `karenina study run` writes it when all models are there"
    try:
        pairs = study.extra("partners", remedy)
    except NotEnough:
        pairs = study.extra("pairs", remedy).assign(version=study.plan.selection.udr[0])
        study.note(f"only {study.plan.selection.udr[0]}: `karenina study run` adds the other versions")
    parts = [
        udr_partners(frame, part).assign(version=version) for version, part in pairs.groupby("version", sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def table_7(study: Study) -> PaperTable:
    frame, which = _classes(study.words_of(METRICS))
    found = udr_versions(frame).rename(columns={"correlation": "value"})
    return PaperTable(found, ("version",), note=f"{OVER}, {which}.")


def _classes(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the results of the paper's three model classes and two data sets (Table 1, figure 6), as far as a study
    has them.

    A study that has none of the classes, or of the data sets, is taken whole in that respect.
    """
    frame = frame.assign(method=frame["method"].replace({"dip_vae_i": "dip_vae", "dip_vae_ii": "dip_vae"}))
    kept = []
    for key, theirs in (("data", DATA), ("method", CLASSES)):
        plain = frame[key].str.split(":").str[0]
        if plain.isin(theirs).any():
            frame = frame[plain.isin(theirs)]
        kept.append(", ".join(name(one) for one in unique(frame[key])))
    return frame, " and ".join(kept)


def equation_2(study: Study) -> PaperTable:
    """Compare UDR with inactive latents set to 0, as in the authors' release, or left as they are, as the text has
    it."""
    ways = {"set to 0 (here, and the release)": {}, "kept (the text)": {"uninformative": "keep"}}
    return _readings(study, "uninformative latents", ways)


def appendix_a2(study: Study) -> PaperTable:
    """Compare UDR by equation 2 and by the entropies of DCI, which the paper found inferior."""
    ways = {"equation 2": {}, "entropies, as in DCI": {"aggregation": "entropy"}}
    return _readings(study, "aggregation", ways)


def _readings(study: Study, key: str, ways: Mapping[str, Mapping[str, Any]]) -> PaperTable:
    """Return the rank correlation with the metrics of UDR within a setting, computed anew in each way (options of a
    `Preset`)."""
    frame = study.words_of(METRICS)
    runs = about(study)
    parts = []
    for words, given in ways.items():
        rows = [_udr_of(study, part, Preset(**given)) for _, part in runs.groupby("data", sort=False)]
        scored = pd.concat([frame[~frame["metric"].isin(VERSIONS)], *rows], ignore_index=True)
        found = udr_versions(_classes(scored)[0])
        parts.append(found[found["version"] != "supervised"].assign(**{key: words}))
    both = pd.concat(parts, ignore_index=True).rename(columns={"correlation": "value"})
    return PaperTable(both, (key,), ("version",), note=f"{OVER}, {_classes(frame)[1]}.")


def _udr_of(study: Study, runs: pd.DataFrame, preset: Any) -> pd.DataFrame:
    """Return rows of the results: both versions within a setting, of the runs of a data set."""
    settings = list(runs["setting"])
    study.folder()
    if not has_partners("udr_lasso", settings):
        raise NotEnough(f"needs {ANY_UDR}")
    codes, kl = zip(*(study.codes(str(run)) for run in runs.index))
    chosen = study.plan.selection
    options = {key: getattr(chosen, key) for key in ("partners", "spearman_rows", "kl_threshold")}
    rows = []
    for version in ("udr_lasso", "udr_spearman"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a model without a partner has no score
            found = compute_udr(version, codes, kl, settings, preset=preset, **options)
        whole = {"metric": version, "family": "selection", "property": "", "factor": ""}
        rows.append(runs.reset_index().assign(value=found.scores, **whole))
    return pd.concat(rows)


def figure_2(study: Study) -> Figure:
    scores = wide_table(study.words_of(METRICS))
    udr = first_known(scores, VERSIONS, ANY_UDR)
    return by_hyperparameter(scores, [udr, *METRICS], "box")


def figure_7(study: Study) -> Figure:
    scores = wide_table(study.words_of(METRICS))
    first_known(scores, VERSIONS, ANY_UDR)
    return by_hyperparameter(scores, [*VERSIONS, *METRICS], "box")


def figure_6(study: Study) -> Figure:
    frame = _classes(study.words_of(METRICS))[0]
    return correlation_map(unsupervised(frame, ("data", "method"), ("udr",)))


def figure_11(study: Study) -> Figure:
    """Draw UDR_L against unfairness on the left, a row per method and a column per data set; on the right UDR_S against
    steps."""
    scores = wide_table(study.frame)
    agents = clustering_rows(study)
    measured = scores.runs[np.isfinite(column(scores, "fairness_mean"))]
    fair = len(measured) > 0
    if not fair and not agents:
        raise NotEnough(f"needs {FAIRNESS}")
    methods, datas = (unique(measured["method"]), unique(measured["data"])) if fair else ([""], [])
    figure, axes = panel_grid(len(methods), len(datas) + bool(agents), 2.6, 2.2)
    udr = first_known(scores, VERSIONS, ANY_UDR) if fair else ""
    theirs = printed("duan2020", "figure_11")
    assert theirs is not None
    paper = dict(zip(theirs.frame["task"], theirs.frame["value"]))
    for line, method in zip(axes, methods):
        for axis, data in zip(line, datas):
            here = ((scores.runs["data"] == data) & (scores.runs["method"] == method)).to_numpy()
            strength = scores.runs["strength"][here].map("{:g}".format)
            scatter(axis, column(scores, udr)[here], column(scores, "fairness_mean")[here], list(strength))
            axis.set_title(f"{name(method)}, {name(data)}", fontsize=7)
            axis.set_xlabel(udr, fontsize=6)
            axis.set_ylabel("unfairness", fontsize=6)
            axis.legend(title="strength", fontsize=5, title_fontsize=5)
    if fair:
        figure.suptitle(f"Mean |ρ| with fairness in the paper: {paper['fairness']:g}", fontsize=7)
    if agents:
        for axis in axes[1:, -1]:
            axis.remove()
        axis = axes[0, -1]
        x, y = (np.array([row[key] for row in agents], float) for key in ("udr_spearman", "steps"))
        scatter(axis, x, y, [f"{row['beta']:g}" for row in agents])
        axis.set_title(f"clustering agent (|ρ| in the paper: {paper['clustering']:g})", fontsize=7)
        axis.set_xlabel("udr_spearman", fontsize=6)
        axis.set_ylabel("steps to 90 % success", fontsize=6)
    else:
        study.note(f"without the clustering agent, {CLUSTERING}")
    return figure


def clustering_rows(study: Study) -> list[dict[str, float]]:
    """Return rows of a clustering study (`karenina study run clustering`), this one or one in its folder
    clustering/."""
    try:
        files = [study.path / "clustering" / "results.json", study.path / "results.json"]
    except NotEnough:  # results alone
        return []
    rows: list[dict[str, Any]] = next((read_json(file) for file in files if file.exists()), [])
    return [{k: np.nan if v is None else v for k, v in row.items()} for row in rows]


def appendix_a10(study: Study) -> PaperTable:
    every = study.frame[study.frame["method"] != "dip_vae_i"].assign(method="all but dip_vae_i", data="all")
    parts = [polarised(part) for part in (study.frame, every) if len(part)]
    found = pd.concat(parts, ignore_index=True).rename(columns={"off": "value"})
    note = "Latents that are not active; the paper's ten latents are active above 0.01 nats (Eq. 3)."
    note += f" Here the threshold is {study.kl_threshold:g} nats."
    return PaperTable(found, ("data", "method", "latents"), note=note)
