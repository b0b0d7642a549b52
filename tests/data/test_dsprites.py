from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from karenina.data.blobs import blobs
from karenina.data.dataset import DataSet
from karenina.data.dsprites import (
    GRID,
    color_dsprites,
    dsprites,
    load_painting,
    noisy_dsprites,
    scream_dsprites,
)

FRAMES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "dsprites_frames.npz"
PAINTING = np.random.default_rng(5).integers(0, 256, (90, 80, 3), dtype=np.uint8)
VARIANTS = {
    "color_dsprites": color_dsprites,
    "noisy_dsprites": noisy_dsprites,
    "scream_dsprites": lambda base: scream_dsprites(base, PAINTING),
}


@pytest.fixture(scope="module")
def data() -> DataSet:
    return dsprites()


def own_coordinates(rows):
    """Pixel centres in the frame of the upright sprite of scale 1: two arrays (n, 64, 64), u right and v down."""
    scale = 0.5 + 0.1 * rows[:, 1, None, None]
    turn = 2 * np.pi * rows[:, 2, None, None] / 39
    x = np.arange(64) + 0.5 - (16 + 32 * rows[:, 3, None, None] / 31)
    y = np.arange(64)[:, None] + 0.5 - (16 + 32 * rows[:, 4, None, None] / 31)
    return (np.cos(turn) * x - np.sin(turn) * y) / scale, (np.sin(turn) * x + np.cos(turn) * y) / scale


def test_the_grid_is_the_official_one(data):
    assert data.name == "dsprites"
    assert data.source == "rendered"
    assert not data.stochastic
    assert data.factor_names == ("shape", "scale", "orientation", "x", "y")
    assert data.factor_sizes == (3, 6, 40, 32, 32)
    assert len(data) == 737_280
    images, rows = data.sample(64, np.random.default_rng(0))
    assert images.shape == (64, 1, 64, 64)
    assert images.dtype == np.uint8
    assert data.image_shape == (1, 64, 64)
    assert set(np.unique(images)) == {0, 255}
    assert (images == data.images(rows)).all()


def test_genuine_frames_are_reproduced_pixel_by_pixel(data):
    if not FRAMES.is_file():
        pytest.skip("the genuine dSprites frames are not at hand")
    with np.load(FRAMES) as file:
        genuine, rows = file["images"].astype(bool), file["factors"]
    ours = data.images(rows)[:, 0] == 255
    iou = (ours & genuine).sum(axis=(1, 2)) / (ours | genuine).sum(axis=(1, 2))
    assert iou.mean() >= 0.97
    assert iou.min() >= 0.90
    assert (ours == genuine).all(), f"{(ours == genuine).all(axis=(1, 2)).mean():.1%} of the frames are equal"


@pytest.mark.parametrize(
    ("shape", "inside"),
    [(0, lambda u, v: np.maximum(np.abs(u), np.abs(v)) / 9.6), (1, lambda u, v: np.hypot(u / 12.768, v * 1.33 / 9.6))],
    ids=["square", "ellipse"],
)
def test_square_and_ellipse_follow_the_closed_form(data, shape, inside):
    rows = GRID.sample(400, np.random.default_rng(shape), {"shape": shape})
    level = inside(*own_coordinates(rows))
    white = data.images(rows)[:, 0] == 255
    # Corners are rounded to 1/256 pixel and the ellipse has 100 of them: only this close to the edge may it differ.
    assert white[level < 0.997].all()
    assert not white[level > 1.001].any()


def test_the_heart_points_down_and_is_mirrored(data):
    heart = data.images([2, 5, 0, 0, 0])[0, 0] == 255
    assert (heart == np.roll(heart[:, ::-1], -32, axis=1)).all()
    rows_with_ink = np.flatnonzero(heart.any(axis=1))
    width = heart.sum(axis=1)
    assert width[rows_with_ink[-1]] <= 2 < width[rows_with_ink[0]]
    assert not heart[rows_with_ink[0], 15:17].any()  # the dent between the lobes


@pytest.mark.parametrize(("shape", "area"), [(0, 4.0), (1, np.pi), (2, 180 * np.pi / (16 * 14.5))])
def test_area_grows_with_the_square_of_scale(data, shape, area):
    for scale in range(6):
        rows = GRID.sample(500, np.random.default_rng(scale), {"shape": shape, "scale": scale})
        pixels = (data.images(rows) == 255).sum(axis=(1, 2, 3))
        assert pixels.mean() == pytest.approx(area * (9.6 * (0.5 + 0.1 * scale)) ** 2, rel=0.01)


