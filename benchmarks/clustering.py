"""Does a better representation make an agent learn faster? The clustering study, and the page of its results.

    python benchmarks/clustering.py --scale laptop --out DIR     # hours; again: resumes
    python benchmarks/clustering.py --out DIR --write            # seconds: docs/results/clustering.md from DIR

The page is written from the stored results alone.
"""

import argparse
import json
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from karenina.models.cobra import RewardLearners
from karenina.studies.clustering.results import SCORES, Correlation, correlations, verdict
from karenina.studies.clustering.study import Plan, Study, plan_for, read_json, write_json
from karenina.tasks.clustering import (
    Environment,
    OracleVision,
    TrueReward,
    TrueTransition,
    animation,
    learn,
    random_actions,
    search,
)
from karenina.tasks.clustering.agent import success_rate

DOCS = Path(__file__).resolve().parents[1] / "docs" / "results"
PAPERS = {"udr_spearman": -0.56, "dynamics": -0.59, "mig": -0.48}


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def agents(folder: Path, seed: int) -> None:
    torch.set_num_threads(1)
    Study(Plan(**read_json(folder / "plan.json") | tuples(folder)), folder, say).agents(seed)


def tuples(folder: Path) -> dict[str, tuple[float, ...]]:
    return {"betas": tuple(read_json(folder / "plan.json")["betas"])}


def run(plan: Plan, folder: Path, workers: int) -> None:
    torch.set_num_threads(1)
    study = Study(plan, folder, say)
    timed(folder, "references", lambda: references(plan, folder))
    if plan.masks == "monet":
        timed(folder, "MONet", lambda: study.attention)
        say(f"gate {study.gate()}")
    timed(folder, "exploration", study.exploration)
    timed(folder, "component VAEs", lambda: study.components)
    timed(folder, "transition models", lambda: study.transitions)
    started = time.time()
    missing = [seed for seed in range(plan.seeds) if not (folder / "agents" / f"{seed}.json").exists()]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(agents, folder, seed) for seed in missing]:
            done.result()
    if missing:
        note(folder, "agents", (time.time() - started) * workers)
    timed(folder, "measures", study.measures)
    film(study)


def timed(folder, phase, work):
    """Seconds of a phase, added up over kills except for what a kill loses; nothing when it was already done."""
    before = sum(1 for _ in folder.rglob("*"))
    started = time.time()
    work()
    if sum(1 for _ in folder.rglob("*")) != before:
        note(folder, phase, time.time() - started)


def note(folder: Path, phase: str, seconds: float) -> None:
    path = folder / "seconds.json"
    known = read_json(path) if path.exists() else {}
    write_json(path, known | {phase: known.get(phase, 0.0) + seconds})


class FactorLearners(RewardLearners):
    """Reward predictors on the true position and hue of each sprite, at about unit variance."""

    def features(self, codes):
        return np.concatenate([4 * codes[..., :2] - 2, 6 * codes[..., 4:5] - 2.7], axis=-1).astype(np.float32)

    def predict(self, codes):
        return super().predict(self.features(codes))

    def learn(self, codes, rewards):
        super().learn(self.features(codes), rewards)


def references(plan: Plan, folder: Path) -> None:
    """Success rates of a random agent and of one that knows everything, steps of one that knows positions and hues but
    must learn the reward, and the speed of the environment."""
    path = folder / "references.json"
    if path.exists():
        return
    n = 20
    rngs = [np.random.default_rng([plan.seed, 5, i]) for i in range(n)]
    vision, transition, reward = OracleVision(plan.side), TrueTransition(), TrueReward()

    def environments():
        return [Environment(np.random.default_rng([plan.seed, 6, i]), scale=plan.scale) for i in range(n)]

    def random(scenes):
        masks = vision.see(scenes).masks
        return np.stack([random_actions(masks[i], 1, rngs[i])[0] for i in range(n)])

    def best(scenes):
        slots = vision.see(scenes)
        actions = np.stack([random_actions(slots.masks[i], 64, rngs[i]) for i in range(n)])
        return actions[np.arange(n), search(slots.codes, actions, transition, reward)]

    episodes = 400
    found = {
        name: dict(zip(("rate", "length"), success_rate(environments(), choose, episodes)))
        for name, choose in {"random": random, "oracle": best}.items()
    }
    learned = learn(
        environments(), vision, transition, FactorLearners(list(range(n)), 3), rngs, cap=plan.cap, window=plan.window
    )
    environment = Environment(0)
    actions = np.random.default_rng(0).random((5000, 4))
    started = time.process_time()
    for action in actions:
        environment.step(action)
    found |= {
        "learned": {"steps": learned.steps.tolist(), "censored": int(learned.censored.sum())},
        "steps_per_second": len(actions) / (time.process_time() - started),
    }
    write_json(path, found)


