"""What a model has learnt, to look at: traversals and reconstructions, as arrays, as files, and as bytes for a page."""

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL
from karenina._files import atomic

INACTIVE = "#999999"  # the colour of what is said of inactive latents


class TrainedModel(Protocol):
    """What is drawn: a trained model, such as a `karenina.training.Run`."""

    def encode(self, images: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]: ...

    def kl_of(self, mean: NDArray[np.float32], logvar: NDArray[np.float32]) -> NDArray[np.float64]: ...

    def prior_span(self, deviations: float = 2.0) -> float: ...


def move_latents(
    model: TrainedModel, start: NDArray[np.float32], latents: ArrayLike, values: ArrayLike
) -> NDArray[np.float32]:
    """Return images (k, steps, c, h, w): each of k latents takes its values (k, steps), the others stay at `start`."""
    moving, positions = np.asarray(latents), np.asarray(values)
    codes = np.tile(start, (*positions.shape, 1))
    for row, latent in enumerate(moving):
        codes[row, :, latent] = positions[row]
    images = model.decode(codes.reshape(-1, len(start)))
    return images.reshape(*positions.shape, *images.shape[1:])


def traverse_prior(
    model: TrainedModel, start: NDArray[np.float32], latents: NDArray[np.int64], steps: int
) -> NDArray[np.float32]:
    """Return images (k, steps, c, h, w): each of k latents moves over its prior, the others stay at `start`."""
    span = model.prior_span()
    return move_latents(model, start, latents, np.tile(np.linspace(-span, span, steps), (len(latents), 1)))


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
        """Write one row per latent; rows of inactive latents are greyed. A .gif moves all latents at once instead."""
        if Path(path).suffix.lower() == ".gif":
            with atomic(path) as part:
                part.write_bytes(to_gif(_frames(self), 100))
        else:
            _save_rows(self, path)