def test_position_is_where_the_ink_is(data):
    rows = GRID.sample(1000, np.random.default_rng(0))
    white = data.images(rows)[:, 0] / 255
    ink = white.sum(axis=(1, 2))
    column = (white.sum(axis=1) @ (np.arange(64) + 0.5)) / ink
    row = (white.sum(axis=2) @ (np.arange(64) + 0.5)) / ink
    # The heart's centre of mass is above its origin, and turns with it.
    lift = np.where(rows[:, 0] == 2, 1.955 * (0.5 + 0.1 * rows[:, 1]), 0)
    turn = 2 * np.pi * rows[:, 2] / 39
    assert np.abs(column - (16 + 32 * rows[:, 3] / 31) + lift * np.sin(turn)).max() < 0.4
    assert np.abs(row - (16 + 32 * rows[:, 4] / 31) + lift * np.cos(turn)).max() < 0.4


def test_orientation_0_and_39_are_the_same_picture_and_no_others(data):
    rows = GRID.sample(300, np.random.default_rng(0), {"orientation": 0})
    last = rows.copy()
    last[:, 2] = 39
    assert (data.images(rows) == data.images(last)).all()
    around = data.images([[2, 5, k, 10, 20] for k in range(39)])
    assert len(np.unique(around.reshape(39, -1), axis=0)) == 39


@given(st.integers(0, len(GRID) - 1), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_an_image_does_not_depend_on_its_neighbours(index, before):
    data = dsprites()
    batch = (np.arange(-before, 3) * 7919 + index) % len(GRID)
    assert (data.at(batch)[before] == data.at(index)[0]).all()


def test_large_and_empty_requests(data):
    index = np.arange(0, len(data), 251)
    assert (data.at(index)[[0, 1500, -1]] == data.at(index[[0, 1500, -1]])).all()
    assert data.images(np.zeros((0, 5), int)).shape == (0, 1, 64, 64)
    for make in VARIANTS.values():
        assert make(data).images(np.zeros((0, 5), int)).shape == (0, 3, 64, 64)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[3, 0, 0, 0, 0]], "row 0 has shape = 3, expected 0..2"),
        ([[0, 0, 0, 0, 0], [0, 0, -1, 0, 0]], "row 1 has orientation = -1, expected 0..39"),
        ([[0, 0, 0, 0]], "expected .n, 5."),
        ([[0, 0, 0.5, 0, 0]], "expected an integer"),
    ],
)
@pytest.mark.parametrize("name", ["dsprites", *VARIANTS])
def test_bad_rows_are_refused(data, name, rows, message):
    with pytest.raises(ValueError, match=message):
        VARIANTS.get(name, lambda base: base)(data).images(rows)


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_decided_by_the_generator(data, name):
    variant = VARIANTS[name](data)
    assert variant.name == name
    assert variant.stochastic
    assert variant.source == "rendered"
    assert variant.image_shape == (3, 64, 64)
    assert variant.factors is GRID
    images, rows = variant.sample(32, np.random.default_rng(1))
    again, rows_again = variant.sample(32, np.random.default_rng(1))
    assert images.shape == (32, 3, 64, 64)
    assert images.dtype == np.uint8
    assert (images == again).all()
    assert (rows == rows_again).all()
    assert (variant.images(rows, 3) == variant.images(rows, np.random.default_rng(3))).all()
    assert (variant.images(rows, 3) != variant.images(rows, 4)).any()
    rng = np.random.default_rng(3)
    assert (variant.images(rows, rng) != variant.images(rows, rng)).any()


def test_color_paints_each_sprite_in_one_colour(data):
    rows = GRID.sample(2000, np.random.default_rng(0))
    images, white = color_dsprites(data).images(rows, 1), data.images(rows) == 255
    colour = images.max(axis=(2, 3))
    assert (images == np.where(white, colour[:, :, None, None], 0)).all()
    assert colour.min() == 128
    assert colour.max() == 255
    assert np.abs(colour.mean(axis=0) - 191.25).max() < 3
    assert np.abs(np.corrcoef(colour.T) - np.eye(3)).max() < 0.1


def test_noise_surrounds_a_white_sprite(data):
    rows = GRID.sample(100, np.random.default_rng(0))
    images, white = noisy_dsprites(data).images(rows, 1), np.repeat(data.images(rows) == 255, 3, axis=1)
    assert (images[white] == 255).all()
    counts = np.bincount(images[~white], minlength=256)
    assert np.abs(counts / counts.mean() - 1).max() < 0.1
    assert (images[:, 0] != images[:, 1]).any()
    assert (images[0] != images[1]).any()


