"""docs/results/why.md from what benchmarks/why.py has stored, and from the published tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pages import DOCS, markdown

import karenina
from karenina.numerics.resampling import spearman, without_each
from karenina.papers import printed
from karenina.papers.holtz2022.tables import METRICS as THREE
from karenina.papers.locatello2019.tables import METRICS as SIX
from karenina.papers.tables import name as shown
from karenina.studies.analyses.scores import Scores, wide_table
from karenina.studies.study import Study

Lines = list[dict[str, Any]]

KEPT = DOCS / "results" / "why.json"
PAGE = KEPT.with_suffix(".md")
INTRO = """# What the verdicts depend on

[Ten claims](claims.md) has the verdicts. Here studies are compared again with one thing changed at a time.
"""
DYNAMICS = """## The dynamics score

Rank correlation over settings of the dynamics score with the mean MIG of the same {seeds} seeds, β-VAEs; in brackets
95 % intervals over the settings. Holtz et al. (2022) report .60 with 5 seeds on dSprites (5 strengths x 5
numbers of latents). Traces of another layer are of the same models trained again, where there are few settings.
"""
UDR = """## UDR

Mean rank correlation of UDR_L with four metrics (BetaVAE score, FactorVAE score, MIG, DCI disentanglement), mean over
{methods} methods (of the number of active latents: those in which it varies): over all models of a method, over the
means of its settings, and among the seeds of a setting.
Duan et al. (2020) report .54 over models, in Table 7, from 50 seeds and larger networks.
"""
NOISE = """## Label noise

Pearson correlation over models of scores under label noise (three regimes) with those under true labels. Holtz et al.
(2022), Table 3: BetaVAE score .69, .54, .47, FactorVAE score .84, .75, .63, MIG .86, .76, .67.
"""
VARIANCE = """## Variance explained

Share of a score's variance that the method, or method and strength, explain, less what random groups would (adjusted
R^2). Locatello et al. (2019), Table 5, dSprites: method .26 to .47, method and strength .39 to .77. Last, the share
that comes back when the same models are scored on other rows (reliability, from two halves of the rows): the rest is
due to measuring, and no method or strength can explain it.
"""
TEAPOTS = """## Teapots

What was tried before `karenina study run eastwood2018 --scale laptop` had its images, network, steps and learning rate
([its results](eastwood2018.md)); seed 0. Eastwood & Williams (2018), Table 1: PCA, VAE, β-VAE and InfoGAN have a
disentanglement of .29, .67, .66, .75 and an NRMSE of .44, .37, .35, .23 by the lasso, and .50, .86, .90, .91 and .27,
.09, .10, .13 by the forest.
"""


UNFAIR = """## Unfairness

Spearman correlation of scores with the mean unfairness of boosted trees, 250 β-VAEs on dSprites at side 16; in brackets
95 % intervals over the settings. Holtz et al. (2022), Table 4: dynamics -.72, BetaVAE score -.75, FactorVAE
score -.80, MIG -.66.
"""


TRANSFER = """## Settings that transfer

