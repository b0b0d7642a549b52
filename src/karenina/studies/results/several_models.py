"""Scores that need several models: UDR in its four versions, and the training dynamics.

together.parquet  run, metric, value: the score of each run (the dynamics score of its setting)
pairs.parquet     data, target, source, value: UDR of each pair within a setting
dynamics.parquet  data, setting, seeds, draw, runs, value: the dynamics score from that many seeds
"""

import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from karenina.studies.execution.folder import Folder, exclusive
from karenina.studies.plan.plan import Plan, Point, Selection
from karenina.studies.results.table import SCHEMAS, is_current, read_array, read_codes, write_parquet

if TYPE_CHECKING:
    from karenina.selection import Ranking

_DRAWS = 5  # of a number of seeds that is less than all


def score_together(folder: Folder, plan: Plan, workers: int = 1) -> None:
    """Compute and write what is missing. Does nothing when the runs and the settings are those of the last time."""
    with exclusive(folder.path, "together"):
        done = set(folder.status().done)
        points = [point for point in plan.points if point.hash in done]
        key = json.dumps([plan.evaluation.hash, repr(plan.selection), sorted(done)]).encode()
        files = [folder.path / f"{name}.parquet" for name in ("together", "pairs", "dynamics")]
        if files[0].exists() and all(is_current(file, key) for file in files if file.exists()):
            return
        rows: dict[str, list[Any]] = {"run": [], "metric": [], "value": []}
        pairs: dict[str, list[Any]] = {"data": [], "target": [], "source": [], "value": []}
        dynamics: dict[str, list[Any]] = {name: [] for name in ("data", "setting", "seeds", "draw", "runs", "value")}
        for data in plan.data:
            here = [point for point in points if point.data == data]
            _udr(folder, plan, here, workers, rows, pairs)
            _dynamics(folder, plan, [point for point in here if point.trace], rows, dynamics)
        for name, columns in (("pairs", pairs), ("dynamics", dynamics), ("together", rows)):
            if name == "together" or columns["value"]:
                table = pa.table(columns, schema=SCHEMAS[name]).replace_schema_metadata({b"key": key})
                write_parquet(folder.path / f"{name}.parquet", table)


def has_partners(version: str, settings: Sequence[str]) -> bool:
    """Whether UDR can compare models of these settings: two of one setting, or (a2a) any two."""
    return len(settings) > 1 and (version.endswith("a2a") or len(set(settings)) < len(settings))


def udr_version(
    version: str,
    codes: Sequence[NDArray[Any]],
    kl: Sequence[NDArray[Any]],
    settings: Sequence[str],
    selection: Selection,
    **options: Any,
) -> "Ranking":
    """One of plan.UDR_VERSIONS of the models of a data set, the same for tables, `rank` and reports.

    Partners of a model are the other models of its setting or, "a2a", all other models of the data set, whatever their
    method; at most `selection.partners` of them. Duan et al. (2020), section 4 and A.7.
    """
    from karenina.selection import udr

    lasso = version.startswith("lasso")
    return udr(
        codes,
        kl,
        settings,
        similarity="lasso" if lasso else "spearman",
        all_to_all=version.endswith("a2a"),
        partners=selection.partners,
        n=None if lasso else min(selection.spearman_rows, len(codes[0])),
        kl_threshold=selection.kl_threshold,
        **options,
    )


def _udr(
    folder: Folder, plan: Plan, points: Sequence[Point], workers: int, rows: dict[str, list[Any]], pairs: dict[str, Any]
) -> None:
    if len(points) < 2:
        return
    codes, kl = zip(*(read_codes(folder.run(point.hash)) for point in points))
    for version in plan.selection.udr:
        settings = [point.setting for point in points]
        if not has_partners(version, settings):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NaN says which models have no partner
            busy = workers if len(points) > 100 else 1
            ranking = udr_version(version, codes, kl, settings, plan.selection, workers=busy)
        rows["run"] += [point.hash for point in points]
        rows["metric"] += [f"udr_{version}"] * len(points)
        rows["value"] += ranking.scores.tolist()
        if not version.endswith("a2a") and version == plan.selection.udr[0]:
            targets = np.repeat(np.arange(len(points)), np.diff(ranking.start))
            pairs["data"] += [points[0].data] * len(targets)
            pairs["target"] += [points[int(i)].hash for i in targets]
            pairs["source"] += [points[int(i)].hash for i in ranking.sources]
            pairs["value"] += ranking.values.tolist()


def _dynamics(
    folder: Folder, plan: Plan, points: Sequence[Point], rows: dict[str, list[Any]], found: dict[str, list[Any]]
) -> None:
    """The dynamics score of each setting from some of its seeds, several times, and from as many as asked for.

    Holtz et al. (2022), section 4, Table 1.
    """
    settings: dict[str, list[Point]] = {}
    for point in points:
        if (folder.run(point.hash) / "trace.npy").exists():  # a method without steps has none
            settings.setdefault(point.setting, []).append(point)
    settings = {setting: members for setting, members in settings.items() if len(members) > 1}
    if not settings:
        return
    most = min(len(members) for members in settings.values())
    sizes = [size for size in plan.selection.dynamics_seeds if size <= most] or [most]
    values: dict[str, float] = {}
    for size in sorted(sizes):
        for draw in range(_DRAWS if size < most else 1):
            rng = np.random.default_rng([size, draw])
            chosen = {
                setting: [members[i] for i in sorted(rng.permutation(len(members))[:size])]
                for setting, members in settings.items()
            }
            values = _score_settings(folder, chosen)
            for setting, value in values.items():
                row = (points[0].data, setting, size, draw, " ".join(p.hash for p in chosen[setting]), value)
                for name, item in zip(found, row):
                    found[name].append(item)
    rows["run"] += [point.hash for members in settings.values() for point in members]
    rows["metric"] += ["dynamics" for members in settings.values() for _ in members]
    rows["value"] += [values[setting] for setting, members in settings.items() for _ in members]


def _score_settings(folder: Folder, chosen: dict[str, list[Point]]) -> dict[str, float]:
    from karenina.selection import dynamics

    found = {}
    for setting, members in chosen.items():  # one at a time: the traces of one setting are some 100 MB
        traces = [read_array(folder.run(point.hash) / "trace.npy") for point in members]
        found[setting] = float(dynamics(traces).scores[0])
    return found
