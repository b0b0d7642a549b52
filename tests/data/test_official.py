"""Official files: small ones of the true layout that the tests write, and five-row fixtures from elsewhere."""

import errno
import multiprocessing
import os
import pickle
import shutil
import zipfile
from operator import methodcaller
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from karenina.data import files
from karenina.data.dataset import DataSet, FactorGrid, TableDataSet
from karenina.data.download import DSPRITES, SMALLNORB
from karenina.data.dsprites import GRID as DSPRITES_GRID
from karenina.data.official import (
    cars3d_file,
    dsprites_file,
    mpi3d_file,
    norb_matrix,
    shapes3d_file,
    smallnorb_file,
)
from karenina.data.shapes3d import GRID as SHAPES3D_GRID

FIXTURES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "format-fixtures"
needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the format fixtures are not on this machine")
SPRITE_SIZES = (3, 6, 40, 4, 4)  # 11,520 images: more than are kept unpacked
SHAPE_SIZES = (2, 2, 3, 2, 2, 3)


def sprites(count: int) -> np.ndarray:
    """Different images that compress quickly: noise in one row, the rest empty."""
    images = np.zeros((count, 64, 64), np.uint8)
    images[:, 9] = np.random.default_rng(0).integers(0, 2, (count, 64))
    return images


def write_dsprites(folder: Path, sizes=SPRITE_SIZES, order=None) -> np.ndarray:
    grid = FactorGrid(DSPRITES_GRID.names, sizes)
    images, rows = sprites(len(grid)), grid.rows(np.arange(len(grid)))
    order = np.arange(len(grid)) if order is None else order
    classes = np.column_stack((np.zeros(len(order), np.int64), rows[order]))
    metadata = np.array({"title": "pickled, as in the original, and never to be loaded"}, dtype=object)
    np.savez_compressed(folder / f"{DSPRITES}.npz", imgs=images[order], latents_classes=classes, metadata=metadata)
    return images


def write_shapes3d(folder: Path, sizes=SHAPE_SIZES, chunks=(16, 4, 4, 1), count=None) -> np.ndarray:
    grid = FactorGrid(SHAPES3D_GRID.names, sizes)
    rows = grid.rows(np.arange(len(grid)))[:count]
    labels = rows * np.array([0.1, 0.1, 0.1, 0.5 / 7, 1, 60 / 14]) + np.array([0, 0, 0, 0.75, 0, -30])
    images = np.random.default_rng(0).integers(0, 256, (len(rows), 64, 64, 3), dtype=np.uint8)
    with h5py.File(folder / "3dshapes.h5", "w") as file:
        file.create_dataset("images", data=images, chunks=chunks, compression="gzip" if chunks else None)
        file["labels"] = labels
    return images


def write_norb(path: Path, array: np.ndarray) -> None:
    magic = {np.dtype(np.uint8): 0x1E3D4C55, np.dtype(np.int32): 0x1E3D4C54}[array.dtype]
    dims = [*array.shape, 1, 1][: max(3, array.ndim)]
    with path.open("wb") as file:
        np.array([magic, array.ndim, *dims], "<i4").tofile(file)
        array.tofile(file)


def write_smallnorb(folder: Path, split: str, instances: list[int], sizes=(2, 3, 2, 2)) -> None:
    rows = FactorGrid(("c", "e", "a", "l", "i"), (*sizes, len(instances))).rows(
        np.arange(np.prod(sizes) * len(instances))
    )
    rows = np.random.default_rng(len(instances)).permutation(rows)
    # Each toy has its own brightness, so that a test sees which one was drawn.
    images = np.full((len(rows), 2, 96, 96), 255, np.uint8)
    info = np.column_stack((np.array(instances)[rows[:, 4]], rows[:, 1], 2 * rows[:, 2], rows[:, 3]))
    images[:, 0] = (20 * info[:, 0] + rows[:, 0])[:, None, None]
    stem = SMALLNORB[split]
    write_norb(folder / f"{stem}-dat.mat", images)
    write_norb(folder / f"{stem}-cat.mat", rows[:, 0].astype(np.int32))
    write_norb(folder / f"{stem}-info.mat", info.astype(np.int32))


