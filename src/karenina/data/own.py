"""The user's own images: a folder of image files, an .npz or an .h5.

Everything comes out as uint8 (n, c, h, w) with one or three channels. Up to 1 GB is kept in memory; more stays on disk.
"""

import inspect
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina._files import as_utf8
from karenina._plugins import extras
from karenina._words import hint
from karenina.data._attributes import read_factors
from karenina.data._reading import h5_blocks, h5_dataset, h5_small, npz_array, npz_small, open_h5, open_image
from karenina.data._rows import MEMORY_LIMIT, CachedRows, MappedRows, Rows, cache_folder, gather, h5_rows, memory_rows
from karenina.data.dataset import TableDataSet
from karenina.data.pairs import frame_pairs, read_pairs

with extras():
    from PIL import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"}
MOST_PIXELS = 178_956_970  # of one image: where Pillow takes a file for an attack
SIXTEEN_BITS = ("I", "I;16", "I;16L", "I;16B")
FILTER = Image.Resampling.LANCZOS
GREY_MODES = ("1", "L", "LA", *SIXTEEN_BITS)
MOST_UNREADABLE = 0.1  # share of the images of a folder
_NAMED = 20  # of the unreadable ones, in a message
_BLOCK = 1024  # files decoded at a time

Size = int | tuple[int, int] | str


