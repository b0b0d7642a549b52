"""Scores that need several models: UDR in its four versions, and the training dynamics.

together.parquet  run, metric, value: the score of each run (the dynamics score of its setting)
pairs.parquet     data, target, source, value: UDR of each pair within a setting
partners.parquet  version, data, target, source, value: UDR of each pair, of every version
dynamics.parquet  data, setting, seeds, draw, runs, value: the dynamics score from that many seeds
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from karenina.evaluation.criteria import compute_udr, has_partners
from karenina.selection import dynamics
from karenina.studies.plan import Plan, Point, Selection
from karenina.studies.study import Study, exclusive, is_current, schema, write_parquet

Columns = dict[str, list[Any]]
ReadCodes = Callable[[str], tuple[NDArray[np.float32], NDArray[np.float64]]]  # run -> codes (n, L), KLs (L,)
PAIRS = ("version", "data", "target", "source", "value")
_DRAWS = 5  # of a number of seeds that is less than all


class ComparedModel(NamedTuple):
    """One of the models to compare."""

    run: str
    data: str
    setting: str
    method: str


def compare_models(study: Study, plan: Plan, workers: int = 1) -> None:
    """Compute and write what is missing. Does nothing when the runs and the settings are those of the last time."""
    with exclusive(study.path, "together"):
        done = set(study.status().done)
        points = [point for point in plan.points if point.hash in done]
        # The versions of UDR as they were named when the first of these files were written.
        selection = repr(plan.selection).replace("'udr_", "'").replace(", a2a_seeds=0)", ")")
        key = json.dumps([plan.evaluation.hash, selection, sorted(done)]).encode()
        traced = [point for point in points if point.trace and (study.run_path(point.hash) / "trace.npy").exists()]
        names = ["together"]
        if plan.selection.udr and not plan.selection.udr[0].endswith("a2a") and _has_pairs(points):
            names.append("pairs")
        if any(has_partners(version, [p.setting for p in points]) for version in plan.selection.udr):
            names.append("partners")
        if _has_pairs(traced):
            names.append("dynamics")
        if all(is_current(study.path / f"{name}.parquet", key) for name in names):
            return
        rows: Columns = {"run": [], "metric": [], "value": []}
        partners: Columns = {name: [] for name in PAIRS}
        dynamics: Columns = {name: [] for name in ("data", "setting", "seeds", "draw", "runs", "value")}
        for data in plan.data:
            here = [point for point in points if point.data == data]
            models = [ComparedModel(point.hash, data, point.setting, point.method) for point in here]
            _udr(models, study.codes, plan.selection, workers, rows, partners)
            _dynamics(study, plan, [point for point in traced if point.data == data], workers, rows, dynamics)
        first = plan.selection.udr[0] if plan.selection.udr else ""
        pairs = _pairs_of(partners, "" if first.endswith("a2a") else first)
        tables = {"pairs": pairs, "partners": partners, "dynamics": dynamics, "together": rows}
        for name, columns in tables.items():
            if name == "together" or columns["value"]:
                table = pa.table(columns, schema=schema(name)).replace_schema_metadata({b"key": key})
                write_parquet(study.path / f"{name}.parquet", table)
            else:
                (study.path / f"{name}.parquet").unlink(missing_ok=True)  # of other settings


def _has_pairs(points: Sequence[Point]) -> bool:
    """Return whether two models differ by their seed alone."""
    return len({(point.data, point.setting) for point in points}) < len(points)


def udr_of_models(models: Sequence[ComparedModel], codes: ReadCodes, selection: Selection) -> tuple[Columns, Columns]:
    """Return UDR of models that no study has compared yet: columns of together.parquet and of pairs.parquet."""
    rows: Columns = {"run": [], "metric": [], "value": []}
    partners: Columns = {name: [] for name in PAIRS}
    for data in dict.fromkeys(model.data for model in models):
        _udr([model for model in models if model.data == data], codes, selection, 1, rows, partners)
    first = next(iter(selection.udr), "")
    return rows, _pairs_of(partners, "" if first.endswith("a2a") else first)


def _pairs_of(partners: Columns, version: str) -> Columns:
    """Return the pairs of one version."""
    here = [i for i, name in enumerate(partners["version"]) if name == version]
    return {name: [partners[name][i] for i in here] for name in PAIRS[1:]}


def _udr(
    models: Sequence[ComparedModel],
    read: ReadCodes,
    selection: Selection,
    workers: int,
    rows: Columns,
    partners: Columns,
) -> None:
    """Add the versions of UDR of the models of one data set to `rows`, and the pairs of each to `partners`."""
    settings = [model.setting for model in models]
    if not any(has_partners(version, settings) for version in selection.udr):
        return
    codes, kl = zip(*(read(model.run) for model in models))
    options = {name: getattr(selection, name) for name in ("partners", "spearman_rows", "kl_threshold")}
    for version in selection.udr:
        chosen, groups, rule, given = list(range(len(models))), settings, version, options
        if selection.a2a_seeds and version.endswith("a2a"):
            chosen = _first_of_each(settings, selection.a2a_seeds)
            groups = [models[i].method for i in chosen]
            rule, given = version.removesuffix("_a2a"), {**options, "partners": len(models)}
        if not has_partners(rule, groups):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NaN says which models have no partner
            busy = workers if len(models) > 100 else 1
            ranking = compute_udr(
                rule, [codes[i] for i in chosen], [kl[i] for i in chosen], groups, **given, workers=busy
            )
        names = [models[i].run for i in chosen]
        rows["run"] += names
        rows["metric"] += [version] * len(names)
        rows["value"] += ranking.scores.tolist()
        targets = np.repeat(np.arange(len(names)), np.diff(ranking.start))
        partners["version"] += [version] * len(targets)
        partners["data"] += [models[0].data] * len(targets)
        partners["target"] += [names[int(i)] for i in targets]
        partners["source"] += [names[int(i)] for i in ranking.sources]
        partners["value"] += ranking.values.tolist()


def _first_of_each(settings: Sequence[str], most: int) -> list[int]:
    """Return the first so many models of each setting.

    >>> _first_of_each(["a", "b", "a", "a"], 2)
    [0, 1, 2]
    """
    seen: Counter[str] = Counter()
    chosen = []
    for i, setting in enumerate(settings):
        seen[setting] += 1
        if seen[setting] <= most:
            chosen.append(i)
    return chosen


def _dynamics(study: Study, plan: Plan, points: Sequence[Point], workers: int, rows: Columns, found: Columns) -> None:
    """Add the dynamics score of each setting from some of its seeds, several times, and from as many as asked for.

    Holtz et al. (2022), section 4, Table 1.
    """
    settings: dict[str, list[Point]] = {}
    for point in points:
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
            # A setting in each thread: most of the work is in compiled code, and the traces of one are some 100 MB.
            with ThreadPoolExecutor(workers) as pool:
                values = dict(zip(chosen, pool.map(lambda members: _dynamics_score(study, members), chosen.values())))
            for setting, value in values.items():
                row = (points[0].data, setting, size, draw, " ".join(p.hash for p in chosen[setting]), value)
                for name, item in zip(found, row):
                    found[name].append(item)
    rows["run"] += [point.hash for members in settings.values() for point in members]
    rows["metric"] += ["dynamics" for members in settings.values() for _ in members]
    rows["value"] += [values[setting] for setting, members in settings.items() for _ in members]


def _dynamics_score(study: Study, members: Sequence[Point]) -> float:
    """Return the dynamics score of one setting, from the traces of these models."""
    return float(dynamics([study.array(point.hash, "trace.npy") for point in members]).scores[0])
