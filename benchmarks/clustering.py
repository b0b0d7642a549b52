"""Does a better representation make an agent learn faster? The page of a clustering study's results.

    karenina study run clustering --scale laptop --out DIR       # hours; again: resumes
    python benchmarks/clustering.py DIR [OTHER ...]              # seconds: docs/results/clustering.* from DIR
    python benchmarks/clustering.py                              # the page anew from docs/results/clustering.json

OTHER: clustering studies with MONets of their own, of which the gate alone is told. The page is written from
docs/results/clustering.json alone, which holds all that a study found.
"""

import json
import sys
import textwrap
from pathlib import Path

import numpy as np
from pages import markdown

from karenina.drawing.charts import draw
from karenina.papers.duan2020.clustering.page import TITLES, caption_of, how
from karenina.papers.duan2020.clustering.plan import read_json, read_plan
from karenina.papers.duan2020.clustering.results import SCORES, bounds, correlations, number, printed, scatter, sentence

DOCS = Path(__file__).resolve().parents[1] / "docs" / "results"
SHOWN, FILM = "fewest_steps", "clustering_episode.gif"
ORACLE = "**Oracle masks**: the true masks of the sprites stand in for a MONet's, whose gate is below."


def collect(folder: Path, others: list[Path]) -> dict:
    """All numbers of a study, and the gates of others."""
    from dataclasses import asdict

    from karenina.papers.duan2020.clustering.runner import seconds
    from karenina.papers.duan2020.clustering.study import ClusteringStudy

    plan = read_plan(folder)
    references = read_json(folder / "references.json")
    episodes = read_json(folder / "episodes.json") if (folder / "episodes.json").exists() else []
    gates = [
        {"steps": read_plan(one).monet_steps, **read_json(one / "gate.json")}
        for one in [folder, *others]
        if (one / "gate.json").exists()
    ]
    stored = DOCS / "clustering.json"  # gates that were told before stay
    before = json.loads(stored.read_text())["gates"] if stored.exists() else []
    gates = [*(gate for gate in before if gate["steps"] not in {one["steps"] for one in gates}), *gates]
    agents = any((folder / place).is_dir() for place in ("agents", "models"))
    rows = ClusteringStudy(plan, folder).measures() if agents else []  # of seeds that are done
    found = {"references": references, "episodes": episodes, "seconds": seconds(folder), "rows": rows}
    return {"plan": asdict(plan), "gates": gates, **found}


def filled(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False)


def per_beta(rows: list[dict]) -> str:
    lines = []
    for beta in sorted({row["beta"] for row in rows}):
        of = [row for row in rows if row["beta"] == beta]
        steps = [row["steps"] for row in of]
        scores = [[row[name] for row in of if row[name] is not None] for name in [*SCORES, "informative"]]
        lines.append(
            [f"{beta:g}", str(len(of)), f"{np.mean(steps):.0f}", f"{min(steps):.0f} to {max(steps):.0f}",
             str(sum(row["censored"] for row in of)),
             *(f"{np.mean(values):.3g}" if values else "-" for values in scores)]
        )  # fmt: skip
    header = ["beta", "models", "mean steps", "models' steps", "censored", *SCORES.values(), "active latents"]
    return markdown(header, lines)