def open_own(path: Path, **options: Any) -> TableDataSet:
    """A folder, .npz or .h5 as a data set. See `folder` and `array_file` for the options."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{str(path)!r} does not exist; expected a folder of images, an .npz or an .h5")
    reader: Callable[..., TableDataSet] = folder if path.is_dir() else array_file
    known = list(inspect.signature(reader).parameters)[1:]
    for option in options:
        if option not in known:
            raise ValueError(f"{str(path)!r} has no option {option!r}; {hint(option, known)}")
    return reader(path, **options)


def folder(
    path: str | os.PathLike[str],
    *,
    factors_csv: str | os.PathLike[str] | None = None,
    size: Size | None = None,
    crop: Size | None = None,
    grey: bool | None = None,
    recursive: bool = False,
    strict: bool | None = None,
    pairs_csv: str | os.PathLike[str] | None = None,
    frames: bool = False,
) -> TableDataSet:
    """Return the image files of a folder, in the order of their sorted names.

    Images that cannot be read are left out, with a warning that counts and names them (`.unreadable` has them all),
    unless they are more than a tenth of all.

    Parameters
    ----------
    path : the folder
    factors_csv : a table with file names in the first column and one factor per further column, or CelebA's attributes
    size : 64, (64, 48) or "64x48", optional
        Height and width to which images are resized; needed if they differ.
    crop : as `size`, optional
        Height and width that are first cut out of the middle (CelebA: crop=178, size=64).
    grey : bool, optional
        One channel or three; by default one if all files are grey.
    recursive : whether subfolders count
    strict : bool, optional
        True: an image that cannot be read, one without factors, and factors without an image are errors. False: they
        are left out. By default, unreadable images are left out and the others are errors.
    pairs_csv : a table of two file names per row, for methods that learn from pairs
    frames : whether neighbours in the order of their names (frame2 before frame10) are pairs, as in a video
    """
    _check_flags(grey=grey, recursive=recursive, strict=strict, frames=frames)
    if pairs_csv is not None and frames:
        raise ValueError("pairs come from pairs_csv or from frames, not from both")
    root = Path(path)
    found = image_files(root, recursive=recursive)
    names = [file.relative_to(root).as_posix() for file in found]
    factors = read_factors(Path(str(factors_csv)), names, strict is not False) if factors_csv is not None else None
    pairs = read_pairs(Path(str(pairs_csv)), names) if pairs_csv is not None else None
    kept = np.arange(len(found)) if factors is None else factors.kept
    heads = image_heads([found[i] for i in kept])
    bad = Unreadable(root, len(kept), strict=bool(strict))
    good = bad.without(kept, [found[i] for i in kept], heads)
    known = [head for head in heads if isinstance(head, Head)]
    shape = _target(root, [head.size for head in known], [found[i] for i in good], size, crop)
    channels = 1 if (all(head.mode in GREY_MODES for head in known) if grey is None else grey) else 3
    load = LoadImage(shape, _pair(crop), channels)
    image_shape = (channels, *shape)
    good, rows = _image_rows(found, good, image_shape, load, bad)
    bad.say()
    table = factors.table[np.searchsorted(kept, good)] if factors is not None else np.empty((len(good), 0))
    data = TableDataSet(
        as_utf8(root.resolve().name),
        factors.names if factors is not None else (),
        table,
        image_shape,
        rows,
        source=as_utf8(str(root)),
        details=factors.details if factors is not None else None,
    )
    data.unreadable = tuple(bad.found)
    if frames:
        pairs = frame_pairs([names[i] for i in good])
    elif pairs is not None:
        pairs = np.searchsorted(good, pairs[np.isin(pairs, good).all(1)])
        if not len(pairs):
            raise ValueError(f"{pairs_csv} has no pair of images that can be read")
    data.pairs = pairs
    return data


@dataclass
class Unreadable:
    """The images of a folder that cannot be read: name -> why. One of them is an error if `strict`; else that they are
    more than a tenth of `count`."""

    root: Path
    count: int
    strict: bool = False
    found: dict[str, str] = field(default_factory=dict)

    def without(self, index: NDArray[np.int64], files: Sequence[Path], results: Sequence[Any]) -> NDArray[np.int64]:
        """Return the part of `index` whose results are no errors, and keep the others in mind."""
        for file, result in zip(files, results):
            if isinstance(result, Exception):
                self.found[file.relative_to(self.root).as_posix()] = str(result)
                if self.strict:
                    raise ValueError(str(result)) from None
        if len(self.found) > MOST_UNREADABLE * self.count:
            many = f"{len(self.found):,} of {self.count:,} images cannot be read"
            first = next(iter(self.found.values()))
            raise ValueError(f"{str(self.root)!r}: {many}, more than a tenth: {first}; {self._names()}")
        return index[[not isinstance(result, Exception) for result in results]]

    def say(self) -> None:
        """Warn of what is left out."""
        if self.found:
            many = f"{len(self.found):,} of {self.count:,} images cannot be read and are left out"
            warnings.warn(f"{str(self.root)!r}: {many}: {self._names()}", stacklevel=4)

    def _names(self) -> str:
        more = f" and {len(self.found) - _NAMED:,} more" if len(self.found) > _NAMED else ""
        return ", ".join(list(self.found)[:_NAMED]) + more


def image_files(root: Path, *, recursive: bool = False) -> list[Path]:
    """Return the image files of a folder, sorted, with links that lead nowhere: these are images that are missing."""
    found = sorted(
        file
        for file in (root.rglob("*") if recursive else root.iterdir())
        if file.suffix.lower() in SUFFIXES
        and not file.name.startswith(".")
        and (file.is_file() or (file.is_symlink() and not file.exists()))
    )
    if not found:
        below = not recursive and any(file.suffix.lower() in SUFFIXES and file.is_file() for file in root.rglob("*"))
        kinds = f" ({', '.join(sorted(SUFFIXES))})"
        hint = f"; there are some in its subfolders: recursive=True, or '{root}:recursive=true'" if below else kinds
        raise ValueError(f"{str(root)!r} holds no images{hint}")
    return found


class Head(NamedTuple):
    """What the first bytes of an image file say: Pillow's mode, (height, width), and whether it has several frames."""

    mode: str
    size: tuple[int, int]
    animated: bool


