"""Speed of training and encoding, against plain PyTorch and against the rate of a large matrix product.

CPU time of one thread, contestants taking turns; medians. Run with OMP_NUM_THREADS=1. Exits 1 if a promise is not kept.
"""

import argparse
import itertools
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from timing import cpu_seconds
from torch import Tensor, nn
from torch.nn import functional

from karenina.data import DataSet, FactorGrid, load
from karenina.models import fast
from karenina.training import train
from karenina.training.batches import to_tensor
from karenina.training.learners import make_learner
from karenina.training.methods import METHODS, make_config

CPU = torch.device("cpu")
BATCH = 64


class Plain(nn.Module):
    """conv64 as anyone would write it."""

    def __init__(self) -> None:
        super().__init__()
        down: list[nn.Module] = []
        for before, after in [(1, 32), (32, 32), (32, 64), (64, 64)]:
            down += [nn.Conv2d(before, after, 4, 2, 1), nn.ReLU()]
        self.encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 20))
        up: list[nn.Module] = []
        for before, after in [(64, 64), (64, 32), (32, 32)]:
            up += [nn.ConvTranspose2d(before, after, 4, 2, 1), nn.ReLU()]
        self.decoder = nn.Sequential(
            nn.Linear(10, 256),
            nn.ReLU(),
            nn.Linear(256, 1024),
            nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)),
            *up,
            nn.ConvTranspose2d(32, 1, 4, 2, 1),
        )


def plain_step(model: Plain, optimiser: torch.optim.Optimizer, x: Tensor) -> None:
    mean, logvar = model.encoder(x).chunk(2, dim=1)
    z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
    reconstruction = functional.binary_cross_entropy_with_logits(model.decoder(z), x, reduction="sum") / len(x)
    kl = 0.5 * (mean**2 + logvar.exp() - logvar - 1).sum(1).mean()
    optimiser.zero_grad()
    (reconstruction + 4 * kl).backward()
    optimiser.step()


class Apart:
    """Plain PyTorch in a process of its own: settings of malloc hold for a whole process, and cannot be taken back."""

    def __init__(self) -> None:
        here, there = multiprocessing.Pipe()
        self.pipe = here
        multiprocessing.get_context("spawn").Process(target=plain_forever, args=(there,), daemon=True).start()

    def __call__(self, what: str) -> float:
        """CPU milliseconds of one more "step" or of encoding 1,024 images "at once" or "in batches"."""
        self.pipe.send(what)
        return self.pipe.recv()


