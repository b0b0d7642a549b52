"""What each method does to its codes on the blobs set, and whether it is what its paper says. Writes a page of docs/.

python benchmarks/methods_on_blobs.py --workers 2 --write     # about ten minutes on two cores
"""

import argparse
import itertools
import platform
import statistics
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.neighbors import KNeighborsRegressor
from timing import cpu_seconds

from karenina._process import cores
from karenina.data import load
from karenina.metrics._dci import dci
from karenina.metrics.information import mig
from karenina.training import Run, train

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods_on_blobs.md"
COMMON: dict[str, Any] = {"latents": 8, "steps": 6000}
# A smaller discriminator that learns faster: 6 x 1000 units would take most of the time on such small codes.
DISCRIMINATOR = {"discriminator_layers": 3, "discriminator_units": 128, "discriminator_learning_rate": 1e-3}
ANNEALED = {"gamma": 300, "iteration_threshold": 4000}
# Method, name of its strength, strengths, other parameters, seeds.
PLAN: list[tuple[str, str | None, list[float], dict[str, Any], int]] = [
    ("beta_vae", "beta", [1, 4], {}, 1),
    ("beta_vae", "beta", [16], {}, 6),
    ("beta_vae", "beta", [64], {}, 1),
    ("beta_tcvae", "beta", [1, 8, 32], {}, 1),
    ("annealed_vae", "c_max", [2, 4, 8], ANNEALED, 1),
    ("factor_vae", "gamma", [0, 20, 100], DISCRIMINATOR, 1),
    ("dip_vae_i", "lambda_od", [1, 10, 100], {}, 1),
    ("dip_vae_ii", "lambda_od", [1, 10, 100], {}, 1),
    ("infogan", "mi_weight", [6], {"learning_rate": 3e-4}, 1),
    ("pca", None, [0], {}, 1),
]
COLUMNS = {
    "mig": "MIG",
    "dci": "DCI D",
    "r2": "R2",
    "kl": "KL",
    "active": "latents on",
    "tc": "TC of q(z)",
    "identity": "distance of Cov(mean) to I",
    "image": "image error",
    "seconds": "CPU s",
}


@dataclass(frozen=True)
class Task:
    method: str
    strength: float
    seed: int
    parameters: dict[str, Any]


def tasks() -> list[Task]:
    found = []
    for method, name, strengths, others, seeds in PLAN:
        for strength in strengths:
            parameters = {**others, **({name: strength} if name else {})}
            found += [Task(method, strength, seed, parameters) for seed in range(seeds)]
    return found


def work(task: Task) -> dict[str, float]:
    torch.set_num_threads(1)
    data = load("blobs")
    seconds, run = cpu_seconds(train, data, task.method, seed=task.seed, **COMMON, **task.parameters)
    return {**measure(run), "seconds": seconds}


def measure(run: Run) -> dict[str, float]:
    """On all 3,072 images. image: per-pixel error of reconstructions; for InfoGAN, of generated images to the nearest
    real one, as it has no reconstructions. R2: factors from codes by 5 neighbours, on rows not trained on."""
    data = load("blobs")
    images, factors = data.at(np.arange(len(data))), data.factors.rows(np.arange(len(data)))
    mean, logvar = run.encode(images)
    rng = np.random.default_rng(0)
    sampled = mean + np.exp(logvar / 2) * rng.standard_normal(mean.shape)
    kl = run.kl(images)
    real = images.reshape(len(images), -1) / 255
    if run.config.method == "infogan":
        made = run.decode(rng.uniform(-1, 1, (500, run.latents))).reshape(500, -1)
        squared = (made**2).sum(1)[:, None] + (real**2).sum(1) - 2 * made @ real.T
        error = np.sqrt(np.clip(squared.min(1), 0, None) / real.shape[1]).mean()
    else:
        error = np.sqrt(((run.decode(mean).reshape(real.shape) - real) ** 2).mean())
    order = rng.permutation(len(images))
    fitted, tested = order[::2], order[1::2]
    neighbours = KNeighborsRegressor(5).fit(mean[fitted], factors[fitted])
    return {
        "mig": float(mig(mean, factors)),
        "dci": float(dci(mean, factors, model="forest").disentanglement),
        "r2": float(neighbours.score(mean[tested], factors[tested])),
        "kl": float(kl.sum()),
        "active": float((kl > 0.01).sum()),
        "tc": total_correlation(sampled, mean, logvar),
        "identity": float(np.abs(np.cov(mean.T) - np.eye(run.latents)).max()),
        "image": float(error),
    }


def total_correlation(z: NDArray[Any], mean: NDArray[Any], logvar: NDArray[Any]) -> float:
    """TC of q(z), the mixture of the posteriors of all images, averaged over one sample of each."""
    total = 0.0
    for rows in np.array_split(z, 24):
        log_density = -0.5 * ((rows[:, None] - mean) ** 2 / np.exp(logvar) + logvar)  # constants cancel
        joint = logsumexp(log_density.sum(2), axis=1) - np.log(len(z))
        total += float((joint - (logsumexp(log_density, axis=1) - np.log(len(z))).sum(1)).sum())
    return total / len(z)


