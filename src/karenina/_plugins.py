"""What others add: entry points of karenina.methods, karenina.metrics and karenina.data, and "module:function"."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any


@cache
def found(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point of the plug-ins installed here. Nothing is imported until one is asked for by name."""
    return {point.name: point for point in entry_points(group=f"karenina.{group}")}


def load(group: str, name: str) -> Any:
    """The object behind a plug-in's name; a ValueError if its package breaks."""
    point = found(group)[name]
    with blamed(f"the plug-in {name} ({point.value}) cannot be loaded"):
        return point.load()


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Make whatever other people's code raises a ValueError that begins with `what`; also where it calls sys.exit,
    which would end the program with nothing said. Ctrl-C stays what it is."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = str(error) if isinstance(error, ImportError | ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{what}: {said}") from error


def named(reference: str, *, also: tuple[type, ...] = ()) -> Any:
    """The function, or object of the types in `also`, of "module:function"; modules of the working directory count."""
    module, _, name = reference.partition(":")
    if not module or not name:
        raise ValueError(f"expected module:function, got {reference!r}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = attrgetter(name)(import_module(module))
    except ImportError as error:
        raise ValueError(f"cannot import {module!r}: {error}") from None
    except AttributeError:
        raise ValueError(f"{module!r} has no {name!r}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it does when it is imported, also where it calls sys.exit
        raise ValueError(f"importing {module!r} raised {type(error).__name__}: {error}") from None
    if not callable(function) and not isinstance(function, also):
        raise ValueError(f"{reference} is a {type(function).__name__}, not a function")
    return function


def need(module: str, extra: str, package: str | None = None) -> Any:
    """A module of an optional dependency; a ValueError that names the extra to install where it is missing."""
    try:
        return import_module(module)
    except ImportError:
        name = package or module.partition(".")[0]
        raise ValueError(f"{name} is not installed: pip install 'karenina[{extra}]' or {name}") from None
