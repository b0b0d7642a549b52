"""The command line. Heavy imports happen inside commands, so that `karenina --help` answers at once."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

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

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with the official files.", envvar="KARENINA_DATA", show_default=False),
]


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
    from rich.console import Console
    from rich.table import Table

    from karenina.data import catalogue

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "factors", "images", "source"):
        table.add_column(heading, overflow="fold")
    for entry in catalogue(data_dir):
        table.add_row(entry.name, entry.factors, entry.images, entry.source)
    _console(Console).print(table)


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A data set's name, or a folder, .npz or .h5 of your own.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the picture; default NAME.png.")] = None,
    columns: Annotated[int, typer.Option(min=2, max=40, help="Pictures a row.")] = 10,
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
        TextColumn("{task.description}"),
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
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demo makes.")] = Path("demo"),
) -> None:
    """The main job in small: draw the data sets."""
    from karenina.data import load
    from karenina.data.sheet import draw_sheet

    for name in ("blobs", "dsprites", "color_dsprites", "noisy_dsprites", "shapes3d", "teapots"):
        data = load(name)
        draw_sheet(data, out / f"{name}.png")
        print(f"{repr(data)[1:-1]} -> {out / f'{name}.png'}", flush=True)


def _console(console: Callable[..., Any]) -> Any:
    """A console that does not cut tables at 80 columns when the output is a file or a pipe."""
    return console() if sys.stdout.isatty() else console(width=160)


def main() -> None:
    """Run the command line. The user's own mistakes are one line and exit code 2, never a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        if os.environ.get("KARENINA_DEBUG"):
            raise
        print(f"karenina: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("karenina: interrupted", file=sys.stderr)
        sys.exit(130)
