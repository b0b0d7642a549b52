"""What a clustering study found: correlations, sentences, figures, and what it shows of the papers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina._files import atomic
from karenina.drawing.charts import Chart, Panel, Series, draw
from karenina.numerics.resampling import spearman, without_each
from karenina.papers import Made, items, make
from karenina.papers import printed as values
from karenina.papers.duan2020.clustering.plan import SCORES
from karenina.studies.study import COLUMNS, Study

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho of a score with steps, and its 95 % interval (`karenina.numerics.resampling.spearman`); negative:
    a better score, fewer steps. within: mean over the betas of the rho among models of one beta; its interval is that
    of leaving out one seed at a time. NaN where a rho does not exist, e.g. when all steps are equal."""

    score: str
    rho: float
    interval: tuple[float, float]
    within: float
    within_interval: tuple[float, float]
    per_beta: dict[float, float]

    @property
    def verdict(self) -> str:
        return verdict(self.interval)


def verdict(interval: tuple[float, float]) -> str:
    """Return what an interval of rho with steps says of "better representations learn faster"."""
    low, high = interval
    if high < 0:
        return "agrees"
    return "disagrees" if low > 0 else "cannot tell"  # NaN, too


def correlations(rows: Sequence[dict[str, Any]], scores: Sequence[str] = tuple(SCORES)) -> list[Correlation]:
    """Return a correlation for each score.

    rows: those of `ClusteringStudy.measures`; a row without a value of the score does not count for it.
    """
    return [_correlation(rows, score) for score in scores]


def _correlation(rows: Sequence[dict[str, Any]], score: str) -> Correlation:
    usable = [row for row in rows if row[score] is not None and np.isfinite(row[score])]
    if not usable:
        nothing = float("nan"), float("nan")
        return Correlation(score, float("nan"), nothing, float("nan"), nothing, {})
    x, y, beta, seed = (np.array([row[name] for row in usable], float) for name in (score, "steps", "beta", "seed"))
    of_beta = {float(b): beta == b for b in np.unique(beta)}
    every = np.ones(len(x), bool)

    def rho(kept: NDArray[np.bool_]) -> tuple[float, float, float]:
        estimate, low, high = spearman(np.column_stack([x[kept], y[kept]]))
        return float(estimate[0, 1]), float(low[0, 1]), float(high[0, 1])

    def mean_within(kept: NDArray[np.bool_]) -> float:
        found = np.array([rho(part & kept)[0] for part in of_beta.values()])
        known = found[np.isfinite(found)]
        return float(known.mean()) if len(known) else float("nan")

    overall, *interval = rho(every)
    among, half = mean_within(every), without_each(seed, mean_within)
    within = max(among - half, -1.0), min(among + half, 1.0)
    per_beta = {b: rho(part)[0] for b, part in of_beta.items()}
    return Correlation(score, overall, (interval[0], interval[1]), among, within, per_beta)


def printed() -> dict[str, float]:
    """Return the papers' correlations with steps. Duan et al. (2020) print .56 without a sign, as fewer steps are
    better."""
    names = {"dynamics": "dynamics", "MIG": "mig", "BetaVAE score": "z_diff", "FactorVAE score": "z_min_variance"}
    holtz, duan = values("holtz2022", "table_4"), values("duan2020", "figure_11")
    assert holtz is not None
    assert duan is not None
    of_task = holtz.frame[holtz.frame["task"] == "clustering"]
    found = {names[score]: float(value) for score, value in zip(of_task["score"], of_task["value"])}
    size = duan.frame.loc[duan.frame["task"] == "clustering", "value"].iloc[0]
    return {"udr_spearman": -float(size), **found}


