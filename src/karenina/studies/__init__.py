"""Studies: `plan` (what is trained), `runner` (train and score it), `study` (what is on the disk), `analyses`."""

import importlib
from typing import Any

# Where each name lives. Loaded on first use: looking at a study's status needs neither torch nor pandas.
_HOMES = {
    "ANALYSES": "analyses",
    "Plan": "plan",
    "Point": "plan",
    "Status": "study",
    "Study": "study",
    "analyse": "analyses",
    "find_plan": "study",
    "parse": "plan",
    "preset": "plan",
    "presets": "plan",
    "retry": "study",
    "run": "runner",
    "status": "study",
}
_MODULES = ("analyses", "compare", "plan", "runner", "study")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"karenina.studies.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"karenina.studies.{name}")
    raise AttributeError(f"module 'karenina.studies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_MODULES])
