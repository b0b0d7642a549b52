"""What the scripts of a page read: models, scores, curves, charts and the details of some models."""

import math
from typing import Any

import numpy as np

from karenina.metrics.registry import score_name
from karenina.pages.choice import Choice
from karenina.pages.contents import Contents
from karenina.pages.curves import curves
from karenina.pages.figures import Section
from karenina.studies.analyses.shared import WORDS
from karenina.studies.results.table import ASIDE, TASK


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


def _plain(value: Any) -> float | None:
    """Four significant digits; None for what JSON cannot say."""
    value = float(value)
    return float(f"{value:.4g}") if math.isfinite(value) else None
