"""The Dockerfiles, where there is no engine to build them: what they copy is there, and is all that the build needs."""

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IGNORED = (ROOT / ".dockerignore").read_text().split()


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_what_is_copied_is_there_and_is_what_the_build_reads(name):
    text = (ROOT / name).read_text()
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for word in line.split()]
    assert all((ROOT / word).exists() for word in copied)
    assert not [word for word in copied if any(fnmatch.fnmatch(word, pattern) for pattern in IGNORED)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", "constraints.txt", project["project"]["readme"], *project["project"]["license-files"]}
    assert needed | {"src"} == set(copied)
    assert project["project"]["requires-python"] == ">=3.11"
    assert re.search(r"^FROM python:3\.11-slim$", text, re.MULTILINE)
