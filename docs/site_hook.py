"""Pages that are made: README, CONTRIBUTING, CHANGELOG, the notebooks, and the API reference, a page per module.

`mkdocs.yml` names this file. Markdown files keep the links that work in a plain checkout; here they are rewritten.
"""

import importlib
import inspect
import json
import os
import re
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
ABOUT = {ROOT / f"{name}.md": f"{name.lower()}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")}
API = ("training", "metrics", "selection", "data", "tasks", "evaluation", "studies", "audit", "pages")
_LINK = re.compile(r"(\]\(|src=\"|href=\")([^)\s\"#]+)(#[^)\s\"]*)?(?=[)\"])")


def on_files(files: Files, config: object) -> Files:
    """The pages of the project's root join those of docs; so does every file that a page links to."""
    for path, name in ABOUT.items():
        files.append(File.generated(config, name, content=_rewritten(path.read_text(), path, name)))
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=_notebook(path)))
    for module in API:
        files.append(File.generated(config, f"api/{module}.md", content=_reference(f"karenina.{module}")))
    files.append(File.generated(config, "api/index.md", content=_reference("karenina")))
    linked: set[Path] = set()
    for page in [*ABOUT, *sorted((ROOT / "docs").rglob("*.md"))]:
        linked |= {target for target in _targets(page) if _outside(target)}
    linked |= set((ROOT / "examples").glob("*.ipynb"))
    for target in sorted(linked):
        name = f"files/{target.relative_to(ROOT).as_posix()}"
        files.append(File.generated(config, name, content=target.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: object, config: object, files: Files) -> str:
    name = page.file.src_uri
    path = ROOT / "docs" / name
    return _rewritten(markdown, path, name) if path.exists() else markdown


def _notebook(path: Path) -> str:
    """A notebook with the text of its stored outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        shown = ["".join(out.get("text") or out.get("data", {}).get("text/plain", "")) for out in cell["outputs"]]
        parts.append(f"```python\n{source}\n```")
        parts += [f"```text\n{text.rstrip()}\n```" for text in shown if text.strip()]
    link = f"[The notebook]({os.path.relpath(path, ROOT / 'docs' / 'tutorials')})"
    return _rewritten("\n\n".join([*parts, link]), ROOT / "docs" / "tutorials" / "x.md", "tutorials/x.md") + "\n"


def _reference(module: str) -> str:
    """The public functions and classes of a module, from their docstrings."""
    package = importlib.import_module(module)
    text = [f"# {module}", inspect.cleandoc(package.__doc__ or "").partition("\n\n>>>")[0]]
    for name in getattr(package, "__all__", ()):
        found = getattr(package, name)
        if inspect.isfunction(found) or inspect.isclass(found):
            text.append(f"::: {found.__module__}.{found.__qualname__}\n    options: {{heading_level: 2}}")
    return "\n\n".join(text) + "\n"


def _targets(page: Path) -> list[Path]:
    found = [(page.parent / link).resolve() for _, link, _ in _LINK.findall(page.read_text()) if ":" not in link]
    return [path for path in found if path.is_file()]


def _outside(target: Path) -> bool:
    """Whether it is a file of the project that is neither a page nor below docs."""
    return target not in ABOUT and ROOT in target.parents and ROOT / "docs" not in target.parents


def _rewritten(text: str, path: Path, name: str) -> str:
    """The text of a Markdown file with its links as the page `name` of the site must have them."""

    def follow(match: re.Match[str]) -> str:
        start, link, anchor = match.group(1), match.group(2), match.group(3) or ""
        target = (path.parent / link).resolve()
        if ":" in link or not target.is_file():
            return match.group(0)
        if target in ABOUT:
            there = ABOUT[target]
        elif _outside(target):
            there = f"files/{target.relative_to(ROOT).as_posix()}"
        else:
            there = target.relative_to(ROOT / "docs").as_posix()
        return f"{start}{os.path.relpath(there, Path(name).parent)}{anchor}"

    return _LINK.sub(follow, text)
