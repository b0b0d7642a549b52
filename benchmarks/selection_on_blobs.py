"""Do the rankings without labels agree with the metrics that need them? On 30 trained models, honestly.

Trains examples/beta_on_blobs.toml (minutes on two cores; again: seconds) and prints the Spearman correlation of
every label-free ranking with every metric over the models, with 95 % bootstrap intervals. Most of any agreement is the
effect of the strength: the last lines give the mean correlation among models of one strength.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import karenina
from karenina.studies import find_plan, run

PLAN = Path(__file__).resolve().parents[1] / "examples" / "beta_on_blobs.toml"
RANKINGS = ("udr_lasso", "udr_spearman", "udr_lasso_a2a", "udr_spearman_a2a", "dynamics")


def correlation(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> str:
    """Spearman with the 95 % interval of 1,000 bootstrap samples of the models."""
    drawn = [rng.integers(len(x), size=len(x)) for _ in range(1000)]
    low, high = np.nanquantile([spearmanr(x[rows], y[rows])[0] for rows in drawn], [0.025, 0.975])
    return f"{spearmanr(x, y)[0]:.2f} [{low:.2f}, {high:.2f}]"


def main(out: Path) -> None:
    run(find_plan(str(PLAN)), out, workers=2)
    frame = karenina.results(out)
    overall = frame[frame.factor == ""]
    name = overall.metric + overall.property.map(lambda p: f" {p}" if p in ("modularity", "compactness") else "")
    wide = overall.assign(name=name).pivot_table(index="run", columns="name", values="value")
    strength = overall.drop_duplicates("run").set_index("run").loc[wide.index, "strength"].to_numpy()
    metrics = [column for column in wide if column.split()[0] in ("mig", "dci_boosted", "z_min_variance", "z_diff")]
    rankings = [column for column in wide if column.split()[0] in RANKINGS]
    rng = np.random.default_rng(0)
    lines = {
        ranking: [correlation(wide[ranking].to_numpy(), wide[metric].to_numpy(), rng) for metric in metrics]
        for ranking in rankings
    }
    print(pd.DataFrame(lines, index=metrics).T.to_string())
    print("\nmean within one strength")
    for ranking in rankings:
        within = [
            [spearmanr(wide[ranking][strength == s], wide[metric][strength == s])[0] for metric in metrics]
            for s in np.unique(strength)
            if wide[ranking][strength == s].nunique() > 1
        ]
        if within:
            means = np.nanmean(within, axis=0)
            print(f"{ranking:20}" + "".join(f"{metric}: {m:+.2f}  " for metric, m in zip(metrics, means)))
    print("\nmedian per strength")
    print(wide.groupby(strength)[[*rankings, *metrics]].median().round(3).to_string())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "studies/beta_on_blobs"))
