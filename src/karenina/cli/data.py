"""`karenina data`: list, look at and download data sets."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import karenina
from karenina._console import next_steps, print_json, say
from karenina.cli._common import (
    App,
    DataDir,
    DataName,
    FactorsCsv,
    Grey,
    Json,
    Size,
    Strict,
    bar,
    completing,
    console,
    in_one_word,
    table,
)

data_app = App(help="List, look at and download data sets.")


@data_app.command("list")
def data_list(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List every data set, its factors, and where its images are from."""
    entries = karenina.data.catalogue(data_dir)
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    listed = table()
    for heading in ("name", "factors", "images", "source"):
        listed.add_column(heading, overflow="fold")
    for entry in entries:
        listed.add_row(entry.name, entry.factors, entry.images, entry.source)
    console().print(listed)


@data_app.command("show")
def data_show(
    name: DataName,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the picture; default NAME.png.")
    ] = None,
    columns: Annotated[int, typer.Option(min=2, max=40, help="Pictures per row.")] = 10,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    size: Size = None,
    grey: Grey = False,
    factors_csv: FactorsCsv = None,
    strict: Strict = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Draw one row per factor: that factor varied, the others fixed."""
    word = in_one_word(name, size, grey, factors_csv, strict)
    data = karenina.data.load(str(word), data_dir=data_dir)
    out = out or Path(f"{karenina.data.split_name(data.name)[0]}.png")
    karenina.data.dataset.draw_sheet(data, out, columns=columns, seed=seed)
    if as_json:
        factors = dict(zip(data.factor_names, data.factor_sizes))
        known = {"name": data.name, "image_shape": data.image_shape, "factors": factors, "source": data.source}
        unreadable = getattr(data, "unreadable", ())
        print_json({**known, "picture": out, "unreadable": unreadable})
        return
    say(repr(data)[1:-1])
    say(f"wrote {out}")
    next_steps(("train", word, "beta_vae", "--out", "runs/a"))


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set's name.", autocompletion=completing("data"))],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Download the official files of a data set.

    Their checksums are checked; a download that was cut is resumed, and a file is in place only when it is whole.
    """
    if data_dir is None:
        raise ValueError("say where the files should go: --data-dir DIR, or set KARENINA_DATA")
    with bar("size", "speed") as shown:
        tasks: dict[str, Any] = {}

        def progress(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = shown.add_task(file[-30:], total=total, size="", speed="")
            speed = shown.tasks[tasks[file]].speed
            size = f"{done / 1e6:,.0f} MB" if total is None else f"{done / 1e6:,.0f}/{total / 1e6:,.0f} MB"
            rate = f"{speed / 1e6:.1f} MB/s" if speed else ""
            shown.update(tasks[file], completed=done, total=total, size=size, speed=rate)

        paths = list(karenina.data.download.get(name, data_dir, progress))
    if as_json:
        print_json({"files": paths})
        return
    for path in paths:
        say(f"{path} is in place")
