"""The import table of the design: which folder may import which, and who may never load torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "karenina"
BELOW_STUDIES = {"numerics", "data", "models", "training", "metrics", "selection", "tasks"}
MAY_IMPORT = {
    "numerics": set(),
    "data": set(),
    "models": set(),
    "training": {"data", "models"},
    "metrics": {"numerics"},
    "selection": {"numerics"},
    "tasks": {"numerics"},
    "audit": {"metrics", "numerics"},
    "evaluation": BELOW_STUDIES - {"models"},
    "studies": BELOW_STUDIES | {"evaluation", "audit"},
    "pages": BELOW_STUDIES | {"evaluation", "studies"},
    "cli": BELOW_STUDIES | {"audit", "evaluation", "studies", "pages"},
}


def imports(path: Path) -> set[str]:
    """The karenina folders and outside packages that a module names in any import, at any depth of the code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
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
        used = {name.split(".")[1] for name in imports(path) if name.startswith("karenina.")}
        private = {name for name in used if name.startswith("_")}  # karenina._files and the like serve everyone
        assert used - private - {folder} <= MAY_IMPORT[folder], path


def test_every_folder_is_in_the_table():
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(MAY_IMPORT)


@pytest.mark.parametrize("folder", ["numerics", "metrics", "selection", "tasks", "audit"])
def test_array_folders_never_load_torch(folder):
    code = f"import sys, karenina.{folder}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        assert not {name for name in imports(path) if name and name.split(".")[0] == "torch"}, path


def test_the_check_itself_sees_imports(tmp_path):
    module = tmp_path / "m.py"
    module.write_text("def f():\n    from karenina import data\n    import karenina.models.x\n    import torch\n")
    assert imports(module) == {"karenina.data", "karenina.models.x", "torch"}


def test_import_karenina_is_light():
    code = "import sys, karenina; sys.exit(bool({'numpy', 'torch', 'pandas', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
