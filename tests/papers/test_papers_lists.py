"""The lists of the papers' tables and figures, and of the values that they print."""

import contextlib
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from karenina.data import names as data_sets
from karenina.metrics.registry import METRICS
from karenina.metrics.scoring import of_part
from karenina.papers import VALUES, items, of_paper, printed
from karenina.papers.duan2020 import tables as duan2020
from karenina.papers.holtz2022 import tables as holtz2022
from karenina.papers.locatello2019 import tables as locatello2019
from karenina.studies.plan import SCALES, preset
from karenina.training.methods import METHODS

EVERY = [item for found in items().values() for item in found.values()]

# Every output that the five papers have, apart from drawings, architectures and hyperparameters.
EXPECTED = {
    "duan2020": "table 1 2 7; figure 1-3 6-17; equation 2; appendix a2 a10",
    "holtz2022": "table 1-4; figure 1 3 4",
    "locatello2019": "table 1 5 6; figure 1-27",
    "carbonneau2022": "table 1 2; figure 3-9",
    "eastwood2018": "table 1 3-5; figure 2-6",
}


def expand(text):
    for part in text.split("; "):
        kind, *numbers = part.split()
        for number in numbers:
            first, _, last = number.partition("-")
            span = [first] if not last else range(int(first), int(last) + 1)
            yield from (f"{kind}_{n}" for n in span)


@pytest.mark.parametrize("paper", EXPECTED)
def test_every_table_and_figure_of_a_paper_is_listed(paper):
    assert set(of_paper(paper)) == set(expand(EXPECTED[paper]))


@pytest.mark.parametrize("item", EVERY, ids=lambda item: f"{item.paper}-{item.name}")
def test_every_item_has_a_producer_and_a_title(item):
    assert callable(item.function())
    assert item.title
    assert not item.title.endswith(".")


def test_no_producer_is_without_an_item():
    """A function table_* or figure_* of a paper's module is listed, under that paper and that name."""
    listed = {(item.room, item.producer) for item in EVERY}
    for room, producer in listed:
        module = producer.split(":")[0]
        names = dir(importlib.import_module(f"{room}.{module}"))
        made = {name for name in names if re.fullmatch(r"(table|figure|equation)_\d+|appendix_\w+", name)}
        assert {(room, f"{module}:{name}") for name in made} <= listed
    for item in EVERY:
        if item.room != "karenina.papers.since2020":  # one table each, of several papers
            assert item.room == f"karenina.papers.{item.paper}"
            assert item.producer.split(":")[1] == item.name


def test_every_printed_value_belongs_to_an_item_and_says_where_it_stands():
    values = [found for item in EVERY if (found := printed(item.paper, item.name)) is not None]
    assert len(values) == 18
    for found in values:
        assert re.search(r"\(\d{4}\)", found.source)
        assert not found.frame.duplicated(found.keys).any()
        assert set(VALUES) & set(found.frame.columns)
        assert np.isfinite(found.frame[["value"]].to_numpy(float)).all()


def test_printed_keys_are_spelled_as_in_the_results():
    for item in EVERY:
        found = printed(item.paper, item.name)
        if found is None:
            continue
        if "data" in found.frame and item.name not in ("table_1", "table_6"):
            assert set(found.frame["data"]) <= set(data_sets())
        if "method" in found.frame and "a10" not in item.name:
            assert set(found.frame["method"]) <= {*METHODS, "dip_vae"}


def test_locatello_averages_are_those_that_section_5_3_states():
    """37 % and 59 % on average: a mistyped value would show."""
    means = printed("locatello2019", "table_5").frame.groupby("predictor")["value"].mean()
    assert means["method"] == pytest.approx(0.37, abs=0.005)
    assert means["setting"] == pytest.approx(0.59, abs=0.005)


def test_carbonneau_table_1_has_all_cells():
    frame = printed("carbonneau2022", "table_1").frame
    assert len(frame) == 3 * 17
    assert frame["value"].between(0, 1).all()
    assert frame.groupby("case").size().eq(17).all()


@pytest.mark.parametrize("name", ["table_3", "table_4"])
def test_eastwood_averages_follow_from_the_rows(name):
    frame = printed("eastwood2018", name).frame
    parts = frame[frame["part"] != "disentanglement"]
    for _, part in parts.groupby(["method", "part"]):
        rows = part["of"] == "average"
        assert part[~rows]["value"].mean() == pytest.approx(part[rows]["value"].iloc[0], abs=0.0101)
    table_1 = printed("eastwood2018", "table_1").frame
    model = {"table_3": "lasso", "table_4": "forest"}[name]
    short = table_1[table_1["model"] == model].set_index(["method", "part"])["value"]
    long = frame[frame["of"] == "average"].set_index(["method", "part"])["value"]
    assert (short.sort_index() == long.sort_index()).all()


OPTIONS = tomllib.loads(Path(__file__).with_name("papers_options.toml").read_text(encoding="utf-8"))["rows"]


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: f"{row[0]}-{row[1]}-{row[3].split()[-1]}")
def test_how_a_paper_measured_is_an_option_with_a_test(row):
    paper, where, what, option, shown = row
    assert paper in EXPECTED
    assert where
    assert what
    function, parameter = option.split()
    module, name = function.split(":")
    assert parameter in inspect.signature(getattr(importlib.import_module(module), name)).parameters
    file, test = shown.split("::")
    assert f"\ndef {test}(" in (Path(__file__).parents[2] / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("scale", SCALES)
def test_presets_score_what_their_papers_measured_and_no_more(scale):
    modules = {"locatello2019": locatello2019, "duan2020": duan2020, "holtz2022": holtz2022}
    for paper, module in modules.items():
        evaluation = preset(paper, scale).evaluation
        assert evaluation.tasks
        rows = {row for name in evaluation.metrics for row in scored(name)}
        assert rows == set(module.METRICS.values())
    assert "label_noise" in preset("holtz2022", scale).evaluation.also
    assert "regression" in preset("eastwood2018", scale).evaluation.also


def scored(name):
    """Metric and property of each score that a name in a list of metrics asks for."""
    metric, part = of_part(name)
    return [(metric, prop) for attribute, prop in METRICS[metric].properties.items() if part in (None, attribute)]


def test_an_unknown_paper_is_one_clear_line():
    with pytest.raises(ValueError, match=r"no paper 'duan'; did you mean duan2020. Known: carbonneau2022, duan2020"):
        of_paper("duan")


@pytest.mark.parametrize("room", sorted({item.room for item in EVERY}))
def test_every_name_in_the_map_of_a_room_is_there(room):
    text = importlib.import_module(room).__doc__
    for name in re.findall(r"\b(?:karenina|tables|pictures|tasks|teapots|reasoning)(?:\.[A-Za-z_0-9]+)+", text):
        whole = name if name.startswith("karenina.") else f"{room}.{name}"
        module, _, attribute = whole.rpartition(".")
        with contextlib.suppress(ImportError):
            importlib.import_module(whole)
            continue
        assert hasattr(importlib.import_module(module), attribute), whole
