"""`karenina score`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import karenina
from karenina._console import say
from karenina._files import atomic
from karenina._plugins import named
from karenina.cli._common import (
    DataDir,
    Device,
    FactorsCsv,
    Grey,
    Json,
    OwnData,
    Size,
    console,
    use_device,
    with_options,
)
from karenina.cli._help import completing

if TYPE_CHECKING:
    from karenina.metrics.table import Table
    from karenina.studies.plan import Scoring

ROWS = 5000  # of a comparison of two runs


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
    data: OwnData = None,
    size: Size = None,
    grey: Grey = False,
    factors_csv: FactorsCsv = None,
    device: Device = None,
    data_dir: DataDir = None,
) -> None:
    """Score codes against factors, or a run, with every metric."""

    words = [name.strip() for name in metrics.split(",") if name.strip()] if metrics is not None else None
    names = None if words is None else [named(word) if ":" in word else word for word in words]
    data = with_options(data, size, grey, factors_csv)
    use_device(device)
    karenina.metrics.scoring.select(names, protocol)  # a misspelt name is an error before the work, not after
    published = _published(against, protocol) if against is not None else None
    if any(path.is_dir() for path in paths) and (code_names or factor_columns or missing != "refuse"):
        raise ValueError("--codes, --factors and --missing go with files of codes and factors, not with runs")
    columns: dict[str, Any] = {"codes": code_names, "factors": factor_columns, "missing": missing}
    if len(paths) == 2 and (all(path.is_dir() for path in paths) or all(path.suffix == ".npz" for path in paths)):
        _compare(paths, names, protocol, seed, data, data_dir, as_json, csv, columns)
        return
    if len(paths) == 1 and paths[0].is_dir():
        run = karenina.fitting.encoding.chosen_run(paths[0])
        images = karenina.evaluation.scoring.data_of(run, data, data_dir)
        given: dict[str, Any] = {"protocol": protocol, "repeats": repeats, "seed": seed, "tasks": tasks}
        given |= {"interventions": interventions, "also": karenina.evaluation.scoring.ALSO_TASKS if tasks else ()}
        if published is not None:
            given["rows"] = published.rows
        table = karenina.evaluation.scoring.run_table(
            karenina.evaluation.scoring.evaluate(run, images, metrics=names, **given)
        )
    else:
        if data is not None:
            raise ValueError("--data goes with a run directory")
        codes, factors, factor_names = karenina.metrics.files.read_codes(paths, **columns)
        table = karenina.evaluation.scoring.score(
            codes, factors, names, protocol, repeats, seed, factor_names=factor_names, tasks=tasks
        )
    if csv is not None:
        table.to_csv(csv)
    place = _standing(table, against) if against is not None else None
    if as_json:
        print(
            table.to_json() if place is None else json.dumps({**table.to_dict(), "against": place.to_dict("records")})
        )
    else:
        console().print(table)
        if place is not None:
            say(f"among the published models of {against} (docs/results):")
            formats = {"percentile": "{:.0f}".format}
            shown = place.to_string(index=False, float_format="{:.2f}".format, formatters=formats)
            say(*shown.split("\n"))
    if plot is not None:
        karenina.metrics.plots.plot_scores(table, plot)


def _published(against: str, protocol: str | None) -> "Scoring":
    """How the published models were scored; a ValueError before any work if there are none of this data set."""

    how = karenina.studies.published.scoring(against)
    karenina.studies.published.check_protocol(protocol, against)
    return how


def _standing(table: "Table", against: str) -> Any:

    return karenina.studies.published.standing(table, against)


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
    """The differences of two representations of the same rows."""

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
    say(karenina.metrics.table.TRUST)


def _encoded(paths: list[Path], seed: int, data: str | None, data_dir: Path | None) -> tuple[Any, Any, Any, list[bool]]:
    """Codes of the same images by two runs of one data set, the factors, and which of these are continuous."""

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
    """Codes of two files, and the factors, which must be the same in both."""
    import numpy as np

    (first, factors, _), (second, others, _) = (karenina.metrics.files.read_codes([path], **columns) for path in paths)
    if np.shape(factors) != np.shape(others) or not np.array_equal(factors, others):
        raise ValueError(f"{paths[0]} and {paths[1]} have different factors: a comparison needs codes of the same rows")
    return first, second, factors
