"""`karenina study`: plan, run, look at and analyse studies. Heavy imports happen inside the commands."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import karenina
from karenina._console import next_steps, print_json, say, visible
from karenina._process import cores
from karenina.cli._common import App, DataDir, Device, Json, completing, console, setting_option, table, use_device

if TYPE_CHECKING:
    from karenina.studies.plan import Plan
    from karenina.studies.study import Study

study_app = App(help="Run the papers' studies or your own, and analyse them.")

What = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A preset ({presets}), a study file, or a study's directory.",
        autocompletion=completing("presets"),
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a study.")]
Scale = Annotated[str | None, typer.Option(metavar="NAME", help="Of a preset: smoke, laptop (default) or paper.")]
Seeds = Annotated[int | None, typer.Option(min=1, metavar="N", help="This many seeds instead of the plan's.")]


@study_app.command()
def presets(as_json: Json = False) -> None:
    """List the papers' studies, and how many models each has."""
    scales = karenina.studies.plan.SCALES
    rows = {}
    for name in karenina.studies.plan.presets():
        plans = [karenina.studies.plan.preset(name, scale) for scale in scales]
        rows[name] = [len(plan.points) for plan in plans], _grid(plans[-1])
    for name, kind in karenina.studies.plan.kinds().items():
        others = [kind.find(name, scale, None) for scale in scales]
        rows[name] = [kind.models(plan) for plan in others], kind.grid(others[-1])
    if as_json:
        print_json([{"preset": name, "models": dict(zip(scales, counts))} for name, (counts, _) in rows.items()])
        return
    listed = table()
    for heading in ("preset", *scales, "at paper scale"):
        listed.add_column(heading, justify="right" if heading in scales else "left")
    for name, (counts, grid) in rows.items():
        listed.add_row(name, *(f"{count:,}" for count in counts), grid)
    console().print(listed)


