"""A guess of what a latent means: by labels where there are some, otherwise one word for what it does to a picture."""

import numpy as np
from numpy.typing import NDArray

LEAST = 0.1  # of a factor's entropy: a latent that tells less of every factor has no name
MOVES = ("left-right", "up-down", "size", "turn")
UNCLEAR = "shape"


def by_labels(
    information: NDArray[np.float64], names: tuple[str, ...], active: NDArray[np.bool_]
) -> list[tuple[str, float] | None]:
    """For each latent the factor of which it tells most, and how much of its entropy.

    information: (factors, latents), as `normalised_information` gives it. None for latents that are inactive; the name
    is "" where a latent tells little of every factor.

    >>> by_labels(np.array([[0.9, 0.0], [0.0, 0.9]]), ("x", "y"), np.array([True, False]))
    [('x', 0.9), None]
    """
    found: list[tuple[str, float] | None] = []
    for column, on in zip(information.T, active):
        best = int(np.argmax(column))
        found.append((names[best] if column[best] >= LEAST else "", float(column[best])) if on else None)
    return found


def by_pictures(images: NDArray[np.floating]) -> str:
    """One word for a traversal (steps, c, h, w): brightness, colour, left-right, up-down, size, turn; else shape.

    Changes from step to step are regressed on what each word would do to the picture: adding a constant (to all
    channels, or to each), and the picture's derivatives along a shift, a scaling about its centre, a rotation. The word
    that explains most of the change wins, if that is at least a third.

    >>> by_pictures(np.linspace(0, 1, 5)[:, None, None, None] * np.ones((5, 1, 8, 8)))
    'brightness'
    """
    pictures = np.asarray(images, float)
    change = np.diff(pictures, axis=0)
    total = float((change**2).sum())
    if total == 0:
        return UNCLEAR
    fields = _fields(0.5 * (pictures[1:] + pictures[:-1]))
    explained = {word: sum(map(_explained, change, field)) / total for word, field in zip(MOVES, fields)}
    flat = change.mean(axis=(1, 2, 3), keepdims=True)
    explained["brightness"] = float((flat**2 * np.ones_like(change)).sum()) / total
    if change.shape[1] == 3:
        hue = change.mean(axis=(2, 3), keepdims=True) - flat
        explained["colour"] = float((hue**2 * np.ones_like(change)).sum()) / total
    best = max(explained, key=lambda word: explained[word])
    return best if explained[best] >= 1 / 3 else UNCLEAR


def _explained(change: NDArray[np.float64], field: NDArray[np.float64]) -> float:
    """The part of |change|^2 in the direction of the field."""
    size = float((field**2).sum())
    return float((change * field).sum()) ** 2 / size if size > 0 else 0.0


def _fields(pictures: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """What shifts along x and y, a scaling and a rotation about the centre of what stands out do to (n, c, h, w)."""
    n, _, h, w = pictures.shape
    down, across = np.gradient(pictures, axis=(2, 3))
    weight = np.abs(pictures - np.median(pictures, axis=(2, 3), keepdims=True)).sum(axis=1) + 1e-12
    y, x = np.mgrid[:h, :w].astype(float)
    sums = weight.sum(axis=(1, 2))
    centre = [((weight * grid).sum(axis=(1, 2)) / sums).reshape(n, 1, 1, 1) for grid in (y, x)]
    dy, dx = y - centre[0], x - centre[1]
    return [across, down, dx * across + dy * down, dx * down - dy * across]
