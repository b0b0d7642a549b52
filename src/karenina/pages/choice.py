"""The choice of a model without labels: which to pick, if any, how sure that is, and whether labels agree."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import near_threshold
from karenina.drawing.charts import plain_number
from karenina.evaluation.scoring import MODELS, NOISE_REGIMES, NOISED, difference, explained_variance
from karenina.metrics.registry import score_name
from karenina.numerics.resampling import spearman
from karenina.pages.contents import Contents
from karenina.selection.choice import NO_TRUST, Choice, choose_from_codes, headline
from karenina.training.run import open as open_run

# The scores against which a choice is checked, where the models have them: one of each family of the literature.
_DCI = tuple(f"dci_{model} disentanglement" for model in ("boosted", "forest", "lasso"))
CHECKS = ("mig", *_DCI, "z_min_variance", "sap")
MOST_CHECKS = 4
# What a reader of a study without labels asks for first, after the ranking.
LABEL_FREE = ("reconstruction", "kl", "informative_latents")
# Two models are compared by metrics that are quick and of two families.
METRICS = ("mig", "dci_lasso")
ROWS, RESAMPLES, SURE = 2000, 100, 0.05
# The strongest rank correlation of two latents that still counts as independence: a medium one (Cohen, 1988).
MOST_CORRELATED = 0.3
LEADERS = 5


@dataclass(frozen=True)
class Pick:
    """A model that may be taken. score: its UDR. rank: among all models of its data set. chance: the UDR that chance
    alone explains."""

    run: str
    label: str
    active: int
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
class DataSetChoice:
    """The choice among the models of one data set.

    picks: one per number of active latents. leaders: the first of the ranking.
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
        """Return whether any pick has an interval."""
        return any(np.isfinite(pick.low) for pick in self.picks)


def choices(contents: Contents) -> list[DataSetChoice]:
    """Return the choice for each data set."""
    found = [(_choose(contents, str(data[0]), rows), rows) for data, rows in contents.scores.groups("data")]
    return [with_comparison(contents, choice, rows) for choice, rows in found]


def _choose(contents: Contents, data: str, rows: NDArray[np.int64]) -> DataSetChoice:
    """Return the choice among the models in some rows of `contents.about`."""
    supervised = contents.scores.values[rows][:, contents.scores.columns(supervised=True)]
    labelled = bool(np.isfinite(supervised).any())  # on this data set; another may have labels
    checks = check_scores(contents) if labelled else ()
    by = contents.ranked_by
    values = contents.score(by)[rows] if by else np.full(len(rows), np.nan)
    if not np.isfinite(values).any():
        return _without_ranking(contents, data, rows, labelled)
    about = contents.about.iloc[rows]
    runs, settings = about["run"].astype(str).tolist(), about["setting"].astype(str).tolist()
    within, across = (_first_version(contents, a2a=a2a)[rows] for a2a in (False, True))
    known = [contents.codes(run) for run in runs]
    elbo = contents.score("elbo")[rows] if "elbo" in contents.scores.names else None
    found = choose_from_codes(
        [np.asarray(codes) for codes, _ in known],
        [kl for _, kl in known],
        settings,
        lambda i: explained(contents, runs[i]),
        elbo=elbo,
        within=within,
        across=across,
        kl_threshold=contents.kl_threshold,
    )
    first, active = found.order[0], found.active
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
            picks.setdefault(pick.active, pick)
    if worth:
        sure = f"{verdict} {_how_sure(contents, rows, values, found)}"
    else:
        said = f"None of these {len(rows)} models is worth picking. {verdict.why}"
        sure = "Train more seeds, longer, or with other strengths, and look at the reconstructions first."
    listed = tuple(picks[count] for count in sorted(picks)) if worth else ()
    leaders = tuple(each[i] for i in found.order[:LEADERS])
    return DataSetChoice(
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
    """Return the supervised scores against which a choice is checked, of those that the models have."""
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
    choice: Choice,
    checks: tuple[str, ...],
    rank: int,
) -> Pick:
    """Return what the page says of the model of this rank."""
    i = choice.order[rank - 1]
    about, agreement = contents.about.iloc[rows[i]], choice.agreement(i)
    low, high, _ = contents.intervals.get(about["run"], (np.nan, np.nan, 0))
    scores = tuple(float(contents.score(name)[rows[i]]) for name in checks)
    limit = agreement.chance if agreement is not None else float("nan")
    return Pick(
        str(about["run"]), str(about["label"]), choice.active[i], float(values[i]), low, high, rank, scores, limit
    )


