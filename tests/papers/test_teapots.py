from collections import Counter
from math import pi

import numpy as np
import pytest

import karenina
from karenina.papers.eastwood2018 import raster
from karenina.papers.eastwood2018.teapots import BOX, PARTS, _scene, control_points, in_gap, teapot_mesh, teapots

ROUND = (0.4, 1.3, 2.9, 4.4, 5.8)


@pytest.fixture(scope="module")
def data():
    return teapots()


def as_float(images):
    return images.astype(float)


def test_the_control_points_are_newells():
    patches = control_points()
    assert patches.shape == (32, 4, 4, 3)
    points = np.unique(np.round(patches.reshape(-1, 3), 9) + 0.0, axis=0)
    assert len(points) == 290  # of the 306 in the published table 12 are there twice and 4 are not used
    np.testing.assert_array_equal(points.min(axis=0), (-3, -2, 0))
    np.testing.assert_array_equal(points.max(axis=0), (3.525, 2, 3.15))
    mirrored = np.unique(points * (1, -1, 1) + 0.0, axis=0)
    np.testing.assert_array_equal(mirrored, points)
    for vertex in ((1.4375, 0.805, 2.53125), (-0.45, 0.8, 3.15), (-2.65, 0.3, 0.9375), (3.45, -0.15, 2.5125)):
        assert (points == vertex).all(axis=1).any()


def test_the_mesh_has_the_known_extent():
    mesh = teapot_mesh()
    np.testing.assert_allclose(mesh.vertices.min(axis=0), (-3, -2, 0), atol=1e-12)
    np.testing.assert_allclose(mesh.vertices.max(axis=0), (3.43, 2, 3.15), atol=0.01)


def test_the_mesh_is_closed_but_for_the_ends_that_stick_in_the_body():
    mesh = teapot_mesh()
    _, weld = np.unique(np.round(mesh.vertices, 6) + 0.0, axis=0, return_inverse=True)
    places = np.round(mesh.vertices, 6)[np.unique(weld, return_index=True)[1]]
    edges = Counter((a, b) for t in weld[mesh.triangles] for a, b in ((t[0], t[1]), (t[1], t[2]), (t[2], t[0])))
    assert max(edges.values()) == 1  # no face twice, and neighbours turn the same way
    loose = places[np.unique([edge for edge in edges if edge[::-1] not in edges])]
    ends = [loose[np.abs(loose[:, 0] - x) < 0.11] for x in (-1.55, -1.95, 1.7)]
    assert sum(map(len, ends)) == len(loose) == 12 + 12 + 16
    for end, wall in zip(ends, (1.69, 2.01, 1.97)):  # the body's radius at the height of each end, at its narrowest
        assert (np.hypot(end[:, 0], end[:, 1]) < wall).all()


def test_normals_point_out_of_the_pot():
    mesh = teapot_mesh()
    p, q, r = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    facing = (np.cross(q - p, r - p) * mesh.normals[mesh.triangles].mean(axis=1)).sum(axis=1)
    inside = (mesh.normals[mesh.triangles] == 0).all(axis=(1, 2))
    assert inside.sum() == 4 * 16 + 14  # the slit, and the mouth without its two ends
    assert (facing[~inside] > 0).all()
    length = np.linalg.norm(mesh.normals, axis=1)
    np.testing.assert_allclose(length[length > 0], 1)


