"""What several modules of commands share."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import karenina
from karenina._console import plain_console, visible
from karenina._settings import SETTINGS
from karenina.cli._help import completing

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder with the official files and your own data.",
        envvar="KARENINA_DATA",
        show_default=False,
    ),
]
DATA_HELP = (
    "A data set's name, or a folder, .npz or .h5 of your own; options follow a colon: teapots:gap=exclude, "
    "photos:size=64,grey=true. Names: {data}."
)
DataName = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, autocompletion=completing("data"))]
OwnData = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DATA", help="Data that the runs were trained on, if it is your own: photos:size=64."
    ),
]
Size = Annotated[
    str | None, typer.Option("--size", metavar="PIXELS", help="Resize images to 64 or 64x48 (height x width).")
]
Grey = Annotated[bool, typer.Option("--grey", help="Convert images to one channel.")]
FactorsCsv = Annotated[
    Path | None,
    typer.Option("--factors-csv", metavar="FILE", help="CSV of labels: file names first, then one column per factor."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a folder with an image that cannot be read.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
Precision = Annotated[str | None, typer.Option(metavar="NAME", help=SETTINGS["precision"].about)]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="auto, cpu, cuda or mps.",
        envvar="KARENINA_DEVICE",
        show_default=False,
        autocompletion=lambda incomplete: [d for d in ("auto", "cpu", "cuda", "mps") if d.startswith(incomplete)],
    ),
]


def with_options(
    data: str | None, size: str | None, grey: bool, factors_csv: Path | None, strict: bool = False
) -> str | None:
    """Return the data set in one word, with what --size, --grey, --factors-csv and --strict say of it.

    >>> with_options("photos", "64", True, None), with_options("photos:crop=178", "64x48", False, None)
    ('photos:grey=true,size=64', 'photos:crop=178,size=64x48')
    """

    given = {"size": size, "grey": True if grey else None, "factors_csv": factors_csv, "strict": strict or None}
    if all(value is None for value in given.values()):
        return data
    if data is None:
        option = next(name for name, value in given.items() if value is not None).replace("_", "-")
        raise ValueError(f"--{option} is about data of your own: give it by --data, too")
    name, options = (data, {}) if Path(data).exists() else karenina.data.split_name(data)
    return karenina.data.join_name(name, options | {key: value for key, value in given.items() if value is not None})


def with_setting_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has an option for each setting of training; the function gets those given as `settings`."""
    metavars = {int: "N", float: "X", str: "NAME"}
    added = []
    for name, one in SETTINGS.items():
        text = one.about if one.kind is bool else f"{one.about} [default: {one.default}]"
        option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavars.get(one.kind), help=text)
        kind = Annotated[one.kind | None, option]
        added.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))

    @functools.wraps(function)
    def command(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in SETTINGS}
        function(**given, settings={name: value for name, value in chosen.items() if value is not None})

    known = inspect.signature(function)
    own = [one for name, one in known.parameters.items() if name != "settings"]
    place = [one.name for one in own].index("device")
    command.__signature__ = known.replace(  # type: ignore[attr-defined]
        parameters=[one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own[:place], *added, *own[place:])]
    )
    return command


def use_device(name: str | None) -> None:
    """Let whatever this command starts, also in processes of its own, use the device."""
    if name is not None:
        karenina.training.run.pick_device(name)  # a wrong word is said before the work
        os.environ["KARENINA_DEVICE"] = name


def console() -> Any:
    """A console that does not cut tables at 80 columns when the output is a file or a pipe."""
    return plain_console() if sys.stdout.isatty() else plain_console(width=160)


def bar(*more: str) -> Any:
    """A bar with its words left, the time left right, as wide as the terminal; on standard error, if that is one.

    more: fields of the task that are shown between.
    """
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Words(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(visible(self.text_format.format(task=task)))

    columns = [Words("{task.description}"), BarColumn(bar_width=None)]
    columns += [Words(f"{{task.fields[{name}]}}") for name in more]
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=plain_console(file=sys.stderr),
        disable=not sys.stderr.isatty(),
        expand=True,
    )


def own_data(data: str | None, *paths: str | os.PathLike[str]) -> tuple[str, ...]:
    """The option --data for a command on runs of data that are nobody's but the user's."""

    if data is None or data in karenina.data.REGISTRY or karenina.data.split_name(data)[0] in karenina.data.names():
        return ()
    return ("--data", data)
