"""Every Python block of the documentation runs; its HTML pages have no broken link, and the index leads to all."""

import functools
import importlib
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

import karenina

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_what_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    paths = [name for name in named if re.fullmatch(r"(src|tests|docs|benchmarks)(/[\w./]+)?", name)]
    assert len(paths) > 12
    for path in paths:
        assert (ROOT / path).exists(), path
    groups = [name for name in named if re.fullmatch(r"karenina\.[\w.]+", name)]
    for name in set(groups) - {"karenina.methods"}:  # a group of entry points, and no module
        assert functools.reduce(getattr, name.split(".")[1:], karenina), name
    for module, table in (("metrics.registry", "METRICS"), ("training.methods", "METHODS"), ("data", "REGISTRY")):
        assert f"`{table}`" in text
        assert hasattr(importlib.import_module(f"karenina.{module}"), table)


class Links(HTMLParser):
    """Links of the text of a page, not of its navigation; and its anchors."""

    def __init__(self, page):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(page.read_text().partition("<main>")[2])

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[name] for name in ("href", "src") if name in given and "://" not in given[name]]
        self.anchors.add(given.get("id"))


@pytest.fixture(scope="module")
def build():
    return runpy.run_path(str(ROOT / "docs" / "build.py"))["build"]


def test_html_pages_link_to_what_is_there_and_are_all_reached_from_the_index(build, tmp_path):
    build(ROOT, tmp_path)
    pages = {page.name: Links(page) for page in tmp_path.glob("*.html")}
    assert len(pages) == len(PAGES) + 1  # CHANGELOG
    assert any(name.startswith("files/") for name in pages["data.html"].links)
    reached, ahead = set(), ["index.html"]
    while ahead:
        name = ahead.pop()
        reached.add(name)
        for link in pages[name].links:
            target, _, anchor = link.partition("#")
            assert (tmp_path / target).exists(), f"{name}: {link}"
            if target in pages:
                assert not anchor or anchor in pages[target].anchors, f"{name}: {link}"
                ahead += [target] if target not in reached else []
    assert reached == set(pages)


def test_tables_code_and_comments_become_html(build, tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "index.md"
    page.write_text(
        "# Top & more\n\n| a |\n|---|\n| 1 < 2 |\n\n<!-- hidden -->\n\n```python\nx < 1\n```\n[up](#top--more)\n"
    )
    build(tmp_path, tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text()
    assert "<title>Top &amp; more" in text
    for part in ("<td>1 &lt; 2</td>", "<!-- hidden -->", "x &lt; 1\n</code>", '<a href="index.html#top--more">'):
        assert part in text


@pytest.mark.parametrize("link", ["absent.md", "#absent", "../README.md#absent", "pictures"])
def test_a_link_that_leads_nowhere_is_an_error(build, tmp_path, link):
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Top\n")
    (tmp_path / "docs" / "index.md").write_text(f"# Top\n\n[there]({link})\n")
    with pytest.raises(ValueError, match=r"docs/index.md: .*(nowhere|no heading #absent)"):
        build(tmp_path, tmp_path / "out")
