"""The clustering study: does a better representation make an agent learn faster?"""

import importlib
from typing import Any

# Where each name lives. Loaded on first use: looking at a study needs no torch.
_HOMES = {
    "Plan": "plan",
    "Study": "study",
    "correlations": "results",
    "plan_for": "plan",
    "run": "runner",
    "status": "runner",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"karenina.studies.clustering.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'karenina.studies.clustering' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_HOMES)
