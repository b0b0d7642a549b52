"""What people bring and where they work: data frames, tensors, functions, notebooks, type checkers."""

import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import karenina
from karenina import _notebook
from karenina.numerics.checks import as_factors

RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(3, size=(300, 2))
CODES = NUMBERS + 0.1 * RNG.normal(size=NUMBERS.shape)
PLAIN = karenina.score(CODES, NUMBERS, ["mig", "modularity"])


def value(codes, factors, **options):
    return karenina.score(codes, factors, ["mig"], **options)["mig"].value


def test_names_of_columns_carry_through():
    codes = pd.DataFrame(CODES, columns=["u", "v"])
    factors = pd.DataFrame(NUMBERS, columns=["shape", "x"])
    table = karenina.score(codes, factors, ["mig", "modularity"])
    assert table.factor_names == ("shape", "x")
    assert list(table.per_factor.factor) == ["shape", "x"]
    assert list(table.per_code.code) == ["u", "v"]
    assert list(table.per_code.value) == list(PLAIN["modularity"].per_code)
    assert table.to_dict()["code_names"] == ["u", "v"]
    assert table["mig"].value == PLAIN["mig"].value
    assert karenina.score(codes, factors, ["mig"], factor_names=["a", "b"]).factor_names == ("a", "b")


@pytest.mark.parametrize(
    "column",
    [
        np.array(["blue", "green", "red"])[NUMBERS[:, 0]],
        pd.Series(np.array(["blue", "green", "red"])[NUMBERS[:, 0]]),
        pd.Categorical.from_codes(NUMBERS[:, 0], ["small", "medium", "large"], ordered=True),
        pd.Series(NUMBERS[:, 0], dtype="Int64"),
        np.array(["1", "2", "10"], object)[NUMBERS[:, 0]],
    ],
    ids=["text", "series", "ordered", "nullable", "numbers as text"],
)
def test_labels_are_factors(column):
    frame = pd.DataFrame({"first": column, "second": NUMBERS[:, 1]})
    assert value(CODES, frame) == PLAIN["mig"].value
    order = as_factors(frame)[:, 0]
    assert all(np.unique(order[NUMBERS[:, 0] == label]).size == 1 for label in range(3))
    assert (np.diff([order[NUMBERS[:, 0] == label][0] for label in range(3)]) > 0).all()  # in the order of the values


