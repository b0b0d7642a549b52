"""`karenina.fit` whole, on tiny budgets: folder, page, stops, and a second call."""

import errno
import html
import itertools
import json
import os
import re
import shlex
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import karenina
from karenina.cli import app
from karenina.fitting import core
from karenina.fitting import page as pages
from karenina.fitting.encoding import encode
from karenina.fitting.folder import Folder, read_names
from karenina.fitting.models import OutOfTime, measure

TINY = {"steps": 30, "latents": 3}
LEARNT = {"steps": 150, "latents": 3}  # enough for blobs to have active latents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty pictures of a square, in a folder whose name has a space and an umlaut."""
    root = tmp_path_factory.mktemp("fit") / "Übung eins"
    root.mkdir()
    rng = np.random.default_rng(0)
    for i in range(40):
        image = np.full((20, 24, 3), rng.integers(0, 100), np.uint8)
        x, y = rng.integers(0, 14, 2)
        image[y : y + 6, x : x + 6] = rng.integers(120, 256, 3)
        Image.fromarray(image).save(root / f"picture {i:02d}.png")
    return root


@pytest.fixture(scope="module")
def found(folder):
    return karenina.fit(folder, out=folder.parent / "out ü", models=4, **TINY)


def test_a_fit_leaves_a_model_a_ranking_an_answer_and_a_page(found, folder):
    assert found.best.config.data == "Übung eins"  # as it is: 24 pixels are few enough
    again = karenina.pick(found.path)
    assert again.config == found.best.config == karenina.open(found.path / "model").config
    assert len(found.ranking) == found.answer["models"] == 4
    assert found.ranking["run"][0] == found.best.path.name
    answer = json.loads((found.path / "answer.json").read_text())
    assert answer["verdict"]["level"] == found.verdict.level
    assert {"time", "few images"} <= {one["kind"] for one in answer["advice"]}


def test_the_page_shows_each_active_latent_with_real_images_and_a_box(found):
    text = found.page.read_text()
    active = found.answer["active"]
    assert active >= 1
    assert len(re.findall(r'<input type="text"[^>]*data-latent="\d"', text)) == active
    assert text.count("data:image/gif") == active
    assert text.count("real images nearest to the low end") == active
    assert "This is too little" in text
    assert "http" not in re.sub(r"http-equiv", "", text)  # nothing is loaded from elsewhere


def test_extremes_are_real_images_at_the_ends_and_otherwise_alike(found, folder):
    data = karenina.load(folder)
    images = data.at(np.arange(40))
    codes = found.best.encode(images)[0]
    active = np.array(found.answer["kl"]) > 0.05
    latent = int(np.argmax(found.answer["kl"]))
    low, high = (pages.nearest(codes, codes[0], latent, codes[:, latent].min() * s, active) for s in (1, -1))
    assert codes[low[:3], latent].mean() < codes[:, latent].mean()
    assert len(set(low)) == pages.NEAREST
    assert set(low[:3]) != set(high[:3])


def test_names_become_columns_and_codes_are_the_runs(found, folder, tmp_path):
    name = {"format": 1, "weights": found.answer["weights"], "names": {"1": "brightness"}}
    (found.path / "names.json").write_text(json.dumps(name))
    try:
        assert encode(found.path, folder, tmp_path / "codes.parquet") == 40
        frame = pd.read_parquet(tmp_path / "codes.parquet")
        assert list(frame.columns) == ["image", "latent_0", "brightness", "latent_2"]
        assert frame["image"][3] == "picture 03.png"
        ours = found.best.encode(karenina.load(folder).at(np.arange(40)))[0]
        np.testing.assert_allclose(frame.iloc[:, 1:].to_numpy(), ours, atol=1e-5)
        encode(found.path, folder, tmp_path / "codes.csv")
        np.testing.assert_allclose(pd.read_csv(tmp_path / "codes.csv").iloc[:, 1:].to_numpy(), ours, atol=1e-4)
        other = {**name, "weights": "0"}
        (found.path / "names.json").write_text(json.dumps(other))
        with pytest.raises(ValueError, match="another model"):
            encode(found.path, folder, tmp_path / "codes.parquet")
    finally:
        (found.path / "names.json").unlink()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"9": "x"}, "names latent '9', the model has 0 to 2"),
        ({"0": "a", "1": "a"}, "same name"),
        (["a"], "should have names"),
        ({"0": "\ud800"}, "a name that cannot be written"),
    ],
)
def test_wrong_names_are_refused(found, tmp_path, names, message):
    (tmp_path / "names.json").write_text(json.dumps({"format": 1, "names": names}))
    with pytest.raises(ValueError, match=message):
        read_names(tmp_path, 3, "")


