"""Every Python block of the documentation runs; the site has no broken link; every citation has its reference."""

import functools
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import karenina

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def shorter(code):
    """The code with trainings of at most 200 steps: that it runs is tested, not what a whole training learns."""
    return re.sub(r"\bsteps( ?= ?)(\d+)", lambda found: f"steps{found[1]}{min(int(found[2]), 200)}", code)


def test_trainings_are_cut_and_nothing_else():
    code = 'run = train(data, latents=600, steps=6000)\nplan = "steps = 600"\nlatest_steps=900'
    assert shorter(code) == 'run = train(data, latents=600, steps=200)\nplan = "steps = 200"\nlatest_steps=900'


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("karenina.pages.choice.RESAMPLES", 20)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks:
        exec(compile(shorter(block), str(page), "exec"), names)


def run_on(html):
    """Lines inside paragraphs that should have been items of a list, rows of a table, headings or fences."""
    paragraphs = re.findall(r"<p>(.*?)</p>", html, flags=re.DOTALL)
    begins = re.compile(r"^\s*(?:(?:[-*+] |\d+[.)] |#+ |```).*|\|.*\|$)", flags=re.MULTILINE)
    return [line.strip() for text in paragraphs for line in begins.findall(text)]


def test_lists_and_tables_are_rendered_as_such():
    markdown = pytest.importorskip("markdown", reason="needs the extra docs")
    pytest.importorskip("pymdownx", reason="needs the extra docs")
    site = re.search(r"^markdown_extensions:\n(.*?)^\w", (ROOT / "mkdocs.yml").read_text(), re.DOTALL | re.MULTILINE)[1]
    extensions = re.findall(r"^  - ([\w.]+)", site, flags=re.MULTILINE)
    assert "tables" in extensions

    def found(text):
        return run_on(markdown.markdown(text, extensions=extensions))

    assert found("Start here\n- a\n- b") == ["- a", "- b"]
    assert found("Start here\n\n- a\n- b\n  more") == []
    notebooks = {
        path: "\n\n".join(
            "".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "markdown"
        )
        for path in sorted((ROOT / "examples").glob("*.ipynb"))
    }
    pages = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*/*.md"))]
    texts = {page: page.read_text() for page in pages} | notebooks
    assert {page.name: lines for page, text in texts.items() if (lines := found(text))} == {}


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


def test_the_site_is_built_without_a_broken_link_and_every_page_is_in_its_navigation(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    pytest.importorskip("material", reason="needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "readme.html", "contributing.html", "api/metrics.html"} <= pages
    assert {name: lines for name in pages if (lines := run_on((tmp_path / "site" / name).read_text()))} == {}
    assert 'id="karenina.metrics.information.mig"' in (tmp_path / "site" / "api" / "metrics.html").read_text()


def test_the_readme_counts_right():
    from karenina.audit.experiments import EXPERIMENTS
    from karenina.evaluation.criteria import CRITERIA
    from karenina.metrics.registry import METRICS
    from karenina.training.methods import METHODS

    text = (ROOT / "README.md").read_text()
    counted = {"metrics, per factor": sum(not one.codes_only for one in METRICS.values())}
    counted |= {"experiments with a known answer": len(EXPERIMENTS)}
    counted |= {"other scores": sum(not name.startswith(("consensus", "udr", "dynamics")) for name in CRITERIA)}
    assert {words: int(re.search(rf"(\d+) {words}", text)[1]) for words in counted} == counted
    assert len(METHODS) == 7 + 4 + 2  # "seven VAEs, four methods ..., InfoGAN, PCA"


def test_the_table_of_presets_counts_right():
    from karenina.studies.plan import SCALES, preset, presets

    text = (ROOT / "docs" / "studies.md").read_text()
    for name in presets():
        cells = [cell.strip() for cell in re.search(rf"^\| {name} \|.*$", text, re.MULTILINE)[0].split("|")[3:6]]
        cells[2] = cells[2].split("= ")[-1]
        assert [int(cell.replace(",", "")) for cell in cells] == [len(preset(name, s).points) for s in SCALES], name


def test_plain_links_lead_somewhere_in_a_checkout():
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            if ":" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_citation_is_among_the_references():
    references = runpy.run_path(str(ROOT / "docs" / "references.py"))
    text = (ROOT / "docs" / "references.bib").read_text()
    assert (ROOT / "docs" / "references.md").read_text() == references["page"](text), "run docs/references.py"
    known = {
        (entry["author"].partition(",")[0].split()[-1], entry["year"]) for entry in references["entries"](text).values()
    }
    assert all({"author", "title", "year", "url"} <= set(entry) for entry in references["entries"](text).values())
    name = r"([A-Z][\w-]+)(?: et al\.| (?:&|and) [A-Z]\w+)\s\(?((?:19|20)\d\d)"
    files = [*(ROOT / "src").rglob("*.py"), *PAGES]
    cited = {found for file in files for found in re.findall(name, file.read_text())}
    spelled = {(who.replace("Traeuble", "Träuble").replace("Rolinek", "Rolínek"), year) for who, year in cited}
    assert len(spelled) > 20
    assert spelled <= known, spelled - known
