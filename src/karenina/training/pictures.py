"""What a model has learnt, to look at: latent traversals and reconstructions, as PNG (or PDF, SVG) and GIF."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL
from karenina._files import atomic
from karenina.models.objectives import QuantisedAutoencoder

if TYPE_CHECKING:
    from karenina.training.run import Run


def prior_span(run: "Run", deviations: float = 2.0) -> float:
    """How far from 0 to move a latent: that many standard deviations of the prior, or to the bound of a bounded one.

    Where codes are rounded to values that are learned (qlae), to the farthest of these.
    """
    from karenina.training.methods import of_run

    if isinstance(run.module, QuantisedAutoencoder):
        return float(run.module.codebook.values.detach().abs().max())
    return of_run(run.config.method).bound or deviations


def mosaic(images: NDArray[np.float32], bright: NDArray[np.bool_] | None = None, gap: int = 1) -> NDArray[np.float32]:
    """Images (rows, columns, c, h, w) as one (c, H, W), with lines between; rows that are not `bright` are faded."""
    rows, columns, c, h, w = images.shape
    if bright is not None:
        faded = 0.75 + 0.25 * (images - 0.5)
        images = np.where(bright[:, None, None, None, None], images, faded)
    out = np.full((rows, columns, c, h + gap, w + gap), 0.5, dtype=np.float32)
    out[..., :h, :w] = images
    return out.transpose(2, 0, 3, 1, 4).reshape(c, rows * (h + gap), columns * (w + gap))


@dataclass(frozen=True, eq=False)
class Traversal:
    """Decoded images while one latent moves and the others stay, as in figures 3 and 9 to 17 of Duan et al. (2020).

    Attributes
    ----------
    images : (L, steps, c, h, w), in [0, 1]; latents in the order of `order`
    values : (L, steps), the values of the moving latent
    order : (L,), latents by falling KL
    kl : (L,), in that order
    informative : (L,) bool, in that order
    names : L words below the numbers of the latents, in that order; () for none
    """

    images: NDArray[np.float32]
    values: NDArray[np.float64]
    order: NDArray[np.int64]
    kl: NDArray[np.float64]
    informative: NDArray[np.bool_]
    names: tuple[str, ...] = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """One row per latent; rows of inactive latents are greyed. A .gif moves all latents at once instead."""
        if Path(path).suffix.lower() == ".gif":
            _save_gif(self, path)
        else:
            _save_rows(self, path)


def traverse(
    run: "Run",
    images: ArrayLike,
    *,
    around: int = 0,
    steps: int = 11,
    span: str = "prior",
    deviations: float = 2.0,
    kl: ArrayLike | None = None,
    kl_threshold: float = ACTIVE_KL,
) -> Traversal:
    """Move each latent of image number `around` while the others stay.

    Parameters
    ----------
    run : Run
    images : (n, c, h, w), from which KL and the range of each latent are estimated; a few hundred are enough
    around : index of the image whose codes the other latents keep
    steps : int, values per latent
    span : {"prior", "posterior"}
        "prior" moves over so many `deviations` of the prior, [-2, 2] (InfoGAN: [-1, 1], where all of its codes lie;
        QLAE: as far as its learned values), "posterior" from the 1st to the 99th percentile of the latent's mean codes.
    kl : (L,), the KL of each latent, if it is known from more images than these
    kl_threshold : float, a latent is active if its KL exceeds this (nats)
    """
    if span not in ("prior", "posterior"):
        raise ValueError(f"span must be prior or posterior, got {span!r}")
    if steps < 2:
        raise ValueError(f"a traversal needs at least 2 steps, got {steps}")
    mean, logvar = run.encode(images)
    if not 0 <= around < len(mean):
        raise ValueError(f"around = {around}, but there are {len(mean)} images")
    kl = run.kl_of(mean, logvar) if kl is None else np.asarray(kl, float)
    if kl.shape != mean.shape[1:]:
        raise ValueError(f"kl must have shape {mean.shape[1:]}, one number per latent; got {kl.shape}")
    order = np.argsort(-kl, kind="stable")
    end = prior_span(run, deviations)
    low, high = (-end, end) if span == "prior" else np.quantile(mean, [0.01, 0.99], axis=0)[:, order]
    values = np.linspace(np.broadcast_to(low, len(kl)), np.broadcast_to(high, len(kl)), steps, axis=1)
    codes = np.tile(mean[around], (len(kl), steps, 1))
    for row, latent in enumerate(order):
        codes[row, :, latent] = values[row]
    pictures = run.decode(codes.reshape(-1, len(kl)))
    shape = (len(kl), steps, *pictures.shape[1:])
    return Traversal(pictures.reshape(shape), values, order, kl[order], kl[order] > kl_threshold)


def save_reconstructions(run: "Run", images: ArrayLike, path: str | os.PathLike[str]) -> None:
    """Images above, what the model makes of them below."""
    from karenina._figures import Figure

    given = np.asarray(images)
    shown = given / 255 if given.dtype == np.uint8 else given
    made = run.decode(run.encode(given)[0])
    figure = Figure(figsize=(0.9 * len(given) + 1.1, 2.2), dpi=110)
    axes = figure.subplots(2, len(given), squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    figure.subplots_adjust(left=1.05 / figure.get_figwidth(), right=0.99, top=0.97, bottom=0.03)
    for line, row, label in zip(axes, (shown, made), ("image", "reconstruction")):
        for axis, image in zip(line, row):
            _show(axis, image)
        line[0].text(-0.1, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=8)
    with atomic(path) as part:
        figure.savefig(part)


def _show(axis: Any, image: NDArray[Any], alpha: float = 1.0) -> None:
    axis.axis("off")
    axis.imshow(image[0] if len(image) == 1 else image[:3].transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1, alpha=alpha)


def _save_rows(traversal: Traversal, path: str | os.PathLike[str]) -> None:
    from karenina._figures import Figure

    latents, steps = traversal.images.shape[:2]
    figure = Figure(figsize=(1.5 + 0.7 * steps, 0.4 + 0.7 * latents), dpi=110)
    axes = figure.subplots(latents, steps, squeeze=False, gridspec_kw={"wspace": 0.05, "hspace": 0.05})
    figure.subplots_adjust(
        left=1.4 / figure.get_figwidth(), right=0.99, bottom=0.01, top=1 - 0.3 / figure.get_figheight()
    )
    for row, line in enumerate(axes):
        alive = bool(traversal.informative[row])
        for axis, image in zip(line, traversal.images[row]):
            _show(axis, image, 1.0 if alive else 0.25)
        label = f"latent {traversal.order[row]}\nKL {abs(traversal.kl[row]):.2f}"
        label += f"\n{traversal.names[row]}" if traversal.names else ""
        colour = "black" if alive else "#999999"
        line[0].text(-0.15, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=8, color=colour)
    for axis, value in zip(axes[0], traversal.values[0]):
        axis.set_title(f"{value:+.1f}", fontsize=7)
    with atomic(path) as part:
        figure.savefig(part)


def _save_gif(traversal: Traversal, path: str | os.PathLike[str]) -> None:
    """There and back again: the latents side by side under their names, inactive ones dimmed; a bar shows the value."""
    from PIL import Image, ImageDraw, ImageFont

    latents, steps, c, h, w = traversal.images.shape
    enlarge = max(1, 96 // w)
    wide, tall = enlarge * w, enlarge * h
    font = ImageFont.load_default(size=12)
    titles = [f"latent {latent}" for latent in traversal.order]
    texts = list(zip(titles, traversal.names or [""] * latents))
    columns = min(latents, 5)
    gap, head, bar = 10, 34 if traversal.names else 20, 8
    cell = max(wide, 96) + gap, head + tall + bar + gap
    size = (columns * cell[0] + gap, -(-latents // columns) * cell[1] + gap)
    frames = []
    for step in [*range(steps), *range(steps - 2, 0, -1)]:
        frame = Image.new("RGB" if c == 3 else "L", size, "white")
        pen = ImageDraw.Draw(frame)
        for i, (image, words, alive) in enumerate(zip(traversal.images[:, step], texts, traversal.informative)):
            x, y = gap + i % columns * cell[0], gap + i // columns * cell[1]
            ink = "black" if alive else "#999999"
            for line, word in enumerate(words):
                pen.text((x, y + 15 * line), _fitting(word, font, cell[0] - 4), fill=ink, font=font)
            shown = image[:3] if alive else 0.8 + 0.2 * (image[:3] - 0.5)
            pixels = np.round(255 * shown).clip(0, 255).astype(np.uint8).repeat(enlarge, axis=1).repeat(enlarge, axis=2)
            frame.paste(Image.fromarray(pixels[0] if c != 3 else pixels.transpose(1, 2, 0)), (x, y + head))
            at = x + round((wide - 7) * step / (steps - 1))
            pen.line((x, y + head + tall + 5, x + wide - 1, y + head + tall + 5), fill="#cccccc")
            pen.rectangle((at, y + head + tall + 2, at + 6, y + head + tall + 8), fill=ink)
        frames.append(frame)
    with atomic(path) as part:
        frames[0].save(part, format="GIF", save_all=True, append_images=frames[1:], duration=100, loop=0)


def _fitting(word: str, font: Any, room: float) -> str:
    """The word, or as much of it as there is room for."""
    while len(word) > 1 and font.getlength(word) > room:
        word = f"{word[:-2]}…"
    return word