def test_a_second_call_continues(found, folder, tmp_path):
    first = karenina.fit("blobs", out=tmp_path, models=2, **LEARNT)
    before = (first.best.path / "model.safetensors").stat().st_mtime_ns
    more = karenina.fit("blobs", out=tmp_path, models=4, **LEARNT)
    assert len(more.ranking) == 4
    assert (first.best.path / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="fit of other images"):
        karenina.fit(folder, out=tmp_path, models=4, **LEARNT)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OutOfTime])
def test_stopped_in_any_round_it_answers_and_continues_to_the_same_end(stop, tmp_path):
    whole = karenina.fit("blobs", out=tmp_path / "whole", models=6, methods="beta_vae", **LEARNT)
    for step in (80, 120):  # from the beginning, and from where it stopped

        def interrupt(at, step=step):
            if at.step == step:
                raise stop

        stopped = karenina.fit("blobs", out=tmp_path / "cut", models=6, progress=interrupt, **LEARNT)
        assert stopped.stopped == ("user" if stop is KeyboardInterrupt else "time")
        assert stopped.answer["steps"] == karenina.pick(tmp_path / "cut").config.steps == step
        assert f"6 models and {step} steps each" in stopped.page.read_text()
    ended = karenina.fit("blobs", out=tmp_path / "cut", models=6, **LEARNT)
    assert ended.stopped == ""
    pd.testing.assert_frame_equal(ended.ranking, whole.ranking)
    for one in (tmp_path / "whole" / "runs" / "1").glob("*/model.safetensors"):
        assert one.read_bytes() == (tmp_path / "cut" / "runs" / "1" / one.parent.name / one.name).read_bytes()
    assert not (tmp_path / "cut" / "runs" / "1" / "unfinished").exists()


def test_stopped_before_a_step_is_done_it_says_so(tmp_path):
    def interrupt(at):
        raise KeyboardInterrupt

    stopped = karenina.fit("blobs", out=tmp_path, models=2, progress=interrupt, steps=1, latents=3)
    assert stopped.best is None
    assert "none is finished" in stopped.page.read_text()
    with pytest.raises(ValueError, match="chose no model"):
        karenina.pick(tmp_path)


def test_much_more_time_begins_longer_models_and_the_old_answer_stands_until_then(tmp_path):
    first = karenina.fit("blobs", out=tmp_path, models=2, **TINY)

    def interrupt(at):
        raise KeyboardInterrupt

    longer = {**TINY, "steps": 60}
    again = karenina.fit("blobs", out=tmp_path, models=2, progress=interrupt, **longer)
    assert again.answer["run"] == first.answer["run"]
    ended = karenina.fit("blobs", out=tmp_path, models=2, **longer)
    assert ended.answer["steps"] == 60
    assert ended.answer["run"].startswith("runs/2/")


