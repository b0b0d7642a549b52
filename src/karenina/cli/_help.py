"""Help pages and complaints of the command line, in our own layout: every name in full, no types, 80 columns."""

import ast
import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

import karenina
from karenina import _plugins
from karenina._console import plain_console, say
from karenina._process import exit_code
from karenina._words import meant

WIDEST = 100
# Lists in help texts, and for completion: the word in braces -> module, the dict literal there, group of plug-ins.
REGISTRIES = {
    "methods": ("training/methods.py", "METHODS", "methods"),
    "metrics": ("metrics/registry.py", "METRICS", "metrics"),
    "data": ("data/__init__.py", "REGISTRY", "data"),
}


def registered(what: str) -> list[str]:
    """The names in one of REGISTRIES, read from its source: importing it may take seconds.

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
    """A function that completes names of a registry, the last of them where commas are between."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in registered(what) if name.startswith(last)]

    return complete


class Command(TyperCommand):
    """A command whose help is a page of ours, and which says that it was stopped."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _page(self, ctx)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # which typer would end without a word
            words = str(stop).replace("the same call", "the same command") or "stopped"
            say(f"karenina: {words}", file=sys.stderr)
            raise typer.Exit(exit_code(stop)) from None


class Group(TyperGroup):
    """A group of commands whose help is a page of ours."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _page(self, ctx)


class App(typer.Typer):
    """Typer, with commands and groups of ours."""

    def __init__(self, **options: Any):
        super().__init__(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False, **options)

    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, **{"cls": Command, **options})


def _page(command: Any, ctx: Any) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    screen = plain_console()
    screen.width = min(screen.width, WIDEST)
    arguments = [one for one in command.get_params(ctx) if one.param_type_name == "argument"]
    options = [one for one in command.get_params(ctx) if one.param_type_name != "argument" and not one.hidden]
    words = [ctx.command_path, *map(_argument, arguments)]
    words += [f"{one.opts[0]} {_value(one)}" for one in options if one.required]
    words += ["COMMAND" if hasattr(command, "commands") else "", "[OPTIONS]"]
    screen.print(Text(f"Usage: {' '.join(filter(None, words))}"), highlight=False)
    for paragraph in (command.help or "").split("\n\n"):
        screen.print(Padding(Text(" ".join(paragraph.split())), (1, 0, 0, 0)), highlight=False)
    commands = [(name, one.get_short_help_str(500)) for name, one in getattr(command, "commands", {}).items()]
    for title, lines in (
        ("Commands", commands),
        ("Arguments", [(_argument(one), _about(one, ctx)) for one in arguments]),
        ("Options", [(_option(one), _about(one, ctx)) for one in options]),
    ):
        if not lines:
            continue
        table = Table.grid(padding=(0, 2), pad_edge=False)
        table.add_column(no_wrap=True, style="bold cyan")
        table.add_column(overflow="fold")
        for name, about in lines:
            table.add_row(Text(f"  {name}"), Text(about))
        screen.print(Padding(Text(title, style="bold"), (1, 0, 0, 0)))
        screen.print(table, highlight=False)


def _argument(one: Any) -> str:
    name = (one.metavar or one.name).upper()
    name = f"{name}..." if one.nargs == -1 else name
    return name if one.required else f"[{name}]"


def _option(one: Any) -> str:
    names = ", ".join(sorted(one.opts, key=len))
    if one.secondary_opts:
        return f"{names} / {one.secondary_opts[0]}"
    return names if one.is_flag else f"{names} {_value(one)}"


def _value(one: Any) -> str:
    counted = one.name in ("workers", "seeds") or isinstance(one.default, int)
    return one.metavar or ("N" if counted else "X" if isinstance(one.default, float) else one.name.upper())


def _about(one: Any, ctx: Any) -> str:
    """The help of a parameter, with the lists that it names, its default and its environment variable."""
    text = one.help or ""
    for what in (*REGISTRIES, "presets"):
        if f"{{{what}}}" in text:
            text = text.replace(f"{{{what}}}", ", ".join(registered(what)))
    default = one.get_default(ctx, call=False)
    notes = [] if not one.required or one.param_type_name == "argument" else ["required"]
    if one.show_default and not isinstance(default, bool | None) and default != () and not callable(default):
        notes.append(f"default: {default}")
    if default is True and one.secondary_opts:
        notes.append(f"default: {one.opts[0]}")
    if getattr(one, "envvar", None) and one.name != "help":
        notes.append(f"or set {one.envvar}")
    return f"{text} [{'; '.join(notes)}]" if notes else text


def complain(error: Any) -> int:
    """Print what was wrong with the words of a command, in one line; the exit code."""
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
