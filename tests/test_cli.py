"""The command line as a user meets it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import karenina


def run(*words, **options):
    return subprocess.run(
        [sys.executable, "-c", "from karenina.cli import main; main()", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_help_and_version():
    assert "data" in run("--help").stdout
    assert run("--version").stdout.strip() == f"karenina {karenina.__version__}"


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['karenina', '--help']\n"
        "from karenina.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'numpy', 'torch', 'pandas', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_data_list_names_every_set(command):
    listed = command("data", "list")
    assert listed.returncode == 0
    for name in karenina.data.names():
        assert name in listed.stdout


@pytest.mark.parametrize("name", ["blobs", "dsprites", "color_dsprites", "noisy_dsprites", "shapes3d", "teapots"])
def test_data_show_draws_a_row_per_factor(name, tmp_path, command, monkeypatch, print_dpi):
    monkeypatch.setattr("karenina.drawing.figure.DPI", print_dpi)
    out = tmp_path / "sheet.png"
    shown = command("data", "show", name, "--out", out, "--columns", 4)
    assert shown.returncode == 0, shown.stderr
    with Image.open(out) as sheet:
        width, height = sheet.size
    factors = len(karenina.load(name).factor_names)
    assert abs(height / factors - 240) < 100  # 0.8 inch a row at 300 dots an inch, and the title
    assert width > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "show", "dsprite"], "did you mean dsprites?"),
        (["data", "show", "no such thing at all"], "known: blobs"),
        (["data", "show", "smallnorb"], "smallnorb"),
        (["data", "get", "smallnorb"], "--data-dir"),
        (["data", "show", "blobs", "--data-dir", "/no/such/folder"], "does not exist"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(words, message, tmp_path, command):
    answer = command(*words, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stderr.startswith("karenina: ")
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["data", "show"], ["train"]], ids=" ".join)
def test_damaged_data_of_ones_own_is_one_line_and_leaves_nothing(words, tmp_path, command):
    file = tmp_path / "mine.npz"
    np.savez_compressed(file, images=np.random.default_rng(0).integers(0, 99, (9, 16, 16), dtype=np.uint8))
    content = file.read_bytes()
    middle = len(content) // 2
    rest = ["vae", "--steps", 1, "--out", "run"] if words == ["train"] else []
    for damaged in (content[:middle], content[:middle] + b"damaged" + content[middle + 7 :], content[:-2]):
        file.write_bytes(damaged)
        answer = command(*words, file, *rest, cwd=tmp_path)
        assert answer.returncode == 2
        assert len(answer.stderr.strip().splitlines()) == 1
        assert str(file) in answer.stderr
        assert list(tmp_path.iterdir()) == [file]


def test_a_run_is_scored_on_the_data_it_was_trained_on(tmp_path, command):
    rng = np.random.default_rng(0)
    own, other = tmp_path / "mine.npz", tmp_path / "other" / "mine.npz"
    other.parent.mkdir()
    for file in (own, other):
        images = rng.integers(0, 256, (300, 16, 16), dtype=np.uint8)
        np.savez(file, images=images, factors=rng.integers(3, size=(300, 2)))
    trained = tmp_path / "run"
    settings = ("--set", "network=linear", "--set", "latents=2", "--steps", 1, "--out", trained)
    assert command("train", f"{own}:size=8", "vae", *settings).returncode == 0
    assert json.loads((trained / "run.json").read_text())["config"]["data"] == "mine:size=8"
    scored = command("score", trained, "--metrics", "mig", "--json", "--data", own)  # at the size of the training
    assert (scored.returncode, scored.stderr) == (0, "")
    changed = run("score", trained, "--metrics", "mig", "--json", "--data", other)
    assert "does not give the images that the run was trained on" in changed.stderr
    assert json.loads(changed.stdout) != json.loads(scored.stdout)


def test_a_run_on_a_named_data_set_needs_no_data(tmp_path, command):
    settings = ("--set", "network=linear", "--set", "latents=2", "--steps", 1, "--out", tmp_path / "run")
    assert command("train", "blobs", "vae", *settings).returncode == 0
    scored = command("score", tmp_path / "run", "--metrics", "mig", "--json")
    assert (scored.returncode, scored.stderr) == (0, "")


@pytest.fixture
def codes_file(tmp_path):
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(400, 2))
    np.savez(tmp_path / "codes.npz", codes=factors + 0.1 * rng.normal(size=(400, 2)), factors=factors)
    return tmp_path / "codes.npz"


def test_score_prints_a_table_json_and_a_picture(codes_file, tmp_path, command):
    table = command(
        "score", codes_file, "--metrics", "mig,dci_lasso", "--plot", tmp_path / "p.png", "--csv", tmp_path / "t.csv"
    )
    assert table.returncode == 0, table.stderr
    assert [line.split()[0] for line in table.stdout.splitlines()[1:3]] == ["mig", "dci_lasso"]
    assert (tmp_path / "p.png").exists()
    assert (tmp_path / "t.csv").exists()
    answer = command("score", codes_file, "--metrics", "mig", "--repeats", 3, "--json")
    scores = json.loads(answer.stdout)["scores"]
    assert scores[0]["metric"] == "mig"
    assert 0.9 < scores[0]["value"] <= 1
    assert scores[0]["std"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metrics", "migg"], "no metric 'migg'"),
        (["--protocol", "x"], "no protocol 'x'"),
        (["other.npy"], "no file 'other.npy'"),
    ],
)
def test_score_mistakes(codes_file, words, message, tmp_path, command):
    answer = command("score", codes_file, *words, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
