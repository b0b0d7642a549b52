"""`karenina train`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer

import karenina
from karenina._console import next_steps, print_json, say
from karenina._plugins import named
from karenina.cli._common import (
    DataDir,
    DataName,
    Device,
    FactorsCsv,
    Grey,
    Json,
    Size,
    Strict,
    bar,
    completing,
    in_one_word,
    own_data,
    with_setting_options,
)


@with_setting_options
def train(
    data: DataName,
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD", help="{methods}; or your own, module:function.", autocompletion=completing("methods")
        ),
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="Directory of the run; the same command again resumes it.")],
    seed: Annotated[int, typer.Option(help="Random seed: the same one gives the same result.")] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Train N seeds, together where that is faster; --out holds all runs."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the method, such as beta=4; with --seeds also several, beta=1,4,16.",
        ),
    ] = None,
    device: Device = None,
    compile: Annotated[bool, typer.Option("--compile", help="Fuse layers with torch.compile.")] = False,
    size: Size = None,
    grey: Grey = False,
    factors_csv: FactorsCsv = None,
    strict: Strict = False,
    data_dir: DataDir = None,
    as_json: Json = False,
    settings: Any = None,
) -> None:
    """Train one model, or with --seeds a population of them."""
    options = {"device": device or "auto", **settings, **_settings(words or [], several=seeds is not None)}
    if seeds is not None and (seed or compile):
        raise ValueError(f"--seeds trains several models: leave out {'--seed' if seed else '--compile'}")
    word = str(in_one_word(data, size, grey, factors_csv, strict))
    images = karenina.data.load(word, data_dir=data_dir)
    # A name, or the objective or method that module:function names.
    chosen = named(method, also=(karenina.training.methods.Method,)) if ":" in method else method
    with _progress(method, seeds is not None, sys.stderr if as_json else sys.stdout) as progress:
        if seeds is None:
            options |= {"seed": seed, "compile": compile}
            runs = [karenina.training.train(images, chosen, out=out, progress=progress, **options)]
        else:
            grid = {name: options.pop(name) for name in list(options) if isinstance(options[name], list)}
            runs = karenina.training.train_many(images, chosen, grid, seeds, out=out, progress=progress, **options)
    if as_json:
        ends = [run.history.iloc[-1].to_dict() if len(run.history) else {} for run in runs]
        found = [{"run": run.path, "config": run.config.to_json(), "last": end} for run, end in zip(runs, ends)]
        print_json(found if seeds is not None else found[0])
        return
    if len(runs) == 1:
        say(repr(runs[0])[1:-1])
    for run in runs:
        say(f"wrote {run.path}")
    more = own_data(word)
    if seeds is not None:
        next_steps(("rank", out, *more), ("report", out, *more))
    else:
        next_steps(("score", out, *more), ("show", out, *more))


@contextmanager
def _progress(method: str, several: bool, lines: TextIO) -> "Iterator[Callable[[karenina.training.Progress], None]]":
    """Give a function that shows where training is: on a bar, or in ten lines for each model or population."""
    with bar("rate") as shown:
        task = shown.add_task(method, total=1.0, rate="")
        said = (0, 0)

        def show(at: karenina.training.Progress) -> None:
            nonlocal said
            row = {name: value for name, value in at.row.items() if name != "step" and not name.startswith("kl_")}
            if several:
                rate = f"{at.updates_per_second:,.0f} updates/s" if at.updates_per_second > 0 else ""
                where, line = str(at), f"{at}, {rate}".rstrip(", ")
            else:
                rate, where = f"{at.images_per_second:,.0f} images/s", f"step {at.step:,}/{at.steps:,}"
                line = f"{where}  {'  '.join(f'{name} {value:.2f}' for name, value in row.items())}  {rate}"
                where += f"  loss {row.get('loss', float('nan')):.2f}"
            shown.update(task, completed=at.share, description=where, rate=rate)
            tenth = (at.done, 10 * at.step // at.steps)
            if shown.disable and tenth > said:
                said = tenth
                say(line, file=lines)

        yield show


# What `train` has words of its own for.
_NOT_SET: dict[str, str] = {"data": "DATA", "method": "METHOD", "compile": "--compile"}
_NOT_SET |= {name: f"--{name}" for name in ("seed", "seeds", "out")}


def _settings(words: list[str], *, several: bool = False) -> dict[str, Any]:
    """Return what words NAME=VALUE say: a number, true or false where a value reads as one, else text.

    several: whether VALUE,VALUE is a list.
    """
    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or name in ("progress", "grid"):
            raise ValueError(f"--set takes NAME=VALUE, a parameter of the method or of training; got {word!r}")
        if name in _NOT_SET:
            raise ValueError(f"--set {name} is not possible: give it as {_NOT_SET[name]}")
        options[name] = [_value(part) for part in text.split(",")] if several and "," in text else _value(text)
    return options


def _value(text: str) -> Any:
    value: Any = {"true": True, "false": False}.get(text.lower(), text)
    for kind in (float, int):
        try:
            value = kind(text)
        except ValueError:
            continue
    return value