def write_cars(folder: Path, count: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    # Smooth pictures, so that resizing keeps their mean.
    cars = np.broadcast_to(rng.integers(0, 256, (count, 1, 1, 3, 24, 4), dtype=np.uint8), (count, 128, 128, 3, 24, 4))
    folder.mkdir(parents=True, exist_ok=True)
    for number in reversed(range(count)):
        savemat(folder / f"car_{number + 1:03}_mesh.mat", {"im": cars[number]}, do_compression=True)
    return cars


@pytest.fixture
def full_disk(monkeypatch):
    def fail(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "atomic", fail)


def test_dsprites_npz_is_packed_once_and_read_from_its_cache(tmp_path, monkeypatch):
    images = write_dsprites(tmp_path)
    data = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    assert (data.source, data.image_shape, len(data)) == (f"{DSPRITES}.npz", (1, 64, 64), len(images))
    index = np.array([0, 5, 5, len(images) - 1])
    assert np.array_equal(data.at(index), 255 * images[index][:, None])
    cache = next(tmp_path.glob("*.bits.npy"))
    assert cache.stat().st_size == 128 + len(images) * 512

    monkeypatch.setattr(np, "packbits", None)  # nothing is packed again
    again = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    assert np.array_equal(again.at(index), data.at(index))


def test_cache_follows_its_source(tmp_path):
    write_dsprites(tmp_path)
    dsprites_file(tmp_path, _sizes=SPRITE_SIZES).at([0])
    old = next(tmp_path.glob("*.bits.npy"))
    images = write_dsprites(tmp_path, SPRITE_SIZES, None)
    os.utime(tmp_path / f"{DSPRITES}.npz", ns=(1, 1))
    assert np.array_equal(dsprites_file(tmp_path, _sizes=SPRITE_SIZES).at([3])[0, 0], 255 * images[3])
    new = list(tmp_path.glob("*.bits.npy"))
    assert new != [old]
    assert len(new) == 1

    new[0].write_bytes(b"cut")
    assert np.array_equal(dsprites_file(tmp_path, _sizes=SPRITE_SIZES).at([3])[0, 0], 255 * images[3])


def test_dsprites_hdf5(tmp_path):
    grid = FactorGrid(DSPRITES_GRID.names, SPRITE_SIZES)
    images = sprites(len(grid))
    with h5py.File(tmp_path / f"{DSPRITES}.hdf5", "w") as file:
        file.create_dataset("imgs", data=images, chunks=(2304, 8, 16), compression="gzip")
        file["latents/classes"] = np.column_stack((np.zeros(len(grid), int), grid.rows(np.arange(len(grid)))))
    data = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    rows = grid.sample(20, np.random.default_rng(1))
    assert data.source == f"{DSPRITES}.hdf5"
    assert np.array_equal(data.images(rows)[:, 0], 255 * images[grid.index(rows)])


def test_dsprites_memory_stays_small(tmp_path, monkeypatch):
    from karenina.data import files

    monkeypatch.setattr(files, "_BLOCK_BYTES", 1 << 20)
    images = write_dsprites(tmp_path)
    seen = []
    pack = np.packbits
    monkeypatch.setattr(np, "packbits", lambda block, axis: seen.append(block.nbytes) or pack(block, axis=axis))
    data = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    assert np.array_equal(data.at([7])[0, 0], 255 * images[7])
    assert max(seen) <= 1 << 20


def test_shuffled_or_partial_dsprites_is_a_table(tmp_path):
    order = np.random.default_rng(0).permutation(int(np.prod(SPRITE_SIZES)))
    images = write_dsprites(tmp_path, order=order)
    data = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    assert isinstance(data, TableDataSet)
    assert "order" in data.source
    grid = FactorGrid(DSPRITES_GRID.names, SPRITE_SIZES)
    rows = grid.sample(10, np.random.default_rng(1))
    assert np.array_equal(data.images(rows)[:, 0], 255 * images[grid.index(rows)])

    write_dsprites(tmp_path, order=order[:100])
    part = dsprites_file(tmp_path)
    assert part.source == f"{DSPRITES}.npz, 100 of 737,280 images"
    assert np.array_equal(part.images(grid.rows(order[:3]))[:, 0], 255 * images[order[:3]])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_disk_or_a_read_only_folder_means_memory(tmp_path, monkeypatch, code):
    def fail(path):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "atomic", fail)
    images = write_dsprites(tmp_path)
    data = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    with pytest.warns(RuntimeWarning, match=f"{os.strerror(code)}.*in memory"):
        assert np.array_equal(data.at([9])[0, 0], 255 * images[9])
    assert not list(tmp_path.glob("*.npy"))
    assert np.array_equal(data.at([8])[0, 0], 255 * images[8])


