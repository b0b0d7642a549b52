"""How often does what is printed as a 95 % interval hold what it estimates? Simulated for every kind that we print.

    python benchmarks/intervals.py                  # a minute or two
    python benchmarks/intervals.py --trials 2000 --only median correlation --json intervals.json

A line is one kind of interval, where it is printed, how many values (rows, seeds, settings) it has, what they are drawn
from, and the share of trials in which it holds the truth: of those that have an interval at all ("given"). Bounds that
are printed as a range, or as the middle of resamples, claim nothing, and are not here; last is what they would cover.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pages import markdown
from scipy.stats import ttest_ind

from karenina.evaluation.scoring import difference
from karenina.numerics.resampling import jackknife, kendall, median_bounds, medians, spearman
from karenina.papers.duan2020.clustering.results import correlations
from karenina.studies.analyses.by_setting import polarised, variance_explained
from karenina.studies.analyses.choosing import beats_random, selectors
from karenina.studies.analyses.correlations import udr_versions

Bounds = tuple[float, float]
LEAST, MOST = 0.90, 0.98


@dataclass(frozen=True)
class Line:
    """covers: of the intervals that were given. given: the share of trials that had one."""

    name: str
    printed: str
    n: int
    drawn: str
    covers: float
    given: float


def line(name: str, printed: str, n: int, drawn: str, found: Iterable[Bounds], truth: float) -> Line:
    """Count how often the bounds hold the truth."""
    low, high = np.array(list(found), float).T
    known = np.isfinite(low) & np.isfinite(high)
    slack = 1e-12
    held = (low <= truth + slack) & (truth <= high + slack)
    return Line(name, printed, n, drawn, float(held[known].mean()) if known.any() else np.nan, float(known.mean()))


def noise(kind: str, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Numbers of mean 0 and variance 1."""
    if kind == "normal":
        return rng.normal(size=size)
    return rng.exponential(size=size) - 1 if kind == "skewed" else (rng.beta(0.5, 0.5, size) - 0.5) / 0.125**0.5


def frame_of(cubes: dict[str, np.ndarray], free: tuple[str, ...] = ()) -> pd.DataFrame:
    """Results from score -> values (data sets, methods, strengths, seeds); free: those that need no labels."""
    parts = []
    for score, cube in cubes.items():
        d, m, k, s = (axis.ravel() for axis in np.indices(cube.shape))
        part = pd.DataFrame({"data": d.astype(str), "method": m.astype(str), "strength": k * 1.0, "seed": s})
        part["setting"] = part["method"] + "-" + k.astype(str)
        part["run"] = part["data"] + "-" + part["setting"] + "-" + s.astype(str)
        part = part.assign(latents=10, value=cube.ravel(), metric=score, property="", factor="")
        parts.append(part.assign(family="label-free" if score in free else "predictor"))
    return pd.concat(parts, ignore_index=True)


