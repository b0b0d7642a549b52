"""The user's own images: a folder of image files, an .npz or an .h5.

Everything comes out as uint8 (n, c, h, w) with one or three channels. Up to 1 GB is kept in memory; more stays on disk.
"""

import inspect
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._files import as_utf8
from karenina._plugins import extras
from karenina._words import hint
from karenina.data import DataSet, load, names, own_path, split_name
from karenina.data.dataset import TableDataSet
from karenina.data.files import (
    MEMORY_LIMIT,
    CachedRows,
    MappedRows,
    Rows,
    cache_folder,
    gather,
    h5_blocks,
    h5_dataset,
    h5_rows,
    h5_small,
    memory_rows,
    npz_array,
    npz_small,
    open_h5,
    open_image,
)
from karenina.data.sampling import frame_pairs, read_pairs

with extras():
    from PIL import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"}
MOST_PIXELS = 178_956_970  # Pillow takes an image of more pixels for an attack.
SIXTEEN_BITS = ("I", "I;16", "I;16L", "I;16B")
FILTER = Image.Resampling.LANCZOS
GREY_MODES = ("1", "L", "LA", *SIXTEEN_BITS)
MOST_UNREADABLE = 0.1  # No larger fraction of a folder's images may be unreadable.
_NAMED = 20  # A message names so many of the unreadable images.
_BLOCK = 1024  # So many files are decoded at a time.

Size = int | tuple[int, int] | str


def open_path(path: Path, **options: Any) -> TableDataSet:
    """Return a folder, .npz or .h5 as a data set. See `folder` and `array_file` for the options."""
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
    """The images of a folder that cannot be read, and why each cannot. One of them is an error if `strict`; otherwise
    it is an error if they are more than a tenth of `count`."""

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
    """The first bytes of an image file: Pillow's mode, (height, width), and whether it has several frames."""

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
    """Return the height and width that all images will have."""
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
        # Frames are asked for last, because Pillow may go to the second frame to find out.
        found = Head(image.mode, (image.height, image.width), getattr(image, "is_animated", False))
    if found.mode == "F":
        raise ValueError(f"{path} has float pixels, expected 8 or 16 bits")
    return found


@dataclass(frozen=True)
class LoadImage:
    """A function that loads an image file as uint8 (c, h, w)."""

    shape: tuple[int, int]
    crop: tuple[int, int] | None
    channels: int

    def __call__(self, path: Path) -> NDArray[np.uint8]:
        with open_image(path) as image:
            image.load()
            return self.convert(image)

    def convert(self, image: Image.Image) -> NDArray[np.uint8]:
        if image.mode.startswith("I"):  # Pillow would clip 16 bits at 255.
            image = Image.fromarray(np.clip(np.asarray(image) / 257, 0, 255).round().astype(np.uint8))
        image = image.convert("L" if self.channels == 1 else "RGB")
        if self.crop:
            top, left = (image.height - self.crop[0]) // 2, (image.width - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[1], top + self.crop[0]))
        if (image.height, image.width) != self.shape:
            image = image.resize(self.shape[::-1], FILTER)
        return np.moveaxis(np.asarray(image).reshape(*self.shape, self.channels), 2, 0)


