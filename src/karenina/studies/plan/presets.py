"""Studies with a name: the presets of papers, and studies of another kind that a paper brings along.

A package adds presets by an entry point of the group "karenina.papers", which names a package with a file preset.toml:
a table for each study, and in it a study file for each of SCALES. It adds a kind of study that does not train models on
a data set by one of the group "karenina.studies", which names a module with the functions of `Kind`.

>>> len(preset("locatello2019", "paper").points)
12600
"""

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from karenina import _plugins
from karenina._words import hint
from karenina.studies.plan.parsing import Source, from_values
from karenina.studies.plan.plan import Plan

# Seconds; two cores and under an hour; the paper's numbers.
SCALES = ("smoke", "laptop", "paper")


class Kind(Protocol):
    """A kind of study with its own plan, folder and page. Its functions print what they are asked."""

    def owns(self, folder: Path) -> bool:
        """Return whether a folder holds a study of this kind."""

    def find(self, what: str, scale: str | None, seeds: int | None) -> Any:
        """Return the plan that a name, a study file or a folder stands for; None if it is another study's."""

    def models(self, plan: Any) -> int: ...
    def grid(self, plan: Any) -> str: ...
    def show_plan(self, plan: Any, workers: int, *, toml: bool, measure: bool, as_json: bool) -> None: ...
    def run(self, plan: Any, out: Path, workers: int | None, *, as_json: bool, **given: Any) -> None: ...
    def status(self, folder: Path, *, as_json: bool) -> None: ...
    def analyse(self, folder: Path, paper: str | None, *, figures: bool, as_json: bool) -> None: ...
    def report(self, folder: Path, out: Path) -> Path: ...


@cache
def presets() -> dict[str, dict[str, dict[str, Any]]]:
    """Return name -> scale -> the values of a study file."""
    found: dict[str, Any] = {}
    for name, point in _plugins.found("papers").items():
        with _plugins.blamed(f"the presets of {name} ({point.value}) cannot be read"):
            found |= tomllib.loads(files(point.value).joinpath("preset.toml").read_text(encoding="utf-8"))
    return found


def preset(name: str, scale: str = "laptop") -> Plan:
    """Return the plan of a named study."""
    if name not in presets():
        raise ValueError(f"no preset {name!r}; {hint(name, presets())}")
    if scale not in SCALES:
        raise ValueError(f"no scale {scale!r}; {hint(scale, SCALES)}")
    values = {"name": f"{name} at {scale} scale", **presets()[name][scale]}
    return from_values(values, Source(f"preset {name}"), check=False)


def kinds() -> dict[str, Kind]:
    """Return the kinds of study that packages add, by the name that starts one."""
    return {name: _plugins.load("studies", name) for name in _plugins.found("studies")}


def kind_of(folder: Path) -> Kind | None:
    """Return the kind of the study in a folder; None for one that trains models on data sets."""
    return next((kind for kind in kinds().values() if kind.owns(folder)), None)
