"""The page of a fit: the answer, what to know, each active latent with its pictures and a box for its name."""

import os
import shlex
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._active import CLEAR_KL
from karenina._files import write_text
from karenina.data import DataSet
from karenina.drawing.pictures import animation, mosaic, move_latents, picture, reconstruct
from karenina.fitting.answer import Fit, first_sentence
from karenina.fitting.folder import PAGE, read_names
from karenina.pages.template import fill
from karenina.selection.choice import CARE, FAIR
from karenina.training.run import Run

POOL = 5000  # images among which those at the extremes of a latent are sought
NEAREST = 6
FRAMES = 13
_STRIP = 9


def write_page(fit: Fit, data: DataSet, images: Any) -> None:
    """Write the page of a fit into its folder: one file that carries everything."""
    run = fit.best
    answer = fit.answer
    given = shlex.quote(os.fspath(images)) if isinstance(images, str | os.PathLike) else "IMAGES"
    out = shlex.quote(str(fit.path))
    both = None
    if run is not None:
        both = picture(mosaic(reconstruct(run, data.sample(10, np.random.default_rng(1))[0])))
    values = {
        "title": f"A model of {data.name.split(':')[0]}",
        "headline": first_sentence(answer),
        "verdict": fit.verdict,
        "colour": {FAIR: "fair", CARE: "care"}.get(fit.verdict.level, "none"),
        "advice": fit.advice,
        "answer": answer,
        "look": answer["look"],
        "latents": latents_of(run, data, fit) if run is not None else (),
        "reconstructions": both,
        "ranking": fit.ranking.to_dict("records"),
        "chosen": answer["run"].rsplit("/", 1)[-1] if answer["run"] else "",
        "threshold": CLEAR_KL,
        "commands": _commands(answer, out, given),
        "where": str(fit.path / "names.json"),
        "data": {"format": 1, "run": answer["run"], "weights": answer.get("weights")},
    }
    ours, theirs = (files(f"karenina.{folder}") / "assets" for folder in ("fitting", "pages"))
    styles = [theirs / "page.css", ours / "fit.css"]
    write_text(fit.path / PAGE, fill(ours / "fit.html.j2", values, styles, [ours / "fit.js"]))


def _commands(answer: dict[str, Any], out: str, given: str) -> list[str]:
    """Return what to do next: those of the commands that have something to work on."""
    found = [f"karenina fit {given} --out {out} --time 2h      # continues, with more models or longer ones"]
    if answer["run"]:
        found.append(f"karenina encode {out} {given} --out codes.parquet")
        found.append(f"karenina export {out} --to onnx --out exported")
    if answer["models"]:
        found.append(f"karenina report {out} --data {given}")
    return found


def latents_of(run: Run, data: DataSet, fit: Fit) -> list[dict[str, Any]]:
    """Return each active latent, the largest KL first: an animation, decoded images, and real images at its ends."""
    pool = data.sample(POOL, np.random.default_rng(0))[0]
    codes = run.encode(pool)[0]
    kl = np.array(fit.answer["kl"])
    active = kl > CLEAR_KL
    names = known_names(run, fit)
    start = typical(codes, active)
    found = []
    for latent in np.argsort(-kl, kind="stable"):
        if not active[latent]:
            continue
        low, high = np.quantile(codes[:, latent], [0.01, 0.99])
        reach = run.prior_span()
        low, high = max(low, -2 * reach), min(high, 2 * reach)
        frames = move_latents(run, start, [latent], [np.linspace(low, high, FRAMES)])[0]
        ends = [pool[nearest(codes, start, int(latent), float(end), active)] for end in (low, high)]
        found.append(
            {
                "latent": int(latent),
                "kl": float(kl[latent]),
                "name": names.get(int(latent), ""),
                "animation": animation(frames),
                "strip": picture(mosaic(frames[None, np.linspace(0, FRAMES - 1, _STRIP).round().astype(int)])),
                "low": picture(mosaic(np.divide(ends[:1], 255, dtype=np.float32))),
                "high": picture(mosaic(np.divide(ends[1:], 255, dtype=np.float32))),
                "range": (float(low), float(high)),
            }
        )
    return found


def known_names(run: Run, fit: Fit) -> dict[int, str]:
    """Return the names that were given before; none where they are of another model."""
    try:
        return read_names(fit.path, run.latents, fit.answer["weights"])
    except ValueError:
        return {}


def typical(codes: NDArray[np.float32], active: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the codes of the image that is nearest to the middle of all: a real one, so that its decode looks real."""
    scale = np.maximum(codes.std(0), 1e-6)
    away = (((codes - np.median(codes, axis=0)) / scale)[:, active] ** 2).sum(1)
    return codes[int(away.argmin())]


def nearest(
    codes: NDArray[np.float32], start: NDArray[np.float32], latent: int, value: float, active: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the rows whose codes are nearest to `start` with this latent at `value`, by deviations of the latents.

    The moved latent counts as much as all others together: these are images at the extreme, and otherwise alike.

    >>> z = np.array([[0.0, 0.0], [3.0, 0.1], [3.0, 5.0], [1.0, 0.0]], np.float32)
    >>> nearest(z, z[0], 0, 3.0, np.array([True, True]))[:2].tolist()
    [1, 3]
    """
    scale = np.maximum(codes.std(0), 1e-6)
    target = start.copy()
    target[latent] = value
    away = ((codes - target) / scale) ** 2
    weights = np.where(active, 1.0, 0.0)
    weights[latent] = max(active.sum() - 1, 1)
    return np.argsort((away * weights).sum(1), kind="stable")[:NEAREST]
