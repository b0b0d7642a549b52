"""The choice of a model without labels: which to pick, if any, how sure that is, and whether labels agree."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from karenina._active import near_threshold
from karenina.numerics.resampling import least_for_interval, spearman
from karenina.pages.better import with_comparison
from karenina.pages.contents import Contents
from karenina.studies.analyses.charts import plain_number as number

# The scores against which a choice is checked, where the models have them: one of each family of the literature.
_DCI = tuple(f"dci_{model} disentanglement" for model in ("boosted", "forest", "lasso"))
CHECKS = ("mig", *_DCI, "z_min_variance", "sap")
MOST_CHECKS = 4
MOST_TRIED = 10  # models, from the best on, before none is said to be worth picking
IMAGES = 256  # from which a model's reconstructions are judged
LEAST_EXPLAINED = 0.05  # of the variance of pixels: below, a model draws the mean image, whatever it is given
DRAWS = 4000  # of models that are rotated at random
SURE = 0.95
# What a reader of a study without labels asks for first, after the ranking.
LABEL_FREE = ("reconstruction", "kl", "informative_latents")
_LEAST = least_for_interval()


@dataclass(frozen=True)
class Pick:
    """The best model with this many active latents. rank: among all models of its data set."""

    run: str
    label: str
    informative: int
    score: float
    low: float
    high: float
    rank: int
    checks: tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """For one data set. picks: one per number of active latents. checks: names of supervised scores.

    best: the model with the highest score among those that are worth picking. sure, labels: what to think of it, in
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
    known = np.isfinite(values)
    if not known.any():
        return _without_ranking(contents, data, rows, labelled)
    order = np.argsort(-np.where(known, values, -np.inf), kind="stable")
    order = order[known[order]]
    runs = contents.about["run"].to_numpy()[rows]
    active = contents.informative[rows]
    reasons: dict[str, str] = {}

    def worth(i: int) -> bool:
        run = str(runs[i])
        if run not in reasons:
            reasons[run] = why_not(contents, run, int(active[i]), float(values[i]), len(order))
        return not reasons[run]

    chosen = next((int(i) for i in order[:MOST_TRIED] if worth(i)), None)
    first = int(order[0]) if chosen is None else chosen
    agree = _labels(contents, rows, values, first, checks) if labelled else NO_LABELS
    if chosen is None:
        best = contents.about.iloc[rows[order[0]]]
        headline = f"None of these {len(order)} models is worth picking. "
        headline += f"{best['label']} has the highest UDR, {values[order[0]]:.2f}, but {reasons[str(best['run'])]}."
        sure = "Train longer, or with less strength, and look at the reconstructions first."
        return Choice(data, len(rows), headline, str(best["run"]), (), checks, sure, agree, False)
    picks = _picks(contents, rows, values, [int(i) for i in order if int(i) == chosen or active[i] > 0], worth, checks)
    best = contents.about.iloc[rows[chosen]]
    pick = next(pick for pick in picks if pick.run == best["run"])
    latents = f"{pick.informative} of its {best['latents']} latents {'is' if pick.informative == 1 else 'are'} active"
    place = f"the highest of {len(order)} models"
    if pick.rank > 1:
        place = f"number {pick.rank} of {len(order)} models, the first that is worth picking"
    headline = f"Pick {pick.label}: UDR {pick.score:.2f}, {place}; {latents}."
    sure = _how_sure(contents, rows, values, order, pick)
    if pick.rank > 1:
        top = contents.about.iloc[rows[order[0]]]
        sure = f"{top['label']} is not worth picking: {reasons[str(top['run'])]}. {sure}"
    return Choice(data, len(rows), headline, str(best["run"]), picks, checks, sure, agree)


NO_LABELS = "There are no labels, so nothing here checks the choice: look at the traversals."


def check_scores(contents: Contents) -> tuple[str, ...]:
    present = {contents.scores.names[j] for j in contents.scores.columns(supervised=True)}
    found = [name for name in CHECKS if name in present]
    dci = [name for name in found if name.startswith("dci")]
    found = [name for name in found if name not in dci[1:]]
    found += [contents.scores.names[j] for j in contents.scores.columns(supervised=True)][: MOST_CHECKS - len(found)]
    return tuple(dict.fromkeys(found))[:MOST_CHECKS]


def _picks(
    contents: Contents,
    rows: NDArray[np.int64],
    values: NDArray[np.float64],
    order: list[int],
    worth: Callable[[int], bool],
    checks: tuple[str, ...],
) -> tuple[Pick, ...]:
    informative = contents.informative[rows]
    found: dict[int, Pick] = {}
    tried: dict[int, int] = {}
    for i in order:
        if informative[i] in found or tried.get(informative[i], 0) >= MOST_TRIED:
            continue
        tried[informative[i]] = tried.get(informative[i], 0) + 1
        if not worth(i):
            continue
        rank = int((values > values[i]).sum()) + 1
        about = contents.about.iloc[rows[i]]
        low, high, _ = contents.intervals.get(about["run"], (np.nan, np.nan, 0))
        scores = tuple(float(contents.score(name)[rows[i]]) for name in checks)
        names = (str(about["run"]), str(about["label"]))
        found[informative[i]] = Pick(*names, int(informative[i]), float(values[i]), low, high, rank, scores)
    return tuple(found[count] for count in sorted(found))


