"""The papers' analyses of a study: each a function, with its figure and its caption beside it.

A function goes from the table of `karenina.results` to a tidy table with 95 % intervals (how often they cover:
benchmarks/intervals.py), over the runs unless said otherwise. A score is a metric, followed by the part where a metric
measures several ("dci_lasso disentanglement").
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from karenina._files import atomic, sweep
from karenina.drawing.charts import Chart, draw
from karenina.studies.analyses import by_setting, choosing, correlations
from karenina.studies.study import NotEnough, Study

if TYPE_CHECKING:
    from karenina.drawing.figure import Figure


@dataclass(frozen=True)
class Analysis:
    """An analysis of a study: what is computed, how it is drawn, and what is said of it.

    title: a question or a heading. compute: the results (and the study's table `extra`) -> a tidy table. chart: (that
    table, the scores to draw or None) -> a chart. caption: (that table, scores by importance) -> what it shows.
    """

    title: str
    compute: Callable[..., pd.DataFrame]
    chart: Callable[[pd.DataFrame, Sequence[str] | None], Chart]
    caption: Callable[[pd.DataFrame, Sequence[str]], str] = correlations.correlations_caption
    extra: str = ""

    def figure(self, frame: pd.DataFrame, scores: Sequence[str] | None = None) -> "Figure":
        """Draw the chart for print."""
        return draw(self.chart(frame, scores))


ANALYSES: dict[str, Analysis] = {
    "agreement": Analysis(
        "Do the metrics agree?", correlations.agreement, correlations.correlation_chart, correlations.agreement_caption
    ),
    "agreement_kendall": Analysis(
        "Do the metrics agree? (Kendall)",
        partial(correlations.agreement, kind="kendall"),
        correlations.correlation_chart,
        correlations.agreement_caption,
    ),
    "by_method": Analysis(
        "Scores by method", by_setting.by_method, by_setting.by_method_chart, by_setting.by_method_caption
    ),
    "by_strength": Analysis(
        "Scores against strength", by_setting.by_strength, by_setting.by_strength_chart, by_setting.by_strength_caption
    ),
    "variance_explained": Analysis(
        "Method, strength or luck?",
        by_setting.variance_explained,
        by_setting.variance_explained_chart,
        by_setting.variance_explained_caption,
    ),
    "total_correlation": Analysis(
        "Dependence between latents",
        by_setting.total_correlation,
        by_setting.total_correlation_chart,
        by_setting.total_correlation_caption,
    ),
    "unsupervised": Analysis(
        "Label-free scores against metrics", correlations.unsupervised, correlations.correlation_chart
    ),
    "selectors": Analysis(
        "Which label-free score chooses best?", choosing.selectors, choosing.selectors_chart, choosing.selectors_caption
    ),
    "transfer": Analysis(
        "Do good settings transfer to other data?", correlations.transfer, correlations.correlation_chart
    ),
    "beats_random": Analysis(
        "Does choosing beat chance?", choosing.beats_random, choosing.beats_random_chart, choosing.beats_random_caption
    ),
    "udr": Analysis(
        "UDR against metrics, by method",
        partial(correlations.unsupervised, by=("data", "method"), start=("udr",)),
        correlations.correlation_chart,
    ),
    "udr_versions": Analysis(
        "Versions of UDR",
        correlations.udr_versions,
        correlations.udr_versions_chart,
        correlations.udr_versions_caption,
    ),
    "udr_partners": Analysis(
        "How many partners does UDR need?",
        correlations.udr_partners,
        correlations.growth_chart,
        correlations.growth_caption,
        extra="pairs",
    ),
    "dynamics": Analysis(
        "Training dynamics against metrics",
        correlations.dynamics,
        correlations.growth_chart,
        correlations.growth_caption,
        extra="dynamics",
    ),
    "polarised": Analysis(
        "Latents switched off", by_setting.polarised, by_setting.polarised_chart, by_setting.polarised_caption
    ),
    "tasks": Analysis("What codes are good for, against scores", correlations.tasks, correlations.correlation_chart),
}


def analyse(path: str | os.PathLike[str], *, figures: bool = True) -> dict[str, pd.DataFrame | str]:
    """Run every analysis that a study has enough for; write analysis/NAME.csv and, with figures, NAME.png.

    Parameters
    ----------
    path : path
        The study's directory.
    figures : bool

    Returns
    -------
    dict
        Name of each analysis -> its table, or what the study lacks for it.
    """
    study = Study(path)
    frame = study.frame
    if frame.empty:
        raise ValueError(f"{study.path} has no finished run yet")
    status = study.status()
    if len(status.done) < status.total:
        warnings.warn(
            f"{study.path} is not complete: {len(status.done)} of {status.total} models are analysed", stacklevel=2
        )
    found = {name: apply(name, frame, study.table) for name in ANALYSES}
    out = study.path / "analysis"
    sweep(out)
    for name, table in found.items():
        if isinstance(table, str):
            continue
        with atomic(out / f"{name}.csv") as part:
            table.to_csv(part, index=False)
        if figures:
            with atomic(out / f"{name}.png") as part:
                ANALYSES[name].figure(table).savefig(part)
    return found


def apply(
    name: str, frame: pd.DataFrame, extra: Callable[[str], pd.DataFrame | None] = lambda table: None
) -> pd.DataFrame | str:
    """Return the table of an analysis, or what the results lack for it. extra: another table of the study by its
    name."""
    analysis = ANALYSES[name]
    more = extra(analysis.extra) if analysis.extra else None
    if analysis.extra and more is None:
        return f"needs {analysis.extra}.parquet, which `karenina study run` writes when all models are there"
    try:
        found = analysis.compute(frame) if more is None else analysis.compute(frame, more)
    except NotEnough as error:
        return str(error)
    return found if len(found) else "needs more runs"