@study_app.command()
def plan(
    what: What,
    scale: Scale = None,
    seeds: Seeds = None,
    workers: Annotated[int | None, typer.Option(min=1, help="For the estimate; default: one per core.")] = None,
    toml: Annotated[bool, typer.Option("--toml", help="Print the plan as a study file, and nothing else.")] = False,
    estimate: Annotated[bool, typer.Option(help="Measure a few steps to say how long it would take.")] = True,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Say what a study would train, and how long that would take.

    Nothing is run, but for a few steps of each method from which the time and the disk that it needs are estimated.
    """
    for kind in karenina.studies.plan.kinds().values():
        if (other := kind.find(what, scale, seeds)) is not None:
            kind.show_plan(other, workers or cores(), toml=toml, measure=estimate, as_json=as_json)
            return
    found = _find(what, scale, seeds, data_dir)
    if toml:
        say(*found.to_toml().splitlines())
        return
    if as_json:
        cost = _cost(found) if estimate else None
        here = workers or cores()
        time = {} if cost is None else {"workers": here, "seconds": cost.wall(here), "bytes": cost.bytes}
        models = [{"hash": point.hash, "label": point.label} for point in found.points]
        print_json({"name": found.name, **time, "models": models})
        return
    say(f"{found.name}: {len(found.points):,} models")
    say(_grid(found))
    for method, parameters in found.methods:
        say(f"  {method}: " + (", ".join(f"{name} {_values(value)}" for name, value in parameters) or "no parameters"))
    say(f"  {_values(found.steps)} steps, batch {found.batch}, network {_values(found.network)}")
    if estimate:
        _print_estimate(found, workers or cores())


def _print_estimate(found: "Plan", workers: int) -> None:
    cost = _cost(found)
    total = cost.train_seconds + cost.score_seconds
    duration = karenina.studies.runner.duration
    each = f"{duration(total / len(found.points))} per model, {cost.score_seconds / total:.0%} of it scoring"
    say(f"time on this machine: about {duration(cost.wall(workers))} with {workers} workers ({each})")
    if cost.intervention_seconds:
        every = duration(cost.intervention_seconds / len(found.points))
        cheap = "" if found.evaluation.interventions == "rows" else '; evaluation.interventions = "rows" is cheaper'
        say(f"of the scoring, images of interventions take {every} per model{cheap}")
    say(f"disk: about {karenina.studies.runner.size(cost.bytes)}")
    for data, reason in cost.unknown.items():
        say(f"{data} cannot be loaded here; its time is assumed to be that of the others: {reason}")


def _cost(found: "Plan") -> Any:
    import torch

    def progress(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[Kmeasuring {visible(what)}", end="", file=sys.stderr, flush=True)

    torch.set_num_threads(1)
    cost = karenina.studies.runner.estimate(found, progress)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return cost


@study_app.command()
def run(
    what: What,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Its directory; default: the name of the study.")
    ] = None,
    scale: Scale = None,
    seeds: Seeds = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Models at a time; default: one per core.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Only the i-th of n parts, for job arrays.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on Ray: local, auto, HOST:PORT or ray://HOST:PORT (extra `ray`)."),
    ] = None,
    device: Device = None,
    precision: Annotated[str | None, setting_option("precision", "the plan's")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Train and score all models of a study. Stop it at any time; the same command resumes it.

    The exit code is 1 if models failed.
    """
    if out is None:
        out = Path(what) if Path(what).is_dir() else Path(Path(what).stem if scale is None else f"{what}-{scale}")
    for kind in karenina.studies.plan.kinds().values():
        if (other := kind.find(what, scale, seeds)) is not None:
            machines = shard is not None or ray is not None
            kind.run(other, out, workers, as_json=as_json, machines=machines, precision=precision)
            return
    found, part = _find(what, scale, seeds, data_dir), _shard(shard)
    if precision is not None:
        found = found.with_precision(precision)
    use_device(device)
    if not as_json:
        say(f"{found.name}: {len(found.points):,} models in {out}")
    try:
        status = karenina.studies.runner.run(found, out, workers=workers, ray=ray, shard=part, quiet=as_json)
    except KeyboardInterrupt as stop:
        raise type(stop)(
            f"{stop or 'stopped'}; the same call resumes. `karenina study status {out}` says more"
        ) from None
    left = status.total - len(status.done) - len(status.failed)
    mine = status.plan.points if part is None else status.plan.points[part[0] - 1 :: part[1]]
    failed = {point.hash for point in mine} & set(status.failed)
    if as_json:
        print_json({"study": out, **_counts(status), "results": out / "results.parquet"})
        raise typer.Exit(1 if failed else 0)
    if left:
        say(f"this part is done; {left:,} models of the other parts are left")
    else:
        say(f"{len(status.done):,} models done; results in {out / 'results.parquet'}")
    _print_failures(karenina.studies.study.Study(out), status.failed)
    if status.done and not left:
        next_steps(("report", out), ("study", "analyse", out), ("rank", out))
    if failed:
        raise typer.Exit(1)


def _counts(status: Any) -> dict[str, Any]:
    counts = {"done": len(status.done), "running": len(status.running), "failed": len(status.failed)}
    return {"name": status.plan.name, "models": status.total, **counts, "to_do": status.waiting}


@study_app.command()
def status(
    directory: Directory,
    check: Annotated[
        bool, typer.Option("--check", help="Also check that all files of finished runs are intact.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say how far a study is, what is running, and what failed."""
    if (kind := karenina.studies.plan.kind_of(directory)) is not None:
        kind.status(directory, as_json=as_json)
        return
    folder = karenina.studies.study.Study(directory)
    found = folder.status()
    points = {point.hash: point for point in found.plan.points}
    if as_json:
        failures = {name: {"label": points[name].label, "reason": folder.reason(name)} for name in found.failed}
        at = [{"model": points[one.hash].label, "at": one.at, "who": one.who} for one in found.running]
        checked = {"damaged": folder.damaged()} if check else {}
        print_json({**_counts(found), "stale": found.stale, "at": at, "failures": failures, **checked})
        return
    say(f"{found.plan.name}: {found.total:,} models")
    done, running, failed = len(found.done), len(found.running), len(found.failed)
    say(f"{done:,} done, {running:,} running, {failed:,} failed, {found.waiting:,} to do")
    if found.stale:
        say(f"{found.stale:,} of these are trained and need to be scored anew: settings or numbers changed")
    for claim in found.running[:32]:
        say(f"  running: {points[claim.hash].label}: {claim.at}, {claim.who}")
    if (other := karenina.studies.study.read_claim(folder.path, ".together")) is not None:
        say(f"  running: comparison of the models with one another, {other.who}")
    _print_failures(folder, found.failed)
    if check:
        broken = folder.damaged()
        for name, wrong in broken.items():
            say(f"  damaged: {points[name].label}: {wrong}")
        say(
            f"{len(broken):,} damaged"
            + ("; `karenina study retry {folder.path} --check` marks them to be run again" if broken else "")
        )


def _print_failures(folder: "Study", failed: tuple[str, ...]) -> None:
    points = {point.hash: point for point in folder.read_plan().points} if failed else {}
    for name in failed[:10]:
        say(f"  failed: {points[name].label}: {folder.reason(name)}")
    if len(failed) > 10:
        say(f"  and {len(failed) - 10:,} more")
    if failed:
        say(f"`karenina study retry {folder.path}` marks them to be tried again")


@study_app.command()
def retry(
    directory: Directory,
    check: Annotated[bool, typer.Option("--check", help="Also runs whose files were changed or damaged.")] = False,
    as_json: Json = False,
) -> None:
    """Mark failed models to be run again by the next `study run`."""
    if karenina.studies.plan.kind_of(directory) is not None:
        raise ValueError(f"this kind of study keeps no failures: `karenina study run {directory}` tries again")
    points = karenina.studies.study.retry(directory, check=check)
    if as_json:
        print_json({"models": [point.label for point in points]})
        return
    for point in points[:10]:
        say(f"  {point.label}")
    say(f"{len(points):,} models will be run again by `karenina study run {directory}`")


@study_app.command()
def analyse(
    directory: Directory,
    figures: Annotated[bool, typer.Option(help="Draw a figure for each analysis.")] = True,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Its tables and figures: duan2020, holtz2022, locatello2019, carbonneau2022, eastwood2018.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the papers' tables and figures from a study's results.

    They are in DIRECTORY/analysis: general analyses first, then the tables and figures of one paper by their own names,
    in analysis/PAPER. A preset's study has its own paper; --paper picks another, for any study.
    """
    if (kind := karenina.studies.plan.kind_of(directory)) is not None:
        kind.analyse(directory, paper, figures=figures, as_json=as_json)
        return
    wanted = paper or karenina.papers.paper_of(karenina.studies.study.Study(directory).read_plan().name)
    if wanted is not None:
        karenina.papers.of_paper(wanted)  # a wrong name is said before the work
    found = karenina.studies.analyses.analyse(directory, figures=figures)
    if as_json:
        made = list(karenina.papers.write(directory, wanted, figures=figures)) if wanted is not None else []
        items = {one.item.name: one.missing or [str(file) for file in one.files] for one in made}
        print_json({"analyses": found, "paper": wanted, "items": items})
        return
    for name, frame in found.items():
        if isinstance(frame, str):
            say(f"{name}: left out, {frame}")
        else:
            say(f"{name}: {len(frame):,} rows in {directory / 'analysis' / f'{name}.csv'}")
    for name in ("udr_versions", "beats_random", "polarised"):
        frame = found.get(name)
        if frame is not None and not isinstance(frame, str):
            say("", name, *frame.to_string(index=False, float_format="{:.2f}".format).split("\n"))
    if wanted is None:
        return
    say("", f"{wanted}:")
    count = 0
    for one in karenina.papers.write(directory, wanted, figures=figures):
        count += not one.missing
        if one.missing:
            say(f"{one.item.name}: left out, {one.missing}")
        else:
            notes = "".join(f" ({note})" for note in one.notes)
            say(f"{one.item.name}: {one.item.title}, in {one.files[0]}{notes}")
    known = len(karenina.papers.of_paper(wanted))
    say(f"{count} of {known} tables and figures of {wanted} in {directory / 'analysis' / wanted}")


def _find(what: str, scale: str | None, seeds: int | None, data_dir: Path | None) -> "Plan":
    if data_dir is not None:
        if not data_dir.is_dir():
            raise ValueError(f"the data folder {str(data_dir)!r} does not exist (--data-dir or KARENINA_DATA)")
        os.environ["KARENINA_DATA"] = str(data_dir.resolve())  # the workers find it there
    found = karenina.studies.study.find_plan(what, scale)
    return found if seeds is None else found.with_seeds(seeds)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit()):
        raise ValueError(f"a shard is i/n, such as 3/16; got {text!r}")
    return int(i), int(n)


def _grid(found: "Plan") -> str:
    strengths = len({point.setting for point in found.points})
    settings = f"{strengths} settings of {', '.join(method for method, _ in found.methods)}"
    latents = f" with {_values(found.latents)} latents"
    return f"{_values(found.data)} x {settings}{latents} x {len(found.seeds)} seeds"


def _values(values: Any) -> str:
    if isinstance(values, tuple):
        return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in values)
    return str(values)