def _file_rows(files: tuple[Path, ...], load: LoadImage, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Decode images at every call, for when there is room neither in memory nor on disk."""
    return np.stack([load(files[i]) for i in index])


def _image_rows(
    found: Sequence[Path], index: NDArray[np.int64], image_shape: tuple[int, int, int], load: LoadImage, bad: Unreadable
) -> tuple[NDArray[np.int64], Rows]:
    """Return which of the files of these numbers can be decoded, and their images."""
    files, cache = tuple(found[i] for i in index), cache_folder()
    tag = f"{_by(image_shape)}{f'-crop{_by(load.crop)}' if load.crop else ''}"
    if len(files) * math.prod(image_shape) <= MEMORY_LIMIT:
        images, at, kept = np.empty((len(files), *image_shape), np.uint8), 0, []
        for part, results in zip(_slices(index), _decoded(files, load)):
            good = bad.without(part, [found[i] for i in part], results)
            whole = [result for result in results if not isinstance(result, Exception)]
            if whole:
                images[at : at + len(whole)] = whole
            at += len(whole)
            kept.append(good)
        return np.concatenate(kept), memory_rows(images[:at])
    # Which images can be decoded is found out once, and kept beside the images.
    checks = CachedRows(files, (len(files), 1), partial(_readable, files, load), folder=cache, tag=f"{tag}-whole")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # The warning of too little room is for the images.
        broken = np.flatnonzero(checks(np.arange(len(files)))[:, 0] == 0)
    why = dict(zip(broken, (or_error(load, files[i]) for i in broken)))
    index = bad.without(index, files, [why.get(i) for i in range(len(files))])
    files = tuple(found[i] for i in index)
    blocks, slow = partial(_whole, files, load), partial(_file_rows, files, load)
    shape = (len(files), *image_shape)
    return index, CachedRows(files, shape, blocks, otherwise=slow, folder=cache, tag=tag)


def _readable(files: tuple[Path, ...], load: LoadImage) -> Iterator[NDArray[np.uint8]]:
    for results in _decoded(files, load):
        yield np.array([[not isinstance(result, Exception)] for result in results], np.uint8)


def _whole(files: tuple[Path, ...], load: LoadImage) -> Iterator[NDArray[np.uint8]]:
    for results in _decoded(files, load):
        for result in results:
            if isinstance(result, Exception):  # It was damaged after it had been checked.
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
    """An array of images (n, ...) in a file, not yet read. rows: the quickest way to some of them, if there is any."""

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[], Iterator[NDArray]]
    rows: Rows | None = None
    factors: NDArray | None = None
    names: NDArray | None = None


def stored(path: Path, *, labels: bool = False) -> Stored:
    """Return the `images` of an .npz or .h5, unread; with `labels` also its `factors` and `factor_names`, if it has
    some."""
    kind = path.suffix.lower()
    # A pipe or a device is no file, and reading one might never end.
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
    """Return the data set of an .npz or .h5 with `images` and optionally `factors` (n, k) and `factor_names` (k).

    images is (n, h, w), (n, h, w, c) or (n, c, h, w) with one or three channels, uint8, bool, or float in [0, 1].
    `size` and `grey` are those of `folder`.
    """
    return stored_set(Path(path), stored(Path(path), labels=True), size, grey)


def stored_set(path: Path, found: Stored, size: Size | None, grey: bool | None) -> TableDataSet:
    """Return the data set of an array of images, brought to a size and to one or three channels."""
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
    """Yield all images of an array in blocks, as uint8 (n, *image_shape)."""
    return map(ConvertRows.of(path, found, image_shape), found.blocks())


def layout(path: Path, found: Stored) -> tuple[int | None, tuple[int, int, int]]:
    """Return which axis of an array holds the one or three channels, None for (n, h, w); and (channels, height,
    width)."""
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
    """A function that converts stored images of any accepted layout and type to uint8 (n, c, h, w)."""

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
    """Convert rows of a file at every call."""
    return convert(rows(index))


def _table(path: Path, count: int, factors: NDArray | None, names: NDArray | None) -> tuple[NDArray, tuple[str, ...]]:
    if factors is None:
        return np.empty((count, 0)), ()
    table = factors[:, None] if factors.ndim == 1 else factors
    if table.ndim != 2 or len(table) != count or table.dtype.kind not in "iufb":
        raise ValueError(f"{path}: factors are {factors.dtype} {factors.shape}, expected numbers ({count}, k)")
    if not np.isfinite(table).all():
        raise ValueError(f"{path}: row {np.argwhere(~np.isfinite(table))[0, 0]} of factors is not finite")
    table = _signed(path, table)
    words = [] if names is None else np.ravel(names).tolist()
    labels = tuple(word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words)
    if names is not None and (len(labels) != table.shape[1] or len(set(labels)) != len(labels)):
        raise ValueError(f"{path}: factor_names are {labels}, expected {table.shape[1]} different names")
    return table, labels or tuple(f"factor_{i}" for i in range(table.shape[1]))


if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FactorColumns:
    """Factors of images: names and table (n, k); details: the words behind numbers; kept: which of the images have a
    row."""

    names: tuple[str, ...]
    table: NDArray
    details: dict[str, tuple[str, ...]]
    kept: NDArray[np.int64]


def read_factors(path: Path, images: list[str], strict: bool) -> FactorColumns:
    """Return the factors of these images, in their order.

    The first column names the image, with or without its suffix. Words become the numbers of their sorted values; a
    table of -1 and 1 only (CelebA) becomes 0 and 1.
    """
    frame = _read(path)
    names = [str(name) for name in frame.index]
    repeated = frame.index[frame.index.duplicated()]
    if len(repeated):
        raise ValueError(f"{path}: {_some(list(repeated))} more than once")
    known = set(names)
    if not known.intersection(images):
        stems = [image.rsplit(".", 1)[0] for image in images]
        images = stems if known.intersection(stems) else images
    without_row = [image for image in images if image not in known]
    without_image = sorted(known.difference(images))
    if strict and without_row:
        raise ValueError(f"{path} has no row for {_some(without_row)}; strict=False leaves these images out")
    if strict and without_image:
        raise ValueError(f"{path} has rows without an image: {_some(without_image)}; strict=False leaves them out")
    kept = np.array([i for i, image in enumerate(images) if image in known], np.int64)
    if not len(kept):
        raise ValueError(f"{path} names none of the images; it starts with {_some(names)}")
    frame = frame.loc[[images[i] for i in kept]]
    return _numbers(path, frame, kept)


def _read(path: Path) -> "pd.DataFrame":
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"there is no factors file {str(path)!r}")
    try:
        with path.open(encoding="utf-8-sig") as file:
            first, second = file.readline().strip(), file.readline().split()
        if first.isdigit():  # CelebA has the number of images, names of attributes, then a row for each file.
            return pd.read_csv(path, sep=r"\s+", skiprows=2, header=None, names=["file", *second], index_col=0)
        return pd.read_csv(path, index_col=0, dtype={0: str}, skipinitialspace=True, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError) as error:  # Parser errors of pandas are ValueErrors.
        raise ValueError(f"{path} is no table of factors: {error}") from None


def _numbers(path: Path, frame: "pd.DataFrame", kept: NDArray[np.int64]) -> FactorColumns:
    import pandas as pd

    if frame.shape[1] == 0:
        raise ValueError(f"{path} has the images' names but no factors beside them")
    empty = frame.isna().to_numpy()
    if empty.any():
        row, column = np.argwhere(empty)[0]
        raise ValueError(f"{path} has no {frame.columns[column]} for {frame.index[row]} (it is empty, NA, nan or None)")
    details, columns = {}, []
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            values, numbers = np.unique(column.astype(str).to_numpy(dtype=str), return_inverse=True)
            details[str(name)] = tuple(values.tolist())
            columns.append(numbers)
        else:
            columns.append(column.to_numpy())
    table = _signed(path, np.column_stack(columns))
    if not np.isfinite(table).all():
        row, column_number = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{path} has {frame.columns[column_number]} = {table[row, column_number]} for {frame.index[row]}"
        )
    if not details and np.isin(table, (-1, 1)).all() and (table == -1).any():
        table = (table > 0).astype(np.int64)
    return FactorColumns(tuple(str(name) for name in frame.columns), table, details, kept)


def _signed(path: Path, table: NDArray) -> NDArray:
    """Return a table of factors as float64 or int64."""
    if table.dtype.kind == "u" and table.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"{path}: factors go up to {table.max()}, beyond 64-bit integers with a sign")
    return table.astype(np.float64 if table.dtype.kind == "f" else np.int64)


def _some(names: list[str]) -> str:
    """Return the first few of many names, as a text."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(map(str, names[:3]))}{rest}"


_LOOKED_AT = 256  # So many images are looked at to see whether they are in colour.
_TINT = 16  # Channels of grey images that were stored in colour differ by less, of 255.
_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")
_ARRAY = Path("the array")  # This is what messages call an array.

Images = DataSet | str | os.PathLike[str] | NDArray[Any]


@dataclass(frozen=True)
class Survey:
    """The content of a folder, file, array or data set, before any image is decoded.

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
        """Return how many files have transparency, which is dropped."""
        return sum(self.modes[mode] for mode in _ALPHA)

    @property
    def sixteen_bits(self) -> int:
        return sum(self.modes[mode] for mode in SIXTEEN_BITS)


def survey(images: Images) -> Survey:
    """Survey what there is to read, from the heads of files and arrays alone.

    >>> survey(np.zeros((5, 8, 6, 3), np.uint8))
    Survey(count=5, sizes=Counter({(8, 6): 5}), modes=Counter(), grey=False, animated=0)
    """
    if isinstance(images, str | os.PathLike):
        path, options = _path_and_options(images)
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
    path, given = _path_and_options(images) if isinstance(images, str | os.PathLike) else (None, {})
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


def _path_and_options(images: str | os.PathLike[str]) -> tuple[Path | None, dict[str, Any]]:
    """Return path and options of the user's own images; no path for a data set that is known by its name."""
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
    """Return an array in memory as a data set without factors; it may have the layouts and types that `array_file`
    takes.

    >>> array_set(np.zeros((5, 8, 6, 3), np.uint8), size=(4, 3)).image_shape
    (3, 4, 3)
    """
    return stored_set(Path("array"), _in_memory(images), size, grey)


def _in_memory(images: ArrayLike) -> Stored:
    array = np.asarray(images)
    return Stored(array.shape, array.dtype, partial(_slices, array), memory_rows(array))


def _slices(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(array), _BLOCK):
        yield array[start : start + _BLOCK]


def stream(
    images: Images, shape: tuple[int, int, int], **options: Any
) -> Iterator[tuple[list[str], NDArray[np.uint8]]]:
    """Yield all images in their order, uint8 (n, *shape), some hundreds at a time, with their names (files) or numbers.

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
        where, given = _path_and_options(images)
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
    for part, results in zip(_slices(np.arange(len(files))), _decoded(tuple(files), load_image)):
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