def _readings(
    contents: Contents, rows: NDArray[np.int64], choice: Choice, checks: tuple[str, ...]
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


def _how_sure(contents: Contents, rows: NDArray[np.int64], values: NDArray[np.float64], choice: Choice) -> str:
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
    """Return the share of the variance that lies between groups; NaN where that says nothing."""
    labels, counts = np.unique(groups.astype(str), return_counts=True)
    total = ((values - values.mean()) ** 2).sum()
    if len(labels) < 2 or counts.max() < 2 or total == 0:
        return float("nan")
    within = sum(((values[groups == g] - values[groups == g].mean()) ** 2).sum() for g in labels)
    return float(1 - within / total)


def _labels(
    contents: Contents, rows: NDArray[np.int64], values: NDArray[np.float64], best: int, checks: tuple[str, ...]
) -> str:
    """Return how far labels agree with the ranking and what they say of the chosen model."""
    table = np.column_stack([values, *(contents.score(name)[rows] for name in checks)])
    if np.isfinite(table).all(axis=1).sum() < 4:
        return "There are labels, but fewer than four models to compare: too few for a correlation."
    found, low, high = (matrix[0, 1:] for matrix in spearman(table))
    agree = [name for name, bound in zip(checks, low) if bound > 0]
    against = [name for name, bound in zip(checks, high) if bound < 0]
    open_ = [name for name in checks if name not in agree and name not in against]
    parts = [f"{verb} ({', '.join(names)})" for verb, names in (("agree", agree), ("disagree", against)) if names]
    parts += [f"leave it open ({', '.join(open_)})"] if open_ else []
    numbers = "; ".join(
        f"{n} {plain_number(c)} [{plain_number(a)}, {plain_number(b)}]" for n, c, a, b in zip(checks, found, low, high)
    )
    first = table[:, 1]
    place = int((first > first[best]).sum()) + 1
    label = contents.about["label"].iloc[rows[best]]
    return (
        f"Labels {' and '.join(parts)}. Rank correlation of UDR with them: {numbers}. "
        f"{label} has {checks[0]} {first[best]:.2f}, number {place} of {np.isfinite(first).sum()}; "
        f"the mean is {np.nanmean(first):.2f} and the best {np.nanmax(first):.2f}."
    )


def _without_ranking(contents: Contents, data: str, rows: NDArray[np.int64], labelled: bool) -> DataSetChoice:
    """Return the choice where UDR compares no models: by labels if there are any, and why."""
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
    return DataSetChoice(data, len(rows), headline, best, (), checks, "", labels)


def explained(contents: Contents, run: str) -> float:
    """Return the share of the variance of pixels that a run's reconstructions explain; NaN where it cannot be had."""
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


def with_comparison(contents: Contents, choice: DataSetChoice, rows: NDArray[np.int64]) -> DataSetChoice:
    """Return the choice with what labels say of it and of the model next to it, and of the tasks that were measured."""
    sentences = [choice.labels, _next_best(contents, choice, rows), *_tasks(contents, choice, rows)]
    return replace(choice, labels=" ".join(filter(None, sentences)))


def better(
    labels: tuple[str, str],
    first: ArrayLike,
    second: ArrayLike,
    factors: ArrayLike,
    continuous: Any = None,
    seed: int = 0,
) -> str:
    """Say whether the codes `first` (n, d) of a model are better than those of another, in a sentence with the numbers.

    Parameters
    ----------
    labels : two names
    first, second : arrays (n, d), (n, e)
        Codes of the same inputs.
    factors : array (n, k)
    continuous, seed
        As in `karenina.score`.

    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(5, size=(800, 3))
    >>> good, bad = v + 0.1 * rng.normal(size=v.shape), v + 2 * rng.normal(size=v.shape)
    >>> better(("A", "B"), good, bad, v).split(":")[0]
    'On the same 800 inputs A is better than B by mig, dci_lasso informativeness'
    """
    z, other, v = (np.asarray(part)[:ROWS] for part in (first, second, factors))
    found = difference(z, other, v, METRICS, resamples=RESAMPLES, seed=seed, continuous=continuous)
    names = [score_name(metric, prop) for metric, prop in zip(found["metric"], found["property"])]
    parts, numbers = [], []
    for verb, kept in (
        ("is better than", (found["p"] <= SURE) & (found["difference"] > 0)),
        ("is worse than", (found["p"] <= SURE) & (found["difference"] < 0)),
    ):
        if kept.any():
            listed = ", ".join(name for name, keep in zip(names, kept) if keep)
            parts.append(f"{verb} {labels[1]} by {listed}")
    if not parts:
        parts = [f"cannot be told from {labels[1]}"]
    for name, row in zip(names, found.itertuples()):
        bounds = f"{row.difference:+z.2f} [{row.low:+z.2f}, {row.high:+z.2f}]"
        numbers.append(f"{name} {row.a:.2f} against {row.b:.2f}, {bounds}, p {row.p:.2f}")
    said = f"On the same {len(z):,} inputs {labels[0]} {' and '.join(parts)}"
    return f"{said}: {'; '.join(numbers)} (random halves of the rows, 95 %)."


def _next_best(contents: Contents, choice: DataSetChoice, rows: NDArray[np.int64]) -> str:
    """Compare the chosen model with the one that its criterion places next, in a sentence."""
    by = contents.ranked_by
    if not by or not np.isfinite(contents.score(by)[rows]).any():
        by = next(iter(choice.checks), None)
    if by is None or len(rows) < 2:
        return ""
    values, about = contents.score(by)[rows], contents.about.iloc[rows]
    order = [i for i in np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable") if np.isfinite(values[i])]
    others = [i for i in order if about["run"].iloc[i] != choice.best]
    inputs = contents.inputs_at_hand(choice.data) if others and choice.checks else None
    if inputs is None or not inputs.names:
        return ""
    second = about.iloc[others[0]]
    codes = [np.array(contents.codes(str(run))[0][:ROWS]) for run in (choice.best, second["run"])]
    names = (str(about.loc[choice.best, "label"]), f"{second['label']} (next by {by})")
    try:
        return better(names, codes[0], codes[1], inputs.factors[: len(codes[0])], list(inputs.continuous))
    except ValueError as error:  # There are fewer than 20 rows, say: the page stands without it.
        contents.note(f"{names[0]} and {names[1]} were not compared: {error}")
        return ""


def _tasks(contents: Contents, choice: DataSetChoice, rows: NDArray[np.int64]) -> list[str]:
    """Return what was measured of zero-shot inference of the chosen model, and of the order of all by wrong labels."""
    sentences = []
    whole = contents.frame[(contents.frame["factor"] == "") & (contents.frame["data"] == choice.data)]
    own = whole[whole["run"] == choice.best].set_index("metric")["value"]
    errors = [
        f"{own[f'zero_shot_{model}_inside']:.2f} ({model}; {own[f'zero_shot_{model}_outside']:.2f} outside)"
        for model in MODELS
        if f"zero_shot_{model}_inside" in own
    ]
    if errors:
        text = f"In the corner that training left out it predicts factors with NRMSE {' and '.join(errors)}"
        sentences.append(f"{text}; 1 is no better than the mean.")
    wide = whole.pivot_table(index="run", columns="metric", values="value")
    noisy = []
    for metric in NOISED:
        columns = [f"{metric}_noise_{regime}" for regime in NOISE_REGIMES]
        if set(columns) <= set(wide) and len(wide[columns].dropna()) > 2:
            clean, *wrong = wide[columns].dropna().to_numpy().T
            found = [np.corrcoef(clean, other)[0, 1] for other in wrong if np.ptp(clean) > 0 and np.ptp(other) > 0]
            noisy += [f"{metric} {', '.join(f'{value:.2f}' for value in found)}"] if found else []
    if noisy:
        text = "Correlation of scores under wrong labels (three regimes) with those under true ones"
        sentences.append(f"{text}: {'; '.join(noisy)}. UDR and dynamics see no labels.")
    return sentences
