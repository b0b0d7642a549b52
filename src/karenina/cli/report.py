"""`karenina report`, `show`, `compare` and `demo`: the commands that make pages."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import karenina
from karenina._active import ACTIVE_KL
from karenina._console import next_steps, print_json, say
from karenina.cli._common import Device, Json, use_device, with_data_options


@with_data_options
def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="The directory of a study, or of a fit; or run directories, or one that holds them."
        ),
    ],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the page; default DIR/report.")] = None,
    figures: Annotated[bool, typer.Option(help="Include the analyses, which take most of the time.")] = True,
    files: Annotated[bool, typer.Option("--files", help="Also write every figure as PNG and PDF.")] = False,
    megabytes: Annotated[
        float, typer.Option(metavar="N", help="Maximum size of the page; if needed, fewer models have live latents.")
    ] = 20.0,
    as_json: Json = False,
    data: str | None = None,
    data_dir: Path | None = None,
) -> None:
    """Make a page of a study: models to pick, all models, all analyses."""
    progress = (lambda text: say(text, file=sys.stderr)) if sys.stderr.isatty() else None
    options: dict[str, Any] = {"figures": figures, "files": files, "megabytes": megabytes, "progress": progress}
    folders = [folder for path in paths for folder in karenina.fitting.folder.folders_of_models(path)]
    where = out if out is not None or folders == paths else paths[0] / "report"
    _wrote(karenina.pages.page.report(folders, where, data=data, data_dir=data_dir, **options), as_json)


@with_data_options
def show(
    run: Annotated[Path, typer.Argument(help="A run directory, or a fit, whose chosen model is shown.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the page and pictures; default RUN/report.")
    ] = None,
    span: Annotated[
        str,
        typer.Option(
            metavar="prior|posterior", help="Move latents over the prior ([-2, 2]; InfoGAN: [-1, 1]) or the posterior."
        ),
    ] = "prior",
    seed: Annotated[int, typer.Option(help="Which images the pictures show.")] = 0,
    as_json: Json = False,
    data: str | None = None,
    data_dir: Path | None = None,
) -> None:
    """Show what a model has learnt, on a page and in pictures.

    The page has live latents; the pictures are traversals (PNG, GIF) and reconstructions.
    """
    chosen = karenina.fitting.encoding.chosen_run(run).path
    assert chosen is not None
    page = karenina.pages.page.show(
        chosen, run / "report" if out is None else out, span=span, seed=seed, data=data, data_dir=data_dir
    )
    pictures = [page.parent / name for name in ("traversal.png", "traversal.gif", "reconstructions.png")]
    if not as_json:
        for picture in pictures:
            say(f"wrote {picture}")
    _wrote(page, as_json, pictures=pictures)


@with_data_options
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="Another, trained on the same data.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page.")] = Path("comparison"),
    kl_threshold: Annotated[float, typer.Option(help="A latent is active if its KL exceeds this (nats).")] = ACTIVE_KL,
    as_json: Json = False,
    data: str | None = None,
    data_dir: Path | None = None,
) -> None:
    """Show two models side by side, their latents matched one to one."""
    page = karenina.pages.compare.compare(first, second, out, kl_threshold=kl_threshold, data=data, data_dir=data_dir)
    _wrote(page, as_json)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for what the demo makes.")] = Path("demo"),
    workers: Annotated[int, typer.Option(min=1, help="Models trained at a time.")] = 2,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train, choose, check and make a page of it, in a minute."""
    use_device(device)
    page, best = karenina.pages.demo.demo(
        out, workers, say=(lambda text: say(text, file=sys.stderr)) if as_json else say
    )
    if as_json:
        _wrote(page, as_json, study=out / "study", best=best)
    else:
        next_steps(("show", best, "--data", out / "rooms.npz"), ("fit", "YOUR_IMAGES", "--out", "mine"))


def _wrote(page: Path, as_json: bool, **more: Any) -> None:
    if as_json:
        print_json({"page": page, "bytes": page.stat().st_size, **more})
    else:
        say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB)")
