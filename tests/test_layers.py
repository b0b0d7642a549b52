"""The import table of the design: which folder may import which, and who may never load torch."""

import ast
import importlib
import inspect
import subprocess
import sys
from collections import Counter
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


def modules_in(tree: ast.AST, deep: bool = False) -> list[tuple[str, bool]]:
    """Each of our modules that code imports, TYPE_CHECKING aside, and whether a function does it."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, deep) for alias in node.names if alias.name.startswith("karenina.")]
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "karenina":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            homes = [name if is_module(name) else str(node.module) for name in names]
            found += [(name, deep) for name in dict.fromkeys(homes) if name != "karenina"]
        found += modules_in(node, deep or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return found


def is_module(name: str) -> bool:
    path = PACKAGE.parent / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


SOURCES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def test_the_count_of_modules_sees_every_depth_and_each_module_once():
    code = "from karenina.data import load, dataset\nif TYPE_CHECKING:\n    from karenina import metrics\n"
    code += "def f():\n    if True:\n        from karenina import audit, data\nimport karenina\n"
    expected = [("karenina.data", False), ("karenina.data.dataset", False)]
    assert modules_in(ast.parse(code)) == [*expected, ("karenina.audit", True), ("karenina.data", True)]


def test_no_module_imports_more_than_fourteen_of_ours():
    counts = {path: len({name for name, _ in modules_in(tree)}) for path, tree in SOURCES.items()}
    assert {path: n for path, n in counts.items() if n > 14 and path.name != "__init__.py"} == {}


def test_few_imports_of_ours_are_inside_functions():
    """They hide what a module needs. What is left saves the start of a worker, or breaks a circle."""
    assert sum(deep for tree in SOURCES.values() for _, deep in modules_in(tree)) <= 60


def test_no_class_name_is_given_twice():
    names = [node.name for tree in SOURCES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_a_public_name_is_one_object():
    found: dict[str, dict[int, str]] = {}
    for folder in set(MAY_IMPORT) - {"papers"}:
        package = importlib.import_module(f"karenina.{folder}")
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.setdefault(name, {})[id(thing)] = folder
    assert {name: homes for name, homes in found.items() if len(homes) > 1} == {}


def test_nothing_but_the_command_line_imports_the_papers():
    above = {PACKAGE / "papers", PACKAGE / "cli"}
    found = {path for path, tree in SOURCES.items() for name, _ in modules_in(tree) if "karenina.papers" in name}
    assert [path for path in found if not above & set(path.parents)] == []
