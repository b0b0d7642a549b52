"""Files that lie, are damaged, or reach for other files: one line, and nothing else is read."""

import io
import os
import struct
import warnings
import zipfile

import h5py
import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from karenina.data import user_images
from karenina.data.dsprites import load_painting
from karenina.data.official import shapes3d_file
from karenina.data.user_images import folder, open_path
from karenina.numerics.arrays import load_npy, load_npz

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
FACTORS = RNG.integers(0, 3, (12, 2))


def npy(array=None, header=None, version=1):
    """The bytes of a .npy, with a header of one's own if it is given."""
    if header is None:
        content = io.BytesIO()
        np.save(content, array)
        return content.getvalue()
    text = header.encode() + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + (b"" if array is None else array.tobytes())


def npz(path, compression=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def encrypted(path):
    """An archive that says of its members that they are encrypted."""
    content = bytearray(npz(path, images=npy(IMAGES)).read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + flags] |= 1
    path.write_bytes(content)


def method(path, number):
    """An archive whose members are compressed by a method that nobody knows."""
    content = bytearray(npz(path, images=npy(IMAGES)).read_bytes())
    for magic, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(magic) + place] = number
    path.write_bytes(content)


def claim(shape, descr="|u1"):
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}"


def pickled(path):
    np.savez(path, images=IMAGES, factors=np.array([object()] * 12, dtype=object), allow_pickle=True)


BAD_NPZ = {
    "encrypted": (encrypted, "encrypted"),
    "unknown compression": (lambda path: method(path, 97), "compression"),
    "deflate64": (lambda path: method(path, 9), "compression"),
    "claims 100 GB": (
        lambda path: npz(path, images=npy(IMAGES, claim((25_000_000, 64, 64)))),
        r"needs 102,400,000,\d+ bytes, and there are",
    ),
    "claims 100 GB of factors": (
        lambda path: npz(path, images=npy(IMAGES), factors=npy(FACTORS, claim((6_250_000_000, 2), "<i8"))),
        "needs 100,000,000,0.. bytes, and there are",
    ),
    "more rows than a number can count": (
        lambda path: npz(path, images=npy(IMAGES, claim((10**30, 64, 64)))),
        "bytes, and there are",
    ),
    "negative": (lambda path: npz(path, images=npy(IMAGES, claim((-12, 8, 8, -3)))), r"its shape is \(-12, 8"),
    "header that is no Python": (lambda path: npz(path, images=npy(IMAGES, "{'descr': (((")), "not readable as"),
    "header with a tab and a quote": (lambda path: npz(path, images=npy(IMAGES, "\t{'''")), "not readable as"),
    "header of brackets": (lambda path: npz(path, images=npy(IMAGES, "[" * 9000)), "not readable as"),
    "header of another type": (lambda path: npz(path, images=npy(IMAGES, "[1, 2]")), "not readable as"),
    "type that does not exist": (lambda path: npz(path, images=npy(IMAGES, claim((12, 8, 8, 3), "<q9"))), "not readab"),
    "version 9": (lambda path: npz(path, images=b"\x93NUMPY\x09\x00" + npy(IMAGES)[8:]), "not readable as"),
    "empty member": (lambda path: npz(path, images=b""), "not readable as"),
    "no array": (lambda path: npz(path, images=b"hello"), "not readable as"),
    "member without suffix": (
        lambda path: zipfile.ZipFile(path, "w").writestr("images", npy(IMAGES)),
        r"holds the arrays \(none\)",
    ),
    "pickle": (pickled, "Python objects"),
    "empty file": (lambda path: path.write_bytes(b""), "an empty file"),
    "text factors": (
        lambda path: npz(path, images=npy(IMAGES), factors=npy(np.full((12, 1), "red"))),
        "factors are <U3",
    ),
    "one factor in all": (
        lambda path: npz(path, images=npy(IMAGES), factors=npy(np.array(3))),
        r"factors are int64 \(",
    ),
    "factors beyond int64": (
        lambda path: npz(path, images=npy(IMAGES), factors=npy(np.full((12, 1), 2**64 - 1, np.uint64))),
        "go up to 18446744073709551615",
    ),
    "an image too large": (
        lambda path: npz(path, zipfile.ZIP_DEFLATED, images=npy(np.zeros((1, 20_000, 10_000), bool))),
        "at most 178,956,970 pixels",
    ),
}


