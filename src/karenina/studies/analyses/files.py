"""All analyses of a study, as files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from karenina._files import atomic, sweep
from karenina.studies.analyses.analyses import ANALYSES
from karenina.studies.execution.folder import Folder
from karenina.studies.results.scores import NotEnough
from karenina.studies.results.table import read_parquet, results


def analyse(path: str | os.PathLike[str], *, figures: bool = True) -> dict[str, pd.DataFrame | str]:
    """Run every analysis that the study has enough for; write analysis/NAME.csv and, with figures, NAME.png.

    Gives the frame of each analysis, or what the study lacks for it.
    """
    out = Folder(path).path / "analysis"
    found = dict(analyses(path))
    sweep(out)
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
    for name in ANALYSES:
        yield name, apply(name, frame, lambda table: extra_table(folder.path, table))


def apply(
    name: str, frame: pd.DataFrame, extra: Callable[[str], pd.DataFrame | None] = lambda table: None
) -> pd.DataFrame | str:
    """The frame of an analysis, or what the results lack for it. extra: another table of the study by its name."""
    analysis = ANALYSES[name]
    more = extra(analysis.extra) if analysis.extra else None
    if analysis.extra and more is None:
        return f"needs {analysis.extra}.parquet, which `karenina study run` writes when all models are there"
    try:
        found = analysis.function(frame) if more is None else analysis.function(frame, more)
    except NotEnough as error:
        return str(error)
    return found if len(found) else "needs more runs"


def extra_table(folder: Path, name: str) -> pd.DataFrame | None:
    file = folder / f"{name}.parquet"
    return read_parquet(file).to_pandas() if file.exists() else None


def draw(name: str, frame: pd.DataFrame, path: Path) -> None:
    from karenina.studies.analyses import figures

    figure = getattr(figures, ANALYSES[name].figure)(frame)
    with atomic(path) as part:
        figure.savefig(part, dpi=120)