def test_a_time_is_kept_by_what_is_planned(tmp_path, monkeypatch):
    """The clock is ours here: the plan must fit the time at the measured speed."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.01 * next(ticks), process_time=lambda: float(next(ticks)))
    monkeypatch.setattr(core, "clocks", clock)
    monkeypatch.setattr(core.FitCall, "_speed", lambda *_: 0.001)
    monkeypatch.setattr(core.FitCall, "train", lambda *_: None)

    def planned(time):
        found = karenina.fit("blobs", out=tmp_path / str(next(ticks)), time=time, started=clock.monotonic())
        return json.loads((found.path / "fit.json").read_text())["plans"][0]

    plan = planned("10m")
    assert plan["steps"] == core.MOST_STEPS
    assert plan["methods"] == ["beta_vae", "beta_tcvae"]
    short = planned("1m")
    assert 0.5 * 60 < short["steps"] * core.MODELS * 0.001 <= core.TRAINING_SHARE * 60
    assert short["methods"] == ["beta_vae"]
    clock.process_time = lambda: 0.0  # busy with other things: the end will take a while
    assert planned("1m")["steps"] < 0.9 * short["steps"]


def test_a_full_disk_is_one_clear_error_and_loses_nothing(found, folder, tmp_path, monkeypatch):
    karenina.fit("blobs", out=tmp_path, models=2, **LEARNT)
    answer = (tmp_path / "answer.json").read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("karenina.fitting.folder.shutil.copy2", full)
    with pytest.raises(OSError, match="No space left"):
        karenina.fit("blobs", out=tmp_path, models=4, **LEARNT)
    words = ["fit", "blobs", "--out", str(tmp_path), "--models", "4", "--steps", "150", "--latents", "3"]
    with pytest.raises(ValueError, match="no space left for .*: make room, and the same command continues"):
        app(words, standalone_mode=False)
    monkeypatch.undo()
    assert (tmp_path / "answer.json").read_bytes() == answer
    assert karenina.pick(tmp_path).config.data == "blobs"
    assert not list(tmp_path.glob(".model.*"))
    assert len(karenina.fit("blobs", out=tmp_path, models=4, **LEARNT).ranking) == 4


def test_a_folder_that_cannot_be_written_to_is_said_before_images_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("karenina.fitting.folder.os.access", lambda *_: False)
    monkeypatch.setattr(core.FitCall, "run", None)
    with pytest.raises(ValueError, match=r"mine cannot be written to: permission denied"):
        karenina.fit("blobs", out=tmp_path / "mine", models=4)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("karenina._files.Path.mkdir", refuse)
    with pytest.raises(ValueError, match=r"mine cannot be made: permission denied"):
        karenina.fit("blobs", out=tmp_path / "mine", models=4)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5h", 5400), ("2h5s", 7205), (3, 3)])
def test_times(text, seconds):
    assert core.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "ten", "1d", "inf", "nan"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="a time is like"):
        core.parse_time(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "1m", "models": 4}, "not both"),
        ({"models": 1}, "models must be an integer, 2 or more"),
        ({"models": 4, "methods": "pca"}, "fit does not train 'pca'; .*beta_vae"),
        ({"models": 4, "search": "grit"}, "search is grid or optuna"),
        ({"models": 4, "track": "paper:x"}, "track is tensorboard:DIR"),
        ({"models": 4, "latents": 1}, "latents must be an integer, 2 or more"),
    ],
)
def test_wrong_arguments_are_one_line(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        karenina.fit("blobs", out=tmp_path, **options)


def test_a_fit_of_one_round_is_ranked_and_its_page_written_once(tmp_path, monkeypatch):
    calls = []
    write, compared = core.write_page, core.FitCall.compared
    monkeypatch.setattr(core, "write_page", lambda *given: calls.append("page") or write(*given))
    monkeypatch.setattr(core.FitCall, "compared", lambda call: calls.append("ranking") or compared(call))
    karenina.fit("blobs", out=tmp_path, models=2, steps=60)
    assert calls == ["ranking", "page"]


@pytest.mark.parametrize("written", [{"2": "hair"}, {"names": {"2": " hair ", "1": ""}}])
def test_names_may_be_written_by_hand(written, tmp_path):
    (tmp_path / "names.json").write_text(json.dumps(written))
    assert read_names(tmp_path, 3, "") == {2: "hair"}


def test_a_number_of_models_can_be_continued_with_a_time(tmp_path):
    """Killed before a round was finished, so that nobody has measured how long a step takes."""
    karenina.fit("blobs", out=tmp_path / "mine", models=2, **TINY)
    about = json.loads((tmp_path / "mine" / "fit.json").read_text())
    about["plans"][0] |= {"seconds": 0.0, "rounds": [], "done": 0}
    (tmp_path / "mine" / "fit.json").write_text(json.dumps(about))
    assert len(karenina.fit("blobs", out=tmp_path / "mine", time="5s", **TINY).ranking) >= 2


def recommended(fit):
    """The commands on the page of a fit but the one that continues it, as words."""
    lines = html.unescape(re.search(r"<pre>(karenina fit .*?)</pre>", fit.page.read_text(), re.DOTALL)[1]).splitlines()
    return [shlex.split(line)[1:] for line in lines[1:] if line]


def test_a_fit_whose_time_ends_in_the_first_round_recommends_what_works(folder, tmp_path, command, page_of):
    def out_of_time(at):
        if at.step == 60:
            raise OutOfTime

    found = karenina.fit(folder, out=tmp_path, models=4, steps=200, latents=3, progress=out_of_time)
    words = recommended(found)
    assert [one[0] for one in words] == ["encode", "export", "report"]
    for one in words:
        done = command(*one, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for place, status in ((page_of["report"][0], "finished"), (tmp_path / "runs" / "1", "stopped at step 60")):
        paths = sorted(path.parent for path in place.glob("*/run.json"))
        assert [karenina.open(path).status for path in paths] == [status] * 4
    ranked = command("rank", tmp_path / "runs" / "1", "--data", folder, "--by", "elbo", "--rows", 20, "--json")
    assert len(json.loads(ranked.stdout)) == 4
    assert pages._commands({"run": None, "models": 4}, "out", "in")[1:] == ["karenina report out --data in"]


@pytest.fixture
def page_of(monkeypatch, tmp_path):
    """What `report` and `show` were given, in place of pages, which take ten seconds."""
    given = {}

    def make(name, paths, out):
        given[name] = [*paths, out]
        page = tmp_path / "index.html"
        page.touch()
        return page

    monkeypatch.setattr("karenina.pages.page.report", lambda paths, out, **_: make("report", paths, out))
    monkeypatch.setattr("karenina.pages.page.show", lambda run, out, **_: make("show", [run], out))
    return given


def test_a_fit_without_a_step_recommends_only_to_go_on(tmp_path):
    def stop(at):
        raise KeyboardInterrupt

    found = karenina.fit("blobs", out=tmp_path, models=2, steps=1, latents=3, progress=stop)
    assert recommended(found) == []


def test_score_show_rank_and_report_take_a_fit(command, tmp_path, page_of):
    fit = karenina.fit("blobs", out=tmp_path / "fit", models=4, methods="beta_vae", **LEARNT)
    scored = [command("score", path, "--metrics", "mig", "--json") for path in (fit.path, fit.best.path)]
    values = [[row["value"] for row in json.loads(one.stdout)["scores"]] for one in scored]
    assert values[0] == values[1]
    ranked = json.loads(command("rank", fit.path, "--rows", 50, "--by", "elbo", "--json").stdout)
    assert {one["run"].rsplit("/", 1)[1] for one in ranked} == set(fit.ranking["run"])
    assert command("show", fit.path).returncode == 0
    assert page_of["show"] == [fit.best.path, fit.path / "report"]
    assert command("report", fit.path).returncode == 0
    assert page_of["report"] == [fit.path / "runs" / "1", fit.path / "report"]
    assert command("score", fit.path, fit.best.path, "--metrics", "mig").returncode == 0


def changed(value, depth):
    """A table of JSON with each of its values, in turn, replaced by others or left out."""
    for key in value if isinstance(value, dict) else range(len(value)):
        for other in (None, 99, -1.5, "x", [None]):
            copy = json.loads(json.dumps(value))
            copy[key] = other
            yield key, copy
        if isinstance(value, dict):
            yield key, {name: one for name, one in value.items() if name != key}
        if depth and isinstance(value[key], dict | list):
            for where, inside in changed(value[key], depth - 1):
                copy = json.loads(json.dumps(value))
                copy[key] = inside
                yield f"{key}/{where}", copy


def test_damaged_plans_and_answers_are_read_or_are_one_line(found, tmp_path):
    from karenina.fitting.answer import read_fit

    refused = {"answer.json": 0, "fit.json": 0}
    shutil.copytree(found.path, tmp_path / "fit")
    for name in refused:
        about = json.loads((found.path / name).read_text())
        for where, damaged in changed(about, 1 if name == "answer.json" else 5):
            (tmp_path / "fit" / name).write_text(json.dumps(damaged))
            try:
                if name == "fit.json":
                    Folder.open(tmp_path / "fit")
                else:
                    assert str(read_fit(tmp_path / "fit"))
            except ValueError as error:
                refused[name] += 1
                assert "\n" not in str(error), where  # noqa: PT017
        for text in ("", "[]", "null", "{" * 3, "[" * 100_000, '{"format": 99}', "\x00"):
            (tmp_path / "fit" / name).write_text(text)
            with pytest.raises(ValueError, match=name):
                Folder.open(tmp_path / "fit") if name == "fit.json" else read_fit(tmp_path / "fit")
        shutil.copy(found.path / name, tmp_path / "fit" / name)
    assert min(refused.values()) > 50
    for damage in ({"options": None}, {"done": 99}, {"methods": ["x"]}, {"rounds": [[["x", 1, 0, 2]]]}):
        about = json.loads((found.path / "fit.json").read_text())
        about["plans"][0] |= damage
        (tmp_path / "fit" / "fit.json").write_text(json.dumps(about))
        with pytest.raises(ValueError, match=r"fit.json is damaged"):
            karenina.fit("blobs", out=tmp_path / "fit", models=4, **TINY)


def test_pipes_are_not_waited_for(found, folder, tmp_path):
    def refuses(name, read):
        shutil.copytree(found.path, tmp_path / "fit")
        place = tmp_path / "fit" / name
        place.unlink(missing_ok=True)
        os.mkfifo(place)
        with pytest.raises(ValueError, match=f"{place.name} is a folder, a pipe or a device"):
            read(tmp_path / "fit")
        shutil.rmtree(tmp_path / "fit")

    refuses("answer.json", karenina.pick)
    refuses("fit.json", Folder.open)
    refuses("ranking.csv", lambda path: karenina.fitting.answer.read_fit(path).ranking)
    refuses("names.json", lambda path: encode(path, folder, tmp_path / "codes.csv"))
    refuses("model/run.json", lambda path: karenina.open(path / "model"))
    refuses("model/model.safetensors", lambda path: karenina.open(path / "model"))
    refuses("model/history.parquet", lambda path: karenina.open(path / "model").history)


def test_an_answer_without_a_model_is_no_success(tmp_path, monkeypatch, command):
    """All latents off: there is an answer, a page, and no model to take."""
    monkeypatch.setattr("karenina.fitting.core.measure", lambda *given: replace(measure(*given), kl=np.zeros(3)))
    words = ["fit", "blobs", "--out", tmp_path / "a", "--models", 2, "--steps", 5, "--latents", 3]
    said = command(*words)
    assert "No model to take" in said.stdout
    assert said.returncode == 1
    said = command(*words, "--json")
    assert json.loads(said.stdout)["run"] is None
    assert said.returncode == 1
