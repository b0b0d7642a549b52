"""Do the rankings without labels agree with the metrics that need them? On 30 trained models, honestly.

python benchmarks/selection_on_blobs.py [FOLDER] --write    # minutes on two cores, again seconds

Trains examples/beta_on_blobs.toml and gives the Spearman correlation of every label-free ranking with every metric over
the models, with 95 % intervals. Most of any agreement is the effect of the strength: the last columns are the
mean correlation among models of one strength.
"""

import argparse
from pathlib import Path

import numpy as np
from pages import markdown, write_part
from scipy.stats import spearmanr

import karenina
from karenina.numerics.resampling import spearman
from karenina.studies import find_plan, run

PLAN = Path(__file__).resolve().parents[1] / "examples" / "beta_on_blobs.toml"
RANKINGS = {
    "udr_lasso": "`udr` (UDR_L)",
    "kept": "`udr`, uninformative latents kept",
    "udr_spearman": "`udr-spearman` (UDR_S)",
    "udr_lasso_a2a": "`udr-a2a`",
    "udr_spearman_a2a": "`udr-spearman-a2a`",
    "dynamics": "dynamics",
}
METRICS = {
    "mig": "MIG",
    "dci_boosted disentanglement": "DCI disentanglement (boosted)",
    "z_min_variance": "z_min_variance",
    "z_diff": "z_diff",
}


def correlation(x: np.ndarray, y: np.ndarray) -> str:
    """Spearman with its 95 % interval over the models."""
    estimate, low, high = (matrix[0, 1] for matrix in spearman(np.column_stack([x, y])))
    return f"{estimate:.2f} [{low:.2f}, {high:.2f}]"


def within(x: np.ndarray, y: np.ndarray, strength: np.ndarray) -> str:
    """Mean Spearman among models of one strength."""
    groups = [strength == s for s in np.unique(strength) if len(np.unique(x[strength == s])) > 1]
    found = [spearmanr(x[g], y[g])[0] for g in groups]
    return f"{np.nanmean(found):.2f}" if found else "-"


def kept(folder: Path, runs: list[str], settings: list[str]) -> np.ndarray:
    """UDR_L by the letter of equation 2: uninformative latents take part, standardised like the others."""
    codes = [np.load(folder / "runs" / name / "codes.npy") for name in runs]
    kl = [np.load(folder / "runs" / name / "kl.npy") for name in runs]
    return karenina.udr(codes, kl, settings, preset=karenina.selection.Preset(uninformative="keep")).scores


def main(folder: Path, write: bool) -> None:
    run(find_plan(str(PLAN)), folder, workers=2)
    frame = karenina.results(folder)
    overall = frame[frame.factor == ""]
    several = overall.metric.map(overall.groupby("metric").property.nunique()) > 1
    name = overall.metric.where(~several, overall.metric + " " + overall.property)
    wide = overall.assign(name=name).pivot_table(index="run", columns="name", values="value")
    about = overall.drop_duplicates("run").set_index("run").loc[wide.index]
    strength = about["strength"].to_numpy()
    wide["kept"] = kept(folder, list(wide.index), list(about["setting"]))
    lines = []
    for ranking, shown in RANKINGS.items():
        x = wide[ranking].to_numpy()
        ys = [wide[metric].to_numpy() for metric in METRICS]
        lines.append([shown, *(correlation(x, y) for y in ys), *(within(x, y, strength) for y in ys[:2])])
    inside = [f"{metric}, same strength" for metric in list(METRICS.values())[:2]]
    table = markdown(["ranking", *METRICS.values(), *inside], lines)
    medians = wide.groupby(strength)[[*RANKINGS, *METRICS]].median()
    cells = [[f"{s:g}", *(f"{value:.3f}" for value in row)] for s, row in zip(medians.index, medians.to_numpy())]
    short = markdown(["beta", *(r.split(" (")[0] for r in RANKINGS.values()), *METRICS.values()], cells)
    text = (
        f"Spearman over the {len(wide)} models, with 95 % intervals:\n\n{table}\n\nMedians of each strength:\n\n{short}"
    )
    print(text)
    if write:
        write_part("choosing.md", "benchmarks/selection_on_blobs.py", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("studies/beta_on_blobs"))
    parser.add_argument("--write", action="store_true", help="put the tables into docs/choosing.md")
    options = parser.parse_args()
    main(options.folder, options.write)
