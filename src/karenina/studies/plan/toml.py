"""A study file as its author sees it: mistakes are reported with the line they are on."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_STEP = re.compile(r"""[\w"'-]\s*\.\s*(?=[\w"'-])""")
_DEEP = 100
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True)
class Source:
    """Where values came from: a name for messages, and the text if there is one."""

    name: str
    text: str = ""

    def parse(self) -> dict[str, Any]:
        # Of a key with thousands of parts, tomllib keeps every beginning: gigabytes for some kilobytes.
        if any(len(_STEP.findall(piece)) > _DEEP for piece in re.split(r"[,=\[\]{}\n]", self.text)):
            raise ValueError(f"{self.name} is not a study: its keys are nested too deeply")
        try:
            return tomllib.loads(self.text)
        except RecursionError:
            raise ValueError(f"{self.name} is not a study: its values are nested too deeply") from None
        except ValueError as error:  # also numbers of thousands of digits
            raise ValueError(f"{self.name} is not TOML: {error}") from None

    def line(self, *keys: str) -> int | None:
        """The line of the value at `keys`, or of the nearest table around it; None if neither can be found."""
        table: list[str] = []
        best, depth = None, 0
        for number, line in enumerate(self.text.splitlines(), start=1):
            header, key = _HEADER.match(line), _KEY.match(line)
            if header:
                table = [part.strip("\"'") for part in _PART.findall(header[1])]
            elif not key:
                continue
            found = table + [part.strip("\"'") for part in _PART.findall(key[1])] if key and not header else table
            if len(found) > depth and list(keys[: len(found)]) == found:
                best, depth = number, len(found)
        return best

    def fail(self, message: str, *keys: str) -> NoReturn:
        line = self.line(*keys)
        raise ValueError(f"{self.name}{f', line {line}' if line else ''}: {message}")


def dump(values: Mapping[str, Any]) -> str:
    """TOML of plain values, lists of them and tables; None is left out."""
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if _plain(value)]
    tables = [(name, value) for name, value in values.items() if isinstance(value, Mapping)]
    while tables:
        name, table = tables.pop(0)
        nested = [(f"{name}.{key}", value) for key, value in table.items() if isinstance(value, Mapping)]
        plain = [f"{key} = {_value(value)}" for key, value in table.items() if _plain(value)]
        if plain or not nested:
            lines += ["", f"[{name}]", *plain]
        tables = nested + tables
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans are written alike in both
