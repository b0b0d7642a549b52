"""blobs: a tiny set on which models disentangle in seconds.

A soft disc on a grey ground, 16x16. Its four factors carry clearly different amounts of information (a VAE spends about
2.1, 1.6, 1.1 and 0.7 nats on them), because VAEs align their latents with directions of different variance; sets whose
factors are alike stay entangled.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from karenina.data.dataset import DataSet, FactorGrid

GRID = FactorGrid(("background", "x", "y", "radius"), (8, 8, 8, 6))


@cache
def _all_images() -> NDArray[np.uint8]:
    """Return the images of the whole grid (3072, 1, 16, 16), 0.8 MB: to look them up is faster than to draw them."""
    u = GRID.rows(np.arange(len(GRID))) / (np.array(GRID.sizes) - 1)
    background, x, y, radius = (column[:, None, None] for column in u.T)
    centres = (np.arange(16) + 0.5) / 16 * 2 - 1
    distance = np.hypot(centres - 1.3 * (x - 0.5), centres[:, None] - 0.4 * (y - 0.5))
    opacity = 1 / (1 + np.exp(-12 * (0.2 + 0.2 * radius - distance)))
    image = opacity + (1 - opacity) * (0.1 + 0.3 * background)
    return np.round(255 * image).astype(np.uint8)[:, None]


def blobs() -> DataSet:
    images = _all_images()
    return DataSet("blobs", GRID, (1, 16, 16), lambda rows, rng: images[GRID.index_of_checked(rows)])