@pytest.mark.parametrize("kind", BAD_NPZ)
def test_bad_npz(tmp_path, kind):
    make, message = BAD_NPZ[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an archive may be left for the collector
        made = make(tmp_path / "a.npz")
        del made
    with pytest.raises(ValueError, match=message) as found:
        open_path(tmp_path / "a.npz")
    assert "\n" not in str(found.value)
    assert str(found.value).startswith(str(tmp_path / "a.npz"))


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_odd_compression_that_python_knows_is_read(tmp_path, compression):
    path = npz(tmp_path / "a.npz", compression, images=npy(IMAGES), factors=npy(FACTORS))
    assert np.array_equal(open_path(path).at([3])[0], IMAGES[3].transpose(2, 0, 1))


def test_arrays_of_other_parts_of_the_program(tmp_path):
    """The loader that metrics and runs share."""
    for array in (IMAGES, np.asfortranarray(FACTORS), np.array(["a", "bc"]), np.array(2.5), np.empty((0, 3))):
        np.save(tmp_path / "a.npy", array)
        np.savez_compressed(tmp_path / "a.npz", x=array, y=IMAGES)
        assert np.array_equal(load_npy(tmp_path / "a.npy"), array)
        assert np.array_equal(load_npz(tmp_path / "a.npz")["x"], array)
        assert list(load_npz(tmp_path / "a.npz", "x", "z")) == ["x"]
    for content, message in (
        (b"", "not readable"),
        (npy(IMAGES)[:500], r"needs 2,432 bytes, and there are 500"),
        (npy(IMAGES, claim((10**11,))), "needs 100,000,000,0.. bytes, and there are"),
        (npy(np.array([{}], dtype=object)), "Python objects"),
    ):
        (tmp_path / "b.npy").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_npy(tmp_path / "b.npy")
    np.savez_compressed(tmp_path / "c.npz", x=np.zeros(10**6))
    with pytest.raises(ValueError, match=r"x has 0.0 GB, more than the 0.0 allowed"):
        load_npz(tmp_path / "c.npz", limit=1000)
    with pytest.raises(ValueError, match="No such file"):
        load_npy(tmp_path / "d.npy")


def elsewhere(tmp_path):
    """A file of the user's that nobody else should see."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["images"], file["factors"] = IMAGES, FACTORS
        file.create_group("inside")["images"] = IMAGES
    IMAGES.tofile(tmp_path / "secret.bin")
    return tmp_path / "secret.h5"


def external_link(file, secret):
    file["images"] = h5py.ExternalLink(str(secret), "/images")


def external_group(file, secret):
    file["there"] = h5py.ExternalLink(str(secret), "/inside")
    file["images"] = h5py.SoftLink("/there/images")


def soft_link_to_an_external_one(file, secret):
    file["there"] = h5py.ExternalLink(str(secret), "/images")
    file["by"] = h5py.SoftLink("there")
    file["images"] = h5py.SoftLink("/by")


def external_link_to_nothing(file, secret):
    file["images"] = h5py.ExternalLink("nothing.h5", "/images")


def external_storage(file, secret):
    stored = [(str(secret.with_suffix(".bin")), 0, IMAGES.nbytes)]
    file.create_dataset("images", IMAGES.shape, np.uint8, external=stored)


def virtual(file, secret):
    layout = h5py.VirtualLayout(IMAGES.shape, np.uint8)
    layout[:] = h5py.VirtualSource(str(secret), "images", IMAGES.shape)
    file.create_virtual_dataset("images", layout)


def virtual_of_an_external_link_in_the_same_file(file, secret):
    file["there"] = h5py.ExternalLink(str(secret), "/images")
    layout = h5py.VirtualLayout(IMAGES.shape, np.uint8)
    layout[:] = h5py.VirtualSource(".", "there", IMAGES.shape)
    file.create_virtual_dataset("images", layout)


def external_factors(file, secret):
    file["images"] = IMAGES
    file["factors"] = h5py.ExternalLink(str(secret), "/factors")


def link_in_a_circle(file, secret):
    file["images"], file["again"] = h5py.SoftLink("/again"), h5py.SoftLink("/images")


@pytest.mark.parametrize("limit", [1 << 30, 1])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (external_link, "images is a link to another file"),
        (external_group, "images is a link to another file"),
        (soft_link_to_an_external_one, "images is a link to another file"),
        (external_link_to_nothing, "images is a link to another file"),
        (external_storage, "images is a view of other files"),
        (virtual, "images is a view of other files"),
        (virtual_of_an_external_link_in_the_same_file, "images is a view of other files"),
        (external_factors, "factors is a link to another file"),
        (link_in_a_circle, r"holds the arrays \(none\)"),
    ],
)
def test_hdf5_reads_no_other_file(tmp_path, monkeypatch, make, message, limit):
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", limit)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file, elsewhere(tmp_path))
    with pytest.raises(ValueError, match=message):
        open_path(tmp_path / "a.h5")


def test_official_hdf5_reads_no_other_file(tmp_path):
    with h5py.File(tmp_path / "real.h5", "w") as file:
        file["images"], file["labels"] = np.zeros((2, 64, 64, 3), np.uint8), np.zeros((2, 6))
    for key, other in (("images", "labels"), ("labels", "images")):
        with h5py.File(tmp_path / "real.h5") as real, h5py.File(tmp_path / "3dshapes.h5", "w") as file:
            file[other] = real[other][()]
            file[key] = h5py.ExternalLink("real.h5", key)
        with pytest.raises(ValueError, match=f"{key} is a link to another file"):
            shapes3d_file(tmp_path)


def test_links_within_a_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/in/images"] = IMAGES
        file["images"] = h5py.SoftLink("/deep/in/images")
        file["deep/factors"] = FACTORS
        file["factors"] = h5py.SoftLink("deep/./factors")
    data = open_path(tmp_path / "a.h5")
    assert np.array_equal(data.at([3])[0], IMAGES[3].transpose(2, 0, 1))
    assert np.array_equal(data.table, FACTORS)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("factors", None, "holds the arrays images"),
        ("factors", np.float64(3), r"factors are float64 \(\)"),
        ("factors", np.array([b"a"] * 12), "factors are "),
        ("factor_names", np.arange(5), "expected 2 different names"),
        ("factor_names", np.zeros(2, [("a", int)]), "factor_names is .* expected numbers or text"),
        ("factor_names", None, "holds the arrays factors, images"),
    ],
)
def test_wrong_kinds_in_hdf5(tmp_path, key, value, message):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = IMAGES
        if key != "factors":
            file["factors"] = FACTORS
        file.create_group(key) if value is None else file.create_dataset(key, data=value)
    with pytest.raises(ValueError, match=message):
        open_path(tmp_path / "a.h5")


def test_hdf5_that_claims_too_much(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("images", (2, 300_000, 300_000), np.uint8, chunks=(1, 1000, 1000))
        file.create_dataset("factors", (10**10, 2), np.int64, chunks=(1000, 2))
    with pytest.raises(ValueError, match=r"/factors is int64 \(10000000000, 2\), too large for memory"):
        open_path(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["factors"]
    with pytest.raises(ValueError, match="at most 178,956,970 pixels"):
        open_path(tmp_path / "a.h5")


def test_a_plain_block_beyond_the_end_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", 1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = IMAGES
        offset = file["images"].id.get_offset()
    content = (tmp_path / "a.h5").read_bytes()
    moved = content.replace(struct.pack("<Q", offset), struct.pack("<Q", 2**40))
    assert moved != content
    (tmp_path / "a.h5").write_bytes(moved)
    with pytest.raises(ValueError, match=r"a\.h5 is"):
        open_path(tmp_path / "a.h5")


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_pipes_and_devices_are_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / f"zero-{name}").symlink_to("/dev/zero")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match="is neither a folder of images nor one of"):
            open_path(path)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def test_postscript_is_not_run_whatever_it_is_called(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *args, **kwargs: started.append(args))
    (tmp_path / "a.png").write_bytes(POSTSCRIPT)
    with Image.open(tmp_path / "a.png") as image:  # Pillow by itself takes it for PostScript
        assert image.format == "EPS"
    with pytest.raises(ValueError, match=r"a.png is a file of an unknown kind that starts with b'%!PS-Ado', expected"):
        folder(tmp_path)
    with pytest.raises(ValueError, match="expected an image"):
        load_painting(path=tmp_path / "a.png")
    assert started == []


@pytest.mark.parametrize("name", sorted(user_images.SUFFIXES))
def test_every_ending_can_be_read(tmp_path, name):
    mode = {".pgm": "L", ".pbm": "1"}.get(name, "RGB")
    Image.fromarray(IMAGES[0]).convert(mode).save(tmp_path / f"a{name}")
    assert folder(tmp_path).image_shape == (3 if mode == "RGB" else 1, 8, 8)


def files(tmp_path, kind):
    """A whole file of a kind, and how to load it."""
    path = tmp_path / f"a.{kind.split('-')[0]}"
    if path.suffix == ".npz":
        save = np.savez_compressed if kind.endswith("packed") else np.savez
        save(path, images=IMAGES, factors=FACTORS, factor_names=["shape", "tone"])
        return path, lambda: open_path(path)
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            packed = {"chunks": (12, 2, 2, 3), "compression": "gzip"} if kind.endswith("packed") else {}
            file.create_dataset("images", data=IMAGES, **packed)
            file["factors"] = FACTORS
            file["factor_names"] = np.array(["shape", "tone"], h5py.string_dtype())
        return path, lambda: open_path(path)
    if path.suffix == ".csv":
        for name in ("a.png", "b.png"):
            Image.fromarray(IMAGES[0]).save(tmp_path / name)
        path.write_text("file,x,colour\na.png,1,red\nb.png,2.5,blue\n")
        return path, lambda: folder(tmp_path, factors_csv=path)
    Image.fromarray(IMAGES[0]).save(path)
    return path, lambda: folder(tmp_path)


def damaged(content, rng):
    """One of: cut off, one bit turned, some bytes changed, a run of bytes filled, a byte of the head changed."""
    content, n = bytearray(content), len(content)
    match rng.integers(5):
        case 0:
            del content[rng.integers(n) :]
        case 1:
            content[rng.integers(n)] ^= 1 << int(rng.integers(8))
        case 2:
            for place in rng.integers(n, size=5):
                content[place] = int(rng.integers(256))
        case 3:
            start = int(rng.integers(n))
            part = slice(start, min(n, start + 8))
            content[part] = bytes([int(rng.choice([0, 127, 128, 255]))]) * len(content[part])
        case 4:
            content[rng.integers(min(n, 200))] = int(rng.integers(256))
    return bytes(content)


@pytest.mark.parametrize("limit", [1 << 30, 1])
@pytest.mark.parametrize(
    "kind", ["npz", "npz-packed", "h5", "h5-packed", "png", "jpg", "gif", "bmp", "tiff", "webp", "ppm", "csv"]
)
def test_damaged_files_open_or_are_one_line(tmp_path, monkeypatch, kind, limit):
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", limit)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, load = files(tmp_path, kind)
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    load().sample(4, 0)
    refused = []
    for _ in range(60):
        path.write_bytes(damaged(whole, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own, on tags of a TIFF
            try:
                load().sample(4, 0)
            except ValueError as error:
                refused.append(str(error))
    assert len(refused) > 10
    assert not [message for message in refused if "\n" in message]


def test_caches_of_folders_with_files_of_the_same_names_sizes_and_times(tmp_path, monkeypatch):
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(where, image):
        where.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(where / "a.bmp")
        os.utime(where / "a.bmp", ns=(10**18, 10**18))

    def first(where):
        return folder(where).at([0])[0].transpose(1, 2, 0)

    for i in range(2):
        write(tmp_path / str(i) / "pictures", IMAGES[i])
        assert np.array_equal(first(tmp_path / str(i) / "pictures"), IMAGES[i])
    kept = "*8.npy"  # not what is known of which images are whole
    assert len(list((tmp_path / "cache" / "karenina").glob(kept))) == 2
    # Other images in the same place, of the same names, sizes and times. The old cache goes.
    write(tmp_path / "0" / "pictures", IMAGES[2])
    assert np.array_equal(first(tmp_path / "0" / "pictures"), IMAGES[2])
    assert np.array_equal(first(tmp_path / "1" / "pictures"), IMAGES[1])
    assert len(list((tmp_path / "cache" / "karenina").glob(kept))) == 2
    # And nothing is worked out twice.
    monkeypatch.setattr(user_images, "_decoded", lambda files, load: pytest.fail("decoded again"))
    assert np.array_equal(first(tmp_path / "1" / "pictures"), IMAGES[1])


def test_caches_of_two_sizes_of_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(user_images, "MEMORY_LIMIT", 1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("images", data=IMAGES, chunks=(12, 2, 2, 3))
    for size in ((4, 16), (16, 4), (4, 16)):
        data = open_path(tmp_path / "a.h5", size=size)
        assert data.at([0]).shape == (1, 3, *size)
        expected = Image.fromarray(IMAGES[0]).resize(size[::-1], Image.Resampling.LANCZOS)
        assert np.array_equal(data.at([0])[0], np.asarray(expected).transpose(2, 0, 1))
