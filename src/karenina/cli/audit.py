"""`karenina audit`: metrics where the right answer is known."""

from pathlib import Path
from typing import Annotated, Any

import typer

import karenina
from karenina._console import print_json, say
from karenina._process import cores
from karenina.cli._common import Json, bar, completing, console, table


def audit(
    metrics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="METRIC",
            help="Metrics, or all. Default: those of `score` that grow no trees. Names: {metrics}.",
            autocompletion=completing("metrics"),
        ),
    ] = None,
    mine: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A metric of your own: function(codes, factors) -> number."),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="ours, quantile (ours with bins of equal population), locatello, carbonneau. Can be repeated.",
        ),
    ] = None,
    experiment: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this experiment. Can be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of random repetitions.")] = 10,
    rows: Annotated[int, typer.Option(help="Rows of codes and factors.")] = 20_000,
    full: Annotated[bool, typer.Option("--full", help="Also dci_forest and dci_boosted, on 5,000 rows.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes; default: one for each core.", show_default=False)
    ] = None,
    hyperparameters: Annotated[
        bool,
        typer.Option("--hyperparameters", help="Only halve and double each hyperparameter and compare the scores."),
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for scores, tables and curves; a stopped audit resumes there.")
    ] = Path("audit"),
    as_json: Json = False,
) -> None:
    """Test metrics, also your own, where the right answer is known.

    Writes curves, Table 1 of Carbonneau et al. (2022) (codes that are modular but not compact) and its Table 2,
    computed: every tick with its number and its rule.
    """
    if hyperparameters:
        _print_hyperparameters(metrics, protocol or ["ours"], full, as_json)
        return
    words = list(dict.fromkeys(mine or []))
    names = [word.partition(":")[2] or word for word in words]
    own: dict[str, Any] = {
        word if names.count(name) > 1 else name: word  # functions of one name in two modules
        for word, name in zip(words, names)
    }
    with bar("count") as shown:
        task = shown.add_task("audit", total=None, count="")
        try:
            found = karenina.audit.run(
                metrics or None,
                protocols=protocol or ["ours", "quantile"],
                mine=own,
                experiments=experiment,
                seeds=seeds,
                rows=rows,
                trees=full,
                workers=workers or cores(),
                out=out,
                progress=lambda done, total: shown.update(
                    task, completed=done, total=total, count=f"{done:,} of {total:,}"
                ),
            )
        except KeyboardInterrupt as stop:
            raise type(stop)("stopped; the same call resumes") from None
    written = karenina.audit.write(found, out)
    if as_json:
        failed = found.failures()
        tables = {
            "modular_not_compact": karenina.audit.pages.table_1_text(found),
            "characteristics": karenina.audit.pages.characteristics_text(found),
        }
        print_json({**tables, "failures": failed, "files": list(written)})
        return
    screen, cases = console(), karenina.audit.pages.table_1_text(found)
    answers = karenina.audit.pages.characteristics_text(found, short=True)
    answers = answers.loc[:, (answers != "–").any()]
    for name in dict.fromkeys(key.protocol for key in found.keys):
        if "redundancy" in found.about["experiments"]:
            title = f"{name}: modular, not compact (Table 1 of Carbonneau et al., 2022)"
            _print(screen, title, cases[cases.protocol == name].drop(columns="protocol"))
        title = f"{name}: characteristics (Table 2, and failures)"
        _print(screen, title, answers[answers.protocol == name].drop(columns="protocol"))
    failed = found.failures()
    for row in failed.drop_duplicates(["protocol", "metric", "note"]).itertuples():
        screen.print(f"no score: {row.metric} in {row.experiment} at {row.value}: {row.note}", highlight=False)
    say(f"The rules, and the number behind every tick: {written[0]}")
    for path in written[1:]:
        say(f"wrote {path}")


def _print_hyperparameters(metrics: list[str] | None, protocols: list[str], trees: bool, as_json: bool) -> None:
    found = karenina.audit._hyperparameters.hyperparameters(metrics or None, protocols, trees=trees)
    if as_json:
        print_json(found)
        return
    for protocol, part in found.groupby("protocol", sort=False):
        text = part.drop(columns="protocol").astype({"value": str}).round(3).astype(str)
        _print(console(), f"{protocol}: by how much a score moves when a number is halved and doubled", text)


def _print(screen: Any, title: str, frame: Any) -> None:
    shown = table(*map(str, frame.columns), title=title, title_justify="left")
    for line in frame.to_numpy():
        shown.add_row(*line)
    screen.print(shown)
    screen.print()
