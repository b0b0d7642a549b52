"""Which strengths to sweep at laptop scale: each method over a wide range of its strength, on small images.

    python benchmarks/strengths.py --out DIR [--data dsprites:side=16] [--seeds 2]   # again: resumes

Wanted are six strengths per method between which something happens: some models disentangle, some do not, and some
but not all latents are active. The laptop scale of the presets uses what this found (preset.toml of the papers).
"""

import argparse
import time
from pathlib import Path

import numpy as np

import karenina
from karenina.metrics import mig

# Reconstruction errors at side 16 count 16 times (64 x 64 pixels), so strengths mean what they mean at 64 x 64.
GRIDS = {
    "beta_vae": {"beta": [1, 2, 4, 8, 16, 24, 32, 48, 64, 96]},
    "annealed_vae": {"c_max": [2, 4, 6, 8, 10, 12, 15, 20, 25]},
    "factor_vae": {"gamma": [5, 10, 20, 40, 80, 160, 320]},
    "dip_vae_i": {"lambda_od": [1, 5, 20, 50, 100, 200, 500, 1000]},
    "dip_vae_ii": {"lambda_od": [1, 5, 20, 50, 100, 200, 500, 1000]},
    "beta_tcvae": {"beta": [1, 2, 4, 8, 16, 24, 32, 48, 64]},
}
FIXED = {
    "annealed_vae": {"gamma": 100, "iteration_threshold": 4000},
    "factor_vae": {"discriminator_layers": 3, "discriminator_units": 64, "discriminator_learning_rate": 1e-3},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("strengths"))
    parser.add_argument("--data", default="dsprites:side=16")
    parser.add_argument("--network", default="mlp256")
    parser.add_argument("--methods", nargs="*", default=list(GRIDS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6000)
    options = parser.parse_args()
    images, factors = karenina.load(options.data).sample(5000, np.random.default_rng(1))
    for method in options.methods:
        started = time.process_time()
        runs = karenina.train_many(
            options.data,
            method,
            GRIDS[method],
            seeds=options.seeds,
            steps=options.steps,
            network=options.network,
            latents=10,
            out=options.out / options.data.replace(":", "-"),
            **FIXED.get(method, {}),
        )
        seconds = (time.process_time() - started) / len(runs)
        print(f"{options.data}, {method}, {options.steps} steps, {seconds:.1f} s per model", flush=True)
        strength = next(iter(GRIDS[method]))
        for run in runs:
            found = mig(run.encode(images)[0], factors)
            per_factor = " ".join(f"{value:.2f}" for value in found.per_factor)
            error = float(run.history["reconstruction"].iloc[-1])
            active = int((run.kl(images) > 0.05).sum())
            print(
                f"  {strength} {run.config.parameters[strength]:g} seed {run.config.seed}: MIG {float(found):.3f} "
                f"({per_factor}), {active} active, reconstruction {error:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
