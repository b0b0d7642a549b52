"""`karenina encode`: the codes of all images of a folder, file or data set, a thousand at a time."""

import csv
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._active import CLEAR_KL
from karenina._files import as_utf8, atomic, checksum
from karenina.data import DataSet, split_name
from karenina.data import names as data_names
from karenina.data.user_images import Images, kind_of, stream
from karenina.fitting.answer import pick
from karenina.fitting.folder import ANSWER, FIT, fit_of, read_answer, read_names
from karenina.training.run import Run, as_run

FORMATS = (".parquet", ".csv")
HISTORY = "history.parquet"


def chosen_run(run: Run | str | os.PathLike[str]) -> Run:
    """Return a run that has a directory, the run in a directory, or the one that the fit in it chose."""
    if isinstance(run, str | os.PathLike) and (Path(run) / FIT).exists():
        return pick(run)
    found = as_run(run)
    if found.path is None:
        raise ValueError("the run was trained without out=, so it has no directory: give it one")
    return found


def columns(run: Run, where: str | os.PathLike[str]) -> list[str]:
    """Return a name for each latent: the one that a person gave it, else latent_3."""
    known = read_names(where, run.latents, _weights(run))
    found = [known.get(i, f"latent_{i}") for i in range(run.latents)]
    taken = sorted({name for name in found if found.count(name) > 1} | ({"image"} & set(found)))
    if taken:
        raise ValueError(f"a latent cannot be called {taken[0]!r}: another column has this name")
    return found


def about_latents(run: Run, where: Any) -> list[dict[str, Any]]:
    """Return what is known of each latent: its number, its name, its KL in nats, and whether it is active.

    The KL is what the fit measured, or else that of the end of training; None, as for `active`, where there is none.
    """
    assert run.path is not None
    fit = fit_of(where)
    answer = read_answer(fit) if fit is not None and (fit / ANSWER).exists() else {}
    kl: list[float | None] = [None] * run.latents
    if answer.get("weights") == _weights(run):
        kl = [float(value) for value in answer["kl"]]
    elif (run.path / HISTORY).exists() and f"kl_{run.latents - 1}" in run.history and len(run.history):
        kl = [round(float(run.history[f"kl_{i}"].iloc[-1]), 4) for i in range(run.latents)]
    return [
        {"latent": i, "name": name, "kl": value, "active": None if value is None else value > CLEAR_KL}
        for i, (name, value) in enumerate(zip(columns(run, where), kl))
    ]


def beside(table: str | os.PathLike[str]) -> Path:
    """Return where `encode` writes what it knows of the latents of a table: codes.csv.json for codes.csv."""
    return Path(f"{os.fspath(table)}.json")


def encode(
    run: Run | str | os.PathLike[str], images: Images, out: str | os.PathLike[str], *, active: bool = False
) -> int:
    """Write the mean codes of images to a table: a column `image` (file or number) and one for each latent.

    Images are read, brought to the model's size and encoded some at a time, so that any number fits in memory. Latents
    that have a name in names.json (see docs/fit.md) have it as the name of their column. A file beside the table
    (codes.csv.json for codes.csv) says of each column its latent, its KL, and whether it is active. In a .csv, names
    that a spreadsheet would take for a formula ("=1+1.png") have an apostrophe before them; bytes of file names that
    are not UTF-8 are spelled out ("caf\\udce9.png").

    Images in colour are refused by a model of grey ones, unless that was trained on images that were made grey, or
    the option grey=true is given with them.

    Parameters
    ----------
    run : Run, directory of a run, or of a fit, whose choice is taken
    images : a folder, .npz or .h5, a data set or its name, or an array
    out : a .parquet or .csv file
    active : whether to leave out latents that carry nothing, by their KL in the fit or at the end of training

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
    latents = about_latents(opened, where)
    if active:
        if any(one["active"] is None for one in latents):
            raise ValueError(f"it is not known which latents of {opened.path} are active; leave out --active")
        latents = [one for one in latents if one["active"]]
        if not latents:
            raise ValueError(f"no latent of {opened.path} is active; leave out --active")
    kept = [one["latent"] for one in latents]
    name, options = split_name(opened.config.data)
    options = {} if name in data_names() else options
    cut = {key: value for key, value in options.items() if key in ("crop", "recursive")}
    _check_kind(images, opened, bool(options.get("grey")), cut)
    count = 0
    writer = _parquet if path.suffix.lower() == ".parquet" else _csv
    with atomic(path) as part, writer(part, [one["name"] for one in latents]) as write:
        for labels, block in stream(images, opened.config.image_shape, **cut):
            write(labels, opened.encode(block)[0][:, kept])
            count += len(labels)
    with atomic(beside(path)) as part:
        about = {"format": 1, "kl_threshold": CLEAR_KL, "latents": latents}
        part.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return count


def _check_kind(images: Images, run: Run, made_grey: bool, options: dict[str, Any]) -> None:
    """Refuse images in colour where the model has seen grey ones alone; say so where it is the other way round."""
    text = str(images) if isinstance(images, str | os.PathLike) else ""
    channels = run.config.image_shape[0]
    asked = text and not Path(text).exists() and split_name(text)[1].get("grey")
    if isinstance(images, DataSet) or channels not in (1, 3) or (channels == 1 and (made_grey or asked)):
        return
    what = text or "the array"
    kind = kind_of(images, **options)
    if channels == 1 and kind == "colour":
        way = f"encode {text}:grey=true" if text else "make them grey before"
        raise ValueError(
            f"{what} has images in colour, and the model was trained on grey ones, so that their codes would mean "
            f"nothing; if they show the same, {way}"
        )
    if channels == 3 and kind == "grey":
        warnings.warn(f"{what} has grey images, and the model was trained on images in colour", stacklevel=3)


def _weights(run: Run) -> str:
    """Return the hash of a model; "" of a run that was stopped, which no fit has chosen."""
    assert run.path is not None
    return checksum(run.path / "model.safetensors") if run.stopped_at is None else ""


@contextmanager
def _parquet(path: Path, names: list[str]) -> Iterator[Any]:
    """Open a Parquet file, and yield the function that writes rows to it."""
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
    """Open a CSV file, and yield the function that writes rows to it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["image", *map(_no_formula, names)])

        def write(labels: list[str], codes: NDArray[np.float32]) -> None:
            lines.writerows(
                [_no_formula(as_utf8(label)), *(f"{value:.6g}" for value in row)] for label, row in zip(labels, codes)
            )

        yield write
