"""An episode as an animation."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from karenina._files import atomic
from karenina.tasks.clustering.sprites import FACTORS, Floats, render


def animation(
    path: str | Path, scenes: Sequence[Floats], actions: ArrayLike = (), *, side: int = 128, ms: int = 300
) -> None:
    """Write scenes (t, sprites, 7) as a GIF; the click of each of the actions (t - 1, 4) is a white cross in the frame
    before it. Anything but a list of scenes of one size raises."""
    from PIL import Image

    frames_of = np.asarray(scenes, float)
    if frames_of.ndim != 3 or frames_of.shape[-1] != len(FACTORS) or not len(frames_of):
        raise ValueError(f"scenes must have shape (t, sprites, {len(FACTORS)}), got {frames_of.shape}")
    images = np.ascontiguousarray(render(frames_of, side).transpose(0, 2, 3, 1))
    arm = max(side // 32, 1)
    for image, action in zip(images, np.asarray(actions, float).reshape(-1, 4)):
        x, y = np.minimum((action[:2] * side).astype(int), side - 1)
        image[max(y - arm, 0) : y + arm + 1, x] = 255
        image[y, max(x - arm, 0) : x + arm + 1] = 255
    pictures = [Image.fromarray(image) for image in images]
    with atomic(path) as part:
        pictures[0].save(part, format="GIF", save_all=True, append_images=pictures[1:], duration=ms, loop=0)
