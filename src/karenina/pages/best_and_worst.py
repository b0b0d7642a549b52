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
from karenina.pages.model import inputs_of, normalised_information, traverse_prior
from karenina.training.pictures import mosaic, prior_span

EACH = 3  # models at each end
ROWS = 3000  # inputs for similarities and importances: enough for a picture
MOST_LATENTS = 10
MOST_SEEDS = 4


@dataclass(frozen=True)
class Drawn:
    name: str
    title: str
    caption: str
    figure: Figure


def best_and_worst(contents: Contents, data: str, names: list[str]) -> Iterator[tuple[str, Drawn]]:
    """(section, figure) for the models `names` of one data set."""
    best, worst = ends(contents, names)
    if not best:
        return
    several = contents.about["data"].nunique() > 1
    tag = f"_{re.sub(r'[^A-Za-z0-9]+', '_', data).strip('_')[:40]}" if several else ""
    where = f" on {data}" if several else ""
    for which, chosen in (("best", best), ("worst", worst)):
        if chosen:
            figure, text = _traversals(contents, chosen)
            yield "traversals", Drawn(f"traversals_{which}{tag}", f"The {which}{where}", text, figure)
    for which, chosen in (("best", best), ("worst", worst)):
        if len(chosen) > 1:
            figure, text = _similarities(contents, chosen)
            yield "alike", Drawn(f"similarity_{which}{tag}", f"The {which}{where}", text, figure)
    inputs = inputs_of(contents, data)
    if inputs is not None and inputs.names:
        figure, text = _hintons(contents, [best[0], *worst[-1:]], inputs)
        yield "importance", Drawn(f"importance{tag}", f"Best and worst{where}", text, figure)
        figure, text = _factors(contents, best[0], inputs)
        yield "importance", Drawn(f"factors{tag}", f"Factors against latents{where}", text, figure)
    yield from (("dynamics", drawn) for drawn in _dynamics(contents, names, tag, where))


