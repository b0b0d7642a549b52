"""The documentation as HTML: `make docs` writes README, CONTRIBUTING, CHANGELOG and every page of docs into build/docs.

A link that leads nowhere is an error, so that the pages are never built with one.
"""

import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from jinja2 import Template
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
MARKDOWN = MarkdownIt("commonmark").enable("table")
ABOUT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # pages of the project's root

PAGE = Template(
    """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title | e }} · Karenina</title>
<style>
body { display: grid; grid-template-columns: 13rem minmax(0, 52rem); gap: 2.5rem; margin: 2rem auto; padding: 0 1rem;
       max-width: 70rem; font: 16px/1.55 system-ui, sans-serif; color: #222; }
nav a { display: block; padding: .1rem 0; color: #444; text-decoration: none; } nav a.here { font-weight: 600; }
pre, table { overflow-x: auto; } pre { padding: .8rem; background: #f5f5f2; border-radius: 4px; }
code { font-size: .9em; } img { max-width: 100%; } table { display: block; border-collapse: collapse; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
@media (max-width: 50rem) { body { grid-template-columns: minmax(0, 1fr); } }
</style>
<nav>{% for name, heading in pages.items() %}
<a href="{{ name }}"{% if name == here %} class="here"{% endif %}>{{ heading | e }}</a>{% endfor %}</nav>
<main>
{{ body }}</main>
</html>
""",
    keep_trailing_newline=True,
)


def sources(root: Path) -> dict[Path, str]:
    """Markdown file -> name of its HTML page; docs/index.md comes first."""
    docs = sorted((root / "docs").glob("*.md"), key=lambda path: (path.stem != "index", path.name))
    about = [root / name for name in ABOUT if (root / name).exists()]
    return {path: f"{path.stem.lower()}.html" for path in [*docs, *about]}


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def parse(path: Path) -> list[Token]:
    tokens = MARKDOWN.parse(path.read_text())
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slug(content.content))
    return tokens


def title(tokens: list[Token]) -> str:
    return next(after.content for before, after in pairwise(tokens) if before.type == "heading_open")


def build(root: Path, out: Path) -> None:
    """Write all pages into `out`; ValueError on the first link that leads nowhere."""
    names = sources(root)
    parsed = {path: parse(path) for path in names}
    anchors = {path: {token.attrGet("id") for token in tokens} for path, tokens in parsed.items()}
    out.mkdir(parents=True, exist_ok=True)

    def follow(page: Path, link: str) -> str:
        """What a link of a Markdown page is called in HTML. Files that are no pages are copied."""
        if re.match(r"\w+:", link):
            return link
        place, _, anchor = link.partition("#")
        target = (page.parent / unquote(place)).resolve() if place else page
        if target in names:
            if anchor and anchor not in anchors[target]:
                raise ValueError(f"{page.relative_to(root)}: no heading #{anchor} in {target.name}")
            return names[target] + (f"#{anchor}" if anchor else "")
        if not target.is_file():
            raise ValueError(f"{page.relative_to(root)}: the link {link} leads nowhere")
        copy = out / "files" / target.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copy)
        return copy.relative_to(out).as_posix()

    headings = {names[path]: title(tokens) for path, tokens in parsed.items()}
    for path, tokens in parsed.items():
        for token in tokens:
            for child in token.children or ():
                for attribute in ("href", "src"):
                    if child.attrGet(attribute):
                        child.attrSet(attribute, follow(path, str(child.attrGet(attribute))))
        body = MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})
        page = PAGE.render(title=headings[names[path]], pages=headings, here=names[path], body=body)
        (out / names[path]).write_text(page)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs")
    build(ROOT, target)
    print(f"wrote {target / 'index.html'}")
