"""The figures of a report: every analysis of the study, and pictures of its best and its worst models."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from karenina._figures import Figure
from karenina._files import atomic
from karenina.pages.best_and_worst import best_and_worst
from karenina.pages.choice import CHECKS, LABEL_FREE, check_scores
from karenina.pages.contents import Contents
from karenina.studies.analyses import ANALYSES, apply
from karenina.studies.analyses.shared import growth_curves

DPI = 110
MOST_PANELS = 4
MOST_DATA_SETS = 4  # whose best and worst models are drawn


@dataclass(frozen=True)
class Shown:
    """A figure in the page. src: it as PNG, in a data URI; "" where there is only the caption."""

    name: str
    title: str
    caption: str
    src: str = ""
    width: int = 0
    height: int = 0


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
    for name, analysis in ANALYSES.items():
        frame = apply(name, contents.frame, contents.extra)
        if isinstance(frame, str):
            missing.append((analysis.title, frame))
            continue
        say(f"figure {name}")
        text = analysis.caption(frame, prefer)
        if analysis.figure is growth_curves and frame.groupby("score").size().max() == 1:
            found.append(Shown(name, analysis.title, text))  # one number of partners: nothing grows
            continue
        present = set(frame["score"]) if "score" in frame else set()
        chosen = [score for score in dict.fromkeys([*ranked, *prefer]) if score in present]
        figure = analysis.figure(frame, chosen[:MOST_PANELS] or None)
        found.append(keep(figure, folder, name, analysis.title, text))
    parts = [Section("analyses", "Analyses", "", tuple(found), tuple(missing))]
    return parts + _best_and_worst(contents, folder, say)


def _best_and_worst(contents: Contents, folder: Path, say: Callable[[str], None]) -> list[Section]:
    """Best and worst models beside each other, for each data set."""
    parts: dict[str, list[Shown]] = {"alike": [], "traversals": [], "importance": [], "dynamics": []}
    for (data,), rows in contents.scores.groups("data")[:MOST_DATA_SETS]:
        names = [str(contents.about["run"].iloc[i]) for i in rows]
        for kind, drawn in best_and_worst(contents, str(data), names):
            say(f"figure {drawn.name}")
            parts[kind].append(keep(drawn.figure, folder, drawn.name, drawn.title, drawn.caption))
    headings = {
        "traversals": (
            "Traversals of the best and the worst",
            "One row per latent, the largest KL first; uninformative ones are faded.",
        ),
        "alike": (
            "How alike models are",
            "Well-disentangled models are alike up to order and sign: one bright cell per row.",
        ),
        "importance": (
            "Importance of latents for factors",
            "Hinton diagrams: the area of a square is the importance (forest).",
        ),
        "dynamics": (
            "Training dynamics",
            "Points are inputs at the end of training, in the plane of a joint embedding of seeds.",
        ),
    }
    return [
        Section(kind, *headings[kind], tuple(parts[kind]), pairs=True)  # type: ignore[misc]
        for kind in headings
        if parts[kind]
    ]


def keep(figure: Figure, folder: Path, name: str, title: str, text: str) -> Shown:
    """Write a figure as PNG and PDF, and give it for the page."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png")
    figure.set_layout_engine("none")  # it is laid out now; doing it again for the PDF takes as long as drawing
    for suffix in ("png", "pdf"):
        with atomic(folder / f"{name}.{suffix}") as part:
            if suffix == "png":
                part.write_bytes(buffer.getvalue())
            else:
                figure.savefig(part, format="pdf")
    # 256 colours are enough for a chart and take a third of the bytes.
    image = Image.open(buffer).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    small = io.BytesIO()
    image.save(small, "PNG", optimize=True)
    src = f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}"
    return Shown(name, title, text, src, image.width, image.height)