How often a setting chosen by a metric on some seeds does at least as well, by the same metric, on another seed as a
random setting; mean over six metrics and {splits} random choices of the seeds. Locatello et al. (2019), Table 1: .807,
from one seed.
"""
SPLITS = 200


def page(out: Path = PAGE) -> None:
    """docs/results/why.md."""
    found = json.loads(KEPT.read_text())
    parts = [INTRO]
    for name, section in SECTIONS.items():
        parts += section(found[name])
    table = KEPT.parent / "tables" / "holtz2022" / "results.parquet"
    parts += [UNFAIR, *unfairness(wide_table(Study(frame=pd.read_parquet(table)).words_of(THREE)))]
    models = wide_table(Study(frame=karenina.baselines()).words_of(SIX))
    parts += [TRANSFER.format(splits=SPLITS), *transfer(models)]
    parts.append("Made by `python benchmarks/why.py page`.")
    out.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _dynamics(lines: Lines) -> list[str]:
    rows = [[one["data"], str(one["settings"]), one["variation"], _cell(*one["rho"])] for one in lines]
    head = ["data", "settings", "variation", "rank correlation with MIG"]
    return [DYNAMICS.format(seeds=lines[0]["seeds"]), markdown(head, rows)]


def _udr(lines: Lines) -> list[str]:
    table = pd.DataFrame(lines)
    over = {"all": "all models", "settings": "means of settings", "within": "seeds of a setting"}
    means = table.groupby(["data", "variation"], sort=False)[[*over]].mean()
    each = table[table["variation"] == "as it is"].assign(method=lambda part: part["method"].map(shown))
    return [
        UDR.format(methods=table["method"].nunique()),
        _udr_says(means),
        markdown(["data", "variation", *over.values()], _cells(means)),
        "Each method, UDR_L as it is:",
        markdown(["data", "method", *over.values()], _cells(each.set_index(["data", "method"])[[*over]])),
    ]


def _udr_says(means: pd.DataFrame) -> str:
    names = ("as it is", "models with the median of active latents or more")
    (usual, many), (before, after) = (
        [means.loc[(data, name), "all"] for name in names] for data in ("dsprites:side=16", "blobs")
    )
    return (
        f"On dsprites:side=16 the mean over all models is {usual:.2f}, and {many:.2f} among models that have the "
        "median of active latents or more: UDR is misled by models that found little, and agree on it. On blobs that "
        f"changes little ({before:.2f}, {after:.2f}). Thresholds and the similarity hardly matter."
    )


def _noise(lines: Lines) -> list[str]:
    rows = [[one["variation"], one["over"], one["score"], *(f"{r:z.2f}" for r in one["r"])] for one in lines]
    head = ["variation", "correlation over", "score", "regime 1", "regime 2", "regime 3"]
    least = min(r for one in lines for r in one["r"] if one["over"] == "all models")
    says = f"Over all models the least correlation of any variation is {least:.2f}: none of them is the reason."
    return [NOISE, says, markdown(head, sorted(rows, key=lambda row: row[:2]))]


def _variance(lines: Lines) -> list[str]:
    scores = list(lines[0]["shares"])
    rows = [
        [one["data"], one["variation"], one["predictor"]]
        + [f"{one['shares'][score]:.2f}" if score in one["shares"] else "" for score in scores]
        for one in sorted(lines, key=lambda one: one["data"])
    ]
    back = [share for one in lines if one["variation"] == "other rows" for share in one["shares"].values()]
    says = (
        f"Other rows give back {min(back):.2f} to {max(back):.2f} of the variance, so measuring is not the reason; nor "
        "are the scale of the scores or models that found little. What is left, and was not tried, is that these "
        "models, with a small network and 6,000 steps, depend more on the seed."
    )
    return [VARIANCE, says, markdown(["data", "variation", "explained by", *scores], rows)]


def _teapots(lines: Lines) -> list[str]:
    names = [f"{by} {part}" for by in ("lasso", "forest") for part in ("disentanglement", "completeness", "nrmse")]
    rows = [
        [f"{one['side']} x {one['side']}", one["network"], shown(one["method"]), f"{one['steps']:,}"]
        + [f"{one['learning_rate']:g}", *(f"{one[f'regression_{name}']:.2f}" for name in names)]
        for one in lines
    ]
    table = pd.DataFrame(lines).rename(columns={"regression_forest nrmse": "error"})
    large, small = table[table["side"] == 32], table[table["side"] == 16]
    errors = large.groupby("method", sort=False)["error"].agg(["first", "last"])
    falls = ", ".join(f"{shown(str(m))} {row['first']:.2f} to {row['last']:.2f}" for m, row in errors.iterrows())
    says = (
        f"With convolutions on 32 x 32 pixels longer training lowers the forest's NRMSE ({falls}), which stays above "
        "the paper's, and disentanglement stays low: such models cannot be compared with the paper's, and they were "
        "published at first. Dense layers on 16 x 16 pixels can be trained for 30,000 steps."
    )
    if len(small):
        best = small.loc[small["error"].idxmin()]
        says += (
            f" The rate was chosen by InfoGAN's NRMSE, not by disentanglement: {best['learning_rate']:g}, with "
            f"{best['error']:.2f} after {best['steps']:,} steps."
        )
    return [TEAPOTS, says, markdown(["images", "network", "method", "steps", "learning rate", *names], rows)]


SECTIONS: dict[str, Callable[[Lines], list[str]]] = {
    "dynamics": _dynamics,
    "udr": _udr,
    "noise": _noise,
    "variance": _variance,
    "teapots": _teapots,
}


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:z.2f}" + (f" [{low:z.2f}, {high:z.2f}]" if np.isfinite([low, high]).all() else "")


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    keys = [key if isinstance(key, tuple) else (key,) for key in frame.index]
    return [[*map(str, key), *(f"{x:z.2f}" for x in row)] for key, row in zip(keys, frame.to_numpy())]


def unfairness(table: Scores) -> list[str]:
    """Rank correlations of scores with unfairness: over which models, and over models or the means of settings."""
    names = ["dynamics", *THREE]
    scores = pd.DataFrame(table.values, columns=table.names)[["fairness_mean", *names]]
    about = table.runs[["setting", "latents"]].reset_index(drop=True)
    rows, found = [], {}
    for words, kept in {"all": 0, "8 latents or more": 8}.items():
        part = scores[about["latents"] >= kept].dropna()
        settings = about["setting"][part.index]
        for over, values in (("models", part), ("means of settings", part.groupby(settings).mean())):
            unfair, more = values["fairness_mean"].to_numpy(), (settings.to_numpy(),) if over == "models" else ()
            correlate = correlation_of_models if more else correlation
            rho = [correlate(values[name].to_numpy(), unfair, *more) for name in names]
            rows.append([words, over, *(_cell(*one) for one in rho)])
            found[words, over] = dict(zip(names, rho))
    first, settled = found["all", "models"], found["all", "means of settings"]
    many = found["8 latents or more", "means of settings"]
    theirs = printed("holtz2022", "table_4").frame.query("task == 'unfairness'").set_index("score")["value"]
    held = [name for name in ("dynamics", "MIG") if many[name][1] <= theirs[name] <= many[name][2]]
    holds = ("neither interval holds", f"only the interval of {''.join(held)} holds", "both intervals hold")[len(held)]
    says = (
        "The dynamics score is one number for all seeds of a setting: over means of settings it has "
        f"{settled['dynamics'][0]:.2f} in place of {first['dynamics'][0]:.2f}. Without the models of 2 and 4 latents, "
        f"which cannot hold five factors, it has {many['dynamics'][0]:.2f}, and MIG {many['MIG'][0]:.2f} in place of "
        f"{first['MIG'][0]:.2f}: {holds} what the paper prints."
    )
    return [says, markdown(["models", "correlation over", *map(shown, names)], rows)]


def transfer(table: Scores) -> list[str]:
    """`beats_random` on each data set, with the setting chosen by its mean over one seed, three, five or nine."""
    found = {}
    for (data,), rows in table.groups("data"):
        runs, rng = table.runs.iloc[rows], np.random.default_rng(0)
        (setting, names), (seed, seeds) = (pd.factorize(runs[column]) for column in ("setting", "seed"))
        scores = np.full((len(names), len(seeds), len(SIX)), np.nan)
        scores[setting, seed] = table.values[np.ix_(rows, [table.names.index(name) for name in SIX])]
        for k in (1, 3, 5, 9):
            wins = []
            for order in (rng.permutation(len(seeds)) for _ in range(SPLITS)):
                best, judge = scores[:, order[:k]].mean(1).argmax(0), scores[:, order[k]]
                wins.append((judge[best, np.arange(len(SIX))] >= judge).mean())
            found[str(data), k] = float(np.mean(wins))
    shares = pd.Series(found).unstack()
    worst, best = shares[1].idxmin(), shares[1].idxmax()
    says = (
        f"One seed is enough on {best} ({shares[1][best]:.2f}) and not on {worst} ({shares[1][worst]:.2f}), where nine "
        f"give {shares[9][worst]:.2f}: there scores depend more on the seed (see variance explained), so one seed does "
        "not show which setting is good."
    )
    return [says, markdown(["data", *(f"{k} seed{'s' * (k > 1)}" for k in shares)], _cells(shares))]


def correlation(score: np.ndarray, known: np.ndarray) -> list[float]:
    """Spearman over settings, with its interval over them."""
    both = np.isfinite(score) & np.isfinite(known)
    estimate, low, high = spearman(np.column_stack([score[both], known[both]]))
    return [round(float(m[0, 1]), 4) for m in (estimate, low, high)]


def correlation_of_models(score: np.ndarray, known: np.ndarray, settings: np.ndarray) -> list[float]:
    """Spearman over models, with the interval from leaving out one setting at a time: models of one setting are alike,
    and share one dynamics score."""

    def rho(kept: np.ndarray) -> float:
        return float(spearman(np.column_stack([score[kept], known[kept]]))[0][0, 1])

    found, half = rho(np.ones(len(score), bool)), without_each(settings, rho)
    return rounded(np.array([found, max(found - half, -1.0), min(found + half, 1.0)]))


def rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in values]