def of_medians(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    for kind in ("normal", "skewed", "bounded"):
        truth = float(np.median(noise(kind, rng, (400_001,))))
        for n in (6, 7, 8, 9, 10, 11, 12, 14, 20, 50):
            drawn = noise(kind, rng, (4 * trials, n))
            _, found = medians(np.arange(4 * trials + 1) * n, drawn.ravel())
            where = "UDR: rank, fit, report, Ranking; by_strength, total_correlation"
            yield line("median", where, n, kind, map(tuple, found), truth)


PAIRS: dict[str, Callable[[float, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "normal": lambda r, a, b: (a, r * a + np.sqrt(1 - r * r) * b),
    "uneven noise": lambda r, a, b: (a, r * a + np.sqrt(1 - r * r) * b * np.exp(a / 2)),
    "five levels": lambda r, a, b: (np.floor(2 * a), r * a + np.sqrt(1 - r * r) * b),
}


def of_correlations(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    for name, correlate in (("spearman", spearman), ("kendall", kendall)):
        where = "agreement" + ("_kendall" if name == "kendall" else ", unsupervised, tasks, transfer, dynamics, report")
        for kind, pair in PAIRS.items():
            for r in (0.0, 0.5, 0.9):
                large = 4000 if name == "kendall" else 200_000
                truth = float(correlate(np.column_stack(pair(r, *rng.normal(size=(2, large)))))[0][0, 1])
                for n in (10, 20, 100):
                    draws = (np.column_stack(pair(r, *rng.normal(size=(2, n)))) for _ in range(trials))
                    found = ((low[0, 1], high[0, 1]) for _, low, high in map(correlate, draws))
                    yield line(name, where, n, f"{kind}, {truth:.2f}", found, truth)


def of_variance(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    for kind in ("normal", "skewed", "bounded"):
        for size in (0.0, 0.5, 2.0):
            effect = size * rng.normal(size=(1, 3, 4, 1))
            total = effect.var() + 1
            truth = {"method": effect.mean(axis=2).var() / total, "setting": effect.var() / total}
            for seeds in (3, 5, 10):
                cubes = {str(i): effect + noise(kind, rng, (1, 3, 4, seeds)) for i in range(trials)}
                found = variance_explained(frame_of(cubes))
                for by, part in found.groupby("predictor"):
                    drawn = f"{kind}, {by} {truth[str(by)]:.2f}"
                    bounds = zip(part["low"], part["high"])
                    yield line("variance explained", "variance_explained", seeds, drawn, bounds, truth[str(by)])


def of_latents(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    rates = {"bounded": np.linspace(0.05, 0.95, 6), "skewed": np.array([0, 0, 0, 0.02, 0.05, 0.4])}
    for kind, rate in rates.items():
        for seeds in (3, 5, 10, 30):
            off = rng.binomial(10, rate[None, None, :, None], size=(trials, 1, 6, seeds))
            found = polarised(frame_of({"informative_latents": 10.0 - off}, ("informative_latents",)))
            yield line("latents off", "polarised", seeds, kind, zip(found["low"], found["high"]), 10 * rate.mean())


def of_jackknife(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    """Means over seeds, of which each is a mean over settings, as in claims and tables of papers."""
    for kind in ("normal", "skewed", "bounded"):
        for seeds in (3, 5, 10, 30):
            x = noise(kind, rng, (4 * trials, 12, seeds)).mean(axis=1)
            left = (x.sum(axis=1, keepdims=True) - x) / (seeds - 1)
            half = jackknife(left.T)
            found = zip(x.mean(axis=1) - half, x.mean(axis=1) + half)
            yield line(
                "leaving out a seed", "papers' tables, claims, selectors page", seeds, f"{kind} x 12", found, 0.0
            )


def of_gains(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    for spread in (0.5, 1.5, 5.0):
        for settings in (4, 8, 20):
            quality = rng.normal(size=(trials, 1, settings, 6))
            cubes = {"mig": quality, "elbo": quality + spread * rng.normal(size=quality.shape)}
            found = selectors(frame_of(cubes, ("elbo",)), resamples=2)
            part = found[found["among"] == "seeds"]
            many = rng.normal(size=(2, 100_000, 6))
            chosen = np.take_along_axis(many[0], (many[0] + spread * many[1]).argmax(1)[:, None], 1).mean()
            truth = float((chosen - many[0].mean()) / (many[0].max(axis=1).mean() - many[0].mean()))
            yield line("gain", "selectors, seeds", settings, f"gain {truth:.2f}", zip(part["low"], part["high"]), truth)


def of_choices(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    """One data set and metric; the truth is that of many seeds."""
    effect = rng.normal(size=(1, 2, 3, 1))

    def found(seeds: int) -> pd.Series:
        return beats_random(frame_of({"mig": effect + rng.normal(size=(1, 2, 3, seeds))})).iloc[0]

    truth = float(np.mean([found(200)["probability"] for _ in range(20)]))
    for seeds in (3, 5, 10, 30):
        rows = [found(seeds) for _ in range(max(trials // 2, 20))]
        bounds = [(row["low"], row["high"]) for row in rows]
        yield line("beats random", "beats_random", seeds, f"normal, {truth:.2f}", bounds, truth)


def of_udr_versions(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    truth = 6 / np.pi * np.arcsin(0.5 / 2)
    for seeds in (5, 10):
        bounds = []
        for _ in range(max(trials // 2, 20)):
            mig = rng.normal(size=(1, 2, 4, seeds))
            udr = 0.5 * mig + 0.75**0.5 * rng.normal(size=mig.shape)
            row = udr_versions(frame_of({"mig": mig, "udr_lasso": udr}, ("udr_lasso",))).iloc[0]
            bounds.append((row["low"], row["high"]))
        yield line("versions of UDR", "udr_versions", seeds, f"normal, {truth:.2f}", bounds, truth)


def of_clustering(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    for r in (0.0, 0.5, 0.9):
        truth = 6 / np.pi * np.arcsin(r / 2)
        for seeds in (5, 10):
            bounds = []
            for _ in range(max(trials // 4, 20)):
                x, y = rng.normal(size=(2, 3, seeds))
                y = r * x + np.sqrt(1 - r * r) * y
                at = np.ndindex(3, seeds)
                rows = [{"beta": float(b), "seed": s, "mig": x[b, s], "steps": y[b, s]} for b, s in at]
                bounds.append(correlations(rows, ["mig"])[0].within_interval)
            yield line("within a beta", "clustering", seeds, f"normal, {truth:.2f}", bounds, truth)


def of_differences(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    """Halves of the rows; the truth is that of many rows."""

    def codes(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        v = rng.integers(4, size=(n, 2))
        return v + 0.4 * rng.normal(size=v.shape), v + 0.5 * rng.normal(size=v.shape), v

    truth = difference(*codes(100_000), ["mig"], resamples=20)["difference"].iloc[0]
    for n in (300, 1000):
        tables = (difference(*codes(n), ["mig"], resamples=100) for _ in range(max(trials // 10, 20)))
        found = ((table["low"].iloc[0], table["high"].iloc[0]) for table in tables)
        yield line("difference of two codes", "difference(), report", n, f"mig, {truth:.2f}", found, truth)


def of_welch(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    for kind in ("normal", "skewed", "bounded"):
        for seeds in (3, 5, 10):
            a, b = noise(kind, rng, (trials, seeds)), 2 * noise(kind, rng, (trials, seeds))
            found = ttest_ind(a, b, axis=1, equal_var=False).confidence_interval(0.95)
            yield line("Welch", "docs/results/beyond.md", seeds, kind, zip(found.low, found.high), 0.0)


def of_ranges(trials: int, rng: np.random.Generator) -> Iterator[Line]:
    """Not printed as intervals: the range of fewer than six values."""
    for n in (2, 3, 4, 5):
        bounds, _ = median_bounds(list(rng.normal(size=(4 * trials, n))))
        yield line("(range, of the median)", "by_strength, total_correlation", n, "normal", map(tuple, bounds), 0.0)


KINDS: dict[str, Callable[[int, np.random.Generator], Iterator[Line]]] = {
    "median": of_medians,
    "correlation": of_correlations,
    "variance": of_variance,
    "latents": of_latents,
    "jackknife": of_jackknife,
    "gain": of_gains,
    "choice": of_choices,
    "udr": of_udr_versions,
    "clustering": of_clustering,
    "difference": of_differences,
    "welch": of_welch,
    "range": of_ranges,
}


def main(trials: int, only: list[str], out: Path | None) -> None:
    rows, lines = [], []
    for kind in only:
        for found in KINDS[kind](trials, np.random.default_rng(0)):
            outside = "" if LEAST <= found.covers <= MOST or found.name.startswith("(") else "outside"
            given = "" if found.given == 1 else f"{100 * found.given:.0f} %"
            rows.append([found.name, found.printed, str(found.n), found.drawn, f"{found.covers:.3f}", given, outside])
            lines.append(asdict(found))
    print(markdown(["interval", "printed in", "n", "drawn from", "covers", "given", "90 to 98 %"], rows))
    print(f"\n{sum(row[-1] == 'outside' for row in rows)} of {len(rows)} lines are outside of 90 to 98 %.")
    if out is not None:
        out.write_text(json.dumps(lines, indent=1), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300, help="of the quick ones; the slow ones have some")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--json", type=Path, help="also write the lines here")
    options = parser.parse_args()
    main(options.trials, options.only, options.json)
