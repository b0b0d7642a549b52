"""Studies: a plan -> many runs -> a table of results -> the papers' analyses."""

import importlib
from typing import Any

# Where each name lives. Loaded on first use: looking at a study's status needs neither torch nor pandas.
_HOMES = {
    "ANALYSES": "analyses",
    "PRESETS": "presets",
    "Plan": "plan",
    "Point": "plan",
    "Status": "folder",
    "analyse": "_analyse",
    "find_plan": "runner",
    "parse": "parsing",
    "preset": "presets",
    "results": "table",
    "retry": "runner",
    "run": "runner",
    "status": "folder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'karenina.studies' has no attribute {name!r}")
    return getattr(importlib.import_module(f"karenina.studies.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
