"""The page of a clustering study: does a better representation make an agent learn faster? With episodes to watch."""

import base64
from pathlib import Path
from typing import Any

import numpy as np

from karenina._files import atomic, read_json, sweep
from karenina.pages.figures import Section, Shown, keep
from karenina.pages.page import charts_of
from karenina.pages.template import render, save, versions
from karenina.papers.duan2020.clustering.plan import read_plan
from karenina.papers.duan2020.clustering.results import (
    SCORES,
    Correlation,
    bounds,
    correlations,
    number,
    printed,
    scatter,
    sentence,
)
from karenina.papers.duan2020.clustering.runner import seconds, status
from karenina.papers.duan2020.clustering.study import ClusteringStudy


def report(folder: Path, out: Path) -> Path:
    """Write out/index.html and out/figures/ for a clustering study, finished or not."""
    for part in (out, out / "figures"):
        sweep(part)
    plan, state = read_plan(folder), status(folder)
    agents_done = any(task.split()[0] in ("agents", "model") for task in state.done)
    rows = ClusteringStudy(plan, folder).measures() if agents_done else []
    notes = []
    if len(rows) < len(plan.strengths):
        notes.append(f"This study is not complete: the agents of {len(rows)} of {len(plan.strengths)} models are done.")
    if plan.masks == "oracle":
        notes.append("Oracle masks: the true masks of sprites and background stand in for a MONet's.")
    sections = []
    if rows:
        found = correlations(rows)
        sections = [_answer(rows, found, plan.cap, out), _per_beta(rows)]
    sections += [section for section in (_episodes(folder, out), _bounds(folder)) if section is not None]
    models = f"{len(rows)} vision models, {len(plan.betas)} betas, {plan.initialisations} agents each"
    page = render(
        {
            "title": "Clustering: does a better representation make an agent learn faster?",
            "subtitle": f"{models}; {plan.side}x{plan.side} pixels",
            "sections": [(one.id, one.title) for one in sections] + [("how", "How it was made")],
            "notes": notes,
            "figure_sections": sections,
            "how": [how(plan.__dict__)],
            "commands": [f"karenina study run {folder}", f"karenina report {folder}"],
            "versions": versions(),
            "data": {"charts": charts_of(sections)},
        }
    )
    return save(out, page)


def _answer(rows: list[dict[str, Any]], found: list[Correlation], cap: int, out: Path) -> Section:
    papers, betas = printed(), sorted({row["beta"] for row in rows})
    heading = (
        "score",
        "rho",
        "95 % interval",
        "within a beta",
        "95 % interval",
        *(f"beta {b:g}" for b in betas),
        "paper",
    )
    lines = [
        (
            SCORES[one.score],
            number(one.rho),
            bounds(one.interval),
            number(one.within),
            bounds(one.within_interval),
            *(number(one.per_beta.get(beta, np.nan)) for beta in betas),
            number(papers.get(one.score, np.nan)),
        )
        for one in found
    ]
    censored, agents = sum(row["censored"] for row in rows), sum(len(row["agents"]) for row in rows)
    caption = (
        f"A point is a vision model, at the mean of its agents. {censored} of {agents} agents were censored at the "
        f"grey line, {cap:,} steps."
    )
    figure = keep(scatter(rows, found, cap), out / "figures", "steps", "Steps against scores", caption)
    return Section("answer", "The answer", sentence(found), (figure,), table=(heading, *lines))


def _per_beta(rows: list[dict[str, Any]]) -> Section:
    lines = [("beta", "models", "mean steps", "censored agents", *SCORES.values())]
    for beta in sorted({row["beta"] for row in rows}):
        of = [row for row in rows if row["beta"] == beta]
        scores = [[row[name] for row in of if row[name] is not None] for name in SCORES]
        means = [f"{np.mean(values):.3g}" if values else "–" for values in scores]
        steps = f"{np.mean([row['steps'] for row in of]):.0f}"
        lines.append((f"{beta:g}", str(len(of)), steps, str(sum(row["censored"] for row in of)), *means))
    return Section("betas", "Per beta", "Means over the models of a beta.", (), table=tuple(lines))


