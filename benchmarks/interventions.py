"""What interventions through the generative model cost, and what they change.

    python benchmarks/interventions.py [RUN ...]

Without runs, `karenina.score` of a conv64 run on rendered dSprites at the default sizes: CPU seconds with interventions
from the encoded rows and from the generative model, and their ratio. With runs on dsprites:side=16, their scores from
the whole grid of 737,280 encoded images, from blocks and from rows.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import karenina
from karenina.evaluation.data import inputs
from karenina.evaluation.interventions import sampler_of
from karenina.metrics import z_diff, z_max_variance, z_min_variance

METRICS = {"z_diff": z_diff, "z_min_variance": z_min_variance, "z_max_variance": z_max_variance}


def cpu_seconds(run: Any, data: Any, way: str, metrics: Any = None) -> float:
    start = time.process_time()
    karenina.score(run, data=data, interventions=way, metrics=metrics)
    return time.process_time() - start


def cost(repeats: int) -> None:
    data = karenina.load("dsprites")
    run = karenina.train(data, "beta_vae", network="conv64", latents=10, steps=20)
    cpu_seconds(run, data, "model", ["z_diff", "z_max_variance", "dci_boosted"])  # compile
    print("| score of | rows, CPU s | generative model, CPU s | ratio |\n|---|---|---|---|")
    for what, metrics in (("every metric", None), ("the three metrics alone", list(METRICS))):
        both = {way: min(cpu_seconds(run, data, way, metrics) for _ in range(repeats)) for way in ("rows", "model")}
        print(f"| {what} | {both['rows']:.1f} | {both['model']:.1f} | {both['model'] / both['rows']:.2f} |", flush=True)


def accuracy(paths: list[Path]) -> None:
    print("| run | metric | whole grid | blocks | rows |\n|---|---|---|---|---|")
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in METRICS}
    for path in paths:
        run = karenina.open(path)
        data = karenina.load(run.config.data)
        grid = np.concatenate([run.encode(data.at(part))[0] for part in np.array_split(np.arange(len(data)), 40)])
        images, factors = inputs(data)
        codes, blocks = run.encode(images)[0], sampler_of(run, data)
        for name, metric in METRICS.items():
            samplers = (lambda rows, grid=grid, data=data: grid[data.factors.index(rows)], blocks, None)
            whole, ours, cheap = (float(metric(codes, factors, sampler=sampler)) for sampler in samplers)
            errors[name].append((abs(ours - whole), abs(cheap - whole)))
            print(f"| {path.name} | {name} | {whole:.3f} | {ours:.3f} | {cheap:.3f} |", flush=True)
    print("\n| metric | mean distance of blocks from the whole grid | of rows |\n|---|---|---|")
    for name, found in errors.items():
        ours, cheap = np.nanmean(found, axis=0)
        print(f"| {name} | {ours:.3f} | {cheap:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    accuracy(given.runs) if given.runs else cost(given.repeats)


if __name__ == "__main__":
    main()