def traverse(
    run: TrainedModel,
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

    Returns
    -------
    Traversal
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
    end = run.prior_span(deviations)
    low, high = (-end, end) if span == "prior" else np.quantile(mean, [0.01, 0.99], axis=0)[:, order]
    values = np.linspace(np.broadcast_to(low, len(kl)), np.broadcast_to(high, len(kl)), steps, axis=1)
    moved = move_latents(run, mean[around], order, values)
    return Traversal(moved, values, order, kl[order], kl[order] > kl_threshold)


def reconstruct(
    model: TrainedModel, images: ArrayLike, codes: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return images in [0, 1] and what a model makes of them (2, n, c, h, w).

    images: (n, c, h, w), uint8 or in [0, 1]. codes: those of the images, where they are known.
    """
    originals = np.asarray(images)
    shown = originals.astype(np.float32) / 255 if originals.dtype == np.uint8 else originals
    return np.stack([shown, model.decode(model.encode(originals)[0] if codes is None else codes)])


def save_reconstructions(run: TrainedModel, images: ArrayLike, path: str | os.PathLike[str]) -> None:
    """Draw images above, what the model makes of them below."""
    from karenina.drawing.figure import Figure

    rows = reconstruct(run, images)
    count = rows.shape[1]
    figure = Figure(figsize=(0.9 * count + 1.1, 2.2), dpi=110)
    axes = figure.subplots(2, count, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    figure.subplots_adjust(left=1.05 / figure.get_figwidth(), right=0.99, top=0.97, bottom=0.03)
    for line, row, label in zip(axes, rows, ("image", "reconstruction")):
        for axis, image in zip(line, row):
            axis.axis("off")
            show(axis, image)
        line[0].text(-0.1, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=8)
    with atomic(path) as part:
        figure.savefig(part)


def mosaic(images: NDArray[np.float32], bright: NDArray[np.bool_] | None = None, gap: int = 1) -> NDArray[np.float32]:
    """Return images (rows, columns, c, h, w) as one (c, H, W), with lines between; rows not `bright` are faded."""
    rows, columns, c, h, w = images.shape
    if bright is not None:
        faded = 0.75 + 0.25 * (images - 0.5)
        images = np.where(bright[:, None, None, None, None], images, faded)
    out = np.full((rows, columns, c, h + gap, w + gap), 0.5, dtype=np.float32)
    out[..., :h, :w] = images
    return out.transpose(2, 0, 3, 1, 4).reshape(c, rows * (h + gap), columns * (w + gap))


def _with_channels_last(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return an image (c, h, w) as (h, w, 3) where it has colours, else its first channel (h, w)."""
    return pixels[:3].transpose(1, 2, 0) if len(pixels) > 2 else pixels[0]


def show(axis: Any, pixels: NDArray[Any], alpha: Any = None) -> None:
    """Draw an image (c, h, w) in [0, 1] on an axis without ticks."""
    axis.imshow(_with_channels_last(pixels), cmap="gray", vmin=0, vmax=1, alpha=alpha)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.tick_params(length=0)


def show_rows(
    axis: Any, pixels: NDArray[Any], names: Sequence[object] | NDArray[Any], size: float, alpha: Any = None
) -> None:
    """Draw a mosaic (c, h, w), and the name of each of its rows beside it."""
    show(axis, pixels, alpha)
    side = pixels.shape[1] / len(names)
    axis.set_yticks(side * (np.arange(len(names)) + 0.5), names, fontsize=size)


def to_image(pixels: NDArray[Any], enlarge: int = 1) -> Any:
    """Return an image (c, h, w) in [0, 1] as one of Pillow, each pixel so many times as wide and high."""
    from PIL import Image

    values = np.round(255 * pixels).clip(0, 255).astype(np.uint8).repeat(enlarge, axis=1).repeat(enlarge, axis=2)
    return Image.fromarray(np.ascontiguousarray(_with_channels_last(values)))


def to_gif(frames: Sequence[Any], milliseconds: int) -> bytes:
    """Return the GIF that shows each of Pillow's images for so long, over and over."""
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return buffer.getvalue()


def embed(content: bytes, kind: str) -> str:
    """Return an image file ("png", "webp", "gif") as an address that a page can carry."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def picture(pixels: NDArray[np.floating], bright: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Return an image (c, h, w) in [0, 1] as {"src", "width", "height"}: lossless where it is small, otherwise WebP.

    bright: for rows of equal height, whether each is shown in full; the others let the page shine through.
    """
    from PIL import Image

    image = to_image(pixels)
    if bright is not None and not bright.all():
        alpha = np.repeat(np.where(bright, 255, 70).astype(np.uint8), image.height // len(bright))
        image.putalpha(Image.fromarray(np.tile(alpha[:, None], (1, image.width))))
    kind = "webp" if image.width * image.height > 40_000 else "png"
    buffer = io.BytesIO()
    if kind == "webp":
        image.convert("RGBA" if image.mode.endswith("A") else "RGB").save(buffer, "WEBP", quality=90, method=2)
    else:
        image.save(buffer, "PNG", optimize=False)
    return {"src": embed(buffer.getvalue(), kind), "width": image.width, "height": image.height}


def animation(frames: NDArray[np.float32]) -> dict[str, Any]:
    """Return frames (n, c, h, w) in [0, 1], there and back again, as {"src", "width", "height"} of a GIF."""
    enlarge = max(1, 96 // max(frames.shape[-2:]))
    images = [to_image(frame, enlarge) for frame in np.concatenate([frames, frames[-2:0:-1]])]
    return {"src": embed(to_gif(images, 90), "gif"), "width": images[0].width, "height": images[0].height}


def _save_rows(traversal: Traversal, path: str | os.PathLike[str]) -> None:
    """Draw one row of images per latent."""
    from karenina.drawing.figure import Figure

    latents, steps = traversal.images.shape[:2]
    figure = Figure(figsize=(1.5 + 0.7 * steps, 0.4 + 0.7 * latents), dpi=110)
    axes = figure.subplots(latents, steps, squeeze=False, gridspec_kw={"wspace": 0.05, "hspace": 0.05})
    figure.subplots_adjust(
        left=1.4 / figure.get_figwidth(), right=0.99, bottom=0.01, top=1 - 0.3 / figure.get_figheight()
    )
    for row, line in enumerate(axes):
        active = bool(traversal.informative[row])
        for axis, image in zip(line, traversal.images[row]):
            axis.axis("off")
            show(axis, image, 1.0 if active else 0.25)
        label = f"latent {traversal.order[row]}\nKL {abs(traversal.kl[row]):.2f}"
        label += f"\n{traversal.names[row]}" if traversal.names else ""
        ink = "black" if active else INACTIVE
        line[0].text(-0.15, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=8, color=ink)
    for axis, value in zip(axes[0], traversal.values[0]):
        axis.set_title(f"{value:+.1f}", fontsize=7)
    with atomic(path) as part:
        figure.savefig(part)


def _frames(traversal: Traversal) -> list[Any]:
    """Return frames there and back: latents side by side under their names, inactive ones dimmed, with a bar for the
    value."""
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
        frame = Image.new("RGB" if c > 2 else "L", size, "white")
        pen = ImageDraw.Draw(frame)
        for i, (image, words, active) in enumerate(zip(traversal.images[:, step], texts, traversal.informative)):
            x, y = gap + i % columns * cell[0], gap + i // columns * cell[1]
            ink = "black" if active else INACTIVE
            for line, word in enumerate(words):
                pen.text((x, y + 15 * line), _fitting(word, font, cell[0] - 4), fill=ink, font=font)
            frame.paste(to_image(image if active else 0.8 + 0.2 * (image - 0.5), enlarge), (x, y + head))
            at = x + round((wide - 7) * step / (steps - 1))
            pen.line((x, y + head + tall + 5, x + wide - 1, y + head + tall + 5), fill="#cccccc")
            pen.rectangle((at, y + head + tall + 2, at + 6, y + head + tall + 8), fill=ink)
        frames.append(frame)
    return frames


def _fitting(word: str, font: Any, room: float) -> str:
    """Return the word, cut at the end if there is no room for all of it."""
    while len(word) > 1 and font.getlength(word) > room:
        word = f"{word[:-2]}…"
    return word