def traced(azimuth, elevation, colour, size):
    """The image (3, size, size) by shooting a ray at every triangle for every sample."""
    vertices, normals, triangles = _scene()
    sight = np.array([np.sin(azimuth) * np.cos(elevation), -np.cos(azimuth) * np.cos(elevation), np.sin(elevation)])
    eye, right = raster.DISTANCE * sight, np.array([np.cos(azimuth), np.sin(azimuth), 0])
    up = np.cross(sight, right)
    light = raster.LIGHT[0] * right + raster.LIGHT[1] * np.cross([0, 0, 1], right) + [0, 0, raster.LIGHT[2]]
    half = (light + sight) / np.linalg.norm(light + sight)
    lit = np.maximum(normals @ light, 0)
    shade = raster.AMBIENT + raster.SKY * normals[:, 2] + raster.DIFFUSE * lit
    shine = raster.SPECULAR * np.where(lit > 0, np.maximum(normals @ half, 0), 0) ** 16

    a, b = raster.A, raster.B
    steps = [
        ((a * p - b * q) / (a * a + b * b), (b * p + a * q) / (a * a + b * b))
        for p in range(-5, 6)
        for q in range(-5, 6)
    ]
    offsets = np.array([step for step in steps if max(map(abs, step)) < 0.5])
    assert len(offsets) == a * a + b * b == 13
    row, column = np.mgrid[:size, :size] + 0.5
    x = (column[..., None] + offsets[:, 0]).ravel() / size - 0.5
    y = 0.5 - (row[..., None] + offsets[:, 1]).ravel() / size
    rays = raster.WIDTH * (x[:, None] * right + y[:, None] * up) - eye

    p, q, r = (vertices[triangles[:, i]] for i in range(3))
    e1, e2, s = q - p, r - p, eye - p
    c1, c2 = np.cross(s, e1), np.cross(s, e2)
    with np.errstate(divide="ignore", invalid="ignore"):
        det = rays @ np.cross(e2, e1).T  # by Cramer's rule, for every ray and triangle
        u, v, t = (rays @ c2.T) / -det, (rays @ c1.T) / det, (e2 * c1).sum(axis=1) / det
    t[~((u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (det > 0))] = np.inf
    best = t.argmin(axis=1)
    pick = np.arange(len(rays)), best
    weights = np.stack([1 - u[pick] - v[pick], u[pick], v[pick]], axis=1)
    hit = np.isfinite(t[pick])
    colours = np.where(
        hit, (weights * (shade[triangles[best]] * np.array(colour)[:, None, None] + shine[triangles[best]])).sum(-1), 1
    )
    return colours.reshape(3, size, size, len(offsets)).mean(axis=-1)


@pytest.mark.parametrize("view", [(0.0, 0.0), (0.7, 0.4), (2.4, 1.1), (4.0, 0.2), (5.5, pi / 2)])
def test_the_picture_is_the_one_a_ray_tracer_makes(view):
    colour, size = (0.9, 0.4, 0.1), 12
    images = raster.render(*_scene(), np.array([view]), np.array([colour]), size)
    difference = np.abs(images[0] / 255 - traced(*view, colour, size))
    # A sample may fall to the other side of an edge by rounding; everything else agrees to the last byte or so.
    assert (difference > 1.5 / 255).sum() <= 3
    assert difference.max() < 0.1


def test_a_full_turn_comes_back(data):
    rows = [(azimuth, elevation, 0.3, 0.6, 0.9) for azimuth in (0, 2 * pi) for elevation in np.linspace(0, pi / 2, 5)]
    first, last = np.split(as_float(data.images(rows)), 2)
    assert (first != last).mean() < 1e-3
    assert np.abs(first - last).mean() < 0.01


def test_azimuth_zero_has_the_spout_on_the_right_and_the_camera_goes_anticlockwise(data):
    black = [(azimuth, 0.3, 0, 0, 0) for azimuth in (0, pi / 2, pi)]
    right, front, left = 255 - as_float(data.images(black))[:, 0]
    rows, columns = np.nonzero(right > 128)
    assert rows[columns > 55].mean() < 31  # the tip of the spout is high up, on the right
    assert (right[:, :32] > 128).sum() > (right[:, 32:] > 128).sum()  # the handle's loop, on the left
    assert (front > 128).any(axis=0).sum() < 0.7 * (right > 128).any(axis=0).sum()
    # The pot is its own mirror image, so from behind the outline is turned over.
    assert np.abs((left > 128) ^ (right > 128)[:, ::-1]).mean() < 0.01
    assert data.images([(pi / 2, 0.3, 0, 0, 0)])[0, 0, 30:40, 32].mean() < 60  # the spout comes to the front


def test_from_above_a_quarter_turn_of_the_camera_turns_the_outline(data):
    rows = [(azimuth, pi / 2, 0, 0, 0) for azimuth in (0.3, 0.3 + pi / 2)]
    first, second = data.images(rows)[:, 0] < 128
    assert (np.rot90(first, -1) != second).mean() < 1e-3
    assert 600 < first.sum() < 1200


def test_colour_is_linear_and_never_clips(data):
    rows = [
        (azimuth, elevation, *colour)
        for azimuth in ROUND
        for elevation in (0, 0.6, 1.5)
        for colour in np.eye(4)[:, :3] * 0.8
    ]
    red, green, blue, black = as_float(data.images(rows)).reshape(-1, 4, 3, 64, 64).swapaxes(0, 1)
    np.testing.assert_array_equal(red[:, 0], green[:, 1])
    np.testing.assert_array_equal(red[:, 0], blue[:, 2])
    np.testing.assert_array_equal(red[:, 1], black[:, 1])
    np.testing.assert_array_equal(black[:, 0], black[:, 2])
    halves = as_float(data.images([(*row[:2], *(np.array(row[2:]) / 2)) for row in rows[::4]]))[:, 0]
    assert np.abs(halves - (red[:, 0] + black[:, 0]) / 2).max() <= 1
    white = as_float(data.images([(*row[:2], 1, 1, 1) for row in rows[::4]]))
    pot = white < 255
    assert np.abs(white[:, 0] - (black[:, 0] + (red[:, 0] - black[:, 0]) / 0.8)).max() <= 2
    assert pot.mean() > 0.15
    assert (red[:, 0] - black[:, 0]).max() > 130  # lit


def test_the_ground_is_white_and_the_pot_is_never_cut_off(data):
    images, _ = data.sample(300, np.random.default_rng(1))
    border = np.concatenate([images[..., 0, :], images[..., -1, :], images[..., :, 0], images[..., :, -1]], axis=-1)
    assert (border == 255).all()
    points, values = np.empty_like(_scene()[0]), np.empty((len(_scene()[0]), 2))
    for azimuth in np.linspace(0, 2 * pi, 60):
        for elevation in (0, 0.3, 0.6, 0.9, 1.2, pi / 2):
            raster.project(*_scene()[:2], azimuth, elevation, 64, points, values)
            assert points[:, :2].min() > 1
            assert points[:, :2].max() < 63
    assert raster.AMBIENT + raster.SKY + raster.DIFFUSE + raster.SPECULAR <= 1


def test_a_small_step_changes_little(data):
    rng = np.random.default_rng(2)
    rows = BOX.sample(60, rng)
    rows[:, :2] *= 0.85  # leave room for the steps
    for angle in (0, 1):
        moved = rows.copy()
        moved[:, angle] += 0.002
        step = np.abs(as_float(data.images(moved)) - as_float(data.images(rows)))
        assert step.mean() < 0.2
        assert np.quantile(step, 0.999) < 25  # an edge passes about one sample of 13, or 20 levels, at a time
        assert step.max() < 128  # where it lies along the lattice it passes a few
        moved[:, angle] += 0.198
        assert np.abs(as_float(data.images(moved)) - as_float(data.images(rows))).mean() > 2 * step.mean()


def test_same_seed_same_bytes(data):
    images, factors = data.sample(20, np.random.default_rng(3))
    again, rows = teapots().sample(20, np.random.default_rng(3))
    np.testing.assert_array_equal(factors, rows)
    np.testing.assert_array_equal(images, again)
    np.testing.assert_array_equal(data.images(factors[::-1]), images[::-1])  # each row on its own
    assert data.images(np.empty((0, 5))).shape == (0, 3, 64, 64)


def test_the_data_set_describes_itself(data):
    assert (data.name, len(data), data.image_shape, data.source, data.stochastic) == (
        "teapots",
        200_000,
        (3, 64, 64),
        "rendered",
        False,
    )
    assert data.factor_names == ("azimuth", "elevation", "red", "green", "blue")
    assert data.factor_sizes == (None,) * 5
    assert data.factors.continuous
    images, factors = data.sample(2, 0)
    assert images.dtype == np.uint8
    assert factors.shape == (2, 5)


@pytest.mark.parametrize("gap", [None, "exclude", "only"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1.7, 0, 0, 0]], "row 0 has elevation = 1.7, expected 0..1.5708"),
        ([[-0.1, 0, 0, 0, 0]], "azimuth = -0.1"),
        ([[0, 0, 0, 0, 0], [0, 0, 1.01, 0, 0]], "row 1 has red = 1.01"),
        ([[0, 0, 0, 0, float("nan")]], "blue = nan"),
        ([[0, 0, 0]], "expected \\(n, 5\\)"),
        ([["a"] * 5], "must be numbers"),
    ],
)
def test_rows_out_of_range_are_refused(gap, rows, message):
    with pytest.raises(ValueError, match=message):
        teapots(gap).images(rows)


