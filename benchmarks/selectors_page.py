"""docs/results/selectors.md: how good a model each label-free score chooses, among the published ones."""

import numpy as np
import pandas as pd
from pages import markdown

from karenina.drawing.charts import plain_number
from karenina.numerics.resampling import jackknife
from karenina.papers.locatello2019.tables import METRICS
from karenina.papers.tables import name
from karenina.studies.analyses.choosing import direction, outcomes, selectors
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import Study

SELECTORS = """# Which score should choose a model when there are no labels?

Every label-free score that a study keeps, and those of `karenina rank` but PIPE, chooses one of the published models,
and supervised scores judge the choice. Gain: 0 is what a random choice gives on average, 1 what an oracle would.
`informative_latents`: the number of active latents.

## One model of each setting

Each setting is trained once, and a score chooses one of these models. Mean gain over six metrics, of {seeds} choices
on each data set, one for each seed; in brackets 95 % intervals from leaving out one seed at a time. Last, a metric that
knows the labels chooses, and the other five judge.
"""
DETAILS = """## Among more models, by MIG and DCI

Regret: the oracle's score minus the chosen model's. Among the seeds of a setting the strength cannot help: means over
settings, and a score that is the same for all seeds of a setting, as the dynamics score, has gain 0 there. In brackets:
among all models, where a gain depends on single models, the middle 95 % of gains of 1,000 resamples of the models,
which is no interval; among seeds the 95 % interval, from leaving out one setting at a time.
"""
WITH_LABELS = " (with labels)"


def one_of_each(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean gain, over supervised scores and seeds, of choosing among the models of one seed.
    -> a row per selector, the best first: a column per data set, then mean, low, high"""
    table = wide_table(Study(frame=frame).words_of(METRICS))
    known = {table.names[j]: j for j in table.labelled()}
    free = {table.names[j]: j for j in table.columns(supervised=False)}
    seeds = sorted(table.runs["seed"].unique())
    gains = {}  # (seeds + 1,): of all seeds, and without each
    for (data,), rows in table.groups("data"):
        runs = table.runs.iloc[rows].reset_index(drop=True)
        order = [runs.index[runs["seed"] == seed].to_numpy() for seed in seeds]
        values = np.stack([table.values[rows][one] for one in order])  # (seeds, settings, scores)
        for selector, j in (free | known).items():
            chooser = direction(selector) * values[..., j]
            judges = [k for k in known.values() if k != j]
            found = np.mean([_gains(chooser, values[..., k]) for k in judges], axis=0)
            gains[selector + WITH_LABELS * (selector in known), str(data)] = found
    lines = {}
    for selector in dict.fromkeys(one for one, _ in gains):
        own = {data: found for (one, data), found in gains.items() if one == selector}
        mean, *left = np.mean([*own.values()], axis=0)
        half = jackknife(np.array(left))
        lines[selector] = {data: found[0] for data, found in own.items()}
        lines[selector] |= {"mean": mean, "low": mean - half, "high": mean + half}
    return pd.DataFrame(lines).T.sort_values("mean", ascending=False)


def _gains(chooser: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(seeds + 1,): the gain with all seeds, and without each; chooser and score: (seeds, models)."""
    chosen, random, oracle = outcomes(chooser, score)
    left = ~np.vstack([np.zeros(len(score)), np.eye(len(score))]).astype(bool)
    sums = [(left * one).sum(1) for one in (chosen, random, oracle)]
    return (sums[0] - sums[1]) / (sums[2] - sums[1])


def answer(found: pd.DataFrame) -> list[str]:
    """What to choose by, in words, and the table."""
    free = found[~found.index.str.endswith(WITH_LABELS)]
    supervised = found.drop(free.index)
    best, labels = free.iloc[0], supervised.iloc[0]
    better = [f"`{one}` ({row['mean']:.2f})" for one, row in free.iterrows() if row["low"] > 0]
    datas = [column for column in found if column not in ("mean", "low", "high")]
    everywhere = [f"`{one}`" for one, row in free.iterrows() if (row[datas] > 0).all()]
    says = (
        f"**`{free.index[0]}` chooses best, with a mean gain of {_with_bounds(best, 'mean')}.** "
        f"Better than a random choice, with the whole interval: {', '.join(better) or 'none'}. "
        f"Better on each of the data sets: {', '.join(everywhere) or 'none'}. With labels, "
        f"{labels.name.removesuffix(WITH_LABELS)} has {labels['mean']:.2f}."
    )
    rows = [
        [str(one), _with_bounds(row, "mean")] + [plain_number(row[data]) for data in datas]
        for one, row in pd.concat([free, supervised]).iterrows()
    ]
    return [says, markdown(["chosen by", "mean gain", *map(name, datas)], rows)]


def selectors_page(frame: pd.DataFrame) -> str:
    """How good a model each label-free score chooses."""
    found = selectors(Study(frame=frame).words_of(METRICS), resamples=1000)
    judges = ("MIG", "DCI Disentanglement")
    intro = SELECTORS.format(seeds=frame["seed"].nunique()).strip()
    parts = [intro, *answer(one_of_each(frame)), DETAILS.strip()]
    for data, here in found.groupby("data", sort=False):
        parts.append(f"### {name(data)}")
        for among, words in (("all", "among all models"), ("seeds", "among the seeds of a setting")):
            part = here[here["among"] == among]
            mean = part.groupby("selector")["gain"].mean().sort_values(ascending=False)
            rows = []
            for selector in mean.index:
                lines = part[part["selector"] == selector].set_index("score")
                cells = [_gain(lines.loc[score]) if score in lines.index else "" for score in judges]
                rows.append([selector, plain_number(mean[selector]), *cells])
            oracle = part.drop_duplicates("score").set_index("score")
            note = ", ".join(
                f"{score}: random {oracle.loc[score, 'random']:.2f}, oracle {oracle.loc[score, 'oracle']:.2f}"
                for score in judges
            )
            head = ["chosen by", "mean gain, six metrics", *(f"gain by {score} (regret)" for score in judges)]
            parts += [f"#### {words.capitalize()}", f"{note}.", markdown(head, rows)]
    parts.append("Made by `python benchmarks/publish.py pages` (analysis `selectors` of any study).")
    return "\n\n".join(parts) + "\n"


def _gain(line: pd.Series) -> str:
    return f"{_with_bounds(line, 'gain')} ({plain_number(line['regret'])})"


def _with_bounds(line: pd.Series, key: str) -> str:
    """A gain and its interval, where it has one: seeds that all give the same tell nothing of their spread."""
    bounds = f" [{plain_number(line['low'])}, {plain_number(line['high'])}]" if np.isfinite(line["low"]) else ""
    return f"{plain_number(line[key])}{bounds}"
