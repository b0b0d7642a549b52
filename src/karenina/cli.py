"""The command line. Heavy imports happen inside commands, so that `karenina --help` answers at once."""

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from karenina._cli_audit import audit
from karenina._cli_common import DataDir, OwnData, console
from karenina._cli_report import compare, demo, report, show
from karenina._cli_study import study_app
from karenina._version import __version__

app = typer.Typer(
    name="karenina",
    help="Train disentangled representations, measure them, and choose the best of many, with labels or without.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data_app = typer.Typer(help="List, look at and download data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(study_app, name="study")


def _version(asked: bool) -> None:
    if asked:
        print(f"karenina {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@data_app.command("list")
def data_list(data_dir: DataDir = None) -> None:
    """Every data set by name, its factors, and whether it is rendered or read from an official file."""
    from rich.table import Table

    from karenina.data import catalogue

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "factors", "images", "source"):
        table.add_column(heading, overflow="fold")
    for entry in catalogue(data_dir):
        table.add_row(entry.name, entry.factors, entry.images, entry.source)
    console().print(table)


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A data set's name, or a folder, .npz or .h5 of your own.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the picture; default NAME.png.")] = None,
    columns: Annotated[int, typer.Option(min=2, max=40, help="Pictures per row.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of what is left to chance.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Draw one row per factor: that factor varied, the others fixed."""
    from karenina.data import load
    from karenina.data.sheet import draw_sheet

    data = load(name, data_dir=data_dir)
    out = out or Path(f"{data.name}.png")
    draw_sheet(data, out, columns=columns, seed=seed)
    print(repr(data)[1:-1])
    print(f"wrote {out}")


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A data set's name.")],
    data_dir: DataDir = None,
) -> None:
    """Download the official files of a data set: checked, resumed after a cut, in place only when whole."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from karenina.data.download import get

    if data_dir is None:
        raise ValueError("say where the files should go: --data-dir DIR, or set KARENINA_DATA")
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, Any] = {}

        def progress(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        for path in get(name, data_dir, progress):
            print(f"{path} is in place")


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="A data set's name, or a folder, .npz or .h5 of your own.")],
    method: Annotated[str, typer.Argument(help="vae, beta_vae, annealed_vae, factor_vae, beta_tcvae, dip_vae_i, ...")],
    out: Annotated[Path, typer.Option(help="Directory of the run; the same command again resumes it.")],
    seed: Annotated[int, typer.Option(help="Decides everything that is left to chance.")] = 0,
    steps: Annotated[int, typer.Option(help="Updates.")] = 10_000,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method or of training, such as beta=4."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Train one model."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from karenina.data import load
    from karenina.training import train as train_run

    given = _settings(settings or [])
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()]
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(method, total=steps)
        said = 0

        def show(state: Any) -> None:
            nonlocal said
            row = {name: value for name, value in state.row.items() if name != "step" and not name.startswith("kl_")}
            terms = "  ".join(f"{name} {value:.2f}" for name, value in row.items())
            line = f"step {state.step}/{state.steps}  {terms}  {state.images_per_second:.0f} images/s"
            bar.update(task, completed=state.step, description=line)
            tenth = 10 * state.step // state.steps
            if bar.disable and tenth > said:
                said = tenth
                print(line, flush=True)

        run = train_run(load(data, data_dir=data_dir), method, seed=seed, steps=steps, out=out, progress=show, **given)
    print(f"{repr(run)[1:-1]} -> {out}")


def _settings(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE words; a value is a number, true or false where it reads as one, else text."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"--set takes NAME=VALUE, got {word!r}")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        for kind in (float, int):
            try:
                value = kind(text)
            except ValueError:
                continue
        given[name.replace("-", "_")] = value
    return given


@app.command()
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

    from karenina.metrics.files import read_codes
    from karenina.metrics.scoring import select
    from karenina.studies.evaluate import score as score_arrays

    names = [name.strip() for name in metrics.split(",") if name.strip()] if metrics is not None else None
    select(names, protocol)  # a misspelt name is an error before the work, not after
    if len(paths) == 1 and paths[0].is_dir():
        from karenina.data import load
        from karenina.studies.evaluate import data_of, evaluate, run_table
        from karenina.training import open as open_run

        run = open_run(paths[0])
        images = load(data) if data is not None else data_of(run, data_dir)
        found = evaluate(run, images, metrics=names, protocol=protocol, repeats=repeats, seed=seed, tasks=tasks)
        table = run_table(found)
    else:
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


@app.command()
def rank(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, all of one data set.")],
    by: Annotated[str, typer.Option(help="udr, udr-s, udr-a2a, udr-s-a2a, dynamics, orthogonality, elbo, ...")] = "udr",
    rows: Annotated[int, typer.Option(min=10, help="Images that every run encodes.")] = 5_000,
    kl_threshold: Annotated[float, typer.Option(help="A latent is informative above this KL.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Decides which images.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the best and the worst pair's similarity matrices.")] = None,
    data: OwnData = None,
    data_dir: DataDir = None,
) -> None:
    """Rank runs without labels; the best is first."""
    from rich.table import Table

    from karenina.data import load
    from karenina.studies.rank import plot_pairs
    from karenina.studies.rank import rank as rank_runs

    own = load(data) if data is not None else None
    ranking = rank_runs(runs, by, rows=rows, seed=seed, kl_threshold=kl_threshold, data=own, data_dir=data_dir)
    if plot is not None:
        plot_pairs(ranking, plot)
    if as_json:
        print(ranking.frame.to_json(orient="records", indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("rank", "run", "setting", "seed", "score", "interval", "informative"):
        table.add_column(heading, justify="left" if heading in ("run", "setting") else "right", overflow="fold")
    for row in ranking.frame.itertuples():
        interval = f"{row.low:.3f} .. {row.high:.3f}" if row.low == row.low else "-"
        cells = (row.rank, row.run, row.setting, row.seed, f"{row.score:.3f}", interval, row.informative)
        table.add_row(*map(str, cells))
    console().print(table)
    for latents, name in ranking.best_per_informative.items():
        print(f"best with {latents} informative latents: {name}")


for command in (report, show, compare, demo, audit):
    app.command()(command)


def _say(message: Any, *args: Any, **kwargs: Any) -> None:
    print(f"karenina: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line. The user's own mistakes are one line and exit code 2, never a traceback."""
    warnings.showwarning = _say  # one line, without the place in our code
    try:
        app()
    except (ValueError, OSError, MemoryError) as error:
        if os.environ.get("KARENINA_DEBUG"):
            raise
        print(f"karenina: {error or 'not enough memory'}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("karenina: interrupted", file=sys.stderr)
        sys.exit(130)
