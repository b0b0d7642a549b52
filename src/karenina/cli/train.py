"""`karenina train`."""

import os
import sys
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
    own_data,
    with_options,
    with_setting_options,
)
from karenina.cli._help import completing


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
    given = {"device": device or "auto", **settings, **_settings(words or [], several=seeds is not None)}
    word = str(with_options(data, size, grey, factors_csv, strict))
    if seeds is not None:
        if seed or compile:
            raise ValueError(f"--seeds trains several models: leave out {'--seed' if seed else '--compile'}")
        runs = _train_many(word, method, out, seeds, given, data_dir, sys.stderr if as_json else sys.stdout)
    else:
        one = {**given, "compile": compile}
        runs = [_train_one(word, method, out, seed, one, data_dir, sys.stderr if as_json else sys.stdout)]
    if as_json:
        found = [{"run": run.path, "config": run.config.to_json(), "last": _last(run)} for run in runs]
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


def _method(word: str) -> Any:
    """A name, or the objective or method that module:function names."""

    return named(word, also=(karenina.training.methods.Method,)) if ":" in word else word


def _last(run: Any) -> dict[str, float]:
    """The losses at the end."""
    return {} if not len(run.history) else run.history.iloc[-1].to_dict()


def _train_many(
    data: str,
    method: str,
    out: str,
    seeds: int,
    given: dict[str, Any],
    data_dir: str | os.PathLike[str] | None,
    lines: TextIO,
) -> list[Any]:

    grid = {name: value for name, value in given.items() if isinstance(value, list)}
    fixed = {name: value for name, value in given.items() if name not in grid}
    with bar("rate") as shown:
        task = shown.add_task(method, total=1.0, rate="")
        said = (0, 0)

        def show(at: karenina.training.Progress) -> None:
            nonlocal said
            rate = f"{at.updates_per_second:,.0f} updates/s" if at.updates_per_second > 0 else ""
            shown.update(task, completed=at.share, description=str(at), rate=rate)
            tenth = (at.done, 10 * at.step // at.steps)
            if shown.disable and tenth > said:
                said = tenth
                say(f"{at}, {rate}".rstrip(", "), file=lines)

        return karenina.training.train_many(
            karenina.data.load(data, data_dir=data_dir), _method(method), grid, seeds, out=out, progress=show, **fixed
        )


def _train_one(
    data: str,
    method: str,
    out: str,
    seed: int,
    given: dict[str, Any],
    data_dir: str | os.PathLike[str] | None,
    lines: TextIO,
) -> Any:

    with bar("rate") as shown:
        task = shown.add_task(method, total=None, rate="")
        said = 0

        def show(state: Any) -> None:
            nonlocal said
            row = {name: value for name, value in state.row.items() if name != "step" and not name.startswith("kl_")}
            where, rate = f"step {state.step:,}/{state.steps:,}", f"{state.images_per_second:,.0f} images/s"
            loss = f"{where}  loss {row.get('loss', float('nan')):.2f}"
            shown.update(task, total=state.steps, completed=state.step, description=loss, rate=rate)
            tenth = 10 * state.step // state.steps
            if shown.disable and tenth > said:
                said = tenth
                terms = "  ".join(f"{name} {value:.2f}" for name, value in row.items())
                say(f"{where}  {terms}  {rate}", file=lines)

        return karenina.training.train(
            karenina.data.load(data, data_dir=data_dir), _method(method), seed=seed, out=out, progress=show, **given
        )


# What `train` has words of its own for.
_NOT_SET: dict[str, str] = {"data": "DATA", "method": "METHOD", "compile": "--compile"}
_NOT_SET |= {name: f"--{name}" for name in ("seed", "seeds", "out")}


def _settings(words: list[str], *, several: bool = False) -> dict[str, Any]:
    """NAME=VALUE words; a value is a number, true or false where it reads as one, else text. several: VALUE,VALUE."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or name in ("progress", "grid"):
            raise ValueError(f"--set takes NAME=VALUE, a parameter of the method or of training; got {word!r}")
        if name in _NOT_SET:
            raise ValueError(f"--set {name} is not possible: give it as {_NOT_SET[name]}")
        given[name] = [_value(part) for part in text.split(",")] if several and "," in text else _value(text)
    return given


def _value(text: str) -> Any:
    value: Any = {"true": True, "false": False}.get(text.lower(), text)
    for kind in (float, int):
        try:
            value = kind(text)
        except ValueError:
            continue
    return value