def test_disk_space_is_asked_for_before_writing(tmp_path, monkeypatch):
    write_dsprites(tmp_path)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.warns(RuntimeWarning, match="No space left"):
        dsprites_file(tmp_path, _sizes=SPRITE_SIZES).at([0])


@pytest.mark.parametrize("chunks", [(16, 4, 4, 1), (1, 64, 64, 3), None], ids=["cached", "by image", "mapped"])
def test_shapes3d(tmp_path, chunks):
    images = write_shapes3d(tmp_path, chunks=chunks)
    data = shapes3d_file(tmp_path, _sizes=SHAPE_SIZES)
    assert type(data) is DataSet
    assert data.source == "3dshapes.h5"
    rows = data.factors.sample(40, np.random.default_rng(0))
    expected = images[data.factors.index(rows)].transpose(0, 3, 1, 2)
    assert np.array_equal(data.images(rows), expected)
    assert len(list(tmp_path.glob("*.npy"))) == (chunks == (16, 4, 4, 1))


def test_shapes3d_without_room_for_its_cache_is_slow_but_right(tmp_path, full_disk):
    images = write_shapes3d(tmp_path)
    data = shapes3d_file(tmp_path, _sizes=SHAPE_SIZES)
    with pytest.warns(RuntimeWarning, match="slow"):
        assert np.array_equal(data.at([5, 3, 5])[:, 0], images[[5, 3, 5], :, :, 0])


def test_partial_shapes3d_is_a_table_of_class_numbers(tmp_path):
    images = write_shapes3d(tmp_path, count=50)
    data = shapes3d_file(tmp_path)
    assert isinstance(data, TableDataSet)
    assert data.source == "3dshapes.h5, 50 of 480,000 images"
    assert data.table.dtype == np.int64
    assert np.array_equal(data.images(data.table[[4]])[0], images[4].transpose(2, 0, 1))


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_readers_work_in_workers_after_use_here(tmp_path, start):
    write_shapes3d(tmp_path, chunks=(1, 64, 64, 3))
    data = shapes3d_file(tmp_path, _sizes=SHAPE_SIZES)
    here = data.at([1, 2])
    with multiprocessing.get_context(start).Pool(1) as pool:
        assert np.array_equal(pool.apply(methodcaller("at", [1, 2]), (data,)), here)


def test_a_pickled_data_set_carries_no_images(tmp_path):
    write_dsprites(tmp_path)
    data = dsprites_file(tmp_path, _sizes=SPRITE_SIZES)
    expected = data.at([1])
    parcel = pickle.dumps(data)
    assert len(parcel) < 5000
    assert np.array_equal(pickle.loads(parcel).at([1]), expected)