def table(rows: Sequence[dict[str, Any]], found: Sequence[Correlation]) -> pd.DataFrame:
    """Return one row per score: rho with its interval, overall and within a beta, the rho of each beta, and the
    paper's."""
    papers = printed()
    lines = []
    for one in found:
        of_beta = {f"beta_{beta:g}": rho for beta, rho in one.per_beta.items()}
        low, high = one.interval
        within_low, within_high = one.within_interval
        line = {"score": one.score, "rho": one.rho, "low": low, "high": high, "verdict": one.verdict}
        line |= {"within": one.within, "within_low": within_low, "within_high": within_high}
        line |= {"within_verdict": verdict(one.within_interval), **of_beta}
        known = sum(row[one.score] is not None for row in rows)
        lines.append(line | {"paper": papers.get(one.score, np.nan), "models": known})
    return pd.DataFrame(lines)


def sentence(found: Sequence[Correlation]) -> str:
    """Return whether the study agrees with the papers' .56 (UDR_S) and -.59 (dynamics score)."""
    papers, by = printed(), {one.score: one for one in found}
    says = {"agrees": "better codes take fewer steps", "disagrees": "better codes take more steps"}
    parts = []
    for score, whose in (("udr_spearman", "Duan et al. (2020)"), ("dynamics", "Holtz et al. (2022)")):
        one, paper = by[score], papers[score]
        name = SCORES[score][0].upper() + SCORES[score][1:]
        if np.isnan(one.rho):
            parts.append(f"{name}: no rho, as there are too few models, or all are equal in steps or scores.")
            continue
        inside = one.interval[0] <= paper <= one.interval[1]
        parts.append(
            f"{name}: rho is {number(one.rho)} {bounds(one.interval)}, so "
            f"{says.get(one.verdict, 'its sign cannot be told')}; the {paper:+z.2f} of {whose} is "
            f"{'inside' if inside else 'outside'} the interval. Within a beta it is {number(one.within)} "
            f"{bounds(one.within_interval)}: {says.get(verdict(one.within_interval), 'its sign cannot be told')}."
        )
    return " ".join(parts)


def number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:+z.2f}"


def bounds(interval: tuple[float, float]) -> str:
    return "-" if np.isnan(interval).any() else f"[{interval[0]:+z.2f}, {interval[1]:+z.2f}]"


def scatter(rows: Sequence[dict[str, Any]], found: Sequence[Correlation], cap: int) -> Chart:
    """Return a chart of steps against each score, a point per vision model."""
    panels = []
    for one in found:
        series = []
        for i, beta in enumerate(sorted({row["beta"] for row in rows})):
            of = [row for row in rows if row["beta"] == beta and row[one.score] is not None]
            x, y = tuple(row[one.score] for row in of), tuple(row["steps"] for row in of)
            series.append(Series(f"beta {beta:g}", x, y, colour=i))
        title = f"rho {number(one.rho)} {bounds(one.interval)}"
        panels.append(Panel(title, tuple(series), SCORES[one.score], "steps to 90 % success", reference=cap))
    return Chart("dots", tuple(panels))


def write_analysis(folder: Path, rows: Sequence[dict[str, Any]], cap: int, *, figures: bool = True) -> pd.DataFrame:
    """Write analysis/clustering.csv and .png of a study's rows; return the table."""
    found = correlations(rows)
    frame = table(rows, found)
    with atomic(folder / "analysis" / "clustering.csv") as part:
        frame.to_csv(part, index=False)
    if figures:
        with atomic(folder / "analysis" / "clustering.png") as part:
            draw(scatter(rows, found, cap)).savefig(part)
    return frame


SHOWN = {"duan2020": "figure_11", "holtz2022": "table_4"}


def write_papers(folder: Path, paper: str | None = None, *, figures: bool = True) -> Iterator[Made]:
    """Make both, or that of one paper, in analysis/PAPER; what other studies show of them is left out."""
    study = Study(folder, pd.DataFrame({name: [] for name in COLUMNS["results"]}))
    for name, item in SHOWN.items():
        if paper in (None, name) and (figures or not item.startswith("figure")):
            made = make(items()[name][item], study, folder / "analysis" / name)
            if not made.missing:
                yield made
