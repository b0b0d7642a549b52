"""The figures of a report: every analysis of the study, and pictures of its best and its worst models: traversals,
similarities, importances, dynamics."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina._files import atomic
from karenina.drawing.charts import FONT, Chart, Heat, Panel, Series, draw, plain_number
from karenina.drawing.pictures import mosaic, picture, show_rows, traverse_prior
from karenina.metrics._dci import dci
from karenina.pages.choice import CHECKS, LABEL_FREE, check_scores
from karenina.pages.contents import Contents, EncodedImages
from karenina.pages.model import normalised_information
from karenina.selection import dynamics, similarity_matrix
from karenina.studies.analyses import ANALYSES, apply
from karenina.studies.analyses.correlations import growth_chart
from karenina.studies.analyses.scores import WORDS
from karenina.training.run import open as open_run

if TYPE_CHECKING:
    from karenina.drawing.figure import Figure

MOST_PANELS = 4
MOST_DATA_SETS = 4  # whose best and worst models are drawn
EACH = 3  # models at each end
ROWS = 3000  # inputs for similarities and importances: enough for a picture
MOST_LATENTS = 10
MOST_SEEDS = 4
DOTS = 400  # of a cloud of points: more would hide each other
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


def sections(contents: Contents, folder: Path, say: Callable[[str], None], *, files: bool = False) -> list[Section]:
    """Return every section for which there is enough data; their tables are in `folder` as CSV.

    files: also write the figures there, as PNG and PDF, which takes most of the time.
    """
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
        found.append(keep(chart, folder, name, analysis.title, text, folded=folded, table=True, files=files))
    parts = [Section("analyses", "Analyses", "", tuple(sorted(found, key=lambda one: one.folded)), tuple(missing))]
    return parts + _best_and_worst(contents, folder, say, files)


def _says_it_all(name: str, frame: Any) -> bool:
    """Return whether the caption has every number of the chart: a single bar, or a curve of a single point."""
    if ANALYSES[name].chart is growth_chart:
        return bool(frame["partners" if "partners" in frame else "seeds"].nunique() == 1)
    return name in ("polarised", "beats_random") and len(frame) < 2


def _best_and_worst(contents: Contents, folder: Path, say: Callable[[str], None], files: bool) -> list[Section]:
    """Return figures of the best and worst models beside each other, for each data set."""
    parts: dict[str, list[Shown]] = {"alike": [], "traversals": [], "importance": [], "dynamics": []}
    for (data,), rows in contents.scores.groups("data")[:MOST_DATA_SETS]:
        names = [str(contents.about["run"].iloc[i]) for i in rows]
        for kind, drawn in best_and_worst(contents, str(data), names):
            say(f"figure {drawn.name}")
            about = (drawn.name, drawn.title, drawn.caption, drawn.pictures)
            parts[kind].append(keep(drawn.figure, folder, *about, files=files))
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
    figure: "Chart | Figure",
    folder: Path,
    name: str,
    title: str,
    text: str,
    pictures: tuple[dict[str, Any], ...] = (),
    *,
    folded: bool = False,
    table: bool = False,
    files: bool = True,
) -> Shown:
    """Return a chart or a figure for the page. files: write it as PNG and PDF. table: there is a CSV of its numbers."""
    written = [f"{name}.png", f"{name}.pdf"] if files else []
    if files:
        drawn = draw(figure) if isinstance(figure, Chart) else figure
        with atomic(folder / written[0]) as png, atomic(folder / written[1]) as pdf:
            drawn.savefig(png, pdf)
    chart = figure.to_json() if isinstance(figure, Chart) else None
    return Shown(name, title, text, chart, pictures, folded, (*written, *([f"{name}.csv"] if table else [])))


class Drawn(NamedTuple):
    """A chart; or a figure for print, with the same as pictures for the page, {"label", "rows", "off", "picture"}."""

    name: str
    title: str
    caption: str
    figure: "Chart | Figure"
    pictures: tuple[dict[str, Any], ...] = ()


def best_and_worst(contents: Contents, data: str, names: list[str]) -> Iterator[tuple[str, Drawn]]:
    """Draw figures, each with its section, of the models `names` of one data set."""
    best, worst = ends(contents, names)
    if not best:
        return
    several = contents.about["data"].nunique() > 1
    tag = f"_{re.sub(r'[^A-Za-z0-9]+', '_', data).strip('_')[:40]}" if several else ""
    where = f" on {data}" if several else ""
    by = "UDR" if contents.ranked_by else ranking(contents)
    both = (("best", f"Highest {by}{where}", best), ("worst", f"Lowest {by}{where}", worst))
    for which, title, chosen in both:
        if chosen:
            try:
                figure, pictures, text = _traversals(contents, chosen)
            except (ValueError, OSError) as error:
                contents.note(f"A model could not be opened: {error}")
                continue
            yield "traversals", Drawn(f"traversals_{which}{tag}", title, text, figure, pictures)
    for which, title, chosen in both:
        if len(chosen) > 1:
            chart, text = _similarities(contents, chosen)
            yield "alike", Drawn(f"similarity_{which}{tag}", title, text, chart)
    inputs = contents.inputs_at_hand(data)
    if inputs is not None and inputs.names:
        shown = [name for name in (best[0], *worst[-1:]) if _active(contents, name).any()]
        if shown:
            chart, text = _hintons(contents, shown, inputs)
            yield "importance", Drawn(f"importance{tag}", f"Highest and lowest {by}{where}", text, chart)
        if _active(contents, best[0]).any():
            chart, text = _factors(contents, best[0], inputs)
            yield "importance", Drawn(f"factors{tag}", f"Factors against latents{where}", text, chart)
    yield from (("dynamics", drawn) for drawn in _dynamics(contents, names, tag, where))


def ends(contents: Contents, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the best and the worst models by UDR, or by the first supervised score; no model is in both."""
    by = ranking(contents)
    if by is None or len(names) < 2:
        return [], []
    place = dict(zip(contents.about["run"], contents.score(by)))
    known = sorted((name for name in names if np.isfinite(place[name])), key=lambda name: -place[name])
    each = min(EACH, len(known) // 2)
    return known[:each], known[len(known) - each :] if each else []


def ranking(contents: Contents) -> str | None:
    """Return the score by which models are ordered."""
    return contents.ranked_by or next(iter(check_scores(contents)), None)


def _label(contents: Contents, name: str) -> str:
    """Return the name of a model and its UDR."""
    label = str(contents.about.loc[name, "label"])
    by = contents.ranked_by
    if by is None:
        return label
    return f"{label}, UDR {dict(zip(contents.about['run'], contents.score(by)))[name]:.2f}"


def _active(contents: Contents, name: str) -> NDArray[np.bool_]:
    """Return which latents of a model are active."""
    return np.asarray(contents.codes(name)[1] > contents.kl_threshold)


def _latents(contents: Contents, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return latents, the largest KL first, and which of these are active."""
    kl = contents.codes(name)[1]
    order = np.argsort(-kl, kind="stable")[:MOST_LATENTS]
    return order, kl[order] > contents.kl_threshold


def _active_latents(contents: Contents, name: str) -> NDArray[np.int64]:
    """Return the active latents, the largest KL first; the first latent if there are none."""
    order, active = _latents(contents, name)
    return order[active] if active.any() else order[:1]


def _traversals(contents: Contents, names: list[str]) -> tuple["Figure", tuple[dict[str, Any], ...], str]:
    """Draw traversals of models side by side; return them for the page as well, and the caption."""
    from karenina.drawing.figure import Figure

    figure = Figure(figsize=(2.4 * len(names), 3.2), layout="constrained")
    counts, spans, pictures = [], [], []
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        order, active = _latents(contents, name)
        start = np.array(contents.codes(name)[0][0], dtype=np.float32)
        run = open_run(contents.paths[name])
        pixels = mosaic(traverse_prior(run, start, order, 7))
        side = pixels.shape[1] // len(order)
        alpha = np.repeat(np.where(active, 1.0, 0.25), side)[:, None] * np.ones(pixels.shape[1:])
        show_rows(axis, pixels, order, FONT - 1, alpha)
        for tick, on in zip(axis.get_yticklabels(), active):
            tick.set_color("black" if on else "0.6")
        axis.set_title(_label(contents, name).replace(", ", "\n"), fontsize=FONT - 1)
        counts.append(int(active.sum()))
        spans.append(f"-{run.prior_span():g} to {run.prior_span():g}")
        shown = {"label": _label(contents, name), "run": name, "rows": [f"latent {latent}" for latent in order]}
        pictures.append({**shown, "off": [not on for on in active], "picture": picture(pixels, active)})
    listed, moves = ", ".join(map(str, counts)), ", ".join(spans if len(set(spans)) > 1 else spans[:1])
    many = f"of the {len(names)} models" if len(names) > 1 else "of the model"
    return figure, tuple(pictures), f"Active latents {many}: {listed}. Columns go from {moves}."


def _similarities(contents: Contents, names: list[str]) -> tuple[Chart, str]:
    """Draw the similarity of each pair of models, and return the caption."""
    pairs = list(combinations(names, 2))
    matrices, shares = [], []
    for a, b in pairs:
        rows, columns = (_active_latents(contents, name) for name in (a, b))
        # Without inactive latents: their codes, once standardised, are noise to which the lasso gives any weight.
        target, source = (np.array(contents.codes(n)[0][:ROWS, kept]) for n, kept in ((a, rows), (b, columns)))
        matrix = similarity_matrix(target, source)
        matrices.append((rows, columns, matrix))
        sums = matrix.sum(axis=1)
        shares += (matrix.max(axis=1)[sums > 0] / sums[sums > 0]).tolist()
    top = max(1.0, *(float(matrix.max(initial=0.0)) for *_, matrix in matrices))
    label = contents.about["label"]
    panels = [
        Heat(
            f"rows: {label[a]}", tuple(map(str, rows)), tuple(map(str, columns)), matrix, limits=(0.0, top),
            column_label=f"columns: {label[b]}",
        )
        for (a, b), (rows, columns, matrix) in zip(pairs, matrices)
    ]  # fmt: skip
    share = f"{100 * np.mean(shares):.0f} %" if shares else "no part"
    return Chart("heat", tuple(panels), "similarity (lasso weight)"), (
        f"The best match of an active latent carries {share} of its similarity to the other model, "
        f"on average over {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}; "
        "100 % would be alike up to order and sign."
    )


def _hintons(contents: Contents, names: list[str], inputs: EncodedImages) -> tuple[Chart, str]:
    """Draw importances of active latents alone, and return the caption.

    A forest, which does not mind the scale, would read factors off the minute mean codes of inactive ones, too.
    """
    panels, texts = [], []
    for name in names:
        order, active = _latents(contents, name)
        kept = order[active]
        codes = np.array(contents.codes(name)[0][:ROWS, kept])
        found = dci(codes, inputs.factors[: len(codes)], model="forest", continuous=list(inputs.continuous))
        matrix = np.full((len(inputs.names), len(order)), np.nan)
        matrix[:, active] = np.nan_to_num(found.matrix)
        off = tuple(int(i) for i in np.flatnonzero(~active))
        limits = (0.0, float(np.nanmax(matrix, initial=1e-9)))
        quality = map(plain_number, found.per_factor_informativeness)
        rows, columns = tuple(f"{name}, {value}" for name, value in zip(inputs.names, quality)), tuple(map(str, order))
        title = _label(contents, name)
        panels.append(Heat(title, rows, columns, matrix, None, None, limits, "", "latent", off, squares=True))
        parts = (found.disentanglement, found.completeness, found.informativeness)
        texts.append(f"{contents.about.loc[name, 'label']}: {', '.join(f'{value:.2f}' for value in parts)}")
    text = f"Disentanglement, completeness and informativeness of the active latents. {'; '.join(texts)}."
    note = (
        "The area of a square is a latent's share of the importance for a factor. Shares add up to 1 also where a "
        "factor is hardly predicted: how well it is, at most 1, is beside its name. Grey: inactive."
    )
    return Chart("heat", tuple(panels), "importance", note), text


def _factors(contents: Contents, name: str, inputs: EncodedImages) -> tuple[Chart, str]:
    """Draw each factor against the active latent that tells most of it: figure 5 of Eastwood & Williams (2018)."""
    active = np.flatnonzero(_active(contents, name))
    codes = np.array(contents.codes(name)[0][:ROWS, active])
    factors = inputs.factors[: len(codes)].astype(float)
    matrix = normalised_information(codes, inputs)
    rng = np.random.default_rng(0)
    panels, texts = [], []
    for factor, values, row, continuous in zip(inputs.names, factors.T, matrix, inputs.continuous):
        best = int(np.argmax(row))
        shown = values if continuous else _apart(values, rng)
        x, y = (column[:DOTS].tolist() for column in (shown, codes[:, best]))
        at = [f"{value:g}" for value in values[:DOTS]]
        panels.append(Panel("", (Series("", x, y, at=at),), factor, f"latent {active[best]}"))
        texts.append(f"{factor}: latent {active[best]} ({row[best]:.2f})")
    label = contents.about.loc[name, "label"]
    text = "the active latent that tells most of each factor, as a share of its entropy"
    note = f"{min(DOTS, len(codes))} images; values of discrete factors are spread a little."
    return Chart("dots", tuple(panels), note=note), f"{label}: {text}: {', '.join(texts)}."


def _apart(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return discrete values (n,) with some jitter, 0.15 of the least step, so that points do not hide each other."""
    step = np.diff(np.unique(values)).min() if np.ptp(values) > 0 else 0.0
    return values + 0.15 * step * rng.uniform(-1, 1, len(values))


def _dynamics(contents: Contents, names: list[str], tag: str, where: str) -> Iterator[Drawn]:
    """Draw joint embeddings of the seeds of the settings with the best and worst dynamics score (Holtz et al. 2022)."""
    traced = [name for name in names if (contents.paths[name] / "trace.npy").exists()]
    settings: dict[str, list[str]] = {}
    for name in traced:
        settings.setdefault(str(contents.about.loc[name, "setting"]), []).append(name)
    settings = {setting: members for setting, members in settings.items() if len(members) > 1}
    place = dict(zip(contents.about["run"], contents.score("dynamics")))
    order = sorted(settings, key=lambda setting: -np.nan_to_num(place[settings[setting][0]], nan=-np.inf))
    for which, setting in zip(("most", "least"), dict.fromkeys([*order[:1], *order[-1:]])):
        members = settings[setting][:MOST_SEEDS]
        try:
            traces = [open_run(contents.paths[name]).trace for name in members]
        except (ValueError, OSError) as error:
            contents.note(f"The training dynamics of a setting are not shown: {error}")
            continue
        found = dynamics([trace for trace in traces if trace is not None])
        setting = str(contents.about.loc[members[0], "setting_label"])
        text = f"{setting}: mean squared MMD between {len(members)} seeds {found.mean_mmd[0]:.4f}."
        title = f"The setting whose seeds learn {which} alike{where}"
        yield Drawn(f"dynamics_{which}{tag}", title, text, _planes(contents, members, found.planes[0]))


def _planes(contents: Contents, names: list[str], planes: NDArray[np.floating]) -> Chart:
    """Return the chart of a joint embedding of seeds."""
    series = []
    for i, (name, points) in enumerate(zip(names, planes[:, -1])):
        if points.shape[-1] > 1:
            x, y = (column[:DOTS].tolist() for column in points.T[:2])
            series.append(Series(f"seed {contents.about.loc[name, 'seed']}", x, y, colour=i))
    return Chart("dots", (Panel("", tuple(series), bare=True),))
