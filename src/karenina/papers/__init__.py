"""The papers, a room for each: what it ran, what it printed, its tables and figures, and what only it has.

A room is a package with a docstring that maps the paper to functions, `preset.toml` (what it ran, at three scales) and
`printed.toml` (what it shows, who makes that, and the printed values). Rooms are found by entry points of the group
"karenina.papers", ours as those of other packages. Nothing outside this folder and the command line imports them.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina import _plugins
from karenina._files import atomic, sweep, write_text
from karenina._plugins import lazy_modules
from karenina._words import hint

if TYPE_CHECKING:
    import pandas as pd

    from karenina.studies.study import Study

__all__ = ["Item", "Made", "Printed", "items", "make", "of_paper", "paper_of", "printed", "write"]

# What a printed row has beside its keys.
VALUES = ("value", "std")


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper. producer: "module:function" in the package `room`."""

    paper: str
    name: str
    title: str
    room: str
    producer: str

    def function(self) -> "Callable[[Study], Any]":
        """Return what makes it from a study: a PaperTable or a Figure."""
        module, name = self.producer.split(":")
        found: Callable[[Study], Any] = getattr(import_module(f"{self.room}.{module}"), name)
        return found


@dataclass(frozen=True, eq=False)
class Printed:
    """What a paper prints: its rows (keys, value and perhaps std), where, and what is doubtful about it."""

    source: str
    note: str
    frame: "pd.DataFrame"

    @property
    def keys(self) -> list[str]:
        return [name for name in self.frame.columns if name not in VALUES]


@dataclass(frozen=True)
class Made:
    """What became of an item: the files that were written, or why there are none. notes: what it is made without."""

    item: Item
    files: tuple[Path, ...] = ()
    missing: str = ""
    notes: tuple[str, ...] = ()


@cache
def _shown() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return paper -> its room and what printed.toml says of it."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for point in _plugins.found("papers").values():
        text = files(point.value).joinpath("printed.toml").read_text(encoding="utf-8")
        found |= {paper: (point.value, entries) for paper, entries in tomllib.loads(text).items()}
    return found


@cache
def items() -> dict[str, dict[str, Item]]:
    """Return paper -> name -> item, in the paper's order.

    >>> items()["duan2020"]["table_7"].producer
    'tables:table_7'
    """
    return {
        paper: {name: Item(paper, name, one["title"], room, one["made_by"]) for name, one in entries.items()}
        for paper, (room, entries) in _shown().items()
    }


def of_paper(paper: str) -> dict[str, Item]:
    """Return the items of a paper; ValueError for one that is not known."""
    if paper not in items():
        raise ValueError(f"no paper {paper!r}; {hint(paper, items())}")
    return items()[paper]


@cache
def printed(paper: str, name: str) -> Printed | None:
    """Return the values that the paper prints in a table or with a figure; None where it prints none.

    >>> printed("duan2020", "table_7").frame["value"].tolist()
    [0.54, 0.53, 0.6, 0.59, 0.67]
    """
    import pandas as pd

    found = _shown()[paper][1].get(name, {}) if paper in _shown() else {}
    if "rows" not in found:
        return None
    return Printed(found["source"], found.get("note", ""), pd.DataFrame(found["rows"], columns=found["columns"]))


def paper_of(name: str) -> str | None:
    """Return the paper whose preset made a study of this name.

    >>> paper_of("duan2020 at smoke scale"), paper_of("my study")
    ('duan2020', None)
    """
    found = re.match(r"(\w+) at \w+ scale$", name)
    paper = (found[1] if found else name).removesuffix("_photos")
    return paper if paper in items() else None


def write(path: str | os.PathLike[str], paper: str, *, figures: bool = True) -> Iterator[Made]:
    """Make every table and figure of a paper that a study has enough for, one after the other.

    Parameters
    ----------
    path : path
        The study's directory.
    paper : str
        duan2020, holtz2022, locatello2019, carbonneau2022, eastwood2018, or another of `items`.
    figures : bool

    Yields
    ------
    Made
        For each item: analysis/PAPER/table_7.csv and .md, figure_22.png and .pdf; or what is missing, and how to get
        it.
    """
    from karenina.studies.study import Study

    wanted = of_paper(paper)
    study = Study(path)
    if study.frame.empty:
        raise ValueError(f"{path} has no finished run yet")
    out = Path(path) / "analysis" / paper
    sweep(out)
    for item in wanted.values():
        if figures or not item.name.startswith("figure"):
            yield make(item, study, out)


def make(item: Item, study: "Study", out: Path) -> Made:
    """Write the files of one item."""
    from karenina.papers.tables import PaperTable, compared, markdown
    from karenina.studies.study import NotEnough

    study.notes.clear()
    try:
        found = item.function()(study)
    except NotEnough as error:
        remedy = "" if "`" in str(error) else ": ask for it in study.toml, then `karenina study run`"
        return Made(item, missing=f"{error}{remedy}")
    notes = tuple(study.notes)
    if isinstance(found, PaperTable):
        said = " ".join(f"{note[0].upper()}{note[1:]}." for note in notes)
        table = replace(found, note=" ".join(filter(None, [found.note, said])))
        paths = out / f"{item.name}.csv", out / f"{item.name}.md"
        with atomic(paths[0]) as part:
            compared(table.frame, printed(item.paper, item.name)).to_csv(part, index=False)
        write_text(paths[1], markdown(item, table))
    else:
        paths = out / f"{item.name}.png", out / f"{item.name}.pdf"
        with atomic(paths[0]) as png, atomic(paths[1]) as pdf:
            found.savefig(png, pdf)
    return Made(item, paths, notes=notes)


__getattr__ = lazy_modules(__name__)
