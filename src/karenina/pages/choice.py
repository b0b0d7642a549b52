"""The choice of a model without labels: which to pick, if any, how sure that is, and whether labels agree."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from karenina._active import CLEARLY, near_threshold
from karenina.drawing.charts import plain_number as number
from karenina.evaluation.scoring import explained_variance
from karenina.numerics.resampling import spearman
from karenina.pages.better import with_comparison
from karenina.pages.contents import Contents
from karenina.selection.choice import NO_TRUST, choose, headline
from karenina.selection.choice import Choice as Chosen

# The scores against which a choice is checked, where the models have them: one of each family of the literature.
_DCI = tuple(f"dci_{model} disentanglement" for model in ("boosted", "forest", "lasso"))
CHECKS = ("mig", *_DCI, "z_min_variance", "sap")
MOST_CHECKS = 4
# What a reader of a study without labels asks for first, after the ranking.
LABEL_FREE = ("reconstruction", "kl", "informative_latents")


# The strongest rank correlation of two latents that still counts as independence: a medium one (Cohen, 1988).
MOST_CORRELATED = 0.3
LEADERS = 5


@dataclass(frozen=True)
class Pick:
    """A model. score: its UDR. rank: among all models of its data set. chance: the UDR that chance alone explains."""

    run: str
    label: str
    informative: int
    score: float
    low: float
    high: float
    rank: int
    checks: tuple[float, ...]
    chance: float


@dataclass(frozen=True)
class Reading:
    """A number about the chosen model beside its threshold. holds: whether it is on the right side of it."""

    name: str
    value: float
    threshold: str
    holds: bool
    text: str


@dataclass(frozen=True)
class Choice:
    """For one data set. picks: one per number of active latents. leaders: the first of the ranking.

    best: the model with the highest score among those that are worth picking. checks: names of supervised scores.
    readings: how it fares, in numbers. level: how sure that is, in a word. sure, labels: what to think of it, in
    sentences with this study's numbers. worth: False when no model is worth picking; the headline then says why.
    """

    data: str
    models: int
    headline: str
    best: str
    picks: tuple[Pick, ...]
    checks: tuple[str, ...]
    sure: str
    labels: str
    worth: bool = True
    level: str = ""
    readings: tuple[Reading, ...] = ()
    leaders: tuple[Pick, ...] = ()

    @property
    def bounded(self) -> bool:
        """Whether any pick has an interval."""
        return any(np.isfinite(pick.low) for pick in self.picks)


def choices(contents: Contents) -> list[Choice]:
    """The choice for each data set."""
    found = [(_choose(contents, str(data[0]), rows), rows) for data, rows in contents.scores.groups("data")]
    return [with_comparison(contents, choice, rows) for choice, rows in found]


def _choose(contents: Contents, data: str, rows: NDArray[np.int64]) -> Choice:
    supervised = contents.scores.values[rows][:, contents.scores.columns(supervised=True)]
    labelled = bool(np.isfinite(supervised).any())  # on this data set; another may have labels
    checks = check_scores(contents) if labelled else ()
    by = contents.ranked_by
    values = contents.score(by)[rows] if by else np.full(len(rows), np.nan)
    if not np.isfinite(values).any():
        return _without_ranking(contents, data, rows, labelled)
    about = contents.about.iloc[rows]
    runs, settings = about["run"].astype(str).tolist(), about["setting"].astype(str).tolist()
    active = [int((contents.codes(run)[1] > CLEARLY * contents.kl_threshold).sum()) for run in runs]
    within, across = (_first_version(contents, a2a=a2a)[rows] for a2a in (False, True))
    found = choose(settings, active, within, across, lambda i: explained(contents, runs[i]))
    first = found.order[0]
    row = about.iloc[first]
    distinct = _distinct(contents, data)
    verdict = found.judge(str(row["setting_label"]), distinct, int(row["steps"]))
    agree = _labels(contents, rows, values, first, checks) if labelled else NO_LABELS
    agreement = found.agreement(first)
    udr = agreement.udr if agreement is not None else float("nan")
    said = headline(str(row["label"]), active[first], int(row["latents"]), udr, verdict.chance, len(rows))
    worth = verdict.level != NO_TRUST
    numbers = _readings(contents, rows, found, checks) if found.best is not None else ()
    each = {i: _pick(contents, rows, values, found, checks, rank) for rank, i in enumerate(found.order, start=1)}
    picks: dict[int, Pick] = {}
    for i, pick in each.items():
        setting = found.agreement(i)
        if i not in found.unusable and setting is not None and setting.value > 0:
            picks.setdefault(pick.informative, pick)
    if worth:
        sure = f"{verdict} {_how_sure(contents, rows, values, found)}"
    else:
        said = f"None of these {len(rows)} models is worth picking. {verdict.why}"
        sure = "Train more seeds, longer, or with other strengths, and look at the reconstructions first."
    listed = tuple(picks[count] for count in sorted(picks)) if worth else ()
    leaders = tuple(each[i] for i in found.order[:LEADERS])
    return Choice(
        data, len(rows), said, runs[first], listed, checks, sure, agree, worth, verdict.level, numbers, leaders
    )


def _first_version(contents: Contents, *, a2a: bool) -> NDArray[np.float64]:
    """Return UDR of every run, within settings or of all to all, by the first version of it that the models have."""
    found = (contents.score(name) for name in contents.versions if name.endswith("a2a") == a2a)
    return next((values for values in found if np.isfinite(values).any()), np.full(len(contents.about), np.nan))


def _distinct(contents: Contents, data: str) -> int | None:
    """Return how many different images the models were compared on; None where they are gone."""
    try:
        images = contents.inputs(data).images
    except (ValueError, OSError):
        return None
    return len({hashlib.sha256(np.ascontiguousarray(image).tobytes()).digest() for image in images})


NO_LABELS = "There are no labels, so nothing here checks the choice: look at the traversals."


def check_scores(contents: Contents) -> tuple[str, ...]:
    present = {contents.scores.names[j] for j in contents.scores.columns(supervised=True)}
    found = [name for name in CHECKS if name in present]
    dci = [name for name in found if name.startswith("dci")]
    found = [name for name in found if name not in dci[1:]]
    found += [contents.scores.names[j] for j in contents.scores.columns(supervised=True)][: MOST_CHECKS - len(found)]
    return tuple(dict.fromkeys(found))[:MOST_CHECKS]


def _pick(
    contents: Contents,
    rows: NDArray[np.int64],
    values: NDArray[np.float64],
    choice: Chosen,
    checks: tuple[str, ...],
    rank: int,
) -> Pick:
    i = choice.order[rank - 1]
    about, agreement = contents.about.iloc[rows[i]], choice.agreement(i)
    low, high, _ = contents.intervals.get(about["run"], (np.nan, np.nan, 0))
    scores = tuple(float(contents.score(name)[rows[i]]) for name in checks)
    limit = agreement.chance if agreement is not None else float("nan")
    return Pick(
        str(about["run"]), str(about["label"]), choice.active[i], float(values[i]), low, high, rank, scores, limit
    )


def _readings(
    contents: Contents, rows: NDArray[np.int64], choice: Chosen, checks: tuple[str, ...]
) -> tuple[Reading, ...]:
    """Return what is known of the chosen model: agreement, independence, and labels where there are any."""
    first, found = choice.order[0], []
    agreement = choice.agreement(first)
    if agreement is not None:
        text = f"UDR of its {agreement.seeds} seeds" if agreement.seeds > 1 else "its UDR with all other models"
        limit = f"chance reaches {agreement.chance:.2f}"
        found.append(Reading("agreement", agreement.udr, limit, agreement.value > 0, text))
    codes, kl = contents.codes(str(contents.about["run"].iloc[rows[first]]))
    active = np.array(codes)[:, kl > contents.kl_threshold]
    if active.shape[1] > 1:
        most = float(np.abs(np.triu(spearman(active.astype(float))[0], 1)).max())
        limit = f"{MOST_CORRELATED:.1f} at most"
        text = "the strongest rank correlation of two latents"
        found.append(Reading("independence", most, limit, most <= MOST_CORRELATED, text))
    if checks:
        values = contents.score(checks[0])[rows]
        if np.isfinite(values[first]) and np.isfinite(values).sum() > 1:
            place, known = int((values > values[first]).sum()) + 1, int(np.isfinite(values).sum())
            mean = float(np.nanmean(values))
            text = f"{checks[0]}, which the choice did not see: number {place} of {known}"
            found.append(Reading("labels", float(values[first]), f"the mean is {mean:.2f}", values[first] > mean, text))
    return tuple(found)


def _how_sure(contents: Contents, rows: NDArray[np.int64], values: NDArray[np.float64], choice: Chosen) -> str:
    """Return what else to know of the choice: the model that was passed over, latents in doubt, settings or seeds."""
    about = contents.about.iloc[rows]
    sentences = []
    known = np.isfinite(values)
    top = int(np.argmax(np.where(known, values, -np.inf)))
    if top != choice.order[0]:
        same = choice.settings[top] == choice.settings[choice.order[0]]
        why = choice.unusable.get(top) or (
            "it agrees less with the models of other settings" if same else choice.why_not(choice.settings[top])
        )
        sentences.append(f"{about.iloc[top]['label']} has the highest UDR, {values[top]:.2f}, but {why}.")
    near = near_threshold((contents.codes(str(run))[1] for run in about["run"]), contents.kl_threshold)
    sentences += [f"{near}."] if near else []
    share = _between(values[known], about["setting"].to_numpy()[known])
    if np.isfinite(share):
        sentences.append(
            f"{100 * share:.0f} % of the variance of UDR lies between settings rather than between seeds: "
            f"trust it {'to choose a setting more than a seed' if share > 0.5 else 'for single models with care'}."
        )
    sentences.append("UDR does not reward finding more factors, hence one pick for each number of active latents.")
    return " ".join(sentences)


def _between(values: NDArray[np.float64], groups: NDArray[np.object_]) -> float:
    """Share of the variance between groups; NaN where that says nothing."""
    labels, counts = np.unique(groups.astype(str), return_counts=True)
    total = ((values - values.mean()) ** 2).sum()
    if len(labels) < 2 or counts.max() < 2 or total == 0:
        return float("nan")
    within = sum(((values[groups == g] - values[groups == g].mean()) ** 2).sum() for g in labels)
    return float(1 - within / total)


def _labels(
    contents: Contents, rows: NDArray[np.int64], values: NDArray[np.float64], best: int, checks: tuple[str, ...]
) -> str:
    table = np.column_stack([values, *(contents.score(name)[rows] for name in checks)])
    if np.isfinite(table).all(axis=1).sum() < 4:
        return "There are labels, but fewer than four models to compare: too few for a correlation."
    found, low, high = (matrix[0, 1:] for matrix in spearman(table))
    agree = [name for name, bound in zip(checks, low) if bound > 0]
    against = [name for name, bound in zip(checks, high) if bound < 0]
    open_ = [name for name in checks if name not in agree and name not in against]
    parts = [f"{verb} ({', '.join(names)})" for verb, names in (("agree", agree), ("disagree", against)) if names]
    parts += [f"leave it open ({', '.join(open_)})"] if open_ else []
    numbers = "; ".join(f"{n} {number(c)} [{number(a)}, {number(b)}]" for n, c, a, b in zip(checks, found, low, high))
    first = table[:, 1]
    place = int((first > first[best]).sum()) + 1
    label = contents.about["label"].iloc[rows[best]]
    return (
        f"Labels {' and '.join(parts)}. Rank correlation of UDR with them: {numbers}. "
        f"{label} has {checks[0]} {first[best]:.2f}, number {place} of {np.isfinite(first).sum()}; "
        f"the mean is {np.nanmean(first):.2f} and the best {np.nanmax(first):.2f}."
    )


def _without_ranking(contents: Contents, data: str, rows: NDArray[np.int64], labelled: bool) -> Choice:
    why = "UDR compares models that differ by their seed alone, and no two of these do"
    if len(rows) == 1:
        why = "there is one model, and UDR compares models with one another"
    elif contents.study is not None and contents.ranked_by is None:
        why = "UDR is computed when all models of a study are there, for settings of two or more seeds"
    headline = f"No choice without labels: {why}."
    best, labels = str(contents.about.iloc[rows[0]]["run"]), NO_LABELS
    checks = check_scores(contents)
    if labelled:
        values = contents.score(checks[0])[rows]
        if np.isfinite(values).any():
            i = int(np.nanargmax(values))
            best, label = (str(contents.about.iloc[rows[i]][name]) for name in ("run", "label"))
            labels = f"By labels, {label} has {checks[0]} {values[i]:.2f}"
            labels += f", the highest of {len(rows)} models." if len(rows) > 1 else "."
    return Choice(data, len(rows), headline, best, (), checks, "", labels)


def explained(contents: Contents, run: str) -> float:
    """Return the share of the variance of pixels that a run's reconstructions explain; NaN where it cannot be had."""
    from karenina.training import open as open_run

    try:
        images = contents.inputs(str(contents.about.loc[run, "data"])).images
        opened = open_run(contents.paths[run])
        codes = np.array(contents.codes(run)[0][: len(images)], dtype=np.float32)
    except (ValueError, OSError) as error:
        contents.note(f"how much {run} explains of its images: {error}")
        return float("nan")
    if images.shape[1:] != tuple(opened.config.image_shape):
        return float("nan")
    return explained_variance(opened, images, codes)
