"""Data sets: a name or the user's files -> images for factor rows.

>>> from karenina.data import load
>>> load("blobs")
<blobs: 1x16x16 images; background 8, x 8, y 8, radius 6; rendered>

A package registers a data set under a name of its choice by an entry point of the group "karenina.data": a function
(data_dir, **options) -> DataSet, like those of REGISTRY. `karenina data list`, training and studies then know it.
"""

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from karenina import _plugins
from karenina._plugins import lazy_modules
from karenina._words import hint
from karenina.data.dataset import DataSet, FactorBox, FactorGrid, TableDataSet
from karenina.data.sampling import biased

# Every data set has these options, by which its factors are drawn: see karenina.data.sampling.
OPTIONS = ("correlate", "sigma", "only", "held_out")

__all__ = ["DataSet", "Entry", "FactorBox", "FactorGrid", "TableDataSet", "catalogue", "load", "load_again", "names"]


def _module(name: str) -> Any:
    """Return a module of this package, which may need what an extra installs (h5py, pillow)."""
    return _plugins.need(f"karenina.data.{name}")


def _dsprites(data_dir: Path | None) -> DataSet:
    return (data_dir and _module("official").dsprites_file(data_dir)) or _module("dsprites").dsprites()


def _shapes3d(data_dir: Path | None) -> DataSet:
    return (data_dir and _module("official").shapes3d_file(data_dir)) or _module("shapes3d").shapes3d()


def _scream_dsprites(data_dir: Path | None, painting: str | os.PathLike[str] | None = None) -> DataSet:
    canvas = _module("dsprites").load_painting(data_dir, Path(str(painting)) if painting else None)
    return _module("dsprites").scream_dsprites(_dsprites(data_dir), canvas)


# Each is called with data_dir, a folder with official files or None, and with **options, and returns the data set.
REGISTRY: dict[str, Callable[..., DataSet]] = {
    "blobs": lambda data_dir: _module("blobs").blobs(),
    "dsprites": _dsprites,
    "color_dsprites": lambda data_dir: _module("dsprites").color_dsprites(_dsprites(data_dir)),
    "noisy_dsprites": lambda data_dir: _module("dsprites").noisy_dsprites(_dsprites(data_dir)),
    "scream_dsprites": _scream_dsprites,
    "shapes3d": _shapes3d,
    "smallnorb": lambda data_dir: _module("official").smallnorb_file(data_dir),
    "cars3d": lambda data_dir: _module("official").cars3d_file(data_dir),
    "mpi3d_toy": lambda data_dir: _module("official").mpi3d_file(data_dir, "toy"),
    "mpi3d_realistic": lambda data_dir: _module("official").mpi3d_file(data_dir, "realistic"),
    "mpi3d_real": lambda data_dir: _module("official").mpi3d_file(data_dir, "real"),
}


def names() -> tuple[str, ...]:
    """Return all data sets known by name: ours, then those of plug-ins."""
    return tuple(REGISTRY | _plugins.found("data"))


def load(name: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] | None = None, **options: Any) -> DataSet:
    """Return a data set by its name, or from a folder of images, an .npz or an .h5 of your own.

    Parameters
    ----------
    name : one of `karenina data list`, or a path
        Options may follow a colon, as in "teapots:gap=exclude" or "faces:size=64,grey=true".
    data_dir : the folder with official files, by default the environment variable KARENINA_DATA
        An official file wins over our renderer, and `.source` says which it is. A folder of images in there is
        known by its own name.
    **options : options of the data set, which become part of its `.name`
        For every set: side=16 or size=16 (smaller images), correlate="x+y" with sigma=0.2, only="x=0..3",
        held_out="x=4..7+y=4..7" (how factors are drawn, see karenina.data.sampling). gap="exclude" (teapots),
        painting=PATH (scream_dsprites), or for a path size=64, grey=True, factors_csv=PATH, pairs_csv=PATH, frames=True
        (see karenina.data.user_images).

    Examples
    --------
    >>> data = load("blobs")
    >>> data.factor_names, data.factor_sizes, data.image_shape, len(data), data.source
    (('background', 'x', 'y', 'radius'), (8, 8, 8, 6), (1, 16, 16), 3072, 'rendered')
    """
    text = str(name)
    if text not in REGISTRY and text not in names() and not Path(text).exists():
        text, given = split_name(text)
        options = {**given, **options}
    options = dict(options)
    bias = {name: options.pop(name) for name in OPTIONS if name in options}
    if text in REGISTRY or text in names():
        where = _official_files(data_dir)
        loader = REGISTRY[text] if text in REGISTRY else _plug_in(text)
        known = [*list(inspect.signature(loader).parameters)[1:], "side", *OPTIONS]
        if options.get("size") is not None and "size" not in known and "side" not in options:
            options["side"] = options.pop("size")  # Images of a user's own have this word for it.
        for option in options:
            if option not in known:
                raise ValueError(f"{text} has no option {option!r}; {hint(option, known)}")
        own = {name: value for name, value in options.items() if name != "side"}
        data = loader(where, **own)
        if options.get("side") is not None:
            data = _module("resized").with_side(data, options["side"])
        data.name = text
    elif found := own_path(text, data_dir):
        data = _module("user_images").open_path(found, **options)
    else:
        raise ValueError(f"no data set and no file {text!r}; {hint(text, names())}")
    plain = data.name
    if options:
        data.name = join_name(plain, options)
    if any(value is not None for value in bias.values()):
        data = biased(data, **bias)
        if isinstance(bias.get("correlate"), str):
            bias["correlate"] = bias["correlate"].replace(",", "+")  # Names have one spelling.
        data.name = join_name(plain, {**options, **bias})
    return data