Results = dict[tuple[str, float], dict[str, float]]


def medians(done: Iterable[tuple[Task, dict[str, float]]]) -> tuple[Results, list[float]]:
    """Medians over seeds, and the MIG of every seed of beta_vae at 16."""
    groups: dict[tuple[str, float], list[dict[str, float]]] = {}
    for task, row in done:
        groups.setdefault((task.method, task.strength), []).append(row)
    table = {key: {name: statistics.median(r[name] for r in rows) for name in COLUMNS} for key, rows in groups.items()}
    return table, [row["mig"] for row in groups["beta_vae", 16]]


def statements(table: Results, migs: list[float]) -> list[tuple[str, bool]]:
    def column(method: str, name: str) -> list[float]:
        return [row[name] for (m, _), row in table.items() if m == method]

    def falls(values: list[float]) -> bool:
        return all(b < a for a, b in itertools.pairwise(values))

    capacities = [(c, row["kl"]) for (m, c), row in table.items() if m == "annealed_vae"]
    seconds, pca = table["beta_vae", 16]["seconds"], table["pca", 0]["dci"]
    spread = ", ".join(f"{value:.2f}" for value in sorted(migs))
    return [
        ("beta_vae: the total correlation of q(z) falls with beta", falls(column("beta_vae", "tc"))),
        ("beta_tcvae: the total correlation of q(z) falls with beta", falls(column("beta_tcvae", "tc"))),
        ("factor_vae: the total correlation of q(z) falls with gamma", falls(column("factor_vae", "tc"))),
        ("annealed_vae: the KL reaches the capacity C to 5%", all(abs(kl / c - 1) < 0.05 for c, kl in capacities)),
        (
            "dip_vae_i: from strength 10 on every entry of Cov(mean) is within 0.15 of I (the VAE's are 1.0 away)",
            max(column("dip_vae_i", "identity")[1:]) < 0.15 < 0.9 < table["beta_vae", 1]["identity"],
        ),
        (
            "beta_vae: a high beta switches latents off",
            column("beta_vae", "active")[-1] < column("beta_vae", "active")[0],
        ),
        ("pca: codes are less disentangled (DCI) than those of beta_vae at 16", pca < table["beta_vae", 16]["dci"]),
        ("pca: codes are less disentangled (DCI) than those of a plain VAE", pca < table["beta_vae", 1]["dci"]),
        (
            "infogan: a generated image is nearer to a real one than the next value of x is (0.09 per pixel)",
            table["infogan", 6]["image"] < 0.09,
        ),
        ("infogan: codes predict factors (R2 above 0.5)", table["infogan", 6]["r2"] > 0.5),
        (f"beta_vae at 16: median MIG of six seeds above 0.45 (they are {spread})", statistics.median(migs) > 0.45),
        (f"beta_vae at 16: under 20 s of CPU time per model ({seconds:.1f} s)", seconds < 20),
    ]


def page(table: Results, migs: list[float]) -> str:
    lines = [
        "# The methods on the blobs set",
        "",
        "Written by `benchmarks/methods_on_blobs.py --write`. Each model: network mlp, 8 latents, 6,000 steps of 64",
        "images, other settings as in the script; medians over six seeds for beta_vae at 16, one seed elsewhere. All",
        "figures are of the whole set of 3,072 images. TC is that of q(z), the mixture of all posteriors; R2 is how",
        "well 5 nearest neighbours in code space predict the factors; the image error is the root mean square per",
        "pixel of reconstructions (infogan: of generated images to the nearest real one).",
        f"Made on {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}.",
        "",
        "| method | strength | " + " | ".join(COLUMNS.values()) + " |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    whole = {"active", "seconds"}
    for (method, strength), row in table.items():
        cells = [f"{row[name]:.0f}" if name in whole else f"{row[name]:.3f}" for name in COLUMNS]
        lines.append(f"| {method} | {strength:g} | " + " | ".join(cells) + " |")
    lines += ["", "| what should hold | does it |", "|---|---|"]
    lines += [f"| {text} | {'yes' if holds else 'NO'} |" for text, holds in statements(table, migs)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--write", action="store_true", help="keep the page in docs/")
    parser.add_argument("--only", help="one method, to try things; prints rows only")
    arguments = parser.parse_args()
    todo = [task for task in tasks() if arguments.only in (None, task.method)]
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        done = []
        for task, row in zip(todo, pool.map(work, todo)):
            done.append((task, row))
            figures = ", ".join(f"{name} {value:.3f}" for name, value in row.items())
            print(f"{task.method} {task.strength:g} seed {task.seed}: {figures}", flush=True)
    if arguments.only is None:
        text = page(*medians(done))
        print(text)
        if arguments.write:
            PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
