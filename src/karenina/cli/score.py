"""`karenina score` and `karenina rank`: scores with labels, and a ranking without."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

import karenina
from karenina._active import ACTIVE_KL
from karenina._console import next_steps, say
from karenina._files import atomic
from karenina._plugins import named
from karenina.cli._common import Json, bar, completing, console, own_data, table, with_data_options
from karenina.evaluation.criteria import CRITERIA

ROWS = 5000  # of a comparison of two runs
# The criteria of a ranking, the versions of UDR by their short names.
BY = tuple(name.replace("udr_lasso", "udr") for name in CRITERIA)


@with_data_options
def score(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="A run directory, or a fit, whose chosen model is scored; or codes and factors: one .npz, .csv or "
            ".parquet, or two files (.npy, .csv, .parquet): codes, then factors. Two runs, or two .npz of the same "
            "rows: is the first better?",
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Names with commas between, or all: {metrics}. A part: dci_lasso.disentanglement. Your own: "
            "module:function. Default: up to "
            "mutual_information; the others are on request.",
            autocompletion=completing("metrics"),
        ),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="locatello or carbonneau; default our own.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Number of half-samples for the standard deviation.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the metrics that draw samples.")] = 0,
    tasks: Annotated[
        bool,
        typer.Option("--tasks", help="Also downstream prediction, fairness, label noise and zero-shot."),
    ] = False,
    interventions: Annotated[
        str,
        typer.Option(metavar="WAY", help="Of a run: drawn from the generative model, or from the rows (cheaper)."),
    ] = "model",
    code_names: Annotated[
        str | None,
        typer.Option(
            "--codes",
            metavar="NAMES",
            help="Of files: columns or arrays that are codes, with commas: latent_*.",
        ),
    ] = None,
    factor_columns: Annotated[
        str | None, typer.Option("--factors", metavar="NAMES", help="Of files: columns or arrays that are factors.")
    ] = None,
    missing: Annotated[
        str, typer.Option(metavar="WAY", help="Of files: refuse rows that lack a value, or drop them.")
    ] = "refuse",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Also the percentile of each score among the published models of a data set."
        ),
    ] = None,
    as_json: Json = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the table here.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw bars, heat maps and Hinton diagrams into this file.")
    ] = None,
    data: str | None = None,
    data_dir: Path | None = None,
) -> None:
    """Score codes against factors, or a run, with every metric."""
    words = [name.strip() for name in metrics.split(",") if name.strip()] if metrics is not None else None
    names = None if words is None else [named(word) if ":" in word else word for word in words]
    karenina.metrics.scoring.select(names, protocol)  # a misspelt name is an error before the work, not after
    published = None
    if against is not None:  # where no models are published, that is an error before the work, too
        published = karenina.studies.published.scoring(against)
        karenina.studies.published.check_protocol(protocol, against)
    if any(path.is_dir() for path in paths) and (code_names or factor_columns or missing != "refuse"):
        raise ValueError("--codes, --factors and --missing go with files of codes and factors, not with runs")
    columns: dict[str, Any] = {"codes": code_names, "factors": factor_columns, "missing": missing}
    if len(paths) == 2 and (all(path.is_dir() for path in paths) or all(path.suffix == ".npz" for path in paths)):
        _compare(paths, names, protocol, seed, data, data_dir, as_json, csv, columns)
        return
    if len(paths) == 1 and paths[0].is_dir():
        run = karenina.fitting.encoding.chosen_run(paths[0])
        images = karenina.evaluation.scoring.data_of(run, data, data_dir)
        options: dict[str, Any] = {"protocol": protocol, "repeats": repeats, "seed": seed, "tasks": tasks}
        options |= {"interventions": interventions, "also": karenina.evaluation.scoring.ALSO_TASKS if tasks else ()}
        if published is not None:
            options["rows"] = published.rows
        evaluated = karenina.evaluation.scoring.evaluate(run, images, metrics=names, **options)
        found = karenina.evaluation.scoring.run_table(evaluated)
    else:
        if data is not None:
            raise ValueError("--data goes with a run directory")
        codes, factors, factor_names = karenina.metrics.files.read_codes(paths, **columns)
        found = karenina.evaluation.scoring.score(
            codes, factors, names, protocol, repeats, seed, factor_names=factor_names, tasks=tasks
        )
    if csv is not None:
        found.to_csv(csv)
    place = karenina.studies.published.standing(found, against) if against is not None else None
    if as_json:
        also = {} if place is None else {"against": place.to_dict("records")}
        print(json.dumps({**found.to_dict(), **also}) if also else found.to_json())
    else:
        console().print(found)
        if place is not None:
            say(f"among the published models of {against} (docs/results):")
            formats = {"percentile": "{:.0f}".format}
            shown = place.to_string(index=False, float_format="{:.2f}".format, formatters=formats)
            say(*shown.split("\n"))
    if plot is not None:
        karenina.metrics.scoring.plot_scores(found, plot)


def _compare(
    paths: list[Path],
    metrics: list[Any] | None,
    protocol: str | None,
    seed: int,
    data: str | None,
    data_dir: Path | None,
    as_json: bool,
    csv: Path | None,
    columns: dict[str, Any],
) -> None:
    """Print the differences of two representations of the same rows."""
    if columns["missing"] != "refuse":
        raise ValueError("--missing drop might leave other rows of the one than of the other: drop them before")
    if paths[0].is_dir():
        first, second, factors, continuous = _encoded(paths, seed, data, data_dir)
    else:
        first, second, factors, continuous = *_same_rows(paths, columns), None
    found = karenina.evaluation.scoring.difference(
        first, second, factors, metrics, protocol, seed=seed, continuous=continuous
    )
    if csv is not None:
        with atomic(csv) as part:
            found.to_csv(part, index=False)
    if as_json:
        print(found.to_json(orient="records", indent=2))
        return
    say(f"a: {paths[0]}", f"b: {paths[1]}")
    say(*found.to_string(index=False, float_format="{:.3f}".format).split("\n"))
    if "modularity" in set(found.metric):
        say("modularity: the interval is wider, and p larger, than it need be")
    say(karenina.metrics.scoring.TRUST)


def _encoded(paths: list[Path], seed: int, data: str | None, data_dir: Path | None) -> tuple[Any, Any, Any, list[bool]]:
    """Return codes of the same images by two runs, their factors, and which of these are continuous."""
    runs = [karenina.fitting.encoding.chosen_run(path) for path in paths]
    names = [run.config.data for run in runs]
    if names[0] != names[1]:
        raise ValueError(f"one run was trained on {names[0]}, the other on {names[1]}: compare runs of one data set")
    found = karenina.evaluation.scoring.data_of(runs[0], data, data_dir)
    if not found.labelled:
        raise ValueError(f"{names[0]} has no labels to compare scores with; `karenina rank` needs none")
    images, factors = karenina.evaluation.scoring.inputs(found, ROWS, seed)
    first, second = (run.encode(images)[0] for run in runs)
    return first, second, factors, [size is None for size in found.factor_sizes]


def _same_rows(paths: list[Path], columns: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the codes of two files, and the factors, which must be the same in both."""
    import numpy as np

    (first, factors, _), (second, others, _) = (karenina.metrics.files.read_codes([path], **columns) for path in paths)
    if np.shape(factors) != np.shape(others) or not np.array_equal(factors, others):
        raise ValueError(f"{paths[0]} and {paths[1]} have different factors: a comparison needs codes of the same rows")
    return first, second, factors