def _official_files(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder with official files, or None where none is named."""
    where = data_dir if data_dir is not None else os.environ.get("KARENINA_DATA")
    if where and not Path(where).is_dir():
        raise ValueError(f"the data folder {str(where)!r} does not exist (data_dir= or KARENINA_DATA)")
    return Path(where) if where else None


def own_path(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return where data of your own is, a path or the name of a folder in the data folder; None if it is nowhere."""
    where = data_dir if data_dir is not None else os.environ.get("KARENINA_DATA")
    if Path(name).exists():
        return Path(name)
    return Path(where) / name if where and (Path(where) / name).is_dir() else None


def load_again(
    name: str, path: str | os.PathLike[str] | None = None, *, data_dir: str | os.PathLike[str] | None = None
) -> DataSet:
    """Return the data set that a run remembers as `name`, its options included.

    Parameters
    ----------
    name : the run's `config.data`
    path : where the data set is, if it is your own
        Options of the path, as in "faces:factors_csv=new.csv", win over the run's.
    data_dir : see `load`
    """
    base, options = split_name(name)
    where = base if path is None else str(path)
    if path is None and base not in names() and own_path(base, data_dir) is None:
        raise ValueError(f"the run was trained on data of your own ({name!r}): give it by --data PATH or data=")
    if not Path(where).exists():
        where, given = split_name(where)
        options |= given
    return load(where, data_dir=data_dir, **options)


def _plug_in(name: str) -> Callable[..., DataSet]:
    """Return the loader that a plug-in registers. Whatever goes wrong in it is a ValueError that names the plug-in."""
    loader = _plugins.load("data", name)
    if not callable(loader):
        raise ValueError(f"the plug-in {name} is of type {type(loader).__name__}, expected a function")

    @functools.wraps(loader)
    def checked(*arguments: Any, **options: Any) -> DataSet:
        with _plugins.blamed(f"the plug-in {name} failed"):
            data = loader(*arguments, **options)
        if not isinstance(data, DataSet):
            raise ValueError(f"the plug-in {name} gave an object of type {type(data).__name__}, expected a DataSet")
        return data

    return checked


_WORDS = {"true": True, "false": False, "none": None}
_NAME = re.compile(r"(?P<name>.+):(?P<options>\w+=[^,:]*(,[^,:]*)*)")
_OPTION = re.compile(r"\w+=.*")


def split_name(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a word; numbers, true, false and none are read as such, and %2C is a comma in
    a value.

    A part that is no option belongs to the value before it. The name may hold colons, values %3A in their place.

    >>> split_name("faces:crop=178,size=64x48,grey=true")
    ('faces', {'crop': 178, 'size': '64x48', 'grey': True})
    >>> split_name("dsprites:correlate=x,y,sigma=0.2")
    ('dsprites', {'correlate': 'x,y', 'sigma': 0.2})
    >>> split_name("2024:03:photos:size=64")
    ('2024:03:photos', {'size': 64})
    """
    found = _NAME.fullmatch(text)
    if found is None:
        return text, {}
    words: list[str] = []
    for word in found["options"].split(","):
        if _OPTION.fullmatch(word):
            words.append(word)
        else:
            words[-1] += f",{word}"
    pairs = (word.split("=", 1) for word in words)
    return found["name"], {key: _value(unquote(value)) for key, value in pairs}


def join_name(name: str, options: Mapping[str, Any]) -> str:
    """Return the word that `split_name` takes apart: a name with its options, without those that are None.

    >>> join_name("faces", {"size": (64, 48), "grey": True, "crop": None})
    'faces:grey=true,size=64x48'
    """
    words = [f"{key}={_text(value)}" for key, value in sorted(options.items()) if value is not None]
    return f"{name}:{','.join(words)}" if words else name


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if re.match(r"0\d|.*_", text):  # It may be a file that is called 007 or 20_30.
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "x".join(map(str, value))
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return text.replace("%", "%25").replace(",", "%2C").replace(":", "%3A")


@dataclass(frozen=True)
class Entry:
    """One line of `karenina data list`."""

    name: str
    factors: str
    images: str
    source: str


def catalogue(data_dir: str | os.PathLike[str] | None = None) -> list[Entry]:
    """List every data set with what it holds, or with what is missing to load it."""
    _official_files(data_dir)  # A missing folder is one error, and not one for each set.
    entries = []
    for name in names():
        try:
            data = load(name, data_dir=data_dir)
        except ValueError as error:
            entries.append(Entry(name, "", "", str(error).split(": ")[0]))  # Loading it gives the whole message.
            continue
        shape = "x".join(map(str, data.image_shape))
        endless = data.factors.continuous and not isinstance(data, TableDataSet)
        count = "any number" if endless else f"{len(data):,}"
        entries.append(Entry(name, data.factors_text, f"{count} of {shape}", data.source))
    return entries


__getattr__ = lazy_modules(__name__)
