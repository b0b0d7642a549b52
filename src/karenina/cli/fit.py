"""`karenina fit`, `encode` and `export`: from images of your own to a chosen model, its codes and files of it."""

import errno
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer


def fit(
    images: Annotated[str, typer.Argument(help="A folder of images, an .npz or an .h5; labels are not looked at.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the fit; the same command again continues it.")],
    budget: Annotated[
        str | None,
        typer.Option("--time", metavar="TIME", help="Budget: 45s, 30m, 2h; default 30m.", show_default=False),
    ] = None,
    models: Annotated[int | None, typer.Option(metavar="N", help="In place of a time: how many models.")] = None,
    methods: Annotated[str | None, typer.Option(help="beta_vae,beta_tcvae,factor_vae,dip_vae_i,dip_vae_ii.")] = None,
    latents: Annotated[int, typer.Option(help="Latents of each model.")] = 10,
    size: Annotated[str | None, typer.Option(metavar="HxW", help="Resize images to this; default by time.")] = None,
    steps: Annotated[int | None, typer.Option(help="Updates of each model; default by time.")] = None,
    network: Annotated[str, typer.Option(help="As for train.")] = "auto",
    search: Annotated[str, typer.Option(help="grid (successive halving) or optuna (Bayesian).")] = "grid",
    track: Annotated[
        str | None, typer.Option(help="tensorboard:DIR, mlflow:URI or wandb:PROJECT.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything that is left to chance.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Images without labels: train many models, choose one, say how sure, and make a page. Ctrl-C ends it early."""
    started = time.monotonic()  # what is imported below counts
    from rich.progress import BarColumn, Progress, TextColumn

    from karenina.fitting.core import fit as run

    side: Any = int(size) if size is not None and size.isdecimal() else size
    with Progress(TextColumn("{task.description}", markup=False), BarColumn(), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("training", total=1.0, visible=False)

        def show(at: Any) -> None:
            share = (at.done + at.models * at.step / at.steps) / at.total
            bar.update(task, completed=share, description=f"{at.done} of {at.total} models", visible=share < 1)

        try:
            found = run(
                images,
                out=out,
                time=budget,
                models=models,
                methods=methods,
                latents=latents,
                size=side,
                steps=steps,
                network=network,
                seed=seed,
                search=search,
                device=device,
                track=track,
                say=lambda text: print(text, flush=True),
                progress=show,
                started=started,
            )
        except KeyboardInterrupt:  # before there was a plan, or when the answer was being written
            print("karenina: interrupted; the same command continues", file=sys.stderr)
            raise typer.Exit(130) from None
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ValueError(f"no space left for {out}: make room, and the same command continues") from None
    print(found)
    if found.page.exists():
        print(f"wrote {found.page} ({found.page.stat().st_size / 1e6:.1f} MB)")
    if found.stopped == "user":
        raise typer.Exit(130)


def encode(
    run: Annotated[Path, typer.Argument(help="Directory of a run, or of a fit, whose choice is taken.")],
    images: Annotated[str, typer.Argument(help="A folder of images, an .npz or an .h5; or a data set's name.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table of codes: .parquet or .csv.")],
    active: Annotated[bool, typer.Option("--active", help="Only latents that are active (of a fit).")] = False,
) -> None:
    """Write the codes of images to a table: a row per image, a column per latent, by its name if it has one."""
    from karenina.fitting.encoding import encode as run_encode

    count = run_encode(run, images, out, active=active)
    print(f"wrote the codes of {count:,} images to {out}")


def export(
    run: Annotated[Path, typer.Argument(help="Directory of a run, or of a fit, whose choice is taken.")],
    to: Annotated[str, typer.Option(help="onnx, torchscript or hub.")] = "onnx",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("exported"),
) -> None:
    """Write a model for other programs: ONNX, TorchScript, or a folder for the Hugging Face hub."""
    from karenina.fitting.export import export as run_export

    for path in run_export(run, out, to):
        print(f"wrote {path}")