def test_the_gap_is_red_teapots_from_above():
    rows = [
        (1, 1.0, 0.5, 0.3, 0.3),
        (1, 0.7, 0.5, 0.3, 0.3),
        (1, 1.0, 0.5, 0.4, 0.3),
        (1, 1.0, 0.5, 0.3, 0.4),
        (1, pi / 4, 0.5, 0.3, 0.3),
    ]
    assert in_gap(rows).tolist() == [True, False, False, False, False]
    assert in_gap(rows[0]).tolist() == [True]
    share = in_gap(BOX.sample(200_000, np.random.default_rng(0))).mean()
    assert share == pytest.approx(0.5 * 0.85**3 / 3, abs=0.003)
    assert share == pytest.approx(21_238 / 200_000, abs=0.006)  # the paper's count
    with pytest.raises(ValueError, match="elevation = 2"):
        in_gap([[0, 2, 0, 0, 0]])
    assert in_gap(rows, "printed").tolist() == [True, False, False, True, False]
    share = in_gap(BOX.sample(200_000, np.random.default_rng(0)), "printed").mean()
    assert share == pytest.approx(0.5 * 0.85**2 / 2, abs=0.003)
    with pytest.raises(ValueError, match="reading is 'script2', expected 'script' or 'printed'"):
        in_gap(rows, "script2")


