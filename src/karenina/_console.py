"""What every command prints on. Rich is imported on use, so that `karenina --help` answers at once."""

import json
import math
import re
import shlex
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


def print_json(value: Any) -> None:
    """Print what JSON can say of a value: paths become text, what is not finite null, a data frame records."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return _plain(value.to_dict("records"))
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def next_steps(*commands: tuple[Any, ...]) -> None:
    """Say what to do next: words of commands, with paths as they must be typed.

    >>> next_steps(("show", "my runs/a"), ("score", "b"))
    next: karenina show 'my runs/a'
          karenina score b
    """
    for i, words in enumerate(commands):
        line = " ".join(shlex.quote(str(word)) for word in words if word is not None)
        say(f"{'next:' if i == 0 else '     '} karenina {line}")
