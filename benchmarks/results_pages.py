"""docs/results from the tables of published studies: claims, ways to choose, and each paper's tables and figures."""

import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from claims import Claim, claims
from pages import DOCS, markdown
from PIL import Image
from selectors_page import selectors_page
from verdicts import sentence, with_intervals

from karenina.papers import Item, Made, items, make
from karenina.papers.tables import heading, name
from karenina.papers.tables import markdown as table_text
from karenina.studies.published import baselines
from karenina.studies.study import Study

RESULTS = DOCS / "results"
CLAIMS = """# Ten claims of the five papers, tried here

**{verdicts}.** These are small models, not the papers': a verdict is about them.

{table}

Claimed, ours and the paper's are of the numbers listed below, in their order. In brackets: 95 % intervals from leaving
out one seed at a time (of the dynamics score: over its settings). A claim *agrees* if the whole interval is
on the claimed side of the bound, *disagrees* if the whole is on the other, and otherwise these models *cannot tell*; of
two numbers, both must agree, and one is enough to disagree. The bounds were fixed beforehand (`benchmarks/claims.py`);
afterwards, and with the bounds kept, claim 9 was given another count, since the interval of the first was not valid,
claim 5 all comparisons in place of 20,000 drawn ones, and claim 10 models that know the factors ([why](why.md)).

## The numbers

{numbers}

## The models

{models:,} models ({methods}; {sets}): {strengths} strengths, {seeds} seeds, small images and a small network, as in
`karenina study run locatello2019 --scale laptop`; the dynamics score has {traced} models of its own, InfoGAN {teapots}.

## More

Tables and figures by their own names: [Locatello et al. (2019)](locatello2019.md), [Duan et al. (2020)](duan2020.md),
[Holtz et al. (2022)](holtz2022.md), [Carbonneau et al. (2022)](carbonneau2022.md), [Eastwood & Williams
(2018)](eastwood2018.md). Which score to choose a model by: [selectors](selectors.md). What the verdicts depend on:
[what was varied](why.md). Also: [the clustering task](clustering.md), [methods since 2020](beyond.md), [the audit of
metrics](../audit.md).

Made by `python benchmarks/publish.py pages` from the tables that `karenina.baselines()` gives.
"""
TITLES = {
    "locatello2019": "Locatello et al. (2019)",
    "duan2020": "Duan et al. (2020)",
    "holtz2022": "Holtz et al. (2022)",
    "carbonneau2022": "Carbonneau et al. (2022)",
    "eastwood2018": "Eastwood & Williams (2018)",
}
# Papers whose preset makes other models than those of `locatello2019`.
OWN = ("holtz2022", "carbonneau2022", "eastwood2018")
FIGURES = {
    "locatello2019": (
        *("figure_1", "figure_3", "figure_4", "figure_5", "figure_6", "figure_7"),
        *("figure_12", "figure_15", "figure_16", "figure_19", "figure_22"),
    ),
    "duan2020": ("figure_1", "figure_2", "figure_6", "figure_8", "figure_9"),
    "holtz2022": ("figure_1", "figure_3", "figure_4"),
    "carbonneau2022": ("figure_3",),
    "eastwood2018": ("figure_2", "figure_3", "figure_5", "figure_6"),
}
RULE = """Under each table, its verdict: a value *differs* if the paper's is outside our 95 % interval, *cannot be told*
if the interval holds the paper's and 0 as well, and *agrees* otherwise; the table goes with more than half of its
values (`benchmarks/verdicts.py`). The interval is that over models, settings or seeds, also where a cell shows ± a
standard deviation."""


def study_of(paper: str) -> Study:
    """The tables of a paper's own models, or else those of `locatello2019`."""
    if paper not in OWN:
        return Study(RESULTS / "tables", baselines())
    path = RESULTS / "tables" / paper
    return Study(path, pq.read_table(path / "results.parquet").to_pandas())


def pages(out: Path = RESULTS, draw: bool = True) -> None:
    """Write everything that the tables give. draw: also the figures; else those that are there are shown."""
    studies = {paper: study_of(paper) for paper in TITLES}
    frame = studies["locatello2019"].frame
    found = claims(frame, studies["holtz2022"], studies["eastwood2018"].frame)
    (out / "claims.md").write_text(claims_page(found, frame), encoding="utf-8")
    (out / "selectors.md").write_text(selectors_page(frame), encoding="utf-8")
    for paper, study in studies.items():
        (out / f"{paper}.md").write_text(paper_page(paper, study, draw), encoding="utf-8")


