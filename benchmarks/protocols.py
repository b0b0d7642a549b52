"""What the text of a paper and its release change in numbers: both readings on trained models.

    python benchmarks/protocols.py FOLDER

FOLDER: of runs, as `karenina train` makes it for several strengths and seeds. Without any, ten models of dSprites
at 16 x 16 are trained into it, which takes about three minutes of one core. Prints the table of docs/protocols.md.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import karenina
from karenina.evaluation.scoring import sampler_of
from karenina.metrics import dci, dci_from_importance, sap, z_diff, z_min_variance
from karenina.tasks import fairness

LOCATELLO = {"standardise": False}


def readings(run: Any, data: Any, rows: int) -> dict[str, tuple[str, Callable[[], float], str, Callable[[], float]]]:
    """What differs -> (the text's reading, its score, the other reading, its score)."""
    images, factors = data.sample(rows * 3 // 2, np.random.default_rng(0))
    codes = run.encode(images)[0]
    few, few_factors = codes[:rows], factors[:rows]
    sampler = sampler_of(run, data)
    grown = dci(few, few_factors, model="forest").details["importances"]

    def pairs(per_pair: bool) -> float:
        return float(z_diff(few, few_factors, per_pair=per_pair, **LOCATELLO))

    def votes(threshold: float) -> float:
        return float(z_min_variance(few, few_factors, threshold=threshold))

    def drawn(source: Any) -> float:
        return float(z_diff(few, few_factors, per_pair=False, sampler=source, **LOCATELLO))

    def predicted(n: int) -> float:
        return float(sap(codes[:n], factors[:n], standardise=False, c=0.01))

    def fair(**options: Any) -> float:
        return float(fairness(few, few_factors, **options))

    return {
        "BetaVAE score: value of the fixed factor": (
            *("one per batch", lambda: pairs(False)),
            *("one per pair", lambda: pairs(True)),
        ),
        "FactorVAE score: codes that count": (
            *("variance >= 0.05", lambda: votes(0.05)),
            *("standard deviation >= 0.05", lambda: votes(0.05**2)),
        ),
        "BetaVAE score: interventions": (
            *("the generative model", lambda: drawn(sampler)),
            *("the encoded rows", lambda: drawn(None)),
        ),
        "disentanglement by a forest: importance": (
            *("share of splits", lambda: float(dci_from_importance(grown["splits"]))),
            *("decrease of impurity", lambda: float(dci_from_importance(grown["impurity"]))),
        ),
        "SAP: rows that train and test": (
            *("2/3 and 1/3 of 1.5 n", lambda: predicted(rows * 3 // 2)),
            *("2/3 and 1/3 of n", lambda: predicted(rows)),
        ),
        "unfairness": (
            *("intervention", lambda: fair(sampler=sampler)),
            *("condition, chance taken off", lambda: fair()),
        ),
        "unfairness, plain": (
            *("intervention", lambda: fair(sampler=sampler)),
            *("condition, plain", lambda: fair(correct=False)),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    given = parser.parse_args()
    if not list(given.folder.glob("*/run.json")):
        grid, shape = {"beta": [4, 32]}, {"network": "mlp256", "latents": 10, "steps": 6000}
        karenina.train_many("dsprites:side=16", "beta_vae", grid, seeds=5, out=given.folder, **shape)
    paths = sorted(path.parent for path in given.folder.glob("*/run.json"))
    found: dict[str, list[tuple[float, float]]] = {}
    names: dict[str, tuple[str, str]] = {}
    for path in paths:
        run = karenina.open(path)
        data = karenina.load(run.config.data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for what, (first, one, second, other) in readings(run, data, given.rows).items():
                found.setdefault(what, []).append((one(), other()))
                names[what] = first, second
    print(f"{len(paths)} models, {given.rows:,} rows\n")
    print("| what | text | other reading | mean of the text's | of the other | largest difference | rank correlation |")
    print("|---|---|---|---|---|---|---|")
    for what, pairs in found.items():
        a, b = np.array(pairs).T
        rho = spearmanr(a, b).statistic if np.ptp(a) > 0 and np.ptp(b) > 0 else np.nan
        largest = np.abs(a - b).max()
        numbers = " | ".join(f"{value:.3f}" for value in (np.nanmean(a), np.nanmean(b), largest))
        print(f"| {what} | {' | '.join(names[what])} | {numbers} | {rho:.2f} |")


if __name__ == "__main__":
    main()
