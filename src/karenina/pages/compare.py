"""Two models side by side, their latents matched: the page of `karenina compare`."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina.drawing.charts import FONT, Chart, Heat
from karenina.drawing.figure import Figure
from karenina.drawing.pictures import mosaic, move_latents, picture, show_rows
from karenina.evaluation.scoring import Data, data_of
from karenina.pages.choice import better
from karenina.pages.figures import Section, keep
from karenina.pages.model import SHOWN, decoder_size, export_decoder, reaches
from karenina.pages.page import charts_of
from karenina.pages.template import render, save, versions
from karenina.selection import similarity_matrix
from karenina.studies.plan import shown
from karenina.training.run import Run, as_run

if TYPE_CHECKING:
    from karenina.drawing.figure import Figure

ROWS = 5000
STEPS = 7


def match(similarity: NDArray[np.floating]) -> list[tuple[int, int]]:
    """Return pairs (row, column) with the largest sum of similarities, each at most once (Hungarian method).

    >>> match(np.array([[0.1, 0.9], [0.8, 0.2]]))
    [(0, 1), (1, 0)]
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return [(int(a), int(b)) for a, b in zip(rows, columns)]


def compare(
    first: Run | str | os.PathLike[str],
    second: Run | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    kl_threshold: float = ACTIVE_KL,
    data: Data | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a page with two runs of one data set side by side.

    Every latent of one is matched with one of the other: similarities as UDR computes them, in both directions. A
    matched pair moves together on the page's sliders.

    Parameters
    ----------
    first, second : Run or path
    out : path, optional
        Folder for the page; by default `comparison`.
    kl_threshold : float
        A latent is active above this KL, in nats.
    data : DataSet, path or array (n, c, h, w), optional
        What they were trained on, if that is your own.
    data_dir : path, optional
        The folder with official files.

    Returns
    -------
    Path
        The page.

    >>> import karenina
    >>> runs = [karenina.train("blobs", latents=2, steps=1, seed=seed) for seed in (0, 1)]
    >>> compare(*runs).as_posix()
    'comparison/index.html'
    """
    runs = [as_run(first, "first"), as_run(second, "second")]
    a, b = (run.config for run in runs)
    if (a.data, a.images) != (b.data, b.images):
        raise ValueError(f"one run was trained on {a.data}, the other on {b.data}: compare runs of one data set")
    found = data_of(runs[0], data, data_dir)
    images, factors = found.sample(ROWS, np.random.default_rng(0))
    encoded = [run.encode(images) for run in runs]
    codes = [mean for mean, _ in encoded]
    kl = [run.kl_of(mean, logvar) for run, (mean, logvar) in zip(runs, encoded)]
    similarity = mutual_similarity(codes, [values > kl_threshold for values in kl])
    rows = _rows(similarity, codes, kl, kl_threshold)
    labels = [f"{letter}: {c.method} {shown(c.parameters)}, seed {c.seed}" for letter, c in zip("AB", (a, b))]
    pairs = [f"{row['a']} with {row['b']} ({row['similarity']:.2f})" for row in rows if not row["off"]]
    matched = f"Matched: {', '.join(pairs) or 'no active latents'}."
    continuous = [size is None for size in found.factor_sizes]
    verdict = [better(("A", "B"), codes[0], codes[1], factors, continuous)] if found.labelled else []
    starts = [[[round(float(v), 3) for v in c[i]] for c in codes] for i in range(SHOWN)]
    folder = Path(out) if out is not None else Path("comparison")
    heat = _heat(similarity, labels, [values > kl_threshold for values in kl])
    drawn, pictures = _traversals(runs, codes, rows)
    files = folder / "figures"
    figures = (
        keep(heat, files, "similarity", "Similarity of active latents", matched),
        keep(drawn, files, "traversals", "Traversals of matched latents", _ranges(runs), pictures),
    )
    room = sum(decoder_size(run) for run in runs) < 15_000_000
    exported = [export_decoder(run) if room else None for run in runs]
    two = {
        letter: {"label": label, "decoder": one, "span": run.prior_span(), "reach": reaches(run, mean[:SHOWN])}
        for letter, label, one, run, mean in zip("ab", labels, exported, runs, codes)
    }
    section = Section("pictures", "Pictures", "", figures)
    paths = " ".join(shlex.quote(os.path.relpath(run.path)) if run.path else "RUN" for run in runs)
    page = render(
        {
            "title": "Two models side by side",
            "subtitle": "; ".join(labels),
            "sections": [("compare", "Latents matched"), ("pictures", "Pictures"), ("how", "How it was made")],
            "has_comparison": True,
            "comparison": {"rows": rows, "sentences": [*_sentences(rows), *verdict]},
            "figure_sections": [section],
            "how": (f"Both models encoded the same {ROWS:,} images of {a.data}.",),
            "commands": (f"karenina compare {paths}",),
            "versions": versions(),
            "data": {"compare": {**two, "rows": rows, "starts": starts}, "charts": charts_of([section])},
        }
    )
    return save(folder, page)


def _ranges(runs: Any) -> str:
    """Return how far the latents go in the pictures."""
    a, b = (f"{run.prior_span():g}" for run in runs)
    return (
        f"A above B in each pair of rows; the latent of A goes from -{a} to {a}, that of B from -{b} to {b}, or back "
        "where their signs differ."
    )


def mutual_similarity(codes: list[NDArray[np.float32]], active: list[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """Return the mean similarity of A's latents to B's and of B's to A's (L_A, L_B); 0 for inactive latents."""
    found = np.zeros((len(active[0]), len(active[1])))
    if active[0].any() and active[1].any():
        a, b = (mean[:, kept] for mean, kept in zip(codes, active))
        found[np.ix_(*active)] = 0.5 * (similarity_matrix(a, b) + similarity_matrix(b, a).T)
    return found


def _rows(
    similarity: NDArray[np.float64], codes: list[NDArray[np.float32]], kl: list[NDArray[np.float64]], threshold: float
) -> list[dict[str, Any]]:
    """Return one row per matched pair, the most similar first; pairs with an inactive latent last."""
    # Inactive latents must not take the partners of active ones: they are matched among what is left.
    active = np.outer(kl[0] > threshold, kl[1] > threshold)
    found = []
    for a, b in match(similarity + (1 + similarity.max()) * active):
        x, y = codes[0][:, a], codes[1][:, b]
        varies = np.ptp(x) > 0 and np.ptp(y) > 0
        correlation = float(np.corrcoef(x, y)[0, 1]) if varies else 0.0
        found.append(
            {
                "a": a,
                "b": b,
                "similarity": float(similarity[a, b]),
                "correlation": correlation,
                "sign": -1 if correlation < 0 else 1,
                "kl_a": float(kl[0][a]),
                "kl_b": float(kl[1][b]),
                "off": not bool(active[a, b]),
            }
        )
    return sorted(found, key=lambda row: (row["off"], -row["similarity"]))


def _sentences(rows: list[dict[str, Any]]) -> list[str]:
    """Return how many latents match, and how well."""
    active = [row for row in rows if not row["off"]]
    if not active:
        return ["No pair of active latents: at least one of the models uses none."]
    strong = sum(abs(row["correlation"]) > 0.9 for row in active)
    return [
        f"{len(active)} {'pair' if len(active) == 1 else 'pairs'} of active latents. "
        f"{strong} of them {'is' if strong == 1 else 'are'} correlated above 0.9, "
        f"{sum(row['sign'] < 0 for row in active)} with the sign turned; the mean absolute correlation is "
        f"{np.mean([abs(row['correlation']) for row in active]):.2f}."
    ]


def _heat(similarity: NDArray[np.float64], labels: list[str], active: list[NDArray[np.bool_]]) -> Chart:
    """Return the chart of similarities."""
    rows, columns = (np.flatnonzero(one) if one.any() else np.arange(len(one)) for one in active)
    shown = similarity[np.ix_(rows, columns)]
    limits = (0.0, max(1.0, float(shown.max(initial=0.0))))
    names = (tuple(map(str, rows)), tuple(map(str, columns)))
    heat = Heat(f"rows: {labels[0]}", *names, shown, limits=limits, column_label=f"columns: {labels[1]}")
    return Chart("heat", (heat,), "similarity (lasso weight)")


def _traversals(
    runs: Any, codes: list[NDArray[np.float32]], rows: list[dict[str, Any]]
) -> tuple["Figure", tuple[dict[str, Any], ...]]:
    """Draw traversals of matched latents for print, and return them for the page as well."""
    from karenina.drawing.figure import Figure

    shown = [row for row in rows if not row["off"]] or rows[:1]
    pictures = []
    for row in shown:
        for run, mean, latent, sign in ((runs[0], codes[0], "a", 1), (runs[1], codes[1], "b", row["sign"])):
            values = sign * np.linspace(-run.prior_span(), run.prior_span(), STEPS)
            pictures.append(move_latents(run, mean[0], [row[latent]], [values])[0])
    pixels = mosaic(np.stack(pictures))
    figure = Figure(figsize=(4.5, 0.5 * len(pictures) + 0.3), layout="constrained")
    axis: Any = figure.subplots()
    names = [text for row in shown for text in (f"A {row['a']}", f"{'−' if row['sign'] < 0 else ''}B {row['b']}")]
    show_rows(axis, pixels, names, FONT)
    off = [row["off"] for row in shown for _ in "ab"]
    return figure, ({"label": "A above B", "rows": names, "off": off, "picture": picture(pixels)},)
