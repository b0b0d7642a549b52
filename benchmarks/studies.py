"""Studies: what the runner adds to training, a look at 10,000 runs, and the analyses of 12,600 runs x 20 metrics.

CPU time of one core unless said otherwise.
"""

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from timing import cpu_seconds

from karenina.studies.analyses import ANALYSES
from karenina.studies.plan import parse, preset
from karenina.studies.runner import run
from karenina.studies.study import Study

PLAN = """
data = "blobs"
seeds = 3
latents = 8
network = "mlp"
steps = 2000
[methods.beta_vae]
beta = [4, 16]
[evaluation]
metrics = ["mig"]
rows = 1000
[selection]
udr = ["spearman"]
"""
OTHERS = ("elbo", "kl", "reconstruction", "informative_latents", "total_correlation_mean", "total_correlation_sampled")
VERSIONS = ("udr_lasso", "udr_spearman", "udr_lasso_a2a", "udr_spearman_a2a")


def overhead() -> None:
    """Wall time of a worker that is neither training nor scoring, after its start."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Study(Path(scratch) / "study")
        run(parse(PLAN), folder.path, workers=1, quiet=True)
        timings = pq.read_table(folder.path / "timings.parquet").to_pandas()
        ends = sorted(file.stat().st_mtime for file in (folder.path / "scores").iterdir())
    parts = timings[timings["what"].isin(["load", "train", "score"])]
    train = timings[timings["what"] == "train"].groupby("run", sort=False)["seconds"].sum()
    work = parts.groupby("run", sort=False)["seconds"].sum()
    # From the end of the first model on: the start of the process and of torch is paid once per worker, not per model.
    idle = (ends[-1] - ends[0]) - work.iloc[1:].sum()
    print(
        f"runner: {1000 * idle / (len(work) - 1):.0f} ms a model, {idle / train.iloc[1:].sum():.2%} of training (wall)"
    )


def status() -> None:
    plan = preset("locatello2019", "paper")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Study(scratch + "/study")
        folder.adopt(plan)
        for point in plan.points[:10_000]:
            folder.scores_path(point.hash, plan.evaluation.hash).touch()
        words = [sys.executable, "-c", "from karenina.cli import main; main()", "study", "status", str(folder.path)]
        start = time.perf_counter()
        said = subprocess.check_output(words, text=True)
        print(
            f"study status of 10,000 finished runs: {time.perf_counter() - start:.2f} s (wall): {said.splitlines()[1]}"
        )


def paper_sized() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A frame like that of the 12,600 models with 20 metrics, and UDR of pairs within settings: random numbers."""
    rng = np.random.default_rng(0)
    grid = list(itertools.product(range(7), range(6), range(6), range(50)))
    runs = pd.DataFrame(grid, columns=["data", "method", "strength", "seed"])
    runs["run"] = [f"{d}-{m}-{k}-{s}" for d, m, k, s in grid]
    runs["setting"] = [f"{m}-{k}" for _, m, k, _ in grid]
    runs["data"], runs["method"] = "data" + runs["data"].astype(str), "method" + runs["method"].astype(str)
    runs["latents"], runs["factor"], runs["property"] = 10, "", ""
    families = {f"metric{i}": "predictor" for i in range(20)}
    families |= dict.fromkeys(OTHERS, "label-free") | dict.fromkeys(VERSIONS, "selection")
    parts = [
        runs.assign(metric=name, family=family, value=rng.normal(size=len(runs))) for name, family in families.items()
    ]
    names = runs["run"].to_numpy().reshape(-1, 50)
    target = np.repeat(names, 49, axis=1).ravel()
    source = np.concatenate([np.delete(row, i) for row in names for i in range(50)])
    pairs = pd.DataFrame({"data": "", "target": target, "source": source, "value": rng.random(len(target))})
    return pd.concat(parts, ignore_index=True), pairs


def analyses() -> None:
    frame, pairs = paper_sized()
    print(f"analyses of {frame['run'].nunique():,} runs, {frame['metric'].nunique()} scores, {len(pairs):,} pairs")
    total = 0.0
    for name, analysis in ANALYSES.items():
        if analysis.extra == "dynamics" or name == "tasks":  # no traces and no tasks here
            continue
        seconds, _ = cpu_seconds(analysis.compute, frame, *([pairs] if analysis.extra else []))
        total += seconds
        print(f"  {name:20}{seconds:6.2f} s")
    print(f"  {'all':20}{total:6.2f} s")


if __name__ == "__main__":
    overhead()
    status()
    analyses()
