"""What the scripts of a page read: models, scores, learning curves, charts and the details of some models."""

import math
from typing import Any

import numpy as np

from karenina.metrics.registry import score_name
from karenina.pages.choice import Choice
from karenina.pages.contents import Contents
from karenina.pages.figures import Section
from karenina.studies.analyses.scores import ASIDE, WORDS
from karenina.studies.study import TASK

POINTS, FEW_POINTS = 60, 24  # of a learning curve
MANY = 500  # models, beyond which curves have few points
TERMS = ("loss", "reconstruction", "kl")


def embedded(
    contents: Contents, found: list[Choice], shown: dict[str, dict[str, Any]], parts: list[Section]
) -> dict[str, Any]:
    """Columns of models and scores, learning curves, charts, and the details of some models."""
    about, table = contents.about, contents.scores
    supervised = set(table.columns(supervised=True))
    scores = [
        {
            "name": WORDS.get(name, name),
            "supervised": j in supervised,
            "values": [_plain(v) for v in table.values[:, j]],
        }
        for j, name in enumerate(table.names)
        if np.isfinite(table.values[:, j]).any()
    ]
    columns = ("run", "label", "method", "parameter", "data")
    models = {name: about[name].astype(str).tolist() for name in columns}
    models |= {name: about[name].astype(int).tolist() for name in ("seed", "latents")}
    models["informative"] = contents.informative.tolist()
    models["strength"] = [_plain(value) for value in about["strength"]]
    return {
        "models": models,
        "scores": scores,
        "factors": _per_factor(contents),
        "details": shown,
        "live": sum(one["decoder"] is not None for one in shown.values()),
        "order": _order(contents),
        "ranked": contents.ranked_by is not None,
        "picks": [pick.run for choice in found for pick in choice.picks],
        "best": found[0].best,
        "axes": _axes(contents, found),
        "checks": list(found[0].checks) if found else [],
        "curves": curves(contents),
        "charts": charts_of(parts),
    }


def charts_of(parts: list[Section]) -> dict[str, Any]:
    """Name of a figure -> its chart, for those that have one."""
    return {one.name: one.chart for part in parts for one in part.figures if one.chart is not None}


def _order(contents: Contents) -> list[int]:
    """Models from best to worst, those without a score last."""
    by = contents.ranked_by
    values = contents.score(by) if by else np.zeros(len(contents.about))
    return [int(i) for i in np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")]


def _axes(contents: Contents, found: list[Choice]) -> dict[str, str]:
    ranked = contents.ranked_by
    check = found[0].checks[0] if found and found[0].checks else None
    x = ranked or "reconstruction"
    return {"x": x, "y": check or ("active_latents" if ranked else "kl")}


def _per_factor(contents: Contents) -> dict[str, Any]:
    """data set -> names of factors and scores, and run -> values, the factors of a score side by side."""
    found: dict[str, Any] = {}
    parts = contents.frame[(contents.frame["factor"] != "") & ~contents.frame["family"].isin([TASK, *ASIDE])]
    for data, part in parts.groupby("data", sort=False):
        score = [score_name(*pair, several=True) for pair in zip(part["metric"], part["property"].fillna(""))]
        wide = part.assign(score=score).pivot_table(
            index="run", columns=["score", "factor"], values="value", sort=False, dropna=False
        )
        names = list(dict.fromkeys(part["factor"]))
        rows = list(dict.fromkeys(score))
        wide = wide.reindex(columns=[(row, name) for row in rows for name in names])
        values = {str(run): [_plain(v) for v in line] for run, line in zip(wide.index, wide.to_numpy())}
        found[str(data)] = {"names": names, "scores": rows, "values": values}
    return found


def _plain(value: float) -> float | None:
    """Four significant digits; None for what JSON cannot say."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded == int(rounded) else rounded


def curves(contents: Contents) -> dict[str, Any]:
    """{"terms", "steps": [grid, ...], "grid": [which of these, per model], "values": {term: [[...] per model]}}.

    Models are in the order of `contents.about`; one without a history has null.
    """
    import pyarrow.parquet as pq

    points = POINTS if len(contents.about) <= MANY else FEW_POINTS
    grids: dict[tuple[int, ...], int] = {}
    which: list[int | None] = []
    tables: list[dict[str, list[float | None]]] = []
    for name in contents.about["run"]:
        file = contents.paths[name] / "history.parquet"
        try:
            schema = pq.read_schema(file).names
            table = pq.read_table(file, columns=["step", *(term for term in schema if _is_term(term))])
            step = table["step"].to_numpy()
        except Exception:  # damaged files make their parsers raise anything; a page without this curve is still a page
            which.append(None)
            tables.append({})
            continue
        kept = np.unique(np.linspace(0, len(step) - 1, min(points, len(step))).round().astype(int))
        grid = tuple(int(value) for value in step[kept])
        which.append(grids.setdefault(grid, len(grids)))
        tables.append(
            {term: [_plain(v) for v in table[term].to_numpy()[kept]] for term in table.column_names if term != "step"}
        )
    terms = list(dict.fromkeys([*TERMS, *(term for table in tables for term in table)]))
    terms = [term for term in terms if any(term in table for table in tables)]
    if len(tables) > MANY:
        terms = [term for term in terms if term in TERMS]
    return {
        "terms": terms,
        "steps": [list(grid) for grid in grids],
        "grid": which,
        "values": {term: [table.get(term) for table in tables] for term in terms},
    }


def _is_term(name: str) -> bool:
    """The loss and its parts, not the KL of each latent."""
    return name != "step" and not name.removeprefix("kl_").isdigit()
