"""`karenina train`."""

import os
import sys
from typing import Annotated, Any

import typer

from karenina.cli._common import DATA_HELP, DataDir


def train(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    method: Annotated[str, typer.Argument(help="vae, beta_vae, factor_vae, beta_tcvae, ada_gvae, qlae, hfs, ...")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Directory of the run; the same command again resumes it.")],
    seed: Annotated[int, typer.Option(help="Decides everything that is left to chance.")] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Train N seeds, together where that is faster; --out holds all runs."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Updates.")] = 10_000,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the method or of training, such as beta=4; with --seeds also several, beta=1,4,16.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="Of matrix products: float32, tf32 or bf16.")] = "float32",
    compile: Annotated[bool, typer.Option("--compile", help="Fuse layers with torch.compile.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Train one model, or with --seeds a population of them."""
    given = _settings(settings or [], several=seeds is not None)
    given = {"steps": steps, "precision": precision, "device": device, **given}
    if seeds is not None:
        if seed or compile:
            raise ValueError(f"--seeds trains several models: leave out {'--seed' if seed else '--compile'}")
        _train_many(data, method, out, seeds, given, data_dir)
    else:
        _train_one(data, method, out, seed, {**given, "compile": compile}, data_dir)


def _train_many(
    data: str, method: str, out: str, seeds: int, given: dict[str, Any], data_dir: str | os.PathLike[str] | None
) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from karenina.data import load
    from karenina.training import PopulationProgress, train_many

    grid = {name: value for name, value in given.items() if isinstance(value, list)}
    fixed = {name: value for name, value in given.items() if name not in grid}
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()]
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(method, total=1.0)
        said = (0, 0)

        def show(at: PopulationProgress) -> None:
            nonlocal said
            line = f"step {at.step}/{at.steps} of {at.models} models, {at.done} of {at.total} done"
            line += f", {at.updates_per_second:.0f} models x steps/s" if at.updates_per_second > 0 else ""
            bar.update(task, completed=(at.done + at.models * at.step / at.steps) / at.total, description=line)
            tenth = (at.done, 10 * at.step // at.steps)
            if bar.disable and tenth > said:
                said = tenth
                print(line, flush=True)

        runs = train_many(load(data, data_dir=data_dir), method, grid, seeds, out=out, progress=show, **fixed)
    for run in runs:
        print(f"{repr(run)[1:-1]} -> {run.path}")


def _train_one(
    data: str, method: str, out: str, seed: int, given: dict[str, Any], data_dir: str | os.PathLike[str] | None
) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from karenina.data import load
    from karenina.training import train as train_run

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()]
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(method, total=given["steps"])
        said = 0

        def show(state: Any) -> None:
            nonlocal said
            row = {name: value for name, value in state.row.items() if name != "step" and not name.startswith("kl_")}
            terms = "  ".join(f"{name} {value:.2f}" for name, value in row.items())
            line = f"step {state.step}/{state.steps}  {terms}  {state.images_per_second:.0f} images/s"
            bar.update(task, completed=state.step, description=line)
            tenth = 10 * state.step // state.steps
            if bar.disable and tenth > said:
                said = tenth
                print(line, flush=True)

        run = train_run(load(data, data_dir=data_dir), method, seed=seed, out=out, progress=show, **given)
    print(f"{repr(run)[1:-1]} -> {out}")


# What `train` has words of its own for.
_NOT_SET = {"data": "DATA", "method": "METHOD", "compile": "--compile"}
_NOT_SET |= {name: f"--{name}" for name in ("seed", "seeds", "steps", "out")}


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
