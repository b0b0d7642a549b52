"""Learning curves of every run, small enough for a page."""

from typing import Any

import numpy as np

from karenina.pages.contents import Contents

POINTS, FEW_POINTS = 60, 24
MANY = 500  # models, beyond which curves have few points
TERMS = ("loss", "reconstruction", "kl")


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
            {term: [_short(v) for v in table[term].to_numpy()[kept]] for term in table.column_names if term != "step"}
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


def _short(value: float) -> float | None:
    if not np.isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded == int(rounded) else rounded
