"""`karenina train`."""

import sys
from typing import Annotated, Any

import typer

from karenina.cli._common import DATA_HELP, DataDir


def train(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    method: Annotated[str, typer.Argument(help="vae, beta_vae, annealed_vae, factor_vae, beta_tcvae, dip_vae_i, ...")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Directory of the run; the same command again resumes it.")],
    seed: Annotated[int, typer.Option(help="Decides everything that is left to chance.")] = 0,
    steps: Annotated[int, typer.Option(help="Updates.")] = 10_000,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method or of training, such as beta=4."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Train one model."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from karenina.data import load
    from karenina.training import train as train_run

    given = _settings(settings or [])
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()]
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(method, total=steps)
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

        run = train_run(load(data, data_dir=data_dir), method, seed=seed, steps=steps, out=out, progress=show, **given)
    print(f"{repr(run)[1:-1]} -> {out}")


# What `train` has words of its own for.
_NOT_SET = {"data": "DATA", "method": "METHOD", "seed": "--seed", "steps": "--steps", "out": "--out"}


def _settings(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE words; a value is a number, true or false where it reads as one, else text."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or name == "progress":
            raise ValueError(f"--set takes NAME=VALUE, a parameter of the method or of training; got {word!r}")
        if name in _NOT_SET:
            raise ValueError(f"--set {name} is not possible: give it as {_NOT_SET[name]}")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        for kind in (float, int):
            try:
                value = kind(text)
            except ValueError:
                continue
        given[name] = value
    return given
