"""A data set's name with its options in one word: "teapots:gap=exclude". It is what a run or a study remembers."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_WORDS = {"true": True, "false": False, "none": None}
_NAME = re.compile(r"(?P<name>.+):(?P<options>\w+=[^,:]*(,[^,:]*)*)")
_OPTION = re.compile(r"\w+=.*")


def split_name(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options: numbers, true, false and none are read as such, and %2C is a comma in a value.

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
    """The word that `split_name` takes apart. An option that is None was not asked for.

    >>> join_name("faces", {"size": (64, 48), "grey": True, "crop": None})
    'faces:grey=true,size=64x48'
    """
    words = [f"{key}={_text(value)}" for key, value in sorted(options.items()) if value is not None]
    return f"{name}:{','.join(words)}" if words else name


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if re.match(r"0\d|.*_", text):  # a file that is called 007 or 20_30
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
