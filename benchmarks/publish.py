"""Publish what studies found: tables of scores in the package, and docs/results made from these tables alone.

    python benchmarks/publish.py add DIR [DIR ...]    # finished studies -> src/karenina/studies/published, docs/results
    python benchmarks/publish.py pages                # docs/results/*.md and figures from the published tables
    python benchmarks/publish.py again [--models 3]   # trains random published models anew: are the scores the same?

Every number of the pages is computed here from the published tables; tests/test_published.py makes them again.
"""

import argparse
import re
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from claims import Claim, claims
from pages import DOCS, markdown

import karenina
from karenina.studies.analyses import selectors
from karenina.studies.execution.folder import Folder
from karenina.studies.papers import Made, make
from karenina.studies.papers.lists import items
from karenina.studies.papers.outputs import heading, name
from karenina.studies.papers.study import Study
from karenina.studies.plan.presets import preset
from karenina.studies.published import TABLES, baselines, publish, scoring
from karenina.studies.results.table import SCHEMAS, with_scores, write_parquet

RESULTS = DOCS / "results"
# Ways to choose that a study does not compute by itself, as `karenina rank --by` names them.
RANKED = ("orthogonality", "support", "centrality")
# Further tables of a study that the papers' tables need, joined over the published studies.
EXTRA = ("partners", "dynamics")
CLAIMS = """# Ten claims of the five papers, tried here

{models:,} models ({methods}; {sets}): {strengths} strengths, {seeds} seeds, small images and a small network, as in
`karenina study run locatello2019 --scale laptop`. This is not the papers' scale, and a verdict is about these models.
In brackets: 95 % intervals from leaving out one seed at a time. A claim *agrees* if the whole interval is on the side
that it says, *disagrees* if the whole is on the other, and otherwise these models *cannot tell*. `benchmarks/claims.py`
has each number and its bound.

{table}

Tables and figures by their own names: [Locatello et al. (2019)](locatello2019.md), [Duan et al. (2020)](duan2020.md),
[Holtz et al. (2022)](holtz2022.md). Which score to choose a model by: [selectors](selectors.md). Also: [the clustering
task](clustering.md), [methods since 2020](beyond.md), [the audit of metrics](../audit.md).

Made by `python benchmarks/publish.py pages` from the tables that `karenina.baselines()` gives.
"""
SELECTORS = """# Which score should choose a model when there are no labels?

Every label-free score that `karenina rank` knows chooses one of the published models, and supervised scores judge the
choice. Gain: 0 is what a random choice gives on average, 1 what an oracle would. Regret: the oracle's score minus the
chosen model's. Among the seeds of a setting the strength cannot help: means over settings, and a score that is the same
for all seeds of a setting, as the dynamics score, has gain 0 there. 95 % intervals from 1,000 resamples of the models,
or of the settings.
"""
TITLES = {
    "locatello2019": "Locatello et al. (2019)",
    "duan2020": "Duan et al. (2020)",
    "holtz2022": "Holtz et al. (2022)",
}
FIGURES = {
    "locatello2019": ("figure_1", "figure_3", "figure_4", "figure_12", "figure_15", "figure_16"),
    "duan2020": ("figure_2", "figure_6", "figure_8"),
    "holtz2022": (),
}


def add(paths: list[Path]) -> None:
    """Put the results of finished studies, one data set each, beside those that are published already."""
    for path in paths:
        folder = Folder(path)
        status = folder.status()
        if status.waiting or status.failed or status.running:
            raise SystemExit(f"{path}: {status.waiting} models are missing, {len(status.failed)} failed")
        frame = karenina.results(path)
        for by in RANKED:
            ranking = karenina.rank(path, by, rows=status.plan.evaluation.rows).frame
            runs = [Path(run).name for run in ranking["run"]]
            frame = with_scores(frame, {"run": runs, "metric": [by] * len(runs), "value": list(ranking["score"])})
        for data, part in frame.groupby("data", sort=False):
            publish(part, status.plan.evaluation, TABLES / f"{str(data).replace(':', '+', 1)}.parquet")
            for extra in EXTRA:
                _add_extra(path / f"{extra}.parquet", str(data), part)