@pytest.mark.parametrize("reading", ["script", "printed"])
def test_gap_samplers_keep_to_their_side(reading):
    only = teapots("only", reading).factors.sample(3000, np.random.default_rng(0))
    exclude = teapots("exclude", reading).factors.sample(3000, np.random.default_rng(0))
    assert in_gap(only, reading).all()
    assert not in_gap(exclude, reading).any()
    # Within its side the draw stays uniform: compare with all teapots, sorted out afterwards.
    every = BOX.sample(60_000, np.random.default_rng(1))
    corner = in_gap(every, reading)
    for rows, kept in ((only, every[corner]), (exclude, every[~corner])):
        np.testing.assert_allclose(rows.mean(axis=0), kept.mean(axis=0), atol=0.09)
        np.testing.assert_allclose(np.corrcoef(rows.T), np.corrcoef(kept.T), atol=0.08)
    again = teapots("only", reading).factors.sample(3000, np.random.default_rng(0))
    np.testing.assert_array_equal(only, again)
    assert teapots("exclude").images(only[:1]).shape == (1, 3, 64, 64)  # images may be of any teapot


def test_gap_samplers_hold_factors_fixed():
    greens = np.linspace(0, 0.6, 50)
    rows = teapots("only").factors.sample(50, np.random.default_rng(0), {"green": greens, "azimuth": 1.0})
    assert in_gap(rows).all()
    np.testing.assert_array_equal(rows[:, 3], greens)
    assert (rows[:, 0] == 1).all()
    _, rows = teapots("exclude").sample(40, np.random.default_rng(0), fixed={"red": 0.9})
    assert (rows[:, 2] == 0.9).all()
    assert not in_gap(rows).any()


def test_what_cannot_be_drawn_is_an_error():
    with pytest.raises(ValueError, match=r"inside the gap with \{'elevation': 0.1\}"):
        teapots("only").sample(3, np.random.default_rng(0), fixed={"elevation": 0.1})
    fixed = {"elevation": 1.5, "red": 1.0, "green": 0.0, "blue": 0.0}
    with pytest.raises(ValueError, match="outside the gap"):
        teapots("exclude").sample(3, np.random.default_rng(0), fixed=fixed)
    with pytest.raises(ValueError, match="no factor 'hue'"):
        teapots("only").sample(3, np.random.default_rng(0), fixed={"hue": 0.1})
    with pytest.raises(ValueError, match="red = 2"):
        teapots("exclude").sample(3, np.random.default_rng(0), fixed={"red": 2})
    with pytest.raises(ValueError, match="gap is 'none', expected None, 'exclude' or 'only'"):
        teapots("none")


def test_parts_are_fixed_by_a_seed_and_hold_what_the_paper_counts():
    found = {part: karenina.load(f"teapots:part={part}") for part in PARTS}
    assert [len(data) for data in found.values()] == [160_000, 20_000, 20_000]
    rows = np.concatenate([data.factors.rows for data in found.values()])
    assert len(np.unique(rows, axis=0)) == 200_000
    again = karenina.load("teapots:part=test")
    np.testing.assert_array_equal(again.factors.rows, found["test"].factors.rows)
    assert not np.array_equal(karenina.load("teapots:part=test,seed=1").factors.rows, again.factors.rows)
    outside = karenina.load("teapots:part=test,gap=exclude")
    assert len(outside) == 20_000 - in_gap(again.factors.rows).sum()
    _, drawn = outside.sample(200, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in outside.factors.rows}
    assert not in_gap(drawn).any()
    with pytest.raises(ValueError, match="part is 'training', expected None or one of 'train'"):
        karenina.load("teapots:part=training")
    with pytest.raises(ValueError, match="seed is -1, expected an integer"):
        karenina.load("teapots:part=train,seed=-1")
    with pytest.raises(ValueError, match="none with given factors"):
        again.sample(3, np.random.default_rng(0), {"red": 0.5})


def test_images_of_a_part_have_numbers():
    data = karenina.load("teapots:part=test,gap=exclude")
    index = np.array([5, 0, len(data) - 1])
    np.testing.assert_array_equal(data.at(index), data.images(data.factors.rows[index]))
    np.testing.assert_array_equal(data.factors.find(data.factors.rows[index]), index)
    other = data.factors.rows[:2].copy()
    other[1, 2] = 0.5
    assert data.factors.find(other) is None
    assert data.factors.find(np.array([[6.2831, 0.1, 0.1, 0.1, 0.1]])) is None
    with pytest.raises(ValueError, match=f"index {len(data)} is outside 0..{len(data) - 1}"):
        data.at([0, len(data)])
    with pytest.raises(ValueError, match="indices must be integers"):
        data.at([0.5])
    with pytest.raises(ValueError, match="continuous factors"):
        karenina.load("teapots").at([0])
