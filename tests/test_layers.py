"""The import table of the design: which folder may import which, and who may never load torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "karenina"
BELOW_STUDIES = {"numerics", "drawing", "data", "models", "training", "metrics", "selection", "tasks"}
MAY_IMPORT = {
    "numerics": set(),
    "drawing": {"numerics"},
    "data": {"drawing"},
    "models": set(),
    "training": {"data", "models", "drawing"},
    "metrics": {"numerics", "drawing"},
    "selection": {"numerics"},
    "tasks": {"numerics"},
    "audit": {"metrics", "numerics", "drawing"},
    "evaluation": BELOW_STUDIES - {"models"},
    "studies": BELOW_STUDIES | {"evaluation", "audit"},
    "pages": BELOW_STUDIES | {"evaluation", "studies"},
    "fitting": BELOW_STUDIES | {"evaluation", "pages"},
    "papers": BELOW_STUDIES | {"audit", "evaluation", "studies", "pages", "fitting"},
    "cli": BELOW_STUDIES | {"audit", "evaluation", "studies", "pages", "fitting", "papers"},
}

# Modules that serve every folder; they import nothing of ours outside numerics, which imports nothing else.
SHARED = {
    "karenina._active": "one KL threshold for pictures, rankings, studies and pages",
    "karenina._console": "plain text on terminals",
    "karenina._files": "atomic writes and names of files",
    "karenina._notebook": "bars and tables of notebooks",
    "karenina._plugins": "entry points of the registries",
    "karenina._process": "signals that stop it, and the cores it may use",
    "karenina._settings": "the table of training settings",
    "karenina._words": "did you mean",
    "karenina._version": "is written into runs and studies",
    "karenina.numerics.arrays": "reads .npy and .npz files, also those of data sets",
    "karenina.numerics.checks": "arrays of whatever callers give, also of images",
    "karenina.numerics.compile": "numba, also for the renderers",
    "karenina.numerics.gaussian": "the KL of a latent, also for pictures of runs",
}


def imports(path: Path) -> set[str]:
    """The karenina folders and outside packages that a module names in any import, at any depth of the code."""
    return imports_of(ast.walk(ast.parse(path.read_text())), path)


def imports_of(nodes, path: Path) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "karenina" else {node.module}
            )
    return found


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folder_imports_only_what_the_design_allows(folder):
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        ours = {name for name in imports(path) if name.startswith("karenina.")}
        if folder != "numerics":
            ours -= set(SHARED)
        assert {name.split(".")[1] for name in ours} - {folder} <= MAY_IMPORT[folder], path


@pytest.mark.parametrize("module", SHARED)
def test_shared_modules_import_nothing_else_of_ours(module):
    path = PACKAGE.parent / (module.replace(".", "/") + ".py")
    ours = {name for name in imports(path) if name.startswith("karenina")}
    assert all(name.startswith(("karenina.numerics.", "karenina._plugins", "karenina._words")) for name in ours)


def test_every_folder_is_in_the_table():
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(MAY_IMPORT)


@pytest.mark.parametrize("folder", ["numerics", "drawing", "metrics", "selection", "tasks", "audit"])
def test_array_folders_never_load_torch(folder):
    code = f"import sys, karenina.{folder}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        assert not {name for name in imports(path) if name and name.split(".")[0] == "torch"}, path


LOADED_FOR_THEMSELVES = {"estimator.py", "figure.py"}  # classes of theirs: of scikit-learn, and of matplotlib
SLOW_TO_IMPORT = {"sklearn", "scipy", "numba", "matplotlib"}


@pytest.mark.parametrize("folder", ["drawing", "models", "training", "evaluation", "metrics", "studies"])
def test_training_and_scoring_import_little_at_first(folder):
    """Beyond torch and pandas, a method or a metric loads what it needs: a worker starts in half the time."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        at_once = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        found = {name.split(".")[0] for name in imports_of(at_once, path)} & SLOW_TO_IMPORT
        assert not found or path.name in LOADED_FOR_THEMSELVES, (path, found)


def test_the_check_itself_sees_imports(tmp_path):
    module = tmp_path / "m.py"
    module.write_text("def f():\n    from karenina import data\n    import karenina.models.x\n    import torch\n")
    assert imports(module) == {"karenina.data", "karenina.models.x", "torch"}


def test_import_karenina_is_light():
    code = "import sys, karenina; sys.exit(bool({'numpy', 'torch', 'pandas', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
