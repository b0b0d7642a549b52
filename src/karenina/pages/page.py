"""A report as one HTML page that carries everything: `report` for a study or some runs, `show` for one run.

The page is written beside a folder `figures` with its tables as CSV and, on request, its figures as PNG and PDF.
"""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from karenina._files import sweep
from karenina.drawing.charts import four_digits
from karenina.drawing.pictures import save_reconstructions, traverse
from karenina.evaluation.scoring import data_of
from karenina.metrics.registry import score_name
from karenina.pages.choice import DataSetChoice, choices
from karenina.pages.contents import Contents, read
from karenina.pages.figures import Section, sections
from karenina.pages.model import details, priority
from karenina.pages.template import render, save, versions
from karenina.studies.analyses.scores import ASIDE, WORDS
from karenina.studies.plan import kind_of
from karenina.studies.study import TASK
from karenina.training.run import Run, as_run
from karenina.training.run import open as open_run

POINTS, FEW_POINTS = 60, 24  # of a learning curve
MANY = 500  # models, beyond which curves have few points
TERMS = ("loss", "reconstruction", "kl")
MEGABYTES = 20.0
UNCHECKED = "nothing on this page was checked against true factors"
Say = Callable[[str], None]


def report(
    paths: Run | str | os.PathLike[str] | Sequence[Run | str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    figures: bool = True,
    files: bool = False,
    megabytes: float = MEGABYTES,
    metrics: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Say | None = None,
) -> Path:
    """Write the page of a study, or of runs.

    Parameters
    ----------
    paths : path, Run, or sequence of them
        The directory of a study, runs or their directories, or a directory that holds runs.
    out : path, optional
        Folder for the page; by default `report` in the study's directory or in the first one given.
    figures : bool
        With the analyses, which take most of the time.
    files : bool
        Also write every figure as PNG and PDF, fit to print, into the folder `figures` beside the page.
    megabytes : float
        A larger page has fewer models with live latents, until it is not larger or there are none.
    metrics : sequence of str, optional
        Which to compute for runs, by default all; a study has its own.
    data, data_dir
        As in `karenina.rank`, for runs.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    Path
        The page. Of a study that is unfinished, has failures, or has no labels it says so.

    >>> import karenina
    >>> run = karenina.train("blobs", "vae", latents=2, steps=2, out="runs/a")
    >>> report("runs/a", metrics=["mig"]).as_posix()
    'runs/a/report/index.html'
    """
    if not megabytes > 0:
        raise ValueError(f"megabytes must be above 0, got {megabytes!r}")
    listed = list(paths) if isinstance(paths, Sequence) and not isinstance(paths, str) else [paths]
    given = [_directory(path) for path in listed]
    if not given:
        raise ValueError("expected the directory of a study, or those of runs")
    where = Path(out) if out is not None else given[0] / "report"
    if len(given) == 1 and (kind := kind_of(given[0])) is not None:
        return kind.report(given[0], where)
    contents = read(given, data_dir, metrics, data)
    return write(contents, where, progress, figures=figures, files=files, megabytes=megabytes)


def _directory(run: Run | str | os.PathLike[str]) -> Path:
    """Return the directory of a run."""
    if not isinstance(run, str | os.PathLike):
        run = as_run(run)
    path = run if isinstance(run, str | os.PathLike) else run.path
    if path is None:
        raise ValueError(f"{run} was trained without out=, so it has no directory to report on")
    return Path(path)


def show(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    span: str = "prior",
    seed: int = 0,
    metrics: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Write the page of one run, and beside it traversal.png, traversal.gif and reconstructions.png.

    span: what the traversal pictures move over, the "prior" ([-2, 2]; InfoGAN: [-1, 1]) or the "posterior". seed: which
    images they show. metrics: which to compute (all). data: the path of its data set, if it is your own.
    """
    opened = open_run(run)
    folder = Path(out) if out is not None else Path(run) / "report"
    images, _ = data_of(opened, data, data_dir).sample(500, seed)
    contents = read([run], data_dir, metrics, data)
    name = str(contents.about["run"].iloc[0])
    shown = details(contents, [name])
    # The count of active latents, and their names, are those of the page, which saw more images.
    traversal = traverse(opened, images, span=span, kl=contents.codes(name)[1], kl_threshold=contents.kl_threshold)
    traversal = replace(traversal, names=tuple(_named(shown[name]["names"][latent]) for latent in traversal.order))
    for file in ("traversal.png", "traversal.gif"):
        traversal.save(folder / file)
    save_reconstructions(opened, images[:10], folder / "reconstructions.png")
    c = opened.config
    where = shlex.quote(os.path.relpath(run))
    extra = f" --data {shlex.quote(str(data))}" if data is not None else ""
    contents = replace(
        contents,
        title=f"{Path(c.data).name}: {contents.about['label'].iloc[0]}",
        commands=(contents.commands[0], f"karenina show {where}{extra}"),
    )
    about = [f"{c.latents} latents, {int(contents.active[0])} of them active", f"network {c.network}"]
    values = {
        **_page(contents, choices(contents), shown, []),
        "subtitle": f"{', '.join(about)}; {c.steps:,} steps",
        "notes": [
            *contents.notes,
            *([] if contents.scores.columns(supervised=True) else [f"This model has no labels: {UNCHECKED}."]),
        ],
        "models_heading": "What it has learnt",
        "models_sentence": "Move a latent and see what it does. Inactive latents do nothing, and are grey.",
    }
    return save(folder, render(values))


def _named(guess: list[Any] | None) -> str:
    """Return how a picture names a latent: "x 0.92", a word, or "inactive"."""
    if guess is None:
        return "inactive"
    return " ".join([guess[0] or "unclear", *(f"{value:.2f}" for value in guess[1:])])


def write(
    contents: Contents,
    out: Path,
    progress: Say | None = None,
    *,
    figures: bool = True,
    files: bool = False,
    megabytes: float = MEGABYTES,
    found: list[DataSetChoice] | None = None,
) -> Path:
    """Write out/index.html and out/figures/. found: the choices, where they are known."""
    say: Say = progress or (lambda text: None)
    for folder in (out, out / "figures"):
        sweep(folder)
    shown: dict[str, dict[str, Any]] = {}
    if found is None:
        found = choices(contents) if len(contents.frame) else []
    if len(contents.frame):
        say(f"pictures of {len(contents.about)} models")
        first = [run for choice in found for run in [choice.best, *(pick.run for pick in choice.picks)]]
        shown = details(contents, priority(contents, first))
        say("figures")
    parts = sections(contents, out / "figures", say, files=files) if len(contents.frame) and figures else []
    page = _fit(lambda kept: render(_page(contents, found, kept, parts)), shown, megabytes)
    return save(out, page)


def _fit(make: Callable[[dict[str, Any]], str], shown: dict[str, dict[str, Any]], megabytes: float) -> str:
    """Return the page, with fewer decoders until it is not larger."""
    page = make(shown)
    while len(page.encode()) > 1e6 * megabytes:
        carriers = [run for run, one in shown.items() if one["decoder"]]
        if not carriers:
            break
        for run in carriers[len(carriers) // 2 :]:
            shown[run] = {**shown[run], "decoder": None}
        page = make(shown)
    return page


def _page(
    contents: Contents, found: list[DataSetChoice], shown: dict[str, dict[str, Any]], parts: list[Section]
) -> dict[str, Any]:
    """Return the values of the template for the page of all models."""
    models = len(contents.about) if len(contents.frame) else 0
    notes = list(contents.notes)
    if not models:
        notes.append("There is no finished model yet, so there is nothing to show.")
    elif not contents.scores.columns(supervised=True):
        notes.append(f"These models have no labels: {UNCHECKED}.")
    if models == 1:
        notes.append("There is one model, so nothing is ranked or compared.")
    headings: list[tuple[str, str]] = [("answer", "The answer")] if models > 1 else []
    headings += [("models", "Every model"), ("model", "One model")] if models > 1 else [("model", "The model")] * models
    headings += [("curves", "Learning curves")] if models else []
    headings += [(part.id, part.title) for part in parts] + [("how", "How it was made")]
    return {
        "title": contents.title,
        "subtitle": _subtitle(contents) if models else "no finished models",
        "sections": headings,
        "notes": notes,
        "choices": found if models > 1 else (),
        "has_models": bool(models),
        "several": models > 1,
        "models_heading": "Every model" if models > 1 else "The model",
        "models_sentence": _models_sentence(models, shown),
        "figure_sections": parts,
        "how": _how(contents) if models else (),
        "commands": contents.commands,
        "plan": contents.plan,
        "versions": versions(),
        "problems": contents.problems,
        "data": embedded(contents, found, shown, parts) if models else {},
    }


def embedded(
    contents: Contents, found: list[DataSetChoice], shown: dict[str, dict[str, Any]], parts: list[Section]
) -> dict[str, Any]:
    """Return what the scripts of a page read: models, scores, learning curves, charts and details of some models."""
    about, table = contents.about, contents.scores
    supervised = set(table.columns(supervised=True))
    scores = [
        {
            "name": WORDS.get(name, name),
            "supervised": j in supervised,
            "values": [four_digits(v) for v in table.values[:, j]],
        }
        for j, name in enumerate(table.names)
        if np.isfinite(table.values[:, j]).any()
    ]
    columns = ("run", "label", "method", "parameter", "data")
    models = {name: about[name].astype(str).tolist() for name in columns}
    models |= {name: about[name].astype(int).tolist() for name in ("seed", "latents")}
    models["informative"] = contents.active.tolist()
    models["strength"] = [four_digits(value) for value in about["strength"]]
    return {
        "models": models,
        "scores": scores,
        "factors": _per_factor(contents),
        "details": shown,
        "live": sum(one["decoder"] is not None for one in shown.values()),
        "order": _order(contents),
        "ranked": contents.ranked_by is not None,
        "picks": [pick.run for choice in found for pick in choice.picks],
        "best": found[0].best,
        "axes": _axes(contents, found),
        "checks": list(found[0].checks) if found else [],
        "curves": curves(contents),
        "charts": charts_of(parts),
    }


def charts_of(parts: list[Section]) -> dict[str, Any]:
    """Return the charts of figures by their names, of those that have one."""
    return {one.name: one.chart for part in parts for one in part.figures if one.chart is not None}


def _order(contents: Contents) -> list[int]:
    """Return models from best to worst, those without a score last."""
    by = contents.ranked_by
    values = contents.score(by) if by else np.zeros(len(contents.about))
    return [int(i) for i in np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")]


def _axes(contents: Contents, found: list[DataSetChoice]) -> dict[str, str]:
    """Return the scores that the plot of all models begins with."""
    ranked = contents.ranked_by
    check = found[0].checks[0] if found and found[0].checks else None
    x = ranked or "reconstruction"
    return {"x": x, "y": check or ("active_latents" if ranked else "kl")}


def _per_factor(contents: Contents) -> dict[str, Any]:
    """Return for each data set the names of factors and scores, and of each run the values of all factors by score."""
    found: dict[str, Any] = {}
    parts = contents.frame[(contents.frame["factor"] != "") & ~contents.frame["family"].isin([TASK, *ASIDE])]
    for data, part in parts.groupby("data", sort=False):
        score = [score_name(*pair, several=True) for pair in zip(part["metric"], part["property"].fillna(""))]
        wide = part.assign(score=score).pivot_table(
            index="run", columns=["score", "factor"], values="value", sort=False, dropna=False
        )
        names = list(dict.fromkeys(part["factor"]))
        rows = list(dict.fromkeys(score))
        wide = wide.reindex(columns=[(row, name) for row in rows for name in names])
        values = {str(run): [four_digits(v) for v in line] for run, line in zip(wide.index, wide.to_numpy())}
        found[str(data)] = {"names": names, "scores": rows, "values": values}
    return found


def curves(contents: Contents) -> dict[str, Any]:
    """Return {"terms", "steps": [grid, ...], "grid": [which of these, per model], "values": {term: [[...] per model]}}.

    Models are in the order of `contents.about`; one without a history has null.
    """
    import pyarrow.parquet as pq

    points = POINTS if len(contents.about) <= MANY else FEW_POINTS
    grids: dict[tuple[int, ...], int] = {}
    which: list[int | None] = []
    tables: list[dict[str, list[float | None]]] = []
    for name in contents.about["run"]:
        file = contents.paths[name] / "history.parquet"
        try:
            schema = pq.read_schema(file).names
            table = pq.read_table(file, columns=["step", *(term for term in schema if _is_term(term))])
            step = table["step"].to_numpy()
        except Exception:  # damaged files make their parsers raise anything; a page without this curve is still a page
            which.append(None)
            tables.append({})
            continue
        kept = np.unique(np.linspace(0, len(step) - 1, min(points, len(step))).round().astype(int))
        grid = tuple(int(value) for value in step[kept])
        which.append(grids.setdefault(grid, len(grids)))
        tables.append(
            {
                term: [four_digits(v) for v in table[term].to_numpy()[kept]]
                for term in table.column_names
                if term != "step"
            }
        )
    terms = list(dict.fromkeys([*TERMS, *(term for table in tables for term in table)]))
    terms = [term for term in terms if any(term in table for table in tables)]
    if len(tables) > MANY:
        terms = [term for term in terms if term in TERMS]
    return {
        "terms": terms,
        "steps": [list(grid) for grid in grids],
        "grid": which,
        "values": {term: [table.get(term) for table in tables] for term in terms},
    }


def _is_term(name: str) -> bool:
    """Return whether a column of a history is the loss or a part of it, not the KL of a latent."""
    return name != "step" and not name.removeprefix("kl_").isdigit()


def _subtitle(contents: Contents) -> str:
    """Return what is counted under the title."""
    about = contents.about
    counts = [(len(about), "model"), (about["seed"].nunique(), "seed"), (about["setting"].nunique(), "setting")]
    words = [_count(number, name) for number, name in counts]
    data = sorted({Path(name).name for name in about["data"]})
    return f"{', '.join(words)}; {', '.join(sorted(set(about['method'])))} on {', '.join(data)}"


def _count(number: int, name: str) -> str:
    """Return a number with a noun."""
    return f"{number} {name}{'s' if number != 1 else ''}"


def _models_sentence(models: int, shown: dict[str, dict[str, Any]]) -> str:
    """Return what can be done with the table of models, and how many have pictures and live latents."""
    live = sum(one["decoder"] is not None for one in shown.values())
    text = "A row of the table and a point of the plot are a model. Open one to see what it has learnt and to move its"
    text += " latents."
    if len(shown) < models:
        text += f" To keep the page small, {len(shown)} of the {models} models have pictures."
    if live < models:
        text += f" {live} of the {models} have live latents: the picks, the best of each setting, then both ends"
        text += " of the ranking."
    return text


def _how(contents: Contents) -> list[str]:
    """Return how the models were made, and what words on the page mean."""
    about = contents.about
    settings = about.groupby("method")["setting_label"].nunique()
    names = ", ".join(f"{name} ({_count(number, 'setting')})" for name, number in settings.items())
    seeds = sorted(int(seed) for seed in about["seed"].unique())
    listed = ", ".join(map(str, seeds[:20])) + (", ..." if len(seeds) > 20 else "")
    steps = ", ".join(f"{n:,}" for n in sorted(about["steps"].unique()))
    texts = []
    if len(about) > 1:
        networks = ", ".join(sorted(set(about["network"])))
        texts.append(f"Methods: {names}. Seeds: {listed}. Steps: {steps}. Networks: {networks}.")
    others = {"infogan": "[-1, 1] for InfoGAN", "qlae": "the range of the learned values for QLAE"}
    named = [words for method, words in others.items() if (about["method"] == method).any()]
    bounded = f" ({', '.join(named)})" if named else ""
    words = [f"A latent is active when its KL from the prior exceeds {contents.kl_threshold:g} nats."]
    words.append(f"Traversals move one latent over [-2, 2]{bounded} and keep the others where an image put them.")
    if contents.ranked_by:
        words.append(
            f"UDR ({contents.ranked_by}) is the median similarity of a model's latents to those of its partners on the "
            "same images (Duan et al., 2020). Intervals are 95 %: of UDR, from order statistics of the partners; of "
            "all else, bootstrap percentiles."
        )
    return [*texts, " ".join(words)]
