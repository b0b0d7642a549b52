"""The papers' tables and figures by their own names, with the values that the papers print beside ours.

`items.toml` lists them with who makes each, `values.toml` has the printed values with their source.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from karenina._files import atomic, sweep, write_text
from karenina.studies.papers.lists import Item, items, of_paper, printed

if TYPE_CHECKING:
    from karenina.studies.papers.outputs import PaperTable
    from karenina.studies.papers.study import Study

__all__ = ["Made", "items", "paper_of", "printed", "write"]


@dataclass(frozen=True)
class Made:
    """What became of an item: the files that were written, or why there are none. notes: what it is made without."""

    item: Item
    files: tuple[Path, ...] = ()
    missing: str = ""
    notes: tuple[str, ...] = ()


def paper_of(name: str) -> str | None:
    """The paper whose preset made a study of this name.

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
        duan2020, holtz2022, locatello2019, carbonneau2022 or eastwood2018.
    figures : bool

    Yields
    ------
    Made
        For each item: analysis/PAPER/table_7.csv and .md, figure_22.png and .pdf; or what is missing, and how to get
        it.
    """
    from karenina.studies.papers.study import Study

    wanted = of_paper(paper)
    study = Study.open(Path(path))
    if study.frame.empty:
        raise ValueError(f"{path} has no finished run yet")
    out = Path(path) / "analysis" / paper
    sweep(out)
    for item in wanted.values():
        if figures or not item.name.startswith("figure"):
            yield make(item, study, out)


def make(item: Item, study: "Study", out: Path) -> Made:
    """Write the files of one item."""
    from karenina.studies.papers.outputs import PaperTable
    from karenina.studies.results.table import NotEnough

    study.notes.clear()
    try:
        found = item.function()(study)
    except NotEnough as error:
        remedy = "" if "`" in str(error) else ": ask for it in study.toml, then `karenina study run`"
        return Made(item, missing=f"{error}{remedy}")
    notes = tuple(study.notes)
    if isinstance(found, PaperTable):
        return Made(item, _write_table(item, found, out, notes), notes=notes)
    paths = out / f"{item.name}.png", out / f"{item.name}.pdf"
    with atomic(paths[0]) as png, atomic(paths[1]) as pdf:
        found.savefig(png, pdf)
    return Made(item, paths, notes=notes)


def _write_table(item: Item, table: "PaperTable", out: Path, notes: tuple[str, ...]) -> tuple[Path, ...]:
    from dataclasses import replace

    from karenina.studies.papers.outputs import compared, markdown

    said = " ".join(f"{note[0].upper()}{note[1:]}." for note in notes)
    table = replace(table, note=" ".join(filter(None, [table.note, said])))
    with atomic(out / f"{item.name}.csv") as part:
        compared(table.frame, printed(item.paper, item.name)).to_csv(part, index=False)
    write_text(out / f"{item.name}.md", markdown(item, table))
    return out / f"{item.name}.csv", out / f"{item.name}.md"
