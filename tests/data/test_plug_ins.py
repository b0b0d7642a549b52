"""Data sets that an installed package registers by an entry point of the group karenina.data."""

import numpy as np
import pytest
from typer.testing import CliRunner

import karenina
from karenina import _plugins
from karenina.cli import app
from karenina.data import catalogue, load, load_again, names

PACKAGE = """
import numpy as np
from karenina.data import DataSet, FactorGrid

GRID = FactorGrid(("level", "side"), (4, 2))


def stripes(data_dir, width=2):
    def render(rows, rng):
        images = np.zeros((len(rows), 1, 8, 8), np.uint8)
        for image, (level, side) in zip(images, rows):
            image[0, :, 4 * side : 4 * side + width] = 60 * (level + 1)
        return images

    if width > 4:
        raise ValueError(f"width is {width}, expected at most 4")
    return DataSet("another name", GRID, (1, 8, 8), render)


def raising(data_dir):
    return {}["missing"]


def list_of_images(data_dir):
    return [1, 2]


def leaving(data_dir):
    raise SystemExit(0)


number = 3
"""
POINTS = """
[karenina.data]
stripes = stripes_package:stripes
absent = no_such_package:stripes
raising = stripes_package:raising
wrong = stripes_package:list_of_images
number = stripes_package:number
leaving = stripes_package:leaving
gone = gone_package:stripes
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """What `pip install` leaves of a package: its module, and the folder of its metadata."""
    (tmp_path / "stripes_package.py").write_text(PACKAGE)
    (tmp_path / "gone_package.py").write_text("import sys\nsys.exit()\n")
    metadata = tmp_path / "stripes_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stripes-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    _plugins.found.cache_clear()
    yield
    monkeypatch.undo()
    _plugins.found.cache_clear()


def test_a_plug_in_is_loaded_by_name_with_its_options(installed):
    data = load("stripes")
    assert (data.name, data.factor_sizes) == ("stripes", (4, 2))
    assert data.images([[3, 1]])[0, 0, 0].tolist() == [0, 0, 0, 0, 240, 240, 0, 0]
    wide = load("stripes:width=4")
    assert wide.name == "stripes:width=4"
    assert wide.images([[3, 1]])[0, 0, 0].tolist() == [0, 0, 0, 0, 240, 240, 240, 240]
    assert {"stripes", "absent", "raising", "wrong", "number", "leaving", "gone", "teapots"} < set(names())


def test_runs_and_studies_know_it(installed, tmp_path):
    from karenina.studies import find_plan

    run = karenina.train("stripes:width=3", "vae", network="linear", latents=2, steps=1, out=tmp_path / "run")
    assert karenina.open(tmp_path / "run").config.data == "stripes:width=3"
    again = load_again(run.config.data)
    rows = np.array([[1, 0], [2, 1]])
    np.testing.assert_array_equal(again.images(rows), load("stripes", width=3).images(rows))
    (tmp_path / "study.toml").write_text("data = ['stripes:width=3']\nseeds = 1\n[methods.vae]\n")
    assert find_plan(str(tmp_path / "study.toml")).points[0].data == "stripes:width=3"


def test_it_is_listed_and_broken_ones_do_not_hide_it(installed):
    listed = {entry.name: entry for entry in catalogue()}
    assert (listed["stripes"].factors, listed["stripes"].images) == ("level 4, side 2", "8 of 1x8x8")
    assert listed["absent"].source == "the plug-in absent (no_such_package:stripes) cannot be loaded"
    shown = CliRunner().invoke(app, ["data", "list"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "level 4, side 2" in shown.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "the plug-in absent .no_such_package:stripes. cannot be loaded: No module named 'no_such_package'"),
        ("raising", "the plug-in raising failed: KeyError: 'missing'"),
        ("wrong", "the plug-in wrong gave an object of type list, expected a DataSet"),
        ("number", "the plug-in number is of type int, expected a function"),
        ("stripes:height=3", "stripes has no option 'height'; known: width, side"),
        ("stripes:width=9", "width is 9, expected at most 4"),
        ("leaving", "the plug-in leaving failed: SystemExit: 0"),
        ("gone", "the plug-in gone .gone_package:stripes. cannot be loaded: SystemExit"),
        ("stripe", "did you mean stripes"),
    ],
)
def test_what_is_wrong_is_one_line(installed, name, message):
    with pytest.raises(ValueError, match=message) as error:
        load(name)
    assert "\n" not in str(error.value)


def test_a_plug_in_that_calls_exit_does_not_end_the_program(installed, command):
    said = command("data", "show", "gone")
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("karenina: the plug-in gone")
    assert command("data", "list").returncode == 0


def test_ctrl_c_in_a_plug_in_stays_what_it_is():
    with pytest.raises(KeyboardInterrupt), _plugins.blamed("the plug-in"):
        raise KeyboardInterrupt
