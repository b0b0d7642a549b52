"""In a notebook: whether this is one, a bar, and tables as HTML. Nothing is imported that a notebook has not loaded."""

import sys
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any


def in_notebook() -> bool:
    """Return whether this runs in a notebook, whose cells show HTML; a terminal, also IPython's, does not."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def bar(title: str) -> Callable[[float, str], None]:
    """Show a bar below the cell, and return the function that moves it to a share done, with some words."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)

    def show(share: float, words: str) -> None:
        text = escape(f"{title}: {words}")
        handle.update(HTML(f'<progress value="{share:.4f}" max="1" style="width: 20em"></progress> {text}'))

    show(0.0, "starting")
    return show


def table(headings: Iterable[str], lines: Iterable[Iterable[object]], caption: str = "") -> str:
    """Return an HTML table of text and numbers.

    >>> table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in line) + "</tr>" for line in lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(title: str, values: Mapping[str, object], below: str = "") -> str:
    """Return HTML with a title, names and their values, and more HTML below."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(_text(v))}</td></tr>" for name, v in values.items())
    return f"<div><b>{escape(title)}</b><table><tbody>{rows}</tbody></table>{below}</div>"


def picture(png: bytes, words: str) -> str:
    """Return HTML that holds the image itself."""
    import base64

    return f'<img alt="{escape(words)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1e4 else f"{value:.4g}"
    return str(value)
