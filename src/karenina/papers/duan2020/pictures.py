"""Traversals and reconstructions of Duan et al. (2020): they need the trained models."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from karenina.drawing.charts import distributions, panel_grid
from karenina.drawing.figure import Figure
from karenina.drawing.pictures import mosaic, show
from karenina.papers.drawing import about, column, first_known, scatter, strength_groups, unique, wall, walls
from karenina.papers.duan2020.tables import ANY_UDR, VERSIONS
from karenina.papers.tables import DCI, name
from karenina.studies.analyses.scores import Scores, wide_table
from karenina.studies.study import NotEnough, Study

EACH = 3
Mask = NDArray[np.bool_]


class Ranked:
    """The models of a study by UDR: runs, udr (R,), the whole table of scores."""

    def __init__(self, study: Study, prefer: Sequence[str] = VERSIONS):
        study.folder()
        self.scores: Scores = wide_table(study.frame)
        self.by = first_known(self.scores, prefer, ANY_UDR)
        self.udr = column(self.scores, self.by)
        self.runs = self.scores.runs
        self.about = about(study)
        self.active = column(self.scores, "informative_latents")

    def label(self, run: str) -> str:
        i = int(np.flatnonzero(self.runs["run"] == run)[0])
        row = self.about.loc[run]
        factor = column(self.scores, "z_min_variance")[i]
        text = f"{name(row['method'])} {row['parameters']}, seed {row['seed']}\nUDR {self.udr[i]:.2f}"
        text += f" / FactorVAE {factor:.2f}" if np.isfinite(factor) else ""
        return text + (f", d = {self.active[i]:.0f}" if np.isfinite(self.active[i]) else "")

    def best(self, where: Mask, count: int = EACH, worst: bool = False) -> list[str]:
        """Return the runs `where` that are highest by UDR, or the lowest."""
        known = np.flatnonzero(where & np.isfinite(self.udr))
        order = known[np.argsort(self.udr[known] if worst else -self.udr[known], kind="stable")]
        return [str(self.runs["run"].iloc[i]) for i in order[:count]]

    def band(self, where: Mask, low: float, high: float) -> list[str]:
        """Return up to three runs drawn at random of those whose UDR lies between low and high."""
        inside = np.flatnonzero(where & (self.udr > low) & (self.udr < high))
        drawn = np.random.default_rng(0).permutation(inside)[:EACH]
        return [str(self.runs["run"].iloc[i]) for i in sorted(drawn)]


def figure_3(study: Study) -> Figure:
    """Draw the top ranked model of each method, on the first data set."""
    found = Ranked(study)
    data = found.runs["data"].iloc[0]
    here = [(found.runs["method"] == method) & (found.runs["data"] == data) for method in unique(found.runs["method"])]
    top = [run for where in here for run in found.best(where.to_numpy(), 1)]
    return walls(study, [(name(data), top)], found.label)


def figure_9(study: Study) -> Figure:
    """Draw UDR against DCI by strength and by active latents, and models on which the two disagree most."""
    found = Ranked(study)
    dci = column(wide_table(study.words_of(DCI)), "DCI Disentanglement")
    methods = unique(found.runs["method"])
    method = "beta_vae" if "beta_vae" in methods else methods[0]
    data = found.runs["data"].iloc[0]
    same = ((found.runs["method"] == method) & (found.runs["data"] == data)).to_numpy()
    here = np.flatnonzero(same & np.isfinite(dci) & np.isfinite(found.udr))
    if len(here) < 3:
        raise NotEnough("needs three models of a method that have both UDR and dci_boosted")
    place = [np.argsort(np.argsort(values[here])) for values in (found.udr, dci)]
    chosen = here[[*np.argsort(place[1] - place[0], kind="stable")[:3], *np.argsort(place[0] - place[1])[:3]]]
    figure = Figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplots(2, 4)
    groups = (np.array([f"{value:g}" for value in values]) for values in (found.runs["strength"], found.active))
    for axis, group, title in zip(axes[:, 0], groups, ("strength", "active latents")):
        scatter(axis, dci[here], found.udr[here], list(group[here]))
        axis.legend(title=title, fontsize=5, title_fontsize=6)
        axis.set_xlabel("DCI Disentanglement", fontsize=7)
        axis.set_ylabel(found.by, fontsize=7)
        for number, i in enumerate(chosen, 1):
            axis.annotate(str(number), (dci[i], found.udr[i]), fontsize=8)
    for number, (axis, i) in enumerate(zip(axes[:, 1:].flat, chosen), 1):
        run = str(found.runs["run"].iloc[i])
        wall(axis, study, run)
        axis.set_title(f"{number}: {found.label(run)}, DCI {dci[i]:.2f}", fontsize=6)
    figure.suptitle(f"{name(method)} on {name(data)}: above, UDR ranks higher than DCI; below, lower", fontsize=9)
    return figure


def _best_and_worst(study: Study, most: int) -> Figure:
    """Draw models of one method on one data set: the paper's, beta-VAE and Cars3D, or the first."""
    found = Ranked(study)
    here = np.ones(len(found.runs), bool)
    for key, theirs in (("data", "cars3d"), ("method", "beta_vae")):
        own = unique(found.runs[key])
        here &= (found.runs[key] == next((one for one in own if one.split(":")[0] == theirs), own[0])).to_numpy()
    each = _each(found, here, most)
    groups = [("best", found.best(here, each)), ("worst", found.best(here, each, worst=True))]
    figure = walls(study, groups, found.label)
    figure.suptitle(name(found.runs["data"][here].iloc[0]), fontsize=9)
    return figure