def film(study: Study) -> None:
    """An episode of the agent that knows everything, as an animation."""
    path = study.folder / "episode.gif"
    if path.exists():
        return
    environment = Environment(study.plan.seed, scale=study.plan.scale)
    rng = np.random.default_rng(study.plan.seed)
    vision, transition, reward = OracleVision(study.plan.side), TrueTransition(), TrueReward()
    step = environment.reset()
    scenes, clicked = [step.observation], []
    while not step.last():
        slots = vision.see(step.observation[None])
        actions = random_actions(slots.masks[0], 64, rng)
        action = actions[search(slots.codes, actions[None], transition, reward)[0]]
        step = environment.step(action)
        scenes.append(step.observation)
        clicked.append(action)
    animation(path, scenes, clicked)


def number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:+.2f}"


def bounds(interval: tuple[float, float]) -> str:
    return "-" if np.isnan(interval).any() else f"[{interval[0]:+.2f}, {interval[1]:+.2f}]"


def table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])


def write(folder: Path, monet: Path) -> None:
    plan, known = read_json(folder / "plan.json"), read_json(folder / "references.json")
    # Not yet finished: the seeds whose agents are done.
    rows = Study(Plan(**plan | tuples(folder)), folder).measures()
    seconds = read_json(folder / "seconds.json")
    found = correlations(rows)
    DOCS.mkdir(parents=True, exist_ok=True)
    scatter(rows, found, DOCS / "clustering.png")
    (DOCS / "clustering_episode.gif").write_bytes((folder / "episode.gif").read_bytes())
    (DOCS / "clustering.json").write_text(json.dumps(rows, indent=1) + "\n")
    (DOCS / "clustering.md").write_text(page(rows, plan, known, seconds, found, gate_of(monet)))


def gate_of(folder: Path) -> dict[str, float] | None:
    return read_json(folder / "gate.json") if (folder / "gate.json").exists() else None


def sentence(found: list[Correlation]) -> str:
    by = {one.score: one for one in found}
    parts = []
    for score, whose in (("udr_spearman", "UDR_S (Duan et al. 2020, figure 11)"), ("dynamics", "the dynamics score")):
        one, paper = by[score], PAPERS[score]
        inside = one.interval[0] <= paper <= one.interval[1]
        says = {"agrees": "agrees in sign with", "disagrees": "disagrees with", "cannot tell": "cannot tell from"}
        parts.append(
            f"For {whose} this study {says[one.verdict]} the paper's {paper:+.2f}: rho is {number(one.rho)} "
            f"{bounds(one.interval)}, whose interval {'contains' if inside else 'does not contain'} that value; "
            f"within a beta it is {number(one.within)} {bounds(one.within_interval)} ({verdict(one.within_interval)})."
        )
    return " ".join(parts)