def _episodes(folder: Path, out: Path) -> Section | None:
    if not (folder / "episodes.json").exists():
        return None
    shown = []
    for one in read_json(folder / "episodes.json"):
        data = (folder / "episodes" / f"{one['name']}.gif").read_bytes()
        name = f"episode_{one['name']}"
        with atomic(out / "figures" / f"{name}.gif") as part:
            part.write_bytes(data)
        src = f"data:image/gif;base64,{base64.b64encode(data).decode()}"
        shown.append(Shown(name, TITLES[one["name"]], caption_of(one), files=(f"{name}.gif",), film=src))
    text = "One episode each, from the same scene; the white cross is the click, and the sprite there moves."
    return Section("episodes", "Episodes", text, tuple(shown), pairs=True)


TITLES = {
    "oracle": "An agent that knows everything",
    "fewest_steps": "The vision model that needed the fewest steps",
    "most_steps": "The vision model that needed the most steps",
}


def caption_of(one: dict[str, Any]) -> str:
    """Return how an episode went."""
    went = f"{'Solved' if one['success'] else 'Not solved'} after {one['length']} steps."
    if "model" not in one:
        return went
    learned = f"did not get there in {one['steps']:,}" if one["censored"] else f"had learned after {one['steps']:,}"
    return f"Model {one['model']}, beta {one['beta']:g}: this agent {learned} environment steps. {went}"


def _bounds(folder: Path) -> Section | None:
    """Return what bounds the agents, the gate, and what it took."""
    lines = [("what", "value")]
    if (folder / "references.json").exists():
        known = read_json(folder / "references.json")
        steps, censored = known["learned"]["steps"], known["learned"]["censored"]
        lines += [
            ("success rate of random clicks inside true masks", f"{known['random']['rate']:.0%}"),
            ("success rate of an agent that knows everything", f"{known['oracle']['rate']:.0%}"),
            ("steps of an agent that learns only the reward", f"{np.mean(steps):.0f} ({censored} censored)"),
        ]
    if (folder / "gate.json").exists():
        lines.append(("adjusted Rand index of the MONet's masks", f"{read_json(folder / 'gate.json')['ari']:.3f}"))
    if spent := seconds(folder):
        lines.append(("core hours", f"{sum(spent.values()) / 3600:.2f}"))
    return Section("bounds", "What bounds it", "", (), table=tuple(lines)) if len(lines) > 1 else None


def how(plan: dict[str, Any]) -> str:
    """Return what was done, and what of it is our choice."""
    if plan["own"]:
        vision = f"MONets of {plan['monet_steps']:,} steps of {plan['monet_batch']} scenes, one for each model,"
    else:
        vision = (
            f"Component VAEs, {plan['component_steps']:,} steps of 64 objects that the frozen attention of one MONet "
            f"({plan['monet_steps']:,} steps of {plan['monet_batch']} scenes) cut out,"
        )
        if plan["masks"] == "oracle":
            vision = f"Component VAEs, {plan['component_steps']:,} steps of 64 objects that oracle masks cut out,"
    return (
        "A model-based agent in the manner of COBRA (Watters et al. 2019) must bring two blue and two green sprites "
        "together by colour; counted are environment steps until 90 % of the last "
        f"{plan['window']} episodes succeeded, at most {plan['cap']:,}. {vision} with {plan['latents']} latents and a "
        "spatial broadcast decoder on a grid; transition models (z, action) -> z' on "
        f"{plan['episodes'] * plan['episode']:,} transitions; reward predictors that sum over pairs of slots; one-step "
        "search over 64 clicks inside masks; a tenth of actions random. These networks and lengths are our choice, for "
        f"the papers do not print them. Scores are from {plan['singles']:,} images of single sprites: UDR_S among "
        "models of one beta; the dynamics score of a model is minus its mean MMD^2 to the other seeds of its beta. "
        "Negative correlations: a better score, fewer steps. Intervals are 95 %, over the models; within a "
        "beta: the mean of the correlations among models of one beta, which beta cannot explain, with the interval "
        f"from leaving out one seed at a time. Sprites have scale {plan['scale']:g}."
    )