def test_scream_inverts_a_tinted_patch(data):
    rows = GRID.sample(40, np.random.default_rng(0))
    images = scream_dsprites(data, PAINTING).images(rows, 1)
    background = np.where(data.images(rows) == 255, 255 - images, images).astype(float)
    places = set()
    windows = np.lib.stride_tricks.sliding_window_view(PAINTING, (64, 64), axis=(0, 1)).astype(float)
    for image in background:
        # 2 * background - patch is the colour: constant, up to rounding, at the true place of the patch only.
        tint = 2 * image - windows
        spread = np.ptp(tint, axis=(3, 4)).max(axis=2)
        place = np.unravel_index(spread.argmin(), spread.shape)
        assert spread[place] <= 1
        colour = tint[place].mean(axis=(1, 2))
        assert (colour >= -1).all()
        assert (colour <= 256).all()
        places.add(place)
    assert len(places) > 30


def test_scream_uses_all_of_a_painting_of_one_patch(data):
    painting = np.full((64, 64, 3), 255, np.uint8)
    images = scream_dsprites(data, painting).images(GRID.sample(200, np.random.default_rng(0)), 2)
    corner = images[:, :, 0, 0]
    assert corner.min() >= 128
    assert corner.max() == 255


def test_variants_of_other_binary_pictures(data):
    """The rules hold for any source of 0 and 255, such as the official file."""
    base = DataSet("dsprites", GRID, (1, 64, 64), lambda rows, rng: 255 - data.images(rows), source="file.npz")
    rows = GRID.sample(5, np.random.default_rng(0))
    variant = noisy_dsprites(base)
    assert variant.source == "file.npz"
    assert (variant.images(rows)[np.repeat(base.images(rows) == 255, 3, axis=1)] == 255).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_refuse_pictures_that_are_not_binary(data, name):
    for base in (blobs(), color_dsprites(data)):
        with pytest.raises(ValueError, match=f"black and white pictures.*got {base.name}"):
            VARIANTS[name](base)


@pytest.mark.parametrize(
    ("painting", "message"),
    [
        (np.zeros((64, 63, 3), np.uint8), "at least .64, 64."),
        (np.zeros((90, 90), np.uint8), "expected uint8 .height, width, 3."),
        (np.zeros((90, 90, 3)), "float64"),
    ],
)
def test_bad_paintings_are_refused(data, painting, message):
    with pytest.raises(ValueError, match=message):
        scream_dsprites(data, painting)


@pytest.mark.parametrize(("size", "kept"), [((700, 548), (274, 350)), ((100, 80), (80, 100)), ((352, 448), (274, 215))])
def test_load_painting_shrinks_to_fit(tmp_path, size, kept):
    Image.new("RGBA", size, (10, 20, 30, 255)).save(tmp_path / "scream.png")
    painting = load_painting(tmp_path, None)
    assert painting.shape == (*kept, 3)
    assert painting.dtype == np.uint8
    assert (painting == [10, 20, 30]).all()


def test_load_painting_takes_the_named_file(tmp_path):
    Image.new("L", (70, 70), 9).save(tmp_path / "mine.png")
    assert (load_painting(None, tmp_path / "mine.png") == 9).all()


def test_load_painting_says_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="put scream.jpg or scream.png into.*KARENINA_DATA.*no folder is given"):
        load_painting(None, None)
    with pytest.raises(ValueError, match=f"none is in {tmp_path}"):
        load_painting(tmp_path, None)
    with pytest.raises(ValueError, match="no painting at .*other.png"):
        load_painting(tmp_path, tmp_path / "other.png")
    (tmp_path / "scream.jpg").write_text("not a picture")
    with pytest.raises(ValueError, match="scream.jpg is .*expected an image"):
        load_painting(tmp_path, None)
    noise = np.random.default_rng(0).integers(0, 256, (99, 99, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:5000])
    with pytest.raises(ValueError, match="cut.png is .*expected an image"):
        load_painting(None, tmp_path / "cut.png")
    for size in ((63, 100), (100, 2000)):
        Image.new("RGB", size).save(tmp_path / "small.png")
        with pytest.raises(ValueError, match=f"{size[0]} x {size[1]} pixels.*at least 64 x 64"):
            load_painting(None, tmp_path / "small.png")
