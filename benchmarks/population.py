"""Models trained as one population, against `train` one after the other and a plain PyTorch loop.

python benchmarks/population.py [--write]   # speed: CPU time of one thread, contestants taking turns, medians
python benchmarks/population.py --dense     # without convolutions, which take most of the time
python benchmarks/population.py --paired 16 # also whether the scores of models trained together differ from those alone

Run with OMP_NUM_THREADS=1. Exits 1 if a promise is not kept.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from pages import markdown, write_part
from torch import nn
from torch.nn import functional

from karenina.data import DataSet, load
from karenina.metrics import mig
from karenina.models import fast
from karenina.training import train
from karenina.training.batches import Batches, to_tensor
from karenina.training.learners import PopulationLearner, make_learner
from karenina.training.methods import METHODS, make_config
from karenina.training.trainer import Member, expand, train_many

CPU = torch.device("cpu")
Step = Callable[[], None]


def plain(data: DataSet, units: int, latents: int) -> Step:
    """A step of a VAE as anyone would write it."""
    pixels = int(np.prod(data.image_shape))
    encoder = nn.Sequential(
        nn.Flatten(),
        nn.Linear(pixels, units),
        nn.ReLU(),
        nn.Linear(units, units),
        nn.ReLU(),
        nn.Linear(units, 2 * latents),
    )
    decoder = nn.Sequential(
        nn.Linear(latents, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, pixels)
    )
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    rng = np.random.default_rng(0)

    def step() -> None:
        x = torch.from_numpy(data.sample(64, rng)[0]).float() / 255
        mean, logvar = encoder(x).chunk(2, dim=1)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        loss = functional.binary_cross_entropy_with_logits(decoder(z), x.flatten(1), reduction="sum") / len(x)
        kl = 0.5 * (mean**2 + logvar.exp() - logvar - 1).sum(1).mean()
        optimiser.zero_grad()
        (16 * loss + 4 * kl).backward()
        optimiser.step()

    return step


def members_of(data: DataSet, network: str, models: int) -> list[Member]:
    grid = {"beta": [float(2**i) for i in range(max(models // 4, 1))]}
    points = expand("beta_vae", grid, min(models, 4), {"network": network, "latents": 8, "steps": 1000})
    return [Member(make_config(data, p.method, p.parameters, p.settings), METHODS["beta_vae"]) for p in points]


def alone(data: DataSet, member: Member) -> Step:
    """A step of `train`."""
    rng, noise = np.random.default_rng(0), torch.Generator().manual_seed(0)
    learner = make_learner(member.config, member.method, len(data), noise, CPU)
    step = iter(range(10**9))

    def one() -> None:
        learner.update(lambda: to_tensor(data.sample(member.config.batch, rng)[0], CPU), next(step))

    return one


def together(data: DataSet, members: list[Member]) -> Step:
    """A step of a population."""
    noise = [torch.Generator().manual_seed(i) for i in range(len(members))]
    rngs = [np.random.default_rng(i) for i in range(len(members))]
    learner = PopulationLearner(members, len(data), noise, CPU)
    batches = Batches(data, members[0].config.batch, CPU, rngs)
    step = iter(range(10**9))
    return lambda: learner.update(batches, next(step)) and None


def milliseconds(steps: dict[str, tuple[Step, int]], repeats: int, updates: int) -> dict[str, list[float]]:
    """CPU time per model and step of each contestant, in turns. Each is (step, models it serves)."""
    for step, _ in steps.values():
        for _ in range(5):
            step()
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, (step, models) in steps.items():
            count = max(updates // models, 3)
            start = time.process_time()
            for _ in range(count):
                step()
            found[name].append((time.process_time() - start) / count / models * 1e3)
    return found


TABLES: dict[str, list[list[str]]] = {"dense": [], "convolutions": []}


def compare(
    title: str, data: DataSet, network: str, units: int | None, sizes: list[int], updates: int, repeats: int
) -> dict[str, float]:
    steps: dict[str, tuple[Step, int]] = {}
    if units is not None:
        steps["plain"] = plain(data, units, 8), 1
    members = members_of(data, network, max(sizes))
    steps["train"] = alone(data, members[0]), 1
    steps |= {f"population of {k}": (together(data, members[:k]), k) for k in sizes}
    found = milliseconds(steps, repeats, updates)
    medians = {name: statistics.median(values) for name, values in found.items()}
    print(f"\n{title}: CPU ms per model and step (least to most of {repeats})")
    for name, values in found.items():
        ratio = medians["train"] / medians[name]
        print(f"  {name:18} {medians[name]:7.2f} ({min(values):.2f}-{max(values):.2f})   {ratio:.2f}x train")
        table = TABLES["convolutions" if units is None else "dense"]
        table.append([title, name, f"{medians[name]:.2f} ({min(values):.2f}-{max(values):.2f})", f"{ratio:.2f}"])
    return medians


def paired(models: int, steps: int) -> tuple[float, float]:
    """Mean difference in MIG of models trained together and alone, and half of its 95 % interval."""
    data = load("blobs")
    images, factors = data.sample(3000, np.random.default_rng(1))
    betas = [1.0, 4.0, 8.0, 16.0]
    settings = {"latents": 8, "steps": steps}
    runs = train_many("blobs", "beta_vae", {"beta": betas}, seeds=models // len(betas), population=models, **settings)
    differences, same = [], 0
    for run in runs:
        one = train("blobs", "beta_vae", seed=run.config.seed, beta=run.config.parameters["beta"], **settings)
        scores = [float(mig(model.encode(images)[0], factors)) for model in (run, one)]
        differences.append(scores[0] - scores[1])
        same += run.encode(images)[0].tobytes() == one.encode(images)[0].tobytes()
        beta, seed = run.config.parameters["beta"], run.config.seed
        print(f"  beta {beta:g} seed {seed}: together {scores[0]:.3f}, alone {scores[1]:.3f}")
    print(f"  {same} of {len(runs)} models have the same codes to the bit")
    half = 1.96 * statistics.stdev(differences) / len(differences) ** 0.5
    return statistics.mean(differences), half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--paired", type=int, default=0, help="compare the scores of so many models, together and alone"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/populations.md")
    parser.add_argument("--steps", type=int, default=6000, help="of each of these")
    parser.add_argument("--dense", action="store_true", help="fully connected networks only")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each contestant")
    options = parser.parse_args()
    n = options.repeats
    torch.set_num_threads(1)
    fast.keep_memory()
    kept = {}
    blobs = compare("mlp on blobs", load("blobs"), "mlp", 128, [2, 4, 8, 16, 32], 96, n)
    kept["mlp, 16 models: 2.2x train"] = blobs["train"] / blobs["population of 16"] >= 2.2
    kept["mlp, 16 models: 3x a plain loop"] = blobs["plain"] / blobs["population of 16"] >= 3
    sprites = compare("mlp256 on dSprites, side 16", load("dsprites:side=16"), "mlp256", 256, [8, 16, 32], 64, n)
    kept["mlp256 at side 16, 16 models: 1.5x train"] = sprites["train"] / sprites["population of 16"] >= 1.5
    if not options.dense:
        compare("conv32 on dSprites, side 32", load("dsprites:side=32"), "conv32", None, [4], 16, n)
        compare("conv64 on dSprites", load("dsprites"), "conv64", None, [4], 8, n)
    print("\nConvolutions on a CPU are trained one by one (population = auto), so never slower than that.")
    if options.paired:
        print(f"\nMIG of {options.paired} models after {options.steps} steps")
        mean, half = paired(options.paired, options.steps)
        print(f"  mean difference {mean:+.4f}, 95 % interval [{mean - half:+.4f}, {mean + half:+.4f}]")
        kept["MIG together and alone differ by less than 0.02"] = abs(mean) + half < 0.02
    if options.write:
        heads = ["what", "how", "CPU ms per model and step (least to most)", "times as fast as `train`"]
        for part, table in TABLES.items():
            if table:
                write_part("populations.md", f"benchmarks/population.py {part}", markdown(heads, table))
    for promise, held in kept.items():
        print(f"{'held' if held else 'NOT HELD'}: {promise}")
    sys.exit(not all(kept.values()))


if __name__ == "__main__":
    main()
