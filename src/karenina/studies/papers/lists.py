"""The lists that come with the package: what each paper shows, who makes it, and the values that it prints."""

import importlib
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from karenina._words import hint

# What a printed row has beside its keys.
VALUES = ("value", "std")


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper. producer: "module:function" in karenina.studies.papers."""

    paper: str
    name: str
    title: str
    producer: str

    def function(self) -> Callable[[Any], Any]:
        module, name = self.producer.split(":")
        found: Callable[[Any], Any] = getattr(importlib.import_module(f"karenina.studies.papers.{module}"), name)
        return found


@dataclass(frozen=True, eq=False)
class Printed:
    """What a paper prints: its rows (keys, value and perhaps std), where, and what is doubtful about it."""

    source: str
    note: str
    frame: pd.DataFrame

    @property
    def keys(self) -> list[str]:
        return [name for name in self.frame.columns if name not in VALUES]


@cache
def items() -> dict[str, dict[str, Item]]:
    """Paper -> name -> item, in the paper's order.

    >>> items()["duan2020"]["table_7"].producer
    'duan2020:table_7'
    """
    return {
        paper: {name: Item(paper, name, title, producer) for name, (title, producer) in found.items()}
        for paper, found in _read("items.toml").items()
    }


def of_paper(paper: str) -> dict[str, Item]:
    """The items of a paper; ValueError for one that is not known."""
    if paper not in items():
        raise ValueError(f"no paper {paper!r}; {hint(paper, items())}")
    return items()[paper]


@cache
def printed(paper: str, name: str) -> Printed | None:
    """The values that the paper prints in a table or with a figure; None where it prints none.

    >>> printed("duan2020", "table_7").frame["value"].tolist()
    [0.54, 0.53, 0.6, 0.59, 0.67]
    """
    found = _read("values.toml").get(paper, {}).get(name)
    if found is None:
        return None
    frame = pd.DataFrame(found["rows"], columns=found["columns"])
    return Printed(found["source"], found.get("note", ""), frame)


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("karenina.studies.papers").joinpath(name).read_text(encoding="utf-8"))
