"""`karenina.score(run)` of a run on data of one's own."""

import json
import sys
import warnings

import numpy as np
import pytest

import karenina
from karenina.cli import main


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Images and factors in a file, and a run trained on them."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(300, 2))
    images = np.zeros((300, 1, 8, 8), np.uint8)
    images[np.arange(300), 0, factors[:, 0], factors[:, 1]] = 255
    np.savez(folder / "mine.npz", images=images, factors=factors, factor_names=["row", "column"])
    karenina.train(folder / "mine.npz", steps=30, latents=3, out=folder / "run")
    return folder


def test_the_advice_to_give_the_data_can_be_followed(own):
    run = karenina.open(own / "run")
    with pytest.raises(ValueError, match="give it by --data PATH or data="):
        karenina.score(run)
    data = karenina.load(own / "mine.npz")
    tables = [
        karenina.score(run, metrics=["mig"], data=given) for given in (data, own / "mine.npz", str(own / "mine.npz"))
    ]
    assert tables[0].factor_names == ("row", "column")
    images, factors = karenina.evaluation.scoring.inputs(data)
    alone = karenina.score(run.encode(images)[0], factors, metrics=["mig"])
    assert {table["mig"].value for table in tables} == {alone["mig"].value}


def test_without_factors_there_are_the_scores_that_need_none(own):
    run = karenina.open(own / "run")
    names = {row.metric for row in karenina.score(run, data=np.load(own / "mine.npz")["images"]).rows}
    assert "elbo" in names
    assert "mig" not in names


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("blobs", "trained on mine with images of 1x8x8, not on blobs with images of 1x16x16"),
        ("nothing", "no data set and no file 'nothing'"),
        (np.zeros((3, 8, 8)), r"array of shape \(3, 8, 8\)"),
    ],
)
def test_data_that_does_not_fit(own, data, message):
    with pytest.raises(ValueError, match=message):
        karenina.score(karenina.open(own / "run"), data=data)
    with pytest.raises(ValueError, match="arrays need none"):
        karenina.score(np.zeros((5, 2)), np.zeros((5, 2)), data=data)


def test_on_the_command_line(own, monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() replaces it
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # main() sets it

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["karenina", "score", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    assert call(own / "run", "--data", own / "mine.npz", "--metrics", "mig", "--json") == 0
    found = {row["metric"]: row["value"] for row in json.loads(capsys.readouterr().out)["scores"]}
    table = karenina.score(karenina.open(own / "run"), metrics=["mig"], data=own / "mine.npz")
    assert found["mig"] == table["mig"].value
    for words in ([own / "run"], [own / "mine.npz", "--data", own / "mine.npz"]):
        assert call(*words) == 2
        assert "--data" in capsys.readouterr().err


def test_images_are_encoded_once(monkeypatch):
    run = karenina.train("blobs", latents=2, steps=2)
    encoded, encode = [], run.encode
    monkeypatch.setattr(run, "encode", lambda images: encoded.append(len(images)) or encode(images))
    found = karenina.evaluate(run, metrics=(), rows=100, seed=3)
    assert encoded == [100]
    images, _ = karenina.evaluation.scoring.inputs(karenina.load("blobs"), 100, 3)
    assert found.label_free.items() >= run.evaluate(images, 3).items()