def image_heads(files: list[Path]) -> list[Head | Exception]:
    """Return the heads of image files, which are not decoded; for those that cannot be read, why."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(partial(or_error, _head), files, chunksize=256))


def or_error(read: Callable[[Path], Any], path: Path) -> Any:
    """Return what `read` makes of an image file, or the error that says why it cannot be read."""
    if path.is_symlink() and not path.exists():
        return ValueError(f"{path} is a link that leads nowhere")
    try:
        return read(path)
    except (ValueError, OSError) as error:
        return error


def _pair(size: Size | None) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = [int(side) if side.isdecimal() else side for side in size.split("x")] if isinstance(size, str) else size
    match (size, size) if isinstance(size, int) else sides:
        case [int(height), int(width)] if height > 0 and width > 0 and height * width <= MOST_PIXELS:
            return height, width
    raise ValueError(f"a size is an integer or (height, width) of at most {MOST_PIXELS:,} pixels, got {size!r}")


def _check_flags(**flags: bool | None) -> None:
    for name, value in flags.items():
        if value not in (True, False, None):
            raise ValueError(f"{name} is true or false, got {value!r}")


def _target(
    root: Path, sizes: list[tuple[int, int]], files: list[Path], size: Size | None, crop: Size | None
) -> tuple[int, int]:
    """The height and width that all images will have."""
    cut, target = _pair(crop), _pair(size)
    if cut:
        for found, file in zip(sizes, files):
            if found[0] < cut[0] or found[1] < cut[1]:
                raise ValueError(f"{file} is {found[0]} x {found[1]}, too small for crop={crop}")
    if target or cut:
        return target or cut  # type: ignore[return-value]
    counts = Counter(sizes)
    if len(counts) > 1:
        example = dict(zip(reversed(sizes), reversed(files)))
        shown = ", ".join(f"{h} x {w} ({n}, {example[h, w].name})" for (h, w), n in counts.most_common(5))
        raise ValueError(f"{str(root)!r} holds images of {len(counts)} sizes: {shown}; resize them by size= (--size)")
    return sizes[0]


def _head(path: Path) -> Head:
    with open_image(path) as image:
        # Asked last: to find out, Pillow may go to the second frame.
        found = Head(image.mode, (image.height, image.width), getattr(image, "is_animated", False))
    if found.mode == "F":
        raise ValueError(f"{path} has float pixels, expected 8 or 16 bits")
    return found


@dataclass(frozen=True)
class LoadImage:
    """An image file as uint8 (c, h, w)."""

    shape: tuple[int, int]
    crop: tuple[int, int] | None
    channels: int

    def __call__(self, path: Path) -> NDArray[np.uint8]:
        with open_image(path) as image:
            image.load()
            return self.convert(image)

    def convert(self, image: Image.Image) -> NDArray[np.uint8]:
        if image.mode.startswith("I"):  # 16 bits; Pillow would clip them at 255
            image = Image.fromarray(np.clip(np.asarray(image) / 257, 0, 255).round().astype(np.uint8))
        image = image.convert("L" if self.channels == 1 else "RGB")
        if self.crop:
            top, left = (image.height - self.crop[0]) // 2, (image.width - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[1], top + self.crop[0]))
        if (image.height, image.width) != self.shape:
            image = image.resize(self.shape[::-1], FILTER)
        return np.moveaxis(np.asarray(image).reshape(*self.shape, self.channels), 2, 0)


def _file_rows(files: tuple[Path, ...], load: LoadImage, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Images decoded at every call, for when there is room neither in memory nor on disk."""
    return np.stack([load(files[i]) for i in index])


def _image_rows(
    found: Sequence[Path], index: NDArray[np.int64], image_shape: tuple[int, int, int], load: LoadImage, bad: Unreadable
) -> tuple[NDArray[np.int64], Rows]:
    """Return which of the files of these numbers can be decoded, and their images."""
    files, cache = tuple(found[i] for i in index), cache_folder()
    tag = f"{_by(image_shape)}{f'-crop{_by(load.crop)}' if load.crop else ''}"
    if len(files) * math.prod(image_shape) <= MEMORY_LIMIT:
        images, at, kept = np.empty((len(files), *image_shape), np.uint8), 0, []
        for part, results in zip(_parts(index), _decoded(files, load)):
            good = bad.without(part, [found[i] for i in part], results)
            whole = [result for result in results if not isinstance(result, Exception)]
            if whole:
                images[at : at + len(whole)] = whole
            at += len(whole)
            kept.append(good)
        return np.concatenate(kept), memory_rows(images[:at])
    # Which of them can be decoded is found out once, and kept beside the images.
    checks = CachedRows(files, (len(files), 1), partial(_readable, files, load), folder=cache, tag=f"{tag}-whole")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that there is no room is said of the images
        broken = np.flatnonzero(checks(np.arange(len(files)))[:, 0] == 0)
    why = dict(zip(broken, (or_error(load, files[i]) for i in broken)))
    index = bad.without(index, files, [why.get(i) for i in range(len(files))])
    files = tuple(found[i] for i in index)
    blocks, slow = partial(_whole, files, load), partial(_file_rows, files, load)
    shape = (len(files), *image_shape)
    return index, CachedRows(files, shape, blocks, otherwise=slow, folder=cache, tag=tag)


