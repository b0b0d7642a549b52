"""All metrics: ours and a straightforward implementation in the same run, and all of `score()`. CPU time, one core."""

import os
import runpy
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded

import numpy as np
from timing import cpu_seconds

import karenina
from karenina.metrics import METRICS

SPRITES = (3, 6, 40, 32, 32)


def whole_score() -> None:
    """10,000 x 10 codes and dSprites factors: every metric, then those without trees. The second call, compiled."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, SPRITES, size=(10_000, 5))
    informative = (factors - factors.mean(0)) / factors.std(0) + 0.1 * rng.normal(size=factors.shape)
    codes = np.hstack([informative, rng.normal(size=factors.shape)])
    without = [name for name in METRICS if name not in ("dci_forest", "dci_boosted")]
    karenina.score(codes, factors)
    for label, names in (("every metric", None), ("without trees", without)):
        seconds, _ = cpu_seconds(karenina.score, codes, factors, metrics=names)
        print(f"score() of 10,000 x 10 codes, dSprites factors, {label}: {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    whole_score()
    for script in ("metrics_information.py", "metrics_predictors.py"):
        runpy.run_path(str(Path(__file__).with_name(script)), run_name="__main__")
