"""Options, complaints, help and next steps that all commands share."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from PIL import Image

import karenina
from karenina.cli import app
from karenina.cli._common import Command, registered

SMALL = ("--steps", 3, "--set", "latents=2", "--set", "network=linear")
RESULTS = ["train", "score", "rank", "report", "show", "compare", "audit", "demo", "data list", "data show", "data get"]
RESULTS += ["fit", "encode", "export"]
RESULTS += [f"study {name}" for name in ("presets", "plan", "run", "status", "retry", "analyse")]
ON_RUNS = ["score", "rank", "report", "show", "compare"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos of two sizes and their labels."""
    path = tmp_path_factory.mktemp("own")
    (path / "photos").mkdir()
    rng = np.random.default_rng(0)
    lines = ["file,colour,side"]
    for i in range(12):
        pixels = rng.integers(0, 255, (12, 12 + i % 2, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path / "photos" / f"{i:02d}.png")
        lines.append(f"{i:02d}.png,{'red' if i % 3 else 'blue'},{i % 4}")
    (path / "f.csv").write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory, command):
    out = tmp_path_factory.mktemp("runs") / "many"
    answer = command("train", "blobs", "beta_vae", *SMALL, "--seeds", 2, "--out", out)
    assert answer.returncode == 0, answer.stderr
    assert f"next: karenina rank {out}" in answer.stdout
    return out


