"""All analyses of a study, as files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from karenina._files import atomic
from karenina.studies._scores import NotEnough
from karenina.studies.analyses import ANALYSES
from karenina.studies.folder import Folder
from karenina.studies.table import read_parquet, results


def analyse(path: str | os.PathLike[str], *, figures: bool = True) -> dict[str, pd.DataFrame | str]:
    """Run every analysis that the study has enough for; write analysis/NAME.csv and, with figures, NAME.png.

    Gives the frame of each analysis, or what the study lacks for it.
    """
    out = Folder(path).path / "analysis"
    found = dict(analyses(path))
    for name, frame in found.items():
        if isinstance(frame, str):
            continue
        with atomic(out / f"{name}.csv") as part:
            frame.to_csv(part, index=False)
        if figures:
            draw(name, frame, out / f"{name}.png")
    return found


def analyses(path: str | os.PathLike[str]) -> Iterator[tuple[str, pd.DataFrame | str]]:
    folder = Folder(path)
    frame = results(path)
    if frame.empty:
        raise ValueError(f"{folder.path} has no finished run yet")
    for name, analysis in ANALYSES.items():
        extra = folder.path / f"{analysis.extra}.parquet"
        if analysis.extra and not extra.exists():
            yield name, f"needs {extra.name}, which `karenina study run` writes when all models are there"
            continue
        try:
            found = analysis.function(frame, *([read_parquet(extra).to_pandas()] if analysis.extra else []))
        except NotEnough as error:
            yield name, str(error)
            continue
        yield name, found if len(found) else "needs more runs"


def draw(name: str, frame: pd.DataFrame, path: Path) -> None:
    from karenina.studies import figures

    figure = getattr(figures, ANALYSES[name].figure)(frame)
    with atomic(path) as part:
        figure.savefig(part, dpi=120)