def plain_forever(pipe: Any) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Plain()
    adam = torch.optim.Adam(model.parameters(), 1e-4)
    data = fake_data()
    rng = np.random.default_rng(0)
    many = data.sample(1024, rng)[0]

    def step() -> None:
        plain_step(model, adam, torch.from_numpy(data.sample(BATCH, rng)[0]).float() / 255)

    @torch.no_grad()
    def encode(rows: int) -> None:
        for images in np.split(many, 1024 // rows):
            model.encoder(torch.from_numpy(images).float() / 255)

    tasks = {"step": step, "at once": lambda: encode(1024), "in batches": lambda: encode(BATCH)}
    while what := pipe.recv():
        pipe.send(warm(tasks[what]))


# Multiplications and additions of one image through conv64: (positions, inputs, outputs) of each layer.
ENCODER = [(32 * 32, 16, 32), (16 * 16, 512, 32), (8 * 8, 512, 64), (4 * 4, 1024, 64), (1, 1024, 256), (1, 256, 20)]
DECODER = [(1, 10, 256), (1, 256, 1024), (4 * 4, 64, 1024), (8 * 8, 64, 512), (16 * 16, 32, 512), (32 * 32, 32, 16)]


def operations(layers: list[tuple[int, int, int]], *, backward: bool) -> float:
    """Forward, gradient of the weights, and gradient of the input except for the image."""
    counts = [2.0 * m * k * n for m, k, n in layers]
    return 3 * sum(counts) - counts[0] if backward else sum(counts)


def warm(run: Callable[[], Any]) -> float:
    """Milliseconds of the second of two runs: the one before has left the caches to others."""
    run()
    return clock(run)


def clock(run: Callable[[], Any]) -> float:
    return 1e3 * cpu_seconds(run)[0]


class Product:
    """One large matrix product, the best rate of arithmetic there is: milliseconds for so many operations."""

    def __init__(self, side: int = 1024):
        self.a, self.b, self.operations = torch.randn(side, side), torch.randn(side, side), 2.0 * side**3

    def __call__(self, operations: float) -> float:
        return warm(lambda: self.a @ self.b) * operations / self.operations


def fake_data() -> DataSet:
    """Random 64x64 images in memory."""
    images = np.random.default_rng(0).integers(0, 256, (4096, 1, 64, 64), dtype=np.uint8)
    grid = FactorGrid(("index",), (4096,))
    return DataSet("noise", grid, (1, 64, 64), lambda rows, rng: images[rows[:, 0]])


def our_step(data: DataSet) -> Callable[[], None]:
    settings = {
        "seed": 0,
        "steps": 1000,
        "network": "auto",
        "latents": 10,
        "batch": BATCH,
        "learning_rate": "auto",
        "init": "auto",
        "decoder": "bernoulli",
        "reconstruction_weight": "auto",
        "trace": False,
    }
    config = make_config(data, "beta_vae", {"beta": 4}, settings)
    learner = make_learner(config, METHODS["beta_vae"], 1000, torch.Generator().manual_seed(0), CPU)
    rng, steps = np.random.default_rng(0), itertools.count()

    def draw() -> Tensor:
        return to_tensor(data.sample(BATCH, rng)[0], CPU)

    def step() -> None:
        learner.update(draw, next(steps))

    return step


class Turns:
    """Milliseconds that contestants report while taking turns, after one round that does not count."""

    def __init__(self, repeats: int, **contestants: Callable[[], float]):
        rounds = [{name: run() for name, run in contestants.items()} for _ in range(repeats + 1)]
        self.rounds = rounds[1:]

    def median(self, name: str) -> float:
        return statistics.median(round[name] for round in self.rounds)

    def ratio(self, name: str, other: str) -> float:
        """Of two that ran next to each other: what else the machine does touches both."""
        return statistics.median(round[name] / round[other] for round in self.rounds)


def training(repeats: int, plain: Apart, product: Product) -> bool:
    data, rng = fake_data(), np.random.default_rng(0)
    step = our_step(data)
    work = BATCH * operations(ENCODER + DECODER, backward=True)
    ms = Turns(
        repeats,
        ours=lambda: warm(step),
        plain=lambda: plain("step"),
        product=lambda: product(work),
        data=lambda: clock(lambda: [to_tensor(data.sample(BATCH, rng)[0], CPU) for _ in range(10)]) / 10,
    )
    faster, share, loading = ms.ratio("plain", "ours"), ms.ratio("product", "ours"), ms.ratio("data", "ours")
    print(f"training step, conv64: {ms.median('ours'):.1f} ms; plain {ms.median('plain'):.1f} ms")
    print(f"  {faster:.2f}x plain (at least 1.7), {share:.0%} of the rate of a matrix product (at least 50%)")
    print(f"  loading data {loading:.2%} of it (under 2%)")
    return faster >= 1.7 and share >= 0.5 and loading < 0.02


def encoding(repeats: int, plain: Apart, product: Product) -> bool:
    data = fake_data()
    run = train(data, "beta_vae", steps=1, batch=2)
    images = data.sample(1024, np.random.default_rng(0))[0]
    work = 1024 * operations(ENCODER, backward=False)
    ms = Turns(
        repeats,
        ours=lambda: warm(lambda: run.encode(images)),
        at_once=lambda: plain("at once"),
        in_batches=lambda: plain("in batches"),
        product=lambda: product(work),
    )
    faster, share = ms.ratio("at_once", "ours"), ms.ratio("product", "ours")
    print(f"encoding 1,024 images: {ms.median('ours'):.0f} ms, {1024e3 / ms.median('ours'):,.0f} images/s")
    print(f"  {faster:.2f}x plain (at least 2.5), {ms.ratio('in_batches', 'ours'):.2f}x plain in batches of {BATCH},")
    print(f"  {share:.0%} of the rate of a matrix product (at least 65%)")
    return faster >= 2.5 and share >= 0.65


def small_network(repeats: int, product: Product) -> bool:
    """What a step of the mlp on blobs costs beyond its arithmetic."""
    data = load("blobs")
    layers = [(1, 256, 128), (1, 128, 128), (1, 128, 20), (1, 10, 128), (1, 128, 128), (1, 128, 256)]
    steps = 1000
    work = steps * BATCH * operations(layers, backward=True)
    ms = Turns(
        max(repeats // 3, 3),
        ours=lambda: clock(lambda: train(data, "beta_vae", steps=steps)) / steps,
        product=lambda: product(work) / steps,
    )
    overhead = ms.median("ours") - ms.median("product")
    print(f"step of the mlp on blobs: {ms.median('ours'):.2f} ms, {overhead:.2f} ms of it overhead (under 1.5)")
    return overhead < 1.5


def ours_forever(pipe: Any) -> None:
    """Steps of our own from "go" to "stop"."""
    torch.set_num_threads(1)
    fast.keep_memory()
    step = our_step(fake_data())
    while pipe.recv() == "go":
        while not pipe.poll():
            step()
        pipe.recv()


def side_by_side(repeats: int, product: Product) -> bool:
    """How much slower a step is while another run trains on the next core, and what a product and a copy suffer."""
    here, there = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=ours_forever, args=(there,), daemon=True).start()
    step, large = our_step(fake_data()), torch.zeros(1 << 25)
    tasks: dict[str, Callable[[], Any]] = {
        "step": step,
        "product": lambda: product.a @ product.b,
        "copy": lambda: large.clone(),
    }
    slower: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(max(repeats // 2, 3)):
        alone = {name: warm(task) for name, task in tasks.items()}
        here.send("go")
        time.sleep(0.3)
        beside = {name: warm(task) for name, task in tasks.items()}
        here.send("stop")
        for name in tasks:
            slower[name].append(beside[name] / alone[name])
    here.send("end")
    by = {name: statistics.median(values) for name, values in slower.items()}
    print(f"beside another run a step takes {by['step']:.2f}x as long, a product {by['product']:.2f}x", end="")
    print(f", a copy of 128 MB {by['copy']:.2f}x (a step no more than these)")
    return by["step"] <= 1.05 * max(by["product"], by["copy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    fast.keep_memory()
    plain, product = Apart(), Product()
    good = [training(repeats, plain, product), encoding(repeats, plain, product)]
    plain.pipe.send("")
    good += [small_network(repeats, product), side_by_side(repeats, product)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