def _add_extra(file: Path, data: str, frame: pd.DataFrame) -> None:
    """Only what is about models of one setting: the pairs of all with all are many, and no table shows them."""
    if not file.exists():
        return
    table = pq.read_table(file).to_pandas()
    table = table[table["data"] == data]
    if file.stem == "partners":
        setting = frame.drop_duplicates("run").set_index("run")["setting"]
        within = setting.reindex(table["target"]).to_numpy() == setting.reindex(table["source"]).to_numpy()
        table = table[within & ~table["version"].str.endswith("a2a")]
    out = RESULTS / "tables" / file.name
    if out.exists():
        before = pq.read_table(out).to_pandas()
        table = pd.concat([before[before["data"] != data], table], ignore_index=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(out, pa.Table.from_pandas(table, schema=SCHEMAS[file.stem], preserve_index=False))


def pages(out: Path = RESULTS, draw: bool = True) -> None:
    """Write everything that the published tables give. draw: also the figures; else those that are there are shown."""
    tables = RESULTS / "tables"
    study = Study(baselines(), tables)
    others = {
        "eastwood2018": Claim(
            "InfoGAN's and the β-VAE's codes are more disentangled than the VAE's and PCA's.",
            "Eastwood & Williams (2018), section 4, Table 1",
            (),
            (),
            "needs the models of `karenina study run eastwood2018`",
        )
    }
    dynamics = tables / "dynamics.parquet"
    traced = pq.read_table(dynamics).to_pandas() if dynamics.exists() else None
    (out / "claims.md").write_text(claims_page(claims(study.frame, traced, others), study.frame), encoding="utf-8")
    (out / "selectors.md").write_text(selectors_page(study.frame), encoding="utf-8")
    for paper, figures in FIGURES.items():
        (out / f"{paper}.md").write_text(paper_page(paper, study, figures, draw), encoding="utf-8")


def claims_page(found: list[Claim], frame: pd.DataFrame) -> str:
    """The front page: ten claims on one screen."""
    runs = frame.drop_duplicates("run")
    rows = []
    for claim in found:
        ours = "; ".join(f"{number.what} **{number}**" for number in claim.numbers) or claim.missing
        paper = "; ".join(f"{number.paper:g}" for number in claim.numbers if number.paper is not None) or "–"
        rows.append([claim.text, claim.source, paper, ours, f"**{claim.verdict}**"])
    sets = ", ".join(f"{count} on {name(data)}" for data, count in runs["data"].value_counts(sort=False).items())
    methods = ", ".join(name(method) for method in runs["method"].unique())
    table = markdown(["claim", "where", "paper", "ours", "verdict"], rows)
    settings = runs.groupby(["data", "method"])
    counts = {"strengths": _range(settings["strength"].nunique()), "seeds": _range(settings["seed"].nunique())}
    return CLAIMS.format(models=len(runs), sets=sets, methods=methods, table=table, **counts)


def _range(counts: pd.Series) -> str:
    """The one number that all have, or from the least to the most."""
    low, high = counts.min(), counts.max()
    return str(low) if low == high else f"{low} to {high}"


def selectors_page(frame: pd.DataFrame) -> str:
    """How good a model each label-free score chooses."""
    from karenina.studies.papers.locatello2019 import METRICS

    found = selectors.compute(Study(frame).words_of(METRICS), resamples=1000)
    judges = ("MIG", "DCI Disentanglement")
    parts = [SELECTORS.strip()]
    for data, here in found.groupby("data", sort=False):
        parts.append(f"## {name(data)}")
        for among, words in (("all", "among all models"), ("seeds", "among the seeds of a setting")):
            part = here[here["among"] == among]
            mean = part.groupby("selector")["gain"].mean().sort_values(ascending=False)
            rows = []
            for selector in mean.index:
                lines = part[part["selector"] == selector].set_index("score")
                cells = [_gain(lines.loc[score]) if score in lines.index else "" for score in judges]
                rows.append([selector, f"{mean[selector]:.2f}", *cells])
            oracle = part.drop_duplicates("score").set_index("score")
            note = ", ".join(
                f"{score}: random {oracle.loc[score, 'random']:.2f}, oracle {oracle.loc[score, 'oracle']:.2f}"
                for score in judges
            )
            head = ["chosen by", "mean gain, six metrics", *(f"gain by {score} (regret)" for score in judges)]
            parts += [f"### {words.capitalize()}", f"{note}.", markdown(head, rows)]
    parts.append("Made by `python benchmarks/publish.py pages` (analysis `selectors` of any study).")
    return "\n\n".join(parts) + "\n"


def _gain(line: pd.Series) -> str:
    return f"{line['gain']:.2f} [{line['low']:.2f}, {line['high']:.2f}] ({line['regret']:.2f})"


def paper_page(paper: str, study: Study, figures: tuple[str, ...], draw: bool) -> str:
    """Every table of a paper, and some of its figures; one line for each that these models cannot give."""
    made, missing = [], []
    drawn = RESULTS / "figures"
    drawn.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for item in items()[paper].values():
            is_figure = item.name.startswith("figure")
            if is_figure and item.name not in figures:
                continue
            target = drawn / f"{paper}_{item.name}.png"
            if is_figure and not draw and target.exists():
                found = Made(item)
            else:
                found = make(item, study, Path(scratch))
            if found.missing:
                missing.append(f"- {heading(item)} ({item.title}): {found.missing}.")
            elif is_figure:
                if draw:
                    shutil.copy(found.files[0], target)
                made.append(f"## {heading(item)}\n\n{item.title}.\n\n![{item.title}](figures/{target.name})")
            else:
                text = found.files[1].read_text(encoding="utf-8").strip()
                made.append(re.sub("^#", "##", text, flags=re.MULTILINE))
    parts = [f"# {TITLES[paper]}, at the scale of two cores", *made]
    if missing:
        parts += ["## Not from these models", "\n".join(missing)]
    return "\n\n".join([*parts, "Made by `python benchmarks/publish.py pages`."]) + "\n"


def again(models: int, seed: int) -> None:
    """Train some of the published models by themselves, score them, and say which scores are not those published."""
    published = baselines()
    plan = preset("locatello2019", "laptop")
    points = [point for point in plan.points if point.hash in set(published["run"])]
    for i in sorted(np.random.default_rng(seed).choice(len(points), models, replace=False)):
        point = points[i]
        data = karenina.load(point.data)
        run = karenina.train(data, point.method, **point.arguments)
        rows = karenina.evaluate(run, data, **asdict(scoring(point.data))).rows()
        known = published[published["run"] == point.hash].set_index(["metric", "property", "factor"])["value"]
        off = {key: abs(row[4] - known[key]) for row in rows if (key := tuple(row[i] for i in (0, 2, 3))) in known}
        wrong = {key: value for key, value in off.items() if value > 0}
        said = "the same to the bit" if not wrong else f"{len(wrong)} differ, by {max(wrong.values()):.2g} at most"
        print(f"{point.data}, {point.method} {dict(point.parameters)}, seed {point.seed}: {len(off)} scores, {said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("add").add_argument("paths", type=Path, nargs="+")
    commands.add_parser("pages")
    one = commands.add_parser("again")
    one.add_argument("--models", type=int, default=3)
    one.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.command == "add":
        add(options.paths)
        pages()
    elif options.command == "pages":
        pages()
    elif options.command == "again":
        again(options.models, options.seed)
    else:
        parser.print_usage()


if __name__ == "__main__":
    main()