def claims_page(found: list[Claim], frame: pd.DataFrame) -> str:
    """The front page: ten claims on one screen."""
    runs = frame.drop_duplicates("run")
    rows, numbers = [], []
    for i, claim in enumerate(found, 1):
        bounds = "; ".join(f"{'>' if side == 'above' else '<'} {bound:g}" for side, bound in claim.bounds)
        ours = "; ".join(map(str, claim.numbers))
        paper = "; ".join(f"{number.paper:g}" for number in claim.numbers if number.paper is not None) or "–"
        rows.append([str(i), claim.text, bounds, ours, paper, f"**{claim.verdict}**"])
        numbers.append(f"{i}. {claim.source}: {'; '.join(number.what for number in claim.numbers)}.")
    count = Counter(claim.verdict for claim in found)
    words = {"agrees": "agree", "disagrees": "disagree", "cannot tell": "cannot be told"}
    verdicts = f"Of {len(found)} claims " + ", ".join(f"{count[key]} {words[key]}" for key in words if count[key])
    methods = ", ".join(name(method) for method in runs["method"].unique())
    about = {"verdicts": verdicts, "numbers": "\n".join(numbers), "sets": _sets(runs), "methods": methods}
    table = markdown(["", "claim", "claimed", "ours", "paper", "verdict"], rows)
    settings = runs.groupby(["data", "method"])
    counts = {"strengths": _range(settings["strength"].nunique()), "seeds": _range(settings["seed"].nunique())}
    for key, paper in (("traced", "holtz2022"), ("teapots", "eastwood2018")):
        counts[key] = str(study_of(paper).frame["run"].nunique())
    return CLAIMS.format(models=len(runs), table=table, **about, **counts)


def _sets(runs: pd.DataFrame) -> str:
    return ", ".join(f"{count} on {name(data)}" for data, count in runs["data"].value_counts(sort=False).items())


def _range(counts: pd.Series) -> str:
    """The one number that all have, or from the least to the most."""
    low, high = counts.min(), counts.max()
    return str(low) if low == high else f"{low} to {high}"


def paper_page(paper: str, study: Study, draw: bool) -> str:
    """Every table of a paper with a verdict, and some figures; one line for each that there are no models for."""
    made, missing = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for item in shown(paper):
            kept = kept_file(item)
            if is_figure(item):
                found = make(item, study, Path(scratch)) if draw or not kept.exists() else Made(item)
                if found.files:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    picture(found.files[0], kept)
                if kept.exists():
                    made.append(f"## {heading(item)}\n\n{item.title}.\n\n![{item.title}](figures/{kept.name})")
                    continue
            else:
                found = make(item, study, Path(scratch))
                if not found.missing:
                    table = with_intervals(item, study)
                    said = [sentence(item, table), table.note, *(f"{n[0].upper()}{n[1:]}." for n in found.notes)]
                    made.append(_deeper(table_text(item, replace(table, note=" ".join(filter(None, said)))).strip()))
                    continue
                if kept.exists():
                    made.append(_deeper(kept.read_text(encoding="utf-8").strip()))
                    continue
            missing.append(f"- {heading(item)} ({item.title}): {found.missing}.")
    runs = study.frame.drop_duplicates("run")
    judged = any("**" in part for part in made)
    about = f"{len(runs):,} models: {_sets(runs)}." + (f" {RULE}" if judged else "")
    parts = [f"# {TITLES[paper]}, at the scale of two cores", about, *made]
    if missing:
        parts += ["## Not from these models", "\n".join(missing)]
    return "\n\n".join([*parts, "Made by `python benchmarks/publish.py pages`."]) + "\n"


def _deeper(text: str) -> str:
    return re.sub("^#", "##", text, flags=re.MULTILINE)


def shown(paper: str) -> list[Item]:
    """Every table of a paper and those of its figures that the pages show."""
    return [item for item in items()[paper].values() if not is_figure(item) or item.name in FIGURES[paper]]


def is_figure(item: Item) -> bool:
    return item.name.startswith("figure")


def kept_file(item: Item) -> Path:
    """Where the picture, or the table that needs the models, is kept."""
    if is_figure(item):
        return RESULTS / "figures" / f"{item.paper}_{item.name}.png"
    return RESULTS / "tables" / item.paper / f"{item.name}.md"


def picture(file: Path, out: Path) -> None:
    """With 256 colours and at most 2,000 pixels a side, a third of the bytes."""
    with Image.open(file) as whole:
        image = whole.convert("RGB")
        image.thumbnail((2000, 2000))
        image.quantize(256, dither=Image.Dither.NONE).save(out, optimize=True)
