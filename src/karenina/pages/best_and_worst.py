"""Pictures of the best models of a data set beside its worst: traversals, similarities, importances, dynamics."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina._figures import Figure
from karenina.pages.contents import Contents, Inputs
from karenina.pages.model import inputs_of, normalised_information, picture, traverse_prior
from karenina.studies.analyses.charts import FONT, Chart, Heat, Panel, Series, plain_number
from karenina.training.pictures import mosaic, prior_span

EACH = 3  # models at each end
ROWS = 3000  # inputs for similarities and importances: enough for a picture
MOST_LATENTS = 10
MOST_SEEDS = 4
DOTS = 400  # of a cloud of points: more would hide each other


@dataclass(frozen=True)
class Drawn:
    """A chart; or pictures for the page, {"label", "rows", "off", "picture"}, with the same as a figure for print."""

    name: str
    title: str
    caption: str
    chart: Chart | None = None
    figure: Figure | None = None
    pictures: tuple[dict[str, Any], ...] = ()


def best_and_worst(contents: Contents, data: str, names: list[str]) -> Iterator[tuple[str, Drawn]]:
    """(section, figure) for the models `names` of one data set."""
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
            yield "traversals", Drawn(f"traversals_{which}{tag}", title, text, figure=figure, pictures=pictures)
    for which, title, chosen in both:
        if len(chosen) > 1:
            chart, text = _similarities(contents, chosen)
            yield "alike", Drawn(f"similarity_{which}{tag}", title, text, chart)
    inputs = inputs_of(contents, data)
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
    """The best and the worst models by UDR, or by the first supervised score; the worst last. No model is in both."""
    by = ranking(contents)
    if by is None or len(names) < 2:
        return [], []
    place = dict(zip(contents.about["run"], contents.score(by)))
    known = sorted((name for name in names if np.isfinite(place[name])), key=lambda name: -place[name])
    each = min(EACH, len(known) // 2)
    return known[:each], known[len(known) - each :] if each else []


def ranking(contents: Contents) -> str | None:
    """The score by which models are ordered."""
    from karenina.pages.choice import check_scores

    return contents.ranked_by or next(iter(check_scores(contents)), None)


def _label(contents: Contents, name: str) -> str:
    label = str(contents.about.loc[name, "label"])
    by = contents.ranked_by
    if by is None:
        return label
    return f"{label}, UDR {dict(zip(contents.about['run'], contents.score(by)))[name]:.2f}"


def _active(contents: Contents, name: str) -> NDArray[np.bool_]:
    return np.asarray(contents.codes(name)[1] > contents.kl_threshold)


def _latents(contents: Contents, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Latents, the largest KL first, and which of these are active."""
    kl = contents.codes(name)[1]
    order = np.argsort(-kl, kind="stable")[:MOST_LATENTS]
    return order, kl[order] > contents.kl_threshold


def _informative(contents: Contents, name: str) -> NDArray[np.int64]:
    """The active latents, the largest KL first; the first latent if there are none."""
    order, informative = _latents(contents, name)
    return order[informative] if informative.any() else order[:1]


def _traversals(contents: Contents, names: list[str]) -> tuple[Figure, tuple[dict[str, Any], ...], str]:
    from karenina.training import open as open_run

    figure = Figure(figsize=(2.4 * len(names), 3.2), layout="constrained")
    counts, spans, pictures = [], [], []
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        order, active = _latents(contents, name)
        start = np.array(contents.codes(name)[0][0], dtype=np.float32)
        run = open_run(contents.paths[name])
        pixels = mosaic(traverse_prior(run, start, order, 7))
        side = pixels.shape[1] // len(order)
        alpha = np.repeat(np.where(active, 1.0, 0.25), side)[:, None] * np.ones(pixels.shape[1:])
        axis.imshow(
            pixels[0] if len(pixels) != 3 else pixels.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1, alpha=alpha
        )
        axis.set_yticks(side * (np.arange(len(order)) + 0.5), order, fontsize=FONT - 1)
        for tick, on in zip(axis.get_yticklabels(), active):
            tick.set_color("black" if on else "0.6")
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.set_title(_label(contents, name).replace(", ", "\n"), fontsize=FONT - 1)
        counts.append(int(active.sum()))
        spans.append(f"-{prior_span(run):g} to {prior_span(run):g}")
        shown = {"label": _label(contents, name), "run": name, "rows": [f"latent {latent}" for latent in order]}
        pictures.append({**shown, "off": [not on for on in active], "picture": picture(pixels, active)})
    listed, moves = ", ".join(map(str, counts)), ", ".join(spans if len(set(spans)) > 1 else spans[:1])
    many = f"of the {len(names)} models" if len(names) > 1 else "of the model"
    return figure, tuple(pictures), f"Active latents {many}: {listed}. Columns go from {moves}."


def _similarities(contents: Contents, names: list[str]) -> tuple[Chart, str]:
    from karenina.selection import similarity_matrix

    pairs = list(combinations(names, 2))
    matrices, shares = [], []
    for a, b in pairs:
        rows, columns = (_informative(contents, name) for name in (a, b))
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


def _hintons(contents: Contents, names: list[str], inputs: Inputs) -> tuple[Chart, str]:
    """Importances of active latents alone: a forest, which does not mind the scale, reads factors off the minute mean
    codes of inactive ones, too."""
    from karenina.metrics._dci import dci

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


def _factors(contents: Contents, name: str, inputs: Inputs) -> tuple[Chart, str]:
    """Each factor against the active latent that tells most of it: figure 5 of Eastwood & Williams (2018)."""
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
    """Discrete values (n,) with some jitter, so that points do not hide each other: 0.15 of the least step between."""
    step = np.diff(np.unique(values)).min() if np.ptp(values) > 0 else 0.0
    return values + 0.15 * step * rng.uniform(-1, 1, len(values))


def _dynamics(contents: Contents, names: list[str], tag: str, where: str) -> Iterator[Drawn]:
    """Joint embeddings of the seeds of the settings with the best and the worst dynamics score. Holtz et al. (2022)."""
    from karenina.selection import dynamics
    from karenina.training import open as open_run

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
    series = []
    for i, (name, points) in enumerate(zip(names, planes[:, -1])):
        if points.shape[-1] > 1:
            x, y = (column[:DOTS].tolist() for column in points.T[:2])
            series.append(Series(f"seed {contents.about.loc[name, 'seed']}", x, y, colour=i))
    return Chart("dots", (Panel("", tuple(series), bare=True),))
