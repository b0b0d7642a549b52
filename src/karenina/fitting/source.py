"""The images of a fit: opened at a size that can be trained on, with a network to match."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from karenina.data import DataSet, load, names
from karenina.data.naming import split_name
from karenina.data.own import Size
from karenina.data.streaming import Images, Survey, array_set, survey

# The longer side to which images are brought. Fully connected networks, which train many at a time on a CPU, see small
# images; convolutions are for devices on which they are cheap.
CPU_SIDES = (32, 24, 16)
GPU_SIDE = 64


@dataclass(frozen=True)
class Source:
    """Images of a fit. options: of `karenina.load` (size, ...). said: what was done to them, in sentences."""

    data: DataSet
    network: str
    options: dict[str, Any]
    said: tuple[str, ...]


def open_source(
    images: Images, *, longest: int, device: str, size: Size | None = None, network: str = "auto"
) -> Source:
    """Open images at a size and with a network that suit them.

    longest: the longer side that they are brought to, unless `size` is given or they are smaller.
    """
    found = survey(images)
    said: list[str] = []
    target = _size(found, longest, size, device, said) if _resizable(images) else None
    options: dict[str, Any] = {} if target is None else {"size": target}
    data = _open(images, options)
    if network == "auto":
        square = data.image_shape[1:] in ((64, 64), (32, 32))
        pixels = int(np.prod(data.image_shape))
        network = "auto" if device != "cpu" and square else "mlp" if pixels <= 300 else "mlp256"
    if found.alpha:
        said.append(f"{_count(found.alpha, 'file')} with transparency: it is dropped.")
    if found.sixteen_bits:
        said.append(f"{_count(found.sixteen_bits, 'file')} with 16 bits: read as 8.")
    return Source(data, network, options, tuple(said))


def _open(images: Images, options: dict[str, Any]) -> DataSet:
    if isinstance(images, DataSet):
        return images
    if isinstance(images, str | os.PathLike):
        return load(images, **options)
    return array_set(images, **options)


def _size(found: Survey, longest: int, size: Size | None, device: str, said: list[str]) -> Any:
    """The (height, width) to which images are resized, or None for as they are."""
    if size is not None:
        return size
    (height, width), _ = found.sizes.most_common(1)[0]
    if len(found.sizes) > 1:
        heights, widths = (np.repeat([s[i] for s in found.sizes], list(found.sizes.values())) for i in (0, 1))
        height, width = int(np.median(heights)), int(np.median(widths))
        shapes = f"{len(found.sizes)} sizes, from {_by(min(found.sizes))} to {_by(max(found.sizes))}"
        said.append(f"Images of {shapes}: all are resized, which distorts those of another shape.")
    if device != "cpu" and max(height, width) >= 32:
        target = (GPU_SIDE, GPU_SIDE) if max(height, width) >= GPU_SIDE else (32, 32)
    elif max(height, width) > longest:
        scale = longest / max(height, width)
        target = (max(round(height * scale), 1), max(round(width * scale), 1))
    else:
        target = (height, width)
    if len(found.sizes) == 1 and target == (height, width):
        return None
    if target != (height, width):
        said.append(f"Brought to {_by(target)} pixels from {_by((height, width))}; --size changes that.")
    return f"{target[0]}x{target[1]}"


def _resizable(images: Images) -> bool:
    """Whether the size is ours to choose: not of a data set known by name, nor where it was given with the path."""
    if isinstance(images, DataSet):
        return False
    if not isinstance(images, str | os.PathLike):
        return True
    text = str(images)
    name, options = (text, {}) if text in names() or Path(text).exists() else split_name(text)
    return name not in names() and "size" not in options


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