def ends(contents: Contents, names: list[str]) -> tuple[list[str], list[str]]:
    """The best and the worst models by UDR, or by the first supervised score; the worst last. No model is in both."""
    from karenina.pages.choice import check_scores

    by = contents.ranked_by or next(iter(check_scores(contents)), None)
    if by is None or len(names) < 2:
        return [], []
    place = dict(zip(contents.about["run"], contents.score(by)))
    known = sorted((name for name in names if np.isfinite(place[name])), key=lambda name: -place[name])
    each = min(EACH, len(known) // 2)
    return known[:each], known[len(known) - each :] if each else []


def _label(contents: Contents, name: str) -> str:
    label = str(contents.about.loc[name, "label"])
    by = contents.ranked_by
    if by is None:
        return label
    return f"{label}\nUDR {dict(zip(contents.about['run'], contents.score(by)))[name]:.2f}"


def _latents(contents: Contents, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Latents, the largest KL first, and which of these are informative."""
    kl = contents.codes(name)[1]
    order = np.argsort(-kl, kind="stable")[:MOST_LATENTS]
    return order, kl[order] > contents.kl_threshold


def _informative(contents: Contents, name: str) -> NDArray[np.int64]:
    """The informative latents, the largest KL first; the first latent if there are none."""
    order, informative = _latents(contents, name)
    return order[informative] if informative.any() else order[:1]


def _traversals(contents: Contents, names: list[str]) -> tuple[Figure, str]:
    from karenina.training import open as open_run

    figure = Figure(figsize=(3.1 * len(names), 4.4), layout="constrained")
    counts, spans = [], []
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        order, informative = _latents(contents, name)
        start = np.array(contents.codes(name)[0][0], dtype=np.float32)
        run = open_run(contents.paths[name])
        pixels = mosaic(traverse_prior(run, start, order, 7), informative)
        axis.imshow(pixels[0] if len(pixels) != 3 else pixels.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1)
        side = pixels.shape[1] / len(order)
        axis.set_yticks(side * (np.arange(len(order)) + 0.5), order, fontsize=7)
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.set_title(_label(contents, name), fontsize=8)
        counts.append(int(informative.sum()))
        spans.append(f"-{prior_span(run):g} to {prior_span(run):g}")
    listed, moves = ", ".join(map(str, counts)), ", ".join(spans if len(set(spans)) > 1 else spans[:1])
    return figure, f"Informative latents of the {len(names)} models: {listed}. Columns go from {moves}."


def _similarities(contents: Contents, names: list[str]) -> tuple[Figure, str]:
    from karenina.selection import similarity_matrix

    pairs = list(combinations(names, 2))
    figure = Figure(figsize=(3.1 * len(pairs), 3.4), layout="constrained")
    shares = []
    for axis, (a, b) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs):
        rows, columns = (_informative(contents, name) for name in (a, b))
        # Without inactive latents: their codes, once standardised, are noise to which the lasso gives any weight.
        target, source = (np.array(contents.codes(n)[0][:ROWS, kept]) for n, kept in ((a, rows), (b, columns)))
        matrix = similarity_matrix(target, source)
        axis.imshow(matrix, cmap="viridis", vmin=0, vmax=max(float(matrix.max()), 1e-9))
        axis.set_yticks(range(len(rows)), rows, fontsize=7)
        axis.set_xticks(range(len(columns)), columns, fontsize=7)
        axis.set_ylabel(contents.about.loc[a, "label"], fontsize=7)
        axis.set_xlabel(contents.about.loc[b, "label"], fontsize=7)
        sums = matrix.sum(axis=1)
        shares += (matrix.max(axis=1)[sums > 0] / sums[sums > 0]).tolist()
    share = f"{100 * np.mean(shares):.0f} %" if shares else "no part"
    return figure, (
        f"The best match of an informative latent carries {share} of its similarity to the other model, "
        f"on average over {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}; "
        "100 % would be alike up to order and sign."
    )


def _hintons(contents: Contents, names: list[str], inputs: Inputs) -> tuple[Figure, str]:
    from karenina.metrics._dci import dci
    from karenina.metrics.plots import hinton

    figure = Figure(figsize=(4.4 * len(names), 1.6 + 0.36 * len(inputs.names)), layout="constrained")
    texts = []
    for axis, name, which in zip(figure.subplots(1, len(names), squeeze=False)[0], names, ("best", "worst")):
        codes = np.array(contents.codes(name)[0][:ROWS])
        found = dci(codes, inputs.factors[: len(codes)], model="forest", continuous=list(inputs.continuous))
        order, _ = _latents(contents, name)
        hinton(axis, np.nan_to_num(found.matrix[:, order]))
        axis.set_yticks(range(len(inputs.names)), inputs.names, fontsize=7)
        axis.set_xticks(range(len(order)), order, fontsize=7)
        axis.set_xlabel("latent", fontsize=7)
        axis.set_title(_label(contents, name), fontsize=8)
        texts.append(
            f"of the {which} {found.disentanglement:.2f}, {found.completeness:.2f} and {found.informativeness:.2f}"
        )
    return figure, f"Disentanglement, completeness and informativeness {'; '.join(texts)}."


def _factors(contents: Contents, name: str, inputs: Inputs) -> tuple[Figure, str]:
    """Each factor against the latent that tells most of it: figure 5 of Eastwood & Williams (2018)."""
    codes = np.array(contents.codes(name)[0][:ROWS])
    factors = inputs.factors[: len(codes)].astype(float)
    matrix = normalised_information(codes, inputs)
    columns = min(4, len(inputs.names))
    lines = -(-len(inputs.names) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.2 * lines), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    rng = np.random.default_rng(0)
    for axis, factor, values, row, continuous in zip(axes, inputs.names, factors.T, matrix, inputs.continuous):
        latent = int(np.argmax(row))
        shown = values if continuous else _apart(values, rng)
        axis.plot(shown, codes[:, latent], ".", markersize=1.5, color="#0072b2", alpha=0.4, rasterized=True)
        axis.set_xlabel(factor, fontsize=8)
        axis.set_ylabel(f"latent {latent}", fontsize=8)
        axis.tick_params(labelsize=6)
    for axis in axes[len(inputs.names) :]:
        axis.remove()
    texts = [f"{factor}: latent {int(np.argmax(row))} ({row.max():.2f})" for factor, row in zip(inputs.names, matrix)]
    label = contents.about.loc[name, "label"]
    return figure, f"{label}: the latent that tells most of each factor, as a share of its entropy: {', '.join(texts)}."


def _apart(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Discrete values (n,) with some jitter, so that points do not hide each other: 0.15 of the least step between."""
    step = np.diff(np.unique(values)).min() if np.ptp(values) > 0 else 0.0
    return values + 0.15 * step * rng.uniform(-1, 1, len(values))


def _dynamics(contents: Contents, names: list[str], tag: str, where: str) -> Iterator[Drawn]:
    """Joint embeddings of the seeds of the settings with the best and the worst dynamics score. Holtz et al. (2022)."""
    from karenina.selection import dynamics

    traced = [name for name in names if (contents.paths[name] / "trace.npy").exists()]
    settings: dict[str, list[str]] = {}
    for name in traced:
        settings.setdefault(str(contents.about.loc[name, "setting"]), []).append(name)
    settings = {setting: members for setting, members in settings.items() if len(members) > 1}
    place = dict(zip(contents.about["run"], contents.score("dynamics")))
    order = sorted(settings, key=lambda setting: -np.nan_to_num(place[settings[setting][0]], nan=-np.inf))
    for which, setting in zip(("most", "least"), dict.fromkeys([*order[:1], *order[-1:]])):
        members = settings[setting][:MOST_SEEDS]
        found = dynamics([np.load(contents.paths[name] / "trace.npy") for name in members])
        setting = str(contents.about.loc[members[0], "setting_label"])
        text = f"{setting}: mean squared MMD between {len(members)} seeds {found.mean_mmd[0]:.4f}."
        title = f"The setting whose seeds learn {which} alike{where}"
        yield Drawn(f"dynamics_{which}{tag}", title, text, _planes(contents, members, found.planes[0]))


def _planes(contents: Contents, names: list[str], planes: NDArray[np.floating]) -> Figure:
    from karenina.studies.analyses.shared import colour

    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    axis: Any = figure.subplots()
    markers = "os^Dvp"
    for i, (name, points) in enumerate(zip(names, planes[:, -1])):
        if points.shape[-1] < 2:
            continue
        seed = contents.about.loc[name, "seed"]
        style = {"marker": markers[i % len(markers)], "color": colour(i), "label": f"seed {seed}"}
        axis.scatter(points[:, 0], points[:, 1], s=9, alpha=0.7, linewidth=0, **style)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=7)
    return figure
