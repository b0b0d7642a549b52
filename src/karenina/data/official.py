"""The official files of dSprites, 3D Shapes and MPI3D, SmallNORB (binary matrices) and Cars3D (MATLAB files).

Nothing large is ever loaded whole. A file that allows it is memory-mapped in place; others are unpacked once, at the
first image asked for, into a cache beside them (dSprites 0.4 GB, 3D Shapes 5.9 GB), and that is memory-mapped.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from karenina._plugins import extras
from karenina.data import dsprites, shapes3d
from karenina.data.dataset import DataSet, FactorGrid, TableDataSet
from karenina.data.download import DSPRITES, SHAPES3D, SMALLNORB
from karenina.data.files import (
    MEMORY_LIMIT,
    CachedRows,
    H5Rows,
    MappedRows,
    Rows,
    bad,
    find,
    h5_blocks,
    h5_dataset,
    h5_rows,
    h5_small,
    h5_whole,
    memory_rows,
    missing,
    npz_array,
    npz_small,
    open_h5,
)

__all__ = ["cars3d_file", "dsprites_file", "mpi3d_file", "shapes3d_file", "smallnorb_file"]

MPI3D_FACTORS = (
    "object_color",
    "object_shape",
    "object_size",
    "camera_height",
    "background_color",
    "horizontal_axis",
    "vertical_axis",
)
# The second are those of the first release of toy, with fewer colours and shapes.
MPI3D_SIZES = ((6, 6, 2, 3, 3, 40, 40), (4, 4, 2, 3, 3, 40, 40))


# The first arguments of the next three are bound by functools.partial, which can be sent to workers.
def _grid_images(grid: FactorGrid, fetch: Rows, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return the images of factor rows, when the images lie in the grid's own order."""
    return fetch(np.ravel_multi_index(tuple(rows.T), grid.sizes))


