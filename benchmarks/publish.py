"""Publish what studies found: tables of scores in the package, and docs/results made from these tables alone.

    python benchmarks/publish.py add DIR [DIR ...]    # finished studies -> the tables that are kept, and the pages
    python benchmarks/publish.py rank DIR             # then the scores of `karenina rank`, from the models of a study
    python benchmarks/publish.py tasks DIR [--seeds 3] [--only fairness]    # and what their codes are good for
    python benchmarks/publish.py pages                # docs/results/*.md and figures from the tables
    python benchmarks/publish.py again [--models 3]   # trains random published models anew: are the scores the same?

Models of `locatello2019` go to src/karenina/studies/published, where `karenina.baselines()` finds them, those of
another paper's preset to docs/results/tables/PAPER. Figures and tables that need the models themselves are made when a
study is added, and kept. Every other number is computed from the tables: tests/studies/test_published.py makes the
pages again.
"""

import argparse
import contextlib
import json
import re
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from claims import Claim, claims
from pages import DOCS, markdown
from PIL import Image
from verdicts import sentence, with_intervals

import karenina
from karenina.evaluation.data import data_of, inputs, sampler_of
from karenina.studies.analyses.charts import plain_number
from karenina.studies.analyses.choosing import selectors
from karenina.studies.execution.folder import Folder
from karenina.studies.execution.populations import populations, train_population
from karenina.studies.papers import Made, make, paper_of
from karenina.studies.papers.lists import Item, items
from karenina.studies.papers.outputs import heading, name
from karenina.studies.papers.outputs import markdown as table_text
from karenina.studies.papers.study import Study
from karenina.studies.plan.plan import Plan
from karenina.studies.plan.presets import preset
from karenina.studies.published import TABLES, baselines, publish, scoring
from karenina.studies.results.table import SCHEMAS, TASK, with_scores, write_parquet
from karenina.tasks import downstream, fairness

