"""What every command prints on. Rich is imported on use, so that `karenina --help` answers at once."""

import re
import sys
from typing import Any, TextIO

# Controls of a terminal and of the direction of writing, ends of lines, and bytes of names that are no UTF-8.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    """Return words on one line: names from outside may hold escapes of a terminal, or lines that are not ours.

    >>> visible("a\\x1b[2J\\nkarenina: all is well")
    'a\\\\x1b[2J\\\\nkarenina: all is well'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text))


def say(*lines: object, file: TextIO | None = None) -> None:
    """Print lines at once, each of them as one, whatever the names in it hold."""
    print(*map(visible, lines or [""]), sep="\n", file=file or sys.stdout, flush=True)


def plain_console(**options: Any) -> Any:
    """Return a rich console that prints words as they are: names may look like markup ("[beta=4]") or emoji (":a:")."""
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, **how: Any) -> Any:
            return super().render_str(visible(text), **how)

    return Plain(markup=False, emoji=False, **options)
