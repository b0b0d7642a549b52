"""The parts of several commands: options, lists in help pages, complaints, and bars."""

import ast
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import karenina
from karenina import _plugins
from karenina._console import plain_console, say, visible
from karenina._process import exit_code
from karenina._settings import SETTINGS
from karenina._words import meant

# Lists in help texts, and for completion: the word in braces -> module, the dict literal there, group of plug-ins.
REGISTRIES = {
    "methods": ("training/methods.py", "METHODS", "methods"),
    "metrics": ("metrics/registry.py", "METRICS", "metrics"),
    "data": ("data/__init__.py", "REGISTRY", "data"),
}


def registered(what: str) -> list[str]:
    """Return the names in one of REGISTRIES, read from its source, as importing it takes seconds.

    >>> registered("methods")[:2]
    ['vae', 'beta_vae']
    """
    if what == "presets":
        return [*karenina.studies.plan.presets(), *_plugins.found("studies")]
    file, variable, group = REGISTRIES[what]
    tree = ast.parse((Path(__file__).parents[1] / file).read_text(encoding="utf-8"))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if any(isinstance(t, ast.Name) and t.id == variable for t in targets) and isinstance(value, ast.Dict):
            names = [str(key.value) for key in value.keys if isinstance(key, ast.Constant)]
            return [*names, *_plugins.found(group)]
    return []


def completing(what: str) -> Any:
    """Return a function that completes names of a registry; in a list with commas, the last of them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in registered(what) if name.startswith(last)]

    return complete


class Command(TyperCommand):
    """A command whose help has the names in its registries, and which says that it was stopped."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for one in self.params:
            text = getattr(one, "help", None) or ""
            for what in (*REGISTRIES, "presets"):
                if f"{{{what}}}" in text:
                    text = text.replace(f"{{{what}}}", ", ".join(registered(what)))
            setattr(one, "help", text)  # noqa: B010 - only the parameters of typer have it
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # typer would end without a message
            words = str(stop).replace("the same call", "the same command") or "stopped"
            say(f"karenina: {words}", file=sys.stderr)
            raise typer.Exit(exit_code(stop)) from None


class App(typer.Typer):
    """Typer with such commands, and with plain help pages: 80 columns, every name in full."""

    def __init__(self, **options: Any):
        super().__init__(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, **{"cls": Command, **options})


def complain(error: Any) -> int:
    """Print what is wrong with the words of a command, in one line; return the exit code."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "karenina"
    message = error.format_message().strip().rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":  # the help was shown
        return 2
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and ctx is not None:
        known = [name for one in ctx.command.get_params(ctx) for name in [*one.opts, *one.secondary_opts]]
        near = meant(option, [name for name in known if name.startswith("--")])
        message = f"no option {option}" + (f"; did you mean {near}?" if near else "")
    else:
        message = message[:1].lower() + message[1:]
    say(f"karenina: {message}{'' if message.endswith('?') else ';'} see {path} --help", file=sys.stderr)
    return 2


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


def setting_option(name: str, default: object = None) -> Any:
    """Return the option of a setting of training, as the table of settings describes it.

    default: what the help says of a command that is not given it; by default that of the table.
    """
    one = SETTINGS[name]
    text = one.about if one.kind is bool else f"{one.about} [default: {default or one.default}]"
    metavar = {int: "N", float: "X", str: "NAME"}.get(one.kind)
    return typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=text, show_default=False)


def with_added(
    options: Mapping[str, tuple[Any, Any]],
    gather: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    before: str | None = None,
    made: str | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command further options, which are written once for many commands.

    options: name -> annotation and default. gather: turns all that the command was given into the arguments of its
    function. before: the parameter of the function above which the help has them; by default they are the last. made: a
    parameter of the function that `gather` makes, and that is no option itself.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        known = inspect.signature(function)
        ours = [one for one in known.parameters.values() if one.name not in (*options, made)]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
        place = len(ours) if before is None else [one.name for one in ours].index(before)
        parameters = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*ours[:place], *added, *ours[place:])
        ]

        @functools.wraps(function)
        def command(**given: Any) -> None:
            function(**gather(given))

        command.__signature__ = known.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


def _gather_settings(given: dict[str, Any]) -> dict[str, Any]:
    chosen = {name: given.pop(name) for name in SETTINGS}
    return {**given, "settings": {name: value for name, value in chosen.items() if value is not None}}


def _gather_data(given: dict[str, Any]) -> dict[str, Any]:
    use_device(given.pop("device"))
    options = {name: given.pop(name) for name in ("size", "grey", "factors_csv")}
    return {**given, "data": in_one_word(given["data"], **options)}


# For a command that trains: an option for each setting of training; its function gets those given as `settings`.
with_setting_options = with_added(
    {name: (Annotated[one.kind | None, setting_option(name)], None) for name, one in SETTINGS.items()},
    _gather_settings,
    before="device",
    made="settings",
)
# For a command on trained runs: their data set in one word, as `data`, the folder of official files, and the device.
with_data_options = with_added(
    {
        "data": (OwnData, None),
        "size": (Size, None),
        "grey": (Grey, False),
        "factors_csv": (FactorsCsv, None),
        "device": (Device, None),
        "data_dir": (DataDir, None),
    },
    _gather_data,
)


def in_one_word(
    data: str | None, size: str | None, grey: bool, factors_csv: Path | None, strict: bool = False
) -> str | None:
    """Return the data set in one word, with what --size, --grey, --factors-csv and --strict say of it.

    >>> in_one_word("photos", "64", True, None), in_one_word("photos:crop=178", "64x48", False, None)
    ('photos:grey=true,size=64', 'photos:crop=178,size=64x48')
    """
    given = {"size": size, "grey": True if grey else None, "factors_csv": factors_csv, "strict": strict or None}
    chosen = {name: value for name, value in given.items() if value is not None}
    if not chosen:
        return data
    if data is None:
        raise ValueError(f"--{next(iter(chosen)).replace('_', '-')} is about data of your own: give it by --data, too")
    name, options = (data, {}) if Path(data).exists() else karenina.data.split_name(data)
    return karenina.data.join_name(name, options | chosen)


def own_data(data: str | None) -> tuple[str, ...]:
    """Return the option --data, the path of the user's own data, for a command on runs of such data."""
    if data is None or data in karenina.data.REGISTRY:
        return ()
    return () if karenina.data.split_name(data)[0] in karenina.data.names() else ("--data", data)


def use_device(name: str | None) -> None:
    """Make all that this command starts, also in processes of its own, use the device."""
    if name is not None:
        karenina.training.run.pick_device(name)  # a wrong word is said before the work
        os.environ["KARENINA_DEVICE"] = name


def console() -> Any:
    """Return a console that does not cut tables at 80 columns when the output is a file or a pipe."""
    return plain_console() if sys.stdout.isatty() else plain_console(width=160)


def table(*headings: str, **options: Any) -> Any:
    """Return a table without lines; what it holds is added to it."""
    from rich.table import Table

    return Table(*headings, box=None, pad_edge=False, header_style="bold", **options)


def bar(*fields: str) -> Any:
    """Return a progress bar as wide as the terminal, with its words on the left and the time left on the right; it is
    drawn on standard error if that is a terminal.

    fields: of the task, shown between.
    """
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Words(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(visible(self.text_format.format(task=task)))

    columns = [Words("{task.description}"), BarColumn(bar_width=None)]
    columns += [Words(f"{{task.fields[{name}]}}") for name in fields]
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=plain_console(file=sys.stderr),
        disable=not sys.stderr.isatty(),
        expand=True,
    )
