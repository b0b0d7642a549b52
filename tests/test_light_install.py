"""What `pip install karenina` gives without an extra: numbers from arrays; else one line that names the extra."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

BLOCKED = ("torch", "safetensors", "matplotlib", "jinja2", "h5py", "PIL", "optuna", "ray", "onnx", "onnxruntime")
BEGINNING = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import warnings
import numpy as np
import karenina
"""


def without_extras(text, cwd):
    """What Python says of a text, run where no extra is installed."""
    words = [sys.executable, "-W", "error", "-c", BEGINNING + textwrap.dedent(text)]
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.fixture
def arrays(tmp_path):
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(600, 3))
    np.savez(tmp_path / "codes.npz", codes=factors + 0.1 * rng.normal(size=factors.shape), factors=factors)
    return tmp_path


def test_numbers_from_arrays_need_no_extra(arrays):
    said = without_extras(
        """
        from karenina import audit, selection, tasks
        held = np.load("codes.npz")
        codes, factors = held["codes"], held["factors"]
        table = karenina.score(codes, factors)
        assert not [row for row in table.rows if np.isnan(row.value)], table
        models = [codes @ np.diag(s) for s in np.random.default_rng(0).normal(size=(4, 3))]
        kl = [np.ones(3)] * 4
        print(float(np.min(karenina.udr(models, kl).scores)) > 0.9)
        print(max(tasks.downstream(codes, factors, models=("logistic",), sizes=(100,)).summary().values()) > 0.5)
        found = audit.run(metrics=["mig"], experiments=["noise"], seeds=1, rows=200, out="audit")
        print([path.name for path in audit.write(found, "audit")])
        assert not set(sys.modules) & {"torch", "matplotlib", "PIL"}
        """,
        arrays,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == ["True", "True", "['audit.md', 'scores.csv']"]


@pytest.mark.parametrize(
    ("words", "code"),
    [("score codes.npz --metrics mig", 0), ("data list", 0), ("train blobs vae --out a", 2), ("fit blobs --out a", 2)]
    + [("rank a b", 2), ("report a", 2), ("show a", 2), ("score a", 2), ("demo", 2)]
    + [("audit mig --experiment noise --seeds 1 --rows 200 --workers 1 --out b", 0)],
)
def test_commands_name_the_extra(arrays, words, code):
    (arrays / "a").mkdir()
    (arrays / "a" / "run.json").write_text("{}")
    text = f"sys.argv = {['karenina', *words.split()]!r}\nfrom karenina.cli import main\nmain()"
    said = without_extras(text, arrays)
    assert said.returncode == code, said.stderr
    if code:
        assert len(said.stderr.splitlines()) == 1, said.stderr
        assert "is not installed: pip install 'karenina[train]'" in said.stderr


@pytest.mark.parametrize(
    "text",
    [
        "karenina.train('blobs', 'vae')",
        "karenina.open('a')",
        "import karenina.training",
        "from karenina.models import objectives",
    ]
    + ["karenina.fit('blobs')", "from karenina.metrics import plot_scores; plot_scores({}, 'a.png')"],
)
def test_python_names_the_extra(tmp_path, text):
    said = without_extras(f"try:\n    {text}\nexcept ImportError as error:\n    print(error)", tmp_path)
    assert "is not installed: pip install 'karenina[train]'" in said.stdout, said.stderr