RESULTS = DOCS / "results"
# Ways to choose that a study does not compute by itself, as `karenina rank --by` names them.
RANKED = ("orthogonality", "support", "centrality")
FROM_MODELS = "dsprites:side=16"  # the data set whose models are shown where tables of scores do not suffice
# Further tables of a study that the papers' tables need, joined over the published studies.
EXTRA = ("partners", "dynamics")
CLAIMS = """# Ten claims of the five papers, tried here

{models:,} models ({methods}; {sets}): {strengths} strengths, {seeds} seeds, small images and a small network, as in
`karenina study run locatello2019 --scale laptop`; the dynamics score has {traced} models of its own, InfoGAN {teapots}.
This is not the papers' scale, and a verdict is about these models. In brackets: 95 % intervals from leaving out one
seed at a time (of the dynamics score: from resampling its settings). A claim *agrees* if the whole interval is on
the side of the bound that it says, *disagrees* if the whole is on the other, and otherwise these models *cannot
tell*. The bounds were fixed beforehand (`benchmarks/claims.py`).

{table}

Tables and figures by their own names: [Locatello et al. (2019)](locatello2019.md), [Duan et al. (2020)](duan2020.md),
[Holtz et al. (2022)](holtz2022.md), [Carbonneau et al. (2022)](carbonneau2022.md), [Eastwood & Williams
(2018)](eastwood2018.md). Which score to choose a model by: [selectors](selectors.md). Why some disagree: [what was
varied](why.md). Also: [the clustering task](clustering.md), [methods since 2020](beyond.md), [the audit of
metrics](../audit.md).

Made by `python benchmarks/publish.py pages` from the tables that `karenina.baselines()` gives.
"""
SELECTORS = """# Which score should choose a model when there are no labels?

Every label-free score that a study keeps, and those of `karenina rank` but PIPE, chooses one of the published models,
and supervised scores judge the choice. Gain: 0 is what a random choice gives on average, 1 what an oracle would.
Regret: the oracle's score minus the chosen model's. Among the seeds of a setting the strength cannot help: means over
settings, and a score that is the same for all seeds of a setting, as the dynamics score, has gain 0 there. 95 %
intervals from 1,000 resamples of the models, or of the settings. `informative_latents`: the number of active latents.
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
        *("figure_12", "figure_15", "figure_16", "figure_22"),
    ),
    "duan2020": ("figure_1", "figure_2", "figure_6", "figure_8", "figure_9"),
    "holtz2022": ("figure_1", "figure_3", "figure_4"),
    "carbonneau2022": ("figure_3",),
    "eastwood2018": ("figure_2", "figure_3", "figure_5", "figure_6"),
}
RULE = """Under each table, its verdict: a value *differs* if the paper's is outside our 95 % interval, *cannot be told*
if the interval holds the paper's and 0 as well, and *agrees* otherwise; the table goes with most of its values
(`benchmarks/verdicts.py`). The interval is that over models, settings or seeds, also where a cell shows ± a standard
deviation."""


def add(paths: list[Path]) -> None:
    """Put the results of finished studies beside those that are published already."""
    for path in paths:
        folder = Folder(path)
        status = folder.status()
        if status.waiting or status.failed or status.running:
            raise SystemExit(f"{path}: {status.waiting} models are missing, {len(status.failed)} failed")
        paper = paper_of(status.plan.name)
        if paper in OWN:
            own = RESULTS / "tables" / paper
            own.mkdir(parents=True, exist_ok=True)
            for file in ("results.parquet", "dynamics.parquet"):
                if (path / file).exists():
                    shutil.copy(path / file, own / file)
            keep_from_models(paper, Study.open(path))
        else:
            _add_baselines(path, status.plan)
            if FROM_MODELS in status.plan.data:
                for one in ("locatello2019", "duan2020"):
                    keep_from_models(one, Study.open(path))


def _add_baselines(path: Path, plan: Plan) -> None:
    for data, part in karenina.results(path).groupby("data", sort=False):
        publish(part, plan.evaluation, _table(str(data)))
        for extra in EXTRA:
            _add_extra(path / f"{extra}.parquet", str(data), part)


def add_rankings(path: Path) -> None:
    """Scores of published models that `karenina rank` gives, from the models of their study: minutes for hundreds."""
    plan = Folder(path).plan()
    for by in RANKED:
        for data in plan.data:
            frame = baselines(data)
            runs = [path / "runs" / run for run in frame["run"].unique()]
            ranking = karenina.rank(runs, by, rows=plan.evaluation.rows).frame
            names = [Path(run).name for run in ranking["run"]]
            scores = {"run": names, "metric": [by] * len(names), "value": list(ranking["score"])}
            publish(with_scores(frame[frame["metric"] != by], scores), plan.evaluation, _table(data))
            print(f"{by} of {len(names)} models on {data}", flush=True)


def add_tasks(path: Path, seeds: int, only: list[str], workers: int = 2) -> None:
    """What codes of the first seeds are good for, 5 to 25 s per model; again: resumes.

    The numbers are those of a study with tasks = true, which is why its plan says how many rows there are.
    """
    plan = Folder(path).plan()
    done = path / f"tasks-{'-'.join(sorted(only))}.jsonl"
    found = _lines(done)
    waiting = [point.hash for point in plan.points if point.seed < seeds and point.hash not in set(found["run"])]
    how = (plan.evaluation.rows, plan.evaluation.seed, plan.evaluation.interventions, only)
    with ProcessPoolExecutor(workers) as pool, done.open("a", encoding="utf-8") as file:
        paths = [path / "runs" / run for run in waiting]
        for run, scores in zip(waiting, pool.map(_tasks_of, paths, *([part] * len(paths) for part in how))):
            file.write("\n" + json.dumps({"run": run, "scores": scores}))  # before it: a line may have been cut off
            file.flush()
    found = _lines(done)
    paper = paper_of(plan.name)
    if paper in OWN:
        out = RESULTS / "tables" / paper / "results.parquet"
        frame = _with_tasks(pq.read_table(out).to_pandas(), found)
        write_parquet(out, pa.Table.from_pandas(frame, schema=SCHEMAS["results"], preserve_index=False))
        return
    for data in plan.data:
        publish(_with_tasks(baselines(data), found), plan.evaluation, _table(data))


def _tasks_of(path: Path, rows: int, seed: int, interventions: str, only: list[str]) -> list[tuple[str, str, float]]:
    import torch

    torch.set_num_threads(1)
    run = karenina.open(path)
    data = data_of(run)
    images, factors = inputs(data, rows, seed)
    unseen, truth = inputs(data, rows // 2, seed + 1)
    given = {"seed": seed, "continuous": [size is None for size in data.factor_sizes]}
    given |= {"test_codes": run.encode(unseen)[0], "test_factors": truth}
    codes, found = run.encode(images)[0], []
    if "downstream" in only:
        found += [("usefulness", *score) for score in downstream(codes, factors, **given).summary().items()]
    if "fairness" in only:
        sampler = sampler_of(run, data.whole, interventions, rows, seed)
        found += [
            ("fairness", *score) for score in fairness(codes, factors, sampler=sampler, **given).summary().items()
        ]
    return [score for score in found if np.isfinite(score[2])]


def _lines(file: Path) -> pd.DataFrame:
    """Scores of models, one line per model. A line that was cut off does not count, so its model is done again."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            model = json.loads(line)
            rows += [(model["run"], *score) for score in model["scores"]]
    found = pd.DataFrame(rows, columns=["run", "property", "metric", "value"])
    return found.drop_duplicates(["run", "metric"], ignore_index=True)  # two may have computed at once


