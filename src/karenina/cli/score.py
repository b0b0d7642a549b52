"""`karenina score`."""

from pathlib import Path
from typing import Annotated

import typer

from karenina.cli._common import DataDir, OwnData, console


def score(
    paths: Annotated[
        list[Path], typer.Argument(help="A run directory, or codes and factors: .npz, .csv, .parquet or two .npy.")
    ],
    metrics: Annotated[str | None, typer.Option(help="Names with commas between; default all.")] = None,
    protocol: Annotated[str | None, typer.Option(help="locatello or carbonneau; default our own.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Half-samples for the standard deviation.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the metrics that draw samples.")] = 0,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also downstream prediction and fairness.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Also write the table here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw bars, heat maps and Hinton diagrams into this file.")] = None,
    data: OwnData = None,
    data_dir: DataDir = None,
) -> None:
    """Every metric of codes against factors, or of a run."""

    from karenina.evaluation.scoring import evaluate, run_table
    from karenina.evaluation.scoring import score as score_arrays
    from karenina.metrics.files import read_codes
    from karenina.metrics.scoring import select

    names = [name.strip() for name in metrics.split(",") if name.strip()] if metrics is not None else None
    select(names, protocol)  # a misspelt name is an error before the work, not after
    if len(paths) == 1 and paths[0].is_dir():
        from karenina.evaluation.data import data_of
        from karenina.training import open as open_run

        run = open_run(paths[0])
        images = data_of(run, data, data_dir)
        found = evaluate(run, images, metrics=names, protocol=protocol, repeats=repeats, seed=seed, tasks=tasks)
        table = run_table(found)
    else:
        if data is not None:
            raise ValueError("--data goes with a run directory")
        codes, factors, factor_names = read_codes(paths)
        table = score_arrays(codes, factors, names, protocol, repeats, seed, factor_names=factor_names, tasks=tasks)
    if csv is not None:
        table.to_csv(csv)
    if as_json:
        print(table.to_json())
    else:
        console().print(table)
    if plot is not None:
        from karenina.metrics.plots import plot_scores

        plot_scores(table, plot)