figure_1 = partial(_best_and_worst, most=1)
figure_10 = partial(_best_and_worst, most=EACH)


def _each(found: Ranked, here: Mask, most: int) -> int:
    """Return how many of the best and of the worst runs to show, so that no run is both."""
    return max(1, min(most, int((here & np.isfinite(found.udr)).sum()) // 2))


def figure_12(study: Study) -> Figure:
    """Draw UDR_S by strength for each data set of photographs, and reconstructions of the weakest strength."""
    found = Ranked(study, ("udr_spearman", *VERSIONS))
    datas = unique(found.runs["data"])
    figure, axes = panel_grid(2, len(datas), 3.4, 2.4)
    for top, bottom, data in zip(axes[0], axes[1], datas):
        here = (found.runs["data"] == data).to_numpy()
        strength = found.runs["strength"].to_numpy(float)
        distributions(top, strength_groups(found.scores, found.udr, here), "box")
        top.set_title(name(data), fontsize=8)
        top.set_xlabel("strength", fontsize=7)
        weakest = np.flatnonzero(here)[np.argsort(strength[here], kind="stable")[0]]
        run = study.run(str(found.runs["run"].iloc[weakest]))
        images = study.inputs(str(data))[0][:8]
        show(bottom, mosaic(np.stack([images / np.float32(255), run.decode(run.encode(images)[0])])))
        bottom.set_xlabel("images, and what the model makes of them", fontsize=6)
    axes[0, 0].set_ylabel(found.by, fontsize=7)
    return figure


def _high_and_low(study: Study, wanted: str, latents: int, otherwise: int) -> Figure:
    """Draw three models with UDR above 0.6 and three below 0.3; where there is none, the highest and the lowest."""
    found = Ranked(study, ("udr_spearman", *VERSIONS))
    datas = unique(found.runs["data"])
    data = next((data for data in datas if wanted in str(data)), datas[otherwise])
    here = (found.runs["data"] == data).to_numpy()
    each = _each(found, here, EACH)
    groups = []
    for title, low, high, worst in (("UDR > 0.6", 0.6, np.inf, False), ("UDR < 0.3", -np.inf, 0.3, True)):
        runs = found.band(here, low, high)
        end = f"no {title}:\nthe {'lowest' if worst else 'highest'}"
        groups.append((title, runs) if runs else (end, found.best(here, each, worst)))
    return walls(study, groups, found.label, latents=latents)


figure_13 = partial(_high_and_low, wanted="celeba", latents=4, otherwise=0)
figure_14 = partial(_high_and_low, wanted="imagenet", latents=6, otherwise=-1)


def _band(study: Study, title: str, low: float, high: float) -> Figure:
    """Draw three random models per method in a band of UDR, on the first data set. A method without any shows none;
    where no method has one, the nearest model stands in, and the figure says so."""
    found = Ranked(study)
    data = found.runs["data"].iloc[0]
    groups = []
    for method in unique(found.runs["method"]):
        here = ((found.runs["method"] == method) & (found.runs["data"] == data)).to_numpy()
        runs = found.band(here, low, high)
        if runs:
            groups.append((name(method), runs))
    if not groups:
        middle = low if np.isfinite(low) else high
        distance = np.where(np.isfinite(found.udr), np.abs(found.udr - middle), np.inf)
        nearest = [str(found.runs["run"].iloc[int(np.argmin(distance))])]
        groups, title = [("nearest", nearest)], f"no model is {title}: the nearest"
    figure = walls(study, groups, found.label, order="own")
    figure.suptitle(f"{name(data)}: {title}", fontsize=9)
    return figure


figure_15 = partial(_band, title="high (UDR > 0.4)", low=0.4, high=np.inf)
figure_16 = partial(_band, title="medium (0.3 < UDR < 0.4)", low=0.3, high=0.4)
figure_17 = partial(_band, title="low (UDR < 0.3)", low=-np.inf, high=0.3)
