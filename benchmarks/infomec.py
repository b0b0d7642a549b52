"""InfoMEC against the direct computation with scikit-learn, in one run: largest difference, CPU seconds, ratio.

    python benchmarks/infomec.py [--quick]

One thread. Direct: mutual_info_classif of every factor and code, LogisticRegression of every factor, as Hsu et al.
(2023) released them. The first call of ours, which compiles, is not timed. First cases of different kinds at 10,000
rows (2,000 with --quick), then twenty random ones.
"""

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from timing import cpu_seconds

from karenina.metrics import infomec

DSPRITES = (3, 6, 40, 32, 32)


def direct(codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """InfoM, InfoE and InfoC of continuous codes."""
    nmi = np.empty((factors.shape[1], codes.shape[1]))
    scaled = StandardScaler().fit_transform(codes)
    for i, v in enumerate(factors.T):
        for j in range(codes.shape[1]):
            nmi[i, j] = mutual_info_classif(scaled[:, [j]], v, discrete_features=False, n_neighbors=10, random_state=0)[
                0
            ]
        nmi[i] /= mutual_info_score(v, v)
    width = np.ptp(codes, axis=0)
    kept = nmi[:, width > width.max() / 20]
    k, d = kept.shape
    infom = ((kept.max(axis=0) / kept.sum(axis=0)).mean() - 1 / k) / (1 - 1 / k)
    infoc = ((kept.max(axis=1) / kept.sum(axis=1)).mean() - 1 / d) / (1 - 1 / d)
    told = []
    for v in factors.T:
        loss = [
            log_loss(v, LogisticRegression(C=np.inf, class_weight="balanced").fit(x, v).predict_proba(x))
            for x in (scaled, np.zeros_like(scaled))
        ]
        told.append(1 - loss[0] / loss[1])
    return np.array([infom, np.mean(told), infoc])


def ours(codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    found = infomec(codes, factors, quantised=False)
    return np.array([found.modularity, found.explicitness, found.compactness])


def kinds(n: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.integers(size, size=n) for size in DSPRITES])
    unit = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    twice = np.hstack([unit, unit])
    yield "dSprites sizes, 10 noisy codes", twice + 0.5 * rng.normal(size=(n, 10)), factors
    yield "dSprites sizes, 10 clean codes", twice + 0.001 * rng.normal(size=(n, 10)), factors
    mixed = unit @ rng.normal(size=(5, 10)) * 0.3 + twice + 0.1 * rng.normal(size=(n, 10))
    yield "dSprites sizes, 10 mixed codes (100 steps are too few)", mixed, factors
    factors = rng.integers(10, size=(n, 8))
    yield "8 factors of 10, 8 codes", factors @ (np.eye(8) + 0.1) + 0.3 * rng.normal(size=(n, 8)), factors


def random_cases() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, k, d = (int(rng.integers(*span)) for span in ((1000, 3000), (2, 6), (3, 11)))
        factors = rng.integers(rng.integers(2, 12, size=k), size=(n, k))
        mixing = rng.normal(size=(k, d)) * (rng.random((k, d)) < 0.5)
        yield (factors - factors.mean(axis=0)) @ mixing + rng.uniform(0.05, 1) * rng.normal(size=(n, d)), factors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    n = 2_000 if parser.parse_args().quick else 10_000
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        ours(*next(random_cases()))
        print(f"{'case':<56} {'off by':>8} {'direct s':>9} {'ours s':>7} {'ratio':>6}")
        for name, codes, factors in kinds(n):
            slow, theirs = cpu_seconds(direct, codes, factors)
            fast, found = cpu_seconds(ours, codes, factors)
            print(
                f"{name:<56} {np.abs(theirs - found).max():8.4f} {slow:9.2f} {fast:7.3f} {slow / fast:6.1f}", flush=True
            )
        off, slow, fast = 0.0, 0.0, 0.0
        for codes, factors in random_cases():
            a, theirs = cpu_seconds(direct, codes, factors)
            b, found = cpu_seconds(ours, codes, factors)
            off, slow, fast = max(off, float(np.abs(theirs - found).max())), slow + a, fast + b
        print(f"{'twenty random cases, 1,000 to 3,000 rows':<56} {off:8.4f} {slow:9.2f} {fast:7.3f} {slow / fast:6.1f}")


if __name__ == "__main__":
    main()
