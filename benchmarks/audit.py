"""The whole audit, against measuring every metric on its own at every point, one after the other.

The naive loop is timed on one seed's points of two experiments and extrapolated; it uses our metrics, so that the
ratio shows what sharing tables, sharing the perfect representation and several processes bring. Exits 1 over 5 minutes.
Usage: audit.py [--seeds 10] [--rows 20000]
"""

import argparse
import sys
import time
import warnings

from karenina._process import cores
from karenina.audit import EXPERIMENTS, run
from karenina.audit.running import TREES, audited, settings
from karenina.metrics import METRICS, score

TIMED = ("mixing", "correlated")


def naive(rows: int) -> float:
    """Wall seconds of one seed at every point of TIMED, every metric by its own call."""
    started = time.perf_counter()
    for name in TIMED:
        for value in EXPERIMENTS[name].values:
            codes, factors = EXPERIMENTS[name].make(value, rows, 0)
            for metric in audited():
                if metric in TREES:
                    continue
                if METRICS[metric].family == "information":
                    for protocol in ("ours", "quantile"):
                        METRICS[metric].function(codes, factors, **(settings(metric, protocol) or {}))
                else:
                    score(codes, factors, [metric])
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    naive(1000)  # compiled before it is timed
    points = sum(len(EXPERIMENTS[name].values) for name in TIMED)
    loop = naive(options.rows) / points
    everywhere = sum(len(e.values) for e in EXPERIMENTS.values() if not e.nested) * options.seeds
    started = time.perf_counter()
    run(seeds=options.seeds, rows=options.rows, workers=cores())
    ours = time.perf_counter() - started
    size = f"{options.seeds} seeds, {options.rows} rows, {cores()} processes"
    print(f"all metrics without trees, {size}: {ours:.0f} s")
    print(f"  one call after the other, without the large samples of 5.7: {loop * everywhere:.0f} s", end="")
    print(f" ({loop:.2f} s a point): {loop * everywhere / ours:.1f}x")
    sys.exit(0 if ours < 300 else 1)


if __name__ == "__main__":
    main()
