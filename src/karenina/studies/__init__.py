"""Studies: `plan` (what is trained), `runner` (train and score it), `study` (what is on the disk), `analyses`."""

from karenina._plugins import lazy_modules

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


__getattr__ = lazy_modules(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(_HOMES)
