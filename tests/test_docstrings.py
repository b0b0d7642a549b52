"""Every example in a docstring of the package runs and shows what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "karenina"
WITH_EXAMPLES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_are_true(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    found = doctest.testmod(importlib.import_module(".".join(part for part in parts if part != "__init__")))
    assert found.failed == 0
    assert found.attempted > 0


def test_no_example_is_left_out():
    for path in WITH_EXAMPLES:
        assert "doctest: +SKIP" not in path.read_text(), path
