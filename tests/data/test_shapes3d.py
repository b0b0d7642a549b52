"""shapes3d: the official grid, each factor in its own part of the picture, and the look of the genuine pictures."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from karenina.data import shapes3d as module
from karenina.data import shapes3d as scene
from karenina.data.shapes3d import GEOMETRIES, GRID, shapes3d

SHEET = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "look_shapes3d.jpg"
ROW = {"floor_hue": 2, "wall_hue": 6, "object_hue": 9, "scale": 4, "shape": 1, "orientation": 5}


@pytest.fixture(scope="module")
def data():
    return shapes3d()


def vary(data, name, values, **fixed):
    rows = [[{**ROW, **fixed, name: value}[factor] for factor in GRID.names] for value in values]
    return data.images(rows)


def covered(geometry, part):
    """Which pixels (64, 64) show any of a part: those where its map at full level is not black."""
    return scene.render(*geometry)[part + 5] > 0


def test_grid(data):
    assert data.name == "shapes3d"
    assert data.source == "rendered"
    assert not data.stochastic
    assert data.factor_names == ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
    assert data.factor_sizes == (10, 10, 10, 8, 4, 15)
    assert len(data) == 480_000
    images, rows = data.sample(5, np.random.default_rng(0))
    assert images.shape == (5, 3, 64, 64)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images, data.images(rows))
    assert data.images(np.empty((0, 6), int)).shape == (0, 3, 64, 64)


def test_bad_rows_are_named(data):
    with pytest.raises(ValueError, match=r"row 0 has shape = 4, expected 0\.\.3"):
        data.images([[0, 0, 0, 0, 4, 0]])
    with pytest.raises(ValueError, match="shape"):
        data.images([[0, 0, 0]])


@pytest.mark.parametrize(
    ("name", "part"),
    [("floor_hue", scene.FLOOR_MAPS), ("wall_hue", scene.WALL_MAPS), ("object_hue", scene.OBJECT_MAPS)],
)
def test_a_hue_changes_only_its_part(data, name, part):
    inside = covered((ROW["scale"], ROW["shape"], ROW["orientation"]), part)
    images = vary(data, name, range(10))
    for other in range(1, 10):
        changed = (images[0] != images[other]).any(axis=0)
        assert not changed[~inside].any()
        assert changed[inside].mean() > 0.95
    assert len(np.unique(images.reshape(10, -1), axis=0)) == 10


def test_colours_at_known_hues(data):
    def at(row, column, **factors):
        return vary(data, "shape", [0], orientation=7, **factors)[0][:, row, column].astype(int)

    np.testing.assert_array_equal(at(3, 32), [154, 226, 250])  # sky
    red, cyan = at(25, 10, wall_hue=0), at(25, 10, wall_hue=5)
    assert red[0] > 230
    assert red[1:].tolist() == [0, 0]
    assert cyan[0] == 0
    assert cyan[1] == cyan[2] > 230
    orange = at(25, 10, wall_hue=1)
    assert abs(orange[1] / 255 - 0.6) < 0.04
    blue_floor = at(60, 50, floor_hue=6)
    assert blue_floor[0] == 0
    assert blue_floor[2] > 2 * blue_floor[1] - 5
    magenta_cube = at(48, 32, object_hue=9)
    assert magenta_cube[0] > 220
    assert magenta_cube[1] == 0


def test_the_object_grows_with_scale(data):
    for shape in range(4):
        pixels = [covered((scale, shape, 7), scene.OBJECT_MAPS).sum() for scale in range(8)]
        assert (np.diff(pixels) > 0).all()
        assert pixels[-1] / pixels[0] > 2.2  # near (1.25 / 0.75)^2, and the near side comes nearer


def test_orientation_turns_the_room_and_not_the_round_objects():
    for shape in (1, 2, 3):
        silhouettes = {covered((4, shape, angle), scene.OBJECT_MAPS).tobytes() for angle in (0, 7, 14)}
        assert len(silhouettes) == 1
    cubes = [covered((4, 0, angle), scene.OBJECT_MAPS) for angle in (0, 7, 14)]
    assert (cubes[0] != cubes[1]).any()
    np.testing.assert_array_equal(cubes[0], cubes[2][:, ::-1])  # -30 and 30 degrees mirror each other
    walls = [scene.room(angle).material == scene.WALL for angle in range(15)]
    for a, b in pairwise(walls):
        assert (a != b).any()
    np.testing.assert_array_equal(walls[3], walls[11][:, ::-1])


def test_the_wall_meets_floor_and_sky_where_a_pinhole_camera_puts_them():
    column = scene.room(7).material[:, 0]
    first_wall, first_floor = (np.flatnonzero(column == part)[0] / 4 for part in (scene.WALL, scene.FLOOR))
    depth = 1 + scene.CAMERA_DISTANCE
    assert abs(first_wall - (32 - scene.FOCAL * (scene.WALL_HEIGHT - scene.CAMERA_HEIGHT) / depth)) <= 0.25
    assert abs(first_floor - (32 + scene.FOCAL * scene.CAMERA_HEIGHT / depth)) <= 0.25


@pytest.mark.parametrize("shape", range(4))
def test_rays_meet_the_surface_and_the_normal_points_out(shape):
    """A point just before the hit is outside, one just after it inside, by each solid's own inequality."""
    rng = np.random.default_rng(shape)
    origin = np.array([0.3, -0.8, 0.5])
    target = rng.uniform((-0.1, -0.1, 0.02), (0.1, 0.1, 0.22), (500, 3))
    d = target - origin
    t, normal = scene._meet(shape, tuple(origin), tuple(d.T), 1.0)
    hit = np.isfinite(t)
    assert hit.sum() > 300

    def inside(p):
        x, y, z = p.T
        if shape == 0:
            return (np.maximum(abs(x), abs(y)) < scene.CUBE_HALF) & (z > 0) & (z < scene.CUBE_TOP)
        if shape == 1:
            return (np.hypot(x, y) < scene.CYLINDER_RADIUS) & (z > 0) & (z < scene.CYLINDER_TOP)
        radius, top = [
            (scene.SPHERE_RADIUS, scene.SPHERE_RADIUS),
            (scene.CAPSULE_RADIUS, scene.CAPSULE_TOP),
        ][shape - 2]
        return np.hypot(np.hypot(x, y), z - np.clip(z, radius, top)) < radius

    assert not inside(origin + (t[hit] - 1e-6)[:, None] * d[hit]).any()
    assert inside(origin + (t[hit] + 1e-6)[:, None] * d[hit]).all()
    n = np.stack([np.broadcast_to(c, t.shape) for c in normal], axis=1)[hit]
    np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1)
    assert ((n * d[hit]).sum(axis=1) < 1e-9).all()
    assert inside(origin + t[hit][:, None] * d[hit] - 1e-6 * n).all()