def test_booleans_are_categorical():
    truth = NUMBERS[:, 0] > 0
    frame = pd.DataFrame({"flag": truth, "x": NUMBERS[:, 1]})
    expected = value(CODES, np.column_stack([truth, NUMBERS[:, 1]]))
    assert value(CODES, frame) == value(CODES, frame.astype({"flag": "boolean"})) == expected


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", None] * 150, "factors: 'f' has no value in row 1"),
        (pd.Categorical(["a", None] * 150), "factors: 'f' has no value in row 1"),
        (pd.array([1, None] * 150, dtype="Int64"), "factors: 'f' has no value in row 1"),
        (pd.date_range("2020-01-01", periods=300), "factors: 'f' is datetime64"),
        ([[1]] * 300, "factors: 'f' has list in row 0"),
        ([1.0, np.nan] * 150, "factors of shape .* has nan at row 1"),
    ],
)
def test_columns_that_are_no_factors(column, message):
    with pytest.raises(ValueError, match=message):
        karenina.score(CODES, pd.DataFrame({"f": column}), ["mig"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_tensors_with_gradients_are_taken(dtype):
    codes = torch.tensor(CODES, dtype=dtype, requires_grad=True)
    expected = value(codes.detach().double().numpy(), NUMBERS)
    assert value(codes, torch.tensor(NUMBERS)) == expected
    kl = torch.ones(2, dtype=dtype, requires_grad=True)
    assert np.isfinite(karenina.udr([codes, -codes], [kl, kl], [0, 0]).scores).all()


def test_runs_take_tensors():
    run = karenina.train(torch.rand(8, 1, 8, 8, requires_grad=True), "vae", latents=2, steps=1, network="linear")
    images = torch.rand(3, 1, 8, 8).bfloat16()
    mean, _ = run.encode(images)
    assert (mean == run.encode(images.float().numpy())[0]).all()
    assert (run.decode(torch.from_numpy(mean).requires_grad_()) == run.decode(mean)).all()


def test_functions_are_metrics():
    def largest(codes, factors):
        return np.abs(np.corrcoef(codes.T, factors.T)[:2, 2:]).max()

    table = karenina.score(CODES, NUMBERS, ["mig", largest, karenina.metrics.sap], repeats=3)
    assert list(table) == ["mig", "largest", "sap"]
    assert table["largest"].value == largest(CODES, NUMBERS)
    assert table.rows[1].family == "own"
    assert table.rows[1].std > 0
    assert karenina.score(CODES, NUMBERS, largest)["largest"].value == table["largest"].value
    run = karenina.train("blobs", "vae", latents=2, steps=1, network="linear")
    assert np.isfinite(karenina.score(run, metrics=[largest], protocol="locatello")["largest"].value)
    broken = karenina.score(CODES, NUMBERS, [lambda codes, factors: 1 / 0])
    assert "ZeroDivisionError" in broken.rows[0].note


def test_two_metrics_of_one_name_are_refused():
    def mig(codes, factors):
        return 0

    with pytest.raises(ValueError, match="two metrics are called mig"):
        karenina.score(CODES, NUMBERS, [mig])
    with pytest.raises(ValueError, match="a metric is a name or a function of"):
        karenina.score(CODES, NUMBERS, [3])


class Notebook:
    """What we use of IPython."""

    def __init__(self, kernel):
        self.shown = []
        shell = types.SimpleNamespace(**({"kernel": 1} if kernel else {}))
        self.module = types.SimpleNamespace(get_ipython=lambda: shell)
        self.displays = types.SimpleNamespace(HTML=str, display=self.display)

    def display(self, html, display_id):
        self.shown.append(html)
        return types.SimpleNamespace(update=self.shown.append)

    def install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "IPython", self.module)
        monkeypatch.setitem(sys.modules, "IPython.display", self.displays)


def test_training_in_a_notebook_shows_a_bar(monkeypatch):
    given = {"latents": 2, "steps": 4, "network": "linear"}
    terminal = Notebook(kernel=False)
    terminal.install(monkeypatch)
    karenina.train("blobs", "vae", **given)
    assert terminal.shown == []
    notebook = Notebook(kernel=True)
    notebook.install(monkeypatch)
    karenina.train("blobs", "vae", **given)
    assert len(notebook.shown) == 6
    assert 'value="1.0000"' in notebook.shown[-1]
    assert "step 4 of 4, loss" in notebook.shown[-1]
    karenina.train("blobs", "vae", progress=lambda at: None, **given)
    assert len(notebook.shown) == 6  # whoever has a progress of their own wants no other


def test_what_a_notebook_shows_is_html(tmp_path):
    from html.parser import HTMLParser

    runs = [karenina.train("blobs", "vae", latents=2, steps=2, network="linear", seed=seed) for seed in (0, 1)]
    ranking = karenina.rank(runs, by="elbo", rows=20)
    codes = [CODES, -CODES]
    shown = [*runs, ranking, karenina.load("blobs"), PLAIN, karenina.udr(codes, [np.ones(2)] * 2, [0, 0])]
    for thing in shown:
        html = thing._repr_html_()
        opened = []

        class Check(HTMLParser):
            def handle_starttag(self, tag, attributes, opened=opened):
                if tag != "img":
                    opened.append(tag)

            def handle_endtag(self, tag, opened=opened):
                assert opened.pop() == tag

        Check().feed(html)
        assert opened == []
    assert "data:image/png;base64," in karenina.load("blobs")._repr_html_()
    assert "elbo" in ranking._repr_html_()
    assert _notebook.table(["<a>"], [[float("nan")]]).count("&lt;a&gt;") == 1


SNIPPET = """
import karenina
reveal_type(karenina.score([[0.0]], [[0]]))
reveal_type(karenina.train("blobs"))
reveal_type(karenina.load("blobs"))
reveal_type(karenina.rank([]))
reveal_type(karenina.metrics.score)
"""
# What others' packages say of their types is not asked here, and takes a minute to read.
SKIPPED = [
    "torch",
    "pandas",
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "matplotlib",
    "PIL",
    "h5py",
    "rich",
    "pyarrow",
    "ray",
]


def test_types_survive_the_lazy_import(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "snippet.py").write_text(SNIPPET)
    lines = ["[mypy]", "ignore_missing_imports = true", "follow_imports = silent"]
    for name in SKIPPED:
        lines += [f"[mypy-{name}.*]", "follow_imports = skip", "follow_imports_for_stubs = true"]
    (tmp_path / "mypy.ini").write_text("\n".join(lines))
    source = Path(karenina.__file__).parents[1]
    assert (source / "karenina" / "py.typed").exists()
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "snippet.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(source), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line.split('"')[1] for line in answer.stdout.splitlines() if "Revealed type" in line]
    expected = ["metrics.scoring.Table", "training.run.Run", "data.dataset.DataSet", "evaluation.ranking.RunRanking"]
    assert found[:4] == [f"karenina.{name}" for name in expected], answer.stdout + answer.stderr
    assert found[4].startswith("def (")
