"""The official files of dSprites, 3D Shapes and MPI3D; SmallNORB and Cars3D are in official_mat.

Nothing large is ever loaded whole. A file that allows it is memory-mapped in place; others are unpacked once, at the
first image asked for, into a cache beside them (dSprites 0.4 GB, 3D Shapes 5.9 GB), and that is memory-mapped.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from karenina.data import dsprites, shapes3d
from karenina.data._reading import (
    bad,
    find,
    h5_blocks,
    h5_dataset,
    h5_small,
    h5_whole,
    missing,
    npz_array,
    npz_small,
    open_h5,
)
from karenina.data._rows import CachedRows, H5Rows, MappedRows, Rows, h5_rows, memory_rows
from karenina.data.dataset import DataSet, FactorGrid, TableDataSet
from karenina.data.official_mat import cars3d_file, smallnorb_file

__all__ = ["cars3d_file", "dsprites_file", "mpi3d_file", "shapes3d_file", "smallnorb_file"]

DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
SHAPES3D = "3dshapes.h5"
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


# The first arguments of these are given by functools.partial, which can be sent to workers.
def _grid_images(grid: FactorGrid, fetch: Rows, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Factor rows to images, when the images lie in the grid's own order."""
    return fetch(np.ravel_multi_index(tuple(rows.T), grid.sizes))


def _channels_first(rows: Rows, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Stored images (n, h, w, c) as (n, c, h, w)."""
    return np.ascontiguousarray(rows(index).transpose(0, 3, 1, 2))


def _binary_images(rows: Rows, index: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Stored bits (n, 512) as images (n, 1, 64, 64) of 0 and 255."""
    bits = np.unpackbits(rows(index), axis=1)
    return np.negative(bits, out=bits).reshape(len(bits), 1, 64, 64)  # -1 is 255 in uint8


def dsprites_file(folder: Path, *, _sizes: tuple[int, ...] | None = None) -> DataSet | None:
    """dSprites from the official .npz or .hdf5 in a folder, or None where there is neither.

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
        labels = labels[:, 1:]  # the first is the colour, always white
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
    """3D Shapes from the official 3dshapes.h5 in a folder, or None where it is not.

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
    """The labels, hues 0..0.9, scales 0.75..1.25, shapes 0..3 and angles -30..30, as numbers of their values."""
    low = np.array([0, 0, 0, 0.75, 0, -30])
    step = np.array([0.1, 0.1, 0.1, 0.5 / 7, 1, 60 / 14])
    if not _finite(values):
        return values
    classes = (values.astype(np.float64) - low) / step
    whole = np.round(classes)
    fits = np.abs(classes - whole).max(initial=0) < 1e-3 and np.abs(whole).max(initial=0) < 1000
    return whole.astype(np.int64) if fits else values


def _finite(values: NDArray) -> bool:
    """Whether all are numbers, none of them beyond what a label could be."""
    return values.dtype.kind in "iuf" and bool((np.abs(values) < 2.0**53).all())


def mpi3d_file(folder: Path | None, version: str, *, _sizes: tuple[int, ...] | None = None) -> DataSet:
    """MPI3D from the official .npz of a version: toy, realistic or real.

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
    """The whole grid if the file holds its rows in order; else a table of the rows that are there."""
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
