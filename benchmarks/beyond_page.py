"""docs/results/beyond.md from the scores that benchmarks/beyond.py has stored: every number of the page is computed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

Row = dict[str, Any]
Rows = list[Row]

NAMES = {
    "beta_vae": "β-VAE",
    "ada_gvae": "Ada-GVAE",
    "supervised": "β-VAE with labels in training",
    "correlated_beta_vae": "β-VAE",
    "correlated_hfs": "β-VAE + HFS",
    "qlae": "QLAE",
}
SCORES = {
    "MIG": "mig compactness",
    "DCI": "dci_boosted modularity",
    "InfoM": "infomec modularity",
    "InfoC": "infomec compactness",
    "InfoE": "infomec explicitness",
}
HEAD = """# Methods since 2020 beside the β-VAE

Made by `benchmarks/beyond.py` from `beyond.json`, which has the scores of every model. Small networks (mlp) and short
runs, so that the tables can be made again within about a core-hour: these are not the papers' figures. {sets}

Scores are computed on 3,000 images with uniform factors: MIG, and DCI disentanglement by boosted trees. Ten seeds each.
A difference is that of the means over seeds with its 95 % interval by Welch's t; where a method has several strengths,
the one with the best mean of that score is shown, for both sides.
"""


def page(rows: Rows) -> str:
    """The whole text."""
    sets = list(dict.fromkeys(row["data"] for row in rows))
    parts = [HEAD.format(sets=_sets(rows)), _pairs(rows, sets), _labels(rows, sets), _quantised(rows, sets)]
    return "\n".join([*parts, _correlated(rows, sets)])


def write(results: Path) -> None:
    text = page(json.loads(results.read_text()))
    results.with_suffix(".md").write_text(text, encoding="utf-8")


def _sets(rows: Rows) -> str:
    found = {row["data"]: row["steps"] for row in rows}
    return "; ".join(f"{data}: {steps:,} steps" for data, steps in found.items()) + "."


def _pairs(rows: Rows, sets: list[str]) -> str:
    lines = [
        "## Pairs: Ada-GVAE against the best β-VAE",
        "",
        "Locatello et al. (2020): images in pairs that differ in one factor (k = 1); the model is not told in which.",
        "",
        *_comparison(rows, sets, "ada_gvae", "beta_vae", ("MIG", "DCI")),
    ]
    return "\n".join([*lines, *_tried(rows, sets, "ada_gvae"), ""])


# Part -> what it explains, what it is compared with, and the explanation.
EXPLANATIONS = {
    "why_oracle": (
        "ada_gvae",
        "beta_vae",
        "The heuristic finds the wrong latents: then Ada-GVAE that is told what is shared should win.",
    ),
    "why_random": (
        "ada_gvae",
        "beta_vae",
        "Pairs that differ in one factor leave too little to tell apart: then k random should win.",
    ),
    "why_weight": ("supervised", "beta_vae", "The weight of the term (100) is wrong: then 10 or 1,000 should win."),
    "why_few": ("supervised", "beta_vae", "A hundred labels are too few to learn from: then a thousand should win."),
    "why_decay": ("qlae", "beta_vae", "Weights decay too much or too little for a short run: then 0 or 1 should win."),
    "why_short": ("qlae", "beta_vae", "The run is too short: then three times as many steps should win."),
    "why_gamma": ("correlated_hfs", "correlated_beta_vae", "γ = 100 is wrong: then 1, 10 or 1,000 should win."),
    "why_beta": (
        "correlated_hfs",
        "correlated_beta_vae",
        "β = 4 leaves the penalty nothing to do: then β = 1 should win.",
    ),
}


def _tried(rows: Rows, sets: list[str], part: str) -> list[str]:
    """The explanations of what this part did, with their tables, as far as they were trained."""
    trained = {row["part"] for row in rows}
    lines = []
    for name, (explained, other, text) in EXPLANATIONS.items():
        if explained == part and name in trained:
            scores = ("InfoM", "InfoC", "InfoE", "MIG", "DCI") if part == "qlae" else ("MIG", "DCI")
            lines += ["", f"Explanation tried: {text}", "", *_comparison(rows, sets, name, other, scores)]
    return lines


def _labels(rows: Rows, sets: list[str]) -> str:
    lines = [
        "## A hundred labels: in training, or only for choosing",
        "",
        "Locatello et al. (2020): the same 100 labelled images either add a term to the β-VAE's objective (β = 4,",
        "cross-entropy), or choose, by MIG on them, one of all β-VAEs of the first table (strengths, seeds). Each of",
        "the ten sets of labels gives one model of either kind. Intervals have the spread of the models trained with",
        "labels, and that of choosing when the β-VAEs of one seed are left out at a time.",
        "",
        "| data | score | in training | only for choosing | difference | interval | in training is better |",
        "|---|---|---|---|---|---|---|",
    ]
    found = []
    for data in sets:
        trained, plain = _of(rows, data, "supervised"), _of(rows, data, "beta_vae")
        if trained and plain:
            found += [_beside_choosing([data, name], trained, plain, SCORES[name]) for name in ("MIG", "DCI")]
    lines = [*lines, *found, *_tried(rows, sets, "supervised")] if found else [*lines[:2], _missing("supervised")]
    return "\n".join(lines) + "\n"


def _quantised(rows: Rows, sets: list[str]) -> str:
    known = [name for name in ("InfoM", "InfoC", "InfoE") if any(SCORES[name] in row["scores"] for row in rows)]
    lines = [
        "## QLAE against the VAEs",
        "",
        "Hsu et al. (2023): twice as many latents as factors, ten values each, weight decay 0.1.",
        "",
    ]
    parts = [
        line for other in ("beta_vae", "ada_gvae") for line in _table(rows, sets, "qlae", other, (*known, "MIG", "DCI"))
    ]
    if not parts:
        return "\n".join([*lines[:2], _missing("qlae"), ""])
    return "\n".join([*lines, TITLE, RULE, *parts, *_tried(rows, sets, "qlae"), ""])


def _correlated(rows: Rows, sets: list[str]) -> str:
    lines = [
        "## HFS under correlated factors",
        "",
        "Träuble et al. (2021), Roth et al. (2023): x and y drawn together in training (σ = 0.1), scores on uniform",
        "factors. Both with β = 4, HFS with the penalty on supports besides (γ).",
        "",
        *_comparison(rows, sets, "correlated_hfs", "correlated_beta_vae", ("MIG", "DCI")),
        *_tried(rows, sets, "correlated_hfs"),
    ]
    return "\n".join([*lines, ""])


TITLE = "| data | score | method | strength | mean | beside | strength | mean | difference | interval | better |"
RULE = "|---|---|---|---|---|---|---|---|---|---|---|"


def _comparison(rows: Rows, sets: list[str], part: str, other: str, scores: tuple[str, ...]) -> list[str]:
    found = _table(rows, sets, part, other, scores)
    return [TITLE, RULE, *found] if found else [_missing(part)]


def _table(rows: Rows, sets: list[str], part: str, other: str, scores: tuple[str, ...]) -> list[str]:
    lines = []
    for data in sets:
        a, b = _of(rows, data, part), _of(rows, data, other)
        for name in scores:
            if a and b and all(SCORES[name] in row["scores"] for row in (*a, *b)):
                (first, one), (second, two) = (_best(found, SCORES[name]) for found in (a, b))
                low, high = interval(one, two)
                method = NAMES[EXPLANATIONS[part][0] if part in EXPLANATIONS else part]
                cells = [data, name, method, first, _shown(one), NAMES[other], second, _shown(two)]
                cells += [f"{np.mean(one) - np.mean(two):+.3f}", f"{low:+.3f} to {high:+.3f}", _verdict(low, high)]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def _beside_choosing(cells: list[str], trained: Rows, plain: Rows, key: str) -> str:
    """A line of the table: models trained with labels, and those that the same labels choose."""

    def chosen(rows: Rows) -> Rows:
        return [max(rows, key=lambda row: row["mig_on_labels"][s]) for s in _seeds(trained)]

    def mean(rows: Rows) -> float:
        return float(np.mean([row["scores"][key] for row in chosen(rows)]))

    own, different = [row["scores"][key] for row in trained], {(r["strength"], r["seed"]) for r in chosen(plain)}
    left_out = [mean([row for row in plain if row["seed"] != seed]) for seed in sorted(set(_seeds(plain)))]
    n, difference = len(left_out), float(np.mean(own)) - mean(plain)
    half = stats.t.ppf(0.975, n - 1) * ((n - 1) * np.var(left_out) + np.var(own, ddof=1) / len(own)) ** 0.5
    models = f"{mean(plain):.3f} ({len(different)} model{'s' if len(different) > 1 else ''})"
    cells = [*cells, _shown(own), models, f"{difference:+.3f}", f"{difference - half:+.3f} to {difference + half:+.3f}"]
    return f"| {' | '.join([*cells, _verdict(difference - half, difference + half)])} |"


def _verdict(low: float, high: float) -> str:
    return "yes" if low > 0 else "no, worse" if high < 0 else "not decided"


def _missing(part: str) -> str:
    return f"Not trained yet (part `{part}` of the script)."


def interval(one: list[float], two: list[float]) -> tuple[float, float]:
    """95 % of the difference of two means, by Welch's t."""
    difference = float(np.mean(one) - np.mean(two))
    errors = [float(np.var(side, ddof=1)) / len(side) for side in (one, two)]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(side) - 1) for e, side in zip(errors, (one, two)))
    half = float(stats.t.ppf(0.975, freedom)) * sum(errors) ** 0.5
    return difference - half, difference + half


def _shown(values: list[float]) -> str:
    return f"{np.mean(values):.3f}"


def _of(rows: Rows, data: str, part: str) -> Rows:
    return sorted((r for r in rows if (r["data"], r["part"]) == (data, part)), key=lambda r: (r["strength"], r["seed"]))


def _seeds(rows: Rows) -> list[int]:
    return [row["seed"] for row in rows]


def _best(rows: Rows, score: str) -> tuple[str, list[float]]:
    """The strength with the best mean, as text, and the scores of its seeds."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(row["strength"], []).append(row["scores"][score])
    mean: Callable[[str], float] = lambda strength: float(np.mean(groups[strength]))  # noqa: E731
    best = max(groups, key=mean)
    return best, groups[best]