@with_data_options
def rank(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Run directories, a folder of runs, a fit, or a study; all on the same data set."
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Score to rank by: {', '.join(BY)}. [default: consensus; udr with --plot]",
            autocompletion=lambda incomplete: [name for name in BY if name.startswith(incomplete)],
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=10, help="Number of images that each run encodes.")] = 10_000,
    kl_threshold: Annotated[float, typer.Option(help="A latent is active if its KL exceeds this (nats).")] = ACTIVE_KL,
    seed: Annotated[int, typer.Option(help="Seed for drawing the images.")] = 0,
    as_json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot the similarity matrices of the best and the worst pair."),
    ] = None,
    data: str | None = None,
    data_dir: Path | None = None,
) -> None:
    """Rank runs without labels; the best is first."""
    folders = [folder for path in runs for folder in karenina.fitting.folder.folders_of_models(path)]
    with bar("count") as shown:
        task = shown.add_task("encode", total=None, count="")

        def progress(done: int, total: int) -> None:
            doing = "compare" if done == total else "encode"
            shown.update(task, completed=done, total=total, description=doing, count=f"{done} of {total} runs")

        ranking = karenina.evaluation.ranking.rank(
            folders,
            by or ("consensus" if plot is None else "udr"),
            rows=rows,
            seed=seed,
            kl_threshold=kl_threshold,
            data=data,
            data_dir=data_dir,
            progress=progress,
        )
    if plot is not None:
        karenina.evaluation.ranking.plot_pairs(ranking, plot)
    if as_json:
        print(ranking.frame.to_json(orient="records", indent=2))
        return
    frame = ranking.frame
    apart, shared = karenina.evaluation.ranking.settings_apart([run.config for run in ranking.runs])
    try:
        folder = os.path.commonpath([os.path.dirname(run) for run in frame["run"]])
    except ValueError:  # of paths from here and from the root
        folder = ""
    below = [os.path.relpath(run, folder) if folder else run for run in frame["run"]]
    interval = [f"{low:.3f} .. {high:.3f}" if low == low else "-" for low, high in zip(frame["low"], frame["high"])]
    columns: dict[str, list[str]] = {"rank": [str(rank) for rank in frame["rank"]], "run": below}
    columns |= {"setting": apart} if any(apart) else {}
    columns |= {"seed": [str(seed) for seed in frame["seed"]], "score": [f"{score:.3f}" for score in frame["score"]]}
    columns |= {"interval": interval} if set(interval) != {"-"} else {}
    columns |= {"active": [str(active) for active in frame["active"]]}
    screen = console()
    _cut(columns, screen.width)
    listed = table()
    for heading in columns:
        listed.add_column(heading, justify="left" if heading in ("run", "setting") else "right", no_wrap=True)
    for row in zip(*columns.values()):
        listed.add_row(*row)
    screen.width = max(screen.width, sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns.items()))
    screen.print(listed)
    if folder:
        say(f"runs in {folder}")
    say(f"all: {shared}")
    screen.print(f"active: latents with a KL above {ranking.kl_threshold:g} nats", highlight=False)
    if ranking.choice is not None and ranking.choice.best is not None:
        first = ranking.runs[0].config
        setting = " ".join([first.method, *(f"{name}={value}" for name, value in first.parameters.items())])
        say(
            *(f"the first: {ranking.choice.diagnosis}", f"how sure: {ranking.choice.judge(setting, steps=first.steps)}")
        )
    for latents, name in ranking.best_per_informative.items():
        say(f"best with {latents} active latents: {name}")
    if len(ranking.able):
        best = ranking.frame["run"][ranking.able[0]]
        more = own_data(data)
        few = len(runs) <= 8
        next_steps(("show", best, *more), ("report", *runs, *more) if few else ("score", best, *more))


def _cut(columns: dict[str, list[str]], width: int) -> None:
    """Shorten settings until every row fits into one line; names of runs are left whole, to be copied."""
    others = sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns.items() if heading != "setting")
    most = max(width - others, 12)
    if "setting" in columns:
        columns["setting"] = [cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell in columns["setting"]]
