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
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pages import DOCS
from results_pages import OWN, RESULTS, is_figure, kept_file, pages, picture, shown

import karenina
from karenina.evaluation.scoring import data_of, inputs, sampler_of
from karenina.papers import make, paper_of
from karenina.studies.plan import Plan, preset
from karenina.studies.published import TABLES, baselines, publish, scoring
from karenina.studies.study import TASK, Study, schema, with_scores, write_parquet
from karenina.studies.worker import populations, train_population
from karenina.tasks import downstream, fairness

# Ways to choose that a study does not compute by itself, as `karenina rank --by` names them.
RANKED = ("orthogonality", "support", "centrality")
FROM_MODELS = "dsprites:side=16"  # the data set whose models are shown where tables of scores do not suffice
# Further tables of a study that the papers' tables need, joined over the published studies.
EXTRA = ("partners", "dynamics")


def add(paths: list[Path]) -> None:
    """Put the results of finished studies beside those that are published already."""
    for path in paths:
        folder = Study(path)
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
            keep_from_models(paper, Study(path))
        else:
            _add_baselines(path, status.plan)
            if FROM_MODELS in status.plan.data:
                for one in ("locatello2019", "duan2020"):
                    keep_from_models(one, Study(path))


def _add_baselines(path: Path, plan: Plan) -> None:
    for data, part in karenina.results(path).groupby("data", sort=False):
        publish(part, plan.evaluation, _table(str(data)))
        for extra in EXTRA:
            _add_extra(path / f"{extra}.parquet", str(data), part)


def add_rankings(path: Path) -> None:
    """Scores of published models that `karenina rank` gives, from the models of their study: minutes for hundreds."""
    plan = Study(path).read_plan()
    for by in RANKED:
        for data in plan.data:
            frame = baselines(data)
            runs = [path / "runs" / run for run in frame["run"].unique()]
            ranking = karenina.rank(runs, by, rows=plan.evaluation.rows).frame
            names = [Path(run).name for run in ranking["run"]]
            scores = {"run": names, "metric": [by] * len(names), "value": list(ranking["score"])}
            publish(with_scores(frame, scores), plan.evaluation, _table(data))
            print(f"{by} of {len(names)} models on {data}", flush=True)


def add_tasks(path: Path, seeds: int, only: list[str], workers: int = 2) -> None:
    """What codes of the first seeds are good for, 5 to 25 s per model; again: resumes.

    The numbers are those of a study with tasks = true, which is why its plan says how many rows there are.
    """
    plan = Study(path).read_plan()
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
        frame = with_scores(pq.read_table(out).to_pandas(), found, TASK)
        write_parquet(out, pa.Table.from_pandas(frame, schema=schema("results"), preserve_index=False))
        return
    for data in plan.data:
        publish(with_scores(baselines(data), found, TASK), plan.evaluation, _table(data))


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


def _table(data: str) -> Path:
    return TABLES / f"{data.replace(':', '+', 1)}.parquet"


def keep_from_models(paper: str, study: Study) -> None:
    """Make what a page shows and its tables cannot give, from the trained models."""
    tables = Study(RESULTS / "tables" / (paper if paper in OWN else ""), study.frame)
    with tempfile.TemporaryDirectory() as scratch:
        for item in shown(paper):
            if make(item, tables, Path(scratch)).missing and not (found := make(item, study, Path(scratch))).missing:
                kept = kept_file(item)
                kept.parent.mkdir(parents=True, exist_ok=True)
                if is_figure(item):
                    picture(found.files[0], kept)
                else:
                    text = found.files[1].read_text(encoding="utf-8")
                    kept.write_text(text.replace(f"{study.folder().parent}/", ""), encoding="utf-8")
                print(f"kept {kept.relative_to(DOCS)}")


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
    write_parquet(out, pa.Table.from_pandas(table, schema=schema(file.stem), preserve_index=False))


def again(models: int, seed: int) -> None:
    """Train random published models anew, with those that they were trained with, score them, and say what differs."""
    published = baselines()
    plan = preset("locatello2019", "laptop")
    together = {point.hash: group for group in populations(plan) for point in group}
    points = [point for point in plan.points if point.hash in set(published["run"])]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Study(scratch)
        folder.adopt(plan)
        for i in sorted(np.random.default_rng(seed).choice(len(points), models, replace=False)):
            point = points[i]
            train_population(scratch, together[point.hash], plan.checkpoint_seconds)
            data = karenina.load(point.data)
            run = karenina.open(folder.run_path(point.hash))
            rows = karenina.evaluate(run, data, **asdict(scoring(point.data))).rows()
            known = published[published["run"] == point.hash].set_index(["metric", "property", "factor"])["value"]
            off = {key: abs(row[4] - known[key]) for row in rows if (key := tuple(row[i] for i in (0, 2, 3))) in known}
            wrong = {key: value for key, value in off.items() if value > 0}
            said = "the same to the bit" if not wrong else f"{len(wrong)} differ, by {max(wrong.values()):.2g} at most"
            where = f"{point.data}, {point.method} {dict(point.parameters)}, seed {point.seed}"
            print(f"{where}: {len(off)} scores, {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
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
    options = vars(parser.parse_args())
    command = options.pop("command")
    if command == "again":
        return again(**options)
    if command != "pages":
        {"add": add, "rank": add_rankings, "tasks": add_tasks}[command](**options)
    pages()


if __name__ == "__main__":
    main()
