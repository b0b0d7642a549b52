"""Data sets: a name or the user's files -> images for factor rows."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from karenina.data.dataset import DataSet, TableDataSet
from karenina.data.factors import FactorBox, FactorGrid

__all__ = ["DataSet", "FactorBox", "FactorGrid", "TableDataSet", "load", "names"]


def _blobs(data_dir: Path | None) -> DataSet:
    from karenina.data.blobs import blobs

    return blobs()


# One line a data set: data_dir (a folder with official files, or None) and options -> the data set.
REGISTRY: dict[str, Callable[..., DataSet]] = {
    "blobs": _blobs,
}


def names() -> tuple[str, ...]:
    return tuple(REGISTRY)


def load(name: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] | None = None, **options: Any) -> DataSet:
    """A data set by name. See `karenina data list`."""
    if name in REGISTRY:
        where = data_dir if data_dir is not None else os.environ.get("KARENINA_DATA")
        return REGISTRY[str(name)](Path(where) if where else None, **options)
    close = difflib.get_close_matches(str(name), REGISTRY, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"no data set {str(name)!r}{hint} Known: {', '.join(REGISTRY)}")
