"""What other packages add by name: entry points of the groups karenina.methods, karenina.metrics and karenina.data."""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def found(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point of the plug-ins installed here. Nothing is imported until one is asked for by name."""
    return {point.name: point for point in entry_points(group=f"karenina.{group}")}


def load(group: str, name: str) -> Any:
    """The object behind a plug-in's name; a ValueError if its package breaks."""
    point = found(group)[name]
    try:
        return point.load()
    except Exception as error:  # whatever another package's import raises
        raise ValueError(f"the plug-in {name} ({point.value}) cannot be loaded: {error}") from error


def need(module: str, extra: str, package: str | None = None) -> Any:
    """A module of an optional dependency; a ValueError that names the extra to install where it is missing."""
    try:
        return import_module(module)
    except ImportError:
        name = package or module.partition(".")[0]
        raise ValueError(f"{name} is not installed: pip install 'karenina[{extra}]' or {name}") from None
