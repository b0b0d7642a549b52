"""What interventions through the generative model cost, and how near they come to the generative model itself.

    python benchmarks/interventions.py

Cost: `karenina.score` of a conv64 run on rendered dSprites at the default sizes, CPU seconds with interventions from
the encoded rows and from the generative model, and their ratio.

Accuracy: two models of dSprites at 16 x 16, whose whole grid of 737,280 images is encoded. The score with batches from
that grid, mean over seeds, is the reference; the scores from blocks and from rows are made anew `--repeats` times, each
time from other rows and blocks of the default sizes. Bias is their mean distance from the reference, spread their
standard deviation, error the root mean square of the distance.
"""

import argparse
import warnings
from functools import partial
from typing import Any

import numpy as np
from timing import cpu_seconds

import karenina
from karenina.evaluation.scoring import inputs, sampler_of
from karenina.metrics import z_diff, z_max_variance, z_min_variance

METRICS: dict[str, Any] = {"z_diff": z_diff, "z_min_variance": z_min_variance, "z_max_variance": z_max_variance}
REFERENCES = 3  # seeds of the reference
BOUND = 2.0  # of the ratio of costs


def cost(repeats: int) -> None:
    data = karenina.load("dsprites")
    run = karenina.train(data, "beta_vae", network="conv64", latents=10, steps=2)
    factors = data.sample(300, np.random.default_rng(0))[1]
    karenina.score(factors.astype(float), factors)  # compile
    print("| score of | rows, CPU s | generative model, CPU s | ratio |\n|---|---|---|---|")
    for what, metrics in (("every metric", None), ("the three metrics alone", list(METRICS))):
        both = {}
        for way in ("rows", "model"):
            call = partial(karenina.score, run, data=data, interventions=way, metrics=metrics)
            both[way] = min(cpu_seconds(call)[0] for _ in range(repeats))
        ratio = both["model"] / both["rows"]
        print(f"| {what} | {both['rows']:.1f} | {both['model']:.1f} | {ratio:.2f} |", flush=True)
        if ratio > BOUND:
            print(f"NOT met: the ratio is {ratio:.2f}, {BOUND:g} is allowed")


def looked_up(grid: Any, factors: Any, rows: Any) -> Any:
    return grid[factors.index(rows)]


def accuracy(repeats: int, steps: int) -> None:
    data = karenina.load("dsprites:side=16")
    print("| model | metric | reference | blocks: bias, spread, error | rows: the same |\n|---|---|---|---|---|")
    squares: dict[str, list[list[float]]] = {name: [] for name in METRICS}
    for beta in (4, 32):
        run = karenina.train(data, "beta_vae", beta=beta, network="mlp256", latents=10, steps=steps)
        grid = np.concatenate([run.encode(data.at(part))[0] for part in np.array_split(np.arange(len(data)), 80)])
        scores: dict[str, list[list[float]]] = {name: [] for name in METRICS}
        whole = partial(looked_up, grid, data.factors)
        for seed in range(repeats):
            images, factors = inputs(data, seed=seed)
            codes, blocks = run.encode(images)[0], sampler_of(run, data, seed=seed)
            for name, metric in METRICS.items():
                ways = (blocks, None, whole) if seed < REFERENCES else (blocks, None)
                scores[name].append([float(metric(codes, factors, sampler=way, seed=seed)) for way in ways])
        for name, found in scores.items():
            reference = np.mean([values[2] for values in found[:REFERENCES]])
            off = np.array([values[:2] for values in found]) - reference
            squares[name].append((off**2).mean(axis=0).tolist())
            cells = [
                f"{bias:+.3f}, {spread:.3f}, {error:.3f}"
                for bias, spread, error in zip(off.mean(axis=0), off.std(axis=0, ddof=1), np.sqrt(squares[name][-1]))
            ]
            print(f"| beta = {beta} | {name} | {reference:.3f} | {' | '.join(cells)} |", flush=True)
    print("\n| metric | error of blocks | of rows |\n|---|---|---|")
    for name, each in squares.items():
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in np.sqrt(np.mean(each, axis=0)))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=6, help="of the accuracy")
    parser.add_argument("--times", type=int, default=1, help="that the cost is measured; the least counts")
    parser.add_argument("--steps", type=int, default=1500, help="of the two models")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    accuracy(given.repeats, given.steps)
    print()
    cost(given.times)


if __name__ == "__main__":
    main()
