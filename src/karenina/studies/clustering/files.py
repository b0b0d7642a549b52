"""The files of a clustering study. Nothing here loads torch."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from karenina._files import atomic, read_json
from karenina.studies.clustering.plan import Plan, plan_of


def is_clustering(folder: Path) -> bool:
    """Whether a folder holds a clustering study."""
    return (folder / "plan.json").is_file()


def read_plan(folder: Path) -> Plan:
    if not is_clustering(folder):
        raise ValueError(f"{folder} is not a clustering study: it has no plan.json")
    path = folder / "plan.json"
    try:
        found = read_json(path)
        if not isinstance(found, dict):
            raise ValueError("it is not a table")
        return plan_of(found)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no plan of a clustering study: {error}") from None


def adopt(folder: Path, plan: Plan) -> None:
    """Make this the folder of `plan`; ValueError if it is another's."""
    if is_clustering(folder):
        found, wanted = asdict(read_plan(folder)), asdict(plan)
        odd = [name for name in wanted if found[name] != wanted[name]]
        if odd:
            raise ValueError(f"{folder} is of another plan ({', '.join(odd)} differ): choose another folder")
        return
    if folder.exists() and (not folder.is_dir() or any(not entry.name.startswith(".") for entry in folder.iterdir())):
        raise ValueError(f"{folder} is not empty and not a clustering study: choose another folder")
    write_json(folder / "plan.json", asdict(plan))


def write_json(path: Path, value: Any) -> None:
    with atomic(path) as part:
        part.write_text(json.dumps(value, indent=1), encoding="utf-8")
