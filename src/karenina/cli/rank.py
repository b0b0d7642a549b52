"""`karenina rank`."""

import os
from pathlib import Path
from typing import Annotated

import typer

import karenina
from karenina._active import ACTIVE_KL
from karenina._console import next_steps, say
from karenina.cli._common import (
    DataDir,
    Device,
    FactorsCsv,
    Grey,
    Json,
    OwnData,
    Size,
    bar,
    console,
    own_data,
    use_device,
    with_options,
)

_BY: tuple[str, ...] = ("udr", "udr-spearman", "udr-a2a", "udr-spearman-a2a", "dynamics", "centrality", "pipe")
_BY += ("orthogonality", "support", "elbo", "reconstruction", "kl", "total-correlation", "mutual-information")
_BY += ("active-units",)


def rank(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Run directories, a folder of runs, a fit, or a study; all on the same data set."
        ),
    ],
    by: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Score to rank by: {', '.join(_BY)}.",
            autocompletion=lambda incomplete: [name for name in _BY if name.startswith(incomplete)],
        ),
    ] = "udr",
    rows: Annotated[int, typer.Option(min=10, help="Number of images that each run encodes.")] = 10_000,
    kl_threshold: Annotated[float, typer.Option(help="A latent is active if its KL exceeds this (nats).")] = ACTIVE_KL,
    seed: Annotated[int, typer.Option(help="Seed for drawing the images.")] = 0,
    as_json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot the similarity matrices of the best and the worst pair."),
    ] = None,
    data: OwnData = None,
    size: Size = None,
    grey: Grey = False,
    factors_csv: FactorsCsv = None,
    device: Device = None,
    data_dir: DataDir = None,
) -> None:
    """Rank runs without labels; the best is first."""
    from rich.table import Table

    use_device(device)
    folders = [folder for path in runs for folder in karenina.fitting.folder.folders_of_models(path)]
    word = with_options(data, size, grey, factors_csv)
    with bar("count") as shown:
        task = shown.add_task("encode", total=None, count="")

        def progress(done: int, total: int) -> None:
            doing = "compare" if done == total else "encode"
            shown.update(task, completed=done, total=total, description=doing, count=f"{done} of {total} runs")

        ranking = karenina.evaluation.ranking.rank(
            folders,
            by,
            rows=rows,
            seed=seed,
            kl_threshold=kl_threshold,
            data=word,
            data_dir=data_dir,
            progress=progress,
        )
    if plot is not None:
        karenina.evaluation.ranking.plot_pairs(ranking, plot)
    if as_json:
        print(ranking.frame.to_json(orient="records", indent=2))
        return
    frame = ranking.frame
    apart, shared = karenina.evaluation.ranking.settings_apart([run.config for run in ranking.runs])
    try:
        folder = os.path.commonpath([os.path.dirname(run) for run in frame["run"]])
    except ValueError:  # of paths from here and from the root
        folder = ""
    below = [os.path.relpath(run, folder) if folder else run for run in frame["run"]]
    interval = [f"{low:.3f} .. {high:.3f}" if low == low else "-" for low, high in zip(frame["low"], frame["high"])]
    columns: dict[str, list[str]] = {"rank": [str(rank) for rank in frame["rank"]], "run": below}
    columns |= {"setting": apart} if any(apart) else {}
    columns |= {"seed": [str(seed) for seed in frame["seed"]], "score": [f"{score:.3f}" for score in frame["score"]]}
    columns |= {"interval": interval} if set(interval) != {"-"} else {}
    columns |= {"active": [str(active) for active in frame["active"]]}
    screen = console()
    _cut(columns, screen.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns:
        table.add_column(heading, justify="left" if heading in ("run", "setting") else "right", no_wrap=True)
    for row in zip(*columns.values()):
        table.add_row(*row)
    screen.width = max(screen.width, sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns.items()))
    screen.print(table)
    if folder:
        say(f"runs in {folder}")
    say(f"all: {shared}")
    screen.print(f"active: latents with a KL above {ranking.kl_threshold:g} nats", highlight=False)
    for latents, name in ranking.best_per_informative.items():
        say(f"best with {latents} active latents: {name}")
    if len(ranking.able):
        best = ranking.frame["run"][ranking.able[0]]
        more = own_data(word)
        few = len(runs) <= 8
        next_steps(("show", best, *more), ("report", *runs, *more) if few else ("score", best, *more))


def _cut(columns: dict[str, list[str]], width: int) -> None:
    """Shorten settings until every row fits into one line; names of runs are left whole, to be copied."""
    others = sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns.items() if heading != "setting")
    most = max(width - others, 12)
    if "setting" in columns:
        columns["setting"] = [cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell in columns["setting"]]
