"""What other packages add by name: entry points of the groups karenina.methods, karenina.metrics and karenina.data."""

from functools import cache
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
