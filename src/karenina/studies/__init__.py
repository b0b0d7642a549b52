"""Studies, in the order in which one passes through its packages: `plan`, `execution`, `results`, `analyses`."""

import importlib
from typing import Any

# Where each name lives. Loaded on first use: looking at a study's status needs neither torch nor pandas.
_HOMES = {
    "ANALYSES": "analyses",
    "Plan": "plan.plan",
    "Point": "plan.plan",
    "Status": "execution.folder",
    "analyse": "analyses",
    "find_plan": "execution.runner",
    "parse": "plan.parsing",
    "preset": "plan.presets",
    "presets": "plan.presets",
    "retry": "execution.runner",
    "run": "execution.runner",
    "status": "execution.folder",
}
_PACKAGES = ("analyses", "execution", "plan", "results")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"karenina.studies.{_HOMES[name]}"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"karenina.studies.{name}")
    raise AttributeError(f"module 'karenina.studies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_PACKAGES])
