"""A picture of a data set: one row per factor, that factor varied and the others fixed."""

import os

import numpy as np
from numpy.typing import NDArray

from karenina._files import atomic
from karenina.data.dataset import DataSet, FactorGrid, TableDataSet


def traversals(data: DataSet, columns: int = 10, seed: int = 0) -> list[tuple[str, NDArray[np.uint8]]]:
    """(label, images (m, c, h, w)) for every factor: m evenly spaced values of it, the other factors fixed.

    Data without a grid of factors gives rows of random images instead.
    """
    rng = np.random.default_rng(seed)
    if isinstance(data, TableDataSet):
        rows = min(4, -(-len(data) // columns))
        order = rng.permutation(len(data))[: rows * columns]
        return [("", data.at(part)) for part in np.array_split(order, rows)]
    # Somewhere in the middle, not the middle itself: colours that are all alike would hide what each factor does.
    middle = rng.uniform(0.2, 0.8, len(data.factor_names))
    if isinstance(data.factors, FactorGrid):
        values = [
            np.unique(np.linspace(0, size - 1, min(columns, size)).round().astype(int)) for size in data.factors.sizes
        ]
        base = np.round(middle * (np.array(data.factors.sizes) - 1)).astype(int)
    else:
        # Half a step in from both ends: the ends of an angle are the same picture.
        step = (np.arange(columns) + 0.5) / columns
        values = [low + step * (high - low) for low, high in zip(data.factors.low, data.factors.high)]
        base = data.factors.low + middle * np.subtract(data.factors.high, data.factors.low)
    rows_of_images = []
    for j, (name, row_values) in enumerate(zip(data.factor_names, values)):
        factors = np.repeat(base[None], len(row_values), axis=0)
        factors[:, j] = row_values
        size = data.factor_sizes[j]
        rows_of_images.append((f"{name}\n{f'{size} values' if size else 'continuous'}", data.images(factors, seed)))
    return rows_of_images


def draw_sheet(data: DataSet, path: str | os.PathLike[str], *, columns: int = 10, seed: int = 0) -> None:
    """Write the labelled contact sheet of a data set as PNG (or PDF or SVG, by the ending of `path`)."""
    from karenina.drawing.figure import Figure

    rows = traversals(data, columns, seed)
    c, h, w = data.image_shape
    width = max(len(images) for _, images in rows)
    figure = Figure(figsize=(1.4 + 0.8 * width, 0.6 + 0.8 * len(rows) * h / w), dpi=120)
    axes = figure.subplots(len(rows), width, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    figure.subplots_adjust(
        left=1.3 / figure.get_figwidth(), right=0.99, bottom=0.02, top=1 - 0.4 / figure.get_figheight()
    )
    for (label, images), line in zip(rows, axes):
        for axis in line:
            axis.axis("off")
        for axis, image in zip(line, images):
            axis.imshow(image[0] if c == 1 else image[:3].transpose(1, 2, 0), cmap="gray", vmin=0, vmax=255)
        line[0].text(-0.15, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=9)
    figure.suptitle(f"{data.name} ({data.source})", fontsize=10)
    with atomic(path) as part:
        figure.savefig(part)