def _channels_first(rows: Rows, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return stored images (n, h, w, c) as (n, c, h, w)."""
    return np.ascontiguousarray(rows(index).transpose(0, 3, 1, 2))


def _binary_images(rows: Rows, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return stored bits (n, 512) as images (n, 1, 64, 64) of 0 and 255."""
    bits = np.unpackbits(rows(index), axis=1)
    return np.negative(bits, out=bits).reshape(len(bits), 1, 64, 64)  # In uint8, -1 is 255.


def dsprites_file(folder: Path, *, _sizes: tuple[int, ...] | None = None) -> DataSet | None:
    """Return dSprites from the official .npz or .hdf5 in a folder, or None where there is neither.

    The images unpack to 3 GB; they are kept as bits (0.4 GB) in a cache beside the file. A file with some of the rows
    only becomes a TableDataSet of these.
    """
    path = find(folder, f"{DSPRITES}.npz", f"{DSPRITES}.hdf5")
    if path is None:
        return None
    expected = "dSprites: imgs (n, 64, 64) uint8 and the factors' classes (n, 6)"
    if path.suffix == ".npz":
        array = npz_array(path, "imgs", expected)
        shape, dtype, read = array.shape, array.dtype, array.blocks
        labels = npz_small(path, "latents_classes").get("latents_classes")
    else:
        with open_h5(path, expected) as file:
            dataset = h5_dataset(file, "imgs", expected)
            shape, dtype, read = dataset.shape, dataset.dtype, partial(h5_blocks, path, "imgs")
            labels = h5_small(file, "latents/classes", expected)
    if len(shape) != 3 or shape[1:] != (64, 64) or dtype != np.uint8:
        raise ValueError(f"{path}: imgs is {dtype} {shape}, expected {expected}")
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 6:
        labels = labels[:, 1:]  # The first is the colour, which is always white.
    fetch: Rows
    if shape[0] < 10_000:
        images = np.concatenate(list(read()))[:, None]
        fetch = memory_rows(images * np.uint8(255) if images.max() <= 1 else images)
    else:
        packed = CachedRows((path,), (shape[0], 512), partial(_pack, path, read), tag="bits")
        fetch = partial(_binary_images, packed)
    grid = FactorGrid(dsprites.GRID.names, _sizes or dsprites.GRID.sizes)
    return _grid_or_table("dsprites", path, grid, labels, (1, 64, 64), shape[0], fetch)


def _pack(path: Path, read: Callable[[], Iterator[NDArray]]) -> Iterator[NDArray[np.uint8]]:
    for block in read():
        flat = block.reshape(len(block), -1)
        if flat.max() > 1 and ((flat != 0) & (flat != 255)).any():
            raise ValueError(f"{path}: the images have values other than two, expected 0 and 1")
        yield np.packbits(flat, axis=1)


def shapes3d_file(folder: Path, *, _sizes: tuple[int, ...] | None = None) -> DataSet | None:
    """Return 3D Shapes from the official 3dshapes.h5 in a folder, or None where it is not.

    Its chunks hold small patches of thousands of images, so one image costs as much as 15,000. At the first image the
    file is therefore unpacked beside itself (5.9 GB); without the space for that, images are read slowly from the file.
    A file with some of the rows only becomes a TableDataSet of these.
    """
    path = find(folder, SHAPES3D)
    if path is None:
        return None
    expected = "3D Shapes: images (n, 64, 64, 3) uint8 and labels (n, 6)"
    with open_h5(path, expected) as file:
        images, labels = h5_dataset(file, "images", expected), h5_dataset(file, "labels", expected)
        count, values = images.shape[0] if images.shape else 0, h5_whole(labels)
        if images.dtype != np.uint8 or images.shape[1:] != (64, 64, 3) or values.shape != (count, 6):
            raise ValueError(
                f"{path}: images is {images.dtype} {images.shape}, labels {labels.shape}, expected {expected}"
            )
    rows = h5_rows(path, "images")
    fetch: Rows
    if rows is not None:
        fetch = partial(_channels_first, rows)
    else:
        slow = partial(_channels_first, H5Rows(path, "images"))
        fetch = CachedRows((path,), (count, 3, 64, 64), partial(_unpacked, path), otherwise=slow)
    grid = FactorGrid(shapes3d.GRID.names, _sizes or shapes3d.GRID.sizes)
    return _grid_or_table("shapes3d", path, grid, _shapes3d_classes(values), (3, 64, 64), count, fetch)


def _unpacked(path: Path) -> Iterator[NDArray[np.uint8]]:
    for block in h5_blocks(path, "images"):
        yield block.transpose(0, 3, 1, 2)


def _shapes3d_classes(values: NDArray) -> NDArray:
    """Return labels (hues 0..0.9, scales 0.75..1.25, shapes 0..3, angles -30..30) as positions among their values."""
    low = np.array([0, 0, 0, 0.75, 0, -30])
    step = np.array([0.1, 0.1, 0.1, 0.5 / 7, 1, 60 / 14])
    if not _finite(values):
        return values
    classes = (values.astype(np.float64) - low) / step
    whole = np.round(classes)
    fits = np.abs(classes - whole).max(initial=0) < 1e-3 and np.abs(whole).max(initial=0) < 1000
    return whole.astype(np.int64) if fits else values


def _finite(values: NDArray) -> bool:
    """Return whether all are numbers, none of them larger than a label could be."""
    return values.dtype.kind in "iuf" and bool((np.abs(values) < 2.0**53).all())


def mpi3d_file(folder: Path | None, version: str, *, _sizes: tuple[int, ...] | None = None) -> DataSet:
    """Return MPI3D from the official .npz of a version: toy, realistic or real.

    The authors' files are stored without compression and are memory-mapped in place; a compressed one is unpacked once
    beside itself (12.7 GB), which needs that space.
    """
    name = f"mpi3d_{version}"
    sizes = (_sizes,) if _sizes else MPI3D_SIZES
    path = find(folder, f"{name}.npz")
    if path is None:
        raise missing(name, f"{name}.npz (12.7 GB)", folder)
    expected = "MPI3D: images (n, 64, 64, 3) uint8"
    array = npz_array(path, "images", expected)
    if array.dtype != np.uint8 or array.shape[1:] != (64, 64, 3):
        raise ValueError(f"{path}: images is {array.dtype} {array.shape}, expected {expected}")
    count = array.shape[0]
    fitting = [s for s in sizes if math.prod(s) == count]
    if not fitting:
        counts = " or ".join(f"{math.prod(s):,}" for s in sizes)
        raise ValueError(f"{path} holds {count:,} images, expected {counts} (it has no labels, so it must be whole)")
    rows: Rows
    if array.offset is not None:
        if path.stat().st_size < array.offset + math.prod(array.shape):
            raise bad(path, expected, "it is cut off")
        rows = MappedRows(path, array.shape, array.offset)
    else:
        rows = CachedRows((path,), array.shape, array.blocks)
    grid = FactorGrid(MPI3D_FACTORS, fitting[0])
    return DataSet(
        name, grid, (3, 64, 64), partial(_grid_images, grid, partial(_channels_first, rows)), source=path.name
    )


def _grid_or_table(
    name: str,
    path: Path,
    grid: FactorGrid,
    labels: NDArray | None,
    image_shape: tuple[int, int, int],
    count: int,
    fetch: Rows,
) -> DataSet:
    """Return the whole grid if the file holds its rows in order; else a table of the rows that are there."""
    whole = count == len(grid)
    if labels is None and not whole:
        raise ValueError(f"{path} holds {count:,} images without labels, expected {len(grid):,}")
    if labels is not None and labels.shape != (count, len(grid.names)):
        raise ValueError(f"{path}: the labels have shape {labels.shape}, expected ({count}, {len(grid.names)})")
    if labels is not None and not _finite(labels):
        raise ValueError(f"{path}: not all labels are finite numbers")
    if labels is None or (whole and np.array_equal(labels, grid.rows(np.arange(count)))):
        return DataSet(name, grid, image_shape, partial(_grid_images, grid, fetch), source=path.name)
    rows = f"{count:,} of {len(grid):,} images" if not whole else "not in the order of the grid"
    return TableDataSet(name, grid.names, labels, image_shape, fetch, source=f"{path.name}, {rows}")


with extras():
    from PIL import Image

SMALLNORB_GRID = FactorGrid(("category", "elevation", "azimuth", "lighting"), (5, 9, 18, 6))
_NORB_TYPES = {0x1E3D4C55: "u1", 0x1E3D4C54: "<i4", 0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8", 0x1E3D4C56: "<i2"}
CARS = 183


def _resized(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS))


def norb_matrix(path: Path) -> NDArray:
    """Return a binary matrix of the NORB data sets, memory-mapped: int32 magic, int32 ndim, max(3, ndim) dims, the
    data."""
    expected = "a NORB binary matrix"
    with path.open("rb") as file:
        head = np.fromfile(file, "<i4", 2)
        if len(head) < 2 or int(head[0]) not in _NORB_TYPES or not 1 <= head[1] <= 8:
            raise bad(path, expected)
        ndim = int(head[1])
        dims = np.fromfile(file, "<i4", max(3, ndim))
        offset = file.tell()
    shape = tuple(int(size) for size in dims[:ndim])
    dtype = np.dtype(_NORB_TYPES[int(head[0])])
    if len(dims) < max(3, ndim) or min(shape) < 1:
        raise bad(path, expected, "its sizes are cut off or not positive")
    size, needed = path.stat().st_size, offset + dtype.itemsize * math.prod(shape)
    if size != needed:
        raise bad(path, f"{expected} of {needed:,} bytes for its shape {shape}", f"it has {size:,}")
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


@dataclass
class InstanceImages:
    """Images of factor rows: for each row that of any of the objects that share these factors.

    order: image numbers, sorted by grid cell; start, count: each cell's part of it.
    """

    grid: FactorGrid
    fetch: Rows
    order: NDArray[np.int64]
    start: NDArray[np.int64]
    count: NDArray[np.int64]

    def __call__(self, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
        cell = np.ravel_multi_index(tuple(rows.T), self.grid.sizes)
        return self.fetch(self.order[self.start[cell] + rng.integers(0, self.count[cell])])


def smallnorb_file(folder: Path | None, *, _sizes: tuple[int, ...] | None = None) -> DataSet:
    """Return SmallNORB from its official files: camera 0 of the training and testing parts, or of the one that is
    there.

    The toy itself (10 per category) is no factor: it is drawn at random, so the data set is stochastic. Files that do
    not fill the grid become a TableDataSet, with the toy as the factor `instance`.
    """
    parts = {split: find(folder, f"{stem}-dat.mat") for split, stem in SMALLNORB.items()}
    paths = tuple(path for path in parts.values() if path)
    if not paths:
        files = ", ".join(f"{stem}-{{dat,cat,info}}.mat" for stem in SMALLNORB.values())
        raise missing("smallnorb", f"{files} (0.9 GB)", folder)
    source = f"smallnorb {' + '.join(s for s, path in parts.items() if path)}{' only' if len(paths) == 1 else ''}"
    category, instance, elevation, azimuth, lighting = np.concatenate([_norb_labels(path) for path in paths]).T
    rows = np.column_stack((category, elevation, azimuth // 2, lighting))  # Azimuths are stored as 0, 2, ..., 34.
    grid = FactorGrid(SMALLNORB_GRID.names, _sizes or SMALLNORB_GRID.sizes)
    if rows.min() < 0 or (rows >= np.array(grid.sizes)).any():
        raise ValueError(f"{source}: labels up to {rows.max(axis=0).tolist()}, expected below {grid.sizes}")
    fetch = CachedRows(paths, (len(rows), 1, 64, 64), partial(_norb_images, paths), tag="64x64")
    cell = grid.index(rows)
    count = np.bincount(cell, minlength=len(grid))
    if count.min() == 0:
        table = np.column_stack((rows, instance))
        source = f"{source}, {len(rows):,} images that do not fill the grid"
        return TableDataSet("smallnorb", (*grid.names, "instance"), table, (1, 64, 64), fetch, source=source)
    order = np.lexsort((instance, cell))
    render = InstanceImages(grid, fetch, order, np.cumsum(count) - count, count)
    return DataSet("smallnorb", grid, (1, 64, 64), render, source=source, stochastic=True)


def _norb_labels(dat: Path) -> NDArray[np.int64]:
    """Return the labels (n, 5) of a part (category, instance, elevation, azimuth, lighting); check the shape of its
    images, too."""
    images = norb_matrix(dat)
    if images.shape[1:] != (2, 96, 96) or images.dtype != np.uint8:
        raise ValueError(f"{dat} is {images.dtype} {images.shape}, expected uint8 (n, 2, 96, 96)")
    labels = []
    for kind, shape in (("cat", (len(images),)), ("info", (len(images), 4))):
        path = dat.with_name(dat.name.replace("-dat.mat", f"-{kind}.mat"))
        if not path.is_file():
            raise ValueError(f"{dat} is there, but {path.name} is missing beside it")
        matrix = norb_matrix(path)
        if matrix.shape != shape:
            raise ValueError(f"{path} has shape {matrix.shape}, expected {shape} as in {dat.name}")
        labels.append(matrix)
    return np.column_stack(labels).astype(np.int64)


def _norb_images(paths: tuple[Path, ...]) -> Iterator[NDArray[np.uint8]]:
    for path in paths:
        for pair in norb_matrix(path):
            yield _resized(pair[0])[None, None]


def cars3d_file(folder: Path | None, *, _sizes: tuple[int, ...] | None = None) -> DataSet:
    """Return Cars3D from the official car_*.mat files, in the folder or up to three levels below it.

    The objects are numbered by sorted file name, so that they mean the same on every machine. With fewer than 183 files
    the grid has that many objects.
    """
    paths: tuple[Path, ...] = ()
    for depth in range(4 if folder else 0):
        found = sorted((folder or Path()).glob("*/" * depth + "car_*.mat"))
        if found:
            paths = tuple(path for path in found if path.parent == found[0].parent)
            break
    if not paths:
        raise missing("cars3d", "the 183 files car_*.mat of nips2015-analogy-data.tar.gz (data/cars)", folder)
    views = _sizes or (4, 24)
    for path in paths:
        _check_car(path, views)
    grid = FactorGrid(("elevation", "azimuth", "object"), (*views, len(paths)))
    # The cache holds car after car, the order in which the files can be read one at a time.
    shape = (len(paths) * math.prod(views), 3, 64, 64)
    fetch = CachedRows(paths, shape, partial(_car_images, paths, views), tag="64x64")
    source = f"{len(paths)} car_*.mat" if len(paths) == CARS else f"{len(paths)} of {CARS} car_*.mat"
    return DataSet("cars3d", grid, (3, 64, 64), partial(_cars_at, views, fetch), source=source)


def _cars_at(
    views: tuple[int, ...], fetch: Rows, rows: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return the images of factor rows (elevation, azimuth, object), where they lie object by object."""
    elevation, azimuth, car = rows.T
    return fetch((car * views[0] + elevation) * views[1] + azimuth)


def _car_images(paths: tuple[Path, ...], views: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    for path in paths:
        car = _read_car(path)  # (h, w, 3, azimuth, elevation)
        for elevation in range(views[0]):
            for azimuth in range(views[1]):
                image = np.ascontiguousarray(car[..., azimuth, elevation])
                yield _resized(image).transpose(2, 0, 1)[None]


def _read_car(path: Path) -> NDArray[np.uint8]:
    from scipy.io import loadmat

    try:
        return loadmat(path, variable_names=["im"])["im"]
    except Exception as error:  # A damaged file raises anything.
        raise ValueError(f"{path} is damaged: {error}; delete it and get it again") from None


def _check_car(path: Path, views: tuple[int, ...]) -> None:
    """Look at a file's head only: all 183 take a fraction of a second."""
    from scipy.io import whosmat

    expected = f"a MATLAB file with im (h, w, 3, {views[1]}, {views[0]}) uint8"
    try:
        content = {name: (shape, kind) for name, shape, kind in whosmat(path)}
    except Exception as error:
        raise bad(path, expected, error) from None
    shape, kind = content.get("im", ((), "missing"))
    if len(shape) != 5 or shape[2:] != (3, views[1], views[0]) or kind != "uint8" or math.prod(shape) > MEMORY_LIMIT:
        raise ValueError(f"{path} holds {content or 'nothing'}, expected {expected}")
