"""What others add: entry points of karenina.methods, karenina.metrics and karenina.data, and "module:function"."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def found(group: str) -> "dict[str, EntryPoint]":
    """Return the entry points of the plug-ins installed here by name. Each is imported only when it is asked for."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"karenina.{group}")}


def load(group: str, name: str) -> Any:
    """Return the object behind a plug-in's name; a ValueError if its package breaks."""
    point = found(group)[name]
    with blamed(f"the plug-in {name} ({point.value}) cannot be loaded"):
        return point.load()


def lazy_package(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return __getattr__, __dir__ and __all__ of a package whose names are loaded on first use.

    The names are those that the stub file beside it imports: "from MODULE import NAME as NAME", a line for each.
    """
    lines = Path(file).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("from ")]
    homes = {name: module for _, module, _, name, *_ in words}

    def load_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        return need(f"{package}.{name}") if home == package else getattr(need(home), name)

    return load_name, lambda: sorted(homes), [name for name, home in homes.items() if home != package]


def lazy_modules(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return __getattr__ of a package whose modules are imported when they are first named: `karenina.pages.page`.

    homes: public name -> the module that it lives in.
    """
    known = dict(homes or {})

    def load_name(name: str) -> Any:
        if name in known:
            return getattr(need(f"{package}.{known[name]}"), name)
        try:
            return need(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load_name


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
    """Return the function, or object of a type in `also`, named "module:function"; the working directory counts."""
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


# The extra that installs a module which `pip install karenina` does not.
EXTRAS = dict.fromkeys(("torch", "safetensors", "matplotlib", "jinja2", "h5py", "PIL"), "train")
EXTRAS |= {"optuna": "search", "ray": "ray", "tensorboard": "track", "mlflow": "track", "wandb": "track"}
EXTRAS |= dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "export")


class MissingExtra(ModuleNotFoundError, ValueError):
    """A package that an extra installs is not there. It is an ImportError for Python, and one line for commands."""


@contextmanager
def extras() -> Iterator[None]:
    """Say which extra to install where an import inside the block fails because a package is missing."""
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        package = {"PIL": "pillow"}.get(name, name)
        raise MissingExtra(
            f"{package} is not installed: pip install 'karenina[{EXTRAS[name]}]' (in a clone '.[{EXTRAS[name]}]')",
            name=name,
        ) from None


def need(module: str) -> Any:
    """Return a module of an optional dependency; an error that names the extra to install where it is missing."""
    with extras():
        return import_module(module)
