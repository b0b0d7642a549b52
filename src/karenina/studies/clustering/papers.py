"""What a clustering study shows of the papers: figure 11 of Duan et al. (2020), Table 4 of Holtz et al. (2022)."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from karenina.studies.papers import Made, items, make
from karenina.studies.papers.study import Study
from karenina.studies.results.table import SCHEMA

SHOWN = {"duan2020": "figure_11", "holtz2022": "table_4"}


def write_papers(folder: Path, paper: str | None = None, *, figures: bool = True) -> Iterator[Made]:
    """Make both, or that of one paper, in analysis/PAPER; what other studies show of them is left out."""
    study = Study(pd.DataFrame({name: [] for name in SCHEMA.names}), folder)
    for name, item in SHOWN.items():
        if paper in (None, name) and (figures or not item.startswith("figure")):
            made = make(items()[name][item], study, folder / "analysis" / name)
            if not made.missing:
                yield made
