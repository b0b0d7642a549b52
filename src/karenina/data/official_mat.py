"""The official files of SmallNORB (binary matrices) and Cars3D (MATLAB files), resized to 64 x 64.

The resized images (0.2 GB each) are kept in a cache beside the files, as resizing takes longer than reading.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from karenina._plugins import extras
from karenina.data._reading import MEMORY_LIMIT, bad, find, missing
from karenina.data._rows import CachedRows, Rows
from karenina.data.dataset import DataSet, FactorGrid, TableDataSet

with extras():
    from PIL import Image

SMALLNORB = {
    "training": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "testing": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
SMALLNORB_GRID = FactorGrid(("category", "elevation", "azimuth", "lighting"), (5, 9, 18, 6))
_NORB_TYPES = {0x1E3D4C55: "u1", 0x1E3D4C54: "<i4", 0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8", 0x1E3D4C56: "<i2"}
CARS = 183


def _resized(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS))


def norb_matrix(path: Path) -> NDArray:
    """A binary matrix of the NORB data sets, memory-mapped: int32 magic, int32 ndim, max(3, ndim) dims, the data."""
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
    """Factor rows to images of any of the objects that share these factors.

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
    """SmallNORB from its official files: camera 0 of the training and testing parts, or of the one that is there.

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
    rows = np.column_stack((category, elevation, azimuth // 2, lighting))  # azimuths are stored as 0, 2, ..., 34
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
    """The labels (n, 5) of a part: category, instance, elevation, azimuth, lighting. Checks the images' shape too."""
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
    """Cars3D from the official car_*.mat files, in the folder or up to three levels below it.

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
    """Factor rows (elevation, azimuth, object) to images that lie object by object."""
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
    except Exception as error:  # a damaged file raises anything from OSError to zlib.error and IndexError
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
