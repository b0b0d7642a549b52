"""What several modules of commands share."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from karenina._console import plain_console

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with the official files.", envvar="KARENINA_DATA", show_default=False),
]
DATA_HELP = "A data set's name, or a folder, .npz or .h5 of your own; options follow a colon: teapots:gap=exclude."
OwnData = Annotated[Path | None, typer.Option("--data", help="What the runs were trained on, if it is your own.")]


def console() -> Any:
    """A console that does not cut tables at 80 columns when the output is a file or a pipe."""
    return plain_console() if sys.stdout.isatty() else plain_console(width=160)
