"""The words of the glossary are kept: what it says to avoid does not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
AVOIDED = re.compile(
    r"whole[- ]numbers?\b|names in no order|\bthe review\b|\breview's\b|12,000-model|DCI paper|learning-dynamics paper|"
    r"\bthe study's (protocol|procedure)\b|\bgoes on\b"
)
FOLDERS = ("data", "models", "training")
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "glossary.md"]
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / "src" / "karenina" / folder).rglob("*.py"))]


@pytest.mark.parametrize(
    "path", [*PAGES, *MODULES, ROOT / "src" / "karenina" / "theory.py"], ids=lambda path: path.name
)
def test_avoided_words_are_avoided(path):
    text = path.read_text()
    if path.name == "audit.md":  # the results are what an audit wrote
        text = text.partition("## Results")[0] + text.partition("## Where this differs")[2]
    found = AVOIDED.search(text)
    assert found is None, f"{path.name}:{text[: found.start()].count(chr(10)) + 1}: {found[0]}"


def test_the_glossary_names_what_is_avoided():
    text = (ROOT / "docs" / "glossary.md").read_text()
    for word in ("whole number", "names in no order", "goes on", "the review"):
        assert f"*{word}*" in text
        assert AVOIDED.search(word)