def page(rows, plan, known, seconds, found, gate) -> str:
    agents_of = len(rows) * plan["initialisations"]
    betas = sorted({row["beta"] for row in rows})
    per_beta = [
        [f"{beta:g}", str(len(of)), *(f"{np.mean([row[name] for row in of]):.0f}" for name in ["steps"]),
         f"{min(row['steps'] for row in of):.0f}-{max(row['steps'] for row in of):.0f}",
         str(sum(row["censored"] for row in of)),
         *(f"{np.nanmean([np.nan if row[s] is None else row[s] for row in of]):.3g}" for s in [*SCORES, "informative"])]
        for beta in betas for of in [[row for row in rows if row["beta"] == beta]]
    ]  # fmt: skip
    what = (
        f"the masks of one MONet, whose attention was frozen (foreground ARI {gate['ari']:.3f} on held-out scenes)"
        if plan["masks"] == "monet" and gate
        else "**oracle masks**: the true masks of sprites and background stand in for a MONet's"
    )
    learned = known["learned"]
    gate_lines = []
    if gate and plan["masks"] == "oracle":
        gate_lines = [
            f"- The MONet trained here did not pass the gate of 0.9: its foreground ARI is {gate['ari']:.3f}."
        ]
    lines = [
        "# Clustering: does a better representation make an agent learn faster?",
        "",
        "Written by `python benchmarks/clustering.py --write` from the stored results of a study.",
        "",
        textwrap.fill(
            "A model-based agent in the manner of COBRA (Watters et al. 2019) must bring two blue and two green "
            f"sprites together by colour. {len(rows)} vision models ({len(betas)} betas, {plan['seeds']} seeds) "
            f"code the objects of a scene of {plan['side']}x{plan['side']} pixels, found by {what}. Each is given to "
            f"{plan['initialisations']} agents that differ in their reward predictor; counted are the "
            f"environment steps until 90 % of the last {plan['window']} episodes succeeded, at most {plan['cap']:,}.",
            120,
        ),
        "",
        textwrap.fill(f"**{sentence(found)}**", 120),
        "",
        "## Rank correlation with the steps of the agent",
        "Negative: a better score, fewer steps. 95 % intervals from 1,000 bootstrap samples of the models. Within a",
        "beta: mean of the correlations among models of one beta, which beta itself cannot explain.",
        "",
        table(
            ["score", "rho", "interval", "within a beta", "interval", *(f"beta {b:g}" for b in betas), "papers"],
            [
                [
                    SCORES[one.score],
                    number(one.rho),
                    bounds(one.interval),
                    number(one.within),
                    bounds(one.within_interval),
                    *(number(one.per_beta.get(b, np.nan)) for b in betas),
                    number(PAPERS.get(one.score, np.nan)),
                ]
                for one in found
            ],
        ),
        "",
        "The papers' values: Duan et al. (2020), figure 11 right, there as a correlation with efficiency, .56; and",
        "Table 4 of the paper on training dynamics. Theirs are over all models; neither gives one within a beta.",
        "",
        f"{sum(row['censored'] for row in rows)} of {agents_of} agents did not get there and count as {plan['cap']:,}.",
        "",
        "![steps against each score](clustering.png)",
        "",
        "## Per beta",
        table(["beta", "models", "steps", "of models", "censored", *SCORES.values(), "informative"], per_beta),
        "",
        "## What bounds it",
        f"- A random agent (clicks inside true masks) succeeds in {known['random']['rate']:.0%} of episodes.",
        f"- An agent that knows factors, dynamics and reward succeeds in {known['oracle']['rate']:.0%}, after "
        f"{known['oracle']['length']:.1f} steps on average. ![an episode](clustering_episode.gif)",
        "- One that sees true positions and hues and knows the dynamics, but learns the reward, needs "
        f"{np.mean(learned['steps']):.0f} steps ({min(learned['steps'])} to {max(learned['steps'])}; "
        f"{learned['censored']} of {len(learned['steps'])} censored).",
        f"- The environment makes {known['steps_per_second']:,.0f} steps/s without rendering.",
        *gate_lines,
        "",
        "## What is ours",
        textwrap.fill(
            "The papers do not print the agent's networks or the length of its training. Ours: component VAEs with "
            f"{plan['latents']} latents and a spatial broadcast decoder on a grid, {plan['component_steps']:,} steps "
            "of 64 objects; transition models (z, action) -> z' on "
            f"{plan['episodes'] * plan['episode']:,} transitions; reward predictors that sum over pairs of slots; "
            "one-step search over 64 clicks inside masks; a tenth of actions random. The slot with the largest part of "
            f"the frame is background and left out. Scores are from {plan['singles']:,} images of single sprites, "
            "UDR_S among models of one beta; the dynamics score of a model is minus its mean MMD^2 to the other seeds "
            f"of its beta. Sprites have scale {plan['scale']:g}: at 32x32 pixels Spriteworld's 0.13 is four pixels.",
            120,
        ),
        "",
        "## Seconds",
        table(["phase", "core seconds"], [[phase, f"{value:,.0f}"] for phase, value in seconds.items()]),
        "",
    ]
    return "\n".join(lines)


def scatter(rows, found: list[Correlation], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.2), sharey=True, layout="constrained")
    for axis, one in zip(axes, found):
        for beta in sorted({row["beta"] for row in rows}):
            of = [row for row in rows if row["beta"] == beta and row[one.score] is not None]
            axis.scatter([row[one.score] for row in of], [row["steps"] for row in of], s=18, label=f"beta {beta:g}")
        axis.set_xlabel(SCORES[one.score])
        axis.set_title(f"rho {number(one.rho)} {bounds(one.interval)}", fontsize=9)
    axes[0].set_ylabel("environment steps to 90 % success")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="smoke", choices=["smoke", "laptop"])
    parser.add_argument("--out", type=Path, default=Path("studies/clustering"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--masks", default="monet", choices=["monet", "oracle"])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="only write the page, from the results in --out")
    parser.add_argument("--monet", type=Path, help="with --write: the study whose MONet did not pass, if not --out")
    given = parser.parse_args()
    if given.write:
        write(given.out, given.monet or given.out)
    else:
        run(plan_for(given.scale, seed=given.seed, masks=given.masks), given.out, given.workers)
