"""`karenina rank`."""

from pathlib import Path
from typing import Annotated

import typer

from karenina._active import ACTIVE_KL
from karenina.cli._common import DataDir, OwnData, console


def rank(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, all of one data set.")],
    by: Annotated[
        str,
        typer.Option(
            help="udr, udr-spearman, udr-a2a, udr-spearman-a2a, dynamics, centrality, pipe, orthogonality, elbo, ..."
        ),
    ] = "udr",
    rows: Annotated[int, typer.Option(min=10, help="Images that every run encodes.")] = 5_000,
    kl_threshold: Annotated[float, typer.Option(help="A latent is informative above this KL.")] = ACTIVE_KL,
    seed: Annotated[int, typer.Option(help="Decides which images.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the best and the worst pair's similarity matrices.")] = None,
    data: OwnData = None,
    data_dir: DataDir = None,
) -> None:
    """Rank runs without labels; the best is first."""
    from rich.table import Table

    from karenina.evaluation.ranking import plot_pairs
    from karenina.evaluation.ranking import rank as rank_runs

    ranking = rank_runs(runs, by, rows=rows, seed=seed, kl_threshold=kl_threshold, data=data, data_dir=data_dir)
    if plot is not None:
        plot_pairs(ranking, plot)
    if as_json:
        print(ranking.frame.to_json(orient="records", indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("rank", "run", "setting", "seed", "score", "interval", "informative"):
        table.add_column(heading, justify="left" if heading in ("run", "setting") else "right", overflow="fold")
    for row in ranking.frame.itertuples():
        interval = f"{row.low:.3f} .. {row.high:.3f}" if row.low == row.low else "-"
        cells = (row.rank, row.run, row.setting, row.seed, f"{row.score:.3f}", interval, row.informative)
        table.add_row(*map(str, cells))
    screen = console()
    screen.print(table)
    screen.print(f"informative: latents with a KL above {ranking.kl_threshold:g} nats", highlight=False)
    for latents, name in ranking.best_per_informative.items():
        print(f"best with {latents} informative latents: {name}")
