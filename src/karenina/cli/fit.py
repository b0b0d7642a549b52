"""`karenina fit`, `encode` and `export`: from images of your own to a chosen model, its codes and files of it."""

import errno
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import karenina
from karenina._console import next_steps, print_json, say
from karenina._process import exit_code
from karenina._settings import SETTINGS
from karenina.cli._common import (
    Device,
    FactorsCsv,
    Grey,
    Json,
    Size,
    Strict,
    bar,
    in_one_word,
    setting_option,
    use_device,
)


def fit(
    images: Annotated[
        str,
        typer.Argument(
            help="A folder of images, an .npz or an .h5, with options: photos:crop=178. Labels are ignored."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the fit; the same command again continues it.")],
    budget: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME", help="Budget: 45s, 30m, 2h; default 30m, at least 10s.", show_default=False
        ),
    ] = None,
    models: Annotated[
        int | None, typer.Option(metavar="N", help="How many models to train, instead of a time.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Of beta_vae,beta_tcvae,factor_vae,dip_vae_i,dip_vae_ii.")] = None,
    latents: Annotated[int, setting_option("latents")] = SETTINGS["latents"].default,
    size: Size = None,
    grey: Grey = False,
    factors_csv: FactorsCsv = None,
    strict: Strict = False,
    steps: Annotated[int | None, setting_option("steps", "what the time allows")] = None,
    network: Annotated[str, setting_option("network")] = SETTINGS["network"].default,
    search: Annotated[str, typer.Option(help="grid (successive halving) or optuna (Bayesian).")] = "grid",
    track: Annotated[
        str | None, typer.Option(help="Log to tensorboard:DIR, mlflow:URI or wandb:PROJECT.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed: the same one gives the same result.")] = 0,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train many models on images without labels, and choose one.

    The answer says how sure the choice is, and is a page, too. Ctrl-C and SIGTERM end it early, with the answer so far;
    the exit code is 130 and 143 then.
    """
    started = time.monotonic()  # what is imported below counts
    side: Any = int(size) if size is not None and size.isdecimal() else size
    word = str(in_one_word(images, None, grey, factors_csv, strict))
    piped = None if sys.stdout.isatty() else sys.stdout  # a bar takes lines for the screen: those of a pipe pass it by

    def tell(text: str) -> None:
        say(text, file=sys.stderr if as_json else piped)

    with bar() as shown:
        task = shown.add_task("training", total=1.0, visible=False)

        def show(at: Any) -> None:
            shown.update(task, completed=at.share, description=str(at), visible=at.share < 1)

        try:
            found = karenina.fitting.core.fit(
                word,
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
                device=device or "auto",
                track=track,
                say=tell,
                progress=show,
                started=started,
            )
        except KeyboardInterrupt as stop:  # before there was a plan, or when the answer was being written
            raise type(stop)("stopped; the same call resumes") from None
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ValueError(f"no space left for {out}: make room, and the same command continues") from None
    if as_json:
        print_json({"fit": out, "stopped": found.stopped, "page": found.page, **found.answer, "ranking": found.ranking})
    else:
        say(*found.lines)
        if found.page.exists():
            say(f"wrote {found.page} ({found.page.stat().st_size / 1e6:.1f} MB)")
        if found.best is not None:
            next_steps(("encode", out, images, "--out", "codes.parquet"), ("export", out))
    if found.stopped in karenina.fitting.core.STOPS:
        raise typer.Exit(exit_code(karenina.fitting.core.STOPS[found.stopped]()))
    if found.answer["run"] is None:
        raise typer.Exit(1)


def encode(
    run: Annotated[Path, typer.Argument(help="A run directory, or a fit, whose chosen model is used.")],
    images: Annotated[
        str,
        typer.Argument(help="A folder of images, an .npz or an .h5 of any image size, or a data set's name."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table of codes: .parquet or .csv.")],
    active: Annotated[bool, typer.Option("--active", help="Write only active latents.")] = False,
    strict: Strict = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Write the codes of images to a table.

    It has a row per image and a column per latent, by its name if it has one.
    """
    use_device(device)
    word = str(in_one_word(images, None, False, None, strict))
    count = karenina.fitting.encoding.encode(run, word, out, active=active)
    about = json.loads(karenina.fitting.encoding.beside(out).read_text(encoding="utf-8"))
    inactive = [one["name"] for one in about["latents"] if one["active"] is False]
    if as_json:
        print_json({"codes": out, "images": count, "inactive": inactive})
        return
    beside = karenina.fitting.encoding.beside(out)
    say(f"wrote the codes of {count:,} images to {out}, and what is known of their latents to {beside}")
    if inactive:
        below = f"not active (a KL of at most {about['kl_threshold']:g} nats): they carry nothing"
        say(f"{len(inactive)} of {len(about['latents'])} latents are {below}: {', '.join(inactive)}")


def export(
    run: Annotated[Path, typer.Argument(help="A run directory, or a fit, whose chosen model is used.")],
    to: Annotated[str, typer.Option(help="onnx, torchscript or hub.")] = "onnx",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("exported"),
    as_json: Json = False,
) -> None:
    """Write a model for other programs.

    As ONNX, as TorchScript, or as a folder for the Hugging Face hub.
    """
    files = list(karenina.fitting.export.export(run, out, to))
    if as_json:
        print_json({"files": files})
        return
    for path in files:
        say(f"wrote {path}")