def test_smallnorb(tmp_path):
    write_smallnorb(tmp_path, "training", [4, 6, 7])
    write_smallnorb(tmp_path, "testing", [0, 1])
    data = smallnorb_file(tmp_path, _sizes=(2, 3, 2, 2))
    assert data.factor_names == ("category", "elevation", "azimuth", "lighting")
    assert data.stochastic
    assert data.source == "smallnorb training + testing"
    rows = data.factors.sample(400, np.random.default_rng(0))
    images = data.images(rows, rng=1)
    assert images.shape == (400, 1, 64, 64)
    values = images[:, 0, 10, 10].astype(int)
    assert np.array_equal(values % 20, rows[:, 0])
    assert set(values // 20) == {0, 1, 4, 6, 7}
    assert np.array_equal(images, data.images(rows, rng=1))
    assert not np.array_equal(images, data.images(rows, rng=2))


def test_one_part_of_smallnorb_says_so(tmp_path):
    write_smallnorb(tmp_path, "testing", [0, 1])
    assert smallnorb_file(tmp_path, _sizes=(2, 3, 2, 2)).source == "smallnorb testing only"


def test_smallnorb_images_are_camera_0_antialiased(tmp_path):
    write_smallnorb(tmp_path, "testing", [0])
    path = tmp_path / f"{SMALLNORB['testing']}-dat.mat"
    images = np.random.default_rng(0).integers(0, 256, norb_matrix(path).shape, dtype=np.uint8)
    info = norb_matrix(tmp_path / f"{SMALLNORB['testing']}-info.mat").copy()
    cat = norb_matrix(tmp_path / f"{SMALLNORB['testing']}-cat.mat").copy()
    write_norb(path, images)
    row = [cat[0], info[0, 1], info[0, 2] // 2, info[0, 3]]
    expected = Image.fromarray(images[0, 0]).resize((64, 64), Image.Resampling.LANCZOS)
    assert np.array_equal(smallnorb_file(tmp_path, _sizes=(2, 3, 2, 2)).images([row])[0, 0], np.asarray(expected))


def test_cars3d(tmp_path):
    cars = write_cars(tmp_path / "data" / "cars")
    data = cars3d_file(tmp_path)
    assert (data.factor_names, data.factor_sizes) == (("elevation", "azimuth", "object"), (4, 24, 3))
    assert data.source == "3 of 183 car_*.mat"
    rows = data.factors.sample(50, np.random.default_rng(0))
    images = data.images(rows)
    expected = cars[rows[:, 2], 0, 0, :, rows[:, 1], rows[:, 0]]
    assert images.shape == (50, 3, 64, 64)
    assert np.array_equal(images[:, :, 5, 5], expected)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_mpi3d(tmp_path, save):
    sizes = (2, 2, 2, 3, 3, 2, 2)
    images = np.random.default_rng(0).integers(0, 256, (int(np.prod(sizes)), 64, 64, 3), dtype=np.uint8)
    save(tmp_path / "mpi3d_toy.npz", images=images)
    data = mpi3d_file(tmp_path, "toy", _sizes=sizes)
    index = np.array([0, 200, 3, 3])
    assert np.array_equal(data.at(index), images[index].transpose(0, 3, 1, 2))
    assert data.source == "mpi3d_toy.npz"
    assert bool(list(tmp_path.glob("*.npy"))) == (save is np.savez_compressed)


def test_mpi3d_compressed_without_room_says_so(tmp_path, full_disk, monkeypatch):
    monkeypatch.setattr(files, "MEMORY_LIMIT", 1)
    np.savez_compressed(tmp_path / "mpi3d_real.npz", images=np.zeros((8, 64, 64, 3), np.uint8))
    with pytest.raises(ValueError, match="too large for memory"):
        mpi3d_file(tmp_path, "real", _sizes=(2, 2, 2, 1, 1, 1, 1)).at([0])


def test_mpi3d_row_counts(tmp_path):
    np.savez(tmp_path / "mpi3d_real.npz", images=np.zeros((8, 64, 64, 3), np.uint8))
    with pytest.raises(ValueError, match="holds 8 images, expected 1,036,800 or 460,800"):
        mpi3d_file(tmp_path, "real")


def test_absent_files(tmp_path):
    assert dsprites_file(tmp_path) is None
    assert shapes3d_file(tmp_path) is None
    for read, file in (
        (smallnorb_file, "smallnorb-5x46789x9x18x6x2x96x96-training"),
        (cars3d_file, "car_"),
        (lambda folder: mpi3d_file(folder, "toy"), "mpi3d_toy.npz"),
    ):
        for folder in (tmp_path, None):
            with pytest.raises(ValueError, match=f"{file}.*KARENINA_DATA.*karenina data get"):
                read(folder)
    with pytest.raises(ValueError, match="md5 4e866a7919c1beedf53964e6f7a23686"):
        cars3d_file(None)
    with pytest.raises(ValueError, match="does not exist"):
        dsprites_file(tmp_path / "nowhere")


def test_mislabelled_files_are_named_for_what_they_are(tmp_path):
    with zipfile.ZipFile(tmp_path / "3dshapes.h5", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(ValueError, match=r"3dshapes.h5 is a zip archive.*expected 3D Shapes"):
        shapes3d_file(tmp_path)
    (tmp_path / f"{DSPRITES}.npz").write_text("<!DOCTYPE html><title>404</title>")
    with pytest.raises(ValueError, match=r"npz is a web page .*expected dSprites"):
        dsprites_file(tmp_path)
    (tmp_path / "mpi3d_toy.npz").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(ValueError, match="Git LFS pointer"):
        mpi3d_file(tmp_path, "toy")
    (tmp_path / "car_001_mesh.mat").write_bytes(b"")
    with pytest.raises(ValueError, match=r"car_001_mesh.mat is an empty file"):
        cars3d_file(tmp_path)
    (tmp_path / f"{SMALLNORB['testing']}-dat.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b" " * 200)
    with pytest.raises(ValueError, match="is a MATLAB 5 file, expected a NORB"):
        smallnorb_file(tmp_path)


def cut(path: Path, keep: float) -> None:
    with path.open("rb+") as file:
        file.truncate(int(path.stat().st_size * keep))


def test_truncated_files(tmp_path):
    write_dsprites(tmp_path)
    cut(tmp_path / f"{DSPRITES}.npz", 0.9)
    with pytest.raises(ValueError, match="zip"):
        dsprites_file(tmp_path)
    write_shapes3d(tmp_path)
    cut(tmp_path / "3dshapes.h5", 0.9)
    with pytest.raises(ValueError, match="truncated"):
        shapes3d_file(tmp_path)
    write_smallnorb(tmp_path, "training", [4])
    cut(tmp_path / f"{SMALLNORB['training']}-dat.mat", 0.9)
    with pytest.raises(ValueError, match="bytes for its shape"):
        smallnorb_file(tmp_path)
    write_cars(tmp_path, 1)
    cut(tmp_path / "car_001_mesh.mat", 0.5)
    with pytest.raises(ValueError, match="damaged"):
        cars3d_file(tmp_path).at([0])
    assert not list(tmp_path.glob("*.npy"))
    assert not list(tmp_path.glob("*.part*"))


def test_a_damaged_member_leaves_no_cache(tmp_path):
    write_dsprites(tmp_path)
    path = tmp_path / f"{DSPRITES}.npz"
    content = bytearray(path.read_bytes())
    content[10_000:10_100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        dsprites_file(tmp_path, _sizes=SPRITE_SIZES).at([0])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_wrong_contents(tmp_path):
    np.savez(tmp_path / f"{DSPRITES}.npz", pictures=np.zeros((3, 64, 64), np.uint8))
    with pytest.raises(ValueError, match="holds the arrays pictures, expected dSprites: imgs"):
        dsprites_file(tmp_path)
    np.savez(tmp_path / f"{DSPRITES}.npz", imgs=np.zeros((3, 32, 32), np.float32))
    with pytest.raises(ValueError, match=r"float32 \(3, 32, 32\)"):
        dsprites_file(tmp_path)
    np.savez(tmp_path / f"{DSPRITES}.npz", imgs=np.zeros((3, 64, 64), np.uint8))
    with pytest.raises(ValueError, match="3 images without labels, expected 737,280"):
        dsprites_file(tmp_path)
    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        file["images"] = np.zeros((2, 64, 64, 3), np.uint8)
    with pytest.raises(ValueError, match="holds the arrays images, expected 3D Shapes"):
        shapes3d_file(tmp_path)
    savemat(tmp_path / "car_001_mesh.mat", {"im": np.zeros((8, 8, 3, 24, 5), np.uint8)})
    with pytest.raises(ValueError, match=r"expected a MATLAB file with im \(h, w, 3, 24, 4\)"):
        cars3d_file(tmp_path)
    write_smallnorb(tmp_path, "testing", [0])
    (tmp_path / f"{SMALLNORB['testing']}-info.mat").unlink()
    with pytest.raises(ValueError, match=r"testing-info.mat is missing"):
        smallnorb_file(tmp_path)


def test_grey_sprites_are_refused(tmp_path):
    grid = FactorGrid(DSPRITES_GRID.names, SPRITE_SIZES)
    images = np.full((len(grid), 64, 64), 7, np.uint8)
    np.savez_compressed(tmp_path / f"{DSPRITES}.npz", imgs=images)
    with pytest.raises(ValueError, match="values other than two"):
        dsprites_file(tmp_path, _sizes=SPRITE_SIZES).at([0])


@needs_fixtures
def test_fixtures(tmp_path):
    for file in FIXTURES.iterdir():
        shutil.copy(file, tmp_path)
    data = dsprites_file(tmp_path)
    assert data.source == f"{DSPRITES}.hdf5, 5 of 737,280 images"
    assert data.table.tolist()[0] == [2, 3, 31, 16, 14]
    with h5py.File(tmp_path / f"{DSPRITES}.hdf5") as file:
        assert np.array_equal(data.images([[2, 3, 31, 16, 14]])[0, 0], file["imgs"][0])

    data = shapes3d_file(tmp_path)
    assert data.source == "3dshapes.h5, 5 of 480,000 images"
    assert data.table.tolist()[0] == [7, 0, 0, 6, 1, 12]
    with h5py.File(tmp_path / "3dshapes.h5") as file:
        assert np.array_equal(data.at([3])[0], file["images"][3].transpose(2, 0, 1))

    data = smallnorb_file(tmp_path)
    assert data.source == "smallnorb training only, 5 images that do not fill the grid"
    assert data.table.tolist()[1] == [0, 1, 11, 2, 1]
    assert data.at([0]).shape == (1, 1, 64, 64)
