"""The user's own images without keeping them: what a folder or file holds, and its images in blocks of one shape."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.data import DataSet, load, names, own_path
from karenina.data._rows import memory_rows
from karenina.data.dataset import TableDataSet
from karenina.data.naming import split_name
from karenina.data.own import (
    ConvertRows,
    LoadImage,
    Size,
    Stored,
    _channel_axis,
    _decoded,
    _pair,
    image_files,
    image_heads,
    stored,
)
from karenina.data.own import array_set as own_set

_BLOCK = 1024
_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")
_SIXTEEN_BITS = ("I", "I;16", "I;16L", "I;16B")

Images = DataSet | str | os.PathLike[str] | NDArray[Any]


@dataclass(frozen=True)
class Survey:
    """What a folder, file, array or data set holds, before any image is decoded.

    sizes: (height, width) -> images. modes: of image files, Pillow's word -> files. grey: whether all are grey.
    animated: files with several frames, of which the first is taken.
    """

    count: int
    sizes: Counter[tuple[int, int]]
    modes: Counter[str]
    grey: bool
    animated: int = 0

    @property
    def alpha(self) -> int:
        """Files with transparency, which is dropped."""
        return sum(self.modes[mode] for mode in _ALPHA)

    @property
    def sixteen_bits(self) -> int:
        return sum(self.modes[mode] for mode in _SIXTEEN_BITS)


def survey(images: Images) -> Survey:
    """What there is to read: from the heads of files and arrays alone.

    >>> survey(np.zeros((5, 8, 6, 3), np.uint8))
    Survey(count=5, sizes=Counter({(8, 6): 5}), modes=Counter(), grey=False, animated=0)
    """
    if isinstance(images, DataSet):
        return _of_shape(len(images), images.image_shape[1:], images.image_shape[0])
    if not isinstance(images, str | os.PathLike):
        array = np.asarray(images)
        axis = _channel_axis(Path("the array"), array.shape)
        return _of_shape(len(array), _sides(array.shape, axis), 1 if axis is None else array.shape[axis])
    path, options = _own(images)
    if path is None:
        return survey(load(str(images)))
    if path.is_dir():
        heads = image_heads(image_files(path, recursive=bool(options.get("recursive"))))
        cut = _pair(options.get("crop"))
        modes = Counter(head.mode for head in heads)
        grey = all(mode in ("1", "L", "LA", *_SIXTEEN_BITS) for mode in modes)
        animated = sum(head.animated for head in heads)
        return Survey(len(heads), Counter(cut or head.size for head in heads), modes, grey, animated)
    shape = stored(path).shape
    axis = _channel_axis(path, shape)
    return _of_shape(shape[0], _sides(shape, axis), 1 if axis is None else shape[axis])


def _own(images: str | os.PathLike[str]) -> tuple[Path | None, dict[str, Any]]:
    """Path and options of the user's own images; no path for a data set that is known by its name."""
    text = str(images)
    options: dict[str, Any] = {}
    if text not in names() and not Path(text).exists():
        text, options = split_name(text)
    if text in names():
        return None, options
    path = own_path(text)
    if path is None:
        raise ValueError(f"{text!r} does not exist; expected a folder of images, an .npz or an .h5")
    return path, options


def _of_shape(count: int, size: tuple[int, ...], channels: int) -> Survey:
    return Survey(count, Counter({(size[0], size[1]): count}), Counter(), channels == 1)


def _sides(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return tuple(side for i, side in enumerate(shape) if i not in (0, axis))


def array_set(images: ArrayLike, *, size: Size | None = None, grey: bool | None = None) -> TableDataSet:
    """An array in memory as a data set without factors: the layouts and types of karenina.data.own.array_file.

    >>> array_set(np.zeros((5, 8, 6, 3), np.uint8), size=(4, 3)).image_shape
    (3, 4, 3)
    """
    array = np.asarray(images)
    found = Stored(array.shape, array.dtype, partial(_slices, array), memory_rows(array))
    return own_set(Path("array"), found, size, grey)


def _slices(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(array), _BLOCK):
        yield array[start : start + _BLOCK]


def stream(
    images: Images, shape: tuple[int, int, int], **options: Any
) -> Iterator[tuple[list[str], NDArray[np.uint8]]]:
    """All images in their order, uint8 (n, *shape), some hundreds at a time, with their names (files) or numbers.

    Parameters
    ----------
    images : a folder, .npz or .h5, a data set or its name, or an array
    shape : (channels, height, width)
    **options : crop and recursive, of a folder

    >>> [(len(names), block.shape) for names, block in stream(np.zeros((3, 8, 6), np.uint8), (1, 4, 3))]
    [(3, (3, 1, 4, 3))]
    """
    channels, size = shape[0], (shape[1], shape[2])
    if isinstance(images, str | os.PathLike):
        path, given = _own(images)
        options = {**options, **given}
        if path is None:
            images = load(str(images))
        elif path.is_dir():
            yield from _files(
                path, LoadImage(size, _pair(options.get("crop")), channels), bool(options.get("recursive"))
            )
            return
        else:
            found = stored(path)
            convert = ConvertRows(str(path), _channel_axis(path, found.shape), size, channels)
            yield from _numbered(map(convert, (part for block in found.blocks() for part in _slices(block))))
            return
    if isinstance(images, DataSet):
        if images.image_shape != shape:
            raise ValueError(f"{images.name} has images of {images.image_shape}, the model takes {shape}")
        count = len(images)
        parts = (np.arange(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))
        yield from _numbered(images.at(index) for index in parts)
        return
    array = np.asarray(images)
    if array.dtype.kind not in "bf" and array.dtype != np.uint8:
        raise ValueError(f"images are {array.dtype}, expected uint8, bool, or float in [0, 1]")
    convert = ConvertRows("the array", _channel_axis(Path("the array"), array.shape), size, channels)
    yield from _numbered(map(convert, _slices(array)))


def _files(root: Path, load_image: LoadImage, recursive: bool) -> Iterator[tuple[list[str], NDArray[np.uint8]]]:
    files = image_files(root, recursive=recursive)
    names = [file.relative_to(root).as_posix() for file in files]
    start = 0
    for block in _decoded(tuple(files), load_image):
        yield names[start : start + len(block)], block
        start += len(block)


def _numbered(blocks: Iterator[NDArray[np.uint8]]) -> Iterator[tuple[list[str], NDArray[np.uint8]]]:
    start = 0
    for block in blocks:
        yield [str(i) for i in range(start, start + len(block))], block
        start += len(block)
