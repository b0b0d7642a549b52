"""The figures of a report: every analysis of the study, and pictures of its best and its worst models."""

import base64
import inspect
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from karenina._figures import Figure
from karenina._files import atomic
from karenina.pages import best_and_worst
from karenina.pages.choice import CHECKS, LABEL_FREE, check_scores
from karenina.pages.contents import Material
from karenina.studies.analyses import figures as of_studies
from karenina.studies.analyses.analyses import ANALYSES
from karenina.studies.analyses.captions import TITLES, sentence
from karenina.studies.analyses.files import apply

DPI = 110
MOST_PANELS = 4
MOST_DATA_SETS = 4  # whose best and worst models are drawn


@dataclass(frozen=True)
class Shown:
    """A figure in the page. src: it as PNG, in a data URI; "" where there is only the sentence."""

    name: str
    title: str
    sentence: str
    src: str = ""
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class Section:
    """Figures under a heading. missing: (analysis, what it needs). pairs: figures stand side by side where they fit."""

    id: str
    title: str
    text: str
    figures: tuple[Shown, ...]
    missing: tuple[tuple[str, str], ...] = ()
    pairs: bool = False


def sections(material: Material, folder: Path, say: Callable[[str], None]) -> list[Section]:
    """All sections that the material has enough for; their figures are also written to `folder` as PNG and PDF."""
    if len(material.about) < 2:
        return []
    found, missing = [], []
    ranked = [material.ranked_by] if material.ranked_by else []
    checks = check_scores(material)
    prefer = (*checks, *CHECKS) if checks else (*ranked, *LABEL_FREE)
    for name in ANALYSES:
        frame = apply(name, material.frame, material.extra)
        if isinstance(frame, str):
            missing.append((TITLES.get(name, name), frame))
            continue
        say(f"figure {name}")
        title, text = TITLES.get(name, name.replace("_", " ")), sentence(name, frame, prefer)
        if ANALYSES[name].figure == "growth" and frame.groupby("score").size().max() == 1:
            found.append(Shown(name, title, text))  # one number of partners: nothing grows
            continue
        figure = _drawn(name, frame, [*ranked, *prefer])
        found.append(keep(figure, folder, name, title, text))
    parts = [Section("analyses", "Analyses", "", tuple(found), tuple(missing))]
    return parts + _contrasts(material, folder, say)


def _drawn(name: str, frame: pd.DataFrame, prefer: Sequence[str]) -> Figure:
    """The analysis's figure, of the most important scores where it has a panel for each."""
    function = getattr(of_studies, ANALYSES[name].figure)
    chosen = [score for score in dict.fromkeys(prefer) if "score" in frame and score in set(frame["score"])]
    if chosen and "scores" in inspect.signature(function).parameters:
        return function(frame, scores=chosen[:MOST_PANELS])  # type: ignore[no-any-return]
    return function(frame)  # type: ignore[no-any-return]


def _contrasts(material: Material, folder: Path, say: Callable[[str], None]) -> list[Section]:
    """Best and worst models beside each other, for each data set."""
    parts: dict[str, list[Shown]] = {"alike": [], "walls": [], "importance": [], "dynamics": []}
    for (data,), rows in material.scores.groups("data")[:MOST_DATA_SETS]:
        names = [str(material.about["run"].iloc[i]) for i in rows]
        for kind, drawn in best_and_worst.draw(material, str(data), names):
            say(f"figure {drawn.name}")
            parts[kind].append(keep(drawn.figure, folder, drawn.name, drawn.title, drawn.sentence))
    headings = {
        "walls": (
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
