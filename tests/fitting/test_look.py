"""What is said of images before anything is trained, on images that were made to be so."""

import numpy as np
import pytest
from PIL import Image

from karenina.data.user_images import array_set, stream, survey
from karenina.fitting.look import alignment, look_at, open_images


def objects(shift, n=200, side=20):
    """Images of one object whose brightness varies, moved by up to `shift` pixels."""
    rng = np.random.default_rng(0)
    images = np.zeros((n, side, side), np.uint8)
    for image in images:
        y, x = rng.integers(-shift, shift + 1, 2) if shift else (0, 0)
        image[7 + y : 13 + y, 8 + x : 12 + x] = rng.integers(100, 256)
    return images


def test_images_that_are_moved_look_unaligned_and_others_do_not():
    still, moved = look_at(array_set(objects(0))), look_at(array_set(objects(6)))
    assert not still.unaligned
    assert moved.unaligned
    assert moved.shift == pytest.approx(np.std(np.arange(-6, 7)) / 20, abs=0.04)


def test_noise_is_not_taken_for_unaligned():
    noise = np.random.default_rng(0).integers(0, 256, (200, 1, 16, 16)).astype(np.uint8)
    assert alignment(noise)[1] < 0.1


def test_copies_range_and_constant_pixels_are_counted():
    images = np.tile(objects(0)[:4], (5, 1, 1))
    images[:, 0, 0] = 7
    found = look_at(array_set(images))
    assert (found.count, found.distinct) == (20, len(np.unique(images[:4].reshape(4, -1), axis=0)))
    assert (found.low, found.high) == (0, images.max())
    assert found.flat == pytest.approx((images.std(axis=0) < 2).mean())
    assert found.variance == pytest.approx((images / 255).var(axis=0).mean())


@pytest.mark.parametrize("layout", [(9, 12, 10), (9, 12, 10, 3), (9, 3, 12, 10)])
def test_any_layout_of_an_array_streams_as_it_loads(layout, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, layout).astype(np.uint8)
    channels = 3 if 3 in layout[1:] else 1
    data = array_set(images, size=(6, 5))
    assert survey(images).sizes == {(12, 10): 9}
    np.savez_compressed(tmp_path / "a.npz", images=images)
    for given in (images, tmp_path / "a.npz"):
        names, blocks = zip(*stream(given, (channels, 6, 5)))
        assert [name for part in names for name in part] == [str(i) for i in range(9)]
        assert np.array_equal(np.concatenate(blocks), data.at(np.arange(9)))


def test_what_is_done_to_odd_files_is_said(tmp_path):
    rng = np.random.default_rng(0)
    colour = [Image.fromarray(rng.integers(0, 256, (9, 8, 3)).astype(np.uint8)) for _ in range(3)]
    colour[0].convert("CMYK").save(tmp_path / "cmyk.jpg")
    colour[0].convert("RGBA").save(tmp_path / "alpha.png")
    colour[0].save(tmp_path / "moving.gif", save_all=True, append_images=colour[1:])
    Image.fromarray(rng.integers(0, 65536, (9, 8)).astype(np.uint16)).save(tmp_path / "deep.png")
    found = open_images(tmp_path, longest=32, device="cpu")
    assert found.said == (
        "1 file with transparency: it is dropped.",
        "1 file with 16 bits: read as 8.",
        "1 file with several frames: the first is taken.",
    )
    assert found.data.image_shape == (3, 9, 8)
    first = found.data.at([3])[0].astype(int) - np.moveaxis(np.asarray(colour[0]), 2, 0)
    assert np.abs(first).mean() < 20  # its palette is not exact
