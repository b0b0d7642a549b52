"""`karenina train`, `score`, `show` and `rank` with mistakes in what they are given: one line each, and exit code 2."""

import json
import random
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from karenina.cli import main
from karenina.training import train
from karenina.training.run import read_tensors, write_tensors


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command that must be refused with one line, and gives the line."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() replaces it
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # and sets it

    def run(*words: object) -> str:
        monkeypatch.setattr("sys.argv", ["karenina", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert end.value.code == 2
        assert said.err.startswith("karenina: ")
        assert len(said.err.splitlines()) == 1
        return said.err

    return run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "seed=1"], "--set seed is not possible: give it as --seed"),
        (["--set", "steps="], "steps must be an integer, 1 or more, got ''"),
        (["--set", "data="], "give it as DATA"),
        (["--set", "method=vae"], "give it as METHOD"),
        (["--set", "out=b"], "give it as --out"),
        (["--set", "progress=1"], "got 'progress=1'"),
        (["--precision", "fp8"], "no precision 'fp8'; known: float32, tf32, bf16"),
        (["--seeds", "2", "--seed", "3"], "--seeds trains several models: leave out --seed"),
        (["--seeds", "2", "--compile"], "leave out --compile"),
        (["--seeds", "0"], "seeds must be an integer, 1 or more"),
        (["--seeds", "2", "--set", "beta=1,1"], "beta should have one value or several different ones"),
        (["--set", "=1"], "--set takes NAME=VALUE"),
        (["--set", "device=meta"], "no device 'meta'; known: auto, cpu, cuda, mps"),
        (["--set", "latents=10000000000"], "10000000000 latents"),
        (["--set", f"latents=1{400 * '0'}"], "latents must be an integer below 2**63"),
        (["--set", f"beta=1{400 * '0'}"], "beta must be a finite number"),
        (["--set", f"beta=1{5000 * '0'}"], "beta must be a finite number"),
        (["--set", "trace=no"], "trace must be true or false"),
        (["--seed", "-1"], "seed must be an integer, 0 or more"),
        (["--steps", "0"], "steps must be an integer, 1 or more"),
        (["--out", ""], "out is empty"),
    ],
)
def test_train(refuse, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refuse("train", "blobs", "beta_vae", "--out", "a", *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_several_seeds_and_strengths_at_once(tmp_path, monkeypatch, capsys):
    words = ["train", "blobs", "beta_vae", "--seeds", "2", "--set", "beta=1,16", "--set", "latents=2", "--steps", "20"]
    monkeypatch.setattr("sys.argv", ["karenina", *words, "--out", str(tmp_path)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    said = capsys.readouterr().out
    assert "4 of 4 done" in said
    names = {f"beta_vae_beta={beta}_seed={seed}" for beta in (1, 16) for seed in (0, 1)}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all(name in said for name in names)


def test_train_without_a_gpu(refuse, tmp_path):
    words = ("train", "blobs", "vae", "--out", tmp_path / "a", "--set", "device=cuda")
    assert "no device 'cuda' on this machine" in refuse(*words)
    assert not (tmp_path / "a").exists()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        train("blobs", seed=seed, steps=5, latents=2, out=path / str(seed))
    return path


def spoil(path: Path, change: dict) -> None:
    about = json.loads((path / "run.json").read_text())
    about["config"] |= change
    (path / "run.json").write_text(json.dumps(about))


DAMAGE = {
    "all weights NaN": "weights that are not finite",
    "network []": "no network []",
    "nested": "is not JSON",
    "a bit": "model.safetensors is damaged",
    "a cut": "model.safetensors is damaged",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_score_show_and_rank(refuse, runs, tmp_path, damage):
    path = Path(shutil.copytree(runs / "0", tmp_path / "0"))
    model = path / "model.safetensors"
    if damage == "all weights NaN":
        tensors, about = read_tensors(model)
        write_tensors(model, {name: torch.full_like(value, torch.nan) for name, value in tensors.items()}, about)
    elif damage == "network []":
        spoil(path, {"network": []})
    elif damage == "nested":
        (path / "run.json").write_text("[" * 100_000)
    else:
        content = bytearray(model.read_bytes())
        at = random.Random(0).randrange(len(content))
        content[at] ^= 64
        model.write_bytes(content if damage == "a bit" else content[:at])
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for words in (["score", path], ["show", path], ["rank", runs / "1", path]):
        assert DAMAGE[damage] in refuse(*words)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_more_rows_than_memory(refuse, runs):
    """Refused by numpy, which asks for 32 bytes for each of them."""
    assert "allocate" in refuse("rank", runs / "0", runs / "1", "--rows", 10**14)
