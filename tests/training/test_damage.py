"""Files of a run that were damaged, cut, made by another version or by somebody who means harm."""

import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from karenina.data import load
from karenina.training import Progress, open, train
from karenina.training.run import BadFile, read_tensors, write_tensors

SMALL: dict[str, Any] = {"steps": 40, "latents": 3, "batch": 8}
NEWEST, OLDER = "checkpoint.safetensors", "checkpoint.older.safetensors"


class Stop(Exception):
    pass


def stop_at(step: int) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.step == step:
            raise Stop

    return stop


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    path = tmp_path_factory.mktemp("whole") / "run"
    train("blobs", out=path, trace=True, **SMALL)
    return path


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, stopped after step 22: with the checkpoints of steps 22 and 21."""
    path = tmp_path_factory.mktemp("unfinished") / "run"
    with pytest.raises(Stop):
        train("blobs", out=path, trace=True, checkpoint_seconds=0, progress=stop_at(22), **SMALL)
    assert set(contents(path)) == {"run.json", NEWEST, OLDER}
    return path


@pytest.fixture
def cut(unfinished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unfinished, tmp_path / "cut"))


@pytest.fixture
def done(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "done"))


def first_step_of_resuming(path: Path) -> int:
    """Trains to the end and gives the first step it took."""
    seen: list[int] = []
    train("blobs", out=path, trace=True, progress=lambda p: seen.append(p.step), **SMALL)
    return seen[0]


def without_checksums(path: Path) -> None:
    """The files as they were before there were checksums."""
    for file in path.glob("*.safetensors"):
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            about = json.loads(opened.metadata()["karenina"])
        del about["sha256"]
        file.write_bytes(save(tensors, metadata={"karenina": json.dumps(about)}))
    about = json.loads((path / "run.json").read_text())
    about.pop("files", None)
    (path / "run.json").write_text(json.dumps(about, indent=2) + "\n")


def test_no_bit_of_a_tensor_file_flips_unnoticed(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    tensors = {"weights": torch.arange(5.0), "noise": torch.arange(7, dtype=torch.uint8)}
    write_tensors(file, tensors, {"format": 1, "step": 12})
    found, about = read_tensors(file)
    assert {name: value.tolist() for name, value in found.items()} == {n: t.tolist() for n, t in tensors.items()}
    assert about == {"format": 1, "step": 12}
    content = file.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(BadFile):
            read_tensors(file)


def test_a_flipped_bit_in_a_checkpoint_costs_a_few_steps_and_changes_nothing(cut: Path, whole: Path) -> None:
    rng = random.Random(0)
    for _ in range(15):
        at = cut.with_name("at")
        shutil.copytree(cut, at)
        flip(at / NEWEST, rng.randrange(8 * (at / NEWEST).stat().st_size))
        with pytest.warns(UserWarning, match=r"resuming from the checkpoint before: .*safetensors is damaged"):
            assert first_step_of_resuming(at) == 22
        assert contents(at) == contents(whole)
        shutil.rmtree(at)


def test_with_both_checkpoints_damaged_it_starts_again(cut: Path, whole: Path) -> None:
    content = (cut / NEWEST).read_bytes()
    for damage in (content[: len(content) // 2], b"", b"nonsense" * 100):
        at = cut.with_name("at")
        shutil.copytree(cut, at)
        for name in (NEWEST, OLDER):
            (at / name).write_bytes(damage)
        with pytest.warns(UserWarning, match="is damaged") as said:
            assert first_step_of_resuming(at) == 1
        assert "starting again from the first step" in str(said[-1].message)
        assert contents(at) == contents(whole)
        shutil.rmtree(at)


def test_a_kill_between_the_names_of_two_checkpoints_loses_neither(cut: Path, whole: Path) -> None:
    (cut / NEWEST).unlink()
    assert first_step_of_resuming(cut) == 22
    assert contents(cut) == contents(whole)


def test_a_damaged_checkpoint_does_not_push_out_the_one_before(cut: Path, whole: Path) -> None:
    flip(cut / NEWEST, 12_345)
    with pytest.raises(Stop), pytest.warns(UserWarning, match="the checkpoint before"):
        train("blobs", out=cut, trace=True, progress=stop_at(24), **SMALL)
    assert [read_tensors(cut / name)[1]["step"] for name in (NEWEST, OLDER)] == [24, 21]
    assert first_step_of_resuming(cut) == 25
    assert contents(cut) == contents(whole)


def test_files_from_before_there_were_checksums(cut: Path, done: Path, whole: Path) -> None:
    (cut / OLDER).unlink()
    for path in (cut, done):
        without_checksums(path)
    assert first_step_of_resuming(cut) == 23
    assert contents(cut) == contents(whole)
    old, new = open(done), open(whole)
    assert old.history.equals(new.history)
    np.testing.assert_array_equal(old.trace, new.trace)
    images, _ = load("blobs").sample(20, 0)
    np.testing.assert_array_equal(old.encode(images)[0], new.encode(images)[0])


@pytest.mark.parametrize("name", ["model.safetensors", "history.parquet", "trace.npy"])
def test_a_flipped_bit_in_a_finished_run_is_said(done: Path, name: str) -> None:
    rng = random.Random(0)
    for _ in range(20):
        bit = rng.randrange(8 * (done / name).stat().st_size)
        flip(done / name, bit)
        with pytest.raises(BadFile, match=f"{name} is damaged"):
            _ = open(done).history, open(done).trace
        flip(done / name, bit)
    (done / name).unlink()
    with pytest.raises(BadFile, match=f"{name} is missing"):
        _ = open(done).history, open(done).trace


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_weights_that_give_no_numbers(done: Path, value: float) -> None:
    """NaN and infinity are noticed when a run is opened, what overflows when it encodes."""
    tensors, about = read_tensors(done / "model.safetensors")
    write_tensors(done / "model.safetensors", {name: torch.full_like(t, value) for name, t in tensors.items()}, about)
    images, _ = load("blobs").sample(20, 0)
    with pytest.raises(ValueError, match="not finite"):
        open(done).encode(images)


VALUES = ["[]", "{}", "null", "-1", "1.5", "1e999", "NaN", "true", '""', "[" * 500 + "]" * 500]
VALUES += [f"1{zeros * '0'}" for zeros in (10, 30, 400, 5000)]


def strange(path: Path, rng: random.Random) -> None:
    """Damage one file of a run: a bit, a cut, or another value in its JSON."""
    file = rng.choice(sorted(path.iterdir()))
    content = bytearray(file.read_bytes())
    at = rng.randrange(len(content) if rng.random() < 0.5 else min(len(content), 2000))
    if file.suffix == ".json" and rng.random() < 0.7:
        about = json.loads(content)
        table = rng.choice([about, about["config"], about["config"], about["config"]["parameters"]])
        table[rng.choice(list(table))] = "here"
        content[:] = json.dumps(about).replace('"here"', rng.choice(VALUES)).encode()
    elif rng.random() < 0.7:
        content[at] ^= 1 << rng.randrange(8)
    else:
        del content[at:]
    file.write_bytes(content)


@pytest.mark.parametrize("checksums", [True, False])
def test_strange_files_are_refused_or_harmless(whole: Path, tmp_path: Path, checksums: bool) -> None:
    rng = random.Random(int(checksums))
    images, _ = load("blobs").sample(5, 0)
    refusals = []
    for i in range(100):
        path = tmp_path / str(i)
        shutil.copytree(whole, path)
        if not checksums:
            without_checksums(path)
        strange(path, rng)
        try:
            run = open(path)
            _ = repr(run), run.history, run.trace, run.encode(images)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 40
    assert not [message for message in refusals if len(message.splitlines()) > 1]


def test_strange_checkpoints_without_checksums_are_used_or_said(unfinished: Path, tmp_path: Path) -> None:
    rng = random.Random(0)
    said = []
    for i in range(25):
        path = tmp_path / str(i)
        shutil.copytree(unfinished, path)
        without_checksums(path)
        strange(path, rng)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                train("blobs", out=path, trace=True, **SMALL)
            except ValueError as error:
                said.append(str(error))
        said += [str(warning.message) for warning in warned]
    assert len(said) > 5
    assert not [message for message in said if len(message.splitlines()) > 1]


def test_newer_format_and_strange_files(tmp_path: Path) -> None:
    train("blobs", out=tmp_path / "a", **SMALL)
    file = tmp_path / "a" / "run.json"
    good = json.loads(file.read_text())

    def refused(change: dict[str, Any], match: str) -> None:
        file.write_text(json.dumps({**good, **change}))
        with pytest.raises(ValueError, match=match):
            open(tmp_path / "a")

    refused({"format": 2}, "has format 2, this version of karenina reads up to 1: please upgrade")
    refused({"format": "1"}, "does not say which format")
    refused({"status": "great"}, "has the status 'great'")
    refused({"status": "running"}, "is running")
    refused({"config": {}}, "expected a config with the keys")
    refused({"config": {**good["config"], "network": "os.system"}}, "no network 'os.system'")
    refused({"config": {**good["config"], "latents": 10**12}}, "does not hold the network")
    refused({"config": {**good["config"], "latents": 10**18}}, "does not hold the network")
    refused({"config": {**good["config"], "image_shape": [10**9, 10**9, 10**9]}}, "does not hold the network")
    refused({"config": {**good["config"], "latents": "3"}}, "latents must be an integer")
    refused({"config": {**good["config"], "image_shape": [1, 16]}}, "image_shape should be three")
    file.write_text("not json")
    with pytest.raises(ValueError, match="is not JSON"):
        open(tmp_path / "a")
    file.write_text(json.dumps(good))
    model = tmp_path / "a" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
        open(tmp_path / "a")
    with pytest.raises(ValueError, match=r"is not a run: it has no run.json"):
        open(tmp_path)
