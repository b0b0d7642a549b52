"""The user's own images: folders with and without factors, .npz and .h5."""

import json
import pickle

import h5py
import numpy as np
import pytest
from PIL import Image

import karenina
from karenina.data import files, user_images
from karenina.data.user_images import array_file, folder, open_path, stream, survey

RNG = np.random.default_rng(0)


def picture(height=8, width=8, channels=3):
    return RNG.integers(0, 256, (height, width, channels) if channels > 1 else (height, width), dtype=np.uint8)


def write_images(path, names=("a.png", "b.png", "c.png"), **shape):
    path.mkdir(parents=True, exist_ok=True)
    images = {}
    for name in names:
        images[name] = picture(**shape)
        (path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(images[name]).save(path / name)
    return images


def test_folder_in_the_order_of_names(tmp_path):
    images = write_images(tmp_path, ("c.png", "a.png", "b.PNG"))
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("left alone")
    data = karenina.load(tmp_path)
    assert not data.labelled
    assert (data.name, data.source, len(data), data.image_shape) == (tmp_path.name, str(tmp_path), 3, (3, 8, 8))
    assert np.array_equal(data.at([0, 2]), np.stack([images["a.png"], images["c.png"]]).transpose(0, 3, 1, 2))
    drawn, factors = data.sample(5, 0)
    assert drawn.shape == (5, 3, 8, 8)
    assert factors.shape == (5, 0)
    with pytest.raises(ValueError, match="has no factors"):
        data.images(np.empty((2, 0)))


def test_grey_files_have_one_channel_unless_asked(tmp_path):
    images = write_images(tmp_path, channels=1)
    assert np.array_equal(folder(tmp_path).at([1])[0, 0], images["b.png"])
    assert folder(tmp_path, grey=False).image_shape == (3, 8, 8)
    write_images(tmp_path, ("d.png",))
    assert folder(tmp_path).image_shape == (3, 8, 8)
    assert folder(tmp_path, grey=True).image_shape == (1, 8, 8)


def test_sixteen_bit_images_are_scaled(tmp_path):
    tmp_path.joinpath("x").mkdir()
    values = np.array([[0, 257 * 7], [257 * 128, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "x" / "a.png")
    assert folder(tmp_path / "x").at([0]).ravel().tolist() == [0, 7, 128, 255]


def test_two_sizes_need_a_size(tmp_path):
    write_images(tmp_path, ("a.png", "b.png"))
    write_images(tmp_path, ("wide.png",), width=12)
    with pytest.raises(ValueError, match=r"2 sizes: 8 x 8 \(2, a.png\), 8 x 12 \(1, wide.png\); resize them by size="):
        folder(tmp_path)
    assert folder(tmp_path, size=4).image_shape == (3, 4, 4)
    assert folder(tmp_path, size=(4, 6)).image_shape == (3, 4, 6)
    for size in (0, (4, 4, 4), "big", 4.5):
        with pytest.raises(ValueError, match="size"):
            folder(tmp_path, size=size)


def test_crop_takes_the_middle(tmp_path):
    images = write_images(tmp_path, ("a.png",), height=10, width=8)
    data = folder(tmp_path, crop=6)
    assert np.array_equal(data.at([0])[0], images["a.png"][2:8, 1:7].transpose(2, 0, 1))
    assert folder(tmp_path, crop=8, size=4).image_shape == (3, 4, 4)
    with pytest.raises(ValueError, match=r"a.png is 10 x 8, too small for crop=9"):
        folder(tmp_path, crop=9)


def test_broken_images_are_named(tmp_path):
    write_images(tmp_path)
    (tmp_path / "bad.png").write_text("hello")
    with pytest.raises(ValueError, match=r"bad.png is a file of an unknown kind.*expected an image"):
        folder(tmp_path)
    (tmp_path / "bad.png").unlink()
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"half.png is a PNG image, expected an image that is whole .*truncated"):
        folder(tmp_path)


def spoil(path, *names):
    """Break images in the ways that they are broken: no image, cut off, and a link that leads nowhere."""
    for i, name in enumerate(names):
        content = (path / name).read_bytes()
        (path / name).unlink()
        if i % 3 == 2:
            (path / name).symlink_to("nowhere.png")
        else:
            (path / name).write_bytes(content[: len(content) // 2] if i % 3 else b"hello")


@pytest.mark.parametrize("limit", [user_images.MEMORY_LIMIT, 1])
def test_a_few_unreadable_images_are_left_out_and_named(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", limit)
    names, root = [f"{i:02d}.png" for i in range(40)], tmp_path / "pictures"
    images = write_images(root, names)
    (tmp_path / "labels.csv").write_text("file,number\n" + "".join(f"{name},{i}\n" for i, name in enumerate(names)))
    (tmp_path / "pairs.csv").write_text("00.png,01.png\n05.png,06.png\n10.png,11.png\n")
    spoil(root, "05.png", "17.png", "30.png")
    for _ in range(2):  # the second time from the cache
        with pytest.warns(UserWarning, match="3 of 40 images cannot be read and are left out: 05.png, .*17.png"):
            data = folder(root, factors_csv=tmp_path / "labels.csv", pairs_csv=tmp_path / "pairs.csv")
        kept = [i for i in range(40) if i not in (5, 17, 30)]
        assert sorted(data.unreadable) == ["05.png", "17.png", "30.png"]
        assert data.table[:, 0].tolist() == kept
        expected = np.stack([images[names[i]].transpose(2, 0, 1) for i in kept])
        assert np.array_equal(data.at(np.arange(37)), expected)
        assert data.pairs.tolist() == [[0, 1], [9, 10]]
    with pytest.raises(ValueError, match="05.png is a file of an unknown kind"):
        folder(root, strict=True)
    with pytest.raises(ValueError, match="05.png is a file of an unknown kind"):
        karenina.load(f"{root}:strict=true")
    spoil(root, "20.png", "21.png")
    with pytest.raises(ValueError, match=r"5 of 40 images cannot be read, more than a tenth: .*05.png is"):
        folder(root)


def test_unreadable_images_are_left_out_of_codes(tmp_path):
    names = [f"{i:02d}.png" for i in range(30)]
    images = write_images(tmp_path, names)
    spoil(tmp_path, "07.png", "08.png", "09.png")
    assert survey(tmp_path).count == 28  # what is cut off is only seen when it is decoded
    with pytest.warns(UserWarning, match="3 of 30 images cannot be read and are left out: 07.png, 08.png, 09.png"):
        ((found, block),) = stream(tmp_path, (3, 8, 8))
    assert found == [name for name in names if name not in ("07.png", "08.png", "09.png")]
    assert np.array_equal(block, np.stack([images[name].transpose(2, 0, 1) for name in found]))
    with pytest.raises(ValueError, match="07.png is a file of an unknown kind"):
        list(stream(f"{tmp_path}:strict=true", (3, 8, 8)))
    spoil(tmp_path, "10.png")
    with pytest.raises(ValueError, match="4 of 30 images cannot be read, more than a tenth"):
        list(stream(tmp_path, (3, 8, 8)))


@pytest.mark.filterwarnings("default")
def test_strict_is_an_option_of_commands(tmp_path, command):
    write_images(tmp_path / "pictures", [f"{i:02d}.png" for i in range(20)])
    spoil(tmp_path / "pictures", "03.png")
    said = command("data", "show", "pictures", "--json", cwd=tmp_path)
    assert "1 of 20 images cannot be read and are left out: 03.png" in said.stderr
    assert (said.returncode, json.loads(said.stdout)["unreadable"]) == (0, ["03.png"])
    for words in ("data show pictures", "train pictures vae --out a", "fit pictures --out b"):
        said = command(*words.split(), "--strict", cwd=tmp_path)
        assert said.returncode == 2
        assert "03.png is a file of an unknown kind" in said.stderr


def test_links_that_lead_nowhere_are_called_so(tmp_path):
    (tmp_path / "a.png").symlink_to("nowhere.png")
    with pytest.raises(ValueError, match="a.png is a link that leads nowhere") as error:
        folder(tmp_path)
    assert "subfolders" not in str(error.value)


def test_empty_folders(tmp_path):
    with pytest.raises(ValueError, match="holds no images"):
        folder(tmp_path)
    write_images(tmp_path, ("sub/a.png",))
    with pytest.raises(ValueError, match="recursive=True, or .*:recursive=true"):
        folder(tmp_path)
    assert len(folder(tmp_path, recursive=True)) == 1


def test_factors_from_a_csv(tmp_path):
    images = write_images(tmp_path / "pictures")
    table = tmp_path / "factors.csv"
    table.write_text("file,colour,size,angle\nc.png,red,3,0.5\na.png,blue,1,1.5\nb.png,red,1,-0\n")
    data = folder(tmp_path / "pictures", factors_csv=table)
    assert data.factor_names == ("colour", "size", "angle")
    assert data.table.tolist() == [[0, 1, 1.5], [1, 1, 0], [1, 3, 0.5]]
    assert data.details == {"colour": ("blue", "red")}
    assert data.factor_sizes == (2, 2, None)
    assert np.array_equal(data.images([[1, 3, 0.5]])[0], images["c.png"].transpose(2, 0, 1))
    assert np.array_equal(data.images([[1, 1, 0.0]])[0], images["b.png"].transpose(2, 0, 1))
    drawn, rows = data.sample(4, 0, fixed={"colour": 0})
    assert (drawn == images["a.png"].transpose(2, 0, 1)).all()
    assert (rows[:, 0] == 0).all()
    with pytest.raises(ValueError, match="no image with"):
        data.images([[0, 3, 0.5]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,x\na.png,1\n", "no row for b.png, c.png"),
        ("file,x\na.png,1\nb.png,2\nc.png,3\nd.png,4\n", "rows without an image: d.png"),
        ("file,x\na.png,1\nb.png,2\nb.png,3\nc.png,1\n", "b.png more than once"),
        ("file,x\na.png,1\nb.png,\nc.png,3\n", "has no x for b.png"),
        ("file,x\na.png,1\nb.png,inf\nc.png,3\n", "x = inf for b.png"),
        (
            "file,x\na.png,1\nb.png,9223372036854775808\nc.png,3\n",
            "go up to 9223372036854775808, beyond 64-bit integers",
        ),
        ("file\na.png\nb.png\nc.png\n", "no factors beside"),
        ("", "is no table of factors"),
        ("file,x\na.png,1\nb.png,2,3,4\nc.png,3\n", "is no table of factors"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    write_images(tmp_path / "pictures")
    (tmp_path / "factors.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        folder(tmp_path / "pictures", factors_csv=tmp_path / "factors.csv")


def test_a_table_that_is_not_there_or_not_of_these_images(tmp_path):
    write_images(tmp_path)
    with pytest.raises(ValueError, match=r"no factors file .*nowhere.csv"):
        folder(tmp_path, factors_csv=tmp_path / "nowhere.csv")
    (tmp_path / "other.csv").write_text("file,x\nq.png,1\n")
    with pytest.raises(ValueError, match=r"names none of the images; it starts with q.png"):
        folder(tmp_path, factors_csv=tmp_path / "other.csv", strict=False)


def test_not_strict_leaves_out_what_has_no_partner(tmp_path):
    images = write_images(tmp_path / "pictures")
    (tmp_path / "factors.csv").write_text("file,x\nd.png,9\nc.png,3\na.png,1\n")
    data = folder(tmp_path / "pictures", factors_csv=tmp_path / "factors.csv", strict=False)
    assert data.table.tolist() == [[1], [3]]
    assert np.array_equal(data.at([1])[0], images["c.png"].transpose(2, 0, 1))


@pytest.mark.parametrize(
    "text",
    [
        "3\nBald Smiling\n000001.jpg -1  1\n000002.jpg  1 -1\n000003.jpg -1 -1\n",
        "image_id,Bald,Smiling\n000001.jpg,-1,1\n000002.jpg,1,-1\n000003.jpg,-1,-1\n",
        "image_id,Bald,Smiling\n000001,-1,1\n000002,1,-1\n000003,-1,-1\n",
    ],
    ids=["txt", "csv", "csv without suffixes"],
)
def test_celeba(tmp_path, text):
    write_images(tmp_path / "faces", ("000001.jpg", "000002.jpg", "000003.jpg"), height=218, width=178)
    (tmp_path / "list_attr_celeba.txt").write_text(text)
    data = folder(tmp_path / "faces", factors_csv=tmp_path / "list_attr_celeba.txt", crop=178, size=64)
    assert data.image_shape == (3, 64, 64)
    assert data.factor_names == ("Bald", "Smiling")
    assert data.table.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_large_folders_go_to_a_cache_and_without_one_are_decoded_each_time(tmp_path, monkeypatch):
    images = write_images(tmp_path / "pictures")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", 1)
    data = folder(tmp_path / "pictures")
    expected = images["b.png"].transpose(2, 0, 1)
    assert np.array_equal(data.at([1])[0], expected)
    assert len(list((tmp_path / "cache" / "karenina").glob("*.3x8x8.npy"))) == 1
    assert np.array_equal(pickle.loads(pickle.dumps(data)).at([1])[0], expected)

    part = tmp_path / "cache" / "karenina" / ".pictures.abcd1234.npy.abcd1234.part.npy"  # of a killed process
    part.touch()
    assert np.array_equal(folder(tmp_path / "pictures").at([1])[0], expected)
    assert not part.exists()

    def full(path):
        raise OSError("no space")

    monkeypatch.setattr(files, "atomic", full)
    small = folder(tmp_path / "pictures", size=4)
    with pytest.warns(RuntimeWarning, match="slow"):
        assert small.at([1]).shape == (1, 3, 4, 4)


def save(path, **arrays):
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for key, array in arrays.items():
                array = np.asarray(array)
                file[key] = array.astype(h5py.string_dtype()) if array.dtype.kind == "U" else array
    return path


@pytest.fixture(params=[".npz", ".h5", ".hdf5"])
def file(request, tmp_path):
    return tmp_path / f"mine{request.param}"


def test_arrays_of_every_layout(file):
    last = RNG.integers(0, 256, (6, 8, 10, 3), dtype=np.uint8)
    first = last.transpose(0, 3, 1, 2)
    for images, expected in (
        (last, first),
        (first, first),
        (last[..., 0], first[:, :1]),
        (last[..., :1], first[:, :1]),
        (last / 255.0, first),
        ((last / 255.0).astype(np.float32), first),
        (last > 99, 255 * (first > 99)),
    ):
        data = karenina.load(save(file, images=images))
        assert np.array_equal(data.at(np.arange(6)), expected)
        assert not data.labelled
    assert data.name == "mine"


def test_array_factors(file):
    images = RNG.integers(0, 256, (6, 8, 8), dtype=np.uint8)
    factors = np.array([[0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [0, 0]])
    data = open_path(save(file, images=images, factors=factors, factor_names=np.array(["shape", "tone"])))
    assert data.factor_names == ("shape", "tone")
    assert data.factor_sizes == (3, 2)
    assert np.array_equal(data.images([[2, 0]])[0, 0], images[3])
    unnamed = open_path(save(file, images=images, factors=factors[:, 0]))
    assert unnamed.factor_names == ("factor_0",)


def test_arrays_are_resized_and_greyed(file):
    images = np.repeat(RNG.integers(0, 256, (3, 1, 1, 3), dtype=np.uint8), 16, axis=1).repeat(16, axis=2)
    data = open_path(save(file, images=images), size=4)
    assert np.array_equal(data.at([0, 1, 2]), images[:, :4, :4].transpose(0, 3, 1, 2))
    assert open_path(file, grey=True).image_shape == (1, 16, 16)
    assert open_path(save(file, images=images[..., 0]), grey=False).image_shape == (3, 16, 16)


@pytest.mark.parametrize("chunks", [None, (1, 8, 8), (64, 2, 2)])
def test_large_arrays_stay_on_disk(tmp_path, monkeypatch, chunks):
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", 1)
    images = RNG.random((100, 8, 8)).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("images", data=images, chunks=chunks)
    expected = np.round(images[[7, 3, 3]] * 255).astype(np.uint8)[:, None]
    assert np.array_equal(array_file(tmp_path / "a.h5").at([7, 3, 3]), expected)
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "a.npz", images=images)
        data = array_file(tmp_path / "a.npz")
        assert np.array_equal(data.at([7, 3, 3]), expected)
        assert np.array_equal(pickle.loads(pickle.dumps(data)).at([7, 3, 3]), expected)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros((2, 4, 4), np.uint8)}, "holds the arrays pictures, expected"),
        ({"images": np.zeros((2, 4), np.uint8)}, r"shape \(2, 4\), expected \(n, h, w\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8)}, r"shape \(0, 4, 4\)"),
        ({"images": np.zeros((2, 4, 4, 5), np.uint8)}, "neither end"),
        ({"images": np.zeros((2, 3, 4, 3), np.uint8)}, "either end"),
        ({"images": np.zeros((2, 4, 4), np.int64)}, "images are int64, expected uint8"),
        ({"images": np.full((2, 4, 4), 1.5)}, r"from 1.5 to 1.5, expected \[0, 1\]"),
        ({"images": np.full((2, 4, 4), np.nan)}, "from nan to nan"),
        ({"images": np.zeros((2, 4, 4)), "factors": np.zeros((3, 1))}, r"factors are float64 \(3, 1\), expected"),
        ({"images": np.zeros((2, 4, 4)), "factors": np.full((2, 1), np.nan)}, "row 0 of factors is not finite"),
        (
            {"images": np.zeros((2, 4, 4)), "factors": np.zeros((2, 2)), "factor_names": np.array(["a", "a"])},
            "expected 2 different names",
        ),
    ],
)
def test_bad_arrays(file, arrays, message):
    with pytest.raises(ValueError, match=message):
        open_path(save(file, **arrays))


def test_files_of_the_wrong_kind(tmp_path):
    (tmp_path / "a.npz").write_text("<html>")
    with pytest.raises(ValueError, match="web page"):
        open_path(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", images=np.zeros((2, 4, 4)))
    (tmp_path / "b.npz").rename(tmp_path / "b.h5")
    with pytest.raises(ValueError, match="b.h5 is a zip archive"):
        open_path(tmp_path / "b.h5")
    (tmp_path / "c.txt").write_text("")
    with pytest.raises(ValueError, match="neither a folder"):
        open_path(tmp_path / "c.txt")
    with pytest.raises(ValueError, match="does not exist"):
        open_path(tmp_path / "d")
    write_images(tmp_path / "pictures")
    with pytest.raises(ValueError, match="has no option 'colour'; known: factors_csv, size"):
        open_path(tmp_path / "pictures", colour=True)


def test_integers_that_are_no_pixels_are_not_streamed(tmp_path):
    images = np.full((3, 16, 16), 200, np.int32)  # resized, they were read as 16 bits: black
    np.savez(tmp_path / "a.npz", images=images)
    for source in (tmp_path / "a.npz", images):
        with pytest.raises(ValueError, match="images are int32, expected uint8"):
            list(stream(source, (1, 8, 8)))
