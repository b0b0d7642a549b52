"""Compiled code: kept on disk where that is possible, and no condition for working."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "karenina"
COMPILED = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if "numerics.compile import njit" in path.read_text()
]

NOWHERE = """
import errno, tempfile

def refuse(*args, **kwargs):
    raise OSError(errno.EROFS, "Read-only file system")

tempfile.TemporaryFile = refuse  # how numba finds out whether it can write
"""


def test_there_are_modules_of_compiled_code_and_all_use_ours():
    assert len(COMPILED) >= 6
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert path.name == "compile.py" or not ("from numba" in text or "import numba" in text), path


def test_scores_where_nothing_can_be_written():
    code = f"""{NOWHERE}
import importlib, sys
import numpy as np
for module in {COMPILED}:
    importlib.import_module(module)
import karenina
v = np.random.default_rng(0).integers(3, size=(60, 2))
print(karenina.score(v, v, metrics=["z_min_variance"])["z_min_variance"].value)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "1.0\n", done.stderr


@pytest.mark.parametrize("module", COMPILED)
def test_compiled_functions_can_be_found_on_disk_again(module):
    """numba does not recognise a function that closes over another compiled one in the next process."""
    for function in vars(importlib.import_module(module)).values():
        if hasattr(function, "py_func"):
            assert function.py_func.__closure__ is None