def _parts(index: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(index), _BLOCK):
        yield index[start : start + _BLOCK]


def _readable(files: tuple[Path, ...], load: LoadImage) -> Iterator[NDArray[np.uint8]]:
    for results in _decoded(files, load):
        yield np.array([[not isinstance(result, Exception)] for result in results], np.uint8)


def _whole(files: tuple[Path, ...], load: LoadImage) -> Iterator[NDArray[np.uint8]]:
    for results in _decoded(files, load):
        for result in results:
            if isinstance(result, Exception):  # since it was checked
                raise result
        yield np.stack(results)


def _by(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def _decoded(files: tuple[Path, ...], load: LoadImage) -> Iterator[list[Any]]:
    """Yield images some at a time; in the place of one that cannot be read, why."""
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(files), _BLOCK):
            yield list(pool.map(partial(or_error, load), files[start : start + _BLOCK]))


class Stored(NamedTuple):
    """What an array of images (n, ...) in a file is, unread. rows: the quickest way to single ones, if there is any."""

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[], Iterator[NDArray]]
    rows: Rows | None = None
    factors: NDArray | None = None
    names: NDArray | None = None


def stored(path: Path, *, labels: bool = False) -> Stored:
    """The `images` of an .npz or .h5; with `labels` also its `factors` and `factor_names`, if it has some."""
    kind = path.suffix.lower()
    # A pipe or a device is no file: to read it might never end.
    if kind not in (".npz", ".h5", ".hdf5") or not path.is_file():
        raise ValueError(f"{str(path)!r} is neither a folder of images nor one of .npz, .h5, .hdf5")
    if kind == ".npz":
        array = npz_array(path, "images", "an .npz with images (n, h, w[, c])")
        small = npz_small(path, "factors", "factor_names") if labels else {}
        mapped = None if array.offset is None else MappedRows(path, array.shape, array.offset, array.dtype)
        return Stored(array.shape, array.dtype, array.blocks, mapped, small.get("factors"), small.get("factor_names"))
    expected = "an HDF5 file with images (n, h, w[, c])"
    with open_h5(path, expected) as file:
        images = h5_dataset(file, "images", expected)
        shape, dtype = tuple(images.shape), images.dtype
        factors, names = (h5_small(file, key, expected) if labels else None for key in ("factors", "factor_names"))
    return Stored(shape, dtype, partial(h5_blocks, path, "images"), h5_rows(path, "images"), factors, names)


def array_file(path: str | os.PathLike[str], *, size: Size | None = None, grey: bool | None = None) -> TableDataSet:
    """An .npz or .h5 with `images`, optionally `factors` (n, k) and `factor_names` (k).

    images is (n, h, w), (n, h, w, c) or (n, c, h, w) with one or three channels, uint8, bool, or float in [0, 1].
    `size` and `grey` are those of `folder`.
    """
    return array_set(Path(path), stored(Path(path), labels=True), size, grey)


def array_set(path: Path, found: Stored, size: Size | None, grey: bool | None) -> TableDataSet:
    """The data set of an array of images, brought to a size and to one or three channels."""
    _check_flags(grey=grey)
    _, (channels, *sides) = layout(path, found)
    height, width = _pair(size) or sides
    count, image_shape = found.shape[0], (channels if grey is None else 1 if grey else 3, height, width)
    table, factor_names = _table(path, count, found.factors, found.names)
    blocks = partial(converted, path, found, image_shape)
    fetch: Rows
    if count * math.prod(image_shape) <= MEMORY_LIMIT:
        fetch = memory_rows(gather((count, *image_shape), blocks()))
    elif found.rows is not None:
        fetch = partial(_converted_rows, found.rows, ConvertRows.of(path, found, image_shape))
    else:
        fetch = CachedRows((path,), (count, *image_shape), blocks, tag=f"images-{_by(image_shape)}")
    return TableDataSet(as_utf8(path.stem), factor_names, table, image_shape, fetch, source=as_utf8(str(path)))