def page(results: dict) -> str:
    plan, rows, known = (results[name] for name in ("plan", "rows", "references"))
    found, papers = correlations(rows), printed()
    betas = sorted({row["beta"] for row in rows})
    agents, learned = sum(len(row["agents"]) for row in rows), known["learned"]
    unfinished = len(plan["betas"]) * plan["seeds"] - len(rows)
    hours = sum(results["seconds"].values()) / 3600
    gate_lines = [
        f"- The masks of a MONet trained for {gate['steps']:,} steps {'pass' if gate['ari'] > 0.9 else 'do not pass'} "
        f"the gate of 0.9: their adjusted Rand index is {gate['ari']:.3f} on the sprites' pixels of 500 held-out "
        f"scenes, above 0.9 in {gate['above_0.9']:.0%} of them."
        for gate in results["gates"]
    ]
    lines = [
        "# Clustering: does a better representation make an agent learn faster?",
        "",
        "Written by `python benchmarks/clustering.py` from the stored results of `karenina study run clustering`, "
        "[clustering.json](clustering.json).",
        "",
        filled(f"**{sentence(found)}**"),
        "",
        *([ORACLE, ""] if plan["masks"] == "oracle" else []),
        *([f"Not complete: {unfinished} models are still to come.", ""] if unfinished else []),
        f"{len(rows)} vision models ({len(betas)} betas, {plan['seeds']} seeds), "
        f"{plan['initialisations']} agents each. "
        f"{sum(row['censored'] for row in rows)} of {agents} agents were censored at {plan['cap']:,} steps.",
        "",
        "## Rank correlation with the steps of the agent",
        "Negative: a better score, fewer steps. Intervals are 95 %, over the models. Within a beta: mean of the",
        "correlations among models of one beta, which beta itself cannot explain; its interval is from leaving out one",
        "seed at a time.",
        "",
        markdown(
            ["score", "rho", "interval", "within a beta", "interval", *(f"beta {b:g}" for b in betas), "paper"],
            [
                [
                    SCORES[one.score],
                    number(one.rho),
                    bounds(one.interval),
                    number(one.within),
                    bounds(one.within_interval),
                    *(number(one.per_beta.get(b, np.nan)) for b in betas),
                    number(papers.get(one.score, np.nan)),
                ]
                for one in found
            ],
        ),
        "",
        "The papers' values: UDR_S from Duan et al. (2020), figure 11 right, printed there as .56 without a sign; the",
        "others from Holtz et al. (2022), Table 4. They are over all models; neither paper gives one within a beta.",
        "",
        "![steps against each score](clustering.png)",
        "",
        "## Per beta",
        per_beta(rows),
        "",
        "## What bounds it",
        f"- A random agent (clicks inside true masks) succeeds in {known['random']['rate']:.0%} of episodes.",
        f"- An agent that knows factors, dynamics and reward succeeds in {known['oracle']['rate']:.0%}, after "
        f"{known['oracle']['length']:.1f} steps on average.",
        "- One that sees true positions and hues and knows the dynamics, but learns the reward, needs "
        f"{np.mean(learned['steps']):.0f} steps ({min(learned['steps'])} to {max(learned['steps'])}; "
        f"{learned['censored']} of {len(learned['steps'])} censored).",
        f"- The environment makes {known['steps_per_second']:,.0f} steps/s without rendering.",
        *gate_lines,
        "",
        *(
            line
            for one in results["episodes"]
            if one["name"] == SHOWN
            for line in ["## An episode", f"{TITLES[SHOWN]}. {caption_of(one)}", "", f"![an episode]({FILM})", ""]
        ),
        "## How",
        filled(how(plan)),
        "",
        "## Core hours",
        f"{hours:.2f} in all.",
        "",
        markdown(["task", "core seconds"], [[kind, f"{value:,.0f}"] for kind, value in results["seconds"].items()]),
        "",
    ]
    return "\n".join(lines)


def write(results: dict, docs: Path = DOCS) -> None:
    rows = results["rows"]
    draw(scatter(rows, correlations(rows), results["plan"]["cap"])).savefig(docs / "clustering.png", dpi=100)
    (docs / "clustering.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    DOCS.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 1:
        study, *others = map(Path, sys.argv[1:])
        (DOCS / "clustering.json").write_text(json.dumps(collect(study, others), indent=1) + "\n", encoding="utf-8")
        if (study / "episodes.json").exists():
            (DOCS / FILM).write_bytes((study / "episodes" / f"{SHOWN}.gif").read_bytes())
    write(read_json(DOCS / "clustering.json"))
