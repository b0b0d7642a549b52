"""Studies: a plan -> many runs -> a table of results -> the papers' analyses."""

import importlib
from typing import Any

# Where each name lives. Loaded on first use: looking at a study's status needs neither torch nor pandas.
_HOMES = {
    "ANALYSES": "analyses",
    "PRESETS": "plan.presets",
    "Plan": "plan.plan",
    "Point": "plan.plan",
    "Status": "execution.folder",
    "analyse": "analyses",
    "find_plan": "execution.runner",
    "parse": "plan.parsing",
    "preset": "plan.presets",
    "retry": "execution.runner",
    "run": "execution.runner",
    "status": "execution.folder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'karenina.studies' has no attribute {name!r}")
    return getattr(importlib.import_module(f"karenina.studies.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
