"""The tasks on 10,000 x 10 codes with dSprites' factors: CPU seconds of one core, and the fast trees and logistic
regression beside scikit-learn's.

`python benchmarks/tasks.py` compares up to 1,000 rows; `--full` also 10,000, where scikit-learn needs many minutes.
`--shift` prints the table of docs/tasks.md on prediction under a shift instead, in seconds.
"""

import sys
import warnings

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits
from timing import cpu_seconds

from karenina.numerics.trees import Binned, boost
from karenina.tasks import downstream, fairness, shift

SIZES = (3, 6, 40, 32, 32)
TEST = 5000


def sprites(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten codes: five standardised factors with noise, five dead ones."""
    rng = np.random.default_rng(seed)
    v = rng.integers(SIZES, size=(n, 5))
    live = (v - v.mean(axis=0)) / v.std(axis=0) + noise * rng.normal(size=v.shape)
    return np.column_stack([live, 0.01 * rng.normal(size=(n, 5))]), v


def scikit_learn(model: str, z, v, test_z, test_v) -> list[float]:
    scores = []
    for y, test_y in zip(v.T, test_v.T):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logistic = LogisticRegressionCV(Cs=10, cv=KFold(5))
            fitted = (logistic if model == "logistic" else GradientBoostingClassifier(random_state=0)).fit(z, y)
        scores.append(float((fitted.predict(test_z) == test_y).mean()))
    return scores


def agreement(sizes: tuple[int, ...]) -> None:
    print(f"{'model':10}{'noise':>6}{'rows':>7}{'ours':>8}{'sklearn':>9}{'worst factor':>14}{'s':>8}{'sklearn s':>11}")
    for noise in (0.0, 0.1):
        z, v = sprites(max(sizes) + TEST, noise)
        test = {"test_codes": z[-TEST:], "test_factors": v[-TEST:]}
        for model in ("boosted", "logistic"):
            for n in sizes:
                fast, ours = cpu_seconds(downstream, z[:n], v[:n], sizes=[n], models=[model], **test)
                slow, theirs = cpu_seconds(scikit_learn, model, z[:n], v[:n], z[-TEST:], v[-TEST:])
                worst = np.abs(ours.scores[0, 0] - theirs).max()
                means = f"{ours.mean[0, 0]:8.3f}{np.mean(theirs):9.3f}"
                print(f"{model:10}{noise:6}{n:7}{means}{worst:14.3f}{fast:8.2f}{slow:11.2f}", flush=True)


def total() -> None:
    z, v = sprites(10_000 + TEST, 0.1)
    train, test = (z[:10_000], v[:10_000]), {"test_codes": z[10_000:], "test_factors": v[10_000:]}
    first, result = cpu_seconds(downstream, *train, **test)
    second, unfair = cpu_seconds(fairness, *train, **test)
    print("\nall downstream tasks and fairness, 10,000 rows to train on and 5,000 to test on")
    for name, value in (result.summary() | unfair.summary()).items():
        print(f"  {name:34}{value:8.3f}")
    print(f"downstream {first:.1f} s, fairness {second:.1f} s, together {first + second:.1f} s")


def shift_table() -> None:
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(1500, 2))
    codes = v + 0.1 * rng.normal(size=v.shape)
    print("| kind | codes | logistic: seen, unseen | trees: seen, unseen |\n|---|---|---|---|")
    for kind, title in (("corner", "corner"), ("correlated", "correlated, sigma 0.3")):
        for name, z in (("separate", codes), ("mixed", codes @ [[1.0, 1.0], [-1.0, 1.0]])):
            found = shift(z, v, kind=kind, sigma=0.3, rows=600)
            cells = [f"{seen.mean():.2f}, {unseen.mean():.2f}" for seen, unseen in zip(found.seen, found.unseen)]
            print(f"| {title} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    threadpool_limits(1)
    if "--shift" in sys.argv:
        shift_table()
        sys.exit()
    rows = Binned.of(np.eye(9))
    compiled, _ = cpu_seconds(boost, rows, np.arange(9) % 3, 3, np.random.default_rng(0))
    print(f"compiling or loading the trees: {compiled:.1f} s")
    agreement((10, 100, 1000, 10_000) if "--full" in sys.argv else (10, 100, 1000))
    total()