def converted(path: Path, found: Stored, image_shape: tuple[int, int, int]) -> Iterator[NDArray[np.uint8]]:
    """All images of an array in blocks, as uint8 (n, *image_shape)."""
    return map(ConvertRows.of(path, found, image_shape), found.blocks())


def layout(path: Path, found: Stored) -> tuple[int | None, tuple[int, int, int]]:
    """Which axis of an array holds the one or three channels, None for (n, h, w); and (channels, height, width)."""
    expected = "(n, h, w), (n, h, w, c) or (n, c, h, w) with c = 1 or 3"
    shape, axis = found.shape, None
    if 0 in shape or len(shape) not in (3, 4):
        raise ValueError(f"{path}: images have shape {shape}, expected {expected}")
    if len(shape) == 4:
        axes = [axis for axis in (3, 1) if shape[axis] in (1, 3)]
        if len(axes) != 1:
            trouble = "either end could be the channels" if axes else "neither end has 1 or 3 channels"
            raise ValueError(f"{path}: images have shape {shape}, {trouble}; expected {expected}")
        axis = axes[0]
    if found.dtype.kind not in "bf" and found.dtype != np.uint8:
        raise ValueError(f"{path}: images are {found.dtype}, expected uint8, bool, or float in [0, 1]")
    height, width = [side for i, side in enumerate(shape) if i not in (0, axis)]
    if height * width > MOST_PIXELS:
        raise ValueError(f"{path}: images have shape {shape}, expected at most {MOST_PIXELS:,} pixels each")
    return axis, (1 if axis is None else shape[axis], height, width)


@dataclass(frozen=True)
class ConvertRows:
    """Stored images of any accepted layout and type as uint8 (n, c, h, w)."""

    path: str
    axis: int | None
    shape: tuple[int, int]
    channels: int

    @classmethod
    def of(cls, path: Path, found: Stored, image_shape: tuple[int, int, int]) -> "ConvertRows":
        return cls(str(path), layout(path, found)[0], image_shape[1:], image_shape[0])

    def __call__(self, block: NDArray) -> NDArray[np.uint8]:
        if block.dtype.kind == "b":
            block = block.astype(np.uint8) * np.uint8(255)
        elif block.dtype.kind == "f":
            if not (block.min() >= 0 and block.max() <= 1):
                raise ValueError(
                    f"{self.path}: float images go from {block.min():g} to {block.max():g}, expected [0, 1]"
                )
            block = np.round(block * 255).astype(np.uint8)
        images = block[:, None] if self.axis is None else np.moveaxis(block, self.axis, 1)
        if images.shape[1:] != (self.channels, *self.shape):
            load = LoadImage(self.shape, None, self.channels)
            pictures = images[:, 0] if images.shape[1] == 1 else np.moveaxis(images, 1, 3)
            images = np.stack([load.convert(Image.fromarray(np.ascontiguousarray(p))) for p in pictures])
        return np.ascontiguousarray(images)


def _converted_rows(rows: Rows, convert: ConvertRows, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Rows of a file, converted at every call."""
    return convert(rows(index))


def _table(path: Path, count: int, factors: NDArray | None, names: NDArray | None) -> tuple[NDArray, tuple[str, ...]]:
    if factors is None:
        return np.empty((count, 0)), ()
    table = factors[:, None] if factors.ndim == 1 else factors
    if table.ndim != 2 or len(table) != count or table.dtype.kind not in "iufb":
        raise ValueError(f"{path}: factors are {factors.dtype} {factors.shape}, expected numbers ({count}, k)")
    if not np.isfinite(table).all():
        raise ValueError(f"{path}: row {np.argwhere(~np.isfinite(table))[0, 0]} of factors is not finite")
    if table.dtype.kind == "u" and table.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"{path}: factors go up to {table.max()}, beyond 64-bit integers with a sign")
    labels = tuple(_word(name) for name in np.ravel(names)) if names is not None else ()
    if names is not None and (len(labels) != table.shape[1] or len(set(labels)) != len(labels)):
        raise ValueError(f"{path}: factor_names are {labels}, expected {table.shape[1]} different names")
    table = table.astype(np.float64 if table.dtype.kind == "f" else np.int64)
    return table, labels or tuple(f"factor_{i}" for i in range(table.shape[1]))


def _word(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
