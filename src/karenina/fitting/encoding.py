"""`karenina encode`: the codes of all images of a folder, file or data set, a thousand at a time."""

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina._files import as_utf8, atomic, checksum
from karenina.data import names as data_names
from karenina.data.naming import split_name
from karenina.data.streaming import Images, stream
from karenina.fitting.answer import pick
from karenina.fitting.folder import FIT, read_names

if TYPE_CHECKING:
    from karenina.training import Run

FORMATS = (".parquet", ".csv")


def chosen_run(run: "Run | str | os.PathLike[str]") -> "Run":
    """A run that has a directory, the run in a directory, or the one that the fit in it chose."""
    from karenina.training.run import Run
    from karenina.training.run import open as open_run

    if not isinstance(run, Run):
        return pick(run) if (Path(run) / FIT).exists() else open_run(run)
    if run.path is None:
        raise ValueError("the run was trained without out=, so it has no directory: give it one")
    return run


def columns(run: "Run", where: str | os.PathLike[str]) -> list[str]:
    """A name for each latent: the one that a person gave it, else latent_3."""
    assert run.path is not None
    known = read_names(where, run.latents, checksum(run.path / "model.safetensors"))
    found = [known.get(i, f"latent_{i}") for i in range(run.latents)]
    taken = sorted({name for name in found if found.count(name) > 1} | ({"image"} & set(found)))
    if taken:
        raise ValueError(f"a latent cannot be called {taken[0]!r}: another column has this name")
    return found


def encode(
    run: "Run | str | os.PathLike[str]", images: Images, out: str | os.PathLike[str], *, active: bool = False
) -> int:
    """Write the mean codes of images to a table: a column `image` (file or number) and one for each latent.

    Images are read, brought to the model's size and encoded some at a time, so that any number fits in memory. Latents
    that have a name in names.json (see docs/fit.md) have it as the name of their column. In a .csv, names that a
    spreadsheet would take for a formula ("=1+1.png") have an apostrophe before them; bytes of file names that are not
    UTF-8 are spelled out ("caf\\udce9.png").

    Parameters
    ----------
    run : Run, directory of a run, or of a fit, whose choice is taken
    images : a folder, .npz or .h5, a data set or its name, or an array
    out : a .parquet or .csv file
    active : whether to leave out latents that carry nothing: of a fit only, which has measured that

    Returns
    -------
    int
        The number of images.

    Examples
    --------
    >>> import karenina
    >>> run = karenina.train("blobs", latents=3, steps=2, out="runs/a")
    >>> encode("runs/a", karenina.load("blobs"), "codes.parquet")
    3072
    """
    path = Path(out)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"codes are written to {' or '.join(FORMATS)}, got {str(path)!r}")
    opened = chosen_run(run)
    where: Any = opened.path if opened is run else run
    names = columns(opened, where)
    kept = _active(opened, where) if active else list(range(opened.latents))
    options = {k: v for k, v in split_name(opened.config.data)[1].items() if k in ("crop", "recursive")}
    if split_name(opened.config.data)[0] in data_names():
        options = {}
    count = 0
    writer = _parquet if path.suffix.lower() == ".parquet" else _csv
    with atomic(path) as part, writer(part, [names[i] for i in kept]) as write:
        for labels, block in stream(images, opened.config.image_shape, **options):
            write(labels, opened.encode(block)[0][:, kept])
            count += len(labels)
    return count


def _active(run: "Run", where: Any) -> list[int]:
    from karenina._active import ACTIVE_KL
    from karenina.fitting.folder import fit_of, read_answer

    fit = fit_of(where)
    answer = read_answer(fit) if fit is not None else {}
    assert run.path is not None
    if answer.get("weights") != checksum(run.path / "model.safetensors"):
        raise ValueError("only the choice of a fit is known to have inactive latents; leave out --active")
    return [i for i, value in enumerate(answer["kl"]) if value > ACTIVE_KL]


@contextmanager
def _parquet(path: Path, names: list[str]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("image", pa.string()), *((name, pa.float32()) for name in names)])
    with pq.ParquetWriter(path, schema) as file:

        def write(labels: list[str], codes: NDArray[np.float32]) -> None:
            file.write_table(
                pa.table([[as_utf8(label) for label in labels], *np.ascontiguousarray(codes.T)], schema=schema)
            )

        yield write


def _no_formula(name: str) -> str:
    """Return a name that a spreadsheet takes for text: what begins as a formula does has an apostrophe before it."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else name


@contextmanager
def _csv(path: Path, names: list[str]) -> Iterator[Any]:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["image", *map(_no_formula, names)])

        def write(labels: list[str], codes: NDArray[np.float32]) -> None:
            lines.writerows(
                [_no_formula(as_utf8(label)), *(f"{value:.6g}" for value in row)] for label, row in zip(labels, codes)
            )

        yield write
