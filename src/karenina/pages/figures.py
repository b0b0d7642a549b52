"""The figures of a report: every analysis of the study, and pictures of its best and its worst models."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karenina._figures import Figure
from karenina._files import atomic
from karenina.pages.best_and_worst import best_and_worst
from karenina.pages.choice import CHECKS, LABEL_FREE, check_scores
from karenina.pages.contents import Contents
from karenina.studies.analyses import ANALYSES, apply
from karenina.studies.analyses.charts import Chart, draw
from karenina.studies.analyses.shared import WORDS, growth_chart

MOST_PANELS = 4
MOST_DATA_SETS = 4  # whose best and worst models are drawn
# What these show is shown beside them already; of one method, so is what goes by method.
FOLDED, FOLDED_FOR_ONE_METHOD = ("agreement_kendall",), ("by_method", "udr")


@dataclass(frozen=True)
class Shown:
    """A figure in the page. chart: as `Chart.to_json` gives it; pictures: as in `Drawn`; neither: the caption says all.

    folded: behind its title, closed. files: names in the folder `figures`. film: an animation, in a data URI.
    """

    name: str
    title: str
    caption: str
    chart: dict[str, Any] | None = None
    pictures: tuple[dict[str, Any], ...] = ()
    folded: bool = False
    files: tuple[str, ...] = ()
    film: str = ""


@dataclass(frozen=True)
class Section:
    """Figures under a heading. missing: (analysis, what it needs). pairs: figures stand side by side where they fit.
    table: lines of cells, the first being headings."""

    id: str
    title: str
    text: str
    figures: tuple[Shown, ...]
    missing: tuple[tuple[str, str], ...] = ()
    pairs: bool = False
    table: tuple[tuple[str, ...], ...] = ()


def sections(contents: Contents, folder: Path, say: Callable[[str], None]) -> list[Section]:
    """All sections that there is enough for; their figures are also written to `folder` as PNG and PDF."""
    if len(contents.about) < 2:
        return []
    found, missing = [], []
    ranked = [contents.ranked_by] if contents.ranked_by else []
    checks = check_scores(contents)
    prefer = (*checks, *CHECKS) if checks else (*ranked, *LABEL_FREE)
    one_method = contents.about["method"].nunique() == 1
    for name, analysis in ANALYSES.items():
        frame = apply(name, contents.frame, contents.extra)
        if isinstance(frame, str):
            missing.append((analysis.title, frame))
            continue
        say(f"figure {name}")
        text = analysis.caption(frame, prefer).replace("informative_latents", WORDS["informative_latents"])
        with atomic(folder / f"{name}.csv") as part:
            frame.to_csv(part, index=False)
        if _says_it_all(name, frame):
            found.append(Shown(name, analysis.title, text, files=(f"{name}.csv",)))
            continue
        present = set(frame["score"]) if "score" in frame else set()
        chosen = [score for score in dict.fromkeys([*ranked, *prefer]) if score in present]
        chart = analysis.chart(frame, chosen[:MOST_PANELS] or None)
        folded = name in FOLDED or (one_method and name in FOLDED_FOR_ONE_METHOD)
        found.append(keep(chart, folder, name, analysis.title, text, folded=folded, table=True))
    parts = [Section("analyses", "Analyses", "", tuple(sorted(found, key=lambda one: one.folded)), tuple(missing))]
    return parts + _best_and_worst(contents, folder, say)


def _says_it_all(name: str, frame: Any) -> bool:
    """Whether the caption has every number: a single bar, or a curve of a single point."""
    if ANALYSES[name].chart is growth_chart:
        return bool(frame["partners" if "partners" in frame else "seeds"].nunique() == 1)
    return name in ("polarised", "beats_random") and len(frame) < 2


def _best_and_worst(contents: Contents, folder: Path, say: Callable[[str], None]) -> list[Section]:
    """Best and worst models beside each other, for each data set."""
    parts: dict[str, list[Shown]] = {"alike": [], "traversals": [], "importance": [], "dynamics": []}
    for (data,), rows in contents.scores.groups("data")[:MOST_DATA_SETS]:
        names = [str(contents.about["run"].iloc[i]) for i in rows]
        for kind, drawn in best_and_worst(contents, str(data), names):
            say(f"figure {drawn.name}")
            figure = drawn.chart or drawn.figure
            assert figure is not None
            parts[kind].append(keep(figure, folder, drawn.name, drawn.title, drawn.caption, drawn.pictures))
    headings = {
        "traversals": (
            "Traversals at both ends of the ranking",
            "One row per latent, the largest KL first; inactive ones are faded.",
        ),
        "alike": (
            "How alike models are",
            "Well-disentangled models are alike up to order and sign: one dark cell per row. Active latents only.",
        ),
        "importance": (
            "Importance of latents for factors",
            "By a forest that predicts factors from the codes of active latents (Hinton diagrams).",
        ),
        "dynamics": (
            "Training dynamics",
            "Points are inputs at the end of training, in the plane of a joint embedding of seeds.",
        ),
    }
    return [
        Section(kind, *headings[kind], tuple(parts[kind]), pairs=kind == "dynamics")  # type: ignore[misc]
        for kind in headings
        if parts[kind]
    ]


def keep(
    figure: Chart | Figure,
    folder: Path,
    name: str,
    title: str,
    text: str,
    pictures: tuple[dict[str, Any], ...] = (),
    *,
    folded: bool = False,
    table: bool = False,
) -> Shown:
    """Write a chart or a figure as PNG and PDF, and give it for the page. table: there is a CSV of its numbers, too."""
    drawn = draw(figure) if isinstance(figure, Chart) else figure
    files = [f"{name}.png", f"{name}.pdf"]
    with atomic(folder / files[0]) as png, atomic(folder / files[1]) as pdf:
        drawn.savefig(png, pdf)
    chart = figure.to_json() if isinstance(figure, Chart) else None
    return Shown(name, title, text, chart, pictures, folded, (*files, *([f"{name}.csv"] if table else [])))