def _with_tasks(frame: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The scores of published models, and of those alone, in place of what was there of the same names."""
    found = found[found["run"].isin(frame["run"])]
    frame = frame[~frame["metric"].isin(found["metric"])]
    new = frame.drop_duplicates("run").set_index("run", drop=False).loc[list(found["run"])]
    given = {name: list(found[name]) for name in ("metric", "property", "value")}
    return pd.concat([frame, new.assign(family=TASK, factor="", std=np.nan, **given)], ignore_index=True)


def _table(data: str) -> Path:
    return TABLES / f"{data.replace(':', '+', 1)}.parquet"


def keep_from_models(paper: str, study: Study) -> None:
    """Make what a page shows and its tables cannot give, from the trained models."""
    tables = Study(study.frame, RESULTS / "tables" / (paper if paper in OWN else ""))
    with tempfile.TemporaryDirectory() as scratch:
        for item in shown(paper):
            if make(item, tables, Path(scratch)).missing and not (found := make(item, study, Path(scratch))).missing:
                kept = _kept(item)
                kept.parent.mkdir(parents=True, exist_ok=True)
                if _is_figure(item):
                    picture(found.files[0], kept)
                else:
                    text = found.files[1].read_text(encoding="utf-8")
                    kept.write_text(text.replace(f"{study.folder().parent}/", ""), encoding="utf-8")
                print(f"kept {kept.relative_to(DOCS)}")


def shown(paper: str) -> list[Item]:
    """Every table of a paper and those of its figures that the pages show."""
    return [item for item in items()[paper].values() if not _is_figure(item) or item.name in FIGURES[paper]]


def _is_figure(item: Item) -> bool:
    return item.name.startswith("figure")


def _kept(item: Item) -> Path:
    """Where the picture, or the table that needs the models, is kept."""
    if _is_figure(item):
        return RESULTS / "figures" / f"{item.paper}_{item.name}.png"
    return RESULTS / "tables" / item.paper / f"{item.name}.md"


def picture(file: Path, out: Path) -> None:
    """With 256 colours and at most 2,000 pixels a side, a third of the bytes."""
    with Image.open(file) as whole:
        image = whole.convert("RGB")
        image.thumbnail((2000, 2000))
        image.quantize(256, dither=Image.Dither.NONE).save(out, optimize=True)


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


def study_of(paper: str) -> Study | None:
    """The tables of a paper's own study, if they are there."""
    path = RESULTS / "tables" / paper
    file = path / "results.parquet"
    return Study(pq.read_table(file).to_pandas(), path) if file.exists() else None


def pages(out: Path = RESULTS, draw: bool = True) -> None:
    """Write everything that the tables give. draw: also the figures; else those that are there are shown."""
    study = Study(baselines(), RESULTS / "tables")
    teapots = study_of("eastwood2018")
    found = claims(study.frame, study_of("holtz2022") or study, teapots.frame if teapots else None)
    (out / "claims.md").write_text(claims_page(found, study.frame), encoding="utf-8")
    (out / "selectors.md").write_text(selectors_page(study.frame), encoding="utf-8")
    for paper in TITLES:
        text = paper_page(paper, study_of(paper) or study, draw)
        (out / f"{paper}.md").write_text(text, encoding="utf-8")


def claims_page(found: list[Claim], frame: pd.DataFrame) -> str:
    """The front page: ten claims on one screen."""
    runs = frame.drop_duplicates("run")
    rows = []
    for claim in found:
        ours = "; ".join(f"{number.what} **{number}**" for number in claim.numbers) or claim.missing
        paper = "; ".join(f"{number.paper:g}" for number in claim.numbers if number.paper is not None) or "–"
        bounds = "; ".join(f"{side} {bound:g}" for side, bound in claim.bounds)
        rows.append([claim.text, claim.source, bounds, paper, ours, f"**{claim.verdict}**"])
    sets = ", ".join(f"{count} on {name(data)}" for data, count in runs["data"].value_counts(sort=False).items())
    methods = ", ".join(name(method) for method in runs["method"].unique())
    table = markdown(["claim", "where", "claimed", "paper", "ours", "verdict"], rows)
    settings = runs.groupby(["data", "method"])
    counts = {"strengths": _range(settings["strength"].nunique()), "seeds": _range(settings["seed"].nunique())}
    for key, paper in (("traced", "holtz2022"), ("teapots", "eastwood2018")):
        own = study_of(paper)
        counts[key] = "no" if own is None else str(own.frame["run"].nunique())
    return CLAIMS.format(models=len(runs), sets=sets, methods=methods, table=table, **counts)


def _range(counts: pd.Series) -> str:
    """The one number that all have, or from the least to the most."""
    low, high = counts.min(), counts.max()
    return str(low) if low == high else f"{low} to {high}"


def selectors_page(frame: pd.DataFrame) -> str:
    """How good a model each label-free score chooses."""
    from karenina.studies.papers.locatello2019 import METRICS

    found = selectors(Study(frame).words_of(METRICS), resamples=1000)
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
                rows.append([selector, plain_number(mean[selector]), *cells])
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
    gain, low, high, regret = (plain_number(line[key]) for key in ("gain", "low", "high", "regret"))
    return f"{gain} [{low}, {high}] ({regret})"


def paper_page(paper: str, study: Study, draw: bool) -> str:
    """Every table of a paper with a verdict, and some figures; one line for each that there are no models for."""
    made, missing = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for item in shown(paper):
            kept = _kept(item)
            if _is_figure(item):
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
    sets = ", ".join(f"{count} on {name(data)}" for data, count in runs["data"].value_counts(sort=False).items())
    judged = any("**" in part for part in made)
    about = f"{len(runs):,} models: {sets}." + (f" {RULE}" if judged else "")
    parts = [f"# {TITLES[paper]}, at the scale of two cores", about, *made]
    if missing:
        parts += ["## Not from these models", "\n".join(missing)]
    return "\n\n".join([*parts, "Made by `python benchmarks/publish.py pages`."]) + "\n"


def _deeper(text: str) -> str:
    return re.sub("^#", "##", text, flags=re.MULTILINE)


def again(models: int, seed: int) -> None:
    """Train random published models anew, with those that they were trained with, score them, and say what differs."""
    published = baselines()
    plan = preset("locatello2019", "laptop")
    together = {point.hash: group for group in populations(plan) for point in group}
    points = [point for point in plan.points if point.hash in set(published["run"])]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(scratch)
        folder.adopt(plan)
        for i in sorted(np.random.default_rng(seed).choice(len(points), models, replace=False)):
            point = points[i]
            train_population(scratch, together[point.hash], plan.checkpoint_seconds)
            data = karenina.load(point.data)
            run = karenina.open(folder.run(point.hash))
            rows = karenina.evaluate(run, data, **asdict(scoring(point.data))).rows()
            known = published[published["run"] == point.hash].set_index(["metric", "property", "factor"])["value"]
            off = {key: abs(row[4] - known[key]) for row in rows if (key := tuple(row[i] for i in (0, 2, 3))) in known}
            wrong = {key: value for key, value in off.items() if value > 0}
            said = "the same to the bit" if not wrong else f"{len(wrong)} differ, by {max(wrong.values()):.2g} at most"
            where = f"{point.data}, {point.method} {dict(point.parameters)}, seed {point.seed}"
            print(f"{where}: {len(off)} scores, {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("add").add_argument("paths", type=Path, nargs="+")
    commands.add_parser("rank").add_argument("path", type=Path)
    tasks = commands.add_parser("tasks")
    tasks.add_argument("path", type=Path)
    tasks.add_argument("--seeds", type=int, default=3)
    tasks.add_argument("--only", nargs="*", default=["downstream", "fairness"])
    commands.add_parser("pages")
    one = commands.add_parser("again")
    one.add_argument("--models", type=int, default=3)
    one.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.command == "add":
        add(options.paths)
        pages()
    elif options.command == "rank":
        add_rankings(options.path)
        pages()
    elif options.command == "tasks":
        add_tasks(options.path, options.seeds, options.only)
        pages()
    elif options.command == "pages":
        pages()
    elif options.command == "again":
        again(options.models, options.seed)
    else:
        parser.print_usage()


if __name__ == "__main__":
    main()