@pytest.mark.parametrize("words", RESULTS, ids=str)
def test_help_is_plain_and_whole(words, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = command(*words.split(), "--help").stdout
    assert "--json" in page
    assert not re.search(r"…|\{(methods|metrics|data|presets)\}", page)
    assert max(len(line.rstrip()) for line in page.splitlines()) <= 80
    if words in ON_RUNS:
        assert all(option in page for option in ("--data ", "--size", "--grey", "--factors-csv", "--device"))


def test_lists_in_help_and_completion_are_those_of_the_registries(command):
    from karenina.metrics.scoring import names as metrics
    from karenina.studies.plan import presets
    from karenina.training.methods import names as methods

    found = {
        "methods": methods(),
        "metrics": metrics(),
        "data": karenina.data.names(),
        "presets": (*presets(), "clustering"),
    }
    assert {what: tuple(registered(what)) for what in found} == found
    assert ", ".join(methods()) in " ".join(command("train", "--help").stdout.split())


def test_completion_is_on():
    words = {"_KARENINA_COMPLETE": "complete_bash", "COMP_WORDS": "karenina train blobs beta", "COMP_CWORD": "3"}
    code = "from karenina.cli import main; main()"
    answer = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **words}, capture_output=True, text=True, check=False
    )
    assert answer.stdout.split() == ["beta_vae", "beta_tcvae"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "did you mean 'train'"),
        (["train", "blobs", "vae", "--otu", "x"], "no option --otu; did you mean --out?"),
        (["train", "blobs", "beta_va", "--out", "x"], "no method 'beta_va'; did you mean beta_vae?"),
        (["train", "blob", "vae", "--out", "x"], "did you mean blobs?"),
        (["train", "blobs", "beta_vae", "--set", "bta=1", "--out", "x"], "did you mean beta?"),
        (["train", "blobs", "beta_vae", "--set", "latent=1", "--out", "x"], "did you mean latents?"),
        (["train", "blobs", "vae", "--precision", "bf61", "--out", "x"], "did you mean bf16?"),
        (["train", "blobs", "vae", "--device", "gpu", "--out", "x"], "did you mean cpu?"),
        (["train", "blobs:syze=8", "vae", "--out", "x"], "no option 'syze'; did you mean side?"),
        (["train", "vae"], "missing argument 'METHOD'; see karenina train --help"),
        (["score", "x", "--metrics", "migg"], "did you mean mig?"),
        (["score", "x", "--protocol", "locatelo"], "did you mean locatello?"),
        (["score", "x", "--size", "8"], "--size is about data of your own: give it by --data, too"),
        (["rank", "x", "--by", "udrr"], "did you mean udr?"),
        (["rank", "."], ". holds no runs"),
        (["study", "run", "duan2020", "--scale", "smoke", "--precision", "bf61"], "did you mean bf16?"),
        (["study", "run", "duan202"], "did you mean duan2020?"),
        (["study", "plan", "duan2020", "--scale", "smoky"], "did you mean smoke?"),
        (["data", "list", "--data-dir", "/no/such/folder"], "'/no/such/folder' does not exist"),
        (["audit", "mug"], "did you mean mig?"),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_wrong_words_are_one_line(words, message, tmp_path, command):
    answer = command(*words, cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("karenina: ")
    assert len(answer.stderr.strip().splitlines()) == 1
    assert message.lower() in answer.stderr.lower()
    assert not list(tmp_path.iterdir())


def test_options_of_images_are_part_of_the_data(folder, tmp_path, command):
    photos = folder / "photos"
    refused = command("train", photos, "vae", *SMALL, "--out", tmp_path / "a")
    assert "images of 2 sizes" in refused.stderr
    for out, words in (
        ("a", (photos, "--size", 8, "--grey", "--factors-csv", folder / "f.csv")),
        ("b", (f"{photos}:size=8,grey=true,factors_csv={folder / 'f.csv'}",)),
    ):
        answer = command("train", words[0], "vae", *words[1:], *SMALL, "--out", tmp_path / out)
        assert answer.returncode == 0, answer.stderr
        assert f"next: karenina score {tmp_path / out} --data {photos}:" in answer.stdout
    configs = [karenina.open(tmp_path / out).config for out in "ab"]
    assert configs[0] == configs[1]
    assert configs[0].image_shape == (1, 8, 8)
    scored = command("score", tmp_path / "a", "--metrics", "mig", "--json", "--data", photos)
    assert json.loads(scored.stdout)["factor_names"] == ["colour", "side"]
    assert command("train", "blobs", "vae", "--size", 8, *SMALL, "--out", tmp_path / "c").returncode == 0
    assert karenina.open(tmp_path / "c").config.data == "blobs:side=8"


def test_what_needs_labels_is_an_error_without(folder, tmp_path, command):
    photos = folder / "photos"
    command("train", f"{photos}:size=8", "vae", *SMALL, "--out", tmp_path / "a")
    for words in (("--metrics", "mig"), ("--tasks",)):
        answer = command("score", tmp_path / "a", *words, "--data", photos)
        assert answer.returncode == 2
        assert "has no labels (factors)" in answer.stderr
    labelled = command("score", tmp_path / "a", "--data", photos, "--factors-csv", folder / "f.csv", "--metrics", "mig")
    assert (labelled.returncode, labelled.stderr) == (0, "")


def test_report_of_data_that_are_not_there_is_an_error(runs, command):
    answer = command("report", runs, "--data", "nope.npz", "--no-figures")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "nope.npz" in answer.stderr


def test_rank_takes_a_directory_and_says_what_is_next(runs, command, tmp_path):
    answer = command("rank", runs, "--rows", 50, "--kl-threshold", 1e-9)
    assert answer.returncode == 0, answer.stderr
    assert "next: karenina show" in answer.stdout
    ranked = json.loads(command("rank", runs, "--rows", 50, "--json", "--by", "elbo").stdout)
    assert {row["run"] for row in ranked} == {str(path) for path in runs.iterdir() if path.is_dir()}
    seen = []
    karenina.rank(runs, by="elbo", rows=20, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_train_prints_json_alone(tmp_path, command):
    answer = command("train", "blobs", "vae", *SMALL, "--out", tmp_path / "a", "--json")
    found = json.loads(answer.stdout)
    assert (found["run"], found["config"]["steps"]) == (str(tmp_path / "a"), 3)
    assert found["last"]["step"] == 3


def test_fit_encode_and_export_print_json_alone_or_what_is_next(folder, tmp_path, command):
    photos, out = folder / "photos", tmp_path / "mine"
    words = ("fit", photos, "--size", 8, "--grey", "--factors-csv", folder / "f.csv", "--out", out)
    words = (*words, "--models", 4, "--steps", 60, "--latents", 2, "--network", "linear")
    answer = command(*words)
    assert answer.returncode == 0, answer.stderr
    assert f"next: karenina encode {out} {photos} --out codes.parquet\n      karenina export {out}\n" in answer.stdout
    found = json.loads(command(*words, "--json").stdout)
    assert (found["models"], len(found["ranking"]), found["page"]) == (4, 4, str(out / "index.html"))
    assert karenina.open(out / found["run"]).config.image_shape == (1, 8, 8)
    codes = tmp_path / "codes.csv"
    encoded = command("encode", out, photos, "--out", codes, "--device", "cpu", "--json")
    said = json.loads(encoded.stdout)
    assert said == {"codes": str(codes), "images": 12, "inactive": said["inactive"]}
    assert set(said["inactive"]) <= set(codes.read_text().splitlines()[0].split(","))
    exported = command("export", out, "--to", "torchscript", "--out", tmp_path / "files", "--json")
    assert str(tmp_path / "files") in json.loads(exported.stdout)["files"][0]


def test_a_reader_that_has_seen_enough_is_no_error():
    code = "from karenina.cli import main; main()"
    words = f"{sys.executable} -c '{code}' data list | head -1"
    answer = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    assert answer.stdout.startswith("name")


def test_every_command_says_that_it_was_stopped_and_has_a_whole_line_in_the_help(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def commands(group):
        for below in group.commands.values():
            yield from commands(below) if hasattr(below, "commands") else [below]

    assert {type(one) for one in commands(typer.main.get_command(app))} == {Command}
    for words in ([], ["data"], ["study"]):
        assert "..." not in command(*words, "--help").stdout.replace("[ARGS]...", "")
