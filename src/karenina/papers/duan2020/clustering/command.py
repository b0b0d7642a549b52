"""The clustering study for the command line: a kind of study (karenina.studies.plan.Kind) of agents."""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import karenina
from karenina._console import next_steps, print_json, say

if TYPE_CHECKING:
    from karenina.papers.duan2020.clustering.plan import ClusteringPlan

NAME = "clustering"


def owns(folder: Path) -> bool:
    """Return whether a folder holds a clustering study."""
    return (folder / "plan.json").is_file()


def find(what: str, scale: str | None, seeds: int | None) -> "ClusteringPlan | None":
    """Return the plan of the preset, of a study file that begins with study = "clustering", or of a folder; None if it
    is another study's."""

    path = Path(what)
    changes = {} if seeds is None else {"seeds": seeds}
    if what == NAME:
        return karenina.papers.duan2020.clustering.plan.plan_for(scale or "laptop", **changes)
    if path.is_dir() and owns(path):
        values = asdict(karenina.papers.duan2020.clustering.plan.read_plan(path))
    elif path.is_file() and (given := _read(path)).get("study") == NAME:
        values = {name: value for name, value in given.items() if name != "study"}
    else:
        return None
    if scale is not None:
        raise ValueError(f"--scale goes with a preset; {what!r} is not one")
    return karenina.papers.duan2020.clustering.plan.plan_of({**values, **changes})


def _read(path: Path) -> dict[str, object]:
    """Return what a study file says; nothing where it is damaged, which the reader of other studies says."""

    try:
        return karenina.studies.plan.StudyFile.read(path).parse()
    except ValueError:
        return {}


def to_toml(plan: "ClusteringPlan") -> str:
    def written(value: object) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return f'"{value}"' if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)

    lines = [f"{name} = {written(value)}" for name, value in asdict(plan).items() if name != "first"]
    return "\n".join([f'study = "{NAME}"', *lines]) + "\n"


def models(plan: "ClusteringPlan") -> int:
    """Return how many vision models there are."""
    return len(plan.strengths)


def grid(plan: "ClusteringPlan") -> str:
    betas = ", ".join(f"{beta:g}" for beta in plan.betas)
    seen = "a MONet each" if plan.own else "component VAEs of one MONet's slots"
    seen = "component VAEs of true masks (oracle masks)" if plan.masks == "oracle" else seen
    return f"sprites x {seen}, beta {betas} x {plan.seeds} seeds"


def show_plan(plan: "ClusteringPlan", workers: int, *, toml: bool, measure: bool, as_json: bool) -> None:
    if toml:
        say(*to_toml(plan).splitlines())
        return
    if as_json:
        spent = {"core_seconds": karenina.papers.duan2020.clustering.runner.estimate(plan)} if measure else {}
        print_json({"name": NAME, **spent, "models": len(plan.strengths), "plan": asdict(plan)})
        return
    say(f"{NAME}: {len(plan.strengths):,} models", grid(plan))
    say(f"  {plan.side}x{plan.side} pixels, {plan.latents} latents, {plan.initialisations} agents for each model,")
    say(f"  at most {plan.cap:,} environment steps to 90 % success of {plan.window} episodes")
    if measure:
        costs = karenina.papers.duan2020.clustering.runner.estimate(plan)
        duration = karenina.studies.runner.duration
        parts = ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in costs.items())
        total = duration(sum(costs.values()))
        say(f"time on this machine: about {total} of a core ({parts}), {workers} at a time")


def run(
    plan: "ClusteringPlan",
    out: Path,
    workers: int | None,
    *,
    as_json: bool,
    machines: bool = False,
    precision: str | None = None,
) -> None:
    """Run the study; machines: whether it is to run on several."""
    if machines:
        raise ValueError("the clustering study runs on one machine: no --shard and no --ray")
    if precision is not None:
        raise ValueError("the clustering study computes in float32: leave out --precision")

    def tell(line: str) -> None:
        say(line, file=sys.stderr if as_json else sys.stdout)

    tell(f"{NAME}: {len(plan.strengths):,} models in {out}")
    try:
        karenina.papers.duan2020.clustering.runner.run(
            plan, out, workers=workers, say=lambda line: tell(f"{time.strftime('%H:%M:%S')} {line}")
        )
    except KeyboardInterrupt as stop:
        raise type(stop)(f"stopped; the same call resumes. `karenina study status {out}` says how far it is") from None
    censored = sum(row["censored"] for row in karenina._files.read_json(out / "results.json"))
    agents = len(plan.strengths) * plan.initialisations
    if as_json:
        print_json({"study": out, "agents": agents, "censored": censored, "results": out / "results.json"})
        return
    say(f"{agents:,} agents done, {censored:,} of them censored at {plan.cap:,} steps; results in {out}/results.json")
    next_steps(("report", out), ("study", "analyse", out))


def status(folder: Path, *, as_json: bool) -> None:

    found = karenina.papers.duan2020.clustering.runner.status(folder)
    if as_json:
        at = [{"task": task, "who": who} for task, who in found.running]
        counts = {"done": len(found.done), "to_do": len(found.waiting), "running": at}
        print_json({"name": NAME, "models": len(found.plan.strengths), "tasks": counts})
        return
    say(f"{NAME}: {len(found.plan.strengths):,} models")
    say(f"tasks: {len(found.done):,} done, {len(found.running):,} running, {len(found.waiting):,} to do")
    for task, who in found.running:
        say(f"  running: {task}, {who}")
    if found.waiting:
        say(f"  next: {found.waiting[0]}")


def analyse(folder: Path, paper: str | None, *, figures: bool, as_json: bool) -> None:

    if paper is not None:
        karenina.papers.of_paper(paper)
    plan = karenina.papers.duan2020.clustering.plan.read_plan(folder)
    rows = karenina.papers.duan2020.clustering.study.ClusteringStudy(plan, folder).measures()
    if not rows:
        raise ValueError(f"{folder} has no finished agents: `karenina study run {folder}` resumes it")
    if as_json:
        table = karenina.papers.duan2020.clustering.results.write_analysis(folder, rows, plan.cap, figures=figures)
        items = {
            f"{one.item.paper} {one.item.name}": one.files
            for one in karenina.papers.duan2020.clustering.results.write_papers(folder, paper, figures=figures)
        }
        print_json({"models": len(rows), "masks": plan.masks, "correlations": table, "items": items})
        return
    if len(rows) < len(plan.strengths):
        say(f"{folder} is not complete: {len(rows)} of {len(plan.strengths)} models are analysed")
    frame = karenina.papers.duan2020.clustering.results.write_analysis(folder, rows, plan.cap, figures=figures)
    say(*frame.to_string(index=False, float_format="{:+z.2f}".format).split("\n"))
    agents = len(rows) * plan.initialisations
    say(f"{sum(row['censored'] for row in rows):,} of {agents:,} agents were censored at {plan.cap:,} steps")
    if plan.masks == "oracle":
        say("oracle masks: the true masks stand in for a MONet's")
    say(
        karenina.papers.duan2020.clustering.results.sentence(
            karenina.papers.duan2020.clustering.results.correlations(rows)
        )
    )
    say(f"in {folder / 'analysis' / 'clustering.csv'}")
    for output in karenina.papers.duan2020.clustering.results.write_papers(folder, paper, figures=figures):
        say(f"{output.item.paper} {output.item.name}: {output.item.title}, in {output.files[0]}")


def report(folder: Path, out: Path) -> Path:
    """Write the page of the study; returns it."""

    return karenina.papers.duan2020.clustering.page.report(folder, out)