def test_the_shadow_is_dark_and_to_the_right():
    view = scene.room(7)
    light = view.light.copy()
    shadow = scene._add_shadow(view, light, 1.0, 3)
    assert (light[shadow] == np.float32(scene.SHADOW)).all()
    assert view.light[shadow].mean() > 2 * scene.SHADOW
    assert np.nonzero(shadow)[1].mean() > 4 * 33


def test_all_geometries_differ_and_no_sum_overflows():
    every = [scene.render(*row) for row in GEOMETRIES.rows(np.arange(len(GEOMETRIES)))]
    assert len({maps.tobytes() for maps in every}) == 480
    for maps in every:
        brightest = sum(maps[part + 5].astype(int) for part in (scene.FLOOR_MAPS, scene.WALL_MAPS, scene.OBJECT_MAPS))
        assert (brightest + maps[: scene.FLOOR_MAPS].max(axis=0)).max() <= 255


def test_the_window_never_cuts_the_object(monkeypatch):
    geometries = [(7, shape, angle) for shape in range(4) for angle in (0, 4, 7)] + [(0, 3, 2)]
    cut = [scene.render(*g) for g in geometries]
    monkeypatch.setattr(scene, "_window", lambda reach, top: (slice(0, 256), slice(0, 256)))
    for g, maps in zip(geometries, cut):
        np.testing.assert_array_equal(maps, scene.render(*g))


def test_pictures_do_not_depend_on_the_order_in_which_they_are_rendered(data):
    rows = GRID.sample(40, np.random.default_rng(3))
    before = data.images(rows)
    module._atlas.cache_clear()
    scene.room.cache_clear()
    one_by_one = np.concatenate([data.images(row[None]) for row in rows[::-1]])[::-1]
    np.testing.assert_array_equal(before, one_by_one)


@pytest.mark.skipif(not SHEET.exists(), reason="the sheet of genuine pictures (../shared/data) is not here")
def test_pictures_look_like_the_genuine_ones(data):
    """Mean absolute difference to a sheet of 18 genuine pictures, seen through JPEG: each under 4.5 of 255."""
    sheet = Image.open(SHEET).convert("RGB")
    rows, genuine = [], []
    for i, (hue, scale, shape, angle) in enumerate(zip((0, 4, 9), (0, 4, 7), (0, 2, 3), (0, 7, 14))):
        rows += [[hue, 6, 7, 0, 0, 4], [0, hue, 0, 7, 3, 12], [1, 7, hue, 2, 2, 10]]
        rows += [[1, 7, 4, scale, 1, 3], [9, 1, 5, 0, shape, 11], [2, 0, 2, 6, 3, angle]]
        for j in range(6):
            x, y = 15 + 188 * j, 61 + 185.5 * i
            genuine.append(sheet.resize((64, 64), Image.Resampling.BOX, box=(x, y, x + 173, y + 173)))
    for ours, theirs in zip(data.images(rows), genuine):
        # The sheet shows each picture enlarged to 173 pixels: blur ours the same way.
        large = Image.fromarray(np.ascontiguousarray(ours.transpose(1, 2, 0))).resize(
            (173, 173), Image.Resampling.BILINEAR
        )
        seen = np.asarray(large.resize((64, 64), Image.Resampling.BOX)).astype(int)
        assert np.abs(seen - np.asarray(theirs).astype(int))[1:-1, 1:-1].mean() < 4.5
