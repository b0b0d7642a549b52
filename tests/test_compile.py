"""Compiled code: kept on disk where that is possible, and no condition for working."""

import importlib
import os
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


KERNEL = """
import sys
from numba.core.caching import Cache

def full_disk(self, *args):
    raise OSError(28, "No space left on device")

if sys.argv[1] == "full":
    Cache.save_overload = full_disk
from karenina.numerics.compile import njit

@njit(cache=True)
def twice(x):
    return 2 * x

print(twice(21), sum(twice.stats.cache_hits.values()))
"""


@pytest.mark.parametrize(("folder", "disk", "kept"), [("file", "", 0), ("empty", "full", 0), ("empty", "", 1)])
def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, folder, disk, kept):
    (tmp_path / "file").touch()  # where a folder is wanted
    (tmp_path / "kernel.py").write_text(KERNEL)
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / folder), "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    for hits in (0, kept):
        words = [sys.executable, str(tmp_path / "kernel.py"), disk]
        done = subprocess.run(words, env=os.environ | cache, capture_output=True, text=True, check=False)
        assert done.stdout == f"42 {hits}\n", done.stderr


@pytest.mark.parametrize("module", COMPILED)
def test_compiled_functions_can_be_found_on_disk_again(module):
    """numba does not recognise a function that closes over another compiled one in the next process."""
    for function in vars(importlib.import_module(module)).values():
        if hasattr(function, "py_func"):
            assert function.py_func.__closure__ is None
