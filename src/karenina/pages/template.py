"""The form of every page: a template, and in it the styles, the scripts, and the data that these read."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from karenina._files import write_text
from karenina._version import __version__
from karenina.drawing.charts import plain_number

SCRIPTS = ("decoder.js", "charts.js", "latents.js", "table.js", "page.js")
EMPTY: dict[str, Any] = {
    "notes": (),
    "choices": (),
    "has_models": False,
    "several": False,
    "models_heading": "",
    "models_sentence": "",
    "has_comparison": False,
    "comparison": {},
    "figure_sections": (),
    "how": (),
    "commands": (),
    "plan": "",
    "problems": (),
}


def render(values: dict[str, Any]) -> str:
    """Return the page with these values; `data` is what its scripts read."""
    assets = files("karenina.pages") / "assets"
    scripts = [assets / name for name in SCRIPTS]
    return fill(assets / "page.html.j2", {**EMPTY, **values}, [assets / "page.css"], scripts)


def fill(template: Traversable, values: dict[str, Any], styles: list[Traversable], scripts: list[Traversable]) -> str:
    """Return a template with these values and in it its styles and scripts, and `data`, which these read, as JSON."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["number"] = lambda value: "–" if value is None else plain_number(value)
    css = "".join(part.read_text(encoding="utf-8") for part in styles)
    script = "\n".join(part.read_text(encoding="utf-8") for part in scripts)
    # In a script element only "</" and "<!" mean anything, and JSON can spell "<" otherwise.
    data = json.dumps(values["data"], allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    text = environment.from_string(template.read_text(encoding="utf-8"))
    return text.render({**values, "data": data, "css": css, "script": script, "version": __version__})


def save(out: Path, page: str) -> Path:
    """Write a page into a folder and return its path."""
    path = out / "index.html"
    write_text(path, page)
    return path


def versions() -> list[tuple[str, str]]:
    """Return the versions of what made a page."""
    found = [("karenina", __version__), ("python", platform.python_version())]
    for name in ("torch", "numpy", "scipy", "scikit-learn", "pandas"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
