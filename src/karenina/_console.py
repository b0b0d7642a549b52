"""The console that every command prints on. Rich is imported on use, so that `karenina --help` answers at once."""

from typing import Any


def plain_console(**options: Any) -> Any:
    """A rich console that prints words as they are: names may look like markup ("[beta=4]") or emoji (":a:")."""
    from rich.console import Console

    return Console(markup=False, emoji=False, **options)
