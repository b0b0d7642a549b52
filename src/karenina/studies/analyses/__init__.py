"""The papers' analyses of a study: one module each, with the function, its figure and its caption.

A function goes from the table of `karenina.results` to a tidy table with 95 % intervals: bootstrap percentiles over
runs, unless said otherwise. A score is a metric, followed by the part where a metric measures several ("dci_lasso
disentanglement").
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from karenina._figures import Figure
from karenina._files import atomic, sweep
from karenina.studies.analyses import (
    agreement,
    beats_random,
    by_method,
    by_strength,
    dynamics,
    polarised,
    selectors,
    tasks,
    total_correlation,
    transfer,
    udr_partners,
    udr_versions,
    unsupervised,
    variance_explained,
)
from karenina.studies.analyses.charts import Chart, draw
from karenina.studies.analyses.shared import correlation_chart, correlations_caption, growth_caption, growth_chart
from karenina.studies.execution.folder import Folder
from karenina.studies.results.table import NotEnough, read_parquet, results


@dataclass(frozen=True)
class Analysis:
    """title: a question or a heading. compute: the results (and the study's table `extra`) -> a tidy table.

    chart: (that table, the scores to draw or None) -> a chart. caption: (that table, scores by importance) -> what
    it shows, in words.
    """

    title: str
    compute: Callable[..., pd.DataFrame]
    chart: Callable[[pd.DataFrame, Sequence[str] | None], Chart]
    caption: Callable[[pd.DataFrame, Sequence[str]], str] = correlations_caption
    extra: str = ""

    def figure(self, frame: pd.DataFrame, scores: Sequence[str] | None = None) -> Figure:
        """The chart for print."""
        return draw(self.chart(frame, scores))


ANALYSES: dict[str, Analysis] = {
    "agreement": Analysis("Do the metrics agree?", agreement.compute, correlation_chart, agreement.caption),
    "agreement_kendall": Analysis(
        "Do the metrics agree? (Kendall)",
        partial(agreement.compute, kind="kendall"),
        correlation_chart,
        agreement.caption,
    ),
    "by_method": Analysis("Scores by method", by_method.compute, by_method.chart, by_method.caption),
    "by_strength": Analysis("Scores against strength", by_strength.compute, by_strength.chart, by_strength.caption),
    "variance_explained": Analysis(
        "Method, strength or luck?", variance_explained.compute, variance_explained.chart, variance_explained.caption
    ),
    "total_correlation": Analysis(
        "Dependence between latents", total_correlation.compute, total_correlation.chart, total_correlation.caption
    ),
    "unsupervised": Analysis("Label-free scores against metrics", unsupervised.compute, correlation_chart),
    "selectors": Analysis(
        "Which label-free score chooses best?", selectors.compute, selectors.chart, selectors.caption
    ),
    "transfer": Analysis("Do good settings transfer to other data?", transfer.compute, correlation_chart),
    "beats_random": Analysis(
        "Does choosing beat chance?", beats_random.compute, beats_random.chart, beats_random.caption
    ),
    "udr": Analysis(
        "UDR against metrics, by method",
        partial(unsupervised.compute, by=("data", "method"), start=("udr",)),
        correlation_chart,
    ),
    "udr_versions": Analysis("Versions of UDR", udr_versions.compute, udr_versions.chart, udr_versions.caption),
    "udr_partners": Analysis(
        "How many partners does UDR need?", udr_partners.compute, growth_chart, growth_caption, extra="pairs"
    ),
    "dynamics": Analysis(
        "Training dynamics against metrics", dynamics.compute, growth_chart, growth_caption, extra="dynamics"
    ),
    "polarised": Analysis("Latents switched off", polarised.compute, polarised.chart, polarised.caption),
    "tasks": Analysis("What codes are good for, against scores", tasks.compute, correlation_chart),
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
    folder = Folder(path)
    frame = results(path)
    if frame.empty:
        raise ValueError(f"{folder.path} has no finished run yet")
    status = folder.status()
    if len(status.done) < status.total:
        warnings.warn(
            f"{folder.path} is not complete: {len(status.done)} of {status.total} models are analysed", stacklevel=2
        )
    found = {name: apply(name, frame, partial(extra_table, folder.path)) for name in ANALYSES}
    out = folder.path / "analysis"
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
    """The table of an analysis, or what the results lack for it. extra: another table of the study by its name."""
    analysis = ANALYSES[name]
    more = extra(analysis.extra) if analysis.extra else None
    if analysis.extra and more is None:
        return f"needs {analysis.extra}.parquet, which `karenina study run` writes when all models are there"
    try:
        found = analysis.compute(frame) if more is None else analysis.compute(frame, more)
    except NotEnough as error:
        return str(error)
    return found if len(found) else "needs more runs"


def extra_table(folder: Path, name: str) -> pd.DataFrame | None:
    file = folder / f"{name}.parquet"
    return read_parquet(file).to_pandas() if file.exists() else None
