"""The user's own images without keeping them: what a folder or file holds, and its images in blocks of one shape."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.data import DataSet, load, names, own_path
from karenina.data._rows import memory_rows
from karenina.data.dataset import TableDataSet
from karenina.data.naming import split_name
from karenina.data.own import (
    GREY_MODES,
    SIXTEEN_BITS,
    Head,
    LoadImage,
    Size,
    Stored,
    Unreadable,
    _decoded,
    _pair,
    _parts,
    converted,
    image_files,
    image_heads,
    layout,
    or_error,
    stored,
)
from karenina.data.own import array_set as own_set

_BLOCK = 1024
_LOOKED_AT = 256  # images, to tell whether they are in colour
_TINT = 16  # of 255: channels of grey images that were stored in colour differ by less
_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")
_ARRAY = Path("the array")  # what messages call it

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
        return sum(self.modes[mode] for mode in SIXTEEN_BITS)


def survey(images: Images) -> Survey:
    """What there is to read: from the heads of files and arrays alone.

    >>> survey(np.zeros((5, 8, 6, 3), np.uint8))
    Survey(count=5, sizes=Counter({(8, 6): 5}), modes=Counter(), grey=False, animated=0)
    """
    if isinstance(images, str | os.PathLike):
        path, options = _own(images)
        if path is None:
            return survey(load(str(images)))
        if path.is_dir():
            files = image_files(path, recursive=bool(options.get("recursive")))
            found_heads = image_heads(files)
            Unreadable(path, len(files), bool(options.get("strict"))).without(np.arange(len(files)), files, found_heads)
            heads = [head for head in found_heads if isinstance(head, Head)]
            cut = _pair(options.get("crop"))
            modes = Counter(head.mode for head in heads)
            animated = sum(head.animated for head in heads)
            sizes = Counter(cut or head.size for head in heads)
            return Survey(len(heads), sizes, modes, set(modes) <= set(GREY_MODES), animated)
        found = stored(path)
    elif isinstance(images, DataSet):
        (channels, *size), count = images.image_shape, len(images)
        return Survey(count, Counter({(size[0], size[1]): count}), Counter(), channels == 1)
    else:
        path, found = _ARRAY, _in_memory(images)
    _, (channels, height, width) = layout(path, found)
    return Survey(found.shape[0], Counter({(height, width): found.shape[0]}), Counter(), channels == 1)


def kind_of(images: Images, **options: Any) -> str:
    """Return what the first images are: "colour", "grey", or "grey in colour" (three channels that are the same).

    **options : those of `stream`

    >>> kind_of(np.zeros((5, 8, 6, 3), np.uint8)), kind_of(np.zeros((5, 8, 6), np.uint8))
    ('grey in colour', 'grey')
    """
    blocks: Iterable[NDArray[np.uint8]]
    path, given = _own(images) if isinstance(images, str | os.PathLike) else (None, {})
    if path is not None and path.is_dir():
        files = image_files(path, recursive=bool({**options, **given}.get("recursive")))[:_LOOKED_AT]
        heads = [(file, head) for file, head in zip(files, image_heads(files)) if isinstance(head, Head)]
        coloured = [file for file, head in heads if head.mode not in GREY_MODES]
        loaded = (or_error(LoadImage((32, 32), None, 3), file) for file in coloured)
        blocks = (image for image in loaded if not isinstance(image, Exception))
        grey = not coloured
    elif survey(images).grey or isinstance(images, DataSet) or (path is None and isinstance(images, str | os.PathLike)):
        return "grey" if survey(images).grey else "colour"
    else:
        blocks, grey = (block[:_LOOKED_AT] for _, block in islice(stream(images, (3, 32, 32)), 1)), False
    if any((block.max(axis=-3) - block.min(axis=-3) > _TINT).any() for block in blocks):
        return "colour"
    return "grey" if grey else "grey in colour"


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


def array_set(images: ArrayLike, *, size: Size | None = None, grey: bool | None = None) -> TableDataSet:
    """An array in memory as a data set without factors: the layouts and types of karenina.data.own.array_file.

    >>> array_set(np.zeros((5, 8, 6, 3), np.uint8), size=(4, 3)).image_shape
    (3, 4, 3)
    """
    return own_set(Path("array"), _in_memory(images), size, grey)


def _in_memory(images: ArrayLike) -> Stored:
    array = np.asarray(images)
    return Stored(array.shape, array.dtype, partial(_slices, array), memory_rows(array))


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
    **options : crop, recursive and strict, of a folder

    >>> [(len(names), block.shape) for names, block in stream(np.zeros((3, 8, 6), np.uint8), (1, 4, 3))]
    [(3, (3, 1, 4, 3))]
    """
    path = _ARRAY
    if isinstance(images, str | os.PathLike):
        where, given = _own(images)
        options = {**options, **given}
        if where is None:
            images = load(str(images))
        elif where.is_dir():
            load_image = LoadImage(shape[1:], _pair(options.get("crop")), shape[0])
            yield from _files(where, load_image, bool(options.get("recursive")), bool(options.get("strict")))
            return
        else:
            path = where
    if isinstance(images, DataSet):
        if images.image_shape != shape:
            raise ValueError(f"{images.name} has images of {images.image_shape}, the model takes {shape}")
        count = len(images)
        parts = (np.arange(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))
        yield from _numbered(images.at(index) for index in parts)
    else:
        found = _in_memory(cast(ArrayLike, images)) if path is _ARRAY else stored(path)
        small = found._replace(blocks=lambda: (part for block in found.blocks() for part in _slices(block)))
        yield from _numbered(converted(path, small, shape))


def _files(
    root: Path, load_image: LoadImage, recursive: bool, strict: bool
) -> Iterator[tuple[list[str], NDArray[np.uint8]]]:
    files = image_files(root, recursive=recursive)
    bad = Unreadable(root, len(files), strict)
    for part, results in zip(_parts(np.arange(len(files))), _decoded(tuple(files), load_image)):
        good = bad.without(part, [files[i] for i in part], results)
        if len(good):
            names = [files[i].relative_to(root).as_posix() for i in good]
            yield names, np.stack([result for result in results if not isinstance(result, Exception)])
    bad.say()


def _numbered(blocks: Iterator[NDArray[np.uint8]]) -> Iterator[tuple[list[str], NDArray[np.uint8]]]:
    start = 0
    for block in blocks:
        yield [str(i) for i in range(start, start + len(block))], block
        start += len(block)
