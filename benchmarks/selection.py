"""Choosing among many models: the per-pair loop of scikit-learn and scipy, and ours, in one run.

Prints CPU seconds of one core. The loop is timed on a sample of pairs and extrapolated.
Usage: selection.py [--small] [--everyone]
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso, MultiTaskLassoCV
from threadpoolctl import threadpool_limits
from timing import cpu_seconds

from karenina._process import cores
from karenina.numerics.gaussian import gaussian_sum
from karenina.selection import alike, dynamics, udr

warnings.simplefilter("ignore")


def peak() -> float:
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def store(path: Path, settings: int, seeds: int, rows: int, latents: int) -> np.memmap:
    """Models of one data set, a setting more entangled than the one before, written one at a time."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(rows, latents)).astype(np.float32)
    shape = (settings * seeds, rows, latents)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for model in range(shape[0]):
            entangled = 0.4 * (model // seeds) / settings
            mixing = np.eye(latents) + entangled * rng.normal(size=(latents, latents))
            codes = factors @ mixing + 0.3 * rng.normal(size=(rows, latents))
            codes = codes[:, rng.permutation(latents)] * rng.choice([-1, 1], latents)
            file.write(codes.astype(np.float32).tobytes())
    return np.load(path, mmap_mode="r")


def equation_2(R: np.ndarray) -> float:
    by_row = np.nan_to_num(R.max(axis=1) ** 2 / R.sum(axis=1)).sum()
    by_column = np.nan_to_num(R.max(axis=0) ** 2 / R.sum(axis=0)).sum()
    return (by_row + by_column) / sum(R.shape)


def naive_lasso(x: np.ndarray, y: np.ndarray) -> float:
    return equation_2(np.abs(Lasso(alpha=0.1).fit(x, y).coef_))


def naive_cv(x: np.ndarray, y: np.ndarray) -> float:
    return equation_2(np.abs(MultiTaskLassoCV(alphas=100, cv=5, max_iter=1000, tol=1e-4).fit(x, y).coef_))


def naive_spearman(x: np.ndarray, y: np.ndarray) -> float:
    return equation_2(np.abs([[spearmanr(a, b).statistic for b in y.T] for a in x.T]))


CASES = {
    "UDR_S": (naive_spearman, {"similarity": "spearman"}, 3),
    "UDR_L, lasso (dlib)": (naive_lasso, {"preset": "dlib"}, 20),
    "UDR_L, multi-task CV": (naive_cv, {}, 3),
}


def compare(codes: np.memmap, seeds: int) -> None:
    models, rows, latents = codes.shape
    groups = np.arange(models) // seeds
    kl = np.ones((models, latents))
    pairs = models * (seeds - 1)
    rng = np.random.default_rng(1)
    print(f"{models} models x {latents} latents x {rows} rows, groups of {seeds}: {pairs} pairs, read from a file")
    for name, (naive, options, sample) in CASES.items():
        udr(codes[:2], kl[:2], **options)  # compiled before it is timed
        ours, _ = cpu_seconds(udr, codes, kl, groups, **options)
        drawn = [(g * seeds + rng.choice(seeds, 2, replace=False)) for g in rng.choice(models // seeds, sample)]
        arrays = [[(z - z.mean(0)) / z.std(0) for z in np.asarray(codes[pair], float)] for pair in drawn]
        loop = sum(cpu_seconds(naive, *a)[0] for a in arrays) / sample * pairs
        print(
            f"  {name:22s} ours {ours:8.2f} s ({ours / pairs * 1e6:6.0f} us/pair)   "
            f"loop {loop:10.0f} s ({loop / pairs * 1e3:7.1f} ms/pair)   {loop / ours:6.0f} x   peak {peak():.0f} MB",
            flush=True,
        )
    seconds, _ = cpu_seconds(alike, codes, groups=groups)
    print(f"  {'MCC and CKA':22s} ours {seconds:8.2f} s   peak {peak():.0f} MB", flush=True)


def in_memory(codes: np.memmap, seeds: int) -> None:
    kl = np.ones((codes.shape[0], codes.shape[2]))
    loaded = np.array(codes)
    seconds, _ = cpu_seconds(udr, loaded, kl, np.arange(len(loaded)) // seeds, preset="dlib")
    print(f"  {'lasso, from memory':22s} ours {seconds:8.2f} s   peak {peak():.0f} MB with the codes")


def everyone(settings: int, seeds: int, workers: int) -> None:
    """All-to-all of as many models as the 12,000-model study has on a data set and more: wall seconds."""
    with tempfile.TemporaryDirectory() as folder:
        codes = store(Path(folder) / "codes.npy", settings, seeds, 1000, 10)
        kl = np.ones((codes.shape[0], codes.shape[2]))
        pairs = len(codes) * (len(codes) - 1)
        size = f"{len(codes)} models x 10 latents x 1000 rows, {pairs / 1e6:.1f} million pairs"
        print(f"all to all: {size}, {workers} workers")
        for name, options in (("UDR_S", {"similarity": "spearman"}), ("UDR_L, lasso (dlib)", {"preset": "dlib"})):
            start = time.perf_counter()
            udr(codes, kl, all_to_all=True, workers=workers, **options)
            seconds = time.perf_counter() - start
            print(f"  {name:22s} ours {seconds:8.1f} s   peak {peak():.0f} MB here", flush=True)


def training_dynamics(seeds: int, epochs: int, samples: int, units: int) -> None:
    rng = np.random.default_rng(2)
    growth = np.linspace(0, 1, epochs)[:, None, None]
    shared = rng.normal(size=(samples, 8))
    traces = [
        growth * np.tanh(shared @ rng.normal(size=(8, units))) + 0.3 * rng.normal(size=(epochs, samples, units))
        for _ in range(seeds)
    ]
    before = peak()
    seconds, _ = cpu_seconds(dynamics, traces)
    print(f"dynamics, {seeds} seeds x {epochs} x {samples} x {units}: {seconds:.1f} s, peak {peak():.0f} MB", end=" ")
    print(f"({before:.0f} MB of it before)")
    a, b = 0.5 * rng.normal(size=(2, epochs * samples, 10))
    gaussian_sum(a, b)  # compiled
    naive, ours = (
        cpu_seconds(call)[0] for call in (lambda: np.exp(-cdist(a, b, "sqeuclidean")).sum(), lambda: gaussian_sum(a, b))
    )
    print(f"  its MMD, of a pair of seeds: numpy {naive:.2f} s, ours {ours:.2f} s, {naive / ours:.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the settings")
    parser.add_argument("--everyone", action="store_true", help="only the all-to-all of 5,400 models")
    options = parser.parse_args()
    small = options.small
    threadpool_limits(1)
    if options.everyone:
        everyone(4 if small else 108, 50, cores())
        return
    training_dynamics(5, 30, 200, 256)
    with tempfile.TemporaryDirectory() as folder:
        codes = store(Path(folder) / "codes.npy", 4 if small else 36, 50, 10_000, 10)
        compare(codes, 50)
        in_memory(codes, 50)


if __name__ == "__main__":
    main()
