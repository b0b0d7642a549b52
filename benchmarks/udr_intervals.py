"""How often do intervals of UDR hold the median over all partners? By drawing few partners out of many, many times.

python benchmarks/udr_intervals.py --write     # a minute; writes its part of docs/choosing.md
"""

import argparse

import numpy as np
from pages import markdown, write_part

from karenina.numerics.resampling import medians
from karenina.selection import udr

MODELS, ROWS, LATENTS, DRAWS, RESAMPLES = 400, 200, 4, 60, 500
PARTNERS = (2, 3, 4, 5, 6, 7, 8, 10, 20, 49)
# Noise of each model's codes, drawn from this list: seeds of one kind, of two, and one in five that went wrong.
FAMILIES = {"one kind": [0.5], "two kinds": [0.1, 1.5], "one in five failed": [0.3, 0.3, 0.3, 0.3, 10.0]}


def pairs_of(noises: list[float]) -> np.ndarray:
    """UDR_ij (MODELS, MODELS - 1) of models that share factors and differ in how cleanly they learnt them."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(ROWS, LATENTS))
    codes = []
    for _ in range(MODELS):
        mixing = np.eye(LATENTS) + 0.3 * rng.normal(size=(LATENTS, LATENTS))
        codes.append(factors @ mixing + rng.choice(noises) * rng.normal(size=factors.shape))
    found = udr(codes, np.ones((MODELS, LATENTS)), similarity="spearman")
    return found.values.reshape(MODELS, MODELS - 1)


def resampled(drawn: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """2.5 and 97.5 % of the medians of values drawn with replacement: what is often done."""
    n = drawn.shape[1]
    middle = np.sort(rng.integers(n, size=(RESAMPLES, n)), axis=1)[:, [(n - 1) // 2, n // 2]]
    ordered = np.sort(drawn, axis=1)
    low, high = np.quantile(ordered[:, middle].mean(axis=2), [0.025, 0.975], axis=1)
    return low, high


def main(write: bool) -> None:
    rng = np.random.default_rng(1)
    shown: dict[int, list[str]] = {n: [str(n)] for n in PARTNERS}
    for noises in FAMILIES.values():
        pairs = pairs_of(noises)
        truth = np.median(pairs, axis=1)
        for n in PARTNERS:
            naive, ours, given = [], [], False
            for _ in range(DRAWS):
                drawn = np.take_along_axis(pairs, rng.random(pairs.shape).argpartition(n, axis=1)[:, :n], axis=1)
                low, high = resampled(drawn, rng)
                naive.append((low <= truth) & (truth <= high))
                _, bounds = medians(np.arange(MODELS + 1) * n, drawn.ravel())
                ours.append((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))
                given = bool(np.isfinite(bounds).all())
            shown[n] += [f"{100 * np.mean(naive):.0f}", f"{100 * np.mean(ours):.0f}" if given else "none"]
            print(list(FAMILIES.values()).index(noises), *shown[n], flush=True)
    header = ["partners", *(f"{name}: {way}" for name in FAMILIES for way in ("resampled", "ours"))]
    table = markdown(header, list(shown.values()))
    print(table)
    if write:
        write_part("choosing.md", "benchmarks/udr_intervals.py", table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/choosing.md")
    main(parser.parse_args().write)