def _how_sure(
    contents: Contents, rows: NDArray[np.int64], values: NDArray[np.float64], order: NDArray[np.int64], chosen: Pick
) -> str:
    runs = contents.about["run"].to_numpy()[rows]
    compared_with = contents.intervals.get(chosen.run, (np.nan, np.nan, 0))[2]
    a2a = (contents.ranked_by or "").endswith("a2a")
    compared = f"{compared_with} other {'model' if a2a else 'seed'}{'' if compared_with == 1 else 's'}"
    compared += "" if a2a else " of its setting"
    sentences = []
    if np.isfinite(chosen.low):
        others = [str(runs[i]) for i in order if runs[i] != chosen.run]
        reach = sum(contents.intervals.get(run, (0, -np.inf, 0))[1] >= chosen.low for run in others)
        sentences.append(
            f"Compared with {compared}, its UDR lies in [{chosen.low:.2f}, {chosen.high:.2f}] (95 %); "
            f"the intervals of {reach} of the other {len(others)} models reach into it."
        )
    elif compared_with:
        sentences.append(f"It was compared with {compared}; an interval that covers in 95 % needs {_LEAST}.")
    if chosen.informative > 1:
        limit = chance(chosen.informative, partners(contents, chosen.run), len(order))
        words = rotated(chosen.informative, len(order))
        sentences.append(f"{words[0].upper()}{words[1:]} {limit:.2f} (95 %).")
    near = near_threshold((contents.codes(str(run))[1] for run in runs), contents.kl_threshold)
    sentences += [f"{near}."] if near else []
    share = _between(values[order], contents.about["setting"].to_numpy()[rows][order])
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
    """1 - the squared error of a run's reconstructions over that of the mean image; NaN where that cannot be had."""
    from karenina.training import open as open_run

    data = str(contents.about.loc[run, "data"])
    try:
        images = contents.inputs(data).images[:IMAGES].astype(np.float64) / 255
        opened = open_run(contents.paths[run])
        codes = np.array(contents.codes(run)[0][: len(images)], dtype=np.float32)
    except (ValueError, OSError):
        return float("nan")
    if images.shape[1:] != tuple(opened.config.image_shape):
        return float("nan")
    error = float(((opened.decode(codes) - images) ** 2).sum())
    spread = float(((images - images.mean(axis=0)) ** 2).sum())
    return 1 - error / spread if spread > 0 else float("nan")


def chance(latents: int, partners: int = 1, models: int = 1) -> float:
    """What the highest UDR of so many models stays below in 95 % of cases when all of them share so many latents, each
    up to a random rotation of its own. partners: with how many each is compared.

    The UDR of two such models (Duan et al. 2020, equation 2) is drawn. The median of P draws lies below their
    q-quantile with the probability I_q((P + 1) / 2, (P + 1) / 2), and the highest of M medians with its M-th power.

    >>> chance(1)
    1.0
    >>> chance(10) < chance(3) < chance(3, models=20), chance(3, partners=9) < chance(3)
    (True, True)
    """
    half = (partners + 1) / 2
    return float(np.quantile(_rotated(latents), betaincinv(half, half, SURE ** (1 / models))))


@cache
def _rotated(latents: int) -> NDArray[np.float64]:
    """The UDR of pairs of models that differ by a random rotation, many times."""
    turned = np.abs(np.linalg.qr(np.random.default_rng(0).normal(size=(DRAWS, latents, latents)))[0])
    found = [(turned.max(axis=axis) ** 2 / turned.sum(axis=axis)).mean(axis=1) for axis in (1, 2)]
    return np.clip(np.mean(found, axis=0), 0, 1)


def why_not(contents: Contents, run: str, active: int, udr: float, models: int) -> str:
    """Why a run is not worth picking as the best of so many models; "" where it is."""
    if active == 0:
        return f"no latent is active (none has a KL above {contents.kl_threshold:g} nats)"
    share = explained(contents, run)
    if share < LEAST_EXPLAINED:
        part = f"explain {100 * share:.0f} % of the variance of the pixels" if share > 0.005 else "explain nothing"
        return f"its reconstructions are no better than the mean image: they {part}"
    if active > 1 and udr <= (limit := chance(active, partners(contents, run), models)):
        return f"its seeds agree no more than chance: UDR {udr:.2f}, where {rotated(active, models)} {limit:.2f} (95 %)"
    return ""


def partners(contents: Contents, run: str) -> int:
    """With how many models a run was compared; 1 where that is not known, which asks most of it."""
    return contents.intervals.get(run, (0.0, 0.0, 0))[2] or 1


def rotated(active: int, models: int) -> str:
    best = f"the best of {models} models" if models > 1 else "a model"
    return f"{best} with {active} latents rotated at random has up to"
