"""How many matrices it takes to learn abstract reasoning from codes that are the factors, turned, or entangled.

    python benchmarks/reasoning.py [--seeds 3] [--samples 1000 4000 16000 32000]

Accuracy on other matrices (chance 0.17) for dSprites' factors, mean over seeds. Turned: a rotation. Entangled: the
factors through two random layers with a tanh between them, of as many units, which loses nothing. Prints a table; each
finished line is kept in --out, and the same command goes on there.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from karenina.papers.since2020.reasoning import MOST_VALUES, learn_matrices, reasoning_matrices

SIZES = (3, 6, 40, 32, 32)


def codings() -> dict:
    rng = np.random.default_rng(0)
    scale = np.sqrt((np.square(SIZES) - 1) / 12)
    turn, other = (np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(2))

    def unit(rows):
        return (rows - (np.array(SIZES) - 1) / 2) / scale

    return {
        "factors": unit,
        "turned": lambda rows: unit(rows) @ turn,
        "entangled": lambda rows: np.tanh(2 * unit(rows) @ turn) @ other,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, nargs="+", default=[1_000, 4_000, 16_000, 32_000])
    parser.add_argument("--edge", type=int, default=64)
    parser.add_argument("--out", type=Path, help="a .jsonl")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = {}
    if options.out is not None and options.out.exists():
        lines = [json.loads(line) for line in options.out.read_text().splitlines()]
        done = {(line["codes"], line["seed"]): line["accuracy"] for line in lines}
    for seed in range(options.seeds):
        for name, encode in codings().items():
            if (name, seed) in done:
                continue

            def draw(n, of, encode=encode):
                found = reasoning_matrices(SIZES, n, most_values=MOST_VALUES["dsprites"], seed=of)
                return *found.codes(encode), found.position

            curve = learn_matrices(draw, samples=options.samples, edge=options.edge, seed=seed)
            done[name, seed] = list(curve.accuracy)
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps({"codes": name, "seed": seed, "accuracy": curve.accuracy}) + "\n")
    print("| codes | " + " | ".join(f"{n:,}" for n in options.samples) + " |")
    print("|---" * (len(options.samples) + 1) + "|")
    for name in codings():
        values = np.array([done[name, seed] for seed in range(options.seeds)])
        cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(values.mean(axis=0), values.std(axis=0))]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
