"""`karenina data`: list, look at and download data sets."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from karenina.cli._common import DATA_HELP, DataDir, console

data_app = typer.Typer(help="List, look at and download data sets.", no_args_is_help=True)


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
    name: Annotated[str, typer.Argument(help=DATA_HELP)],
    out: Annotated[Path | None, typer.Option(help="Where to write the picture; default NAME.png.")] = None,
    columns: Annotated[int, typer.Option(min=2, max=40, help="Pictures per row.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of what is left to chance.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Draw one row per factor: that factor varied, the others fixed."""
    from karenina.data import load
    from karenina.data.naming import split_name
    from karenina.data.sheet import draw_sheet

    data = load(name, data_dir=data_dir)
    out = out or Path(f"{split_name(data.name)[0]}.png")
    draw_sheet(data, out, columns=columns, seed=seed)
    print(repr(data)[1:-1])
    print(f"wrote {out}")


@data_app.command("get")
def data_get(name: Annotated[str, typer.Argument(help="A data set's name.")], data_dir: DataDir = None) -> None:
    """Download the official files of a data set: checked, resumed after a cut, in place only when whole."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

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
